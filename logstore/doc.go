// Package logstore is a cell's log store: what the processes of its containers
// write, kept on the cell's own disk and nowhere else. (Bistro worker protocol,
// getLogs; Diego dev notes, Logs.)
//
// # Order
//
// Every line gets a Position: a number that grows strictly over the whole store
// and stays close to the wall clock in nanoseconds, also over restarts and
// backward steps of the clock. Reading, paging and following are all by
// position; lines of several cells merge by (position, cell).
//
// # Files
//
// The store is a set of append-only segments. The output of small containers
// shares segments; a container that writes more than Config.Promote, or that
// lives through several segments, gets segments of its own.
//
//	active ──full, container ended, or closed──▶ sealed ──limit or age──▶ collected
//	(data, index in memory)          (data and index on disk)     (index only: what was lost is still known)
//
// A segment is a run of chunks, each with a checksum; one Write is one chunk and
// one system call, so that a line is readable as soon as Write returns and
// survives the death of the cell. After a crash Open cuts a torn tail, seals what
// was active and goes on: it never refuses because of what the files hold.
//
// # Lines
//
// Lines have any length and any bytes. A line becomes visible when it is complete
// or when its writer is closed. The text, and whether a newline ended it, give
// the raw bytes back exactly. Lines longer than Config.MaxLine are handed out in
// pieces that say that they continue. What is missing (rate limit, full disk,
// removed segments) stands in the stream as a Gap with byte counts.
//
// # Who may call
//
// The executor opens one Writer per container and stream; the API reads with
// Query and Follow and joins several cells with Merge. All methods are safe for
// concurrent use; lines that several goroutines write in pieces to one Writer mix.
package logstore

// Package logstore is a cell's log store: the output of the processes in its containers, stored
// only on the cell's own disk. (Bistro worker protocol, getLogs; Diego dev notes, Logs.)
//
// # Order
//
// Every line gets a Position: a number that grows strictly over the whole store and stays close to
// the wall clock in nanoseconds, also over restarts and backward steps of the clock. Reading,
// paging and following all use the position; lines of several cells merge by (position, cell).
//
// # Files
//
// The store is a set of append-only segments. The output of small containers shares segments; a
// container that writes more than Config.Promote, or that lives through several segments, gets its
// own.
//
//	active ──full, container ended, or closed──▶ sealed ──limit or age──▶ collected
//	(data, index in memory)          (data and index on disk)     (index only: the loss is still known)
//
// A segment is a sequence of chunks, each with a checksum. One Write is one chunk and one system
// call, so that a line is readable as soon as Write returns and survives the death of the cell.
// After a crash Open cuts a torn tail, seals active segments and continues: it never fails because
// of the content of files.
//
// # Lines
//
// Lines have any length and any bytes. A line becomes visible when it is complete or when its
// writer is closed. The text, and whether a newline ended it, give the raw bytes back exactly.
// Lines longer than Config.MaxLine are split into pieces that are marked as continued. Missing
// output (rate limit, full disk, removed segments) is in the stream as a Gap with byte counts.
//
// # Callers
//
// The executor opens one Writer per container and stream; the API reads with Query and Follow and
// merges several cells with Merge. All methods are safe for concurrent use; lines that several
// goroutines write in pieces to one Writer mix.
package logstore

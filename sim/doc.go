// Package sim runs a whole cluster in one goroutine from one seed: servers that campaign for one
// store, cells with their machines, reapers and containers, and a network between them. Cells,
// registry, board, auctioneer, scheduler, timetable and drains are the production ones, wired as
// in a server; the package has the world around them, and the invariants.
//
// All randomness comes from the seed: messages that are dropped, duplicated, delayed, reordered
// and cut in one or both directions; servers, cells and machines that crash between a commit and
// its effects, pause and resume with stale state; clocks that drift; commits with unknown outcome;
// stores restored or moved; timeouts that differ between terms; jobs deleted and created again.
// The invariants are checked after every step; at the end faults stop and all desired work must be
// done. A failure prints its seed; the same seed replays it.
//
// Only the tests and `cantina sim` use it.
package sim

// Package sim runs a whole cluster in one goroutine under one seed: servers that
// campaign for one store, cells with their machines, reapers and containers, and
// a network between them. Cells, registry, board, auctioneer, scheduler,
// timetable and drains are the production ones, wired as in a server; the package holds the world around
// them, and the invariants.
//
// Everything random comes from the seed: messages dropped, doubled, delayed,
// reordered and cut in one or both directions; servers, cells and machines that
// crash between a commit and its effects, pause and resume with stale state;
// clocks that drift; commits whose outcome is unknown; stores restored or moved;
// time-outs that differ between terms; jobs deleted and made anew. After every
// step the invariants are checked; at the end faults stop and everything wanted
// must get done. A failure names its seed; the same seed replays it.
//
// Only the tests and `cantina sim` use it.
package sim

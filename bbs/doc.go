// Package bbs is the leader's bulletin board: it owns the rows of services,
// instances, tasks and domains. It is a shell around packages lrp and task: it
// gathers rows, calls Step, Converge and Apply, commits one transition, and then
// shows the rows, emits the events, releases the answer and performs the effects.
// No rule of the domain lives here.
//
//	calls of cells, clients, sessions, the auctioneer, the clock
//	      │
//	      ▼  under the lock, on the newest rows
//	  lrp.Step / task.Step / lrp.Apply … Converge until nothing is left
//	      │
//	      ▼  store.Submit, in order                      (callback, in order)
//	  committed rows → events → answer → effects ──► auctioneer, cells, callbacks
//
// The parts of a BBS stand on rows, the newest rows with their lock and their way into the store.
// writes and applies change them for clients, processes for cells and sessions, loader reads them
// from the store; effects performs what follows from a commit, and queries shows what is committed.
// BBS itself makes the passes.
//
// One BBS serves one term and is thrown away with it. cmd wires it; api, registry
// and auctioneer reach it through small interfaces.
package bbs

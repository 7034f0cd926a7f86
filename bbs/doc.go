// Package bbs is the leader's board (Diego: bulletin board system): it owns the rows of services,
// instances, tasks and domains. It is a shell around packages lrp and task: it gathers rows, calls
// Step, Converge and Apply, commits one transition, and then publishes the rows, emits the events,
// releases the response and performs the effects. It contains no rule of the domain.
//
//	calls of cells, clients, sessions, the auctioneer, the clock
//	      │
//	      ▼  under the lock, on the newest rows
//	  lrp.Step / task.Step / lrp.Apply … Converge until nothing is left
//	      │
//	      ▼  store.Submit, in order                      (callback, in order)
//	  committed rows → events → response → effects ──► auctioneer, cells, callbacks
//
// The parts of a BBS use rows: the newest rows with their lock and their way into the store.
// writes and applies change them for clients, processes for cells and sessions, loader reads them
// from the store. effects performs the effects of a commit, and queries returns committed rows.
// BBS itself makes the passes.
//
// One BBS serves one term and is discarded with it. Package leader wires it; api, registry and
// auctioneer use it through small interfaces.
package bbs

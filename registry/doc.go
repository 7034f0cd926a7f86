// Package registry is the leader-side shell of the worker protocol: it owns the
// worker.Leader of a term, commits its rows, and carries its calls to cells and
// their answers back.
//
// Every step is taken under one lock; its output is handed to the store in the
// order of the steps, and its effects are performed in the callback of that
// commit, in order, without the lock. So nothing leaves before it is durable, and
// what needs no row queues behind the commit it was computed from. (Never twice:
// the exact rules, Commits; Bistro worker protocol.)
//
// The leader's wiring makes one Registry for each term and gives it to the batch
// scheduler, the bulletin board and the auctioneer as the small interfaces that
// they declare.
package registry

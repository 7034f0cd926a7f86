// Package registry is the leader's shell of the worker protocol: it owns the worker.Leader of a
// term, commits its rows, sends its calls to cells and passes their responses to it.
//
// Every step is taken under one lock. Its output is submitted to the store in the order of the
// steps. Its effects are performed in the callback of that commit, in order, without the lock. So
// no effect leaves before it is durable, except those that rest on durable rows alone
// (worker.NeedsCommit). An effect without a row queues behind the commit that it was computed
// from. (Design page safety.md, Commits; Bistro worker protocol.)
//
// Package leader makes one Registry for each term and gives it to the batch scheduler, the board
// and the auctioneer as the small interfaces that they declare.
package registry

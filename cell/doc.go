// Package cell is the agent of one machine: it holds the cell's end of the worker
// session, keeps the leader's rows and the machine's containers in harmony, runs
// what it is told to run, and gives its work up when it is drained.
//
// It has two halves that share one executor:
//
//   - the session (session.go) is a shell around worker.Cell: heartbeats, credit
//     for the reaper, batch tasks;
//   - the harmoniser (harmonise.go) compares rows with containers by the tables of
//     packages lrp and task. Polling is the truth, events only hurry it: both run
//     the same operation, at most one at a time for each container.
//
// The leader is reached through Leader, and reaches the cell through the methods
// of Cell; cmd puts a network between them or, in `cantina dev`, nothing.
// (Diego dev notes, Cell Organelles; Bistro worker protocol.)
package cell

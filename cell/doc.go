// Package cell is the agent of one machine: it holds the cell's end of the worker
// session, keeps the leader's rows and the machine's containers in harmony, runs
// what it is told to run, and gives its work up when it is drained.
//
// Cell is the flow between its parts, which share one executor. Each part has its own state and
// one lock at most:
//
//   - session (session.go) is a shell around worker.Cell: heartbeats, credit for the reaper,
//     batch tasks; orders (orders.go) is what its machine has the cell do;
//   - harmoniser (harmonise.go, tasks.go, reserve.go) compares rows with containers by the tables
//     of packages lrp and task. Polling is the truth, events only hurry it: both run the same
//     operation, at most one at a time for each container;
//   - batchRuns (batch.go) starts batch tasks and hands their ends to the session;
//   - evacuating (evacuate.go) holds the order to drain the cell, polls (poll.go) when the next
//     comparison is due;
//   - containers (containers.go) is what the cell knows of a container that its executor does not,
//     reporter (report.go) what the leader is sent of the cell's state.
//
// The leader is reached through Leader, and reaches the cell through the methods
// of Cell; cmd puts a network between them or, in `cantina dev`, nothing.
// (Diego dev notes, Cell Organelles; Bistro worker protocol.)
package cell

// Package cell is the agent of one machine: it is the cell's end of the worker session, reconciles
// the leader's rows with the machine's containers, runs assigned work, and releases its work when
// it is drained.
//
// Cell connects its parts, which share one executor. Each part has its own state and one lock at
// most:
//
//   - session (session.go) is a shell around worker.Cell: heartbeats, credit for the reaper,
//     batch tasks; orders (orders.go) are the machine's orders to the cell;
//   - harmoniser (harmonise.go, tasks.go, reserve.go) compares rows with containers by the tables
//     of packages lrp and task. Polling is the truth, events only trigger it early: both run the
//     same operation, at most one at a time for each container;
//   - batchRuns (batch.go) starts batch tasks and passes their ends to the session;
//   - evacuating (drain.go) holds the order to drain the cell, polls (poll.go) the time of the
//     next comparison;
//   - containers (containers.go) has the cell's data about containers that its executor does not
//     have, reporter (report.go) the state that the cell reports to the leader.
//
// The cell calls the leader through Leader, and the leader calls the methods of Cell. Package node
// puts a network between them or, in `cantina dev`, nothing. (Diego dev notes, Cell Organelles;
// Bistro worker protocol.)
package cell

package cell

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"cantina/action"
	"cantina/batch"
	"cantina/fence"
	"cantina/lrp"
	"cantina/placement"
	"cantina/resource"
	"cantina/task"
	"cantina/wire"
	"cantina/worker"
)

// Errors between cells and leaders.
var (
	// ErrNotLeader reports that the called server does not lead.
	ErrNotLeader = errors.New("not the leader")
	// ErrTerm reports a call of a lower term than the receiver has seen.
	ErrTerm = errors.New("call of an older term")
	// ErrNewer reports a call of a term that the receiver has not accepted: it has no contact with
	// that leader yet, or does not trust the term.
	ErrNewer = errors.New("call of a newer term than this cell has accepted")
	// ErrProc reports a call that is addressed to another process of this cell, or from a process
	// whose session the leader does not know.
	ErrProc = errors.New("call for another process of this cell")
	// ErrCell reports a call that is addressed to another cell.
	ErrCell = errors.New("call for another cell")
	// ErrUnknownContainer reports that the cell has no such container.
	ErrUnknownContainer = errors.New("no such container on this cell")
)

// ErrForeign reports a call between a cell and a server of two clusters.
var ErrForeign = errors.New("of another cluster")

// Foreign is that a cell and a server belong to two clusters. It is ErrForeign.
type Foreign struct {
	Cell    worker.CellName
	Address string // of the cell; empty = not known
	// Cluster is that of the cell, Other that of the server.
	Cluster, Other fence.Cluster
}

// Error names both.
func (f *Foreign) Error() string {
	where := ""
	if f.Address != "" {
		where = " (" + f.Address + ")"
	}
	return fmt.Sprintf("cell %s%s belongs to cluster %s, the server to cluster %s", f.Cell, where,
		cmp.Or(f.Cluster, "none yet"), cmp.Or(f.Other, "none"))
}

// Is makes errors.Is find ErrForeign.
func (f *Foreign) Is(target error) bool { return target == ErrForeign }

// Caller is the cell process that makes a call.
type Caller struct {
	// Cluster is the one the cell belongs to.
	Cluster fence.Cluster
	Cell    worker.CellName
	Proc    worker.Proc
	Term    fence.Term // the highest it has seen
}

// Leader is the leader as its cells see it. Every method may return ErrNotLeader,
// or an error of the transport; both mean that nothing is known about the call.
type Leader interface {
	// Heartbeat keeps the session; state has the cell's present capacity and attributes.
	Heartbeat(ctx context.Context, beat worker.Heartbeat, state State) (worker.HeartbeatAnswer, error)
	// UpdateStatus reports ends of batch tasks; one answer for each item, once it is durable.
	UpdateStatus(ctx context.Context, u worker.UpdateStatus) ([]worker.StatusAnswer, error)
	// Rows reads committed rows: all that name the cell, and those of the keys.
	Rows(ctx context.Context, from Caller, q RowsQuery) (Rows, error)
	// LRPEvents applies events to indices: one answer (nil = applied and durable) for each.
	LRPEvents(ctx context.Context, from Caller, events []LRPEvent) ([]error, error)
	// TaskEvents applies events to tasks: one answer (nil = applied and durable) for each.
	TaskEvents(ctx context.Context, from Caller, events []TaskEvent) ([]error, error)
}

// State is a cell's report about itself, besides the data for placement.
type State struct {
	placement.State
	// Address is where the leader reaches the cell.
	Address string
	// Build is the cell's version; Isolation describes the available isolation.
	Build     string
	Isolation []string
	// Conditions are the containers that something holds up, at most 20 of them, and then tasks and
	// batch tasks that are being ended, at most 200.
	Conditions []Condition
	// Drain is how far the cell is with emptying itself.
	Drain DrainState
}

// Condition is one container whose start hangs, that survives KILL, that is being ended, or that
// the leader's store does not contain.
type Condition struct {
	Instance, Task, Job, Node string // its work: an instance, a task, or a batch task
	What                      string // the same for people: "service web/0"
	Text                      string // "START_HANGS: /mnt/a: pid 7 (cantina) in state D at request_wait_answer"
	// Unknown: it runs, and the leader's store does not know it; UID is that of its task or job.
	Unknown bool
	UID     string
	// Since is set if it is starting and has been in the phase of Text for long, since then; Limit is
	// the latest end of its start, 0 = none.
	Since time.Time
	Limit time.Duration
	// Detail is why it is still at that: how its latest health check failed.
	Detail string
	// Stopping: it is being ended, for the reason that Text gives, and is killed at StopBy at the
	// latest; zero = not known.
	Stopping bool
	StopBy   time.Time
}

// Starting reports whether it is of a start that takes long. The cell may still report it shortly after the end.
func (c *Condition) Starting() bool { return !c.Since.IsZero() && !c.Stopping }

// Words is the text, with the times of a slow start.
func (c *Condition) Words(now time.Time) string {
	switch {
	case c.Stopping && c.StopBy.IsZero():
		return "being stopped: " + c.Text
	case c.Stopping && now.After(c.StopBy):
		return fmt.Sprintf("being stopped: %s; to be killed at %s at the latest, and has not ended", c.Text,
			c.StopBy.UTC().Format(time.RFC3339))
	case c.Stopping:
		return fmt.Sprintf("being stopped: %s; killed at %s at the latest", c.Text, c.StopBy.UTC().Format(time.RFC3339))
	case c.Since.IsZero():
		return c.Text
	}
	text := fmt.Sprintf("%s, for %v", c.Text, max(0, now.Sub(c.Since)).Round(time.Second))
	if c.Limit > 0 {
		text += fmt.Sprintf(", limit %v", c.Limit)
	}
	if c.Detail != "" {
		text += ": " + c.Detail
	}
	return text
}

// RowsQuery requests rows.
type RowsQuery struct {
	// Only leaves out the rows that name the cell.
	Only  bool
	LRPs  []lrp.Key
	Tasks []string
}

// Rows answers a RowsQuery. A quarantined row cannot be read: it counts as
// existing, and nothing is done about its container.
type Rows struct {
	LRPs             []lrp.Index
	Tasks            []*task.Task
	QuarantinedLRPs  []lrp.Key
	QuarantinedTasks []string
}

// LRPEvent is one event of one index, TaskEvent of one task, as the cell saw it.
type (
	LRPEvent  = wire.LRPCall
	TaskEvent = wire.TaskCall
)

// LRPWork requests the reservation of a container for one instance.
type LRPWork struct {
	Key           lrp.Key
	Service       lrp.ServiceKey
	Instance      string
	Workload      *action.Workload
	DeadlineBound bool
	// Exclusive goes into the container's labels, so that it keeps its meaning when
	// the definition is gone.
	Exclusive bool
}

// TaskWork requests the reservation of a container for one task.
type TaskWork struct {
	GUID, UID, Domain string
	Workload          *action.Workload
	DeadlineBound     bool
}

// Work is the content of one Perform call.
type Work struct {
	Term  fence.Term
	Proc  worker.Proc
	LRPs  []LRPWork
	Tasks []TaskWork
}

// Refusal is why one unit of work was not reserved. ID is the instance id, or the uid of the task.
type Refusal struct {
	ID     string
	Reason string
	// Cell: any other work would be refused now too. The cell is full, drained, or
	// not HEALTHY by its own clocks.
	Cell bool
}

// BatchWork is the work of one batch task.
type BatchWork struct {
	Domain string
	// Workload is common to the batch tasks of a job.
	Workload *action.Workload
	// Program replaces the workload's single run action; nil = as it is.
	Program *action.Run
	Env     []action.Variable
	// Resources are those that it takes from the cell.
	Resources resource.Amounts
	JobUID    string
	// Attempt is the number of the attempt, from 1; its output is found by it.
	Attempt string
}

// RunItems are the items of calls: payloads has the work of each, nil for a probe.
func RunItems(calls []worker.RunTask, payloads []*batch.Payload) []RunItem {
	items := make([]RunItem, len(calls))
	for i, t := range calls {
		items[i].Call = t
		if x := payloads[i]; x != nil {
			items[i].Work = WorkOf(x)
		}
	}
	return items
}

// WorkOf is the part of a batch task that a cell gets.
func WorkOf(p *batch.Payload) *BatchWork {
	return &BatchWork{Domain: p.Domain, Workload: p.Workload, Program: p.Program, Env: p.Env, Resources: p.Resources,
		JobUID: p.Labels["job_uid"], Attempt: p.Labels["attempt"]}
}

// RunItem is one runTask; Work is nil for a probe.
type RunItem struct {
	Call worker.RunTask
	Work *BatchWork
}

package event

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"cantina/batch"
	"cantina/fault"
	"cantina/fence"
	"cantina/lrp"
	"cantina/schedule"
	"cantina/task"
	"cantina/worker"
)

// Kind is the kind of an event's subject; the comment names the field that carries it.
type Kind int

// The kinds.
const (
	Service  Kind = iota // Event.Service
	Instance             // Event.Instance: one row of one index, by its presence
	Task                 // Event.Task
	Job                  // Event.Job
	JobNode              // Event.JobNode: a batch task ended
	Cell                 // Event.Cell
	Schedule             // Event.Schedule
	Note                 // Event.Text only: something happened that changes no row (a crash, an audit entry)
)

// String gives the name that is used at the wire.
func (k Kind) String() string {
	switch k {
	case Service:
		return "service"
	case Instance:
		return "instance"
	case Task:
		return "task"
	case Job:
		return "job"
	case JobNode:
		return "node"
	case Cell:
		return "cell"
	case Schedule:
		return "schedule"
	case Note:
		return "note"
	}
	return "unknown"
}

// Position is the place of an event: the store's revision of its commit, and its
// number within that revision from 1.
type Position struct {
	Revision int64
	Number   int
}

// After is the position behind everything of a revision.
func After(revision int64) Position { return Position{Revision: revision, Number: math.MaxInt} }

// Compare orders positions.
func (p Position) Compare(q Position) int {
	return cmp.Or(cmp.Compare(p.Revision, q.Revision), cmp.Compare(p.Number, q.Number))
}

// String prints "revision.number", or "revision" for a result of After.
func (p Position) String() string {
	if p.Number == math.MaxInt {
		return strconv.FormatInt(p.Revision, 10)
	}
	return fmt.Sprintf("%d.%d", p.Revision, p.Number)
}

// ErrPosition reports a text that is no position.
var ErrPosition = fault.New(fault.ErrInvalid, "not a revision or position of the event stream")

// ParsePosition is the inverse of String. It returns ErrPosition.
func ParsePosition(s string) (Position, error) {
	r, n, within := strings.Cut(s, ".")
	revision, err := strconv.ParseInt(r, 10, 64)
	p := After(revision)
	if within && err == nil {
		p.Number, err = strconv.Atoi(n)
	}
	if err != nil || revision < 0 || p.Number < 0 {
		return Position{}, fmt.Errorf("%q: %w", s, ErrPosition)
	}
	return p, nil
}

// Event is one committed change. The values it points to are never changed
// afterwards by anyone.
type Event struct {
	// Position is set by Hub.Publish.
	Position
	// Time is the leader's wall clock at the commit; set by Hub.Publish.
	Time time.Time

	// Forms are the encodings that readers have made, once for all; set by Hub.Publish. Nil for an
	// event that is no longer among the newest.
	Forms *Forms

	Kind   Kind
	Domain string // empty for cells
	// Subject is the key: "domain/service", "domain/service/index", task guid, job,
	// "job/node", cell name.
	Subject string
	// Gone is set when the row was deleted; the field of the kind then holds the last
	// row where it is known.
	Gone bool
	// Text describes the change; may be empty.
	Text string

	// Of an Instance. Hidden: its row is not the one that readers see of the index.
	// Turn: with this event readers see Shown, or nothing any more when that is nil
	// (lrp.Change).
	Hidden, Turn bool
	Shown        *lrp.Actual

	Service  *lrp.Service
	Instance *lrp.Actual
	Task     *task.Task
	Job      *JobState
	JobNode  *NodeState
	Cell     *CellState
	Schedule *schedule.Row
}

// JobState is a job as events show it.
type JobState struct {
	Name string // domain/name
	UID  string
	batch.Progress
	Removed bool
	// NodesKnown: its nodes were read at least once; before, Progress means nothing.
	NodesKnown bool
	Labels     map[string]string
}

// NodeState is a batch task that ended.
type NodeState struct {
	Job string // domain/name
	batch.NodeView
}

// CellState is a cell as events show it.
type CellState struct {
	Name    worker.CellName
	Proc    worker.Proc
	Session worker.State
	Reason  string
	Term    fence.Term
	// Draining: it is being emptied, or is kept empty.
	Draining bool
	// Unavailable is why it gets no new work although it sends heartbeats; empty = it is available.
	Unavailable string
	// Gone: the process is certainly dead, and no other process has the cell's name.
	Gone bool
}

// How lists and events call a cell that is gone.
const (
	CellLost = "LOST"
	CellLeft = "LEFT" // it deregistered, with nothing on it
)

// GoneWord is CellLeft or CellLost.
func GoneWord(left bool) string {
	if left {
		return CellLeft
	}
	return CellLost
}

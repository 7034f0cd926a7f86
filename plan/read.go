package plan

import (
	"time"

	"cantina/batch"
	"cantina/label"
	"cantina/lrp"
	"cantina/schedule"
	"cantina/task"
)

// Service is a service with its instances.
type Service struct {
	lrp.Service
	Running  int // RUNNING by the resolved view, and not being stopped
	Routable int
	Stopping int
	Crashed  int
	// Unconfirmed counts the instances whose state is not confirmed.
	Unconfirmed int
	// On counts its instances by the process of a cell that has them.
	On       map[string]int
	Revision int64 // of its newest write
}

// Instance is one index of one version by the resolved view, and its rows.
type Instance struct {
	lrp.Actual  // the row that readers see
	Rows        lrp.Index
	Version     int // number of the version it is an instance of; 0 = unknown
	Wanted      bool
	Orphan      bool // no service owns it
	Quarantined bool
	Revision    int64
	// UnconfirmedReason is why the state may be outdated: the process of its cell is not HEALTHY, has
	// not sent a heartbeat in this term, or no longer has the cell's name. Empty = confirmed.
	UnconfirmedReason string
	// Condition is the place where its start hangs, its processes that survive KILL, or that it is
	// being stopped; empty = none.
	Condition string
}

// NameFilter selects objects by domain, name and labels; empty fields select all.
type NameFilter struct {
	Domain, Name string
	Labels       label.Selector
}

// Takes reports whether the filter selects a name of a domain.
func (f NameFilter) Takes(domain, name string) bool {
	return (f.Domain == "" || f.Domain == domain) && (f.Name == "" || f.Name == name)
}

// InstanceFilter selects instances; empty fields select all.
type InstanceFilter struct {
	Domain, Service, Cell string
	States                []lrp.State
	Orphans               bool           // only instances without a service
	Labels                label.Selector // of the service
}

// Rollout is how far a service's newest version has come.
type Rollout struct {
	Key                         lrp.ServiceKey
	Phase                       lrp.Phase
	Version, Healthy, Instances int
	Failure                     string
	Progress                    time.Time
}

// Domain is a namespace with one owner.
type Domain struct {
	Name     string
	Fresh    bool
	Expires  time.Time // zero = never
	Revision int64
}

// Task is a task and the revision of its newest write.
type Task struct {
	*task.Task
	Revision int64
	// UnconfirmedReason and Condition are as those of an Instance, for one that runs.
	UnconfirmedReason, Condition string
	// BeingEnded: it was cancelled while it ran, and its cell is to report how its container ended. Not
	// for one that may still run on a cell that is given up.
	BeingEnded bool
}

// NewTask requests a task.
type NewTask struct {
	GUID       string // empty = the leader makes one
	Domain     string
	Name       string
	Definition task.Definition
}

// TaskFilter selects tasks; empty fields select all.
type TaskFilter struct {
	Domain, Name, Cell string
	States             []task.State
	Outcomes           []task.Outcome
	Labels             label.Selector
}

// Job is a job with its progress.
type Job struct {
	batch.Job
	Forest   batch.ForestSpec
	Progress batch.Progress
	// Removed: it is deleted, and its running batch tasks are being ended.
	Removed bool
	// NodesKnown: its nodes were read at least once; before, Progress means nothing.
	NodesKnown bool
	// NodesError is the error of the newest reading of its nodes; the last good ones are kept.
	NodesError     string
	Created, Ended time.Time
	Revision       int64
}

// Over reports whether nothing of the job will start without a change.
func (j *Job) Over() bool { return j.Removed || j.NodesKnown && j.Progress.State.Ended() }

// JobNode is one batch task: a job's status on one node.
type JobNode struct {
	Job string // domain/name
	batch.NodeView
	Path []string
	// Data is the task's report as JSON; only in results.
	Data []byte
	// UnconfirmedReason and Condition are as those of an Instance, for one that runs.
	UnconfirmedReason, Condition string
}

// JobNodeFilter selects batch tasks of one job.
type JobNodeFilter struct {
	Job     string        // domain/name
	Classes []batch.Class // none = all
	// Node selects one node by its name; Below a whole subtree.
	Node, Below string
}

// Schedule is a schedule as it is committed.
type Schedule struct {
	schedule.Row
	// Next is when it fires next by time; zero when it does not.
	Next time.Time
	// Words describe its calendar; Problem is the reason why it cannot be used.
	Words, Problem string
	// Lead is how far the decided times are ahead of the clock; Note is a remark about the clocks.
	Lead     time.Duration
	Note     string
	Revision int64
}

// Missed is one logical time that did not fire.
type Missed struct {
	At  time.Time
	Why schedule.Why
}

package api

import (
	"context"
	"time"

	"cantina/batch"
	"cantina/event"
	"cantina/fence"
	"cantina/lrp"
	"cantina/resource"
	"cantina/schedule"
	"cantina/task"
	pb "cantina/wire/cantinav1"
	"cantina/worker"
)

// Backend is the leader of one term as the API sees it. All methods may be called
// at the same time. Reads show committed state; writes return after their commit.
// Errors wrap the sentinels of the domain or those of this package.
type Backend struct {
	Applications Applications
	Services     Services
	Tasks        Tasks
	Jobs         Jobs
	Schedules    Schedules
	Cells        Cells
	Operation    Operation
	Explainer    Explainer
	Logs         Logs
	Events       *event.Hub
	// Writable, when set, says why nothing can be written now: a call that writes is refused
	// with that; those that read go on.
	Writable func() error
}

// Write is what every writing call carries beside its arguments.
type Write struct {
	// Key makes the call happen at most once: a second call with the same key gets
	// the first one's answer. It is checked inside the commit. Empty = none.
	Key string
	// Expect is the revision that the thing, or the domain, must have; 0 = any. Else
	// ErrRevision.
	Expect int64
	// By names the caller, for the audit log.
	By string
}

// Range asks for one page of a list in the order of its keys.
type Range struct {
	After string // the key before the first wanted one; empty = from the start
	Limit int    // 1 … MaxPage; the handler has put in the default
}

// Listed is one page.
type Listed[T any] struct {
	Items []T
	// Next is the Range.After of the next page; empty = no more.
	Next string
	// Revision is the store's revision that the page shows.
	Revision int64
}

// Application is everything that one spec file wants of one domain.
type Application struct {
	Domain string
	// TTL is how long the domain stays fresh; 0 = for ever.
	TTL time.Duration
	// Services have no process guid yet: the leader mints it.
	Services  []lrp.Desired
	Tasks     []NamedTask
	Jobs      []NamedJob
	Schedules []NamedSchedule
	// Prune removes what the domain has and the file has not.
	Prune bool
}

// NamedTask is one entry of a spec file's tasks.
type NamedTask struct {
	Name       string
	Definition task.Definition
}

// NamedJob is one entry of a spec file's jobs. Forest has sources only when the
// job declares nodes; otherwise Job.Forest names the forest of another job.
type NamedJob struct {
	Job    batch.Job
	Forest batch.ForestSpec
}

// NamedSchedule is one entry of a spec file's schedules.
type NamedSchedule struct {
	Name       string
	Definition schedule.Definition
	// Warnings are remarks on its calendar.
	Warnings []string
}

// Verb is what an apply does to one thing.
type Verb string

// The verbs of changes.
const (
	VerbKeep    Verb = "keep"    // nothing
	VerbCreate  Verb = "create"  // a service or job that was not there; a task runs
	VerbUpdate  Verb = "update"  // in place
	VerbReplace Verb = "replace" // a new version, or a new run of a task
	VerbRemove  Verb = "remove"
)

// Change is one line of a plan.
type Change struct {
	Kind string // service, task, job or schedule
	Name string
	Verb Verb
	// Fields that differ, for update and replace.
	Fields []FieldChange
	// Nodes is how many (job, node) pairs the change touches; -1 = not known yet.
	Nodes int
	// Note is a warning or an explanation in words; may be empty.
	Note string
}

// FieldChange is one field that differs. Old or New is empty when it was not set.
type FieldChange struct{ Path, Old, New string }

// Applied is the answer to Apply and Plan.
type Applied struct {
	// Revision of the domain: after the commit for Apply, now for Plan.
	Revision int64
	Changes  []Change
	Warnings []string
}

// Applications changes whole domains.
type Applications interface {
	// Plan tells what Apply would do; it writes nothing. ErrInvalid family for what
	// the leader alone can see.
	Plan(ctx context.Context, a Application) (Applied, error)
	// Apply does it in one commit, or by a manifest that is rolled forward.
	Apply(ctx context.Context, a Application, w Write) (Applied, error)
}

// Service is a service with what runs of it.
type Service struct {
	lrp.Service
	Running  int // RUNNING by the resolved view, and not being stopped
	Routable int
	Stopping int
	Crashed  int
	// Unconfirmed counts the instances that have a doubt.
	Unconfirmed int
	Revision    int64 // of its newest write
}

// Instance is one index of one version by the resolved view, and its rows.
type Instance struct {
	lrp.Actual  // what a reader is shown
	Rows        lrp.Index
	Version     int // number of the version it is an instance of; 0 = unknown
	Wanted      bool
	Orphan      bool // no service owns it
	Quarantined bool
	Revision    int64
	// Doubt is why it may not be so any more: the process of its cell that has it is not HEALTHY, was not
	// heard of in this term, or is not the one that has the cell's name now. Empty = it is as it stands.
	Doubt string
	// Condition is where its start hangs, or what of it does not die; empty = nothing.
	Condition string
}

// InstanceFilter selects instances; empty fields select all.
type InstanceFilter struct {
	Domain, Service, Cell string
	States                []lrp.State
	Orphans               bool // only what no service owns
}

// Services reads and changes services.
type Services interface {
	ListServices(domain string, r Range) (Listed[Service], error)
	GetService(k lrp.ServiceKey) (Service, error)
	ListInstances(f InstanceFilter, r Range) (Listed[Instance], error)
	// InstanceOf returns a row that was committed at a revision as a list shows it: its
	// version always, and what may change without a commit while no newer row of its
	// index is there.
	InstanceOf(a *lrp.Actual, revision int64) Instance
	// ScaleService sets how many instances are wanted.
	ScaleService(ctx context.Context, k lrp.ServiceKey, instances int, w Write) (Service, error)
	// RemoveService undesires it.
	RemoveService(ctx context.Context, k lrp.ServiceKey, w Write) (Service, error)
	// RestartService has every instance started afresh, by the rules of an update. It returns
	// how many are wanted.
	RestartService(ctx context.Context, k lrp.ServiceKey, w Write) (int, error)
	// RetireInstances has the given indices (nil = all) stopped and started afresh at once.
	RetireInstances(ctx context.Context, k lrp.ServiceKey, indices []int, w Write) (int, error)
}

// Task is a task and the revision of its newest write.
type Task struct {
	*task.Task
	Revision int64
	// Doubt and Condition are as those of an Instance, for one that runs.
	Doubt, Condition string
}

// NewTask asks for a task.
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
}

// Tasks reads and changes tasks. A task is found by its guid.
type Tasks interface {
	ListTasks(f TaskFilter, r Range) (Listed[Task], error)
	// GetTask returns task.ErrNotFound, or ErrCollected for one that was there.
	GetTask(guid string) (Task, error)
	// TaskOf does for a task what InstanceOf does for an instance.
	TaskOf(t *task.Task, revision int64) Task
	DesireTask(ctx context.Context, n NewTask, w Write) (Task, error)
	CancelTask(ctx context.Context, guid string, w Write) (Task, error)
	// DeleteTask resolves and deletes a COMPLETED task.
	DeleteTask(ctx context.Context, guid string, w Write) error
	// SettleTask is a person's word on a lost task.
	SettleTask(ctx context.Context, guid string, as task.Resolution, w Write) (Task, error)
}

// Job is a job with its progress.
type Job struct {
	batch.Job
	Forest   batch.ForestSpec
	Progress batch.Progress
	// Removed: it is deleted, what runs of it is being ended.
	Removed bool
	// NodesKnown: its nodes were read at least once; before, Progress means nothing.
	NodesKnown bool
	// NodesError is what the newest reading of its nodes said; the last good ones stay.
	NodesError     string
	Created, Ended time.Time
	Revision       int64
}

// Pair is one batch task: a job's status on one node.
type Pair struct {
	Job string
	batch.NodeView
	Path []string
	// Data is what it reported as JSON; only in results.
	Data []byte
	// Doubt is as that of an Instance, for one that runs.
	Doubt string
}

// PairFilter selects batch tasks of one job.
type PairFilter struct {
	Job     string
	Classes []batch.Class // none = all
	// Node selects one node by its name; Below a whole subtree.
	Node, Below string
}

// Over reports whether nothing of the job will start without a change.
func (j *Job) Over() bool { return j.Removed || j.NodesKnown && j.Progress.State.Ended() }

// Jobs reads and changes jobs.
type Jobs interface {
	ListJobs(domain string, r Range) (Listed[Job], error)
	GetJob(name string) (Job, error)
	ListPairs(f PairFilter, r Range) (Listed[Pair], error)
	// ListResults reads ended pairs with their data from the store.
	ListResults(ctx context.Context, f PairFilter, r Range) (Listed[Pair], error)
	ChangeJobs
}

// ChangeJobs is the writing half of Jobs.
type ChangeJobs interface {
	RemoveJob(ctx context.Context, name string, w Write) error
	PauseJob(ctx context.Context, name string, paused bool, w Write) (Job, error)
	// ForgiveJob lets failed pairs (all, or those of the filter) run again.
	ForgiveJob(ctx context.Context, f PairFilter, w Write) (int, error)
	// KillPairs ends what runs of the filter; a stored intent.
	KillPairs(ctx context.Context, f PairFilter, w Write) (int, error)
}

// Cell is one cell process as the leader knows it.
type Cell struct {
	Name     worker.CellName
	Proc     worker.Proc
	Address  string
	Zone     string
	Host     string
	Session  worker.State
	Since    time.Time
	Reason   string // why it is not HEALTHY
	Reported bool
	Eligible bool // its member row is durable
	// DeadIn is when it is certainly dead at the latest, for a lost one; 0 = not known.
	DeadIn      time.Duration
	Unavailable string // why it takes no new work though alive
	Evacuating  bool
	Capacity    resource.Amounts
	Free        resource.Amounts
	LRPs        int
	Tasks       int
	Batch       int
	Labels      map[string]string
	Taints      []string
	Tags        []string
	Isolation   []string // what the machine can isolate
	Build       string
	Drain       *Drain // nil when it is not drained
	Gone        *Gone  // nil while a process has its name
	// Cluster is set of a cell that belongs to another cluster, and is refused.
	Cluster fence.Cluster
	// Unknown is what runs there and the store does not know, in words.
	Unknown []string
}

// Gone is what became of a cell that is gone, and of its work: the newest of a term are
// kept, until a process takes the name.
type Gone struct {
	// At is when it was certain.
	At time.Time
	// Left: it said farewell, with nothing on it.
	Left bool
	// Why and Work say in words why it is gone, and what was done with its work.
	Why, Work string
}

// Word is the state as lists have it: LOST, or LEFT.
func (g *Gone) Word() string { return event.GoneWord(g.Left) }

// Drain is that a cell is to be emptied, and how far that is.
type Drain struct {
	Reason, By string
	// Until is when what is left is ended.
	Since, Until time.Time
	StopBatch    bool
	// Ended is when nothing was left, or the deadline ended the rest; zero before.
	Ended time.Time
	// Waits is what it waits for now, or what the deadline ended, in words.
	Waits []string
}

// NewDrain asks that a cell is emptied.
type NewDrain struct {
	Reason    string
	Deadline  time.Duration // 0 = the cell's own setting
	StopBatch bool          // stop batch tasks at once
}

// Cells reads and changes cells.
type Cells interface {
	// ListCells lists cells by name, and behind them, when all is set, those that are gone.
	ListCells(r Range, all bool) (Listed[Cell], error)
	// GetCell returns a cell, also one that is gone.
	GetCell(name worker.CellName) (Cell, error)
	// ForgetCell is an operator's audited word that a process is dead. One that is gone is
	// taken off the list.
	ForgetCell(ctx context.Context, proc worker.Proc, w Write) error
	// AdoptCell has a cell of another cluster join this one, when it beats next.
	AdoptCell(ctx context.Context, name worker.CellName, w Write) error
	// DiscardUnknown ends what runs on a cell and the store does not know; it returns what
	// was told to end, in words.
	DiscardUnknown(ctx context.Context, name worker.CellName, w Write) ([]string, error)
	// DrainCell stores that a cell is to be emptied; a second one replaces the first.
	// UndrainCell takes it back; one that is not drained is returned as it is.
	DrainCell(ctx context.Context, name worker.CellName, d NewDrain, w Write) (Cell, error)
	UndrainCell(ctx context.Context, name worker.CellName, w Write) (Cell, error)
}

// Held is work that may not start yet, and why.
type Held struct {
	What    string // "job measure on host1/pkg", "service web/0", …
	Reason  string
	Cell    string
	Proc    string
	Longest time.Duration // at most; 0 = no bound known
}

// Status is the state of the whole, for `status`.
type Status struct {
	Cluster string
	// ClusterID is the identity of the store.
	ClusterID fence.Cluster
	Leader    string
	Term      fence.Term
	Build     string
	Since     time.Time // when the term began
	Revision  int64
	// Waiting is set during the initial wait; For names whom it waits for.
	Waiting  bool
	For      []string
	Longest  time.Duration
	Held     []Held
	HeldMore int            // not in Held
	Counts   map[string]int // services, instances, running, tasks, pending, jobs, cells, healthy …
	// Warnings an operator must see: insecure listeners, forced waits, blind starts.
	Warnings    []string
	Quarantined int
	Domains     []Domain
	// Rollouts are services that are being rolled out or taken back, or whose last
	// rollout failed; RolloutsMore counts those that are not in it.
	Rollouts     []Rollout
	RolloutsMore int
}

// Rollout is how far a service's newest version has come.
type Rollout struct {
	Key                         lrp.ServiceKey
	Phase                       lrp.Phase
	Version, Healthy, Instances int
	Failure                     string
	Progress                    time.Time
}

// Domain is an owner's name space.
type Domain struct {
	Name    string
	Fresh   bool
	Expires time.Time // zero = never
}

// Quarantined is a row that cannot be read. It counts as existing for its key.
type Quarantined struct {
	Key    string
	Reason string
	Bytes  []byte
}

// Operation is what operators ask of the leader itself.
type Operation interface {
	Status() (Status, error)
	// EndWait ends the initial wait; double starts are accepted.
	EndWait(ctx context.Context, w Write) error
	ListQuarantine(r Range) (Listed[Quarantined], error)
	// ReleaseQuarantined drops a row, or reads it again when restore is set.
	ReleaseQuarantined(ctx context.Context, key string, restore bool, w Write) error
}

// SubjectKind is what Explain can be asked about.
type SubjectKind string

// The kinds of subjects.
const (
	SubjectService  SubjectKind = "service"
	SubjectInstance SubjectKind = "instance"
	SubjectTask     SubjectKind = "task"
	SubjectJob      SubjectKind = "job"
	SubjectPair     SubjectKind = "pair"
	SubjectCell     SubjectKind = "cell"
	SubjectSchedule SubjectKind = "schedule"
)

// Subject names one thing.
type Subject struct {
	Kind   SubjectKind
	Domain string
	Name   string // of the service, job, cell or schedule; guid of the task
	Index  int    // of the instance
	Node   string // of the pair
}

// Reason is one reason why something is not as wanted.
type Reason struct {
	Code string // stable: insufficient_resources, initial_wait, crash_backoff, …
	Text string // in words
	// Need and Have are amounts of Resource; Holder has the rest.
	Resource   string
	Need, Have int
	Holder     string
	Level      string // of the node forest, or "cell"
	// Change is the cheapest change that would help, in words.
	Change string
	// Longest is how long it lasts at most; 0 = no bound known.
	Longest time.Duration
}

// Explanation answers "why is it in this state".
type Explanation struct {
	Subject Subject
	State   string // as it is
	Wanted  string // as it should be
	Fine    bool   // it is as wanted
	Reasons []Reason
}

// Explainer explains; every part of the leader fills in its own reasons.
type Explainer interface {
	// Explain returns the not-found error of the subject's kind.
	Explain(ctx context.Context, s Subject) (Explanation, error)
}

// Logs reaches the output on the cells. The messages are those of CellService;
// their callee is filled in by the implementation.
type Logs interface {
	// Holders names the cells that may have output for the query.
	Holders(q *pb.LogQuery) []string
	ReadLogs(ctx context.Context, cell string, m *pb.ReadLogsRequest) (*pb.ReadLogsResponse, error)
	// FollowLogs calls each until the stream ends, ctx is done or each fails.
	FollowLogs(ctx context.Context, cell string, m *pb.FollowLogsRequest, each func(*pb.FollowLogsResponse) error) error
}

package api

import (
	"context"
	"time"

	"cantina/batch"
	"cantina/event"
	"cantina/fence"
	"cantina/label"
	"cantina/lrp"
	"cantina/plan"
	"cantina/resource"
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
	Stops        Stops
	Explainer    Explainer
	Logs         Logs
	Containers   Containers
	Events       *event.Hub
	// Writable, if set, returns the reason why rows cannot be written now. Writing calls are refused
	// with it; reads continue.
	Writable func() error
}

// Applications changes whole domains.
type Applications interface {
	// Plan returns the changes that Apply would make, without writing. ErrInvalid covers errors that
	// only the leader can see.
	Plan(ctx context.Context, a plan.Application) (plan.Applied, error)
	// Apply does it in one commit, or by a manifest that is rolled forward.
	Apply(ctx context.Context, a plan.Application, w plan.Write) (plan.Applied, error)
}

// Services reads and changes services.
type Services interface {
	ListServices(f plan.NameFilter, r plan.Range) (plan.Page[plan.Service], error)
	GetService(k lrp.ServiceKey) (plan.Service, error)
	ListInstances(f plan.InstanceFilter, r plan.Range) (plan.Page[plan.Instance], error)
	// InstanceOf returns a row that was committed at a revision as a list shows it: always its
	// version, and the parts that change without a commit while no newer row of its index exists.
	InstanceOf(a *lrp.Actual, revision int64) plan.Instance
	// ScaleService sets how many instances are wanted.
	ScaleService(ctx context.Context, k lrp.ServiceKey, instances int, w plan.Write) (plan.Service, error)
	// RemoveService undesires it.
	RemoveService(ctx context.Context, k lrp.ServiceKey, w plan.Write) (plan.Service, error)
	// RestartService has every instance started afresh, by the rules of an update. It returns
	// how many are wanted.
	RestartService(ctx context.Context, k lrp.ServiceKey, w plan.Write) (int, error)
	// RetireInstances has the given indices (nil = all) stopped and started afresh at once.
	RetireInstances(ctx context.Context, k lrp.ServiceKey, indices []int, w plan.Write) (int, error)
}

// Tasks reads and changes tasks. A task is found by its guid.
type Tasks interface {
	ListTasks(f plan.TaskFilter, r plan.Range) (plan.Page[plan.Task], error)
	// GetTask returns task.ErrNotFound, or ErrCollected for one that was there.
	GetTask(guid string) (plan.Task, error)
	// TaskOf is InstanceOf for a task.
	TaskOf(t *task.Task, revision int64) plan.Task
	DesireTask(ctx context.Context, n plan.NewTask, w plan.Write) (plan.Task, error)
	CancelTask(ctx context.Context, guid string, w plan.Write) (plan.Task, error)
	// DeleteTask resolves and deletes a COMPLETED task.
	DeleteTask(ctx context.Context, guid string, w plan.Write) error
	// ResolveTask records a person's decision about a lost task. accept: it may still run.
	ResolveTask(ctx context.Context, guid string, as task.Resolution, accept bool, w plan.Write) (plan.Task, error)
	// RerunTask starts an ended task once more, as a new task, and returns that.
	RerunTask(ctx context.Context, guid string, w plan.Write) (plan.Task, error)
}

// Jobs reads and changes jobs.
type Jobs interface {
	ListJobs(f plan.NameFilter, r plan.Range) (plan.Page[plan.Job], error)
	// GetJob returns a job by its key, domain/name.
	GetJob(name string) (plan.Job, error)
	ListNodes(f plan.JobNodeFilter, r plan.Range) (plan.Page[plan.JobNode], error)
	// ListGroups counts the batch tasks of a job below each node of the level after that of below; without it,
	// of the highest level.
	ListGroups(name, below string) ([]batch.Group, error)
	// ListResults reads ended batch tasks with their data from the store.
	ListResults(ctx context.Context, f plan.JobNodeFilter, r plan.Range) (plan.Page[plan.JobNode], error)
	ChangeJobs
}

// ChangeJobs is the writing half of Jobs.
type ChangeJobs interface {
	RemoveJob(ctx context.Context, name string, w plan.Write) error
	PauseJob(ctx context.Context, name string, paused bool, w plan.Write) (plan.Job, error)
	// RetryJob lets failed batch tasks (all, or those of the filter) run again.
	RetryJob(ctx context.Context, f plan.JobNodeFilter, w plan.Write) (int, error)
	// KillJob ends running batch tasks of the filter; a stored intent.
	KillJob(ctx context.Context, f plan.JobNodeFilter, w plan.Write) (int, error)
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
	Draining    bool
	Capacity    resource.Amounts
	Free        resource.Amounts
	LRPs        int
	Tasks       int
	Batch       int
	Labels      map[string]string
	Taints      []string
	Tags        []string
	Isolation   []string // isolation that the machine supports
	Volumes     []string // directories below which volumes are allowed
	Build       string
	Drain       *Drain // nil when it is not drained
	Gone        *Gone  // nil while a process has its name
	// Cluster is set of a cell that belongs to another cluster, and is refused.
	Cluster fence.Cluster
	// Unknown describes work on the cell that the store does not contain.
	Unknown []string
}

// Gone is a cell that is gone, with the fate of its work. The newest of a term are kept until a
// process takes the name.
type Gone struct {
	// At is when it was certain.
	At time.Time
	// Left: it deregistered, with nothing on it.
	Left bool
	// Why and Work describe the cause of its end, and the handling of its work.
	Why, Work string
}

// Word is the state as lists show it: LOST or LEFT.
func (g *Gone) Word() string { return event.GoneWord(g.Left) }

// Drain is that a cell is to be emptied, and how far that is.
type Drain struct {
	Reason, By string
	// Until is the time at which remaining work is ended.
	Since, Until time.Time
	StopBatch    bool
	// Ended is when nothing was left, or the deadline ended the rest; zero before.
	Ended time.Time
	// Waits describes the remaining work, or the work that the deadline ended.
	Waits []string
	// Unknown is the reason why the remaining work is unknown; then Waits is as last reported. Empty:
	// it is known.
	Unknown string
}

// NewDrain requests a drain of a cell.
type NewDrain struct {
	Reason    string
	Deadline  time.Duration // 0 = the cell's own setting
	StopBatch bool          // stop batch tasks at once
}

// Cells reads and changes cells.
type Cells interface {
	// ListCells lists cells by name, and behind them, when all is set, those that are gone.
	ListCells(r plan.Range, labels label.Selector, all bool) (plan.Page[Cell], error)
	// GetCell returns a cell, also one that is gone.
	GetCell(name worker.CellName) (Cell, error)
	// ForgetCell is an operator's audited declaration that a process is dead. A process that is gone
	// is removed from the list.
	ForgetCell(ctx context.Context, proc worker.Proc, w plan.Write) error
	// AdoptCell makes a cell of another cluster join this one at its next heartbeat.
	AdoptCell(ctx context.Context, name worker.CellName, w plan.Write) error
	// DiscardUnknown ends work on a cell that the store does not contain. It returns a description of
	// the ended work.
	DiscardUnknown(ctx context.Context, name worker.CellName, w plan.Write) ([]string, error)
	// DrainCell stores that a cell is to be emptied; a second one replaces the first.
	// UndrainCell takes it back; one that is not drained is returned as it is.
	DrainCell(ctx context.Context, name worker.CellName, d NewDrain, w plan.Write) (Cell, error)
	UndrainCell(ctx context.Context, name worker.CellName, w plan.Write) (Cell, error)
	// Rebalance plans moves of instances, and begins them if the query asks for it.
	Rebalance(ctx context.Context, q RebalanceQuery, w plan.Write) (Balance, error)
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
	// Waiting is set during the initial wait; For names the processes that it waits for.
	Waiting  bool
	For      []string
	Longest  time.Duration
	Held     []Held
	HeldMore int            // not in Held
	Counts   map[string]int // services, instances, running, tasks, pending, jobs, cells, healthy …
	// Warnings for operators: insecure listeners, forced waits, starts with a stale list.
	Warnings    []string
	Quarantined int
	Domains     []plan.Domain
	// Rollouts are services that are rolling out or rolled back, or whose last rollout failed;
	// RolloutsMore counts those that do not fit.
	Rollouts     []plan.Rollout
	RolloutsMore int
	// Behind are the leader's queues that are long, with their lengths.
	Behind []string
}

// Quarantined is a row that cannot be read. It counts as existing for its key.
type Quarantined struct {
	Key    string
	Reason string
	Bytes  []byte
}

// Operation has the operators' calls to the leader itself.
type Operation interface {
	Status() (Status, error)
	// EndWait ends the initial wait; double starts are accepted.
	EndWait(ctx context.Context, w plan.Write) error
	ListQuarantine(r plan.Range) (plan.Page[Quarantined], error)
	// ReleaseQuarantined drops a row, or reads it again when restore is set.
	ReleaseQuarantined(ctx context.Context, key string, restore bool, w plan.Write) error
}

// Stopping is how much work of a subject is to end.
type Stopping struct {
	Ending    int // it has a container
	Shortened int // it is killed after the shorter grace
	// Unreached are cells that did not answer.
	Unreached []string
}

// Stops changes how soon work that is to end is killed.
type Stops interface {
	// ShortenStop has what is to end of a service, instance, task, job or node killed after grace.
	// Nothing is stored: cells that cannot be reached are named.
	ShortenStop(ctx context.Context, s plan.Subject, grace time.Duration) (Stopping, error)
}

// Explainer explains; every part of the leader fills in its own reasons.
type Explainer interface {
	// Explain returns the not-found error of the subject's kind.
	Explain(ctx context.Context, s plan.Subject) (plan.Explanation, error)
}

// Logs reaches the output and the measurements of the cells. The messages are those of CellService;
// their callee is filled in by the implementation.
type Logs interface {
	// Holders names the cells that may have output for the query.
	Holders(q *pb.LogQuery) []string
	ReadLogs(ctx context.Context, cell string, m *pb.ReadLogsRequest) (*pb.ReadLogsResponse, error)
	// ReadUsage measures the containers of a cell.
	ReadUsage(ctx context.Context, cell string) (*pb.ReadUsageResponse, error)
	// FollowLogs calls each until the stream ends, ctx is done or each fails.
	FollowLogs(ctx context.Context, cell string, m *pb.FollowLogsRequest, each func(*pb.FollowLogsResponse) error) error
}

// Package scheduler is the leader's batch loop: it owns the jobs, the forests of nodes and the
// statuses of batch tasks of one term, around package batch.
//
//	registry ──Ended, StartsChanged──▶ ┌───────────┐ ──MayRun, StartBatch──▶ registry
//	api ──Apply, Remove, Pause,        │ scheduler │ ──StatusCommitted, Kill─▶ registry
//	      Retry, Kill────────────────▶ └───────────┘ ──Reserve, Release────▶ auctioneer
//	                                      │  ▲ commits, in order
//	                                      ▼  │
//	                                     store
//
// Decisions use the newest rows of jobs and forests, and committed statuses. The end of an
// invocation is computed (batch.Board.End), stored, and made effective by the callback of its
// commit. Only then the slot is refilled, the cell acknowledged and the event published. Running
// batch tasks are not stored: the registry's model of the cells' reports is the truth, and errs
// towards "still running".
//
// Locks: the scheduler never calls the registry, the auctioneer or the hub while it holds its own
// lock, so that they may call it under theirs.
package scheduler

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"cantina/batch"
	"cantina/event"
	"cantina/fault"
	"cantina/fence"
	"cantina/internal/run"
	"cantina/placement"
	"cantina/resource"
	"cantina/store"
	"cantina/worker"
)

type amounts = resource.Amounts

// Errors of the scheduler.
var (
	// ErrInvalid: a job or forest that cannot be.
	ErrInvalid = fault.New(fault.ErrInvalid, "invalid job")
)

// Store is the part of the won term that the scheduler needs: store.Leadership.
type Store interface {
	Submit(t store.Transition, done func(revision int64, err error))
	Wait(ctx context.Context) error
	Get(ctx context.Context, key string) (row store.Row, ok bool, err error)
	Quarantine(q store.Quarantine)
}

// Registry is the part of the worker registry that the scheduler needs.
type Registry interface {
	// MayRun reports whether the work may run anywhere, and if not why.
	MayRun(r worker.Request) (worker.Hold, bool)
	// StartBatch starts the work on r.Cell if it may: the invocation enters the model, and the result
	// of payload is sent to the cell.
	StartBatch(r worker.Request, payload func(fence.Invocation) (batch.Payload, bool)) (fence.Invocation, worker.Hold,
		bool)
	// Kill ends an invocation; repeated until it ended, by the stored intent.
	Kill(r worker.Run)
	// StatusCommitted acknowledges an end that was passed to Scheduler.Ended.
	StatusCommitted(r worker.Run, kind worker.Synthetic)
	// Running returns the possibly running invocations of one batch task.
	Running(w worker.Work) []worker.RunView
	// Model returns everything that may be running, Live how much that is.
	Model() []worker.RunView
	Live() int
	// Adopted counts the additions of reports to the model in this term.
	Adopted() int
	// Idle reports that nothing of a job can be running any more: the initial wait is
	// over and the model has no invocation of the name.
	Idle(job string) bool
}

// Auctioneer is the part of the ledger that the scheduler needs.
type Auctioneer interface {
	Reserve(wants []placement.Want) []placement.Grant
	Confirm(holds ...string)
	Release(holds ...string)
	// Decline gives grants back that were not used; no token of Room follows from it.
	Decline(holds ...string)
	// Rest keeps a cell that refused granted work out for a while.
	Rest(cell string)
	Hold(h placement.Holding) error
	// Room has a token whenever a refused want might find room.
	Room() <-chan struct{}
}

// Hub takes the events of each commit, in order.
type Hub interface {
	Publish(revision int64, events ...event.Event)
}

// Scripts runs the scripts of node sources.
type Scripts interface {
	// Output runs a program to its end and returns its output. An exit status other than 0 and a
	// timeout are errors.
	Output(ctx context.Context, argv []string, timeout time.Duration) ([]byte, error)
}

// Config of a Scheduler. Term, Store, Registry (here or by Attach), Auctioneer, Hub,
// Scripts, Clock and NewID are needed.
type Config struct {
	// Term is the term that was won.
	Term       fence.Term
	Store      Store
	Registry   Registry
	Auctioneer Auctioneer
	Hub        Hub
	Scripts    Scripts
	Clock      run.Clock
	// Zone finds the time zone of nodes that come with times; nil refuses all names.
	Zone func(name string) (*time.Location, error)
	Log  *slog.Logger
	// NewID returns 16 random bytes in hexadecimal.
	NewID func() string
	// NodesEvery is how often the sources of nodes are read again; 0 = 5 min.
	// NodesRetry is the pause after a failure; 0 = 30 s.
	NodesEvery, NodesRetry time.Duration
	// MergeAt is how many small rows of a job's statuses are let be; 0 = 64.
	MergeAt int
	// Guard is the least pause before a lost batch task runs again; 0: it is only
	// declared lost when its process is certainly dead.
	Guard time.Duration
}

func (c Config) withDefaults() Config {
	if c.NodesEvery <= 0 {
		c.NodesEvery = 5 * time.Minute
	}
	if c.NodesRetry <= 0 {
		c.NodesRetry = 30 * time.Second
	}
	if c.MergeAt <= 0 {
		c.MergeAt = 64
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// Scheduler is the batch loop of one term: its passes pick the tasks that may start and assign
// them to cells. The parts hold its state, under the one lock of newest.
type Scheduler struct {
	*newest
	*statuses
	*adoption
	*changing
}

// newest are the newest rows of jobs, and the forests that they draw on; decisions are made on them.
type newest struct {
	cfg Config
	// now is the leader's wall clock, which cannot step within a term: backoffs are
	// measured by the time that really passed.
	now func() time.Time

	mu      sync.Mutex // guards this and all other parts
	forests map[string]*forest
	jobs    map[string]*job // by key, domain/name; tombstones too
	// rows and specs are on their way into the store: decisions are made on them.
	rows    flights[jobRow]
	specs   flights[batch.ForestSpec]
	bad     map[string]bool         // keys of rows that are quarantined: they cannot be written
	remains map[string]bool         // names of removed jobs whose work is left for a time
	uids    map[string]*job         // by uid, also of jobs that are being cleaned away
	last    fence.Invocation        // newest handed out or seen
	changed bool                    // the set of permitted starts may have changed
	reads   []func(context.Context) // to be called beside the passes
	over    error
	agenda
	gates gates
	// refused are forests with refusals in force, loose those that no job of the load needs while the row of a job,
	// in quarantined by its name, cannot be read.
	refused, loose map[*forest]bool
	quarantined    map[string]bool
	remainAt       time.Time // when to look at remains, zero = at the next pass

	wake   chan struct{}
	failed chan struct{} // closed when the term is over
	stats  Stats
}

// statuses are the ends of batch tasks on their way into the store, in segments, and the changes
// by people.
type statuses struct {
	*newest
	adoption *adoption
	ends     map[batch.Key]*end
	pending  []*end
	flying   int // commits of statuses in progress
	early    map[fence.Invocation]bool
	merges   []*merge // read, to be written when no commit of statuses is in progress
}

// adoption compares the registry's running work with the boards: reported work counts as running,
// and draws on its nodes.
type adoption struct {
	*newest
	statuses *statuses
	// unowned are running batch tasks whose job has no row.
	unowned map[batch.Key]fence.Invocation
	// former are the forests on which running work draws besides that of its job: its job was created
	// again over other nodes.
	former map[fence.Invocation][]*forest
	// shadows run and are of an earlier life of their job: on which nodes they draw is not
	// known in this term. They hold all forests over which those lives ran.
	shadows   map[fence.Invocation][]string
	adopted   int                       // Registry.Adopted, when the model was compared last
	compared  time.Duration             // when that was
	meanwhile map[fence.Invocation]bool // ended since the model was read that is being compared
}

// changing prepares the clients' requests, and makes them effective after their commit.
type changing struct {
	*newest
	adoption *adoption
}

// assemble makes the parts of a scheduler without rows.
func assemble(cfg Config) *Scheduler {
	n := &newest{
		cfg: cfg.withDefaults(), now: cfg.Clock.Steady(), forests: make(map[string]*forest), jobs: make(map[string]*job),
		rows: make(flights[jobRow]), specs: make(flights[batch.ForestSpec]), bad: make(map[string]bool),
		uids: make(map[string]*job), gates: newGates(), agenda: newAgenda(),
		refused: make(map[*forest]bool), loose: make(map[*forest]bool), quarantined: make(map[string]bool),
		changed: true, wake: make(chan struct{}, 1), failed: make(chan struct{}),
	}
	st := &statuses{newest: n, ends: make(map[batch.Key]*end), early: make(map[fence.Invocation]bool)}
	ad := &adoption{newest: n, statuses: st, unowned: make(map[batch.Key]fence.Invocation),
		former:  make(map[fence.Invocation][]*forest),
		shadows: make(map[fence.Invocation][]string), adopted: -1}
	st.adoption = ad
	return &Scheduler{newest: n, statuses: st, adoption: ad, changing: &changing{newest: n, adoption: ad}}
}

// Stats counts since the term began.
type Stats struct {
	Started, Ended, Passes int
	Refused                int // picks that found no cell
	Segments               int // rows of statuses written
	Merged                 int // rows of statuses merged away
	Looked                 int // forests and jobs that passes have looked at
	Gates                  int // gates that passes have computed
	// Visits is how many (job, place) pairs the boards have visited.
	Visits int64
}

// forest is a board and how its nodes are read.
type forest struct {
	name    string
	board   *batch.Board
	awake   bool          // the next pass looks at it
	turned  bool          // the state of any of its jobs may have changed
	running int           // its tasks that run, as counted last
	lookAt  time.Duration // the appointment, if at is its place among them
	at      int
	// planted is set once its nodes were read; error is that of the newest reading.
	planted bool
	unread  bool // its row cannot be read: its limits are unknown
	gone    bool // its row is deleted, running work is accounted for
	problem string
	reading bool
	readAt  time.Duration // when to look next: at the stamp of the files, or to read
	wholeAt time.Duration // when to read, even if the stamp is as before
	stamp   string        // of the files that were read last
	version int           // of its spec: a reading of an older one is dropped
	// plantedOf is the version of the spec whose nodes were read last.
	plantedOf int
	// sourced is the version of the spec that changed the sources last.
	sourced int
	// forgetAt is when to look for statuses of nodes that are long gone.
	forgetAt time.Duration
}

// job is one name.
type job struct {
	row      jobRow
	spec     *batch.Job // stable while it does not change: shared by payloads
	forest   *forest
	segs     segments
	kills    map[string]fence.Invocation
	reasons  map[string]string // of statuses, for as many nodes as maxReasons
	revision int64
	latest   int64 // newest status, Unix milliseconds
	state    batch.State
	merging  bool // rows of it are being merged or deleted
	written  int  // segments since small ones were looked for
}

// maxReasons limits the reasons kept in memory per job.
const maxReasons = 10_000

// ring leaves at most one token in a channel of one.
func ring(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Attach sets the registry, where Config left it out: the registry of a term is made
// with the names that this scheduler has loaded. It is called once, before Run and
// before the registry runs.
func (s *Scheduler) Attach(r Registry) { s.cfg.Registry = r }

// hasResources reports that nodes of a forest have resources that can run out.
func hasResources(f batch.ForestSpec) bool {
	for level, resources := range f.Limits {
		if level != batch.LevelWorker && len(resources) > 0 {
			return true
		}
	}
	return false
}

func drawName(forest string) string { return "forest/" + forest }

// drawAny is held by work that may draw on any node; no forest has an empty name.
const drawAny = "forest/"

// drawNames are the names by which work that draws on nodes of a forest is held.
func drawNames(forest string) []string { return []string{drawName(forest), drawAny} }

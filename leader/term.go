package leader

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"cantina/api"
	"cantina/auctioneer"
	"cantina/bbs"
	"cantina/bbs/callback"
	"cantina/event"
	"cantina/fence"
	"cantina/internal/link"
	"cantina/internal/run"
	"cantina/internal/secret"
	"cantina/placement"
	"cantina/registry"
	"cantina/scheduler"
	"cantina/store"
	"cantina/task"
	"cantina/timetable"
	"cantina/worker"
)

// Settings are an operator's settings of the leader, and the server's data about itself. Timeouts,
// Zone, Clock and Log are needed.
type Settings struct {
	// Name names the server to others; Cluster is the banner of the whole.
	Name, Cluster string
	Build         string

	Timeouts      worker.Timeouts
	Witness       worker.Witness
	NewCluster    bool
	InitialWait   time.Duration
	AllowBump     bool
	TurnoverLimit int
	BatchReserve  int         // percent
	Preempt       bool        // instances are stopped for waiting work of higher priority
	Tasks         task.Policy // how long ended tasks are kept, and when they are requested again
	// Past limits the records of a term about the past.
	Past Past
	// NoDeadline: server and cell are one process; Own then returns the directory of that cell,
	// called when a term begins.
	NoDeadline     bool
	Own            func() string
	CallbackSecret secret.Text
	// ScriptEnv is the environment of node scripts.
	ScriptEnv []string
	// Measures gets measurements; unset fields get none.
	Measures Measures
	// Zone finds a time zone.
	Zone  func(name string) (*time.Location, error)
	Clock run.Clock
	Log   *slog.Logger
}

// Measures are functions that get measurements of a term. They must not wait.
type Measures struct {
	Placed func(p *placement.Placement) // an instance or task got a cell
	Round  func(took time.Duration)     // of placements
}

// Past limits the records of a term about the past: events for resuming readers, the age of
// idempotency keys, ids of deleted tasks. Zero fields mean the defaults of event and bbs.
type Past struct {
	Events    int
	KeyLife   time.Duration
	Collected int
}

// NewID returns 16 random bytes in hexadecimal.
func NewID() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// Term has all parts of a leading server during its term: the Leader, and its environment.
type Term struct {
	*Leader
	cfg       Settings
	log       *slog.Logger
	lease     *store.Leadership
	since     time.Time
	hub       *event.Hub
	callbacks *callback.Sender
	cells     *link.Directory

	calling sync.Mutex // no call begins while the term ends
	calls   sync.WaitGroup
	ctx     context.Context // of calls to cells
	cancel  context.CancelFunc
}

// Begin builds the parts of a won term, from the rows of its load. It starts only the board's
// first submissions; Run starts the rest.
func Begin(cfg Settings, lease *store.Leadership, rows []store.Row, cells *link.Directory) (*Term, error) {
	t := &Term{cfg: cfg, log: cfg.Log.With("term", lease.Term().String()), lease: lease, since: cfg.Clock.Wall(),
		cells: cells}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	t.hub = event.New(cfg.Past.Events, lease.Revision(), cfg.Clock.Wall)
	t.callbacks = callback.New(callback.Config{Done: func(d task.Delivery, ok bool,
		problem string) {
		t.Board.CallbackDone(d, ok, problem)
	},
		Wanted: func(d task.Delivery) bool { return t.Board.Delivers(d) },
		Wall:   cfg.Clock.Wall, Secret: cfg.CallbackSecret, Log: cfg.Log})
	cells.Begin(lease.Cluster())
	own := ""
	if cfg.Own != nil {
		own = cfg.Own()
	}
	var err error
	t.Leader, err = New(Config{Cluster: lease.Cluster(), Term: lease.Term(), Store: lease, Revision: lease.Revision(),
		Cells: directory{cells}, Hub: t.hub, Callbacks: t.callbacks, Clock: cfg.Clock, Log: t.log, NewID: NewID,
		Go: t.call, Resign: t.resign, Signals: SignalCalls{Go: t.call, Signal: t.signal},
		Auctioneer: auctioneer.Config{Placement: placement.Config{BatchReserve: cfg.BatchReserve, Preempt: cfg.Preempt},
			Placed: cfg.Measures.Placed, Round: cfg.Measures.Round},
		Scheduler: scheduler.Config{Scripts: scheduler.Programs{Env: cfg.ScriptEnv}, Zone: cfg.Zone},
		Registry: registry.Config{Behind: cells.Behind,
			Worker: worker.Config{Timeouts: cfg.Timeouts, Witness: cfg.Witness, Restored: lease.Restored(),
				NewStore: lease.NewStore(), NewCluster: cfg.NewCluster, InitialWait: cfg.InitialWait, AllowBump: cfg.AllowBump,
				NoDeadline: cfg.NoDeadline, Own: own, TurnoverLimit: cfg.TurnoverLimit}},
		Board: bbs.Config{Tasks: cfg.Tasks, Began: lease.Began(), KeyLife: cfg.Past.KeyLife,
			Collected: cfg.Past.Collected},
		Timetable: &timetable.Config{Clock: cfg.Clock, Zone: cfg.Zone, NewID: NewID},
	}, rows)
	if err != nil {
		t.cancel()
		return nil, err
	}
	return t, nil
}

// Run starts the loops of the parts and drives the term until ctx is done or the term is over.
func (t *Term) Run(ctx context.Context) error {
	defer t.end()
	defer t.hub.Close()
	t.Leader.Begin()
	var g run.Group
	g.Add("lease", t.watchLease)
	g.Add("callbacks", t.callbacks.Run)
	g.Add("auctioneer", t.Auctioneer.Run)
	g.Add("board", t.Board.Run)
	g.Add("registry", t.Registry.Run)
	g.Add("scheduler", t.Scheduler.Run)
	g.Add("timetable", t.Timetable.Run)
	return g.Run(ctx)
}

// watchLease returns when the term is over.
func (t *Term) watchLease(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.lease.Done():
		return fmt.Errorf("term %v is over: %w", t.lease.Term(), t.lease.Err())
	}
}

// resign ends the term: a higher one was received. If the store does not contain that one, it went
// back, and the next term is beyond it.
func (t *Term) resign(higher fence.Term) {
	t.call(func(ctx context.Context) {
		t.lease.Heard(higher)
		if err := t.lease.Resign(ctx); err != nil {
			t.log.Debug("resign", "error", err)
		}
	})
}

// call runs f in a goroutine of the term, unless the term is over.
func (t *Term) call(f func(context.Context)) {
	t.calling.Lock()
	defer t.calling.Unlock()
	if t.ctx.Err() == nil {
		t.calls.Go(func() { f(t.ctx) })
	}
}

// end ends all calls and waits for them.
func (t *Term) end() {
	t.calling.Lock()
	t.cancel()
	t.calling.Unlock()
	t.calls.Wait()
}

var _ link.Termed = (*Term)(nil)

// Backend is the term as the API sees it.
func (t *Term) Backend() *api.Backend {
	v := viewOf(t)
	return &api.Backend{Applications: v, Services: v, Tasks: v, Jobs: v, Schedules: v, Cells: v, Operation: v, Stops: v,
		Explainer: v, Logs: v, Containers: v, Events: t.hub, Writable: t.lease.NoRoom}
}

// ZonesChanged has the timetable read the rules of time zones again.
func (t *Term) ZonesChanged(names []string) { t.Timetable.ZonesChanged(names) }

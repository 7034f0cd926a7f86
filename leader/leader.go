package leader

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"cantina/auctioneer"
	"cantina/bbs"
	"cantina/cell"
	"cantina/event"
	"cantina/fence"
	"cantina/internal/run"
	"cantina/lrp"
	"cantina/registry"
	"cantina/scheduler"
	"cantina/store"
	"cantina/timetable"
	"cantina/worker"
)

// Store is the term that was won: store.Leadership.
type Store interface {
	bbs.Store
	registry.Store
	scheduler.Store
	DrainStore
}

// Cells sends all calls to cell processes. An error of a call is an unknown outcome, unless
// NeverSent reports that the call certainly was not sent.
type Cells interface {
	registry.Cells
	Performer
	StopWork(ctx context.Context, name worker.CellName, term fence.Term, proc worker.Proc, w cell.Stops) error
	Drain(ctx context.Context, name worker.CellName, term fence.Term, proc worker.Proc, e cell.Drain) error
	// SetAddress sets where a cell is reached, by the process that has its name; empty = it is gone.
	SetAddress(name worker.CellName, address string)
}

// Hub takes events in order: those of commits with their revision, others with 0.
type Hub interface {
	Publish(revision int64, events ...event.Event)
}

// Config has the parts of a leader.
type Config struct {
	// Cluster is the identity of the store: calls of cells of another one are refused.
	Cluster fence.Cluster
	Term    fence.Term
	Store   Store
	// Revision is that of the load.
	Revision  int64
	Cells     Cells
	Hub       Hub
	Callbacks bbs.Callbacks
	Clock     run.Clock
	Log       *slog.Logger
	// NewID returns an id that is never used again.
	NewID func() string
	// Go runs a call to a cell, or code that waits for a commit, concurrently, unless the term is
	// over.
	Go func(func(context.Context))
	// Resign ends the term, for a cell of this cluster has seen a higher one; it must not wait.
	Resign func(higher fence.Term)
	// Signals is how signals of schedules reach cells.
	Signals SignalCalls

	// The settings of the parts: their connections are filled in.
	Auctioneer auctioneer.Config
	Scheduler  scheduler.Config
	Registry   registry.Config
	Board      bbs.Config
	// Timetable has a clock, zones and ids, too; nil = there is none.
	Timetable *timetable.Config
	Edges     Edges
}

// Edges intercept calls between two parts, to check the passed values, or to end the process in
// between: for the simulator. Nil = none.
type Edges struct {
	// Listener is between the registry and the leader, Placement between board and auctioneer.
	Listener  func(registry.Listener) registry.Listener
	Placement func(bbs.Auctioneer) bbs.Auctioneer
	// Registry and Ledger are between the scheduler and the registry, and the auctioneer.
	Registry func(scheduler.Registry) scheduler.Registry
	Ledger   func(scheduler.Auctioneer) scheduler.Auctioneer
	// Signals is between the timetable and the sender of signals.
	Signals func(timetable.Signals) timetable.Signals
}

func edge[T any](between func(T) T, x T) T {
	if between == nil {
		return x
	}
	return between(x)
}

// Leader has the parts of one term. Its methods may be called at the same time.
type Leader struct {
	Registry   *registry.Registry
	Board      *bbs.BBS
	Auctioneer *auctioneer.Auctioneer
	Placement  *PlacementAdapter
	Scheduler  *scheduler.Scheduler
	Timetable  *timetable.Timetable // nil when there is none
	Drains     *Drains

	cfg   Config
	log   *slog.Logger
	began time.Duration // by the boot clock

	admission  admission
	haveJoined atomic.Bool // see joined
	departures departures

	mu     sync.Mutex // the last one: no part is called with it held
	states map[worker.CellName]cell.State
	// changed is when the session that holds a cell's name got its state.
	changed map[worker.CellName]time.Time
	audits  []string
	// sweepAt is how many states there have to be before those of cells that are not known any more
	// are looked for.
	sweepAt int
	// foreign are the cells of other clusters that call, by name.
	foreign map[worker.CellName]ForeignCell
}

// New builds the parts from the rows of the load, which it does not keep; manifests of earlier
// terms are rolled forward first. A part that needs a later one gets it from l, and only after New
// has returned. Begin starts them. The error is that of registry.New.
func New(cfg Config, rows []store.Row) (*Leader, error) {
	rows = bbs.RollForwardOthers(cfg.Store, rows)
	l := &Leader{cfg: cfg, log: cfg.Log, began: cfg.Clock.Boot(), states: map[worker.CellName]cell.State{},
		changed: map[worker.CellName]time.Time{}, foreign: map[worker.CellName]ForeignCell{}, sweepAt: 64,
		departures: departures{wall: cfg.Clock.Wall}}
	l.Drains = newDrains(l, rows)

	auction := cfg.Auctioneer
	auction.Clock, auction.Log = cfg.Clock, cfg.Log
	if auction.Placement.Preempt {
		auction.Starved = l.preempt
	}
	l.Placement = newPlacementAdapter(placementConfig{Term: cfg.Term, Cells: cfg.Cells, NewID: cfg.NewID, Joined: l.joined,
		Board: func() PlacementBoard { return l.Board }, Auctioneer: auction})
	l.Auctioneer = l.Placement.auctioneer

	sessions := &lateRegistry{}
	jobs := cfg.Scheduler
	jobs.Term, jobs.Store, jobs.Hub, jobs.Clock, jobs.Log, jobs.NewID = cfg.Term, cfg.Store, cfg.Hub, cfg.Clock, cfg.Log,
		cfg.NewID
	jobs.Registry = edge[scheduler.Registry](cfg.Edges.Registry, sessions)
	jobs.Auctioneer = edge[scheduler.Auctioneer](cfg.Edges.Ledger, l.Auctioneer)
	l.Scheduler = scheduler.New(jobs, rows)

	reg := cfg.Registry
	reg.Worker.Cluster, reg.Worker.Term = cfg.Cluster, cfg.Term
	reg.Worker.Jobs, reg.Worker.HeldNodes = l.Scheduler.Names(), l.Scheduler.HeldNodes()
	reg.Worker.Known = func(id string) bool { return l.Board != nil && l.Board.Names(id) }
	reg.Store, reg.Cells, reg.Statuses, reg.Clock, reg.Log = cfg.Store, cfg.Cells, l.Scheduler, cfg.Clock, cfg.Log
	reg.Listener = edge[registry.Listener](cfg.Edges.Listener, l)
	var err error
	if l.Registry, err = registry.New(reg, rows); err != nil {
		return nil, err
	}
	sessions.Registry = l.Registry
	l.admission = admission{registry: l.Registry, drains: l.Drains, auctioneer: l.Auctioneer, placement: l.Placement,
		reports: reports{beside: cfg.Go, newest: map[worker.CellName]cell.State{}}}

	feed := newLedgerFeed(l.Auctioneer, func(process string) *lrp.Desired { return l.Board.Definition(process) })
	board := cfg.Board
	board.Store, board.Hub, board.Clock, board.Log, board.NewID = cfg.Store, &ledgerHub{cfg.Hub, feed}, cfg.Clock, cfg.Log,
		cfg.NewID
	board.Auctioneer = edge[bbs.Auctioneer](cfg.Edges.Placement, l.Placement)
	board.Cells, board.Sessions, board.Callbacks, board.Machines = newCellCalls(cfg.Go, l.stopWork), l.Registry,
		cfg.Callbacks, l.machines
	board.Converge.Starting = l.starting
	l.Board = bbs.New(board, rows, cfg.Revision, l.Registry.Members())
	feed.Load(l.Board)

	if cfg.Timetable != nil {
		times := *cfg.Timetable
		times.Store, times.Hub, times.Log = cfg.Store, cfg.Hub, cfg.Log
		times.Signals = edge[timetable.Signals](cfg.Edges.Signals, NewSignalSender(l.Board, cfg.Signals))
		l.Timetable = timetable.New(ConnectTimetable(times, l.Board, l.Scheduler, l.Registry), rows)
	}
	return l, nil
}

// lateRegistry is the registry as the scheduler has it, which is made first.
type lateRegistry struct{ *registry.Registry }

// Begin requests placements for waiting work. The loops of the parts may run from then on.
func (l *Leader) Begin() { l.Board.RequestPending() }

// ledgerHub hands every event of the board to the ledger before it goes to the hub.
type ledgerHub struct {
	hub  Hub
	feed *LedgerFeed
}

// Publish allocates or frees the resources of the rows in one commit, and passes the events on.
func (h *ledgerHub) Publish(revision int64, events ...event.Event) {
	h.feed.Take(events...)
	h.hub.Publish(revision, events...)
}

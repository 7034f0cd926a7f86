package leader

import (
	"context"
	"log/slog"
	"sync"
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
	"cantina/worker"
)

// Store is the term that was won: store.Reign.
type Store interface {
	bbs.Store
	registry.Store
	scheduler.Store
	DrainStore
}

// Cells carries all calls to cell processes. An error of a call is an unknown outcome, unless
// NeverSent says that the call certainly did not leave.
type Cells interface {
	registry.Cells
	Performer
	StopInstance(ctx context.Context, name worker.CellName, term fence.Term, proc worker.Proc, key lrp.Key, instance string) error
	CancelTask(ctx context.Context, name worker.CellName, term fence.Term, proc worker.Proc, uid string) error
	Evacuate(ctx context.Context, name worker.CellName, term fence.Term, proc worker.Proc, e cell.Evacuation) error
	// SetAddress tells where a cell is reached, by the process that has its name.
	SetAddress(name worker.CellName, address string)
}

// Hub takes events in order: those of commits with their revision, others with 0.
type Hub interface {
	Publish(revision int64, events ...event.Event)
}

// Times is the timetable, as far as sessions matter to it.
type Times interface {
	// Changed tells that more may start.
	Changed()
}

// Config is what an office is made of.
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
	// Go runs a call to a cell, or what waits for a commit, beside everything else, unless
	// the term is over.
	Go func(func(context.Context))
	// Resign ends the term, for a cell of this cluster has seen a higher one; it must not wait.
	Resign func(higher fence.Term)
	// Times makes the timetable from the rows, once the board is there; nil = there is none.
	Times func(o *Leader, rows []store.Row) Times

	// The settings of the parts: what they are connected to is filled in.
	Auction  auctioneer.Config
	Jobs     scheduler.Config
	Registry registry.Config
	Board    bbs.Config
	Edges    Edges
}

// Edges put something between two parts, for whoever checks what passes there, or has the
// process end in between: the simulator. Nil = nothing.
type Edges struct {
	// News is between the registry and the office, Wants between board and market.
	News  func(registry.Listener) registry.Listener
	Wants func(bbs.Auctioneer) bbs.Auctioneer
	// Starts and Room are between the scheduler and the registry, and the ledger.
	Starts func(scheduler.Registry) scheduler.Registry
	Room   func(scheduler.Auctioneer) scheduler.Auctioneer
}

func edge[T any](between func(T) T, x T) T {
	if between == nil {
		return x
	}
	return between(x)
}

// Leader has the parts of one term. Its methods may be called at the same time.
type Leader struct {
	Registry *registry.Registry
	Board    *bbs.BBS
	House    *auctioneer.Auctioneer
	Market   *PlacementAdapter
	Jobs     *scheduler.Scheduler
	Drains   *Drains

	cfg   Config
	log   *slog.Logger
	began time.Duration // by the boot clock
	times Times

	// admitting makes what is told to the auctioneer the newest of what is known. It comes
	// before the locks of registry, drains and auctioneer.
	admitting sync.Mutex

	mu     sync.Mutex // the last one: no part is called with it held
	states map[worker.CellName]cell.State
	// changed is when the session that holds a cell's name got its state.
	changed map[worker.CellName]time.Time
	audits  []string
	// foreign are the cells of other clusters that call, by name.
	foreign map[worker.CellName]ForeignCell
	// departed are the processes that were given up, in order.
	departed []*departed
}

// lateRegistry is filled in after the scheduler was made: each needs the other.
type lateRegistry struct{ *registry.Registry }

// New builds the parts from the rows of the load, which it does not keep, what others have
// left undone first. It starts nothing but what the board submits at once. Its error is that
// of registry.New.
func New(cfg Config, rows []store.Row) (*Leader, error) {
	rows = bbs.RollForwardOthers(cfg.Store, rows)
	o := &Leader{cfg: cfg, log: cfg.Log, began: cfg.Clock.Boot(), states: map[worker.CellName]cell.State{}, changed: map[worker.CellName]time.Time{}, foreign: map[worker.CellName]ForeignCell{}}
	o.Drains = newDrains(drainConfig{Store: cfg.Store, Clock: cfg.Clock, Log: cfg.Log, Tell: o.tellDrain, Go: cfg.Go, Changed: o.drainChanged,
		Batch:   func(name worker.CellName) int { return o.Registry.OnCell(name) },
		Session: func(name worker.CellName) (worker.SessionView, bool) { return o.Registry.Session(name) }}, rows)
	o.Market = newPlacementAdapter(placementConfig{Term: cfg.Term, Cells: cfg.Cells, NewID: cfg.NewID, Settled: o.settled})
	cfg.Auction.Clock, cfg.Auction.Log = cfg.Clock, cfg.Log
	o.House = auctioneer.New(cfg.Auction, o.Market, o.Market)
	o.Market.Attach(o.House)
	late := &lateRegistry{}
	o.Jobs = newJobs(&cfg, edge[scheduler.Registry](cfg.Edges.Starts, late), edge[scheduler.Auctioneer](cfg.Edges.Room, o.House), rows)
	var err error
	if o.Registry, err = o.newRegistry(rows); err != nil {
		return nil, err
	}
	late.Registry = o.Registry
	o.newBoard(rows)
	if cfg.Times != nil {
		o.times = cfg.Times(o, rows)
	}
	o.Board.RequestPending()
	return o, nil
}

func newJobs(cfg *Config, starts scheduler.Registry, room scheduler.Auctioneer, rows []store.Row) *scheduler.Scheduler {
	c := cfg.Jobs
	c.Term, c.Store, c.Registry, c.Auctioneer, c.Hub = cfg.Term, cfg.Store, starts, room, cfg.Hub
	c.Clock, c.Log, c.NewID = cfg.Clock, cfg.Log, cfg.NewID
	return scheduler.New(c, rows)
}

func (o *Leader) newRegistry(rows []store.Row) (*registry.Registry, error) {
	c := o.cfg.Registry
	c.Worker.Cluster, c.Worker.Term, c.Worker.Jobs, c.Worker.HeldNodes = o.cfg.Cluster, o.cfg.Term, o.Jobs.Names(), o.Jobs.HeldNodes()
	c.Worker.Known = func(id string) bool { return o.Board != nil && o.Board.Names(id) }
	c.Store, c.Cells, c.Statuses, c.Clock, c.Log = o.cfg.Store, o.cfg.Cells, o.Jobs, o.cfg.Clock, o.cfg.Log
	c.Listener = edge[registry.Listener](o.cfg.Edges.News, o)
	return registry.New(c, rows)
}

// newBoard makes the board, and the ledger's book of what its rows hold.
func (o *Leader) newBoard(rows []store.Row) {
	h := &ledgerHub{o.cfg.Hub, newLedgerFeed(o.House, func(process string) *lrp.Desired { return o.Board.Definition(process) })}
	c := o.cfg.Board
	c.Store, c.Auctioneer, c.Cells, c.Sessions, c.Hub = o.cfg.Store, edge[bbs.Auctioneer](o.cfg.Edges.Wants, o.Market), cellCalls{o}, o.Registry, h
	c.Machines = o.machines
	c.Callbacks, c.Clock, c.Log, c.NewID = o.cfg.Callbacks, o.cfg.Clock, o.cfg.Log, o.cfg.NewID
	o.Board = bbs.New(c, rows, o.cfg.Revision, o.Registry.Members())
	o.Market.Serve(o.Board)
	o.Drains.Attach(o.Board)
	h.book.Load(o.Board)
}

// ledgerHub hands every event of the board to the ledger's book before it goes to the hub.
type ledgerHub struct {
	hub  Hub
	book *LedgerFeed
}

// Publish books or frees what the rows of one commit hold, and passes the events on.
func (h *ledgerHub) Publish(revision int64, events ...event.Event) {
	h.book.Take(events...)
	h.hub.Publish(revision, events...)
}

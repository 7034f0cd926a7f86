// Package auctioneer is the leader's placement: it owns the goroutine around
// placement.Auction, sends what was placed to the cells, and grants room to the
// batch scheduler from the same ledger (Diego dev notes, "Distributing ActualLRPs:
// Auctioneer"; design: one ledger, one owner).
//
//	bbs ──Request, Withdraw──▶ ┌────────────┐ ──Perform──▶ cells
//	bbs ──Hold, Release──────▶ │ auctioneer │ ◀─refused items, or no answer
//	registry ──Push, Admit───▶ └────────────┘ ──Waiting, Unanswered──▶ bbs
//	scheduler ──Reserve, Confirm, Release──▶      ──Room──▶ scheduler
//
// All methods but Run may be called from any goroutine and only take a short lock; no
// I/O happens under it. Run drives Loop; whoever has no goroutines drives it in another
// way (Runtime). Callers request work after the commit of its row, so nothing
// here is outward before its commit. Losing a request is safe: convergence repeats
// it. A new term makes a new Auctioneer, rebuilt from rows (Hold) and from what
// sessions push and report.
package auctioneer

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"cantina/internal/run"
	"cantina/placement"
)

// Refusal is one item that a cell did not take.
type Refusal struct {
	Hold   string
	Reason string
	// Full says that the cell takes nothing now, not that the item did not suit it.
	Full bool
}

// Cells reaches the cell processes.
type Cells interface {
	// Perform hands work to a cell process and returns what it refused. An error is
	// no answer: the cell may have taken anything of it.
	Perform(ctx context.Context, cell, process string, work []placement.Item) ([]Refusal, error)
}

// Feedback is what the bulletin board hears. It is called from the auctioneer's
// goroutines, without a lock held.
type Feedback interface {
	// Waiting tells of items that found no place, with the reason. They go on waiting
	// until they are placed or withdrawn; the board decides what fails.
	Waiting([]placement.Refused)
	// Unanswered tells of items whose cell did not answer or went away: they are not
	// carried over, convergence decides.
	Unanswered([]placement.Item)
}

// Config of an Auctioneer.
type Config struct {
	Placement placement.Config
	// PerformTimeout bounds one call to a cell; 0 = 10 s.
	PerformTimeout time.Duration
	// Calls is how many calls to cells are under way at most; 0 = 64. Others wait for their turn.
	Calls int
	// CallItems is how many items one call has at most; 0 = 250.
	CallItems int
	Clock     run.Clock
	Log       *slog.Logger
	// Runtime is how calls to cells run; a simulator has its own.
	Runtime Runtime
}

// Runtime is how calls to cells run side by side, and are limited in time. What is not set
// is that of a real process: goroutines and timers.
type Runtime struct {
	// Go has f run beside everything else.
	Go     func(f func())
	Within func(context.Context, time.Duration) (context.Context, context.CancelFunc)
	// Watch, when set, is told of the cells that a pass has placed work on, before they are called.
	Watch func(cells []string)
}

// Stats counts since the term began.
type Stats struct {
	Rounds, Placed, Refused, Unanswered int
	// RefusedByCell counts items that a cell did not take, Granted batch grants.
	RefusedByCell, Granted int
	Waiting                int
	LastRound              time.Duration // how long the newest round took
}

// Auctioneer places work in one term.
type Auctioneer struct {
	cfg   Config
	cells Cells
	board Feedback

	mu      sync.Mutex
	auction *placement.Auction
	outbox  []placement.Result
	stats   Stats

	cellQueues map[string]*cellQueue // by cell
	ready      []*cellQueue          // that a call can be made for, in order
	silent     []*cellQueue          // whose last call had no answer
	underWay   int                   // calls
	woken      bool                  // there may be something to do
	due        time.Duration         // there is anyway, by the boot clock

	loop  *run.Loop
	calls sync.WaitGroup // of Run
	room  chan struct{}
}

// cellQueue is the calls to one cell process: one at a time, what comes meanwhile
// waits and goes together.
//
//	idle ──work──▶ ready ──its turn──▶ busy ──answer──▶ idle or ready
//	                 ▲                  │
//	                 └──its time comes──┴──no answer: silent
type cellQueue struct {
	cell, process string
	queue         []placement.Item // not sent yet
	state         queueState
	// unanswered was sent and not answered: the cell may have it. It goes again, under the same ids, of which a
	// process takes each once.
	unanswered []placement.Item
	tries      int           // calls in a row without an answer
	again      time.Duration // not called before, by the boot clock
}

type queueState int

const (
	idle queueState = iota
	ready
	busy
	silent
)

// Call is work for one cell process: a Perform call to be made.
type Call struct {
	Cell, Process string
	Work          []placement.Item
	cellQueue     *cellQueue
}

// New returns the auctioneer of a term. It starts nothing.
func New(cfg Config, cells Cells, board Feedback) *Auctioneer {
	cfg.PerformTimeout = cmp.Or(cfg.PerformTimeout, 10*time.Second)
	cfg.Calls, cfg.CallItems = cmp.Or(cfg.Calls, 64), cmp.Or(cfg.CallItems, 250)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	a := &Auctioneer{
		cfg: cfg, cells: cells, board: board, auction: placement.NewAuction(cfg.Placement),
		room: make(chan struct{}, 1), cellQueues: make(map[string]*cellQueue),
	}
	a.loop = run.NewLoop("auction", a.next)
	if a.cfg.Runtime.Go == nil {
		a.cfg.Runtime.Go = a.calls.Go
	}
	if a.cfg.Runtime.Within == nil {
		a.cfg.Runtime.Within = context.WithTimeout
	}
	return a
}

// locked runs f under the lock and wakes the loop.
func (a *Auctioneer) locked(f func(now time.Duration)) {
	now := a.cfg.Clock.Boot()
	a.mu.Lock()
	f(now)
	a.woken = true
	a.mu.Unlock()
	a.loop.Wake()
}

// ring leaves at most one token in a channel of one.
func ring(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Request adds work to the next batch. Items with the ID of waiting ones replace
// them; items of kind batch or without ids are refused with
// placement.ErrInvalid, the others are taken.
func (a *Auctioneer) Request(items ...placement.Item) (err error) {
	a.locked(func(now time.Duration) { err = a.auction.Submit(now, items...) })
	return err
}

// Withdraw takes items out of the waiting work, by their IDs.
func (a *Auctioneer) Withdraw(ids ...string) {
	a.locked(func(time.Duration) { a.auction.Withdraw(ids...) })
}

// Hold books what a row or a report says a cell has, and confirms what was in
// flight. It returns placement.ErrHeld when the ledger has it on another cell.
func (a *Auctioneer) Hold(h placement.Holding) (err error) {
	a.locked(func(time.Duration) { err = a.auction.Hold(h) })
	return err
}

// Confirm says that cells have taken what was in flight; unknown ids are ignored.
func (a *Auctioneer) Confirm(holds ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, h := range holds {
		if err := a.auction.Confirm(h); err != nil {
			a.cfg.Log.Debug("confirm", "error", err)
		}
	}
}

// Release frees what is allocated under the ids.
func (a *Auctioneer) Release(holds ...string) {
	n := 0
	a.locked(func(time.Duration) { n = a.auction.Release(holds...) })
	if n > 0 {
		ring(a.room)
	}
}

// Decline gives grants back that were not used. Unlike Release it is no news for
// the scheduler: else a cell that is admitted here and refused elsewhere would keep
// it busy for ever.
func (a *Auctioneer) Decline(holds ...string) {
	a.locked(func(time.Duration) { a.auction.Release(holds...) })
}

// Rest keeps a cell that refused granted batch work out of the auction for a
// while; a token of Room follows.
func (a *Auctioneer) Rest(cell string) {
	a.locked(func(now time.Duration) { a.auction.Rest(now, cell) })
}

// Push takes a cell's newest state.
func (a *Auctioneer) Push(s placement.State) {
	changed := false
	a.locked(func(time.Duration) { changed = a.auction.Push(s) })
	if changed {
		ring(a.room)
	}
}

// Admit says whether the session of a cell process may be given work; an empty
// reason admits it.
func (a *Auctioneer) Admit(cell, process, reason string) {
	changed := false
	a.locked(func(time.Duration) { changed = a.auction.Admit(cell, process, reason) })
	if changed {
		ring(a.room)
	}
}

// Remove says that a cell's session is gone. What is allocated stays until its owner
// releases it.
func (a *Auctioneer) Remove(cell string) {
	a.locked(func(time.Duration) { a.auction.Remove(cell) })
}

// Reserve grants room for batch tasks, after the work that waits had its turn.
// What is not confirmed within the in-flight time is free again.
func (a *Auctioneer) Reserve(wants []placement.Want) (grants []placement.Grant) {
	a.locked(func(now time.Duration) {
		if a.auction.Waiting() > 0 {
			a.round(now)
		}
		grants = a.auction.Reserve(wants, now)
		for i := range grants {
			if grants[i].Refusal == nil {
				a.stats.Granted++
			}
		}
	})
	return grants
}

// Room has a token whenever batch work that was refused might find room.
func (a *Auctioneer) Room() <-chan struct{} { return a.room }

// Explain says since when (boot clock) an item waits and why; ok is false when it
// does not wait.
func (a *Auctioneer) Explain(id string) (since time.Duration, why *placement.Refusal, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if since, ok = a.auction.WaitingSince(id); ok {
		why = a.auction.ExplainWaiting(id)
	}
	return since, why, ok
}

// Would says why work like this would get no cell now, or nil.
func (a *Auctioneer) Would(it placement.Item) *placement.Refusal {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.auction.Explain(it)
}

// Cells returns what every cell has and holds, in order of name.
func (a *Auctioneer) Cells() []placement.CellView {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.auction.Cells()
}

// Cell returns what one cell has and holds.
func (a *Auctioneer) Cell(name string) (placement.CellView, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.auction.Cell(name)
}

// Machines counts the machines of known cells, and of others, that let in work with one of the
// constraints.
func (a *Auctioneer) Machines(constraints []placement.Constraint, others []placement.State) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.auction.Machines(constraints, others)
}

// Stats returns the counters.
func (a *Auctioneer) Stats() Stats {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.stats
	s.Waiting = a.auction.Waiting()
	return s
}

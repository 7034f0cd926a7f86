// Package auctioneer is the leader's placement: it owns the goroutine around placement.Auction,
// sends placed work to the cells, and grants resources to the batch scheduler from the same ledger
// (Diego dev notes, "Distributing ActualLRPs: Auctioneer"; design: one ledger, one owner).
//
//	bbs ──Request, Withdraw──▶ ┌────────────┐ ──Perform──▶ cells
//	bbs ──Hold, Release──────▶ │ auctioneer │ ◀─refused items, or no response
//	registry ──Push, Admit───▶ └────────────┘ ──Waiting, Unanswered──▶ bbs
//	scheduler ──Reserve, Confirm, Release──▶      ──Room──▶ scheduler
//
// All methods except Run may be called from any goroutine. Those without a result wait for nothing:
// a change is queued, and made in order by whoever has the lock. The others take the lock, which is
// held for one slice of a round at most, and without I/O.
// Run drives Loop; a caller without goroutines drives it in another way (Runtime). Callers request
// work after the commit of its row, so nothing here is visible outside before its commit. Losing a
// request is safe: convergence repeats it. A new term makes a new Auctioneer, rebuilt from rows
// (Hold) and from the states and reports of sessions.
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
	// Full means that the cell takes no work now; otherwise the item did not fit it.
	Full bool
}

// Rebalance plans moves of instances; see placement.Rebalance.
func Rebalance(a *Auctioneer, items []placement.Item, limit, each int) placement.Balance {
	a.lock()
	defer a.unlock()
	return placement.Rebalance(a.auction.Ledger, items, limit, each)
}

// Cells reaches the cell processes.
type Cells interface {
	// Perform gives work to a cell process and returns the refused items. An error is no response:
	// the cell may have taken any of it. It bounds the call itself.
	Perform(ctx context.Context, cell, process string, work []placement.Item) ([]Refusal, error)
}

// Feedback is the board's interface. It is called from the auctioneer's goroutines, without a lock
// held.
type Feedback interface {
	// Waiting reports items that found no cell, with the reason. They wait until they are placed or
	// withdrawn; the board decides which fail.
	Waiting([]placement.Refused)
	// Unanswered reports items whose cell did not answer or is gone: they are not carried over,
	// convergence decides.
	Unanswered([]placement.Item)
}

// Config of an Auctioneer.
type Config struct {
	Placement placement.Config
	// Calls is the maximum number of calls to cells in progress; 0 = 64. Others wait.
	Calls int
	// CallItems is how many items one call has at most; 0 = 250.
	CallItems int
	Clock     run.Clock
	Log       *slog.Logger
	// Placed and Round, if set, get each placement, and how long each round took. They must not wait.
	Placed func(*placement.Placement)
	Round  func(time.Duration)
	// Starved, if set, gets items that have waited for room with Placement.Preempt (placement.Auction.Starving). It
	// is called from Loop, without a lock held.
	Starved func([]placement.Item)
	// Runtime is how calls to cells run; a simulator has its own.
	Runtime Runtime
}

// Runtime is how calls to cells run concurrently. Unset fields are those of a real process:
// goroutines.
type Runtime struct {
	// Go has f run beside everything else.
	Go func(f func())
	// Watch, if set, gets the cells that a pass has placed work on, before they are called.
	Watch func(cells []string)
}

// Stats counts since the term began.
type Stats struct {
	Rounds, Placed, Refused, Unanswered int
	// RefusedByCell counts items that a cell did not take, Granted batch grants.
	RefusedByCell, Granted int
	// Preempted counts instances that were stopped for work of higher priority.
	Preempted int
	Waiting   int
	// Calls are in progress, Ready are the cells whose next call waits for room, Silent those that did
	// not answer the last one.
	Calls, Ready, Silent int
	// Untried is the work that no round has examined since it arrived or its chances changed. InFlight is placed, and its
	// cell has not confirmed it.
	Untried, InFlight int
	LastRound         time.Duration // how long the newest round took
}

// Auctioneer places work in one term.
type Auctioneer struct {
	cfg   Config
	cells Cells
	board Feedback

	changes changes

	mu      sync.Mutex
	auction *placement.Auction
	outbox  []placement.Result
	stats   Stats

	cellQueues map[string]*cellQueue // by cell
	ready      []*cellQueue          // cells that can be called now, in order
	silent     []*cellQueue          // whose last call had no response
	underWay   int                   // calls
	woken      bool                  // there may be something to do
	due        time.Duration         // of the next pass at the latest, by the boot clock

	loop  *run.Loop
	calls sync.WaitGroup // of Run
	room  chan struct{}
}

// cellQueue is the calls to one cell process: one at a time, later work is collected for the next.
//
//	idle ──work──▶ ready ──its turn──▶ busy ──response──▶ idle or ready
//	                 ▲                  │
//	                 └──its time is up──┴──no response: silent
type cellQueue struct {
	cell, process string
	queue         []placement.Placement // not sent yet
	state         queueState
	// unanswered was sent without a response: the cell may have it. It is sent again, under the same
	// ids, which a process accepts once each.
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
	return a
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
func (a *Auctioneer) Request(items ...placement.Item) error {
	var err error
	valid := make([]placement.Item, 0, len(items))
	for i := range items {
		if bad := items[i].Submittable(); bad != nil {
			err = bad
			continue
		}
		valid = append(valid, items[i])
	}
	a.change(func(now time.Duration) { _ = a.auction.Submit(now, valid...) }) // all of them can be submitted
	return err
}

// Withdraw removes items from the waiting work, by their IDs.
func (a *Auctioneer) Withdraw(ids ...string) {
	a.change(func(time.Duration) { a.auction.Withdraw(ids...) })
}

// Hold allocates work that a report shows on a cell, and confirms work that was in
// flight. It returns placement.ErrHeld if the ledger has it on another cell.
func (a *Auctioneer) Hold(h placement.Holding) error {
	a.lock()
	defer a.unlock()
	return a.auction.Hold(h)
}

// Follow is Hold for work that a row shows. Work that the ledger has on another cell stays there.
func (a *Auctioneer) Follow(h placement.Holding) {
	a.note(func(time.Duration) { _ = a.auction.Hold(h) })
}

// Confirm confirms work in flight that cells have taken; unknown ids are ignored.
func (a *Auctioneer) Confirm(holds ...string) {
	a.note(func(time.Duration) {
		for _, h := range holds {
			if err := a.auction.Confirm(h); err != nil {
				a.cfg.Log.Debug("confirm", "error", err)
			}
		}
	})
}

// Release frees the allocations of the ids.
func (a *Auctioneer) Release(holds ...string) {
	a.change(func(time.Duration) {
		if a.auction.Release(holds...) > 0 {
			ring(a.room)
		}
	})
}

// Decline returns unused grants. Unlike Release it does not wake the scheduler: otherwise a cell
// that is admitted here and refused elsewhere would keep it busy forever.
func (a *Auctioneer) Decline(holds ...string) {
	a.change(func(time.Duration) { a.auction.Release(holds...) })
}

// Rest keeps a cell that refused granted batch work out of the auction for some time; a token of
// Room follows.
func (a *Auctioneer) Rest(cell string) {
	a.change(func(now time.Duration) { a.auction.Rest(now, cell) })
}

// Push takes a cell's newest state.
func (a *Auctioneer) Push(s placement.State) {
	a.change(func(time.Duration) {
		if a.auction.Push(s) {
			ring(a.room)
		}
	})
}

// Admit sets whether the session of a cell process may get work; an empty reason admits it.
func (a *Auctioneer) Admit(cell, process, reason string) {
	a.change(func(time.Duration) {
		if a.auction.Admit(cell, process, reason) {
			ring(a.room)
		}
	})
}

// Remove: a cell's session is gone. Its allocations stay until their owner releases them.
func (a *Auctioneer) Remove(cell string) {
	a.change(func(time.Duration) { a.auction.Remove(cell) })
}

// Reserve grants resources for batch tasks, after the waiting work had its turn. A grant that is
// not confirmed within the in-flight time is free again.
func (a *Auctioneer) Reserve(wants []placement.Want) []placement.Grant {
	now := a.cfg.Clock.Boot()
	a.lock()
	defer a.unlock()
	for a.auction.Waiting() > 0 && a.round(now) {
		a.breathe()
	}
	grants := a.auction.Reserve(wants, now)
	for i := range grants {
		if grants[i].Refusal == nil {
			a.stats.Granted++
		}
	}
	a.wake()
	return grants
}

// Room has a token whenever batch work that was refused might find room.
func (a *Auctioneer) Room() <-chan struct{} { return a.room }

// Waits reports which items wait, by their IDs.
func (a *Auctioneer) Waits(ids ...string) []bool {
	a.lock()
	defer a.unlock()
	waits := make([]bool, len(ids))
	for i, id := range ids {
		_, waits[i] = a.auction.WaitingSince(id)
	}
	return waits
}

// Explain returns since when (boot clock) an item waits and why; ok is false if it does not wait.
func (a *Auctioneer) Explain(id string) (since time.Duration, why *placement.Refusal, ok bool) {
	a.lock()
	defer a.unlock()
	if since, ok = a.auction.WaitingSince(id); ok {
		why = a.auction.ExplainWaiting(id)
	}
	return since, why, ok
}

// Fit returns the cells on which n like it would find room now, beside work that has its place, and why the next would
// not.
func (a *Auctioneer) Fit(it placement.Item, n int) ([]string, *placement.Refusal) {
	a.lock()
	defer a.unlock()
	return a.auction.Fit(it, n)
}

// Cells returns the capacity and the allocations of every cell, in order of name.
func (a *Auctioneer) Cells() []placement.CellView {
	a.lock()
	defer a.unlock()
	return a.auction.Cells()
}

// Cell returns the capacity and the allocations of one cell.
func (a *Auctioneer) Cell(name string) (placement.CellView, bool) {
	a.lock()
	defer a.unlock()
	return a.auction.Cell(name)
}

// Machines counts the machines of known cells, and of others, that admit work with one of the
// constraints.
func (a *Auctioneer) Machines(constraints []placement.Constraint, others []placement.State) int {
	a.lock()
	defer a.unlock()
	return a.auction.Machines(constraints, others)
}

// Stats returns the counters.
func (a *Auctioneer) Stats() Stats {
	a.lock()
	defer a.unlock()
	s := a.stats
	s.Waiting, s.Calls, s.Ready, s.Silent = a.auction.Waiting(), a.underWay, len(a.ready), len(a.silent)
	s.Untried, s.InFlight = a.auction.Untried(), a.auction.InFlight()
	return s
}

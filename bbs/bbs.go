package bbs

import (
	"context"
	"fmt"
	"sync"
	"time"

	"cantina/fault"
	"cantina/lrp"
	"cantina/store"
	"cantina/task"
)

// BBS is the bulletin board of one term. Its methods may be called at the same time.
type BBS struct {
	cfg  Config
	view *view
	// now is the leader's wall clock, which cannot step within a term: waits and
	// back-offs are measured by the time that really passed.
	now func() time.Time

	mu       sync.Mutex // guards the newest rows and the order of submission
	services *lrp.Board
	tasks    *task.Board
	domains  map[string]time.Time // newest; zero = fresh for ever
	applied  map[string]appliedTask
	idem     map[string]*idemEntry // by row key
	idemAge  []idemAge             // oldest first
	inFlight map[string]int        // row key → commits on their way
	bad      map[string]bool       // quarantined row keys of this board
	manifest manifests
	badKeys  []idemAge       // unreadable idempotency keys: when they are pruned, oldest first
	unlisted map[string]bool // processes that rows name and a list that may be wrong does not
	broken   int             // events refused because they broke an invariant
	pruned   int             // unreadable rows that were dropped because nobody can need them
	// waiting has, for each cell name, the given-up processes whose rows of work that
	// survives a restart stand until a successor has reported.
	waiting map[string][]string

	held held // for which no place is asked for yet

	kick chan struct{} // wakes Run after a change of what is due
	over chan struct{} // closed when the term cannot go on
	once sync.Once
	err  error // why, once over is closed
}

// appliedTask is the newest run of a task of a spec file.
type appliedTask struct {
	guid   string
	digest string
}

// fail ends the board: what is in memory cannot be trusted any more.
func (b *BBS) fail(err error) {
	b.once.Do(func() {
		b.err = err
		close(b.over)
	})
}

// isOver returns ErrOver with the reason once the term cannot go on.
func (b *BBS) isOver() error {
	select {
	case <-b.over:
		return fmt.Errorf("%w: %w", fault.ErrTermOver, b.err)
	default:
		return nil
	}
}

// Run calls Pass: it passes convergence when something falls due, and over everything from time
// to time, until ctx is done or the term is over.
func (b *BBS) Run(ctx context.Context) error {
	full := time.NewTicker(b.cfg.fullPass())
	defer full.Stop()
	timer := time.NewTimer(b.cfg.fullPass())
	defer timer.Stop()
	b.Pass(false)
	for {
		timer.Reset(b.UntilDue())
		select {
		case <-ctx.Done():
			return nil
		case <-b.over:
			return b.isOver()
		case <-full.C:
			b.Pass(true)
		case <-timer.C:
			b.Pass(false)
		case <-b.kick:
		}
	}
}

// Pass converges once more; full looks at everything. It waits for nothing.
func (b *BBS) Pass(full bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.isOver() != nil || store.NoRoom(b.cfg.Store) != nil {
		return
	}
	if full {
		b.expireKeys()
	}
	b.buryUnlisted()
	b.converge(full)
}

// UntilDue is how long nothing falls due: then Pass is to be called, and after
// Config.FullPass at the latest.
func (b *BBS) UntilDue() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if store.NoRoom(b.cfg.Store) != nil {
		return time.Second
	}
	wait := b.cfg.fullPass()
	now := b.now()
	if at, ok := b.services.NextDue(); ok {
		wait = min(wait, at.Sub(now))
	}
	if at, ok := b.tasks.NextDue(); ok {
		wait = min(wait, at.Sub(now))
	}
	return max(wait, 0)
}

// wake has Run look at what is due.
func (b *BBS) wake() {
	select {
	case b.kick <- struct{}{}:
	default:
	}
}

// maxRounds bounds the passes that one change may need; what is left waits for the
// next change or the timer.
const maxRounds = 100

// converge makes the moves of both boards until nothing is left.
func (b *BBS) converge(full bool) {
	for range maxRounds {
		now := b.now()
		t := b.begin(now)
		var out lrp.Outcome
		var moves []task.Move
		if full {
			out, moves = b.services.ConvergeAll(now), b.tasks.ConvergeAll(now)
		} else {
			out, moves = b.services.Converge(now), b.tasks.Converge(now)
		}
		full = false
		if out.Empty() && len(moves) == 0 {
			b.wake()
			return
		}
		t.perform(out, moves)
		b.submit(t, nil)
	}
	b.cfg.Log.Warn("convergence did not settle", "rounds", maxRounds)
	b.wake()
}

// perform makes the moves of a pass.
func (t *tx) perform(out lrp.Outcome, moves []task.Move) {
	for _, s := range out.Services {
		t.putService(s)
	}
	for _, k := range out.Gone {
		t.deleteService(k)
	}
	for _, m := range out.Moves {
		if err := t.step(m.Key, m.Event); err != nil {
			t.b.cfg.Log.Warn("move failed", "index", m.Key.String(), "error", err)
		}
	}
	for _, m := range moves {
		if err := t.stepTask(m.GUID, m.Event); err != nil {
			t.b.cfg.Log.Warn("move failed", "task", m.GUID, "error", err)
		}
	}
}

// change runs fn on the newest rows, commits what it changed, converges, and
// returns after the commit with its revision. When fn fails nothing is changed.
func (b *BBS) change(ctx context.Context, fn func(t *tx) error) (int64, error) {
	if err := b.cfg.Store.Wait(ctx); err != nil {
		return 0, err
	}
	ticket := b.newTicket()
	if err := b.changeLocked(fn, ticket.done); err != nil {
		return 0, err
	}
	return ticket.wait(ctx)
}

func (b *BBS) changeLocked(fn func(t *tx) error, done func(revision int64, err error)) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.isOver(); err != nil {
		return err
	}
	t := b.begin(b.now())
	if err := fn(t); err != nil {
		t.rollback()
		return err
	}
	b.submit(t, done)
	b.converge(false)
	return nil
}

// Unsettled is what convergence would do now, were it to look at everything: nothing, when
// all is as it is wanted.
func (b *BBS) Unsettled() (lrp.Outcome, []task.Move) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	return b.services.ConvergeAll(now), b.tasks.ConvergeAll(now)
}

// ticket waits for one commit.
type ticket struct {
	wake     func()
	await    func(context.Context) error
	revision int64
	err      error
}

func (b *BBS) newTicket() *ticket {
	k := &ticket{}
	k.wake, k.await = b.cfg.Park()
	return k
}

func (k *ticket) done(revision int64, err error) {
	k.revision, k.err = revision, err
	k.wake()
}

// wait returns the outcome; when ctx ends first, the outcome is unknown.
func (k *ticket) wait(ctx context.Context) (int64, error) {
	if err := k.await(ctx); err != nil {
		return 0, fmt.Errorf("outcome unknown: %w", err)
	}
	return k.revision, k.err
}

// barrier returns once everything submitted before it is durable.
func (b *BBS) barrier(k *ticket) {
	b.cfg.Store.Submit(store.Transition{}, k.done)
}

package bbs

import (
	"context"
	"fmt"
	"sync"
	"time"

	"cantina/lrp"
	"cantina/store"
	"cantina/task"
)

// BBS is the bulletin board of one term: the passes over the rows, and the parts that decide on
// them. Its methods may be called at the same time.
type BBS struct {
	*rows
	*queries
	*writes
	*applies
	*loader
	*processes
	*effects
}

// rows are the newest rows of the board, on which all decisions are made, and the way that a change
// of them takes: into the store in order, then before the readers, then to its effects. All parts
// that decide hold its lock.
type rows struct {
	cfg  Config
	view *view
	// now is the leader's wall clock, which cannot step within a term: waits and
	// back-offs are measured by the time that really passed.
	now     func() time.Time
	effects *effects

	mu       sync.Mutex // guards the newest rows and the order of submission
	services *lrp.Board
	tasks    *task.Board
	domains  map[string]time.Time // newest; zero = fresh forever
	applied  map[string]appliedTask
	keys     keys
	bad      map[string]bool // quarantined row keys of this board
	broken   int             // events refused because they broke an invariant

	inFlight flights // begun with mu held

	kick chan struct{} // wakes Run when the due work changes
	over chan struct{} // closed when the term cannot continue
	once sync.Once
	err  error // why, once over is closed
}

// assemble makes the parts of a board without rows.
func assemble(cfg Config, revision int64) *BBS {
	cfg = cfg.withDefaults()
	r := &rows{
		cfg: cfg, view: newView(revision, cfg.Collected), now: cfg.Clock.Steady(), services: lrp.NewBoard(cfg.Converge),
		tasks:   task.NewBoard(cfg.Tasks),
		domains: map[string]time.Time{}, applied: map[string]appliedTask{}, keys: keys{byRow: map[string]*idemEntry{}},
		inFlight: flights{n: map[string]int{}},
		bad:      map[string]bool{}, kick: make(chan struct{}, 1), over: make(chan struct{}),
	}
	r.effects = &effects{rows: r, held: held{lrps: map[lrp.Key]bool{}, tasks: map[TaskID]bool{}}}
	q := &queries{view: r.view, now: r.now, clock: cfg.Clock, policy: r.tasks.Policy()}
	w := &writes{rows: r, queries: q}
	return &BBS{rows: r, queries: q, writes: w, applies: &applies{rows: r, writes: w}, loader: &loader{rows: r},
		processes: &processes{rows: r, waiting: map[string][]string{}}, effects: r.effects}
}

// appliedTask is the newest run of a task of a spec file.
type appliedTask struct {
	guid   string
	digest string
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
		b.writes.expireKeys()
		b.loader.pruneKeys(b.rows.now())
	}
	b.processes.reapUnlisted()
	b.converge(full)
}

// BeingEnded reports whether the end of a cancelled task will be known: its container may still be there, on
// a cell that is not given up.
func (b *BBS) BeingEnded(t *task.Task) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !t.MayStillRun && b.tasks.BeingEnded(t, b.rows.now())
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
	now := b.rows.now()
	if at, ok := b.services.NextDue(); ok {
		wait = min(wait, at.Sub(now))
	}
	if at, ok := b.tasks.NextDue(); ok {
		wait = min(wait, at.Sub(now))
	}
	return max(wait, 0)
}

// maxRounds limits the passes for one change; the rest waits for the next change or the timer.
const maxRounds = 100

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

// Unconverged returns the moves that a full convergence would make now: none in the desired state.
func (b *BBS) Unconverged() (lrp.Outcome, []task.Move) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.rows.now()
	return b.services.ConvergeAll(now), b.tasks.ConvergeAll(now)
}

// ticket waits for one commit.
type ticket struct {
	wake     func()
	await    func(context.Context) error
	revision int64
	err      error
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

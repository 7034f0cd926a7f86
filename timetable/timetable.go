// Package timetable is the leader's loop of schedules: it owns their rows and passes time to
// package schedule, whose decisions it makes durable.
//
//	wall clock ─▶ ┌───────────┐ ──tasks, rows, in one commit──▶ board ──▶ store
//	api ────────▶ │ timetable │ ──Renew───────────────────────▶ scheduler
//	zones ──────▶ └───────────┘ ◀─work that may still run────── board, registry, scheduler
//	                    └──signals, after the commit, once─────▶ cells
//
// It decides under the lock of the board, because the run of a firing is a task of the board and
// its cursor must become durable in the same transaction. Locks: the board's, then this one's,
// then the scheduler's. The callbacks of the commits call the hub without any.
//
// It never sleeps longer than 30 s: timers do not notice that the wall clock was set or the
// machine was suspended.
package timetable

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"cantina/cron"
	"cantina/event"
	"cantina/fault"
	"cantina/internal/run"
	"cantina/plan"
	"cantina/schedule"
	"cantina/store"
	"cantina/task"
)

// Rows are the newest rows of the board, within one decision.
type Rows interface {
	Task(guid string) *task.Task
	// MayRun returns the tasks of a name in a domain that may run or wait to run, in order.
	MayRun(domain, name string) (guids []string)
	// SinceEnd is for how long at least a task has been over, in elapsed time.
	SinceEnd(x *task.Task) time.Duration
	// Dead reports whether a process is certainly dead and its rows have been decided on: adopted
	// work of a later process of its directory then belongs to that one.
	Dead(proc string) bool
	// Free reports whether a guid may be used for a new task.
	Free(guid string) bool
	// Reported names a task that a cell has reported and no row has, and returns their number: its guid
	// is prefix, a dot and more, and neither except nor that, a dot and more. "" = none.
	Reported(prefix, except string) (guid string, n int)
	// Desire adds a task; when it fails nothing was changed.
	Desire(t task.Task) error
	// Cancel ends a task; one that has ended is left alone.
	Cancel(guid string) error
	// Add adds rows, the callback of the commit, and the undo without one.
	Add(ops []store.Op, done func(revision int64, err error), undo func())
	// Redefine increments the revision of a domain: its desired state changes.
	Redefine(domain string)
}

// Board is the part of the board that the timetable needs.
type Board interface {
	// Decide runs fn under the board's lock and submits its decision in one transaction, without
	// waiting for it.
	Decide(fn func(Rows) error) error
	// Write is Decide for a client's call: at most once for its key; it returns after
	// the commit.
	Write(ctx context.Context, w plan.Write, operation string, request []byte, fn func(Rows) ([]byte, error)) ([]byte,
		int64, error)
}

// Jobs is the part of the scheduler that the timetable needs. It is called under locks.
type Jobs interface {
	// Renew adds to a decision that a job runs from the start.
	Renew(rows Rows, domain string, j *schedule.Job) error
	// Runs reports whether the job of a schedule may still run: it has the schedule's key.
	Runs(k schedule.Key) schedule.Answer
	// Outcome is how that job has ended; "" = unknown.
	Outcome(k schedule.Key) string
}

// Sessions is the part of the registry that the timetable needs.
type Sessions interface {
	// Heard reports whether a cell process has reported in this term, or the initial wait is over.
	Heard(proc string) bool
	// Stale reports whether rows may be older than the work of the cells.
	Stale() bool
}

// Sending is the signal of one firing.
type Sending struct {
	// Key and UID name the schedule; Key.Domain is the service's domain.
	Key schedule.Key
	UID string
	// At is the logical time.
	At time.Time
	schedule.Signal
}

// Signals reaches the running instances of services.
type Signals interface {
	// Signal sends a signal once to each running instance of a service, and reports the result. It is
	// called after the commit of the firing and does not wait; if the term ends, no result is
	// reported.
	Signal(s Sending, report func(schedule.Delivery))
	// Signalled is how many instances a signal would be sent to now; false when there is
	// no such service.
	Signalled(domain, service string) (running int, known bool)
}

// Contents encodes the work of schedules, in the records of their owners; the same value always
// gives the same bytes.
type Contents interface {
	TaskBytes(d *task.Definition) []byte
	Task(data []byte) (*task.Definition, error)
	JobBytes(j *schedule.Job) ([]byte, error)
	Job(data []byte) (*schedule.Job, error)
}

// Hub takes the events of each commit, in order.
type Hub interface {
	Publish(revision int64, events ...event.Event)
}

// Store is the part of the won term that the timetable needs.
type Store interface {
	// Wait applies back pressure before a decision.
	Wait(ctx context.Context) error
	Quarantine(q store.Quarantine)
	// Drop and Restore resolve a quarantined row; done is called after the commit.
	Drop(key string, done func(revision int64, err error))
	Restore(key string, value []byte, done func(revision int64, err error))
}

// Config of a Timetable. All but Log is needed.
type Config struct {
	Store    Store
	Board    Board
	Jobs     Jobs
	Sessions Sessions
	Signals  Signals
	Contents Contents
	Hub      Hub
	Clock    run.Clock
	Log      *slog.Logger
	// Zone finds a time zone by its name.
	Zone func(name string) (*time.Location, error)
	// NewID returns 16 random bytes in hexadecimal.
	NewID func() string
	// Differ lists the fields in which two definitions differ.
	Differ func(was, is any) []plan.FieldChange
}

// Timetable is the loop of schedules of one term. Its methods may be called at the
// same time.
type Timetable struct {
	cfg Config

	wall wallClock

	mu         sync.Mutex
	board      *schedule.Board
	unreadable unreadable
	calendars  calendars
	shown      committed
	flying     map[schedule.Key]int // commits in progress
	inAir      int                  // transactions of firings in progress
	single     bool                 // the next transaction holds one firing: more were too large
	// oversize are schedules whose firing is larger than a transaction.
	oversize map[schedule.Key]bool
	polled   time.Duration // time of the last check of undecided firings, by the boot clock: others may step
	stats    Stats

	loop *run.Loop
	over context.Context // its cause is why the term is over
	fail context.CancelCauseFunc
}

// Stats counts since the term began, and Schedules are those of now.
type Stats struct{ Started, Commits, Schedules int }

// New returns the timetable of a term, built from the rows of the load; rows of others
// are ignored. Rows that cannot be read are quarantined. It starts nothing.
func New(cfg Config, rows []store.Row) *Timetable {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	t := &Timetable{
		cfg: cfg, wall: wallClock{Clock: cfg.Clock}, board: schedule.NewBoard(), polled: -pollGap,
		unreadable: unreadable{cfg.Store, cfg.Contents, cfg.Log, map[string]bool{}, map[schedule.Key]*pair{}},
		calendars:  calendars{cfg.Zone, cfg.Clock, map[schedule.Calendar]cron.Schedule{}},
		shown:      committed{rows: map[schedule.Key]shown{}}, flying: map[schedule.Key]int{},
		oversize: map[schedule.Key]bool{},
	}
	t.loop = run.NewLoop("timetable", t.next)
	t.over, t.fail = context.WithCancelCause(context.Background())
	t.load(rows)
	return t
}

// isOver returns why the timetable has ended: its memory can no longer be trusted.
func (t *Timetable) isOver() error {
	if err := context.Cause(t.over); err != nil {
		return fmt.Errorf("%w: %w", fault.ErrTermOver, err)
	}
	return nil
}

// Stats returns the counters.
func (t *Timetable) Stats() Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.stats
	s.Schedules = t.board.Len()
	return s
}

// Changed reports that the state of runs may have changed.
func (t *Timetable) Changed() { t.loop.Wake() }

// Bounds of the loop's sleep.
const (
	longest = 30 * time.Second // the wall clock is looked at this often
	pollGap = time.Second      // undecided firings are checked this often
)

// Loop is the loop that Run drives: it fires due schedules, and waits until more are due.
func (t *Timetable) Loop() *run.Loop { return t.loop }

// Run drives the loop until ctx is done or the term is over.
func (t *Timetable) Run(ctx context.Context) error {
	live, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(t.over, stop)()
	_ = t.loop.Run(live) // it ends with its context
	if ctx.Err() != nil {
		return nil
	}
	return t.isOver()
}

// next returns the loop's next work.
func (t *Timetable) next() (do func(context.Context), pause time.Duration) {
	switch {
	case t.isOver() != nil:
		return nil, run.Never
	case store.NoRoom(t.cfg.Store) != nil:
		return nil, time.Second
	case t.wall.mayStep(), t.due(t.cfg.Clock.Wall()):
		return t.pass, 0
	}
	return nil, t.sleep()
}

// sleep is how long nothing falls due, by the wall clock of now.
func (t *Timetable) sleep() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	wait := longest
	if t.inAir >= maxInAir {
		return wait // a commit wakes it
	}
	if at, ok := t.board.First(); ok {
		wait = min(wait, at.Sub(t.cfg.Clock.Wall()))
	}
	if t.board.Undecided() > 0 {
		wait = min(wait, pollGap)
	}
	return max(wait, 0)
}

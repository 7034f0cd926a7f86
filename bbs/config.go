package bbs

import (
	"context"
	"log/slog"
	"time"

	"cantina/event"
	"cantina/fault"
	"cantina/internal/run"
	"cantina/lrp"
	"cantina/store"
	"cantina/task"
	"cantina/worker"
)

// Errors of the board.
var (
	// ErrServiceNotFound: there is no such service.
	ErrServiceNotFound = fault.New(fault.ErrNotFound, "service not found")
)

// Store is the part of the won term that the board needs: store.Leadership.
type Store interface {
	Submit(t store.Transition, done func(revision int64, err error))
	Fits(t store.Transition) error
	// Wait applies back pressure before a caller's decision.
	Wait(ctx context.Context) error
	WriteManifest(m store.Manifest, done func(revision int64, err error))
	Quarantine(q store.Quarantine)
	Drop(key string, done func(revision int64, err error))
	Restore(key string, value []byte, done func(revision int64, err error))
}

// LRPWant requests a placement for one instance. Avoid names cells that should not get it: that of
// its suspect or evacuating copy.
type LRPWant struct {
	Key     lrp.Key
	Desired *lrp.Desired
	Avoid   []string
	// Dropped are earlier attempts that ended without a row: their allocations are freed.
	Dropped []string
}

// TaskWant requests a placement for one task.
type TaskWant struct {
	GUID, UID, Domain string
	Definition        *task.Definition
	// Dropped: the attempt before has ended without having started the task.
	Dropped bool
}

// TaskID names one life of a guid.
type TaskID struct{ GUID, UID string }

// Auctioneer places work. Its methods must not block and may be called with the
// same work again.
type Auctioneer interface {
	Request(lrps []LRPWant, tasks []TaskWant)
	Withdraw(lrps []lrp.Key, tasks []TaskID)
}

// Cells reaches cell processes. Its methods must not block; a lost call is repeated
// by the cell's own poll.
type Cells interface {
	StopInstance(key lrp.Key, who lrp.Identity)
	CancelTask(holder task.Holder, guid, uid string)
}

// Sessions returns the state of the worker registry. Its methods must not block.
type Sessions interface {
	// MayStart reports whether the process may be given work: session HEALTHY,
	// reported, member row durable.
	MayStart(cell, proc string) bool
	// Stale reports whether rows may be older than the cells' work (restored store during the initial
	// wait): then no exclusive instance starts.
	Stale() bool
	// MayLive returns the members of a cell that are not certainly dead, in order. joining is a process of
	// the cell that may become a member; "" = none.
	MayLive(cell string) (members []string, joining string)
	// Alive returns the containers of services and tasks that a process has reported in this
	// term, by instance and uid.
	Alive(proc string) []worker.Alive
}

// Machines counts the machines whose cells admit at least one of the definitions; ok is false if
// the number is unknown (yet). It must not block.
type Machines func(any []*lrp.Desired) (n int, ok bool)

// Hub takes the events of each commit, in order.
type Hub interface {
	Publish(revision int64, events ...event.Event)
}

// Callbacks delivers the ends of tasks, those of one task one after the other. Send must not
// block. It reports whether it has accepted the end. Then the result arrives through
// BBS.CallbackDone, unless the term ends, or another end of the task is sent meanwhile.
type Callbacks interface {
	Send(t *task.Task) bool
}

// Config has the parts of a board. All are needed except the policies.
type Config struct {
	Store      Store
	Auctioneer Auctioneer
	Cells      Cells
	Sessions   Sessions
	Machines   Machines // nil = not called
	Hub        Hub
	Callbacks  Callbacks
	Clock      run.Clock
	Log        *slog.Logger
	// NewID returns 16 random bytes in hexadecimal.
	NewID func() string
	// Park is how a call waits for its commit; nil = run.OnChannel.
	Park run.Park
	// Watch is called with each decision.
	Watch Watch

	Converge lrp.ConvergePolicy
	Tasks    task.Policy
	// Began is the revision with which the epoch of the store began: rows that are older were written
	// before it was created, restored or moved.
	Began int64
	// FullPass is how often convergence looks at everything; 0 = 30 s.
	FullPass time.Duration
	// KeyLife is how long an idempotency key is remembered; 0 = 24 h.
	KeyLife time.Duration
	// Collected is how many ids of tasks at least are remembered after their rows are gone; 0 = 10,000.
	Collected int
}

// Watch has functions that are called with each decision of lrp.Step and task.Step, right after
// it and under the board's lock. They change nothing; the simulator checks there. Nil = not called.
type Watch struct {
	Index func(before lrp.Index, e lrp.Event, env lrp.Env, after lrp.Index, err error)
	Task  func(before *task.Task, e task.Event, after *task.Task, err error)
}

// withDefaults sets the required values that are missing.
func (c Config) withDefaults() Config {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Park == nil {
		c.Park = run.OnChannel
	}
	return c
}

func (c Config) fullPass() time.Duration {
	if c.FullPass == 0 {
		return 30 * time.Second
	}
	return c.FullPass
}

func (c Config) keyLife() time.Duration {
	if c.KeyLife == 0 {
		return 24 * time.Hour
	}
	return c.KeyLife
}

// Package runner drives stateful cron in its own goroutine and delivers the events through a
// bounded queue: the optional feature in the Bistro cron notes, "Basic requirements for stateful
// cron". It is a shell around [cron.Stateful], which makes all decisions.
//
//	        ┌───────────────── at the latest every 30 s ────────────────┐
//	        ▼                                                           │
//	poll the clocks ──→ an event is due? ── yes ─→ offer it to the queue ┤
//	        ▲                   │ no                                    │
//	        └── SetZone         └─→ sleep until the next event ─────────┘
//
// Timers do not notice that a machine was suspended or that its clock was set. So no sleep is
// longer than 30 seconds, and the clocks are read after each. A full queue delays events; those
// that meanwhile become older than the item's maximum shift are dropped, counted and logged.
package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"cantina/cron"
)

// maxSleep is the longest sleep between two looks at the clocks.
const maxSleep = 30 * time.Second

// Options of a Runner.
type Options struct {
	Item     *cron.Item
	Zone     *time.Location // to begin with; may be nil for an epoch item or with Clocks.Zone
	Clocks   cron.Clocks    // zero means SystemClocks
	MaxShift time.Duration  // as cron.StatefulOptions
	Resume   *cron.State    // as cron.StatefulOptions
	Queue    int            // capacity; 0 means 16
	Log      *slog.Logger   // nil means no log
}

// Runner hands over the events of one item. Make it with New, then call Run.
type Runner struct {
	out  chan cron.Event
	wake chan struct{}
	log  *slog.Logger

	mu       sync.Mutex // guards the fields below
	stateful *cron.Stateful
	held     *cron.Event // taken from stateful, not yet in the queue
	before   cron.State  // as it was without held
	dropped  int
}

// SystemClocks are the clocks of this machine: the wall clock, and the boot clock, which continues
// while the machine is suspended. The zone is left to SetZone.
func SystemClocks() cron.Clocks {
	return cron.Clocks{
		System: func() time.Time { return time.Now().Round(0) },
		Monotonic: func() time.Duration {
			var ts unix.Timespec
			if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
				panic("the kernel has no CLOCK_BOOTTIME: " + err.Error())
			}
			return time.Duration(ts.Nano())
		},
	}
}

// New makes a Runner that begins now, or where the resumed state ends. Errors
// are those of cron.NewStateful. It starts nothing.
func New(o Options) (*Runner, error) {
	if o.Clocks.System == nil {
		o.Clocks = SystemClocks()
	}
	if o.Queue <= 0 {
		o.Queue = 16
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s, err := cron.NewStateful(o.Item, o.Clocks,
		cron.StatefulOptions{Zone: o.Zone, MaxShift: o.MaxShift, Resume: o.Resume})
	if err != nil {
		return nil, fmt.Errorf("make a runner: %w", err)
	}
	return &Runner{out: make(chan cron.Event, o.Queue), wake: make(chan struct{}, 1), log: o.Log, stateful: s}, nil
}

// Events is the queue. It is never closed.
func (r *Runner) Events() <-chan cron.Event { return r.out }

// SetZone changes the zone, at once and never in the middle of a computation.
func (r *Runner) SetZone(loc *time.Location) {
	r.mu.Lock()
	r.stateful.SetZone(loc)
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// State returns the data to store for a restart: events that are not in the queue yet are repeated
// after it. Events still in the queue are not.
func (r *Runner) State() cron.State {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held != nil {
		return r.before
	}
	return r.stateful.State()
}

// Dropped is how many events were due but got too old before the queue had room.
func (r *Runner) Dropped() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dropped
}

// Run works until ctx is done, and then returns nil. It returns earlier, with
// an error, if the item cannot be searched (cron.ErrNeverMatches).
func (r *Runner) Run(ctx context.Context) error {
	timer := time.NewTimer(maxSleep)
	defer timer.Stop()
	for {
		held, sleep, err := r.look()
		if err != nil {
			return fmt.Errorf("run cron: %w", err)
		}
		timer.Reset(sleep)
		for offer := true; offer; {
			var out chan cron.Event
			var e cron.Event
			if held != nil {
				out, e = r.out, *held
			}
			select {
			case <-ctx.Done():
				return nil
			case <-timer.C:
				offer = false
			case <-r.wake:
				offer = false
			case out <- e:
				held = r.take(true)
				offer = held != nil // the queue took it: is there another?
			}
		}
	}
}

// look polls the clocks, and returns the event to offer and the time to sleep.
func (r *Runner) look() (held *cron.Event, sleep time.Duration, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	found, err := r.stateful.Poll()
	if err != nil {
		return nil, 0, err
	}
	if found.Forgot || found.TooOld > 0 {
		r.log.Warn("time moved too far", "net", found.Net, "step", found.Step, "zone_shift", found.ZoneShift, "too_old",
			found.TooOld)
	}
	if r.held != nil && found.System.Sub(r.held.At) > r.stateful.MaxShift() {
		r.log.Warn("event dropped: the queue was full", "event", r.held.At)
		r.held = nil
		r.dropped++
	}
	held = r.takeLocked(false)
	sleep = maxSleep
	if next, err := r.stateful.Next(); err == nil {
		sleep = min(sleep, next.Sub(found.System))
	} else if !errors.Is(err, cron.ErrNoMoreMatches) {
		return nil, 0, err
	}
	return held, max(sleep, 0), nil
}

func (r *Runner) take(delivered bool) *cron.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.takeLocked(delivered)
}

// takeLocked returns the next event to offer; delivered: the previous one is in the queue.
func (r *Runner) takeLocked(delivered bool) *cron.Event {
	if delivered {
		r.held = nil
	}
	if r.held == nil {
		r.before = r.stateful.State()
		for e := range r.stateful.Due() {
			r.held = &e
			break
		}
	}
	return r.held
}

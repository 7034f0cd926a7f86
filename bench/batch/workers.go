package main

import (
	"context"
	"sync"
	"time"

	"cantina/batch"
	"cantina/fence"
	"cantina/scheduler"
	"cantina/worker"
)

// workers simulate the registry and its cells: a batch task that is started ends after the same time as all
// others, with exit code 0.
type workers struct {
	term   fence.Term
	sched  *scheduler.Scheduler
	task   time.Duration
	status string // the report of a cell about an end
	wake   chan struct{}

	mu      sync.Mutex // guards the following
	counter int64
	live    int
	ends    []running // in order of their ends
	first   int
	busy    meter
}

var _ scheduler.Registry = (*workers)(nil)

// running is a batch task that runs until a time.
type running struct {
	run   worker.Run
	cell  worker.CellName
	until time.Time
}

// meter is the time that tasks ran within a window.
type meter struct {
	from, to time.Time
	task     time.Duration // sum over all tasks
	started  int
}

// ran adds a task.
func (m *meter) ran(from, to time.Time) {
	if from.Before(m.from) {
		from = m.from
	}
	if to.After(m.to) {
		to = m.to
	}
	if to.After(from) {
		m.task += to.Sub(from)
	}
}

// measure starts a window. Tasks that run count from its beginning.
func (w *workers) measure(d time.Duration) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy = meter{from: now, to: now.Add(d)}
	for _, r := range w.ends[w.first:] {
		w.busy.ran(now, r.until)
	}
}

// measured returns the state of the window.
func (w *workers) measured() meter {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.busy
}

// Run ends the tasks when their time is over.
func (w *workers) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		due, next := w.take(time.Now())
		for i := range due {
			w.sched.Ended(worker.Ended{Run: due[i].run, Cell: due[i].cell, Kind: worker.Real, Status: w.status})
		}
		if next > 0 {
			timer.Reset(next)
		}
		select {
		case <-timer.C:
		case <-w.wake:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// most limits the ends that are passed on between two looks at the clock.
const most = 4096

// take returns the tasks that have ended, and the time until the next one ends; 0 = none runs.
func (w *workers) take(now time.Time) (due []running, next time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := w.first
	for ; at < len(w.ends) && at-w.first < most && !w.ends[at].until.After(now); at++ {
	}
	due = append(due, w.ends[w.first:at]...)
	if w.first = at; w.first > len(w.ends)/2 {
		n := copy(w.ends, w.ends[w.first:])
		clear(w.ends[n:])
		w.ends, w.first = w.ends[:n], 0
	}
	if w.first < len(w.ends) {
		next = max(w.ends[w.first].until.Sub(now), time.Millisecond)
	}
	return due, next
}

// MayRun permits each start: the board starts nothing twice.
func (w *workers) MayRun(worker.Request) (worker.Hold, bool) { return worker.Hold{}, true }

// StartBatch starts a batch task.
func (w *workers) StartBatch(q worker.Request,
	payload func(fence.Invocation) (batch.Payload, bool)) (fence.Invocation, worker.Hold, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	inv := fence.Invocation{Term: w.term, Counter: w.counter + 1}
	if _, ok := payload(inv); !ok {
		return fence.Invocation{}, worker.Hold{Reason: worker.HoldVetoed}, false
	}
	now := time.Now()
	r := running{run: worker.Run{Work: q.Work, Invocation: inv}, cell: q.Cell, until: now.Add(w.task)}
	w.counter++
	w.live++
	w.busy.ran(now, r.until)
	w.busy.started++
	if w.ends = append(w.ends, r); len(w.ends) == w.first+1 {
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
	return inv, worker.Hold{}, true
}

// StatusCommitted forgets a task.
func (w *workers) StatusCommitted(worker.Run, worker.Synthetic) {
	w.mu.Lock()
	w.live--
	w.mu.Unlock()
	w.sched.StartsChanged()
}

// Kill does nothing: no task of the benchmark is killed.
func (w *workers) Kill(worker.Run) {}

// Running returns nothing: the board knows all that runs.
func (w *workers) Running(worker.Work) []worker.RunView { return nil }

// Model returns the tasks that run.
func (w *workers) Model() []worker.RunView {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make([]worker.RunView, 0, len(w.ends)-w.first)
	for _, r := range w.ends[w.first:] {
		out = append(out, worker.RunView{Run: r.run, Cell: r.cell, Proc: "p", Sure: true})
	}
	return out
}

// Live returns the number of tasks whose end is not committed.
func (w *workers) Live() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.live
}

// Adopted returns 0: no cell reports a task of another term.
func (w *workers) Adopted() int { return 0 }

// Idle reports whether nothing runs.
func (w *workers) Idle(string) bool { return w.Live() == 0 }

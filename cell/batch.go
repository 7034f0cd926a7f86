package cell

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"cantina/action"
	"cantina/batch"
	"cantina/executor"
	"cantina/internal/run"
	"cantina/wire"
	"cantina/worker"
)

// runs holds the leader's data for batch invocations that are to be launched.
type runs struct {
	mu   sync.Mutex
	work map[worker.Run]*BatchWork
}

func (r *runs) put(run worker.Run, w *BatchWork) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.work[run] = w
}

func (r *runs) take(run worker.Run) *BatchWork {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.work[run]
	delete(r.work, run)
	return w
}

// batchRuns starts batch tasks that the session has accepted, and hands their ends to it.
type batchRuns struct {
	cfg        *Config
	log        *slog.Logger
	exec       Executor
	session    *session
	containers *containers
	drain      *evacuating

	runs   runs
	ends   *mailbox[worker.WorkEnded]
	ending *run.Loop // of ends

	probeFailed atomic.Bool // the last probe
}

func newBatchRuns(c *Cell) *batchRuns {
	b := &batchRuns{cfg: &c.cfg, log: c.log, exec: c.exec, session: c.session, containers: c.containers, drain: c.drain,
		runs: runs{work: map[worker.Run]*BatchWork{}}, ends: &mailbox[worker.WorkEnded]{}}
	b.ending = run.NewLoop("ends", b.nextEnds)
	return b
}

// launch starts the container of an accepted invocation. If it cannot start, it ends at once, with
// the reason.
func (b *batchRuns) launch(r worker.Run) {
	w := b.runs.take(r)
	if w == nil {
		b.endWithout(r, batch.Ended{ExitCode: -1, Reason: "start request without a workload"})
		return
	}
	if b.drain.stopsBatch() {
		b.endWithout(r, batch.Ended{ExitCode: -1, Reason: reasonDrained, Again: batch.AgainNow})
		return
	}
	load := *w.Workload
	if w.Program != nil {
		load.Action = action.Action{Run: w.Program}
	}
	domain, _ := batch.SplitName(r.Work.Job)
	err := b.exec.Launch(executor.Reservation{
		ID: BatchContainer(r.Invocation), Labels: stamp(batchLabels(r, w), b.session.joined(), r.Invocation.Term.Epoch),
		Resources: w.Resources, DeadlineBound: true,
	}, executor.Spec{Workload: load, Domain: domain, Defaults: b.cfg.Env,
		Env:        b.containers.environment(w.Workload, batchEnv(r, w)),
		StatusPipe: true})
	if err == nil {
		return
	}
	b.log.Debug("cannot start batch task", "run", r.Work.String(), "error", err)
	again := batch.AgainNow
	if errors.Is(err, executor.ErrNoGroup) || errors.Is(err, executor.ErrUnwritable) {
		again = batch.AgainLater // otherwise the leader would retry this cell at once
	}
	b.endWithout(r, batch.Ended{ExitCode: -1, Reason: why(err), Again: again})
}

// endWithout reports the end of an invocation that has no container. It runs as
// an effect of the machine, which must not be stepped from there.
func (b *batchRuns) endWithout(r worker.Run, end batch.Ended) {
	text, err := wire.EncodeBatchEnd(end, nil)
	if err != nil {
		b.log.Error("status cannot be encoded", "run", r.Work.String(), "error", err)
	}
	b.workEnded(worker.WorkEnded{Run: r, Status: text})
}

// stopRun ends the container of an invocation.
func (b *batchRuns) stopRun(r worker.Run) {
	err := b.exec.Stop(BatchContainer(r.Invocation))
	if errors.Is(err, executor.ErrUnknown) {
		return // it is ending already
	}
	b.containers.warn("stop", BatchContainer(r.Invocation), err)
}

// batchEnded deletes an ended batch container and passes its end to the session: its output stays
// in the log store, its status in the session until it is acknowledged. The container is deleted
// first, because the leader allocates its resources again as soon as it has the end. A container
// that outlives this process stays until the session has its status.
func (b *batchRuns) batchEnded(ct *executor.Container) {
	r, ok := runOf(ct.Labels)
	if !ok {
		b.log.Error("container without a valid identity", "container", ct.ID)
		return
	}
	status, err := b.containers.statusOf(ct)
	if err != nil {
		b.log.Error("status cannot be encoded", "container", ct.ID, "error", err)
		return
	}
	if !ct.Kept {
		b.containers.delete(ct.ID)
	}
	b.workEnded(worker.WorkEnded{Run: r, Status: status})
}

// EndOf reads how a batch task ended from the status that its cell reports.
func EndOf(status string) (batch.Ended, error) {
	end, _, err := wire.DecodeBatchEnd(status)
	return end, err
}

// nextEnds hands ends of batch tasks to the session, many at a time, and deletes
// their containers.
func (b *batchRuns) nextEnds() (func(context.Context), time.Duration) {
	all := b.ends.take()
	if len(all) == 0 {
		return nil, run.Never
	}
	return func(context.Context) {
		events := make([]worker.CellEvent, len(all))
		for i, e := range all {
			events[i] = e
		}
		b.session.step(events...)
		for _, e := range all {
			b.containers.delete(BatchContainer(e.Run.Invocation))
		}
	}, 0
}

// ended collects past ends of batch invocations. The session may receive one a second time, which
// changes nothing.
func (b *batchRuns) ended() worker.EndsCollected {
	b.exec.Collect()
	all := b.ends.peek()
	for _, ct := range b.exec.List() {
		r, ok := runOf(ct.Labels)
		if ct.Labels[labelKind] != kindBatch || ct.State != executor.Completed || !ok {
			continue
		}
		if status, err := b.containers.statusOf(&ct); err == nil {
			all = append(all, worker.WorkEnded{Run: r, Status: status})
		}
	}
	return worker.EndsCollected{Ends: all}
}

// workEnded passes an end to the session.
func (b *batchRuns) workEnded(e worker.WorkEnded) {
	b.ends.put(e)
	b.ending.Wake()
}

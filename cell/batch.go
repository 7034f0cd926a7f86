package cell

import (
	"errors"
	"sync"

	"cantina/action"
	"cantina/batch"
	"cantina/executor"
	"cantina/wire"
	"cantina/worker"
)

// runs holds what the leader gave for batch invocations that are to be launched.
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

// launch starts the container of an invocation that the machine has accepted.
// What cannot start ends at once, with the reason.
func (c *Cell) launch(r worker.Run) {
	w := c.runs.take(r)
	if w == nil {
		c.endWithout(r, batch.Ended{ExitCode: -1, Reason: "start request without a workload"})
		return
	}
	if c.stopsBatch() {
		c.endWithout(r, batch.Ended{ExitCode: -1, Reason: reasonEvacuated, Again: batch.AgainNow})
		return
	}
	load := *w.Workload
	if w.Program != nil {
		load.Action = action.Action{Run: w.Program}
	}
	err := c.exec.Launch(executor.Reservation{
		ID: batchContainer(r.Invocation), Labels: stamp(batchLabels(r, w), c.session.joined(), r.Invocation.Term.Epoch), Resources: w.Resources, DeadlineBound: true,
	}, executor.Spec{Workload: load, Defaults: c.cfg.Env, Env: c.environment(w.Workload, w.Env), StatusPipe: true})
	if err == nil {
		return
	}
	c.log.Debug("cannot start batch task", "run", r.Work.String(), "error", err)
	again := batch.AgainNow
	if errors.Is(err, executor.ErrNoGroup) || errors.Is(err, executor.ErrUnwritable) {
		again = batch.AgainLater // else the cell would be asked again at once
	}
	c.endWithout(r, batch.Ended{ExitCode: -1, Reason: why(err), Again: again})
}

// endWithout reports the end of an invocation that has no container. It runs as
// an effect of the machine, which must not be stepped from there.
func (c *Cell) endWithout(r worker.Run, end batch.Ended) {
	text, err := wire.EncodeBatchEnd(end, nil)
	if err != nil {
		c.log.Error("status cannot be encoded", "run", r.Work.String(), "error", err)
	}
	c.workEnded(worker.WorkEnded{Run: r, Status: text})
}

// stopRun ends the container of an invocation.
func (c *Cell) stopRun(r worker.Run) {
	err := c.exec.Stop(batchContainer(r.Invocation))
	if errors.Is(err, executor.ErrUnknown) {
		return // it is ending already
	}
	c.warn("stop", batchContainer(r.Invocation), err)
}

// batchEnded deletes an ended batch container and hands its end to the session:
// its output stays in the log store, its status in the session until it is
// acknowledged. The container goes first, for the leader fills its room again as
// soon as it has heard of the end; one that outlives this process stays until the
// session has its status.
func (c *Cell) batchEnded(ct executor.Container) {
	r, ok := runOf(ct.Labels)
	if !ok {
		c.log.Error("container without a valid identity", "container", ct.ID)
		return
	}
	status, err := c.statusOf(ct)
	if err != nil {
		c.log.Error("status cannot be encoded", "container", ct.ID, "error", err)
		return
	}
	if !ct.Kept {
		c.delete(ct.ID)
	}
	c.workEnded(worker.WorkEnded{Run: r, Status: status})
}

// EndOf reads how a batch task ended from the status that its cell reports.
func EndOf(status string) (batch.Ended, error) {
	end, _, err := wire.DecodeBatchEnd(status)
	return end, err
}

// statusOf is what the scheduler is told of an ended batch container: it decodes that with
// wire.DecodeBatchEnd.
func (c *Cell) statusOf(ct executor.Container) (string, error) {
	r := ct.Result
	end := batch.Ended{ExitCode: r.ExitCode, Signal: r.Signal, Killed: r.Stopped || r.Expired, TimedOut: r.TimedOut, Reason: r.Reason}
	switch {
	case r.NotMade:
		end.Again = batch.AgainLater
	case c.interrupted(ct):
		end.Reason, end.Again = reasonEvacuated, batch.AgainNow
	}
	return wire.EncodeBatchEnd(end, r.Status)
}

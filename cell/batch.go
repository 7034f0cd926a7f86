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
		c.endWithout(r, batch.Ended{ExitCode: -1, Reason: "the call had no workload"}, "")
		return
	}
	if c.stopsBatch() {
		c.endWithout(r, batch.Ended{ExitCode: -1, Reason: reasonEvacuated}, runAgain)
		return
	}
	load := *w.Workload
	if w.Program != nil {
		load.Action = action.Action{Run: w.Program}
	}
	err := c.exec.Launch(executor.Reservation{
		ID: batchContainer(r.Invocation), Labels: batchLabels(r, w), Resources: w.Resources, DeadlineBound: true,
	}, executor.Spec{Workload: load, Defaults: c.cfg.Env, Env: c.environment(w.Env), StatusPipe: true})
	if err == nil {
		return
	}
	c.log.Debug("batch task does not start", "run", r.Work.String(), "error", err)
	status := runAgain
	if errors.Is(err, executor.ErrNoGroup) {
		status = runLater
	}
	c.endWithout(r, batch.Ended{ExitCode: -1, Reason: why(err)}, status)
}

// runAgain is the status of a batch task that ended without a fault of its own:
// it runs again, and no retry is counted.
const runAgain = `{"result":"incomplete"}`

// runLater is runAgain after the back-off that it has reached: the cell cannot make
// containers, and would be asked again at once.
const runLater = `{"result":"incomplete_backoff"}`

// endWithout reports the end of an invocation that has no container. It runs as
// an effect of the machine, which must not be stepped from there.
func (c *Cell) endWithout(r worker.Run, end batch.Ended, status string) {
	text, err := encodeEnd(end, status)
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
		c.log.Error("container without identity", "container", ct.ID)
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

// statusOf is what the scheduler is told of an ended batch container.
func (c *Cell) statusOf(ct executor.Container) (string, error) {
	r := ct.Result
	end := batch.Ended{ExitCode: r.ExitCode, Signal: r.Signal, Killed: r.Stopped, TimedOut: r.TimedOut, Reason: r.Reason}
	status := string(r.Status)
	if c.interrupted(ct) && status == "" {
		end.Reason, status = reasonEvacuated, runAgain
	}
	if r.NotMade {
		status = runLater
	}
	return encodeEnd(end, status)
}

// encodeEnd is what the scheduler decodes with wire.ToBatchEnd; an empty status is none.
func encodeEnd(end batch.Ended, status string) (string, error) {
	var line []byte
	if status != "" {
		line = []byte(status)
	}
	return wire.EncodeBatchEnd(end, line)
}

package executor

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"cantina/cgroup"
	"cantina/executor/shim"
)

// outcome is a successor's data about a container whose verdict is fixed: how it ended, in any
// state of the cell. It is a separate file, in the directory "ended". The file exists from when
// the verdict is fixed while other processes of the container are yet to end, or from when a
// completed one has not been collected for some time, until the container is deleted.
type outcome struct {
	ID      string
	Labels  Labels
	Bound   bool
	Created time.Time
	Result  RunResult
	Output  []byte // the result file, as it was then
	Missing string // why there is none
	Large   bool   // since it is too large
	Logged  bool   // in the container's log
}

// endedDir holds a file for each outcome.
const endedDir = "ended"

const outcomeSuffix = ".json"

func (o *order) outcomeFile() string { return cgroup.Escape(o.id) + outcomeSuffix }

// decide writes the verdict down, once, while something of the container is yet to end.
func (j *judgement) decide() {
	j.c.e.mu.Lock()
	done := j.c.outcome != nil
	j.c.e.mu.Unlock()
	if done || j.c.hidden || j.report == nil {
		return
	}
	j.account()
	r := j.report()
	j.takeTails(&r)
	if j.judge(&r); r.Stopped && !j.c.keep() {
		return // its result is no longer needed
	}
	j.writeOutcome(&r, false)
}

// takeTails adds the last lines of the output.
func (j *judgement) takeTails(r *RunResult) {
	for i, tail := range [...]*[]string{&r.LastOut, &r.LastErr} {
		if w := j.c.writers[i]; w != nil {
			*tail = w.Tail(tailLines)
		}
	}
}

// writeOutcome writes down how the container ended. Where that fails, it is known as long as
// this process lives, and is tried again.
func (j *judgement) writeOutcome(r *RunResult, reported bool) {
	o := &outcome{ID: j.c.id, Labels: j.c.labels, Bound: j.c.bound, Created: j.c.created, Result: *r, Logged: reported}
	text, err := j.c.files.resultFile()
	if o.Output = text; err != nil {
		o.Missing, o.Large = err.Error(), errors.Is(err, ErrResult)
		var call *CallError
		if errors.As(err, &call) {
			o.Missing = call.Err.Error()
		}
	}
	j.c.e.mu.Lock()
	j.c.outcome, j.c.recorded = o, true
	j.c.e.mu.Unlock()
	j.putOutcome(o, !reported)
}

// putOutcome writes the file; with sync so that it outlives the machine too.
func (j *judgement) putOutcome(o *outcome, sync bool) {
	err := os.MkdirAll(j.c.e.path(endedDir), 0o700)
	if err == nil {
		err = shim.Put(j.c.e.path(endedDir), j.c.outcomeFile(), o, sync)
	}
	if err != nil {
		j.c.e.log.Warn("the end of a container is not written down", "container", j.c.id, "error", err)
	}
	j.c.e.mu.Lock()
	defer j.c.e.mu.Unlock()
	if j.c.unsaved = err != nil; j.c.forgotten { // meanwhile
		j.removeOutcome()
	}
}

func (j *judgement) removeOutcome() {
	if err := os.Remove(filepath.Join(j.c.e.path(endedDir), j.c.outcomeFile())); err != nil &&
		!errors.Is(err, fs.ErrNotExist) {
		j.c.e.log.Warn("recorded end of a container not removed", "container", j.c.id, "error", err)
	}
}

// writeOutcomes records the ends of containers that were not deleted since the last check, because
// their leader is absent; or all, because this process ends. Stopped ones were no longer wanted.
func (e *Executor) writeOutcomes(all bool) {
	e.mu.Lock()
	var fresh, again []*container
	for _, c := range e.containers {
		switch due := c.look(all); {
		case c.hidden:
		case due == dueOutcome:
			fresh = append(fresh, c)
		case due == dueAgain:
			again = append(again, c)
		}
	}
	e.mu.Unlock()
	for _, c := range fresh {
		c.judgement.writeOutcome(&c.result, true)
	}
	for _, c := range again {
		c.judgement.putOutcome(c.outcome, false)
	}
}

// file is the result file, as ResultFile returns it.
func (o *outcome) file() ([]byte, error) {
	switch {
	case o.Large:
		return nil, &CallError{callResult, o.ID, &keptError{o.Missing, ErrResult}}
	case o.Missing != "":
		return nil, &CallError{callResult, o.ID, &keptError{o.Missing, nil}}
	}
	return o.Output, nil
}

// keptError is an error that was written down.
type keptError struct {
	text string
	is   error
}

func (e *keptError) Error() string { return e.text }
func (e *keptError) Unwrap() error { return e.is }

// inherit takes over the recorded ends of predecessors' containers. A live container is ended
// first; of the others only the record exists.
func (r *recovery) inherit() error {
	entries, err := os.ReadDir(r.e.path(endedDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, d := range entries {
		var o outcome
		if strings.HasSuffix(d.Name(), outcomeSuffix) {
			err = shim.Get(r.e.path(endedDir), d.Name(), &o)
		}
		if unread(err) {
			return err
		}
		if err != nil || o.ID == "" { // half written, or damaged
			r.e.log.Warn("recorded end of a container not readable", "file", d.Name(), "error", err)
			r.e.remains.discard(filepath.Join(r.e.path(endedDir), d.Name()))
			continue
		}
		r.inheritOne(&o)
	}
	return nil
}

func (r *recovery) inheritOne(o *outcome) {
	c := r.e.containers[o.ID]
	if c == nil {
		c = newContainer(r.e, Reservation{ID: o.ID, Labels: o.Labels, DeadlineBound: o.Bound}, nil)
		c.state, c.result, c.adopted, c.created = Completed, o.Result, true, o.Created
		close(c.doneC)
		r.e.containers[o.ID] = c
		if !o.Logged {
			c.logEnd(&o.Result)
		}
	}
	c.outcome, c.recorded, c.judgement.inherited, c.judgement.fixed = o, true, true, &verdict{}
}

// finishInherited ends the rest of a kept container whose verdict a predecessor has fixed.
func (c *container) finishInherited() (RunResult, bool) {
	h := &stepHost{c: c}
	ctx, release := until(c.leaveC, nil)
	p, err := h.resumed(ctx, c.spec.Workload.Action.Run)
	release()
	if err != nil {
		c.e.log.Info("a kept program is ended unwatched", "container", c.id, "error", err)
	}
	t := &c.spec.Workload.Termination
	wait := leftoverGrace(t)
	if err == nil && !c.programs.mainEnded() { // a check decided
		p.Stop()
		wait = c.graceWithin(grace(t))
	}
	if !c.finish(wait) {
		return RunResult{}, false
	}
	c.followers.Wait()
	return c.conclude(RunResult{})
}

package executor

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"cantina/cgroup"
	"cantina/spawn/procid"
)

// noteStuck makes a container of a group that survives KILL, so that this cell does not count as
// clean. If groups keep no attributes it has no labels: its adopter knows only that some work of
// its predecessor is left. A probe is no workload, and stays hidden.
func (r *recovery) noteStuck(dir string, stays map[string]bool) {
	g := cgroup.At(dir)
	if full, err := g.Populated(); err == nil && !full || errors.Is(err, os.ErrNotExist) {
		return
	}
	name, kind := filepath.Base(dir), kindOf(filepath.Dir(dir))
	stays[name] = true
	var w work
	if err := json.Unmarshal(g.Work(), &w); err != nil || w.ID == "" {
		w = work{ID: name} // and its work is unknown
	}
	c := newContainer(r.e, Reservation{ID: w.ID, Labels: w.Labels, DeadlineBound: kind == classStopBound ||
		kind == classKeepBound}, w.Resources)
	c.programs.tracker = &groupTracker{Group: g, o: c.order}
	if kind == classStopFree && strings.HasPrefix(name, cgroup.Escape(probePrefix)) {
		c.state, c.adopted, c.hidden = Running, true, true
		r.e.prober.probing[c] = true
		r.left = append(r.left, c)
		return
	}
	r.e.take(c.need, 1)
	r.addStuck(c)
}

// addStuck adds a container of a predecessor that does not die.
func (r *recovery) addStuck(c *container) {
	c.state, c.adopted = Running, true
	c.stuck = &Stuck{Since: r.e.clock.Wall()}
	r.e.stuck[c] = true
	r.e.containers[c.id] = c
	r.left = append(r.left, c)
}

// driveLeft waits for the end of work that a predecessor could not end.
func (c *container) driveLeft() {
	if c.leftProc.Pid != 0 {
		ctx, release := until(c.leaveC, nil)
		p, err := c.watch(ctx, c.leftProc)
		release()
		if err == nil {
			c.programs.addProcess(p)
		} else if !errors.Is(err, procid.ErrGone) {
			return // the cell ends, and leaves it to its own successor
		}
	}
	c.setStuck()
	if c.finish(0) {
		c.unstick()
		if c.judgement.inherited {
			c.complete(c.outcome.Result)
			return
		}
		c.complete(RunResult{Failed: true, Reason: "left by a cell process that ended", Lost: true, ExitCode: -1,
			Ended: c.e.clock.Wall()})
	}
}

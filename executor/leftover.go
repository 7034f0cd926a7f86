package executor

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"cantina/cgroup"
	"cantina/resource"
	"cantina/spawn/procid"
)

// work is what a container leaves with its group: of what does not die its successor has to
// know what it is, so that it answers for it, and that its room stays taken.
type work struct {
	ID        string
	Labels    Labels
	Resources resource.Amounts
}

// leaveWork says what a container is, on its group. A kept one has its record, and nobody
// asks for a probe.
func (o *order) leaveWork(g *cgroup.Group) error {
	if o.hidden || o.keep() {
		return nil
	}
	b, err := json.Marshal(work{o.id, o.labels, o.need})
	if err != nil {
		return err
	}
	return g.SetWork(b)
}

// noteStuck makes a container of a group that does not die, so that nobody takes this
// cell for clean. Where groups keep no attributes it has no labels: who adopts it knows
// only that something of its predecessor is left. A probe is nobody's work, and as hidden as
// it was.
func (r *recovery) noteStuck(dir string, stays map[string]bool) {
	g := cgroup.At(dir)
	if full, err := g.Populated(); err == nil && !full || errors.Is(err, os.ErrNotExist) {
		return
	}
	name, kind := filepath.Base(dir), kindOf(filepath.Dir(dir))
	stays[name] = true
	var w work
	if err := json.Unmarshal(g.Work(), &w); err != nil || w.ID == "" {
		w = work{ID: name} // and nobody knows of what
	}
	c := newContainer(r.e, Reservation{ID: w.ID, Labels: w.Labels, DeadlineBound: kind == classStopBound || kind == classKeepBound}, w.Resources)
	c.programs.group = g
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

// driveLeft waits for the end of what a predecessor could not end.
func (c *container) driveLeft() {
	if c.programs.group == nil {
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
		c.complete(RunResult{Failed: true, Reason: "left by a cell process that ended", Lost: true, ExitCode: -1, Ended: c.e.clock.Wall()})
	}
}

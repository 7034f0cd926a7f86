package sim

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"cantina/executor"
	"cantina/fence"
	"cantina/worker"
)

var errNoProbe = errors.New("no container can be made")

// snapshot is the container as an executor shows it.
func (c *container) snapshot() executor.Container {
	ct := executor.Container{ID: c.id, Labels: c.labels, State: executor.Running, DeadlineBound: true, Adopted: c.adopted,
		Kept: c.keep && !c.left, Ending: c.dying, Stuck: c.condition()}
	if c.nameless {
		ct.Labels = nil
	}
	if !c.alive {
		ct.State = executor.Completed
		switch c.status {
		case "ok":
		case "failed":
			ct.Result = executor.RunResult{Failed: true, ExitCode: 1, Reason: c.status}
		default:
			ct.Result = executor.RunResult{Failed: true, Stopped: c.asked && !c.left, Signal: 9, Reason: c.status}
		}
	}
	return ct
}

// perform starts a deadline-bound container that is no batch task, where the cell
// accepts one: a task, or an exclusive service.
func (cs *containers) perform() {
	if cs.m.w.calm || cs.m.agent.Accepts(cs.m.local()) != nil {
		return
	}
	cs.m.promises.accepts(nil)
	cs.m.w.seq++
	c := &container{m: cs.m, id: fmt.Sprint("x-", cs.m.w.seq), extra: true, alive: true, procs: []worker.Proc{cs.m.proc()},
		run: worker.Run{Invocation: fence.Invocation{Term: fence.Term{Epoch: -1}, Counter: int64(cs.m.w.seq)}}}
	cs.box = append(cs.box, c)
	cs.m.w.check.all = append(cs.m.w.check.all, c)
	cs.m.cell.Happened(executor.Event{Kind: executor.EventExpired}) // count again
	cs.m.w.after(cs.m.w.between(time.Second, 30*time.Second), func() { cs.ended(c, "done") })
}

// launch starts the container of an invocation.
func (cs *containers) launch(r executor.Reservation, keep bool) {
	w := cs.m.w
	cs.m.promises.starting()
	inv, err := fence.ParseInvocation(r.Labels["invocation"])
	if err != nil {
		w.fail("contract", "%v: %v", r.Labels, err)
	}
	c := &container{m: cs.m, id: r.ID, labels: r.Labels, need: need(r.Resources),
		run: worker.Run{Work: worker.Work{Job: r.Labels["domain"] + "/" + r.Labels["job"], Node: r.Labels["node"]},
			Invocation: inv},
		procs: []worker.Proc{cs.m.agent.Proc()}, keep: keep, alive: true}
	cs.box = append(cs.box, c)
	w.check.launched(w, c)
	d := w.between(100*time.Millisecond, 4*time.Second)
	if !w.calm && w.chance(300) {
		d = w.between(5*time.Second, 60*time.Second)
	}
	how := "ok"
	if !w.calm && w.chance(80) {
		how = "failed"
	}
	if c.never = !w.calm && w.chance(30); !c.never {
		w.after(d, func() { cs.ended(c, how) })
	}
}

// container finds one that the agent knows.
func (cs *containers) container(id string) *container {
	for _, c := range cs.box {
		if c.id == id && !c.orphan {
			return c
		}
	}
	return nil
}

// live returns the containers that are alive, in the order of their making.
func (cs *containers) live() []*container {
	var out []*container
	for _, c := range cs.box {
		if c.alive {
			out = append(out, c)
		}
	}
	return out
}

// end makes a container die within d.
func (cs *containers) end(c *container, d time.Duration) {
	c.dying = true
	cs.m.w.after(d, func() {
		if cs.ended(c, "killed"); c.alive {
			cs.stick(&c.grip, c.snapshot, func() bool { return !c.orphan })
		}
	})
}

// ended: the processes of a container are gone. A container that the agent knows, or that another
// one will adopt, stays until it is deleted.
func (cs *containers) ended(c *container, status string) {
	if !c.alive || c.waits(func() { cs.ended(c, status) }) {
		return
	}
	c.stuck = false
	c.alive, c.status = false, status
	if !c.asked && !c.reaped && !c.dying && !c.orphan {
		cs.m.w.check.own[c.run.Invocation] = status
	}
	cs.m.w.check.ended(c)
	cs.m.w.trace("%s: container of %v %v ended: %s", cs.m.name, c.run.Work, c.run.Invocation, status)
	if c.orphan || c.extra || c.deleting {
		cs.drop(c)
	} else {
		cs.m.happened(executor.Event{Kind: executor.EventCompleted, Container: c.snapshot()})
	}
	cs.clearedIf()
}

// drop removes a container without processes.
func (cs *containers) drop(c *container) {
	cs.box = slices.DeleteFunc(cs.box, func(o *container) bool { return o == c })
	if !c.orphan {
		cs.m.happened(executor.Event{Kind: executor.EventDeleted, Container: c.snapshot()})
	}
	if c.nameless {
		cs.clearedIf()
	}
}

package sim

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"cantina/bbs"
	"cantina/lrp"
	"cantina/task"
	"cantina/worker"
)

func newWorkCheck() workCheck {
	return workCheck{only: map[lrp.Key]*unit{}, running: map[string]*unit{}, begun: map[string]bool{},
		durable: map[string]bool{}, excused: map[string]bool{}, released: map[string]bool{}}
}

// began: I1, the action of a task starts once, over everything; I3, no instance of
// an exclusive index starts while another may be alive.
func (c *checker) began(w *world, u *unit) {
	w.res.Begun++
	c.work.units = append(c.work.units, u)
	if u.uid == "" {
		if o := c.work.only[u.key]; u.exclusive && o != nil {
			w.fail("I3", "%v starts on %s while %v is alive on %s", u, u.m.dir, o, o.m.dir)
		}
		if u.exclusive {
			c.work.only[u.key] = u
		}
		c.oneVersion(w, u)
		return
	}
	// After a restore nothing proves the end of one that was to run on without its cell.
	if o := c.work.running[u.uid]; o != nil && (o.bound || !c.work.excused[u.uid]) {
		w.fail("I1", "%v starts on %s while it is alive on %s", u, u.m.dir, o.m.dir)
	}
	for _, o := range c.work.units {
		same := o != u && o.guid == u.guid && o.uid != u.uid && !c.work.released[o.uid] && !c.work.released[u.uid]
		if r := w.leading(); same && (o.bound || r != nil && couldSay(r, o.m)) {
			w.fail("I1", "%v starts on %s while %v of the same name is alive on %s", u, u.m.dir, o, o.m.dir)
		}
	}
	row := w.store.task(u.guid)
	if row != nil && row.UID == u.uid && row.Definition.Labels != nil &&
		row.Definition.Labels["side"] != u.m.side()["side"] {
		w.fail("contract", "%v starts on %s and wants a cell that is %s", u, u.m.dir, row.Definition.Labels["side"])
	}
	if e := u.m.drain; e.id != "" && row != nil && row.UID == u.uid &&
		w.store.rows[bbs.TaskRow(u.guid)].(*saved).at > e.since+5*time.Second {
		w.fail("contract", "%v was given leave and starts on %s, which is being emptied since %v", u, u.m.name, e.since)
	}
	if c.work.begun[u.uid] && !c.work.excused[u.uid] {
		w.fail("I1", "%v starts on %s a second time", u, u.m.dir)
	}
	delete(c.work.excused, u.uid)
	c.work.begun[u.uid], c.work.running[u.uid] = true, u
	w.plans.begun(u)
}

// oneVersion: an index of an exclusive service starts in its next version after it has ended in
// the one before, if that was exclusive too: the end of others is not proven. A store that went
// back may have a version that was not exclusive.
func (c *checker) oneVersion(w *world, u *unit) {
	for _, o := range c.work.units {
		twice := o != u && o.service == u.service && o.uid == "" && o.key.Index == u.key.Index &&
			o.key.Process != u.key.Process
		next := func() bool { return number(worker.Proc(u.key.Process)) > number(worker.Proc(o.key.Process)) }
		if twice && o.exclusive && (u.exclusive || next() && o.made == w.store.made) {
			w.fail("I3", "%v %v starts on %s while %v is alive on %s", u.service, u, u.m.dir, o, o.m.dir)
		}
	}
}

func (c *checker) ceased(u *unit) {
	c.work.units = slices.DeleteFunc(c.work.units, func(o *unit) bool { return o == u })
	if c.work.only[u.key] == u {
		delete(c.work.only, u.key)
	}
	if u.uid != "" && c.work.running[u.uid] == u {
		delete(c.work.running, u.uid)
		for _, o := range c.work.units {
			if o.uid == u.uid {
				c.work.running[u.uid] = o
			}
		}
	}
}

// wentBack excuses missing rows of a restored store: a second start of a task, once. Two at a time
// are not excused, except for a task without a deadline.
func (c *workCheck) wentBack() {
	for uid := range c.begun {
		c.excused[uid] = true
	}
}

// decided: I3 on the decision about an index; I11, no instance is stopped in a domain that is not
// fresh if its owner is unknown.
func (c *checker) decided(w *world, before lrp.Index, e lrp.Event, env lrp.Env, after lrp.Index) {
	if err := lrp.Check(after); err != nil {
		w.fail("I3", "%T%v: %v", e, e, err)
	}
	c.startsBeforeItStops(w, before, e, env, after)
	if _, ok := e.(lrp.Undesire); !ok || env.Desired != nil {
		return
	}
	w.res.Orphans++
	if !env.Fresh && after != before {
		w.fail("I11", "%s is stopped in a domain that is not fresh: %s", describe(before), describe(after))
	}
}

// stored: the rows of one commit, each compared with the previous one: I3 on the unit of an index,
// an end of a task is durable and stays, only dead tasks are lost.
func (c *checker) stored(w *world, o op) {
	key, ok := o.key.(string)
	if !ok {
		return
	}
	var was, is any
	if x, ok := w.store.rows[key].(*saved); ok {
		was = x.row
	}
	if x, ok := o.val.(*saved); ok {
		is = x.row
	}
	if x, ok := is.(lrp.Index); ok {
		if err := lrp.Check(x); err != nil {
			w.fail("I3", "%v", err)
		}
	}
	before, _ := was.(*task.Task)
	after, _ := is.(*task.Task)
	if after != nil {
		c.work.durable[after.UID] = true
	}
	c.taskStored(w, before, after)
}

// has reports whether a cell has a container of a task's uid.
func (w *world) has(uid string) bool {
	return slices.ContainsFunc(w.machines, func(m *machine) bool { return m.containers.unit("t-"+uid) != nil })
}

func (c *checker) taskStored(w *world, before, after *task.Task) {
	same := before != nil && after != nil && before.UID == after.UID
	if before != nil && before.Ended() && !same {
		c.work.released[before.UID] = true
	}
	switch {
	case before == nil:
	case before.Ended() && after != nil && !same:
		w.fail("I5", "the end of %s is overwritten by another task", describeTask(before))
	case before.Unresolved() && after == nil:
		w.fail("I5", "%s is deleted and nobody has said what became of it", describeTask(before))
	case before.State == task.Pending && after != nil && !same && (w.has(after.UID) || c.work.durable[after.UID]):
		// It was made again in a restored store, and a cell has reported its container, which may be gone
		// when the change is stored.
	case !before.Ended() && (after == nil || !same):
		w.fail("I5", "%s is gone before its end", describeTask(before))
	case same && before.Unresolved() && before.MayStillRun && after.State == task.Running:
		// Its cell has reported its container, which may be gone when the change is stored.
	case same && before.Ended() && !after.Ended():
		w.fail("I1", "%s becomes %s", describeTask(before), describeTask(after))
	case same && before.Ending() && !after.Ending() && after.Outcome != task.Cancelled && !after.Result.Ordered:
		// It had ended on its own before it was cancelled.
	case same && before.Ended() && before.Outcome != task.Lost &&
		(after.Outcome != before.Outcome || after.Result.Reason != before.Result.Reason ||
			after.Result.ExitCode != before.Result.ExitCode && !before.Ending()):
		w.fail("I5", "the end of %s is replaced by %s", describeTask(before), describeTask(after))
	}
	c.overStored(w, before, after, same)
	if same && before.Ending() && !after.Ending() {
		if u := c.work.running[after.UID]; u != nil {
			w.fail("I6", "%s is said to be gone while it is alive on %s", describeTask(after), u.m.dir)
		}
	}
	if after != nil && after.Outcome == task.Failed && !(before != nil && same && before.Ended()) {
		c.unplaced(w, after)
	}
	if after != nil && after.Outcome == task.Lost && !(same && before.Outcome == task.Lost) {
		w.res.TasksLost++
		if u := c.work.running[after.UID]; u != nil && !after.MayStillRun {
			w.fail("I6", "%s is given up as lost while it is alive on %s", describeTask(after), u.m.dir)
		}
	}
}

// overStored: I6, the container of a task that is deleted, or is not marked any more as one that may
// still run, is not alive.
func (c *checker) overStored(w *world, before, after *task.Task, same bool) {
	switch {
	case before == nil || !before.Ending() && !before.MayStillRun:
	case same && (!after.Ended() || after.Ending() || after.MayStillRun == before.MayStillRun):
	default:
		if u := c.work.running[before.UID]; u != nil {
			w.fail("I6", "%s is over while it is alive on %s", describeTask(before), u.m.dir)
		}
	}
}

// unplaced: a task fails for lack of a place only if no cell could ever hold it, or if cells have
// repeatedly failed to make its container.
func (c *checker) unplaced(w *world, t *task.Task) {
	if t.Rejection == "" || t.Rejection != t.Result.Reason || t.Rejections > 0 {
		return
	}
	if t.Definition.Workload.Resources["memory_mb"] != tooLarge {
		w.fail("contract", "%s ended for want of a place: %s", describeTask(t), t.Rejection)
	}
	w.res.TooLarge++
}

// reported: I6, if a cell reports how a task has ended, or that it has no container of it, no process
// of the task is alive on that cell. (A task is COMPLETED while it may run if another party ended
// it, and then its row shows that too: a customer has cancelled it and it is ending, or its cell
// was given up and it may still run.)
func (c *checker) reported(r *leadership, e task.Event, after *task.Task) {
	w := r.s.w
	var by task.Holder
	switch e := e.(type) {
	case task.ProcDead:
		c.judged(r, e.Proc, after)
		return
	case task.Complete:
		by = e.By
	case task.Missing:
		by = e.By
	default:
		return
	}
	for _, u := range c.work.units {
		if u.uid == after.UID && string(u.m.name) == by.Cell && slices.Contains(u.procs, worker.Proc(by.Proc)) {
			w.fail("I6", "%s is reported by %T while it is alive on %s", describeTask(after), e, u.m.dir)
		}
	}
}

// judged: I5, a task is given up as lost only if no process holds its end that had reported when
// the death of its holder was decided. (The news waits for its commit.)
func (c *checker) judged(r *leadership, dead string, t *task.Task) {
	w := r.s.w
	for _, m := range w.machines {
		u := m.containers.unit("t-" + t.UID)
		if u == nil || t.Outcome != task.Lost || u.state != completed || u.began == 0 || u.nameless ||
			u.made != w.store.made || !m.alive {
			continue
		}
		if couldHaveSaid(r, m, worker.Proc(dead)) {
			w.fail("I5", "%s is given up as lost while %s, which has reported, holds its end", describeTask(t), m.name)
		}
	}
}

// answered: permission to run, and an end that a cell may discard, are durable before they are
// sent; a permitted reservation gets permission again.
func (c *checker) answered(r *leadership, guid string, asked task.Event, err error) {
	w := r.s.w
	if e, ok := asked.(task.Start); ok && err != nil {
		if t := r.task(guid); t != nil && t.UID == e.UID && t.State == task.Running && t.Holder == e.By &&
			t.Reservation == e.Reservation {
			w.fail("contract", "the reservation that has leave to run asks again and is refused: %v", err)
		}
	}
	if err != nil || r.made != w.store.made {
		return
	}
	row := w.store.task(guid)
	switch e := asked.(type) {
	case task.Start:
		if row != nil && row.UID == e.UID && row.State == task.Pending && row.Rejections == 0 {
			w.fail("I1", "leave to run %s is given and not durable", describeTask(row))
		}
	case task.Complete:
		if row != nil && row.UID == e.UID && !row.Ended() {
			w.fail("I5", "the end of %s is acknowledged and not durable", describeTask(row))
		}
	}
}

// dropped: the end of a task that was given up as lost is reported before its container is
// deleted, and one that was to continue is left alone. (A store that went back has another row.)
func (c *checker) dropped(w *world, u *unit) {
	row := w.store.task(u.guid)
	if row == nil || row.UID != u.uid || row.Holder.Cell != string(u.m.name) || !row.Unresolved() ||
		u.made != w.store.made {
		return
	}
	if u.state == completed && len(u.procs) > 0 && u.began > 0 && !u.nameless {
		w.fail("contract", "%v is lost, has ended, and its end is dropped", u)
	}
	if u.state == up && row.MayStillRun {
		w.fail("contract", "%v is lost and was to run on, and is ended", u)
	}
}

// deadUnits: I6, no deadline-bound work of a process declared dead is alive, except work that a
// later process of the directory has adopted and reported. That one need not be the last: news of a
// death waits for its commit, and sessions follow each other meanwhile. Its own death is checked too.
func (c *checker) deadUnits(w *world, r *leadership, d worker.Dead) {
	for _, u := range slices.Clone(c.work.units) {
		if !u.bound || !slices.Contains(u.procs, d.Proc) {
			continue
		}
		later := u.procs[slices.Index(u.procs, d.Proc)+1:]
		recorded := func(by []worker.Proc) bool {
			return slices.ContainsFunc(r.leader.Sessions(r.s.local()), func(v worker.SessionView) bool {
				return v.Member && v.Reported && slices.Contains(by, v.Proc)
			})
		}
		switch last := later[max(len(later)-1, 0):]; {
		case recorded(last):
		case u.stuck && d.Proof == worker.ProofExpiry && !couldHaveSaid(r, u.m, d.Proc):
			c.lostSightOf(u)
		case !recorded(later):
			w.fail("I6", "process %s is declared dead (%v) while %v is alive on %s, held by %v", d.Proc, d.Proof, u, u.m.dir,
				u.procs)
		}
	}
}

// fullWork recounts the data of the checks above.
func (c *checker) fullWork(w *world) {
	n := 0
	only, running := map[lrp.Key]bool{}, map[string]bool{}
	for _, m := range w.machines {
		for _, u := range m.containers.units {
			if !u.alive || u.unseen {
				continue
			}
			n++
			if u.exclusive {
				if only[u.key] {
					w.fail("I3", "%v is alive twice", u.key)
				}
				only[u.key] = true
			}
			if u.uid != "" {
				if running[u.uid] && u.bound {
					w.fail("I1", "task %s is alive twice", u.uid)
				}
				running[u.uid] = true
			}
		}
	}
	if n != len(c.work.units) || len(only) != len(c.work.only) || len(running) != len(c.work.running) {
		w.fail("checker", "%d containers alive (%d exclusive, %d tasks), %d known", n, len(only), len(running),
			len(c.work.units))
	}
	for _, row := range w.store.rowsOf("") {
		if w.store.rows[row.Key].(*saved).sound != nil {
			continue
		}
		x, err := decode(row)
		if err == nil && !reflect.DeepEqual(x, w.store.rows[row.Key].(*saved).row) {
			err = fmt.Errorf("row %s says %+v, and was taken for %+v", row.Key, x, w.store.rows[row.Key].(*saved).row)
		}
		if err != nil {
			w.fail("checker", "%v", err)
		}
	}
}

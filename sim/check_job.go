package sim

import (
	"slices"
	"strings"
	"time"

	"cantina/batch"
	"cantina/fence"
	"cantina/plan"
	"cantina/scheduler"
	"cantina/worker"
)

func newJobCheck() jobCheck {
	return jobCheck{jobs: map[string]*scheduler.JobRecord{}, statuses: map[string]map[string]scheduler.StatusRecord{},
		forests:  map[string]string{},
		reopened: map[string]time.Duration{}, names: map[string]string{}}
}

// readJobs reads the rows of jobs of a store as a new leader would.
func readJobs(w *world) jobCheck {
	c := newJobCheck()
	rows := w.store.rowsOf("")
	for _, statuses := range []bool{false, true} {
		for _, row := range rows {
			if r, ok := w.store.rows[row.Key].(*saved).row.(scheduler.Row); ok && (r.Statuses != nil) == statuses {
				c.take(w, &r, nil)
			}
		}
	}
	return c
}

// take takes one durable row; each, if set, looks at a status before it is the newest.
func (c *jobCheck) take(w *world, r *scheduler.Row, each func(was, is *scheduler.StatusRecord)) {
	if j := r.Job; j != nil {
		if was := c.jobs[j.Name]; was != nil && was.UID != j.UID {
			delete(c.statuses, was.UID)
		}
		c.jobs[j.Name] = j
		if j.Deleted {
			delete(c.statuses, j.UID)
			return
		}
		c.forests[j.UID], c.names[j.UID] = j.Forest, j.Name
		if c.statuses[j.UID] == nil {
			c.statuses[j.UID] = map[string]scheduler.StatusRecord{}
		}
	}
	for i := range r.Statuses {
		is := &r.Statuses[i]
		of := c.statuses[is.UID]
		if of == nil {
			continue // rows being deleted
		}
		if was, ok := of[is.Node]; ok {
			if each != nil {
				each(&was, is)
			}
			if was.Segment > is.Segment {
				continue
			}
		}
		of[is.Node] = *is
	}
}

// of returns the durable status of a work, and whether there is one.
func (c *jobCheck) of(work worker.Work) (batch.Status, bool) {
	j := c.jobs[work.Job]
	if j == nil {
		return batch.Status{}, false
	}
	st, ok := c.statuses[j.UID][work.Node]
	return st.Status, ok
}

// host is the node with a limit that a batch task of a job draws on; empty = none.
func (c *jobCheck) host(uid, node string) string {
	if f := c.forests[uid]; strings.HasSuffix(f, sharedForest) || strings.HasSuffix(f, limited) {
		return f + "/" + node
	}
	return ""
}

// jobStored: I5 on each row of jobs that becomes durable. A real end is counted once, a
// status never goes back to an earlier invocation; a job is born again when it may be.
func (c *checker) jobStored(w *world, key string, val any) {
	row, ok := val.(*saved)
	if !ok {
		if name, ok := strings.CutPrefix(key, jobPrefix); ok {
			if j := c.jobs.jobs[name]; j != nil {
				delete(c.jobs.statuses, j.UID)
			}
			delete(c.jobs.jobs, name)
		}
		return
	}
	r, ok := row.row.(scheduler.Row)
	if !ok {
		return
	}
	for i := range r.Statuses {
		if s := &r.Statuses[i]; c.jobs.statuses[s.UID] != nil {
			c.counted(w, s)
		}
	}
	c.jobs.take(w, &r, func(was, is *scheduler.StatusRecord) { c.replaced(w, was, is) })
}

// counted counts an end that becomes durable.
func (c *checker) counted(w *world, s *scheduler.StatusRecord) {
	was, ok := c.jobs.statuses[s.UID][s.Node]
	switch same := ok && was.Status.Invocation == s.Status.Invocation; {
	case same && real(was.Status) == real(s.Status), s.Status.Invocation.IsZero():
	case real(s.Status):
		w.res.Ended++
	case s.Status.Bits&batch.HasSavedBackoff != 0:
		w.res.Lost++
	}
}

// over reports that a node of a job runs no more.
func over(s batch.Status) bool { return s.Bits&(batch.Done|batch.Failed) != 0 }

// real reports whether a process reported its end, or a person has decided since.
func real(s batch.Status) bool { return s.Bits&batch.Overwriteable == 0 }

func (c *checker) replaced(w *world, was, is *scheduler.StatusRecord) {
	if over(was.Status) && !over(is.Status) {
		c.jobs.reopened[is.UID] = w.now
	}
	switch newer := is.Status.Invocation.Compare(was.Status.Invocation); {
	case newer < 0:
		w.fail("I5", "%s of %s goes back from %v to %v", is.Node, is.UID, was.Status.Invocation, is.Status.Invocation)
	case newer > 0 || !real(was.Status):
	case !edited(was.Status, is.Status):
		w.fail("I5", "end of %s of %s, %v, is counted twice: %+v, then %+v", is.Node, is.UID, is.Status.Invocation,
			was.Status, is.Status)
	}
}

// edited reports whether a status differs from another only by permitted changes of a person:
// nothing, a retry, a reset.
func edited(was, is batch.Status) bool {
	was.Reason, is.Reason = "", ""
	retried, _ := batch.Retried(was)
	return is == was || is == retried || is == batch.Status{Invocation: was.Invocation}
}

// recount compares the kept data with the rows: no durable status is deleted.
func (c *jobCheck) recount(w *world) {
	fresh := readJobs(w)
	for uid, of := range c.statuses {
		for node, st := range of {
			if got, ok := fresh.statuses[uid][node]; !ok || got.Status != st.Status {
				w.fail("I5", "the status of %s of %s is %+v and no more in the store (%+v)", node, uid, st, got)
			}
		}
	}
	if len(fresh.jobs) != len(c.jobs) {
		w.fail("checker", "%d jobs in the store, %d known", len(fresh.jobs), len(c.jobs))
	}
}

// handedOut: an invocation is assigned once, permanently. Assignments of a leader that does not
// know yet that the store went back are handled as in wentBack.
func (c *checker) handedOut(w *world, r *leadership, q worker.Request, i fence.Invocation) {
	if c.invoked[i] {
		w.fail("I2", "invocation %v is handed out twice", i)
	}
	c.invoked[i] = true
	c.uids[i] = q.JobUID
	if r.made == w.store.made || c.jobs.has(q.JobUID) {
		c.hosts[i] = c.jobs.host(q.JobUID, q.Work.Node)
	}
}

// acknowledged: an end that a cell may discard is durable, unless the job has been deleted or
// created again since it started.
func (c *checker) acknowledged(w *world, r *leadership, a worker.StatusAnswer) {
	if !a.OK || a.Kind != worker.StatusEnded || r.made != w.store.made {
		return
	}
	j := c.jobs.jobs[a.Run.Work.Job]
	if j == nil || j.Deleted || a.Run.Invocation.Compare(j.Born) <= 0 {
		return
	}
	st, _ := c.jobs.of(a.Run.Work)
	if st.Invocation.Compare(a.Run.Invocation) < 0 || st.Invocation == a.Run.Invocation && !real(st) {
		w.fail("I5", "end of %v %v is acknowledged and not durable: %+v", a.Run.Work, a.Run.Invocation, st)
	}
}

// wentBack follows a restore: running work of a job that the copy does not contain draws on
// unknown nodes.
func (c *checker) wentBack(w *world) {
	forests, names := c.jobs.forests, c.jobs.names
	c.jobs = readJobs(w)
	for uid, f := range forests {
		if c.jobs.forests[uid] == "" {
			c.jobs.forests[uid], c.jobs.names[uid] = f, names[uid]
		}
	}
	for inv, uid := range c.uids {
		if h := c.hosts[inv]; h != "" && !c.jobs.has(uid) {
			if c.counts(inv) {
				c.byHost[h]--
			}
			delete(c.hosts, inv)
		}
	}
}

// counts reports that an invocation is alive and counted.
func (c *checker) counts(inv fence.Invocation) bool {
	return slices.ContainsFunc(c.all, func(k *container) bool { return k.run.Invocation == inv })
}

// has reports whether a job with the uid exists, or a tombstone of it.
func (c *jobCheck) has(uid string) bool {
	for _, j := range c.jobs {
		if j.UID == uid {
			return true
		}
	}
	return false
}

// waitsForStuck reports whether each batch task of a job that is not done waits for one that
// does not die, or the job for one of a job that is gone, or it comes after such a job: then nothing else is wrong.
func (c *checker) waitsForStuck(w *world, r *leadership, v *plan.Job) bool {
	if strings.HasPrefix(v.Progress.Reason, "batch tasks of a removed or replaced job") && w.stuckBatch(w.jobGone) {
		return true
	}
	for _, name := range v.Job.After {
		if before, err := r.sched.Job(name); err == nil && before.Progress.State != batch.JobDone {
			return c.waitsForStuck(w, r, &before)
		}
	}
	nodes, err := r.sched.JobNodes(v.Name, batch.NodeFilter{})
	if err != nil || len(nodes) == 0 {
		return false
	}
	return !slices.ContainsFunc(nodes, func(p plan.JobNode) bool {
		return p.Class != batch.ClassDone && !w.stuckWork(worker.Work{Job: v.Name, Node: p.Node}, c.jobs.host(v.UID, p.Node))
	})
}

// jobsQuiet: I14, after the faults every batch task of every job is done.
func (c *checker) jobsQuiet(w *world, r *leadership) {
	now := r.s.local()
	for _, v := range r.sched.Jobs(plan.NameFilter{}, "", 0) {
		if v.Removed || v.Progress.State == batch.JobDone && v.Progress.Done == w.cfg.Nodes {
			continue
		}
		if c.waitsForStuck(w, r, &v) {
			continue
		}
		h, _ := r.leader.MayRun(now, worker.Request{Work: worker.Work{Job: v.Name, Node: node(0)}, JobUID: v.UID})
		why, err := r.sched.Explain(v.Name, "")
		w.fail("I14", "%s is %+v (%v, %v, %v, running %v)", v.Name, v.Progress, h, why, err, r.leader.Model())
	}
}

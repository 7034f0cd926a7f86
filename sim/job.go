package sim

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"cantina/action"
	"cantina/batch"
	"cantina/plan"
	"cantina/resource"
	"cantina/scheduler"
	"cantina/worker"
)

// draw is on which nodes with a limit the batch tasks of a job draw.
type draw int

const (
	shared  draw = iota // those of all jobs of its domain
	private             // its own
	nothing
)

// hostLimit is how many batch tasks may draw on a node at once.
const hostLimit = 1

const hostLevel = "host"

func node(n int) string { return fmt.Sprint("n", n) }

// jobName is the key of the job of a number. Each name is used in two domains.
func jobName(i int) string { return fmt.Sprintf("%s/job-%d", []string{domain, "e"}[i%2], i/2) }

// wanted is a job of a user, by its key.
func (w *world) wanted(name string, d draw) plan.NamedJob {
	of, _ := batch.SplitName(name)
	f := batch.ForestSpec{Name: of + sharedForest, Levels: []string{hostLevel}, Instance: "all",
		Order:  batch.OrderLexicographic,
		Limits: map[string]map[string]batch.Limit{hostLevel: {"tasks": {Default: 1, Limit: hostLimit}}}}
	switch d {
	case private:
		f.Name = name + limited
	case nothing:
		f.Name, f.Limits = name+"-nodes", nil
	}
	nodes := batch.Source{Kind: batch.SourceManual}
	for n := range w.cfg.Nodes {
		nodes.Manual = append(nodes.Manual, batch.ManualNode{Name: node(n)})
	}
	f.Sources = []batch.Source{nodes}
	f.Policy = batch.Policy(w.cfg.Seed / 2 % 4)
	return plan.NamedJob{Forest: f, Job: batch.Job{Name: name, Domain: of, Forest: f.Name, Retries: 2,
		Priority: float64(1 + len(w.before(name))), After: w.before(name),
		Backoff:   batch.Backoff{Seconds: []int{1, 2, 4}, Repeat: true},
		Workload:  action.Workload{Action: action.Action{Run: &action.Run{Path: "/bin/do", Args: []string{"{}"}}}},
		Resources: map[string]resource.Amounts{batch.LevelWorker: w.share()}}}
}

// before are the jobs that a job comes after: under half of the seeds, that of the number before it in its domain.
func (w *world) before(name string) []string {
	for i := 2; i < w.cfg.Jobs && w.cfg.Seed/8%2 == 1; i++ {
		if jobName(i) == name {
			return []string{jobName(i - 2)}
		}
	}
	return nil
}

// sharedForest ends the key of the forest that jobs of a domain share.
const sharedForest = "/hosts"

// limited ends the names of forests whose nodes belong to one job and have a limit.
const limited = "-hosts"

// share is the part of its cell that a batch task takes: beside services and tasks little, alone
// so much that cells are sometimes full.
func (w *world) share() resource.Amounts {
	if w.mixed() {
		return resource.Amounts{"memory_mb": 40}
	}
	return resource.Amounts{"memory_mb": 200}
}

// draws decides the resources that a new job's batch tasks draw on.
func (w *world) draws() draw {
	if w.calm {
		return shared
	}
	return draw(w.rng.IntN(3))
}

// client is a user: it creates, changes, deletes and re-creates jobs, reruns them, and kills runs,
// on any leading server.
func (w *world) client() {
	w.after(w.between(200*time.Millisecond, 2*time.Second), w.client)
	r := w.leading()
	if r == nil {
		return
	}
	r.s.on(func() {
		if !r.over {
			r.sched.operator()
			r.sched.use(jobName(w.rng.IntN(w.cfg.Jobs)))
			r.sched.mendOwned()
		}
	})
}

// use is a user's action on a job.
func (s *sched) use(name string) {
	w := s.r.s.w
	of, _ := batch.SplitName(name)
	v, err := s.Job(name)
	exists := s.Changeable(name) == nil
	switch {
	case !exists:
		w.trace("client: make %s", name)
		s.change(s.Apply(of, []plan.NamedJob{w.wanted(name, w.draws())}, plan.Prune{}))
	case w.calm:
		s.mend(&v)
	case w.faults.allowed(DeleteJob) && w.chance(100):
		w.trace("client: delete %s", name)
		w.faults.active[DeleteJob] = w.now + 5*time.Second
		s.change(s.Remove(name))
	case w.chance(80):
		s.kill(worker.Work{Job: name, Node: node(w.rng.IntN(w.cfg.Nodes))})
	case v.Paused && w.chance(500), w.chance(40):
		w.trace("client: pause %s: %v", name, !v.Paused)
		s.change(s.Pause(name, !v.Paused))
	case err == nil && !v.Removed && w.chance(60):
		s.edit(&v)
	case err == nil && v.Progress.State.Ended() && w.chance(250):
		w.trace("client: make %s anew", name)
		s.change(s.Renew(of, w.wanted(name, w.draws())))
	case err == nil && v.Progress.State.Ended():
		w.trace("client: run %s again", name)
		s.do(s.RerunInSteps(name, batch.NodeFilter{}))
	}
}

// edit changes a job in its place.
func (s *sched) edit(v *plan.Job) {
	w := s.r.s.w
	want := plan.NamedJob{Job: v.Job, Forest: v.Forest}
	want.Job.Config = w.customers.newID("config-")
	w.trace("client: edit %s", v.Name)
	_, err := s.Plan(v.Domain, []plan.NamedJob{want}, plan.Prune{})
	c, problem := s.Apply(v.Domain, []plan.NamedJob{want}, plan.Prune{})
	if fmt.Sprint(err) != fmt.Sprint(problem) {
		w.fail("contract", "a plan says %v, its application %v", err, problem)
	}
	if errors.Is(problem, scheduler.ErrInvalid) {
		return // a newer version than the seen one runs over other nodes
	}
	s.change(c, problem)
}

// mend has a job come to its end.
func (s *sched) mend(v *plan.Job) {
	switch {
	case v.Paused:
		s.change(s.Pause(v.Name, false))
	case v.Progress.State == batch.JobFailed:
		s.do(s.RetryInSteps(v.Name, batch.NodeFilter{}))
	}
}

// change submits a prepared change.
func (s *sched) change(c *scheduler.Change, err error) {
	if err != nil {
		s.r.s.w.fail("contract", "a change is refused: %v", err)
		return
	}
	s.Submit(c, func(int64, error) {})
}

// do makes all steps of an edit.
func (s *sched) do(e *scheduler.Edit) {
	more := false
	_, more, err := e.Step(func(err error) {
		if err == nil && more && !s.r.over {
			s.do(e)
		}
	})
	if err != nil && !errors.Is(err, batch.ErrUnknownJob) {
		s.r.s.w.fail("contract", "an edit is refused: %v", err)
	}
}

// kill stores the intent to end the run of a batch task.
func (s *sched) kill(work worker.Work) {
	c, err := s.Kill(work.Job, batch.NodeFilter{Node: work.Node})
	if errors.Is(err, batch.ErrUnknownNode) || errors.Is(err, batch.ErrUnknownJob) {
		return // its nodes are not read yet
	}
	s.r.s.w.trace("client: kill %v", work)
	s.change(c, err)
}

// operator kills endless work, and makes true statements: that a process which is gone is gone,
// that no work runs while none runs or can start.
func (s *sched) operator() {
	w, l, now := s.r.s.w, s.r.leader, s.r.s.local()
	if h, _ := l.MayReceive(""); h.Reason == worker.HoldDeposed {
		return
	}
	for _, c := range w.check.all {
		if (c.never || c.held) && w.calm && !s.KillStored(c.run) {
			s.kill(c.run.Work)
			break
		}
	}
	if l.Wait(now).Active && len(w.check.all)+len(w.check.work.units) == 0 && !w.anyAccepts() {
		_ = s.r.reg.EndWait("operator")
		if l.Wait(now).Active {
			w.fail("contract", "the wait was ended by an operator and goes on")
		}
	}
	if !w.faults.allowed(Reboot) || !w.chance(100) {
		return
	}
	for _, v := range l.Sessions(now) {
		m := w.byProc[v.Proc]
		gone := !m.alive || m.proc() != v.Proc
		if !v.Member || v.Dead || !gone || slices.ContainsFunc(w.check.all,
			func(c *container) bool { return slices.Contains(c.procs, v.Proc) }) ||
			slices.ContainsFunc(w.check.work.units, func(u *unit) bool { return slices.Contains(u.procs, v.Proc) }) {
			continue
		}
		_ = s.r.reg.Forget(v.Proc, "operator")
		if !s.r.over && !l.IsDead(v.Proc) && !l.Wait(now).Stale {
			w.fail("contract", "%s was forgotten and is not dead", v.Proc)
		}
		return
	}
}

func (w *world) anyAccepts() bool {
	return slices.ContainsFunc(w.machines, func(m *machine) bool {
		return m.alive && m.agent.Accepts(m.local()) == nil
	})
}

func (w *world) leading() *leadership {
	for _, s := range w.servers {
		if s.leadership != nil && !s.leadership.over && s.alive && s.paused <= w.now {
			return s.leadership
		}
	}
	return nil
}

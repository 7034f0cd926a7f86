package sim

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"cantina/fence"
	"cantina/wire"
	pb "cantina/wire/cantinav1"
	"cantina/worker"
)

// sched stands for the batch scheduler: it keeps the newest job and status rows,
// starts what is due where the leader allows it, and stores every end.
type sched struct {
	r      *reign
	jobs   map[string]jobRow
	status map[worker.Work]statusRow
	dirty  bool
	next   int
}

func newSched(r *reign) *sched {
	return &sched{r: r, jobs: map[string]jobRow{}, status: map[worker.Work]statusRow{}}
}

// load reads the rows as they stand when the term begins.
func (s *sched) load(cfg *worker.Config) {
	for k, v := range s.r.s.w.store.rows {
		switch k := k.(type) {
		case jobKey:
			s.jobs[k.name] = v.(jobRow)
		case statusKey:
			s.status[k.work] = v.(statusRow)
		case memberKey:
			cfg.Members = append(cfg.Members, v.(worker.Member))
		}
	}
	for _, name := range s.names() {
		s.r.jobs[name] = true
		cfg.Jobs = append(cfg.Jobs, worker.JobRow{Name: name, UID: s.jobs[name].uid})
		for n := range s.r.s.w.cfg.Nodes { // what runs may come from an earlier definition of the job
			cfg.HeldNodes = append(cfg.HeldNodes, host(name, jobRow{}, n), host(name, jobRow{draws: private}, n))
		}
	}
	for _, n := range cfg.HeldNodes {
		s.r.nodes[n] = true
	}
	slices.SortFunc(cfg.Members, func(a, b worker.Member) int { return cmp.Compare(a.Proc, b.Proc) })
	s.dirty = true
}

func (s *sched) names() []string {
	names := make([]string, 0, len(s.jobs))
	for n := range s.jobs {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// host is the node with a limit that node n of a job draws on: at most hostLimit
// batch tasks of all jobs at once.
func host(name string, j jobRow, n int) string {
	switch j.draws {
	case private:
		return fmt.Sprint(name, "-host-", n)
	case nothing:
		return ""
	}
	return fmt.Sprint("host-", n)
}

const hostLimit = 1

func node(n int) string { return fmt.Sprint("n", n) }

// LastApplied and KillStored are worker.Statuses.
func (s *sched) LastApplied(w worker.Work) (fence.Invocation, bool) {
	row := s.status[w]
	return row.inv, row.real
}

// KillStored reports the stored intent to kill a run.
func (s *sched) KillStored(r worker.Run) bool {
	return !r.Invocation.IsZero() && s.status[r.Work].kill == r.Invocation
}

// run starts what may start.
func (s *sched) run() {
	if !s.dirty || s.r.over {
		return
	}
	s.dirty = false
	w := s.r.s.w
	for _, name := range s.names() {
		j := s.jobs[name]
		if j.deleted {
			s.bury(name)
			continue
		}
		for n := range w.cfg.Nodes {
			work := worker.Work{Job: name, Node: node(n)}
			if s.status[work].round < j.round {
				s.start(work, j, host(name, j, n))
			}
		}
	}
}

// start runs one batch task on some cell that may take it.
func (s *sched) start(work worker.Work, j jobRow, host string) {
	w, l := s.r.s.w, s.r.leader
	var nodes []string
	if host != "" {
		nodes = []string{host}
		if s.used(host) >= hostLimit {
			return
		}
	}
	s.next++
	for i := range w.cfg.Cells {
		cell := worker.CellName(fmt.Sprintf("cell-%d", (s.next+i)%w.cfg.Cells))
		q := worker.Request{Work: work, JobUID: j.uid, Nodes: nodes, Cell: cell}
		s.r.explains(q)
		if _, ok := l.MayStart(s.r.s.local(), q); !ok {
			continue
		}
		inv, out, err := l.RunBatch(s.r.s.local(), q)
		if err != nil {
			w.fail("I10", "%v", err)
			return
		}
		w.check.invokedOnce(w, inv)
		w.check.hosts[inv] = host
		s.r.submit(out)
		return
	}
}

// used counts what may be running on a host, by the leader's model.
func (s *sched) used(h string) int {
	n := 0
	for _, v := range s.r.leader.Model() {
		if s.r.s.w.check.hosts[v.Run.Invocation] == h || s.hostOf(v.Run.Work) == h {
			n++
		}
	}
	return n
}

func (s *sched) hostOf(work worker.Work) string {
	n := 0
	fmt.Sscanf(work.Node, "n%d", &n)
	return host(work.Job, s.jobs[work.Job], n)
}

// ended stores an end: a real one beats a synthetic one, a replay counts once.
func (s *sched) ended(e worker.Ended) {
	w := s.r.s.w
	row := s.status[e.Run.Work]
	newer := e.Run.Invocation.Compare(row.inv)
	committed := item{after: func() {
		s.r.step(worker.StatusCommitted{Run: e.Run, Kind: e.Kind})
		s.dirty = true
	}}
	switch {
	case newer < 0, newer == 0 && e.Kind != worker.Real:
	case newer == 0 && row.real:
		w.fail("I5", "end of %v %v counted twice", e.Run.Work, e.Run.Invocation)
		return
	default:
		row.inv, row.real = e.Run.Invocation, e.Kind == worker.Real
		if row.real && succeeded(e.Status) {
			row.round = max(row.round, min(s.jobs[e.Run.Work.Job].round, row.round+1))
		}
		if row.real {
			w.res.Ended++
		} else {
			w.res.Lost++
		}
		s.status[e.Run.Work] = row
		committed.ops = []op{{statusKey{e.Run.Work}, row}}
	}
	s.r.put(committed)
}

// succeeded reports whether a batch task has done what it was to do.
func succeeded(status string) bool {
	m := &pb.BatchEnd{}
	if err := proto.Unmarshal([]byte(status), m); err != nil {
		return false
	}
	end, _ := wire.ToBatchEnd(m)
	return end.ExitCode == 0 && end.Signal == 0 && !end.Killed
}

// bury deletes a tombstone when, outside the wait, nothing of the name can run.
func (s *sched) bury(name string) {
	l := s.r.leader
	if l.Wait(s.r.s.local()).Active {
		return
	}
	for n := range s.r.s.w.cfg.Nodes {
		if len(l.Running(worker.Work{Job: name, Node: node(n)})) > 0 {
			return
		}
	}
	delete(s.jobs, name)
	s.r.put(item{ops: []op{{jobKey{name}, nil}}})
}

func (s *sched) putJob(name string, j jobRow) {
	s.jobs[name] = j
	s.r.put(item{ops: []op{{jobKey{name}, j}}})
	s.dirty = true
}

// client is a user: it makes jobs, asks for more rounds, deletes and re-creates
// jobs, and kills runs, on whatever server leads.
func (w *world) client() {
	w.after(w.between(200*time.Millisecond, 2*time.Second), w.client)
	r := w.leading()
	if r == nil {
		return
	}
	s := r.sched
	s.operator()
	name := fmt.Sprintf("job-%d", w.rng.IntN(w.cfg.Jobs))
	j, ok := s.jobs[name]
	w.jobs++
	switch {
	case !ok || j.deleted:
		w.trace("client: make %s", name)
		s.putJob(name, jobRow{uid: fmt.Sprint("uid-", w.jobs), draws: w.draws(), round: s.rounds(name) + 1})
	case w.calm:
	case w.allowed(DeleteJob) && w.chance(100):
		w.trace("client: delete %s", name)
		w.active[DeleteJob] = w.now + 5*time.Second
		s.putJob(name, jobRow{uid: j.uid, deleted: true, draws: j.draws, round: j.round})
	case w.chance(100):
		s.kill(worker.Work{Job: name, Node: node(w.rng.IntN(w.cfg.Nodes))})
	default:
		done := s.rounds(name)
		if done >= j.round {
			j.round = done + 1
			s.putJob(name, j)
		}
	}
	s.run()
}

// draws decides what a new job's batch tasks draw on.
func (w *world) draws() draw {
	if w.calm {
		return shared
	}
	return draw(w.rng.IntN(3))
}

// rounds is how often every node of a job is done.
func (s *sched) rounds(name string) int {
	least := -1
	for n := range s.r.s.w.cfg.Nodes {
		r := s.status[worker.Work{Job: name, Node: node(n)}].round
		if least < 0 || r < least {
			least = r
		}
	}
	return max(least, 0)
}

// operator kills what never ends, and says what is true: that a process which is
// gone is gone, that nothing runs while nothing runs or can start.
func (s *sched) operator() {
	w, l, now := s.r.s.w, s.r.leader, s.r.s.local()
	if h, _ := l.MayReceive(""); h.Reason == worker.HoldDeposed {
		return
	}
	for _, c := range w.check.all {
		if c.never && w.calm && s.status[c.run.Work].kill != c.run.Invocation {
			s.kill(c.run.Work)
			break
		}
	}
	if l.Wait(now).Active && len(w.check.all)+len(w.check.work.units) == 0 && !w.anyAccepts() {
		s.r.step(worker.EndWait{By: "operator"})
		if l.Wait(now).Active {
			w.fail("contract", "the wait was ended by an operator and goes on")
		}
	}
	if !w.allowed(Reboot) || !w.chance(100) {
		return
	}
	for _, v := range l.Sessions(now) {
		m := w.byProc[v.Proc]
		gone := !m.alive || m.proc() != v.Proc
		if !v.Member || v.Dead || !gone || slices.ContainsFunc(w.check.all, func(c *container) bool { return slices.Contains(c.procs, v.Proc) }) ||
			slices.ContainsFunc(w.check.work.units, func(u *unit) bool { return slices.Contains(u.procs, v.Proc) }) {
			continue
		}
		s.r.step(worker.Forget{Proc: v.Proc, By: "operator"})
		if !s.r.over && !l.IsDead(v.Proc) && !l.Wait(now).Blind {
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

func (s *sched) kill(work worker.Work) {
	for _, v := range s.r.leader.Running(work) {
		row := s.status[work]
		row.kill = v.Run.Invocation
		s.status[work] = row
		run := v.Run
		s.r.put(item{ops: []op{{statusKey{work}, row}}, after: func() { s.r.step(worker.KillWanted{Run: run}) }})
		return
	}
}

func (w *world) leading() *reign {
	for _, s := range w.servers {
		if s.reign != nil && !s.reign.over && s.alive && s.paused <= w.now {
			return s.reign
		}
	}
	return nil
}

package sim

import (
	"log/slog"
	"slices"
	"time"

	"cantina/auctioneer"
	"cantina/bbs"
	"cantina/event"
	"cantina/fence"
	"cantina/leader"
	"cantina/lrp"
	"cantina/placement"
	"cantina/registry"
	"cantina/scheduler"
	"cantina/timetable"
	"cantina/worker"
)

// open makes the production parts of the term and their wiring, over the world. Values passed
// between them are checked, and the process may die there.
func (r *leadership) open(cfg worker.Config) error {
	s, w := r.s, r.s.w
	r.sched, r.board, r.hub = &sched{r: r}, &board{r: r, off: w.plans.off(s.id)}, &hub{r: r, last: r.revision}
	r.times = newTimes(r)
	l, err := leader.New(leader.Config{Cluster: cluster, Term: r.term, Store: termStore{r}, Revision: w.store.revision,
		Cells: calls{r}, Hub: r.hub,
		Callbacks: r.board, Clock: s.kernel(), Log: slog.New(complaints{r}),
		NewID: func() string { return w.customers.newID("id-") }, Go: r.beside,
		Resign: func(fence.Term) { r.end("a higher term was heard") },
		Auctioneer: auctioneer.Config{Placement: placement.Config{InFlight: 5 * time.Second, Rest: time.Second,
			Patience: 5 * time.Second, Preempt: w.cfg.Preempt, PreemptAfter: preemptAfter},
			Runtime: auctioneer.Runtime{Go: r.threads.run, Watch: func(placed []string) {
				r.fit(func(cell string) bool { return slices.Contains(placed, cell) })
			}}},
		Scheduler: scheduler.Config{Zone: w.plans.zone, NodesEvery: 20 * time.Second, NodesRetry: time.Second, MergeAt: 2},
		Registry:  registry.Config{Worker: cfg, Runtime: r.rt(), Behind: r.s.behind},
		Board: bbs.Config{Park: r.threads.park, Watch: r.board.watch(), Converge: lrp.ConvergePolicy{Resend: resend},
			Tasks: taskPolicy(), FullPass: fullPass, Began: w.store.began,
			KeyLife: w.customers.keyLife()},
		Timetable: r.times.config(), Signals: leader.SignalCalls{Go: r.times.beside, Signal: r.times.signal},
		Edges: leader.Edges{
			Listener:  func(to registry.Listener) registry.Listener { return news{r, to} },
			Placement: func(to bbs.Auctioneer) bbs.Auctioneer { return wants{r, to} },
			Registry:  func(to scheduler.Registry) scheduler.Registry { return runs{to, r} },
			Ledger:    func(to scheduler.Auctioneer) scheduler.Auctioneer { return ledger{to, r} },
			Signals:   func(to timetable.Signals) timetable.Signals { return signals{to, r.times} },
		}}, w.store.rowsOf(""))
	if err != nil {
		return err
	}
	r.leads, r.reg = l, l.Registry
	r.sched.Scheduler, r.board.BBS, r.board.drains = l.Scheduler, l.Board, l.Drains
	if r.times.Timetable = l.Timetable; l.Timetable == nil {
		r.times = nil
	}
	l.Begin()
	return nil
}

// rt is how the registry runs: its machine and its steps are watched.
func (r *leadership) rt() registry.Runtime {
	s := r.s
	return registry.Runtime{Park: r.threads.park, Within: within, Watch: r.watch,
		Go: func(f func()) { s.later(0, func() { r.threads.run(f) }) },
		Machine: func(c worker.Config) (*worker.Leader, error) {
			l, err := worker.NewLeader(c)
			r.leader = l
			return l, err
		}}
}

// begin starts the parts of the leader.
func (r *leadership) begin() {
	r.board.full = r.s.local()
	r.board.pass()
	r.reg.Begin()
	r.drive(r.leads.Auctioneer.Loop(), shift)
	r.tick()
	r.keepAlive()
	if r.times != nil {
		r.times.run()
	}
}

// Publish checks that they come in the order of the commits.
func (h *hub) Publish(revision int64, events ...event.Event) {
	if revision > 0 && revision < h.last {
		h.r.s.w.fail("contract", "events of revision %d come after those of %d", revision, h.last)
	}
	h.last = max(h.last, revision)
	if h.r.s.w.cfg.Trace == nil {
		return
	}
	for _, e := range events {
		if e.Text != "" {
			h.r.s.w.trace("  event %v: %s: %s", h.r.term, e.Subject, e.Text)
		}
	}
}

// news is between registry and leader: the process may die before each change, and the contract of
// the change is checked.
type news struct {
	r  *leadership
	to registry.Listener
}

// SessionChanged implements registry.Listener.
func (n news) SessionChanged(e worker.SessionChanged) {
	if n.r.stops() {
		return
	}
	n.to.SessionChanged(e)
	n.r.board.sessionChanged(e)
}

// Unheard implements registry.Listener.
func (n news) Unheard(e worker.Unheard) {
	if !n.r.stops() {
		n.to.Unheard(e)
		n.r.board.heeded(string(e.Proc), lrp.CellUnheard{Cell: string(e.Cell), Proc: string(e.Proc)})
	}
}

// Availability implements registry.Listener.
func (n news) Availability(e worker.Availability) {
	if !n.r.stops() {
		n.to.Availability(e)
	}
}

// Eligible implements registry.Listener.
func (n news) Eligible(e worker.Eligible) {
	if !n.r.stops() {
		n.to.Eligible(e)
	}
}

// Dead implements registry.Listener.
func (n news) Dead(e worker.Dead) {
	if n.r.stops() {
		return
	}
	n.r.s.w.check.dead(n.r.s.w, n.r, e)
	n.to.Dead(e)
	n.r.board.heeded(string(e.Proc), lrp.ProcDead{Proc: string(e.Proc)})
}

// Ended implements registry.Listener.
func (n news) Ended(e worker.Ended) {
	if !n.r.stops() {
		n.to.Ended(e)
	}
}

// StartsChanged implements registry.Listener.
func (n news) StartsChanged() { n.to.StartsChanged() }

// Audit implements registry.Listener.
func (n news) Audit(e worker.Audit) { n.to.Audit(e) }

// Deposed implements registry.Listener.
func (n news) Deposed(higher fence.Term) { n.to.Deposed(higher) }

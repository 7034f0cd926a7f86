package sim

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"cantina/action"
	"cantina/batch"
	"cantina/cell"
	"cantina/fence"
	"cantina/registry"
	"cantina/worker"
)

// newRegistry makes the registry of a term: the shell itself, whose machine and steps are
// watched.
func (r *reign) newRegistry(cfg worker.Config) error {
	s := r.s
	var err error
	r.reg, err = registry.New(registry.Config{Worker: cfg, Store: termStore{r}, Cells: calls{r}, Listener: listener{r}, Statuses: r.sched.Scheduler,
		Clock: s.kernel(), Log: slog.New(complaints{r}), Ground: registry.Ground{Park: r.threads.park, Within: within, Watch: r.watch,
			Go: func(f func()) { s.later(0, func() { r.threads.run(f) }) },
			Machine: func(c worker.Config) (*worker.Leader, error) {
				c.Mistakes = s.w.cfg.Mistakes
				l, err := worker.NewLeader(c)
				r.leader = l
				return l, err
			}}}, s.w.store.rowsOf(""))
	return err
}

// watch checks what the leader's machine promises of each step.
func (r *reign) watch(e worker.Event) func(worker.Output, error) {
	seen := r.before(e)
	return func(out worker.Output, err error) {
		if errors.Is(err, worker.ErrDeposed) {
			return // EndTerm waits for the commit before it
		}
		for _, f := range out.Effects {
			r.s.w.trace("  leader %v: %T%v", r.term, f, f)
		}
		r.contract(seen, e, out)
		if err != nil {
			r.s.w.fail("I10", "%T: %v", e, err)
		}
	}
}

// stops reports whether an effect is not made any more: the term is over, or the process
// dies right before it.
func (r *reign) stops() bool { return r.over || r.dies() }

// listener hears what follows from the sessions: it implements registry.Listener.
type listener struct{ r *reign }

// SessionChanged tells the board.
func (l listener) SessionChanged(e worker.SessionChanged) {
	r := l.r
	if r.stops() {
		return
	}
	if r.board != nil {
		r.board.sessionChanged(e)
	}
	r.market.admit(e.Cell)
}

// Availability and Eligible tell the auctioneer.
func (l listener) Availability(e worker.Availability) { l.r.admit(e.Cell) }

// Eligible tells the auctioneer.
func (l listener) Eligible(e worker.Eligible) { l.r.admit(e.Cell) }

// Dead tells the board.
func (l listener) Dead(e worker.Dead) {
	r := l.r
	if r.stops() {
		return
	}
	r.s.w.check.dead(r.s.w, r, e)
	if r.board != nil {
		r.board.died(e)
	}
	r.market.admit(e.Cell)
}

// Ended tells the scheduler.
func (l listener) Ended(e worker.Ended) {
	if !l.r.stops() {
		l.r.sched.Ended(e)
	}
}

// StartsChanged tells the scheduler and the timetable.
func (l listener) StartsChanged() {
	l.r.sched.StartsChanged()
	if l.r.times != nil {
		l.r.times.Changed()
	}
}

// Audit is for people.
func (listener) Audit(worker.Audit) {}

// Deposed ends the term.
func (l listener) Deposed(higher fence.Term) { l.r.end("a higher term was heard: " + higher.String()) }

func (r *reign) admit(cell worker.CellName) {
	if !r.stops() {
		r.market.admit(cell)
	}
}

// toProc calls one process; its reply comes back to this term, if that lasts.
func (r *reign) toProc(op Op, p worker.Proc, fn func(c *cell.Cell, reply func(Op, func()))) {
	w := r.s.w
	m := w.byProc[p]
	if m.deaf > w.now {
		w.res.Coverage.add(op, w)
		w.trace("  net: %v to %s: no connection", op, m.name)
		return
	}
	reply := func(op Op, take func()) {
		if m.doomed {
			return
		}
		w.send(op, w.machineNode(m.id), w.serverNode(r.s.id), func() {
			r.s.on(func() {
				if !r.over {
					take()
				}
			})
		})
	}
	w.send(op, w.serverNode(r.s.id), w.machineNode(m.id), func() { m.on(func() { fn(m.cell, reply) }) })
}

// callTimeout is how long a call waits for its answer.
const callTimeout = time.Second

// errNeverSent tells that a call has certainly not left.
var errNeverSent = errors.New("the cell cannot be reached")

// calls carries the registry's calls to cells: it implements registry.Cells.
type calls struct{ r *reign }

// ask makes one call and waits: deliver makes it at the cell and returns what takes its
// answer; nil = it gives none.
func (c calls) ask(op, answered Op, p worker.Proc, deliver func(*cell.Cell) (take func())) error {
	r := c.r
	if r.stops() {
		return errEnded
	}
	wake, wait := r.threads.park()
	over, heard := false, false
	r.toProc(op, p, func(to *cell.Cell, reply func(Op, func())) {
		if take := deliver(to); take != nil {
			reply(answered, func() {
				if !over {
					over, heard = true, true
					take()
					wake()
				}
			})
		}
	})
	r.s.later(callTimeout, func() {
		over = true
		wake()
	})
	if err := wait(context.Background()); err != nil {
		return err
	}
	if !heard {
		return errNoAnswer
	}
	return nil
}

// GetRunningTasks implements registry.Cells.
func (c calls) GetRunningTasks(ctx context.Context, _ worker.CellName, q worker.ReportRequest) (out worker.Report, err error) {
	err = c.ask(OpGetRunning, OpReport, q.Proc, func(to *cell.Cell) func() {
		got, err := to.GetRunningTasks(ctx, q)
		if err != nil {
			return nil
		}
		return func() { out = got }
	})
	return out, err
}

// RunTasks implements registry.Cells.
func (c calls) RunTasks(ctx context.Context, _ worker.CellName, tasks []worker.RunTask, payloads []*batch.Payload) (out []worker.RunAnswer, err error) {
	r, w, proc := c.r, c.r.s.w, tasks[0].Proc
	items := make([]cell.RunItem, len(tasks))
	op := OpProbe
	for i, t := range tasks {
		items[i].Call = t
		if x := payloads[i]; x != nil {
			op = OpRun
			load := *x.Workload
			if w.chance(500) {
				load.OnCellRestart = action.RestartKeep
			}
			items[i].Work = cell.WorkOf(x)
			items[i].Work.Workload = &load
		}
	}
	m := w.byProc[proc]
	if op == OpRun && (w.cut(w.serverNode(r.s.id), w.machineNode(m.id)) && w.chance(500) || !m.alive || m.deaf > w.now && w.chance(500)) {
		wake, wait := r.threads.park()
		r.s.later(time.Millisecond, wake)
		return nil, errors.Join(errNeverSent, wait(ctx))
	}
	answered := OpRunAnswer
	if op == OpProbe {
		answered = OpProbe
	}
	err = c.ask(op, answered, proc, func(to *cell.Cell) func() {
		got, err := to.RunTasks(ctx, items)
		if err != nil {
			return nil
		}
		return func() { out = got }
	})
	return out, err
}

// NotifyIfTasksNotRunning implements registry.Cells.
func (c calls) NotifyIfTasksNotRunning(ctx context.Context, _ worker.CellName, q worker.Notify) (out worker.NotifyAnswer, err error) {
	err = c.ask(OpNotify, OpNotifyAnswer, q.Proc, func(to *cell.Cell) func() {
		got, err := to.NotifyIfTasksNotRunning(ctx, q)
		if err != nil {
			return nil
		}
		return func() { out = got }
	})
	return out, err
}

// KillTask implements registry.Cells.
func (c calls) KillTask(ctx context.Context, _ worker.CellName, all []worker.KillTask) error {
	return c.ask(OpKill, OpKill, all[0].Proc, func(to *cell.Cell) func() {
		_, _ = to.KillTask(ctx, all)
		return func() {}
	})
}

// RequestSuicide implements registry.Cells.
func (c calls) RequestSuicide(ctx context.Context, _ worker.CellName, q worker.Suicide) error {
	return c.ask(OpSuicide, OpSuicide, q.Proc, func(to *cell.Cell) func() {
		_ = to.RequestSuicide(ctx, q)
		return func() {}
	})
}

// NeverSent implements registry.Cells.
func (calls) NeverSent(err error) bool {
	return errors.Is(err, errNeverSent) && !errors.Is(err, errEnded)
}

// heartbeat takes a heartbeat, if this server leads; its answer comes when what it rests
// on is durable.
func (s *server) heartbeat(b worker.Heartbeat, state cell.State, reply func(worker.HeartbeatAnswer)) {
	r := s.reign
	if r == nil {
		return
	}
	r.threads.run(func() {
		holds := false
		a, err := r.reg.Heartbeat(context.Background(), b, func() { holds = true })
		if err != nil || r.dead || r.dies() {
			return
		}
		reply(a)
		if r.over || a.Verdict != worker.Welcome || !holds {
			return
		}
		state.Process = string(b.Proc)
		r.market.offered(b.Cell, state)
		if r.board != nil {
			r.board.heard(b.Cell, state)
		}
	})
}

// status takes ends and answers to probes; one answer for each, not OK when it is not
// durable in time.
func (s *server) status(u worker.UpdateStatus, reply func([]worker.StatusAnswer)) {
	r := s.reign
	if r == nil {
		return
	}
	r.threads.run(func() {
		all, err := r.reg.UpdateStatus(context.Background(), u)
		if err != nil || r.dead || r.dies() {
			return
		}
		for _, a := range all {
			s.w.check.acknowledged(s.w, r, a)
		}
		reply(all)
	})
}

package sim

import (
	"context"
	"errors"
	"time"

	"cantina/action"
	"cantina/batch"
	"cantina/cell"
	"cantina/fence"
	"cantina/lrp"
	"cantina/task"
	"cantina/worker"
)

// errNeverSent means that a call certainly was not sent.
var errNeverSent = errors.New("no connection can be made")

// calls carries a leader's calls to cells: it implements leader.Cells.
type calls struct{ r *leadership }

// ask makes one call and waits: deliver makes it at the cell and returns the receiver of its
// response; nil = it gives none.
func (c calls) ask(limit time.Duration, op, answered Op, p worker.Proc, deliver func(*cell.Cell) (take func())) error {
	r := c.r
	if r.stops() {
		return errEnded
	}
	return r.threads.await(limit, r.s.later, func(answer func(take func())) {
		r.toProc(op, p, func(to *cell.Cell, reply func(Op, func())) {
			if !r.addresses(to, p) {
				return
			}
			if take := deliver(to); take != nil {
				reply(answered, func() { answer(take) })
			}
		})
	})
}

// send makes a call without waiting for a response.
func (c calls) send(op Op, p worker.Proc, deliver func(*cell.Cell)) error {
	if c.r.stops() {
		return errEnded
	}
	c.r.toProc(op, p, func(to *cell.Cell, _ func(Op, func())) {
		if c.r.addresses(to, p) {
			deliver(to)
		}
	})
	return nil
}

// cluster is the identity of the store of the world.
const cluster fence.Cluster = "world"

// addresses names the identity of the store, as every call of a leader does before a cell reads
// the rest of it.
func (r *leadership) addresses(to *cell.Cell, p worker.Proc) bool {
	err := to.Addressed(cluster, p)
	if errors.Is(err, cell.ErrForeign) {
		r.s.w.fail("contract", "a cell refuses its own cluster: %v", err)
	}
	return err == nil
}

// unreachable makes a call fail before it is sent, if there is no listener, or sometimes if the
// link is cut.
func (c calls) unreachable(ctx context.Context, op Op, m *machine, cutOff bool) error {
	w := c.r.s.w
	if cut := w.net.cut(w.net.serverNode(c.r.s.id), w.net.machineNode(m.id)) && w.chance(500); !cut && m.alive && !cutOff {
		return nil
	}
	w.res.Coverage.add(op, w)
	wake, wait := c.r.threads.park()
	c.r.s.later(time.Millisecond, wake)
	return errors.Join(errNeverSent, wait(ctx))
}

// GetRunningTasks implements registry.Cells.
func (c calls) GetRunningTasks(ctx context.Context, _ worker.CellName, q worker.ReportRequest) (out worker.Report,
	err error) {
	err = c.ask(callTimeout, OpGetRunning, OpReport, q.Proc, func(to *cell.Cell) func() {
		got, err := to.GetRunningTasks(ctx, q)
		if err != nil {
			return nil
		}
		return func() { out = got }
	})
	return out, err
}

// RunTasks implements registry.Cells.
func (c calls) RunTasks(ctx context.Context, _ worker.CellName, tasks []worker.RunTask,
	payloads []*batch.Payload) (out []worker.RunAnswer, err error) {
	w, m := c.r.s.w, c.r.s.w.byProc[tasks[0].Proc]
	items := cell.RunItems(tasks, payloads)
	op, answered := OpProbe, OpProbe
	for i := range items {
		if x := items[i].Work; x != nil {
			op, answered = OpRun, OpRunAnswer
			load := *x.Workload
			if w.chance(500) {
				load.OnCellRestart = action.RestartKeep
			}
			x.Workload = &load
		}
	}
	if op == OpRun {
		if err := c.unreachable(ctx, op, m, m.cutOff > w.now && w.chance(500)); err != nil {
			return nil, err
		}
	}
	err = c.ask(callTimeout, op, answered, tasks[0].Proc, func(to *cell.Cell) func() {
		got, err := to.RunTasks(ctx, items)
		if err != nil {
			return nil
		}
		return func() { out = got }
	})
	return out, err
}

// NotifyIfTasksNotRunning implements registry.Cells.
func (c calls) NotifyIfTasksNotRunning(ctx context.Context, _ worker.CellName,
	q worker.Notify) (out worker.NotifyAnswer, err error) {
	err = c.ask(callTimeout, OpNotify, OpNotifyAnswer, q.Proc, func(to *cell.Cell) func() {
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
	return c.ask(callTimeout, OpKill, OpKill, all[0].Proc, func(to *cell.Cell) func() {
		_, _ = to.KillTask(ctx, all)
		return func() {}
	})
}

// RequestSuicide implements registry.Cells.
func (c calls) RequestSuicide(ctx context.Context, _ worker.CellName, q worker.Suicide) error {
	return c.ask(callTimeout, OpSuicide, OpSuicide, q.Proc, func(to *cell.Cell) func() {
		_ = to.RequestSuicide(ctx, q)
		return func() {}
	})
}

// Perform implements leader.Performer.
func (c calls) Perform(ctx context.Context, _ worker.CellName, work cell.Work) (out []cell.Refusal, err error) {
	w, m := c.r.s.w, c.r.s.w.byProc[work.Proc]
	ctx, cancel := within(ctx, performTimeout)
	defer cancel()
	if err := c.unreachable(ctx, OpPerform, m, m.cutOff > w.now); err != nil {
		return nil, err
	}
	err = c.ask(limitOf(ctx), OpPerform, OpPerformAnswer, work.Proc, func(to *cell.Cell) func() {
		got, err := to.Perform(ctx, work)
		if err != nil {
			return nil
		}
		return func() { out = got }
	})
	return out, err
}

// StopWork implements leader.Cells.
func (c calls) StopWork(ctx context.Context, _ worker.CellName, term fence.Term, proc worker.Proc, w cell.Stops) error {
	return c.send(OpStop, proc, func(to *cell.Cell) { _ = to.StopWork(ctx, term, proc, w) })
}

// Drain implements leader.Cells.
func (c calls) Drain(ctx context.Context, _ worker.CellName, term fence.Term, proc worker.Proc, e cell.Drain) error {
	return c.send(OpDrain, proc, func(to *cell.Cell) {
		if to.Drain(ctx, term, proc, e) == nil {
			c.r.s.w.byProc[proc].drains(term, e)
		}
	})
}

// SetAddress does nothing: calls find a process by its name.
func (calls) SetAddress(worker.CellName, string) {}

// NeverSent implements registry.Cells and leader.Performer.
func (calls) NeverSent(err error) bool {
	return errors.Is(err, errNeverSent) && !errors.Is(err, errEnded)
}

// lrpOp and taskOp are the kinds of message of the events that cells send.
func lrpOp(e lrp.Event) Op {
	switch e.(type) {
	case lrp.Claim:
		return OpClaim
	case lrp.Start:
		return OpStart
	case lrp.Crash:
		return OpCrash
	case lrp.Remove:
		return OpRemove
	}
	return OpCellDrain
}

func taskOp(e task.Event) Op {
	if _, ok := e.(task.Start); ok {
		return OpStartTask
	}
	return OpCompleteTask
}

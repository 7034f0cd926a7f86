package sim

import (
	"context"
	"errors"
	"slices"

	"cantina/fence"
	"cantina/lrp"
	"cantina/task"
	"cantina/wire"
	"cantina/worker"
)

// caller is the cell process that makes a call.
type caller struct {
	cell worker.CellName
	proc worker.Proc
	term fence.Term
}

// request is one call of a cell's harmoniser: of rows, or one event of an index or a task.
type request struct {
	id    int
	rep   *rep
	from  caller
	op    Op
	query *query
	key   lrp.Key
	event lrp.Event
	guid  string
	task  task.Event
}

// query asks for the rows of keys and, unless only is set, all that name the cell.
type query struct {
	only  bool
	lrps  []lrp.Key
	tasks []string
}

// answer answers a request. An err is the machine's; unknown means that nothing is known.
type answer struct {
	err     error
	unknown bool
	lrps    []lrp.Index
	tasks   []*task.Task
}

// asked takes a harmoniser's call, if this server leads.
func (s *server) asked(q *request) {
	if r := s.reign; r != nil && r.board != nil {
		r.board.take(q)
	}
}

// known reports whether the caller is the process that holds its cell's name.
func (b *board) known(from caller) bool {
	r := b.r
	if r.term.Less(from.term) {
		r.step(worker.TermHeard{Term: from.term})
		return false
	}
	v, ok := r.leader.Session(r.s.local(), from.cell)
	return ok && v.Proc == from.proc && v.Reported
}

func (b *board) take(q *request) {
	switch {
	case !b.known(q.from), q.query != nil && !b.r.leaseHeld():
		b.answer(q, answer{unknown: true})
	case q.query != nil:
		b.answer(q, b.rows(string(q.from.cell), q.query))
	default:
		b.r.threads.run(func() { b.event(q) })
	}
}

// event gives one event to the board, and waits for what it says.
func (b *board) event(q *request) {
	var answers []error
	var err error
	if q.guid != "" {
		answers, err = b.TaskEvents(context.Background(), []wire.TaskCall{{GUID: q.guid, Event: q.task}})
	} else {
		answers, err = b.LRPEvents(context.Background(), []wire.LRPCall{{Key: q.key, Event: q.event}})
	}
	switch {
	case b.r.dead:
	case err != nil:
		b.answer(q, answer{unknown: true})
	default:
		a := answer{err: answers[0]}
		b.r.s.w.check.answered(b.r, q, a)
		b.answer(q, a)
	}
}

func (b *board) answer(q *request, a answer) {
	w := b.r.s.w
	op := OpLRPAnswer
	switch {
	case q.query != nil:
		op = OpRowsAnswer
	case q.guid != "":
		op = OpTaskAnswer
	}
	w.send(op, w.serverNode(b.r.s.id), w.machineNode(q.rep.m.id), func() { q.rep.m.on(func() { q.rep.answered(q.id, a) }) })
}

// rows reads committed rows.
func (b *board) rows(cell string, q *query) answer {
	r := b.Rows(cell, q.lrps, q.tasks, q.only)
	return answer{lrps: r.LRPs, tasks: r.Tasks}
}

// sessionChanged tells the board what became of a session.
func (b *board) sessionChanged(e worker.SessionChanged) {
	b.SessionChanged(e)
	name, proc := string(e.Cell), string(e.Proc)
	switch {
	case e.To == worker.Healthy:
		b.heeded(proc, lrp.CellHealthy{Cell: name, Proc: proc})
	case e.To == worker.Unhealthy && e.From == worker.Healthy && e.WasHealthy:
		b.heeded(proc, lrp.CellUnhealthy{Cell: name, Proc: proc})
	case e.To == worker.MustDie && !e.Succeeded:
		b.heeded(proc, lrp.CellMustDie{Cell: name, Proc: proc})
	}
	b.admit(e.Cell)
}

// died tells the board that a process is certainly dead.
func (b *board) died(e worker.Dead) {
	h, _ := b.r.leader.MayReceive(e.Cell)
	b.Dead(e, h.Proc)
	b.heeded(string(e.Proc), lrp.ProcDead{Proc: string(e.Proc)})
	b.admit(e.Cell)
}

// heeded: what an event of a session promises holds right after it.
func (b *board) heeded(proc string, e lrp.Event) {
	w := b.r.s.w
	if b.r.over {
		return
	}
	all := b.r.work()
	for _, x := range all.indices {
		k := x.Key
		if !slices.ContainsFunc(x.Rows(), func(a *lrp.Actual) bool { return a.Proc == proc }) {
			continue
		}
		switch e.(type) {
		case lrp.CellHealthy:
			if x.Suspect.OnProc(proc) {
				w.fail("contract", "%s is HEALTHY and %v is suspect on it", proc, k)
			}
		case lrp.CellUnhealthy:
			if o := x.Ordinary; o.OnProc(proc) && !o.Exclusive && !o.Retiring && all.wants(k) {
				w.fail("contract", "%s is UNHEALTHY and %v is still on it: %s", proc, k, describe(x))
			}
		case lrp.CellMustDie:
			if o := x.Ordinary; !o.OnProc(proc) || !o.Exclusive {
				w.fail("contract", "%s was given up and %v is still on it: %s", proc, k, describe(x))
			}
		case lrp.ProcDead:
			w.fail("contract", "%s is dead and %v is still on it: %s", proc, k, describe(x))
		}
	}
}

// toCell calls one process: it takes the term first, and refuses when it is
// another process or has seen a higher term.
func (b *board) toCell(op Op, proc worker.Proc, fn func(p *rep)) {
	r := b.r
	w := r.s.w
	m := w.byProc[proc]
	if m == nil {
		return
	}
	if m.deaf > w.now {
		w.res.Coverage.add(op, w)
		return
	}
	w.send(op, w.serverNode(r.s.id), w.machineNode(m.id), func() {
		m.on(func() {
			if m.heard(r.term, proc) {
				fn(m.rep)
			}
		})
	})
}

// heard checks a call that is not the worker protocol's own.
func (m *machine) heard(t fence.Term, proc worker.Proc) bool {
	m.step(worker.CallHeard{Term: t})
	return m.alive && m.rep != nil && m.proc() == proc && !t.Less(m.agent.Term())
}

// refused reports whether the leader refused a call for good.
func refused(err error) bool {
	for _, no := range []error{lrp.ErrNotFound, lrp.ErrCannotBeClaimed, lrp.ErrCannotBeStarted, lrp.ErrCannotBeCrashed, lrp.ErrCannotBeFailed,
		lrp.ErrCannotBeRemoved, lrp.ErrCannotBeEvacuated, task.ErrNotFound, task.ErrInvalidStateTransition, task.ErrRunningOnDifferentCell, task.ErrOtherUID} {
		if errors.Is(err, no) {
			return true
		}
	}
	return false
}

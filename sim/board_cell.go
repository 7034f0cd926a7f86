package sim

import (
	"context"
	"slices"

	"cantina/cell"
	"cantina/fence"
	"cantina/lrp"
	"cantina/worker"
)

// caller is the cell process that makes a call.
type caller struct {
	cell worker.CellName
	proc worker.Proc
	term fence.Term
}

// request is one call of a cell's harmoniser: of rows, or events of indices or tasks.
type request struct {
	from    caller
	query   *query
	events  []cell.LRPEvent
	changes []cell.TaskEvent
	reply   func(answer)
}

// query asks for the rows of keys and, unless only is set, all that name the cell.
type query struct {
	only  bool
	lrps  []lrp.Key
	tasks []string
}

// answer answers a request. The errs are the machine's; unknown means that nothing is known.
type answer struct {
	errs    []error
	unknown bool
	rows    cell.Rows
}

// asked takes a harmoniser's call, if this server leads.
func (s *server) asked(q *request) {
	switch r := s.reign; {
	case r == nil:
	case r.board == nil:
		q.reply(answer{}) // there are no rows
	default:
		r.board.take(q)
	}
}

// known reports whether the caller is the process that holds its cell's name, and knows
// the term.
func (b *board) known(from caller) bool {
	r := b.r
	switch {
	case r.term.Less(from.term):
		r.reg.Heard(worker.TermHeard{Term: from.term})
		return false
	case from.term.Less(r.term):
		return false
	}
	v, ok := r.reg.Session(from.cell)
	return ok && v.Proc == from.proc && v.Reported
}

func (b *board) take(q *request) {
	switch {
	case !b.known(q.from), q.query != nil && !b.r.leaseHeld():
		q.reply(answer{unknown: true})
	case q.query != nil:
		q.reply(b.rows(string(q.from.cell), q.query))
	default:
		b.r.threads.run(func() { b.events(q) })
	}
}

// events gives events to the board, and waits for what it says.
func (b *board) events(q *request) {
	var a answer
	var err error
	if len(q.changes) > 0 {
		a.errs, err = b.TaskEvents(context.Background(), q.changes)
	} else {
		a.errs, err = b.LRPEvents(context.Background(), q.events)
	}
	switch {
	case b.r.dead:
	case err != nil:
		q.reply(answer{unknown: true})
	default:
		for i, e := range q.changes {
			b.r.s.w.check.answered(b.r, e.GUID, e.Event, a.errs[i])
		}
		q.reply(a)
	}
}

// rows reads committed rows.
func (b *board) rows(name string, q *query) answer {
	r := b.Rows(name, q.lrps, q.tasks, q.only)
	return answer{rows: cell.Rows{LRPs: r.LRPs, Tasks: r.Tasks, QuarantinedLRPs: r.QuarantinedLRPs, QuarantinedTasks: r.QuarantinedTasks}}
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
}

// died tells the board that a process is certainly dead.
func (b *board) died(e worker.Dead) {
	holder, _ := b.r.reg.Receives(e.Cell)
	b.Dead(e, holder)
	b.heeded(string(e.Proc), lrp.ProcDead{Proc: string(e.Proc)})
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
		if !slices.ContainsFunc(x.Rows(), func(a *lrp.Actual) bool { return a.Proc == proc }) || b.r.frozen(x) {
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

// toCell calls one process.
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
			fn(&rep{m, r.term, proc})
		})
	})
}

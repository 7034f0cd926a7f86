package sim

import (
	"slices"

	"cantina/cell"
	"cantina/fence"
	"cantina/lrp"
	"cantina/task"
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
	lrps    []lrp.Index
	tasks   []*task.Task
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
		q.reply(answer{unknown: true})
	case q.query != nil:
		q.reply(b.rows(string(q.from.cell), q.query))
	default:
		var a answer
		b.change(func(t *tx) {
			for _, e := range q.events {
				a.errs = append(a.errs, t.step(e.Key, e.Event))
			}
			for _, e := range q.changes {
				a.errs = append(a.errs, t.stepTask(e.GUID, e.Event))
			}
		}, func() {
			for i, e := range q.changes {
				b.r.s.w.check.answered(b.r, e.GUID, e.Event, a.errs[i])
			}
			q.reply(a)
		})
	}
}

// rows reads committed rows.
func (b *board) rows(cell string, q *query) answer {
	var a answer
	for k, x := range b.shown.indices {
		here := slices.ContainsFunc(x.Rows(), func(r *lrp.Actual) bool { return r.Cell == cell })
		if here && !q.only || slices.Contains(q.lrps, k) {
			a.lrps = append(a.lrps, x)
		}
	}
	for g, t := range b.shown.tasks {
		if t.Holder.Cell == cell && !q.only || slices.Contains(q.tasks, g) {
			a.tasks = append(a.tasks, t)
		}
	}
	slices.SortFunc(a.lrps, func(x, y lrp.Index) int { return x.Key.Compare(y.Key) })
	slices.SortFunc(a.tasks, func(x, y *task.Task) int { return compareText(x.GUID, y.GUID) })
	return a
}

// sessionChanged maps what became of a session to events of the rows on it.
func (b *board) sessionChanged(e worker.SessionChanged) {
	name, proc := string(e.Cell), string(e.Proc)
	switch {
	case e.To == worker.Healthy:
		b.services.Heard(proc, b.now())
		b.tasks.Heard(proc)
		b.session(proc, lrp.CellHealthy{Cell: name, Proc: proc})
	case e.To == worker.Unhealthy && e.From == worker.Healthy && e.WasHealthy:
		b.session(proc, lrp.CellUnhealthy{Cell: name, Proc: proc})
	case e.To == worker.MustDie:
		b.mustDie(name, proc, e.Succeeded)
	}
	b.admit(e.Cell)
}

func (b *board) session(proc string, e lrp.Event) {
	b.change(func(t *tx) {
		for _, k := range b.services.OnProc(proc) {
			t.try(k, e)
		}
		b.heeded(proc, e)
	}, nil)
}

// mustDie takes the rows off a process that is given up; those of kept work wait
// for the report of one that has succeeded it.
func (b *board) mustDie(cell, proc string, succeeded bool) {
	b.change(func(t *tx) {
		t.leave(cell, proc, succeeded)
		if succeeded {
			b.waiting[cell] = append(b.waiting[cell], proc)
			return
		}
		for _, p := range b.waiting[cell] {
			t.leave(cell, p, false)
		}
		delete(b.waiting, cell)
		b.heeded(proc, lrp.CellMustDie{Cell: cell, Proc: proc})
	}, nil)
}

func (t *tx) leave(cell, proc string, kept bool) {
	for _, k := range t.b.services.OnProc(proc) {
		if d := t.b.services.Env(k, t.now).Desired; kept && d != nil && d.Workload.OnCellRestart.Survives() {
			continue
		}
		t.try(k, lrp.CellMustDie{Cell: cell, Proc: proc})
	}
}

// dead tells that a process is certainly dead.
func (b *board) dead(e worker.Dead) {
	successor := ""
	if e.Proof == worker.ProofSuccessor || e.Proof == worker.ProofBoot {
		if h, _ := b.r.leader.MayReceive(e.Cell); h.Proc != e.Proc {
			successor = string(h.Proc)
		}
	}
	cell, proc := string(e.Cell), string(e.Proc)
	b.change(func(t *tx) {
		if successor != "" {
			t.inherit(cell, proc, successor)
		}
		for _, k := range b.services.OnProc(proc) {
			t.try(k, lrp.ProcDead{Proc: proc})
		}
		for _, g := range b.tasks.OnProc(proc) {
			t.tryTask(g, task.ProcDead{Proc: proc})
		}
		b.waiting[cell] = slices.DeleteFunc(b.waiting[cell], func(p string) bool { return p == proc })
		b.services.ProcDied(proc)
		b.tasks.ProcDied(proc)
		b.heeded(proc, lrp.ProcDead{Proc: proc})
	}, nil)
	b.admit(e.Cell)
}

// inherit moves the rows of work that its cell keeps over a restart.
func (t *tx) inherit(cell, proc, successor string) {
	b := t.b
	for _, k := range b.services.OnProc(proc) {
		if d := b.services.Env(k, t.now).Desired; d != nil && d.Workload.OnCellRestart.Survives() {
			t.try(k, lrp.ProcMoved{Cell: cell, From: proc, To: successor})
		}
	}
	for _, g := range b.tasks.OnProc(proc) {
		if row := b.tasks.Get(g); row.Definition.Workload.OnCellRestart.Survives() {
			t.tryTask(g, task.Adopt{UID: row.UID, From: proc, By: task.Holder{Cell: cell, Proc: successor}})
		}
	}
}

// heeded: what an event of a session promises holds right after it.
func (b *board) heeded(proc string, e lrp.Event) {
	w := b.r.s.w
	for _, k := range b.services.OnProc(proc) {
		x := b.services.Index(k)
		switch e.(type) {
		case lrp.CellHealthy:
			if x.Suspect.OnProc(proc) {
				w.fail("contract", "%s is HEALTHY and %v is suspect on it", proc, k)
			}
		case lrp.CellUnhealthy:
			if o := x.Ordinary; o.OnProc(proc) && !o.Exclusive && !o.Retiring && b.services.Env(k, b.now()).Wanted {
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

// stopInstance and cancelTask call the cell; a lost call is found by its poll.
func (b *board) stopInstance(e lrp.StopInstance) {
	b.toCell(OpStop, worker.Proc(e.Who.Proc), func(p *rep) { p.stopInstance(e.Key, e.Who.Instance) })
}

func (b *board) cancelTask(e task.CancelContainer) {
	b.toCell(OpCancel, worker.Proc(e.Holder.Proc), func(p *rep) { p.cancelTask(e.UID) })
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

package worker

import (
	"maps"
	"slices"

	"cantina/fence"
)

// ownLeader and ownCell give a node its own copy of the machine that it is about to change.
func (n *node) ownLeader() *Leader {
	if !n.own.leader {
		n.leader, n.own.leader = cloneLeader(n.leader), true
	}
	n.leader.cfg.Statuses = n
	return n.leader
}

func (n *node) ownCell(i int) *Cell {
	if !n.own.cells[i] {
		n.cells[i], n.own.cells[i] = cloneCell(n.cells[i]), true
	}
	return n.cells[i]
}

// twins maps the objects that a leader points to, to the copies.
type twins struct {
	oldProcs, newProcs []*process
	entries            map[*entry]*entry
}

func (t *twins) process(p *process) *process {
	if p == nil {
		return nil
	}
	if i := slices.Index(t.oldProcs, p); i >= 0 {
		return t.newProcs[i]
	}
	c := *p
	t.oldProcs, t.newProcs = append(t.oldProcs, p), append(t.newProcs, &c)
	c.unsure.runs = slices.Clone(p.unsure.runs)
	c.unsure.asked = maps.Clone(p.unsure.asked) // the lists in it never change
	c.open = slices.Clone(p.open)
	c.probe.open = slices.Clone(p.probe.open)
	c.work = make(map[fence.Invocation]*entry, len(p.work))
	for k, e := range p.work {
		c.work[k] = t.entry(e)
	}
	return &c
}

func (t *twins) processes(ps []*process) []*process {
	c := make([]*process, len(ps))
	for i, p := range ps {
		c[i] = t.process(p)
	}
	return c
}

func (t *twins) entry(e *entry) *entry {
	c := t.entries[e]
	if c == nil {
		copied := *e
		copied.acks = slices.Clone(e.acks)
		c = &copied
		t.entries[e] = c
		c.on = t.process(e.on)
	}
	return c
}

func twinMap[K comparable](t *twins, m map[K]*process) map[K]*process {
	c := make(map[K]*process, len(m))
	for k, p := range m {
		c[k] = t.process(p)
	}
	return c
}

// cloneLeader copies a leader between two steps. The configuration and the sets that
// never change after the start of the term are shared.
func cloneLeader(l *Leader) *Leader {
	t := &twins{entries: make(map[*entry]*entry, len(l.batch.model.byRun))}
	tm, r, m, s, b, w := *l.term, *l.roster, *l.members, *l.sessions, *l.batch, *l.waiting
	r.term = &tm
	m.roster, s.roster = &r, &r
	b.roster, b.members, b.sessions = &r, &m, &s
	w.roster, w.members, w.sessions, w.batch = &r, &m, &s, &b
	c := &Leader{roster: &r, members: &m, sessions: &s, batch: &b, waiting: &w}
	c.rows, c.effects = slices.Clone(l.rows), slices.Clone(l.effects)
	c.order = t.processes(l.order)
	c.members.deaths = t.processes(l.members.deaths)
	c.members.writes = slices.Clone(l.members.writes)
	for i := range c.members.writes {
		c.members.writes[i].proc = t.process(c.members.writes[i].proc)
	}
	c.procs, c.holders, c.silent = twinMap(t, l.procs), twinMap(t, l.holders), twinMap(t, l.silent)
	c.dirs = make(map[string][]*process, len(l.dirs))
	for k, ps := range l.dirs {
		c.dirs[k] = t.processes(ps)
	}
	c.gone, c.goneList, c.adopting = maps.Clone(l.gone), slices.Clone(l.goneList), maps.Clone(l.adopting)
	c.batch.model = model{make(map[fence.Invocation]*entry, len(l.batch.model.byRun)),
		make(map[Work][]*entry, len(l.batch.model.byWork)), make(map[Run][]Proc)}
	for k, e := range l.batch.model.byRun {
		c.batch.model.byRun[k] = t.entry(e)
	}
	for k, es := range l.batch.model.byWork {
		for _, e := range es {
			c.batch.model.byWork[k] = append(c.batch.model.byWork[k], t.entry(e))
		}
	}
	for k, ps := range l.batch.model.late {
		c.batch.model.late[k] = slices.Clone(ps)
	}
	return c
}

// cloneCell copies a cell between two steps.
func cloneCell(k *Cell) *Cell {
	c := *k
	c.seen, c.outbox.notes, c.effects = maps.Clone(k.seen), slices.Clone(k.outbox.notes), slices.Clone(k.effects)
	c.beats.sent = slices.Clone(k.beats.sent)
	c.work.held = make(map[fence.Invocation]*held, len(k.work.held))
	c.work.byWork = make(map[Work]*held, len(k.work.byWork))
	c.work.unacked = make(map[fence.Invocation]*held, len(k.work.unacked))
	for inv, h := range k.work.held {
		copied := *h
		c.work.held[inv] = &copied
		if k.work.byWork[h.run.Work] == h {
			c.work.byWork[h.run.Work] = &copied
		}
		if k.work.unacked[inv] == h {
			c.work.unacked[inv] = &copied
		}
	}
	return &c
}

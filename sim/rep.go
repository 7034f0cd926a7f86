package sim

import (
	"slices"
	"time"

	"cantina/lrp"
	"cantina/task"
	"cantina/worker"
)

// rep is the harmoniser of one agent: it brings containers and rows together by
// the tables, on events and by polling. It is the shell around lrp.Harmonise and
// task.Harmonise: rows first, containers second, a live container is deleted only
// after a fresh look.
type rep struct {
	m       *machine
	busy    map[string]bool // containers and rows that are being looked at
	waiting map[string]func(done func())
	calls   map[int]func(answer)
	last    int
	lrps    map[lrp.Key]knownIndex
	tasks   map[string]knownTask
	moment  int // grows with every own call
	due     time.Duration
	polling bool
	again   bool
	evac    evacuation
	version int64
	sent    cellState
}

// knownIndex and knownTask are rows as they were last seen, or as an own call left them.
type knownIndex struct {
	index lrp.Index
	at    int
}

type knownTask struct {
	row *task.Task
	at  int
}

func newRep(m *machine) *rep {
	return &rep{m: m, busy: map[string]bool{}, waiting: map[string]func(func()){}, calls: map[int]func(answer){},
		lrps: map[lrp.Key]knownIndex{}, tasks: map[string]knownTask{}}
}

// The pauses of a harmoniser.
const (
	pollEvery = 5 * time.Second
	evacEvery = 2 * time.Second
	retryPoll = time.Second
)

// push runs fn when nothing of the key runs; the newest that waits replaces the others.
func (p *rep) push(key string, fn func(done func())) {
	if p.busy[key] {
		p.waiting[key] = fn
		return
	}
	p.busy[key] = true
	fn(func() {
		delete(p.busy, key)
		if next := p.waiting[key]; next != nil {
			delete(p.waiting, key)
			p.push(key, next)
		}
	})
}

// call sends one call and hands its answer, or that there was none, to fn.
func (p *rep) call(q *request, fn func(answer)) {
	m := p.m
	p.last++
	q.id, q.rep, q.from = p.last, p, caller{m.name, m.proc(), m.agent.Term()}
	p.calls[q.id] = fn
	s := m.w.servers[m.server]
	m.w.send(q.op, m.w.machineNode(m.id), m.w.serverNode(s.id), func() { s.on(func() { s.asked(q) }) })
	id := q.id
	m.later(callTimeout, func() { p.answered(id, answer{unknown: true}) })
}

func (p *rep) answered(id int, a answer) {
	fn := p.calls[id]
	if fn == nil || p.m.rep != p {
		return
	}
	delete(p.calls, id)
	fn(a)
}

// pollIn has the next poll come within d.
func (p *rep) pollIn(d time.Duration) {
	at := p.m.w.now + d
	if p.due > p.m.w.now && p.due <= at {
		return
	}
	p.due = at
	p.m.later(d, func() {
		if p.m.rep == p && p.due == at {
			p.due = 0
			p.poll()
		}
	})
}

func (p *rep) pollNow() {
	if p.polling {
		p.again = true
		return
	}
	p.pollIn(time.Millisecond)
}

// poll reads the rows first and the containers second, and looks at each of both.
func (p *rep) poll() {
	if p.polling {
		p.again = true
		return
	}
	p.endEvacuation()
	if s := p.m.agent.State(); s == worker.New || s == worker.MustDie {
		p.pollIn(retryPoll)
		return
	}
	p.polling = true
	q := p.everything()
	p.read(q, func(a answer, ok bool) {
		p.polling = false
		switch {
		case !ok:
			p.pollIn(retryPoll)
		case p.again:
			p.pollIn(time.Millisecond)
		default:
			p.pollIn(p.pollWait())
		}
		p.again = false
		if !ok {
			return
		}
		for _, u := range slices.Clone(p.m.units) {
			if !u.orphan {
				p.look(u)
			}
		}
		for _, x := range a.lrps {
			p.push("row "+x.Key.String(), func(done func()) { p.residual(x, done) })
		}
		for _, t := range a.tasks {
			p.push("row "+t.GUID, func(done func()) { p.residualTask(t, done) })
		}
		p.m.counted()
	})
}

func (p *rep) everything() query {
	var q query
	for _, u := range p.m.units {
		switch {
		case u.orphan:
		case u.uid != "":
			q.tasks = append(q.tasks, u.guid)
		default:
			q.lrps = append(q.lrps, u.key)
		}
	}
	return q
}

// read asks for rows and remembers them; what an own call has changed meanwhile stays.
func (p *rep) read(q query, fn func(a answer, ok bool)) {
	since := p.moment
	p.call(&request{op: OpRows, query: &q}, func(a answer) {
		if a.unknown {
			fn(a, false)
			return
		}
		lrps, tasks := map[lrp.Key]lrp.Index{}, map[string]*task.Task{}
		for _, k := range q.lrps {
			lrps[k] = lrp.Index{Key: k}
		}
		for _, g := range q.tasks {
			tasks[g] = nil
		}
		for _, x := range a.lrps {
			lrps[x.Key] = x
		}
		for _, t := range a.tasks {
			tasks[t.GUID] = t
		}
		p.remember(since, q.only, lrps, tasks)
		fn(a, true)
	})
}

func (p *rep) remember(since int, only bool, lrps map[lrp.Key]lrp.Index, tasks map[string]*task.Task) {
	for k, v := range p.lrps {
		if _, ok := lrps[k]; !ok && !only && v.at <= since {
			delete(p.lrps, k)
		}
	}
	for g, v := range p.tasks {
		if _, ok := tasks[g]; !ok && !only && v.at <= since {
			delete(p.tasks, g)
		}
	}
	for k, x := range lrps {
		if p.lrps[k].at <= since {
			p.lrps[k] = knownIndex{x, since}
		}
	}
	for g, t := range tasks {
		if p.tasks[g].at <= since {
			p.tasks[g] = knownTask{t, since}
		}
	}
}

// setOrdinary notes what an own call left as the ordinary row, setTask as a task's.
func (p *rep) setOrdinary(k lrp.Key, row *lrp.Actual) {
	p.moment++
	v := p.lrps[k]
	v.index.Key, v.index.Ordinary, v.at = k, row, p.moment
	p.lrps[k] = v
}

func (p *rep) setTask(guid string, row *task.Task) {
	p.moment++
	p.tasks[guid] = knownTask{row, p.moment}
}

func (p *rep) forget(k lrp.Key) {
	p.moment++
	delete(p.lrps, k)
}

func (p *rep) forgetTask(guid string) {
	p.moment++
	delete(p.tasks, guid)
}

// perform reserves containers and returns what was refused and why.
func (p *rep) perform(all []work) []noPlace {
	m := p.m
	var out []noPlace
	why := ""
	if p.evac.on {
		why = "the cell is being drained"
	} else if err := m.agent.Accepts(m.local()); err != nil {
		why = err.Error()
	}
	for _, x := range all {
		reason, full := why, why != "" // what a cell refuses as a whole is placed elsewhere at once
		if reason == "" {
			reason, full = p.reserve(x)
		}
		if reason != "" {
			out = append(out, noPlace{x.hold, reason, full})
		}
	}
	m.counted()
	return out
}

func (p *rep) reserve(x work) (reason string, full bool) {
	u := &unit{id: x.hold}
	if l := x.lrp; l != nil {
		d := l.desired
		u.key, u.service, u.exclusive, u.bound, u.keep, u.need = l.key, d.Service, d.Exclusive, d.DeadlineBound(), d.Workload.OnCellRestart.Survives(), need(d.Workload.Resources)
	} else {
		d := x.task.definition
		u.id, u.guid, u.uid, u.bound, u.keep, u.need = "t-"+x.task.uid, x.task.guid, x.task.uid, d.DeadlineBound(), d.Workload.OnCellRestart.Survives(), need(d.Workload.Resources)
	}
	had := p.m.unit(u.id) != nil
	if reason, full = p.m.reserveUnit(u); reason != "" || had {
		return reason, full
	}
	if u.uid != "" {
		p.setTask(u.guid, &task.Task{GUID: u.guid, UID: u.uid, State: task.Pending})
	} else {
		p.setOrdinary(u.key, &lrp.Actual{Key: u.key, Service: u.service, State: lrp.Unclaimed})
	}
	p.look(u)
	return "", false
}

// stopInstance stops an instance; one that is not here has its row looked at.
func (p *rep) stopInstance(k lrp.Key, instance string) {
	if u := p.m.unit(instance); u != nil && u.key == k {
		p.m.stopUnit(u, p.m.grace())
		return
	}
	p.pollNow()
}

func (p *rep) cancelTask(uid string) {
	if u := p.m.unit("t-" + uid); u != nil {
		p.m.stopUnit(u, p.m.grace())
		return
	}
	p.pollNow()
}

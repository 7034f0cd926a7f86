package sim

import (
	"slices"
	"time"

	"cantina/schedule"
	"cantina/task"
	"cantina/worker"
)

// The cells as far as tasks of schedules concern them: they ask for pending ones, run
// them, and compare their containers with the rows now and then. Work is
// deadline-bound: it ends with the session of its process, at the latest at the
// deadline.

// sweep ends the containers whose process, machine or deadline is gone.
func (p *plans) sweep() {
	p.w.after(100*time.Millisecond, p.sweep)
	p.ended()
}

func (p *plans) ended() {
	for _, guid := range p.guids() {
		b := p.boxes[guid]
		m := b.m
		if b.alive && (!m.up || !m.alive || m.proc() != b.proc || m.deadline != 0 && m.local() >= m.deadline) {
			p.end(b, "with its cell")
		}
	}
}

func (p *plans) guids() []string {
	var out []string
	for guid, b := range p.boxes {
		if b.alive {
			out = append(out, guid)
		}
	}
	slices.Sort(out)
	return out
}

func (p *plans) end(b *box, why string) {
	b.alive = false
	p.w.trace("%s: %s ends, %s", b.m.name, b.guid, why)
}

// begin starts the container of a task that was just granted, on the cell that asked.
func (p *plans) begin(guid string) {
	x, ok := p.w.store.rows[taskKey{guid}].(firedRow)
	if !ok || x.State != task.Running || p.boxes[guid] != nil && !p.boxes[guid].unknown {
		return
	}
	m := p.w.byProc[worker.Proc(x.Holder.Proc)]
	if m == nil || !m.up || !m.alive || m.paused > p.w.now || m.proc() != worker.Proc(x.Holder.Proc) || p.chance(30) {
		return // the answer was lost: the cell says that it has no container
	}
	b := &box{guid: guid, schedule: x.schedule, most: x.most, order: x.order, m: m, proc: m.proc(), alive: true}
	p.begun(b)
	p.boxes[guid] = b
	length := p.between(100*time.Millisecond, 6*time.Second)
	if !p.w.calm && p.chance(100) {
		length = p.between(5*time.Second, 40*time.Second)
	}
	p.w.after(length, func() {
		if b.alive {
			p.end(b, "by itself")
		}
	})
}

// poll compares the containers of a cell with the rows of the leader it can reach.
func (p *plans) poll(m *machine) {
	p.w.after(p.between(300*time.Millisecond, 1500*time.Millisecond), func() { p.poll(m) })
	r := p.w.leading()
	if r == nil || r.term != p.w.store.term || !m.up || !m.alive || m.paused > p.w.now || m.deaf > p.w.now {
		return
	}
	a, b := p.w.serverNode(r.s.id), p.w.machineNode(m.id)
	if p.w.cut(a, b) || p.w.cut(b, a) {
		return
	}
	v, ok := r.leader.Session(r.s.local(), m.name)
	if !ok || v.Proc != m.proc() || v.State != worker.Healthy || !v.Reported || !v.Eligible {
		return
	}
	t := r.times
	by := task.Holder{Cell: string(m.name), Proc: string(m.proc())}
	for _, guid := range t.known() {
		p.compare(t, m, by, t.committed[guid])
	}
}

// known are the tasks with a committed row and none under way.
func (t *times) known() []string {
	var out []string
	for guid := range t.committed {
		if t.writing[guid] == 0 {
			out = append(out, guid)
		}
	}
	slices.Sort(out)
	return out
}

// compare is one row of the harmonisation table of tasks.
func (p *plans) compare(t *times, m *machine, by task.Holder, x firedRow) {
	b := p.boxes[x.GUID]
	here := b != nil && b.m == m && b.proc == worker.Proc(by.Proc) && !b.unknown
	switch {
	case x.State == task.Pending && p.chance(300):
		t.taskEvent(x.GUID, task.Start{UID: x.UID, By: by, Reservation: x.UID + by.Proc}, nil)
	case x.State == task.Running && x.Holder == by && !here:
		t.taskEvent(x.GUID, task.Missing{UID: x.UID, By: by}, nil)
	case x.State == task.Running && x.Holder == by && !b.alive:
		t.taskEvent(x.GUID, task.Complete{UID: x.UID, By: by, Result: task.Result{Ended: t.wall()}}, nil)
	case x.Ending() && x.Holder == by && !here:
		t.taskEvent(x.GUID, task.Missing{UID: x.UID, By: by}, nil)
	case x.Ending() && x.Holder == by && !b.alive:
		t.taskEvent(x.GUID, task.Complete{UID: x.UID, By: by, Result: task.Result{Ended: t.wall()}}, nil)
	case x.Ended() && here && b.alive:
		p.w.after(p.between(0, 3*time.Second), func() {
			if b.alive {
				p.end(b, "cancelled")
			}
		})
	}
}

// dead gives up what ran on processes that are certainly dead.
func (t *times) dead() {
	for _, guid := range t.known() {
		if x := t.committed[guid]; x.State == task.Running && t.r.leader.IsDead(worker.Proc(x.Holder.Proc)) {
			t.taskEvent(guid, task.ProcDead{Proc: x.Holder.Proc}, nil)
		}
	}
}

// signal sends a signal, and tells a while later how it fared, unless the leader ends.
func (p *plans) signal(t *times, k schedule.Key, uid string, f firedKey) {
	p.w.trace("leader %v sends the signal of %s for %v", t.r.term, f.uid, time.Unix(0, f.at).UTC())
	if !p.erased(t.r, f) {
		p.sent[f]++
	}
	if p.sent[f] > 1 {
		p.w.fail("I12", "the signal of %s for %v is sent a second time", f.uid, time.Unix(0, f.at).UTC())
	}
	t.r.s.later(p.between(0, time.Second), func() {
		if row, ok := t.board.Get(k); ok && !t.r.over && row.UID == uid {
			if err := t.step(k, schedule.Delivered{At: time.Unix(0, f.at).UTC(), Delivery: schedule.Delivery{Of: 1, Reached: 1}}); err != nil {
				p.w.fail("I10", "delivered: %v", err)
			}
		}
	})
}

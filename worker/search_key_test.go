package worker

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"hash/maphash"
	"slices"
	"time"

	"cantina/fence"
	"cantina/workerset"
)

// The key of a state. States with one key have the same future. They differ in names (of cells, tasks, process ids,
// invocations) or in counters of which only the order is ever read. They also differ in times that are too long ago
// already, or in values that are never read again. TestKey holds the keys against whole states.

type stateKey [2]uint64

// keys makes keys; each goroutine has its own.
type keys struct {
	seeds      [2]maphash.Seed
	buf, best  []byte
	n          *node
	swap, flip bool // the cells, the tasks change names
	names      [][2]bool
	invs       []fence.Invocation
	beats      []beatOf
	seqs       []seqOf
	lasts      [2]bool // the applied end of the task is not older than all that is left
	texts      [][]byte
}

// seqOf is a notify sequence number that stands somewhere.
type seqOf struct {
	proc Proc
	term fence.Term
	seq  int64
}

// beatOf is a heartbeat whose answer is in flight.
type beatOf struct {
	proc Proc
	beat int64
}

func newKeys() *keys { return &keys{seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}} }

// of returns the key of a state: of its forms under other names, the least one.
func (k *keys) of(n *node) stateKey {
	k.n = n
	k.collect()
	k.best = k.best[:0]
	for _, names := range k.namings() {
		k.swap, k.flip, k.buf = names[0], names[1], k.buf[:0]
		k.node()
		if len(k.best) == 0 || bytes.Compare(k.buf, k.best) < 0 {
			k.buf, k.best = k.best, k.buf
		}
	}
	return stateKey{maphash.Bytes(k.seeds[0], k.best), maphash.Bytes(k.seeds[1], k.best)}
}

// namings returns the ways to exchange the names of cells and tasks under which the first
// cell looks least: more than one when the cells look alike.
func (k *keys) namings() [][2]bool {
	k.best, k.names = k.best[:0], k.names[:0]
	for _, names := range [...][2]bool{{false, false}, {true, false}, {false, true}, {true, true}} {
		if names[1] && k.n.budget.tasks < 2 {
			continue
		}
		k.swap, k.flip, k.buf = names[0], names[1], k.buf[:0]
		k.oneCell(k.cell(0))
		d := bytes.Compare(k.buf, k.best)
		if len(k.names) == 0 || d < 0 {
			k.buf, k.best = k.best, k.buf
			k.names = k.names[:0]
		}
		if len(k.names) == 0 || d == 0 {
			k.names = append(k.names, names)
		}
	}
	k.best = k.best[:0]
	return k.names
}

func (k *keys) int(v int64) { k.buf = binary.AppendVarint(k.buf, v) }

func (k *keys) bits(bs ...bool) {
	v := int64(0)
	for i, b := range bs {
		if b {
			v |= 1 << i
		}
	}
	k.int(v)
}

// until writes how long it is until a deadline. One that has passed is one, and so is one that
// cannot pass any more, since the budget of time ends before.
func (k *keys) until(t time.Duration) { k.int(int64(max(-1, min(t-k.n.now, k.horizon())))) }

// horizon is longer than the time that may still pass.
func (k *keys) horizon() time.Duration {
	return time.Duration(k.n.budget.time*times[len(times)-1])*tick + 1
}

func (k *keys) cell(i int) int {
	if k.swap {
		return 1 - i
	}
	return i
}

func (k *keys) proc(p Proc) {
	if p == "" {
		k.int(-1)
		return
	}
	s := k.n.procs[procNumber(p)]
	k.int(int64(k.cell(s.cell))<<8 | (k.n.started(s.cell) - s.started))
}

func (k *keys) term(t fence.Term) { k.int(t.Revision) }

func (k *keys) inv(i fence.Invocation) {
	n, ok := slices.BinarySearchFunc(k.invs, i, fence.Invocation.Compare)
	if !ok {
		panic("an invocation that was not collected")
	}
	k.term(i.Term)
	k.int(int64(n))
}

func (k *keys) run(r Run) {
	w := number(r.Work)
	if k.flip {
		w = 1 - w
	}
	k.int(int64(w))
	k.inv(r.Invocation)
}

// seq writes the place of a notify sequence number among those of the session.
func (k *keys) seq(p Proc, t fence.Term, seq int64) {
	place := int64(0)
	for i, s := range k.seqs {
		if s.proc == p && s.term == t && s.seq < seq && s.seq > 0 && !slices.Contains(k.seqs[:i], s) {
			place++
		}
	}
	if seq > 0 {
		place++
	}
	k.int(place)
}

// set writes a worker set's id: how it stands to the newest list.
func (k *keys) set(id workerset.ID) {
	if id.IsZero() {
		k.int(-1 << 20)
		return
	}
	d := int64(id.Version - k.n.store.list.Version)
	if len(k.beats) == 0 {
		d = max(d, -1)
	}
	k.int(d)
	k.bits(id.Hash == k.n.store.list.Hash, id.Leader == k.n.store.list.Leader)
}

// collect finds the invocations, sequence numbers and heartbeats that stand anywhere.
func (k *keys) collect() {
	n := k.n
	k.invs, k.seqs, k.beats = k.invs[:0], k.seqs[:0], k.beats[:0]
	if l := n.leader; l != nil {
		for inv := range l.batch.model.byRun {
			k.invs = append(k.invs, inv)
		}
		for r := range l.batch.model.late {
			k.invs = append(k.invs, r.Invocation)
		}
		for id, p := range l.procs {
			k.seqs = append(k.seqs, seqOf{id, l.cfg.Term, p.seq})
			for _, c := range p.open {
				k.invs = append(k.invs, fence.Invocation{Term: l.cfg.Term, Counter: c})
			}
		}
	}
	for i, c := range n.cells {
		k.seqs = append(k.seqs, seqOf{c.proc, c.term, c.seq})
		for inv := range c.work.held {
			k.invs = append(k.invs, inv)
		}
		for _, o := range c.outbox.notes {
			k.invs = append(k.invs, o.item.Run.Invocation)
		}
		for _, r := range n.alive[i] {
			k.invs = append(k.invs, r.Invocation)
		}
	}
	for _, m := range n.flight {
		k.collectMsg(m)
	}
	named := len(k.invs)
	for w, a := range n.store.last {
		k.lasts[w] = slices.ContainsFunc(k.invs[:named],
			func(i fence.Invocation) bool { return !i.IsZero() && i.Compare(a.inv) <= 0 })
		if k.lasts[w] {
			k.invs = append(k.invs, a.inv)
		}
	}
	slices.SortFunc(k.seqs, func(a, b seqOf) int { return cmp.Compare(a.seq, b.seq) })
	slices.SortFunc(k.invs, fence.Invocation.Compare)
	k.invs = slices.Compact(k.invs)
}

func (k *keys) collectMsg(m msg) {
	switch e := m.down.(type) {
	case BeatAnswered:
		k.beats = append(k.beats, beatOf{e.Answer.Proc, e.Answer.Beat})
	case RunAsked:
		k.invs = append(k.invs, e.Call.Run.Invocation)
		k.seqs = append(k.seqs, seqOf{e.Call.Proc, e.Call.Term, e.Call.Seq})
	case NotifyAsked:
		k.seqs = append(k.seqs, seqOf{e.Call.Proc, e.Call.Term, e.Call.Seq})
		for _, r := range e.Call.Runs {
			k.invs = append(k.invs, r.Invocation)
		}
	case StatusAnswered:
		k.invs = append(k.invs, e.Answer.Run.Invocation)
	}
	switch e := m.up.(type) {
	case RunAnswered:
		k.invs = append(k.invs, e.Answer.Run.Invocation)
	case NotifyAnswered:
		k.seqs = append(k.seqs, seqOf{e.Answer.Proc, e.Answer.Term, e.Answer.Seq})
	case StatusReceived:
		for _, it := range e.Update.Items {
			k.invs = append(k.invs, it.Run.Invocation)
		}
	case ReportReceived:
		for _, h := range e.Report.Held {
			k.invs = append(k.invs, h.Invocation)
		}
	}
}

func (k *keys) node() {
	n := k.n
	k.term(fence.Term{Revision: n.term})
	b := n.budget
	for _, v := range [...]int{b.lose, b.twice, b.late, b.calls, b.restart, b.pause, b.time, b.kill} {
		k.int(int64(v))
	}
	for j := range n.cells {
		k.oneCell(k.cell(j))
	}
	for _, id := range k.ofProcs(n.store.members) {
		m := n.store.members[id]
		k.proc(id)
		k.int(int64(m.Promise))
		k.bits(m.Displaced)
	}
	k.int(-1)
	for j := range n.store.last {
		w := j
		if k.flip {
			w = 1 - j
		}
		k.last(w)
	}
	if n.leader != nil {
		k.leader(n.leader)
	}
	k.messages()
}

// last writes the applied end of a task, unless it is older than all else of the task.
func (k *keys) last(w int) {
	a := k.n.store.last[w]
	if !k.lasts[w] {
		k.int(0)
		return
	}
	k.inv(a.inv)
	k.bits(a.real)
}

// ofProcs returns the process ids of a map in an order that does not depend on names.
func (k *keys) ofProcs(m map[Proc]Member) []Proc {
	ids := make([]Proc, 0, 4)
	for id := range m {
		ids = append(ids, id)
	}
	k.sortProcs(ids)
	return ids
}

func (k *keys) sortProcs(ids []Proc) {
	slices.SortFunc(ids, func(a, b Proc) int {
		p, q := k.n.procs[procNumber(a)], k.n.procs[procNumber(b)]
		return cmp.Or(cmp.Compare(k.cell(p.cell), k.cell(q.cell)), cmp.Compare(q.started, p.started))
	})
}

// health writes a session's health: the time until each of its limits. For a HEALTHY session, a time whose limit
// has passed since the last check is written exactly.
func (k *keys) health(h Health, g Gaps, drops time.Duration) {
	k.int(int64(h.State))
	probe, beat := h.LastProbe+g.Probe, h.LastBeat+g.Beat
	switch {
	case h.State == Healthy && min(probe, beat) < k.n.now:
		k.int(int64(min(probe, beat) - k.n.now))
	case h.State != MustDie:
		k.until(probe)
		k.until(beat)
	}
	switch {
	case h.State == MustDie && drops > 0:
		k.until(h.BecameUnhealthy + drops)
	case h.State == New || h.State == Unhealthy:
		k.until(h.BecameUnhealthy + g.Lost)
	}
}

func (k *keys) oneCell(i int) {
	n, c := k.n, k.n.cells[i]
	k.bits(n.paused[i], c.ended, c.renewing, c.renewing && c.asked, c.eligible && c.health.State != New &&
		c.health.State != MustDie, c.credited, c.reported, c.spent, c.gone, c.leaving, c.said,
		c.deadline > 0, n.dead[i] > 0)
	k.term(c.term)
	k.health(c.health, c.gaps(), 0)
	k.seq(c.proc, c.term, c.seq)
	k.set(c.setID)
	k.int(c.epoch)
	k.int(int64(c.promise))
	k.until(c.deadline)
	k.until(n.dead[i])
	if c.renewing {
		k.until(c.renewBy)
	}
	for _, inv := range k.invs {
		h := c.work.held[inv]
		if h == nil {
			continue
		}
		k.run(h.run)
		k.bits(h.ended, h.adopted, c.work.byWork[h.run.Work] == h)
		if h.ended {
			k.until(h.sent + statusRetry)
		}
	}
	k.int(-1)
	for _, r := range n.alive[i] {
		k.run(r)
	}
	k.int(-2)
	for _, o := range c.outbox.notes {
		k.note(c, o)
	}
	k.int(-3)
}

// note writes the pending messages of a cell. The answer to a probe counts as long as the leader remembers the
// probe; it is sent when the leader is ready, not when it is due.
func (k *keys) note(c *Cell, o note) {
	if o.item.Kind != StatusProbe {
		k.run(o.item.Run)
		k.until(o.sent + statusRetry)
		return
	}
	k.int(-1)
	k.until(c.beats.sentAt(o.beat) + c.t.HealthcheckGap())
	if l := k.n.leader; l != nil {
		if p := l.procs[c.proc]; p != nil {
			for _, open := range p.probe.open {
				if open.number == o.item.Probe {
					k.until(open.sent + l.t.HealthcheckGap())
				}
			}
		}
	}
	k.int(-2)
}

func (k *keys) leader(l *Leader) {
	if l.stalled != 0 || len(l.rows)+len(l.effects)+len(l.members.writes)+len(l.members.deaths) > 0 ||
		l.sessions.set != nil || l.lastTick+tick < k.n.now {
		panic("the key does not know this leader")
	}
	k.term(l.cfg.Term)
	k.set(l.members.list)
	k.bits(l.waiting.wait, l.waiting.stale, l.waiting.restored, l.deposed)
	if l.waiting.wait && l.waiting.stale {
		k.until(l.waiting.lapseEnd())
	}
	ids := make([]Proc, 0, 4)
	for id := range l.procs {
		ids = append(ids, id)
	}
	k.sortProcs(ids)
	for _, id := range ids {
		k.proc(id)
		k.process(l, l.procs[id])
	}
	for j := range k.n.cells {
		c := k.n.cells[k.cell(j)]
		p := l.holders[c.cfg.Cell]
		if p != nil {
			k.proc(p.row.Proc)
		}
		k.int(int64(l.gone[c.proc]))
	}
	for _, inv := range k.invs {
		if e := l.batch.model.byRun[inv]; e != nil {
			k.run(e.run)
			k.proc(e.on.row.Proc)
			k.bits(e.sure, e.ending, e.kill)
			k.int(int64(e.end))
			for _, a := range e.acks {
				k.proc(a)
			}
		}
	}
	for _, inv := range k.invs {
		for _, w := range theWorks() {
			for _, p := range l.batch.model.late[Run{w, inv}] {
				k.run(Run{w, inv})
				k.proc(p)
			}
		}
	}
	k.int(-1)
}

func (k *keys) process(l *Leader, p *process) {
	k.int(int64(p.row.Promise))
	k.int(int64(p.promised))
	k.int(int64(p.period))
	k.bits(p.row.Displaced, p.member, p.durable, p.unsaid, p.blocked, p.connected, p.reported, p.remains, p.displaced,
		p.dead,
		p.credited, p.kills, l.silent[p.row.Proc] == p, p.probe.out)
	drops := time.Duration(0)
	if !p.member {
		drops = l.t.Lost + l.t.Stretch(l.t.MaxDiesWithin)
	}
	k.health(p.health, l.sessions.gaps(p), drops)
	at, ok := l.sessions.expiry(p)
	k.bits(ok)
	if ok {
		k.until(at)
	}
	if p.health.State != MustDie {
		k.until(p.probe.due)
		k.int(int64(p.probe.failing))
	}
	if c := k.n.cells[k.n.procs[procNumber(p.row.Proc)].cell]; c.proc == p.row.Proc {
		k.until(c.beats.sentAt(p.beat) + l.t.HealthcheckGap())
	}
	k.seq(p.row.Proc, l.cfg.Term, p.seq)
	if c := k.n.cells[k.n.procs[procNumber(p.row.Proc)].cell]; c.proc == p.row.Proc {
		k.unsure(l, p) // no answer comes for a session that is over
	}
	k.int(-2)
	for _, c := range p.open {
		k.inv(fence.Invocation{Term: l.cfg.Term, Counter: c})
	}
	k.int(-3)
}

func (k *keys) unsure(l *Leader, p *process) {
	for _, r := range p.unsure.runs {
		k.run(r)
	}
	k.int(-1)
	if len(p.unsure.runs) > 0 {
		k.until(p.unsure.next)
		k.int(int64(min(p.unsure.pause, k.horizon())))
	}
	k.asked(l, p)
}

// asked writes the questions to a process that are in flight, or whose answers are.
func (k *keys) asked(l *Leader, p *process) {
	for i, s := range k.seqs {
		runs, ok := p.unsure.asked[s.seq]
		if !ok || s.proc != p.row.Proc || s.term != l.cfg.Term || slices.Contains(k.seqs[:i], s) || !k.answerable(s) {
			continue
		}
		k.seq(s.proc, s.term, s.seq)
		for _, r := range runs {
			if l.batch.model.byRun[r.Invocation] != nil {
				k.run(r)
			}
		}
	}
}

func (k *keys) answerable(s seqOf) bool {
	for _, m := range k.n.flight {
		if e, ok := m.down.(NotifyAsked); ok && (seqOf{e.Call.Proc, e.Call.Term, e.Call.Seq}) == s {
			return true
		}
		if e, ok := m.up.(NotifyAnswered); ok && (seqOf{e.Answer.Proc, e.Answer.Term, e.Answer.Seq}) == s {
			return true
		}
	}
	return false
}

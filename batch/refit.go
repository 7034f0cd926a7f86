package batch

import (
	"maps"
	"slices"
)

// refit computes flags, counts and the tournament of a job again: after a change of its
// configuration.
func (b *Board) refit(j *job) { b.recount(j, b.replace(j)) }

// refitAll does so for all jobs, after a change of the nodes: the class of a job's tasks may
// depend on where another one may run.
func (b *Board) refitAll() {
	avoided := make([][]bool, len(b.order))
	for i, j := range b.order {
		avoided[i] = b.replace(j)
	}
	for i, j := range b.order {
		b.recount(j, avoided[i])
	}
}

// replace computes the flags of a job's nodes. It returns which places its filters avoid.
func (b *Board) replace(j *job) (avoided []bool) {
	if n := len(b.f.names[j.level].list); n > len(j.records) {
		j.records = slices.Grow(j.records, n-len(j.records))[:n]
	}
	for i := range j.records {
		j.records[i].flags = 0
	}
	avoided = make([]bool, b.f.start[j.level+1])
	for level := 0; level <= j.level; level++ {
		m := j.filters[level]
		for p := b.f.start[level]; p < b.f.start[level+1]; p++ {
			at := &b.f.places[p]
			avoided[p] = at.parent >= 0 && avoided[at.parent] || !m.pass(b.f.names[level].list[at.name], at.tags)
		}
	}
	for p := b.f.start[j.level]; p < b.f.start[j.level+1]; p++ {
		at := &b.f.places[p]
		x := b.record(j, at.name)
		f := uint8(flagPlaced)
		if avoided[p] {
			f |= flagAvoided
		}
		if !at.live {
			f |= flagDisabled
		}
		if x.flags&flagPlaced != 0 { // a replica: one good place is enough
			f &= x.flags
			f |= flagPlaced
		}
		x.flags = f
	}
	return avoided
}

// recount computes counts and the tournament of a job.
func (b *Board) recount(j *job, avoided []bool) {
	j.counts = [classes]int{}
	for i := range j.records {
		x := &j.records[i]
		x.class = b.classify(j, int32(i), x)
		x.done, x.hopeful = x.bits&Done != 0 && !x.running, !b.hopeless(j, int32(i))
		j.counts[x.class]++
		b.schedule(j, int32(i), x)
	}
	j.shut = nil
	j.t = tournament{f: b.f, level: j.level, visits: &b.visits}
	j.t.open = func(p int32) bool { return b.open(j, p) }
	j.t.ready = func(p int32) bool {
		at := &b.f.places[p]
		return at.live && !avoided[p] && b.record(j, at.name).class == ClassReady
	}
	j.t.build()
}

// record returns the status of a node number, making room.
func (b *Board) record(j *job, node int32) *record {
	for len(j.records) <= int(node) {
		j.records = append(j.records, record{})
	}
	return &j.records[node]
}

// open reports whether a place has room for one task of the job.
func (b *Board) open(j *job, p int32) bool {
	if j.shut[p] != "" {
		return false
	}
	level := b.f.levelOf(p)
	return b.f.room(level, b.f.places[p].name, j.needs[level]) && b.leaves(j, level, b.f.places[p].name)
}

// classify returns the class of a batch task.
func (b *Board) classify(j *job, node int32, x *record) Class {
	switch {
	case x.former:
		return ClassBlocked
	case x.running:
		return ClassRunning
	case x.flags&flagPlaced == 0:
		return ClassAbsent
	case x.flags&flagDisabled != 0:
		return ClassDisabled
	case x.flags&flagAvoided != 0:
		return ClassAvoided
	case x.bits&Done != 0:
		return ClassDone
	case x.bits&Failed != 0:
		return ClassFailed
	case b.dueAt(x) > b.now:
		return ClassBackoff
	}
	class := ClassReady
	var s search
	for _, name := range j.DependsOn {
		d := b.jobs[name]
		switch {
		case d != nil && b.doneOn(d, j, node):
		case d == nil || b.hopelessOn(d, j, node, &s):
			return ClassStranded
		default:
			class = ClassBlocked
		}
	}
	return class
}

// dueAt is until when a batch task is in backoff. An end in the future is by the clock of an
// earlier leader, which was wrong: its backoff counts from the beginning of this board, also once
// that time has come.
func (b *Board) dueAt(x *record) int64 {
	at := x.time
	if x.ahead {
		at = b.began
	}
	return Status{Bits: x.bits, Time: at, Backoff: int(x.backoff)}.Due()
}

// twin is the number that the node of a job has for a job that it depends on; false
// when that one has no node of the name.
func (b *Board) twin(d, j *job, node int32) (at int32, ok bool) {
	if d.level == j.level {
		return node, int(node) < len(d.records)
	}
	at, ok = b.f.names[d.level].index[b.f.names[j.level].list[node]]
	return at, ok && int(at) < len(d.records)
}

// doneOn reports whether a job is done on the node of the same name.
func (b *Board) doneOn(d, j *job, node int32) bool {
	at, ok := b.twin(d, j, node)
	return ok && d.records[at].bits&Done != 0 && !d.records[at].running
}

// hopeless reports whether a job will not be done on a node without a change: it failed there
// permanently, does not run there, is invalid, or depends on such a job, through any chain. It
// uses only statuses and flags, not counts.
func (b *Board) hopeless(j *job, node int32) bool {
	return b.hopelessAt(j, node, &search{})
}

// search is one question about the jobs that others depend on, on the nodes of one name:
// however many ways lead to a job, it is looked at once. It ends with the first hopeless job.
type search struct {
	seen map[*job]bool // true: on the way to the present one; false: it may be done
}

func (b *Board) hopelessOn(d, j *job, node int32, s *search) bool {
	at, ok := b.twin(d, j, node)
	return !ok || b.hopelessAt(d, at, s)
}

func (b *Board) hopelessAt(j *job, node int32, s *search) bool {
	x := &j.records[node]
	switch {
	case x.running, x.bits&Done != 0:
		return false
	case x.bits&Failed != 0, x.flags&(flagPlaced|flagAvoided) != flagPlaced, len(j.Errors)+len(j.problems) > 0:
		return true
	case len(j.DependsOn) == 0:
		return false
	}
	if onTheWay, seen := s.seen[j]; seen {
		return onTheWay // then it is a circle
	}
	if s.seen == nil {
		s.seen = make(map[*job]bool)
	}
	s.seen[j] = true
	for _, name := range j.DependsOn {
		if d := b.jobs[name]; d == nil || b.hopelessOn(d, j, node, s) {
			return true
		}
	}
	s.seen[j] = false
	return false
}

// changed updates class, count and tournament after a change of a batch task, and informs the jobs
// that wait for it.
func (b *Board) changed(j *job, node int32) {
	x := b.record(j, node)
	was := x.class
	x.class = b.classify(j, node, x)
	if x.class != was {
		j.counts[was]--
		j.counts[x.class]++
		b.f.placesOf(j.level, node, j.t.update)
	}
	b.schedule(j, node, x)
	done, hopeful := x.bits&Done != 0 && !x.running, !b.hopeless(j, node)
	if done == x.done && hopeful == x.hopeful {
		return
	}
	x.done, x.hopeful = done, hopeful
	name := b.f.names[j.level].list[node]
	for _, w := range j.waiters {
		if i, ok := b.f.names[w.level].index[name]; ok && int(i) < len(w.records) {
			b.touch(w)
			b.changed(w, i)
		}
	}
}

// touch records that the view of a job changed because of another one.
func (b *Board) touch(j *job) {
	if b.touched == nil {
		b.touched = map[string]bool{}
	}
	b.touched[j.Name] = true
}

// Touched returns the jobs whose view changed since the last call because of jobs that they depend
// on, in order.
func (b *Board) Touched() []string {
	out := slices.Sorted(maps.Keys(b.touched))
	b.touched = nil
	return out
}

// recheck checks all batch tasks of a job again: a job that it depends on was added or removed.
func (b *Board) recheck(j *job) {
	b.touch(j)
	for i := range j.records {
		b.changed(j, int32(i))
	}
}

// drawn updates every tournament that passes a node after something was taken from
// it or given back.
func (b *Board) drawn(level int, node int32) {
	for _, j := range b.users[level] {
		b.f.placesOf(level, node, j.t.update)
	}
}

// schedule remembers when a batch task leaves its backoff.
func (b *Board) schedule(j *job, node int32, x *record) {
	if x.class != ClassBackoff {
		return
	}
	b.due.push(timer{at: b.dueAt(x), job: j.Name, node: node})
	if len(b.due) >= b.thin {
		b.thinOut()
	}
}

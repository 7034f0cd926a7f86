package batch

import "slices"

// refit computes flags, counts and the tournament of a job anew: after a change of
// its configuration or of the nodes.
func (b *Board) refit(j *job) {
	if n := len(b.f.names[j.level].list); n > len(j.pairs) {
		j.pairs = slices.Grow(j.pairs, n-len(j.pairs))[:n]
	}
	for i := range j.pairs {
		j.pairs[i].flags = 0
	}
	avoided := make([]bool, b.f.start[j.level+1])
	for level := 0; level <= j.level; level++ {
		m := j.filters[level]
		for p := b.f.start[level]; p < b.f.start[level+1]; p++ {
			at := &b.f.places[p]
			avoided[p] = at.parent >= 0 && avoided[at.parent] || !m.pass(b.f.names[level].list[at.name], at.tags)
		}
	}
	for p := b.f.start[j.level]; p < b.f.start[j.level+1]; p++ {
		at := &b.f.places[p]
		x := b.pair(j, at.name)
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
	j.counts = [classes]int{}
	for i := range j.pairs {
		x := &j.pairs[i]
		x.class = b.classify(j, int32(i), x)
		x.done = x.bits&Done != 0 && !x.running
		j.counts[x.class]++
		b.schedule(j, int32(i), x)
	}
	j.shut = nil
	j.t = tournament{f: b.f, level: j.level, visits: &b.visits}
	j.t.open = func(p int32) bool { return b.open(j, p) }
	j.t.ready = func(p int32) bool {
		at := &b.f.places[p]
		return at.live && !avoided[p] && b.pair(j, at.name).class == ClassReady
	}
	j.t.build()
}

// pair returns the status of a node number, making room.
func (b *Board) pair(j *job, node int32) *pair {
	for len(j.pairs) <= int(node) {
		j.pairs = append(j.pairs, pair{})
	}
	return &j.pairs[node]
}

// open reports whether a place has room for one task of the job.
func (b *Board) open(j *job, p int32) bool {
	if j.shut != nil && j.shut[p] != "" {
		return false
	}
	level := b.f.levelOf(p)
	return b.f.room(level, b.f.places[p].name, j.needs[level])
}

// classify says what a pair counts as.
func (b *Board) classify(j *job, node int32, x *pair) Class {
	switch {
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
	case !b.dependenciesDone(j, node):
		return ClassBlocked
	}
	return ClassReady
}

// dueAt is until when a pair is in backoff. An end that lay ahead is by the clock of an
// earlier leader, which was wrong: its backoff counts from the begin of this board, also
// once that time has come.
func (b *Board) dueAt(x *pair) int64 {
	at := x.time
	if x.ahead {
		at = b.began
	}
	return Status{Bits: x.bits, Time: at, Backoff: int(x.backoff)}.Due()
}

// dependenciesDone reports whether every job this one depends on is done on the
// node of the same name. An unknown job, or one without such a node, blocks.
func (b *Board) dependenciesDone(j *job, node int32) bool {
	for _, name := range j.DependsOn {
		d := b.jobs[name]
		if d == nil || !b.doneOn(d, j, node) {
			return false
		}
	}
	return true
}

func (b *Board) doneOn(d, j *job, node int32) bool {
	at := node
	if d.level != j.level {
		i, ok := b.f.names[d.level].index[b.f.names[j.level].list[node]]
		if !ok {
			return false
		}
		at = i
	}
	if int(at) >= len(d.pairs) {
		return false
	}
	x := &d.pairs[at]
	return x.bits&Done != 0 && !x.running
}

// changed brings class, count and tournament up to date after a pair changed, and
// tells the jobs that wait for it.
func (b *Board) changed(j *job, node int32) {
	x := b.pair(j, node)
	was := x.class
	x.class = b.classify(j, node, x)
	if x.class != was {
		j.counts[was]--
		j.counts[x.class]++
		b.f.placesOf(j.level, node, j.t.update)
	}
	b.schedule(j, node, x)
	if done := x.bits&Done != 0 && !x.running; done == x.done {
		return
	} else {
		x.done = done
	}
	name := b.f.names[j.level].list[node]
	for _, w := range j.waiters {
		if i, ok := b.f.names[w.level].index[name]; ok && int(i) < len(w.pairs) {
			b.changed(w, i)
		}
	}
}

// recheck looks at all pairs of a job again: a job that it depends on came or went.
func (b *Board) recheck(j *job) {
	for i := range j.pairs {
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

// schedule remembers when a pair leaves its backoff.
func (b *Board) schedule(j *job, node int32, x *pair) {
	if x.class != ClassBackoff {
		return
	}
	b.due.push(timer{at: b.dueAt(x), job: j.Name, node: node})
	if len(b.due) >= b.thin {
		b.thinOut()
	}
}

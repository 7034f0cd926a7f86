package batch

import (
	"maps"
	"slices"
)

// derived keeps what follows from nodes, jobs and statuses: the class of each batch task, the counts
// of each job, and its tournament.
type derived struct {
	f           *forest
	jobs        *jobs
	clock       *clock
	reservation *reservation
	touched     map[string]bool // jobs, see Touched
}

// refit computes flags, counts and the tournament of a job again: after a change of its
// configuration.
func (dv *derived) refit(j *job) {
	if t := j.t.table; t == nil || len(t.cells) != t.jobs*len(dv.f.places) {
		j.t.table, j.t.slot = dv.f.newTable(1), 0
	} else {
		j.t.clear()
	}
	dv.recount(j, dv.f.replace(j))
	dv.build(j)
}

// refitAll does so for all jobs, after a change of the nodes: the class of a job's tasks may
// depend on where another one may run.
func (dv *derived) refitAll() {
	avoided := make([][]bool, len(dv.jobs.order))
	for i, j := range dv.jobs.order {
		avoided[i] = dv.f.replace(j)
	}
	shared := dv.f.newTable(len(dv.jobs.order))
	for i, j := range dv.jobs.order {
		j.t.table, j.t.slot = shared, i
		dv.recount(j, avoided[i])
	}
	dv.build(dv.jobs.order...)
}

// replace computes the flags of a job's nodes. It returns which places its filters avoid.
func (f *forest) replace(j *job) (avoided []bool) {
	if n := len(f.names[j.level].list); n > len(j.records) {
		j.records = slices.Grow(j.records, n-len(j.records))[:n]
	}
	for i := range j.records {
		j.records[i].flags = 0
	}
	avoided = make([]bool, f.start[j.level+1])
	for level := 0; level <= j.level; level++ {
		m := j.filters[level]
		for p := f.start[level]; p < f.start[level+1]; p++ {
			at := &f.places[p]
			avoided[p] = at.parent >= 0 && avoided[at.parent] || m != nil && !m.pass(f.names[level].list[at.name], f.tags[p])
		}
	}
	for p := f.start[j.level]; p < f.start[j.level+1]; p++ {
		at := &f.places[p]
		x := j.record(at.name)
		flags := uint8(flagPlaced)
		if avoided[p] {
			flags |= flagAvoided
		}
		if !at.live {
			flags |= flagDisabled
		}
		if x.flags&flagPlaced != 0 { // a replica: one good place is enough
			flags &= x.flags
			flags |= flagPlaced
		}
		x.flags = flags
	}
	return avoided
}

// recount computes the counts of a job; build follows.
func (dv *derived) recount(j *job, avoided []bool) {
	j.avoided = avoided
	j.counts = [classes]int{}
	for i := range j.records {
		x := &j.records[i]
		x.class = dv.classify(j, int32(i), x)
		x.done, x.hopeful = x.bits&Done != 0 && !x.running, !dv.jobs.hopeless(j, int32(i))
		j.counts[x.class]++
		dv.clock.schedule(j, int32(i), x)
	}
	j.shut = nil
	j.t.f, j.t.level = dv.f, j.level
	j.t.open = func(p int32) bool { return dv.open(j, p) }
}

// mayStart reports whether the node of a place may start a task of the job, apart from room.
func (dv *derived) mayStart(j *job, p int32) bool {
	at := &dv.f.places[p]
	return j.records[at.name].class == ClassReady && at.live && !j.avoided[p]
}

// open reports whether a place has room for one task of the job.
func (dv *derived) open(j *job, p int32) bool {
	if j.shut[p] != "" {
		return false
	}
	level := dv.f.levelOf(p)
	return dv.f.room(level, dv.f.places[p].name, j.needs[level]) && dv.reservation.leaves(j, level, dv.f.places[p].name)
}

// classify returns the class of a batch task.
func (dv *derived) classify(j *job, node int32, x *record) Class {
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
	case dv.clock.dueAt(x) > dv.clock.now:
		return ClassBackoff
	}
	class := ClassReady
	switch {
	case j.gate.Never:
		return ClassStranded
	case j.gate.Shut:
		class = ClassBlocked
	}
	var s search
	for _, name := range j.DependsOn {
		d := dv.jobs.named[name]
		switch {
		case d != nil && dv.jobs.doneOn(d, j, node):
		case d == nil || dv.jobs.hopelessOn(d, j, node, &s):
			return ClassStranded
		default:
			class = ClassBlocked
		}
	}
	return class
}

// search is one question about the jobs that others depend on, on the nodes of one name:
// however many ways lead to a job, it is looked at once. It ends with the first hopeless job.
type search struct {
	seen map[*job]bool // true: on the way to the present one; false: it may be done
}

// changed updates class, count and tournament after a change of a batch task, and informs the jobs
// that wait for it.
func (dv *derived) changed(j *job, node int32) {
	x := j.record(node)
	was := x.class
	x.class = dv.classify(j, node, x)
	if x.class != was {
		j.counts[was]--
		j.counts[x.class]++
		if was == ClassReady || x.class == ClassReady {
			dv.f.placesOf(j.level, node, func(p int32) {
				j.t.setReady(p, dv.mayStart(j, p))
				j.t.update(p)
			})
		}
	}
	dv.clock.schedule(j, node, x)
	done, hopeful := x.bits&Done != 0 && !x.running, !dv.jobs.hopeless(j, node)
	if done == x.done && hopeful == x.hopeful {
		return
	}
	x.done, x.hopeful = done, hopeful
	name := dv.f.names[j.level].list[node]
	for _, w := range j.waiters {
		if i, ok := dv.f.names[w.level].index[name]; ok && int(i) < len(w.records) {
			dv.touch(w)
			dv.changed(w, i)
		}
	}
}

// touch records that the view of a job changed because of another one.
func (dv *derived) touch(j *job) {
	if dv.touched == nil {
		dv.touched = map[string]bool{}
	}
	dv.touched[j.Name] = true
}

// Touched returns the jobs whose view changed since the last call because of jobs that they depend
// on, in order.
func (dv *derived) Touched() []string {
	out := slices.Sorted(maps.Keys(dv.touched))
	dv.touched = nil
	return out
}

// recheck checks all batch tasks of a job again: a job that it depends on was added or removed.
func (dv *derived) recheck(j *job) {
	dv.touch(j)
	for i := range j.records {
		dv.changed(j, int32(i))
	}
}

package batch

// tournament knows, for one job, the best node that could start now. Every place has a key: the
// least rank of a node that may start in its subtree, or none if there is no such node or the
// place itself has no room for the job. The children of a place are in a binary heap by key, so
// that a change costs one path, and a full place hides its subtree without a visit.
type tournament struct {
	f     *forest
	level int // of the job's nodes
	table *table
	slot  int // the job's in the table
	// open reports whether a place has room for the job.
	open func(p int32) bool
}

// table has the cells of the tournaments of several jobs: those of one place are neighbours in memory, because a draw
// concerns all jobs on one place.
type table struct {
	jobs  int
	cells []cell
}

// cell is one place in the tournament of one job.
type cell struct {
	key  int32
	heap int32 // the children of p are the heaps of the cells first, first+1, … of its children, as many as its size
	pos  int32 // of a place in its parent's heap, -1 = not in it
	size int32 // children in the heap; of a place of the job's level 1 if its node may start apart from room
}

func (f *forest) newTable(jobs int) *table {
	return &table{jobs: jobs, cells: make([]cell, jobs*len(f.places))}
}

func (t *tournament) at(p int32) *cell { return &t.table.cells[int(p)*t.table.jobs+t.slot] }

// ready reports whether the node of a place may start apart from room.
func (t *tournament) ready(p int32) bool { return t.at(p).size != 0 }

// setReady sets it; an update follows.
func (t *tournament) setReady(p int32, on bool) {
	t.at(p).size = 0
	if on {
		t.at(p).size = 1
	}
}

// build computes the keys of some jobs from the leaves up, place by place, as they are in memory.
func (dv *derived) build(jobs ...*job) {
	for p := int32(len(dv.f.places)) - 1; p >= 0; p-- {
		for _, j := range jobs {
			if t := &j.t; p < dv.f.start[j.level+1] {
				t.at(p).key, t.at(p).pos = none, -1 // its heap has its children already
				t.plant(p, p >= dv.f.start[j.level] && dv.mayStart(j, p))
			}
		}
	}
}

// clear empties the heaps.
func (t *tournament) clear() {
	for p := range int32(len(t.f.places)) {
		*t.at(p) = cell{}
	}
}

// plant computes the key of a place whose children have theirs.
func (t *tournament) plant(p int32, ready bool) {
	t.f.visits++
	if p >= t.f.start[t.level] {
		t.setReady(p, ready)
	}
	if k := t.compute(p); k != none {
		t.at(p).key = k
		if up := t.f.places[p].parent; up >= 0 {
			t.insert(up, p)
		}
	}
}

func (t *tournament) compute(p int32) int32 {
	switch {
	case t.at(p).size == 0 || !t.open(p):
		return none
	case p >= t.f.start[t.level]:
		return t.f.places[p].rank
	}
	return t.at(t.top(p)).key
}

// top returns the best child of a place that has one.
func (t *tournament) top(p int32) int32 { return t.at(t.f.places[p].first).heap }

// key returns the key of the whole forest.
func (t *tournament) key() int32 { return t.at(0).key }

// update brings a place and the path above it up to date after something about it
// changed.
func (t *tournament) update(p int32) {
	for p >= 0 {
		t.f.visits++
		k, c := t.compute(p), t.at(p)
		old := c.key
		if k == old {
			return
		}
		c.key = k
		up := t.f.places[p].parent
		if up < 0 {
			return
		}
		switch {
		case old == none:
			t.insert(up, p)
		case k == none:
			t.remove(up, p)
		case k < old:
			t.rise(t.f.places[up].first, c.pos)
		default:
			t.sink(t.f.places[up].first, t.at(up).size, c.pos)
		}
		p = up
	}
}

// best returns the best place that may start, or -1.
func (t *tournament) best() int32 {
	p := int32(0)
	if t.key() == none {
		return -1
	}
	for p < t.f.start[t.level] {
		t.f.visits++
		p = t.top(p)
	}
	return p
}

func (t *tournament) insert(up, p int32) {
	first, c := t.f.places[up].first, t.at(up)
	i := c.size
	c.size++
	t.put(first, i, p)
	t.rise(first, i)
}

func (t *tournament) remove(up, p int32) {
	first, c := t.f.places[up].first, t.at(up)
	i := t.at(p).pos
	c.size--
	last := c.size
	moved := t.at(first + last).heap
	t.at(p).pos = -1
	if i == last {
		return
	}
	t.put(first, i, moved)
	t.rise(first, i)
	t.sink(first, last, t.at(moved).pos)
}

func (t *tournament) put(first, i, p int32) {
	t.at(first + i).heap = p
	t.at(p).pos = i
}

// entry returns a place of the heap that begins at first, and its key.
func (t *tournament) entry(first, i int32) (p, key int32) {
	p = t.at(first + i).heap
	return p, t.at(p).key
}

func (t *tournament) rise(first, i int32) {
	p, key := t.entry(first, i)
	for i > 0 {
		up := (i - 1) / 2
		q, other := t.entry(first, up)
		if other <= key {
			return
		}
		t.put(first, up, p)
		t.put(first, i, q)
		i = up
	}
}

func (t *tournament) sink(first, size, i int32) {
	p, key := t.entry(first, i)
	for {
		least, q, low := i, p, key
		for c := 2*i + 1; c <= 2*i+2 && c < size; c++ {
			if r, k := t.entry(first, c); k < low {
				least, q, low = c, r, k
			}
		}
		if least == i {
			return
		}
		t.put(first, i, q)
		t.put(first, least, p)
		i = least
	}
}

package batch

// tournament knows, for one job, the best node that could start now. Every place has a key: the
// least rank of a node that may start in its subtree, or none if there is no such node or the
// place itself has no room for the job. The children of a place are in a binary heap by key, so
// that a change costs one path, and a full place hides its subtree without a visit.
type tournament struct {
	f     *forest
	level int // of the job's nodes
	key   []int32
	heap  []int32 // the children of p are heap[first : first+size[p]]
	pos   []int32 // of a place in its parent's heap, -1 = not in it
	size  []int32
	// open reports whether a place has room for the job, ready which nodes may start apart from room.
	open  func(p int32) bool
	ready bits
}

// bits are flags of the places of one level.
type bits struct {
	first int32
	words []uint64
}

func newBits(first, end int32) bits { return bits{first, make([]uint64, (end-first+63)/64)} }

func (b bits) at(p int32) bool { return b.words[(p-b.first)>>6]>>((p-b.first)&63)&1 != 0 }

func (b bits) set(p int32, on bool) {
	bit := uint64(1) << ((p - b.first) & 63)
	if w := &b.words[(p-b.first)>>6]; on {
		*w |= bit
	} else {
		*w &^= bit
	}
}

// build computes all keys from the leaves up.
func (t *tournament) build() {
	n := int(t.f.start[t.level+1])
	t.key, t.heap, t.pos, t.size = make([]int32, n), make([]int32, n), make([]int32, n), make([]int32, n)
	for p := range t.pos {
		t.pos[p], t.key[p] = -1, none
	}
	for p := int32(n) - 1; p >= 0; p-- {
		t.f.visits++
		if k := t.compute(p); k != none {
			t.key[p] = k
			if up := t.f.places[p].parent; up >= 0 {
				t.insert(up, p)
			}
		}
	}
}

func (t *tournament) compute(p int32) int32 {
	if p >= t.f.start[t.level] {
		if t.ready.at(p) && t.open(p) {
			return t.f.places[p].rank
		}
		return none
	}
	if t.size[p] == 0 || !t.open(p) {
		return none
	}
	return t.key[t.heap[t.f.places[p].first]]
}

// update brings a place and the path above it up to date after something about it
// changed.
func (t *tournament) update(p int32) {
	for p >= 0 {
		t.f.visits++
		k := t.compute(p)
		old := t.key[p]
		if k == old {
			return
		}
		t.key[p] = k
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
			t.rise(t.f.places[up].first, t.pos[p])
		default:
			t.sink(t.f.places[up].first, t.size[up], t.pos[p])
		}
		p = up
	}
}

// best returns the best place that may start, or -1.
func (t *tournament) best() int32 {
	p := int32(0)
	if t.key[p] == none {
		return -1
	}
	for p < t.f.start[t.level] {
		t.f.visits++
		p = t.heap[t.f.places[p].first]
	}
	return p
}

func (t *tournament) insert(up, p int32) {
	first := t.f.places[up].first
	i := t.size[up]
	t.size[up]++
	t.put(first, i, p)
	t.rise(first, i)
}

func (t *tournament) remove(up, p int32) {
	first := t.f.places[up].first
	i := t.pos[p]
	t.size[up]--
	last := t.size[up]
	moved := t.heap[first+last]
	t.pos[p] = -1
	if i == last {
		return
	}
	t.put(first, i, moved)
	t.rise(first, i)
	t.sink(first, last, t.pos[moved])
}

func (t *tournament) put(first, i, p int32) {
	t.heap[first+i] = p
	t.pos[p] = i
}

func (t *tournament) rise(first, i int32) {
	h := t.heap[first:]
	for i > 0 {
		up := (i - 1) / 2
		if t.key[h[up]] <= t.key[h[i]] {
			return
		}
		a, b := h[up], h[i]
		t.put(first, up, b)
		t.put(first, i, a)
		i = up
	}
}

func (t *tournament) sink(first, size, i int32) {
	h := t.heap[first:]
	for {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < size; c++ {
			if t.key[h[c]] < t.key[h[least]] {
				least = c
			}
		}
		if least == i {
			return
		}
		a, b := h[i], h[least]
		t.put(first, i, b)
		t.put(first, least, a)
		i = least
	}
}

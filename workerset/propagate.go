package workerset

import "container/heap"

// prune folds the history before the earliest set that any living process shows
// into that set. It does nothing while a living process has shown none.
func (t *Tracker) prune() {
	if t.alive == 0 {
		t.history = nil
		clear(t.members)
		t.index = newIndex()
		return
	}
	least, any := uint64(0), false
	for _, m := range t.members {
		switch {
		case m.dead:
		case !m.echoed:
			return
		case !any || before(m.set, least):
			least, any = m.set, true
		}
	}
	at, ok := t.place(least)
	if !ok || at == 0 {
		return
	}
	base := t.history[0].added
	for _, s := range t.history[1 : at+1] {
		for proc := range s.added {
			base[proc] = true
		}
		if s.removed != "" {
			t.bury(base, s.removed, least)
		}
	}
	rest := append([]step{{added: base}}, t.history[at+1:]...)
	t.history = rest
}

// bury cancels a removed process from the folded set and forgets it when dead.
func (t *Tracker) bury(base map[string]bool, proc string, least uint64) {
	delete(base, proc)
	if m := t.members[proc]; m != nil && m.dead && !before(least, m.left) {
		delete(t.members, proc)
	}
}

// propagate raises each process's indirect version to the highest indirect version
// among the members of the set that it names: those it could reach no consensus
// without. One walk over history and members.
func (t *Tracker) propagate() {
	if len(t.history) == 0 {
		return
	}
	buckets, tops := t.buckets(), t.tops[:0]
	for _, m := range t.members {
		m.within = 0
		if i, ok := t.place(m.indirect); m.echoed && !m.dead && ok {
			buckets[i] = append(buckets[i], m)
		}
	}
	for i := range t.history {
		for proc := range t.history[i].added {
			if m := t.members[proc]; m != nil {
				m.within++
				if m.echoed {
					tops = append(tops, top{m.indirect, m})
				}
			}
		}
		if proc := t.history[i].removed; proc != "" {
			if m := t.members[proc]; m != nil {
				m.within--
			}
		}
		if i == 0 {
			heap.Init(&tops)
		} else if n := len(t.history[i].added); n > 0 && len(tops) > 0 {
			heap.Fix(&tops, len(tops)-1)
		}
		if len(buckets[i]) > 0 {
			t.raiseBucket(i, buckets, &tops)
		}
	}
	clear(tops)
	t.tops = tops[:0]
}

// buckets returns one empty list for each version of the history, made of what
// the last walk used.
func (t *Tracker) buckets() [][]*member {
	for i := range t.scratch {
		clear(t.scratch[i])
		t.scratch[i] = t.scratch[i][:0]
	}
	for len(t.scratch) < len(t.history) {
		t.scratch = append(t.scratch, nil)
	}
	return t.scratch[:len(t.history)]
}

// raiseBucket raises the living processes whose indirect version is that of history step i.
func (t *Tracker) raiseBucket(i int, buckets [][]*member, tops *topHeap) {
	for tops.Len() > 0 && ((*tops)[0].m.within <= 0 || (*tops)[0].version != (*tops)[0].m.indirect) {
		heap.Pop(tops)
	}
	if tops.Len() == 0 || !before(t.version(i), (*tops)[0].version) {
		return
	}
	v := (*tops)[0].version
	j, ok := t.place(v)
	if !ok {
		return
	}
	t.index.move(t.version(i), v, len(buckets[i]))
	for _, m := range buckets[i] {
		m.indirect = v
		if m.within > 0 {
			heap.Push(tops, top{v, m})
		}
	}
	buckets[j] = append(buckets[j], buckets[i]...)
}

// top is one process's requirement; the heap yields the highest version first.
type top struct {
	version uint64
	m       *member
}

type topHeap []top

func (h topHeap) Len() int           { return len(h) }
func (h topHeap) Less(i, j int) bool { return before(h[j].version, h[i].version) }
func (h topHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *topHeap) Push(x any)        { *h = append(*h, x.(top)) }
func (h *topHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

// index counts the living ones by indirect version and knows the least.
type index struct {
	count map[uint64]int
	size  int
	mins  minHeap
}

func newIndex() index { return index{count: map[uint64]int{}} }

func (x *index) add(v uint64) {
	x.size++
	if x.count[v]++; x.count[v] == 1 {
		heap.Push(&x.mins, v)
	}
}

func (x *index) remove(v uint64) {
	x.size--
	if x.count[v]--; x.count[v] == 0 {
		delete(x.count, v)
	}
}

// move counts n of version v under w.
func (x *index) move(v, w uint64, n int) {
	if x.count[v] -= n; x.count[v] == 0 {
		delete(x.count, v)
	}
	if x.count[w] += n; x.count[w] == n {
		heap.Push(&x.mins, w)
	}
}

// min returns the least version; the index must not be empty.
func (x *index) min() uint64 {
	for x.count[x.mins[0]] == 0 {
		heap.Pop(&x.mins)
	}
	return x.mins[0]
}

type minHeap []uint64

func (h minHeap) Len() int           { return len(h) }
func (h minHeap) Less(i, j int) bool { return before(h[i], h[j]) }
func (h minHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *minHeap) Push(x any)        { *h = append(*h, x.(uint64)) }
func (h *minHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

package workerset

import (
	"container/heap"
	"maps"
)

// prune folds the history before the earliest set that any living process shows
// into that set. One that has shown none counts as set 0, which lies before the history.
func (t *Tracker) prune() {
	if t.alive == 0 {
		t.history = nil
		clear(t.members)
		t.index = newIndex()
		return
	}
	least := t.current.Version
	for _, m := range t.members {
		if !m.dead && before(m.set, least) {
			least = m.set
		}
	}
	for at, _ := t.place(least); at > 0; at-- {
		base, s := t.history[0].added, t.history[1]
		maps.Copy(base, s.added)
		t.reap(base, s.removed, least)
		t.history = t.history[1:]
		t.history[0] = step{added: base}
	}
}

// reap cancels a removed process, if any, from the folded set and forgets it when dead.
func (t *Tracker) reap(base map[string]struct{}, proc string, least uint64) {
	delete(base, proc)
	if m := t.members[proc]; m != nil && m.dead && !before(least, m.left) {
		delete(t.members, proc)
	}
}

// propagate raises each process's indirect version to the highest indirect version
// among the members of the set that it names: those it could reach no consensus
// without. One walk over history and members.
func (t *Tracker) propagate() {
	buckets, tops := t.buckets(), t.tops[:0]
	for _, m := range t.members {
		m.within = 0
		if i, ok := t.place(m.indirect); ok && !m.dead {
			buckets[i] = append(buckets[i], m)
		}
	}
	for i, s := range t.history {
		for proc := range s.added {
			if m := t.members[proc]; m != nil {
				m.within++
				if m.echoed {
					heap.Push(&tops, top{m.indirect, m})
				}
			}
		}
		if m := t.members[s.removed]; m != nil {
			m.within--
		}
		if len(buckets[i]) > 0 {
			t.raiseBucket(i, buckets, &tops)
		}
	}
	clear(tops)
	t.tops = tops[:0]
}

// buckets returns one empty list for each version of the history, reusing those of the last walk.
func (t *Tracker) buckets() [][]*member {
	for i := range t.scratch {
		clear(t.scratch[i])
		t.scratch[i] = t.scratch[i][:0]
	}
	for range len(t.history) - len(t.scratch) {
		t.scratch = append(t.scratch, nil)
	}
	return t.scratch[:len(t.history)]
}

// raiseBucket raises the living processes whose indirect version is that of history step i, of
// which there is at least one. They are members of that set and are in the heap, where an older
// entry of a process is below its newer one.
func (t *Tracker) raiseBucket(i int, buckets [][]*member, tops *topHeap) {
	for (*tops)[0].m.within <= 0 {
		heap.Pop(tops)
	}
	v := (*tops)[0].version
	if j, _ := t.place(v); j != i {
		for _, m := range buckets[i] {
			t.index.move(m, v)
			heap.Push(tops, top{v, m})
		}
		buckets[j] = append(buckets[j], buckets[i]...)
	}
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
func (h *topHeap) Pop() any { // the value is that of [0], which the caller has read
	*h = (*h)[:len(*h)-1]
	return nil
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

// move sets the indirect version of one that is counted.
func (x *index) move(m *member, v uint64) {
	x.remove(m.indirect)
	m.indirect = v
	x.add(v)
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
func (h *minHeap) Pop() any { // the value is that of [0], which the caller has read
	*h = (*h)[:len(*h)-1]
	return nil
}

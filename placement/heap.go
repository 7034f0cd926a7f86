package placement

import (
	"slices"

	"cantina/resource"
)

func memory(it *Item) int { return it.Need[resource.MemoryMB] }

// heap is a binary heap of entries in the order of work.
type heap []*entry

func (h *heap) push(e *entry) {
	*h = append(*h, e)
	s := *h
	for i := len(s) - 1; i > 0; {
		p := (i - 1) / 2
		if compareEntries(s[p], s[i]) <= 0 {
			return
		}
		s[p], s[i] = s[i], s[p]
		i = p
	}
}

func (h *heap) pop() {
	s := *h
	n := len(s) - 1
	s[0], s[n] = s[n], nil
	*h = s[:n]
	sift(s[:n], func(x, y *entry) bool { return compareEntries(x, y) < 0 })
}

// take moves the entries that came into the heap. Many are sorted at once: then the heap is in order, and the next
// entries are at its front.
func (q *queue) take() {
	if len(q.came) == 0 {
		return
	}
	if len(q.came) > len(q.heap)/8 {
		q.heap = append(q.heap, q.came...)
		slices.SortFunc(q.heap, compareEntries)
		q.sorted = true
	} else {
		for _, e := range q.came {
			q.heap.push(e)
		}
		q.sorted = false
	}
	q.came = nil
}

func (q *queue) pop() {
	if !q.sorted {
		q.heap.pop()
		return
	}
	q.heap[0] = nil
	q.heap = q.heap[1:]
}

// alike is a cheap test for neighbours of one service: if true, they have one shape.
func alike(x, y *Item) bool {
	if x.Kind != y.Kind || x.Priority != y.Priority || x.Service != y.Service || x.Group != y.Group ||
		!x.Need.Equal(y.Need) || !slices.Equal(x.Avoid, y.Avoid) {
		return false
	}
	a, b := &x.Constraint, &y.Constraint
	return a.Stack == b.Stack && a.Host == b.Host && a.OpenFiles == b.OpenFiles && slices.Equal(a.Tags, b.Tags) &&
		slices.Equal(a.Tolerates, b.Tolerates) && slices.Equal(a.Isolation, b.Isolation) &&
		slices.Equal(a.Volumes, b.Volumes) &&
		slices.Equal(a.Ports, b.Ports) && slices.Equal(a.Spread, b.Spread) && slices.Equal(a.Limits, b.Limits) &&
		slices.Equal(a.Apart, b.Apart) && len(a.Labels)+len(b.Labels)+len(a.Conditions)+len(b.Conditions) == 0
}

// sift lets the first element of a heap sink to its place.
func sift[T any](s []T, less func(x, y T) bool) {
	for i := 0; ; {
		least := i
		for _, c := range [2]int{2*i + 1, 2*i + 2} {
			if c < len(s) && less(s[c], s[least]) {
				least = c
			}
		}
		if least == i {
			return
		}
		s[i], s[least] = s[least], s[i]
		i = least
	}
}

// queueHeap is a heap of queues by their heads, none of which is empty.
type queueHeap []*queue

func (h *queueHeap) sink() {
	sift(*h, func(x, y *queue) bool { return compareEntries(x.head(), y.head()) < 0 })
}

func (h *queueHeap) pop() {
	s := *h
	n := len(s) - 1
	s[0], s[n] = s[n], nil
	*h = s[:n]
	h.sink()
}

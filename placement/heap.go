package placement

import "cantina/resource"

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

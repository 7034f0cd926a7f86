package schedule

// Queue holds the due time of each of many numbered items. An entry costs 24 bytes, and no work
// while it waits.
type Queue struct {
	heap []queued
	pos  []int32 // by number: place in heap + 1; 0 = not in it
}

type queued struct {
	at int64
	n  int32
}

// fan is the number of children of a node of the heap.
const fan = 4

// Len is the number of items in the queue.
func (q *Queue) Len() int { return len(q.heap) }

// First returns the item that is due first.
func (q *Queue) First() (n int, at int64, ok bool) {
	if len(q.heap) == 0 {
		return 0, 0, false
	}
	return int(q.heap[0].n), q.heap[0].at, true
}

// Set gives n another moment.
func (q *Queue) Set(n int, at int64) {
	for n >= len(q.pos) {
		q.pos = append(q.pos, 0)
	}
	i := int(q.pos[n]) - 1
	if i < 0 {
		i = len(q.heap)
		q.heap = append(q.heap, queued{at, int32(n)})
		q.up(i)
		return
	}
	was := q.heap[i].at
	q.heap[i].at = at
	if at < was {
		q.up(i)
	} else {
		q.down(i)
	}
}

// Remove takes n out.
func (q *Queue) Remove(n int) {
	if n >= len(q.pos) || q.pos[n] == 0 {
		return
	}
	i := int(q.pos[n]) - 1
	q.pos[n] = 0
	last := q.heap[len(q.heap)-1]
	q.heap = q.heap[:len(q.heap)-1]
	if i == len(q.heap) {
		return
	}
	q.heap[i] = last
	q.up(i)
	q.down(int(q.pos[last.n]) - 1)
}

func (q *Queue) up(i int) {
	x := q.heap[i]
	for i > 0 {
		p := (i - 1) / fan
		if q.heap[p].at <= x.at {
			break
		}
		q.put(i, q.heap[p])
		i = p
	}
	q.put(i, x)
}

func (q *Queue) down(i int) {
	x := q.heap[i]
	for {
		best := i*fan + 1
		if best >= len(q.heap) {
			break
		}
		for c := best + 1; c < min(i*fan+1+fan, len(q.heap)); c++ {
			if q.heap[c].at < q.heap[best].at {
				best = c
			}
		}
		if q.heap[best].at >= x.at {
			break
		}
		q.put(i, q.heap[best])
		i = best
	}
	q.put(i, x)
}

func (q *Queue) put(i int, x queued) {
	q.heap[i] = x
	q.pos[x.n] = int32(i) + 1
}

package lrp

import (
	"container/heap"
	"slices"
	"time"
)

// process is one process guid: its definition, if any, and the rows of its indices. It updates its
// counts with each row that changes, so that the cost of a rollout's query grows with the changes,
// not with the instances.
type process struct {
	service ServiceKey
	version *Version // nil: no definition
	rows    map[int]*slot
	running int              // ordinary rows that serve and are wanted
	surplus map[int]struct{} // indices that are not wanted and have something to stop
	tops    lowest           // indices with a row, negated; some rows are gone
	healthy front
}

// processes has each process by its guid.
type processes map[string]*process

// of is the process of a version. A guid that two services name, as rows of the store can have it, goes with the first
// of them: for the other one it is as if it had no rows.
func (ps processes) of(v *Version) *process {
	if p := ps[v.Process]; p != nil {
		return p
	}
	return &process{}
}

// slot is one index and its next moment of interest.
type slot struct {
	index Index
	due   time.Time // zero = none
	asked time.Time // when a placement or a stop was last requested
	// loaded: the row is as an earlier term left it, and its cell may know better.
	loaded bool
}

// count adds the row of an index to the counts of the process, or removes it.
func (p *process) count(i int, x Index, add bool) {
	wanted := p.version != nil && p.version.Wants(i)
	if wanted && x.Ordinary.Serves() {
		if add {
			p.running++
		} else {
			p.running--
		}
	}
	switch {
	case !add:
		delete(p.surplus, i)
	case p.version != nil && !wanted && unwantedEvent(x):
		if p.surplus == nil {
			p.surplus = map[int]struct{}{}
		}
		p.surplus[i] = struct{}{}
	}
}

// row returns the slot of an index, a new one when it has none.
func (p *process) row(i int) (s *slot, isNew bool) {
	s = p.rows[i]
	if s == nil {
		s = &slot{}
		p.rows[i] = s
		if heap.Push(&p.tops, -i); len(p.tops) > 2*len(p.rows)+64 {
			p.tops = p.tops[:0]
			for n := range p.rows {
				p.tops = append(p.tops, -n)
			}
			heap.Init(&p.tops)
		}
		return s, true
	}
	return s, false
}

// top is the index after the highest one with a row.
func (p *process) top() int {
	for len(p.tops) > 0 && p.rows[-p.tops[0]] == nil {
		heap.Pop(&p.tops)
	}
	if len(p.tops) == 0 {
		return 0
	}
	return 1 - p.tops[0]
}

// define gives the process its definition, nil for none, and returns the indices that are wanted now and were not, or
// the other way round.
func (p *process) define(v *Version) (changed []int) {
	old := p.version
	if old == nil || v == nil {
		p.version, p.running, p.surplus, p.healthy = v, 0, nil, front{}
		for i, s := range p.rows {
			p.count(i, s.index, true)
			changed = append(changed, i)
		}
		if v != nil {
			changed = append(changed, v.unlike(&Version{})...)
		}
		return changed
	}
	changed = append(old.unlike(v), v.unlike(old)...)
	for _, i := range changed {
		if s := p.rows[i]; s != nil {
			p.count(i, s.index, false)
		}
	}
	p.version = v
	for _, i := range changed {
		if s := p.rows[i]; s != nil {
			p.count(i, s.index, true)
		}
	}
	return changed
}

// unlike lists the indices that v wants and other does not.
func (v *Version) unlike(other *Version) (out []int) {
	for i := v.Low; i < v.High; i++ {
		if other.Wants(i) {
			i = other.High - 1
			continue
		}
		out = append(out, i)
	}
	return out
}

// front is how far the healthy instances of a process reach: indices below high have been found healthy, but for those
// in again, which changed since.
type front struct {
	high  int
	again lowest
}

// touch notes that the row of an index has changed.
func (f *front) touch(i int) {
	if i >= f.high {
		return
	}
	if heap.Push(&f.again, i); len(f.again) > 2*f.high+64 {
		slices.Sort(f.again)
		f.again = slices.Compact(f.again) // a sorted slice is a heap
	}
}

// first returns the first index below high that is not healthy, or high, with the result of
// healthy for it.
func (f *front) first(high int, healthy func(i int) (bool, time.Time)) (int, time.Time) {
	f.high = min(f.high, high)
	for len(f.again) > 0 {
		if i := f.again[0]; i < f.high {
			if ok, at := healthy(i); !ok {
				return i, at
			}
		}
		heap.Pop(&f.again)
	}
	for ; f.high < high; f.high++ {
		if ok, at := healthy(f.high); !ok {
			return f.high, at
		}
	}
	return high, time.Time{}
}

// lowest is a heap of indices, the lowest first.
type lowest []int

func (h lowest) Len() int           { return len(h) }
func (h lowest) Less(i, j int) bool { return h[i] < h[j] }
func (h lowest) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push is for container/heap.
func (h *lowest) Push(x any) { *h = append(*h, x.(int)) }

// Pop is for container/heap.
func (h *lowest) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

// Package agenda keeps moments at which something has to be looked at, earliest
// first. It is a value of the core: the boards of services and tasks each own one.
//
//	Plan ──▶ planned ──its moment comes──▶ Take
//
// Nothing is taken back by itself: whoever plans the same thing again keeps the moment
// that counts, and passes over what Take returns of another one. Thin drops such plans
// when they are more than the others, so that what is gone costs nothing for long.
package agenda

import (
	"container/heap"
	"slices"
	"time"
)

// Agenda is a set of moments with what is due then. The zero value is empty.
type Agenda[T any] struct{ items items[T] }

type item[T any] struct {
	at   time.Time
	what T
}

// Plan has what come up at the given moment.
func (a *Agenda[T]) Plan(at time.Time, what T) { heap.Push(&a.items, item[T]{at, what}) }

// Take removes the earliest of what is due at now, and returns it with the moment
// for which it was planned; ok is false when nothing is due.
func (a *Agenda[T]) Take(now time.Time) (what T, at time.Time, ok bool) {
	if len(a.items) == 0 || a.items[0].at.After(now) {
		return what, at, false
	}
	x := heap.Pop(&a.items).(item[T])
	return x.what, x.at, true
}

// Next returns the earliest moment; ok is false when there is none.
func (a *Agenda[T]) Next() (at time.Time, ok bool) {
	if len(a.items) == 0 {
		return time.Time{}, false
	}
	return a.items[0].at, true
}

// Len is how many moments are planned, those that do not count any more among them.
func (a *Agenda[T]) Len() int { return len(a.items) }

// Thin drops the plans that do not count any more. most is how many can count: while there
// are not more than twice as many and a few, it does nothing. So it costs each plan a
// constant share.
func (a *Agenda[T]) Thin(most int, counts func(what T, at time.Time) bool) {
	if len(a.items) <= 2*most+64 {
		return
	}
	kept := slices.DeleteFunc(a.items, func(x item[T]) bool { return !counts(x.what, x.at) })
	a.items = slices.Clip(slices.Clone(kept)) // what it held goes with it
	heap.Init(&a.items)
}

// items is the heap.
type items[T any] []item[T]

func (h items[T]) Len() int           { return len(h) }
func (h items[T]) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h items[T]) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push is for container/heap.
func (h *items[T]) Push(x any) { *h = append(*h, x.(item[T])) }

// Pop is for container/heap.
func (h *items[T]) Pop() any {
	old := *h
	x := old[len(old)-1]
	old[len(old)-1] = item[T]{} // what it holds goes with it
	*h = old[:len(old)-1]
	return x
}

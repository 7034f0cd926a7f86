// Package agenda keeps times at which keys are due, earliest first. It is a value of the core: the
// boards of services and tasks each own one.
//
//	Plan ──▶ planned ──its time comes──▶ Take
//
// No plan is removed automatically: a caller that plans the same key again remembers the valid
// time, and ignores results of Take for another one. Thin drops such plans when they outnumber the
// others, so that deleted keys do not cost memory for long.
package agenda

import (
	"container/heap"
	"slices"
	"time"
)

// Agenda is a set of times with the keys that are due then. The zero value is empty.
type Agenda[T any] struct{ items items[T] }

type item[T any] struct {
	at   time.Time
	what T
}

// Plan makes a key due at the given time.
func (a *Agenda[T]) Plan(at time.Time, what T) { heap.Push(&a.items, item[T]{at, what}) }

// Take removes the earliest key that is due at now, and returns it with its planned time; ok is
// false if none is due.
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
	a.items = slices.Clip(slices.Clone(kept)) // its data is deleted with it
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
	old[len(old)-1] = item[T]{} // its data is deleted with it
	*h = old[:len(old)-1]
	return x
}

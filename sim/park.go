package sim

import (
	"context"
	"iter"
	"slices"
)

// routine is a call into a shell that waits: it runs until it waits for something, and goes on
// in the very moment in which that has happened. So one goroutine after another runs, never
// two at a time.
type routine struct {
	w     *world
	r     *reign // of whose process it is
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool
}

// call runs fn, which may wait, in the process of a term.
func (r *reign) call(fn func()) {
	c := &routine{w: r.s.w, r: r}
	c.next, c.stop = iter.Pull(func(yield func(struct{}) bool) {
		c.yield = yield
		fn()
	})
	c.goOn(func() { c.next() })
}

func (c *routine) goOn(step func()) {
	before := c.w.running
	c.w.running = c
	step()
	c.w.running = before
}

// park is run.Park of calls that are made in routines. A process that dies, and the end of a
// run, end the wait with an error: then nothing of what the call still does may reach the world.
func (w *world) park() (wake func(), wait func(context.Context) error) {
	done := false
	var c *routine
	wake = func() {
		done = true
		if c != nil {
			w.parked = slices.DeleteFunc(w.parked, func(o *routine) bool { return o == c })
			c.goOn(func() { c.next() })
		}
	}
	return wake, func(context.Context) error {
		if done {
			return nil
		}
		c = w.running
		w.parked = append(w.parked, c)
		if !c.yield(struct{}{}) {
			return errTermOver
		}
		return nil
	}
}

// release ends the calls that wait in a process that is dead; nil = all.
func (w *world) release(r *reign) {
	all := w.parked
	w.parked = slices.DeleteFunc(slices.Clone(all), func(c *routine) bool { return r == nil || c.r == r })
	for _, c := range all {
		if r == nil || c.r == r {
			c.r.dead = true
			c.goOn(c.stop)
		}
	}
}

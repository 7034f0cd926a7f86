package sim

import (
	"context"
	"errors"
	"iter"
	"time"
)

func newThreads(w *world, soon func(fn func())) *threads {
	p := &threads{w: w, soon: soon}
	w.threads = append(w.threads, p)
	return p
}

// run runs fn beside everything else, at once until it waits.
func (p *threads) run(fn func()) {
	if p.dead {
		return
	}
	t := &thread{of: p}
	t.resume, t.stop = iter.Pull(func(yield func(struct{}) bool) {
		t.yield = yield
		fn()
	})
	t.step()
}

// step resumes a coroutine until it waits or has ended.
func (t *thread) step() {
	w := t.of.w
	before := w.current
	w.current = t
	_, more := t.resume()
	w.current = before
	if !more {
		t.stop()
	}
}

// end releases all waiting code: the process has ended. It is called from an event of the world,
// or from one of the coroutines, which then runs to its end without waiting again.
func (p *threads) end() {
	if p.dead {
		return
	}
	p.dead = true
	if p.w.current != nil && p.w.current.of == p {
		p.w.after(0, p.release)
		return
	}
	p.release()
}

func (p *threads) release() {
	all := p.waiting
	p.waiting = nil
	for _, t := range all {
		before := p.w.current
		p.w.current = t
		t.stop()
		p.w.current = before
	}
	for i, o := range p.w.threads {
		if o == p {
			p.w.threads = append(p.w.threads[:i], p.w.threads[i+1:]...)
			return
		}
	}
}

// errEnded reports to a coroutine that its process has ended.
var errEnded = errors.New("the process has ended")

// park is a run.Park for coroutines. Of a context only a limit is looked at that within
// has set.
func (p *threads) park() (wake func(), wait func(context.Context) error) {
	awake, late := false, false
	var t *thread
	wake = func() {
		if awake {
			return
		}
		awake = true
		if t != nil {
			p.soon(func() { p.goOn(t) })
		}
	}
	return wake, func(ctx context.Context) error {
		if !awake && !p.dead {
			if d, ok := ctx.Value(limitKey{}).(time.Duration); ok {
				p.w.after(d, func() {
					late = !awake
					wake()
				})
			}
			t = p.w.current
			p.waiting = append(p.waiting, t)
			t.yield(struct{}{})
			t = nil
		}
		switch {
		case p.dead:
			return errEnded
		case late:
			return context.DeadlineExceeded
		}
		return nil
	}
}

// errNoAnswer means that the outcome of a call is unknown.
var errNoAnswer = errors.New("no answer")

// await makes a call and waits for its response, not longer than limit by the process's own timer:
// send calls answer with the receiver of it. Only the first one is accepted.
func (p *threads) await(limit time.Duration, later func(time.Duration, func()),
	send func(answer func(take func()))) error {
	wake, wait := p.park()
	over, heard := false, false
	send(func(take func()) {
		if !over {
			over, heard = true, true
			take()
			wake()
		}
	})
	later(limit, func() {
		over = true
		wake()
	})
	if err := wait(context.Background()); err != nil {
		return err
	}
	if !heard {
		return errNoAnswer
	}
	return nil
}

// goOn resumes a coroutine that was woken, unless it is already running.
func (p *threads) goOn(t *thread) {
	for i, o := range p.waiting {
		if o == t {
			p.waiting = append(p.waiting[:i], p.waiting[i+1:]...)
			t.step()
			return
		}
	}
}

// limitKey is how long a call may last, in its context.
type limitKey struct{}

func within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithValue(ctx, limitKey{}, d), func() {}
}

func limitOf(ctx context.Context) time.Duration {
	if d, ok := ctx.Value(limitKey{}).(time.Duration); ok {
		return d
	}
	return callTimeout
}

package run

import (
	"context"
	"sync"
	"time"
)

// parts is in how many Patient counts.
const parts = 10

// Patient is context.WithTimeout for an external response: it counts the time in which this
// process ran. A process that was stopped, or had no processor, has not read its input meanwhile,
// and its own absence is no evidence that nothing arrived. A pause costs a tenth of the time at
// most, and arrived input is read before the time is over.
func Patient(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	p := &patient{Context: ctx, done: make(chan struct{}), left: parts, part: d / parts}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.began, p.due = time.Now(), d-(parts-1)*p.part
	p.timer = time.AfterFunc(p.due, p.next)
	p.unhook = context.AfterFunc(ctx, func() { p.end(ctx.Err()) })
	return p, func() { p.end(context.Canceled) }
}

// patient is its own kind of context, so that derived contexts end with its error.
type patient struct {
	context.Context
	part   time.Duration
	done   chan struct{}
	unhook func() bool

	mu    sync.Mutex
	timer *time.Timer
	err   error
	left  int
	began time.Time     // of this part
	due   time.Duration // its length
	given bool          // one more after a late last one
}

// Deadline: none is known beforehand.
func (p *patient) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done is closed when the time is over.
func (p *patient) Done() <-chan struct{} { return p.done }

// Err is context.DeadlineExceeded then.
func (p *patient) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

func (p *patient) end(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = err
		p.timer.Stop()
		p.unhook()
		close(p.done)
	}
}

func (p *patient) next() {
	if p.over(time.Now()) {
		p.end(context.DeadlineExceeded)
	}
}

// over counts a part that has passed.
func (p *patient) over(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	late := now.Sub(p.began) > 2*p.due
	if p.left--; p.left == 0 && late && !p.given {
		p.left, p.given = 1, true
	}
	if p.left > 0 && p.err == nil {
		p.began, p.due = now, p.part
		p.timer.Reset(p.part)
	}
	return p.left == 0
}

// bootLook is how soon a limit is noticed that passed while the machine slept.
const bootLook = 10 * time.Second

// At calls f in its own goroutine when the boot clock has come to at, which it does also while
// the machine sleeps. stop takes that back; f may be running then.
func (c Clock) At(at time.Duration, f func()) (stop func()) {
	var mu sync.Mutex
	var timer *time.Timer
	stopped := false
	wait := func() time.Duration { return max(min(at-c.Boot(), bootLook), 0) }
	mu.Lock()
	defer mu.Unlock()
	timer = time.AfterFunc(wait(), func() {
		mu.Lock()
		over := stopped || c.Boot() >= at
		if !over {
			timer.Reset(max(wait(), time.Microsecond))
		}
		act := over && !stopped
		mu.Unlock()
		if act {
			f()
		}
	})
	return func() {
		mu.Lock()
		defer mu.Unlock()
		stopped = true
		timer.Stop()
	}
}

// Until is context.WithDeadlineCause for a deadline of the boot clock.
func (c Clock) Until(ctx context.Context, at time.Duration, cause error) (context.Context, context.CancelFunc) {
	inner, over := context.WithCancelCause(ctx)
	stop := c.At(at, func() { over(cause) })
	return inner, func() {
		stop()
		over(nil)
	}
}

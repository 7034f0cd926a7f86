package run

import (
	"context"
	"math"
	"time"
)

// Never is a pause that ends only with a wake-up.
const Never = time.Duration(math.MaxInt64)

// Next says what is to be done now; nil when nothing is, and then for how long
// unless somebody wakes the loop. What is to be done may wait.
type Next func() (do func(context.Context), pause time.Duration)

// Loop is work that comes again and again, one piece at a time. Run drives it in a
// goroutine with a timer; a simulator drives it with Next and OnWake.
type Loop struct {
	Name string
	Next Next

	woken chan struct{} // one waits
	on    func()
}

// NewLoop returns a loop that does what next says.
func NewLoop(name string, next Next) *Loop {
	return &Loop{Name: name, Next: next, woken: make(chan struct{}, 1)}
}

// Wake has the loop ask again what is to be done. It may be called from anywhere
// and does not wait.
func (l *Loop) Wake() {
	if l.on != nil {
		l.on()
		return
	}
	select {
	case l.woken <- struct{}{}:
	default:
	}
}

// OnWake is for who drives the loop without Run: f is called by Wake.
func (l *Loop) OnWake(f func()) { l.on = f }

// Run drives the loop until ctx is done.
func (l *Loop) Run(ctx context.Context) error {
	timer := time.NewTimer(Never)
	defer timer.Stop()
	for ctx.Err() == nil {
		do, pause := l.Next()
		if do != nil {
			do(ctx)
			continue
		}
		timer.Reset(pause)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-l.woken:
		}
	}
	return ctx.Err()
}

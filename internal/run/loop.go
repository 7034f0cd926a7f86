package run

import (
	"context"
	"math"
	"time"
)

// Never is a pause that ends only with a wake-up.
const Never = time.Duration(math.MaxInt64)

// Next returns the work that is due; nil if none is, and then the time until some is, unless the
// loop is woken. The work may wait.
type Next func() (do func(context.Context), pause time.Duration)

// Loop is repeated work, one piece at a time. Run drives it in a goroutine with a timer; a
// simulator drives it with Next and OnWake.
type Loop struct {
	Name string
	Next Next

	woken chan struct{} // one waits
	on    func()
}

// NewLoop returns a loop that does the work that next returns.
func NewLoop(name string, next Next) *Loop {
	return &Loop{Name: name, Next: next, woken: make(chan struct{}, 1)}
}

// Wake makes the loop check again for due work. It may be called from anywhere and does not wait.
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

// OnWake is for callers that drive the loop without Run: f is called by Wake.
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

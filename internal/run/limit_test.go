package run

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestPatientEndsWithItsTime(t *testing.T) {
	defer goleak.VerifyNone(t)
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		ctx, cancel := Patient(t.Context(), time.Second+3)
		child, end := context.WithCancel(ctx)
		defer end()
		<-child.Done()
		if took := time.Since(begin); took != time.Second+3 || ctx.Err() != context.DeadlineExceeded ||
			!errors.Is(child.Err(), context.DeadlineExceeded) {
			t.Errorf("ended after %v: %v, %v", took, ctx.Err(), child.Err())
		}
		cancel()
		outer, stop := context.WithCancel(t.Context())
		ctx, cancel = Patient(outer, time.Hour)
		stop()
		<-ctx.Done()
		if ctx.Err() != context.Canceled {
			t.Error(ctx.Err())
		}
		cancel()
		ctx, cancel = Patient(t.Context(), time.Hour)
		cancel()
		if <-ctx.Done(); ctx.Err() != context.Canceled {
			t.Error(ctx.Err())
		}
	})
}

// TestAPauseCostsPatientOnePart: a timer that comes late has used up one of ten parts, for any delay. After a late
// last one there is one more, once.
func TestAPauseCostsPatientOnePart(t *testing.T) {
	p := &patient{part: time.Second, due: time.Second, left: parts, timer: time.NewTimer(Never), began: time.Unix(0, 0)}
	defer func() { p.timer.Stop() }()
	now := time.Unix(0, 0)
	count := func(late time.Duration) bool {
		now = now.Add(time.Second + late)
		return p.over(now)
	}
	if count(time.Hour) || p.left != parts-1 {
		t.Fatalf("a pause used up %d parts", parts-p.left)
	}
	for p.left > 1 {
		if count(0) {
			t.Fatal("over too soon")
		}
	}
	if count(time.Hour) {
		t.Fatal("over before what came during the pause was taken")
	}
	if !count(time.Hour) {
		t.Fatal("not over after one more part")
	}
}

func TestAtCountsTheBootClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var slept atomic.Int64
		c := Clock{Boot: func() time.Duration { return time.Since(begin) + time.Duration(slept.Load()) }}
		came := make(chan time.Duration, 1)
		c.At(time.Hour, func() { came <- time.Since(begin) })
		stop := c.At(4*time.Hour, func() { t.Error("taken back") })
		time.Sleep(time.Minute)
		slept.Store(int64(2 * time.Hour)) // the machine sleeps: timers do not
		if at := <-came; at > time.Minute+bootLook {
			t.Errorf("noticed after %v", at-time.Minute)
		}
		stop()
		ctx, cancel := c.Until(t.Context(), c.Boot()+time.Second, errors.New("why"))
		defer cancel()
		if <-ctx.Done(); context.Cause(ctx).Error() != "why" {
			t.Error(context.Cause(ctx))
		}
	})
}

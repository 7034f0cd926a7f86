package leader

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"cantina/batch"
	"cantina/fault"
	"cantina/plan"
	"cantina/store"
	"cantina/store/mem"
)

// TestWritesOfAJobThatCross: a call before the earlier write is durable is answered as if it were,
// and not before it is.
func TestWritesOfAJobThatCross(t *testing.T) {
	apply := func(tm *Term) error {
		_, err := viewOf(tm).Apply(context.Background(),
			plan.Application{Domain: "d", Jobs: []plan.NamedJob{jobOver("j", "a", "b")}}, plan.Write{})
		return err
	}
	pause := func(tm *Term) error {
		_, err := viewOf(tm).PauseJob(context.Background(), "d/j", true, plan.Write{})
		return err
	}
	remove := func(tm *Term) error { return viewOf(tm).RemoveJob(context.Background(), "d/j", plan.Write{}) }
	stale := func(tm *Term) error { return viewOf(tm).RemoveJob(context.Background(), "d/j", plan.Write{Expect: 1}) }
	for _, c := range []struct {
		name          string
		before        func(*Term) error
		one, two      func(*Term) error
		twoErr        error
		known, paused bool
	}{
		{"apply, pause", nil, apply, pause, nil, true, true},
		// whether the first answer has the job depends on the deletions by then
		{"pause, remove", apply, pause, remove, nil, false, false},
		{"remove, pause", apply, remove, pause, batch.ErrUnknownJob, false, false},
		{"remove, apply", apply, remove, apply, nil, true, false},
		{"apply, remove", nil, apply, remove, nil, false, false},
		{"remove, remove", apply, remove, remove, batch.ErrUnknownJob, false, false},
		{"apply, a removal that expects another revision, which leaves nothing", nil, apply, stale, fault.ErrRevision, true,
			false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var gate atomic.Pointer[chan struct{}]
				tm, end := beginOver(t, mem.Config{Fault: func(call mem.Call, _ store.Txn) mem.Fault {
					if held := gate.Load(); call == mem.CallTxn && held != nil {
						<-*held
					}
					return mem.None
				}})
				defer end()
				if c.before != nil {
					if err := c.before(tm); err != nil {
						t.Fatal(err)
					}
				}
				synctest.Wait()
				held := make(chan struct{})
				gate.Store(&held)
				answers := [2]chan error{make(chan error, 1), make(chan error, 1)}
				for i, do := range []func(*Term) error{c.one, c.two} {
					go func() { answers[i] <- do(tm) }()
					synctest.Wait()
				}
				if len(answers[0]) != 0 {
					t.Errorf("answered before it is durable: %v", <-answers[0])
				}
				close(held)
				one, two := <-answers[0], <-answers[1]
				if one != nil && !errors.Is(one, batch.ErrUnknownJob) || !errors.Is(two, c.twoErr) {
					t.Errorf("answers: %v; %v", one, two)
				}
				synctest.Wait()
				j, err := viewOf(tm).GetJob("d/j")
				if known := err == nil && !j.Removed; known != c.known || known && j.Paused != c.paused {
					t.Errorf("known %t, paused %t: %v", known, j.Paused, err)
				}
			})
		})
	}
}

// TestAnApplyWhoseSchedulesAreRefusedLeavesNoJob: the next decision does not build on it.
func TestAnApplyWhoseSchedulesAreRefusedLeavesNoJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tm, end := begin(t)
		defer end()
		bad := plan.Application{Domain: "d", Jobs: []plan.NamedJob{jobOver("j", "a")},
			Schedules: []plan.NamedSchedule{{Name: "s"}}}
		if _, err := (viewOf(tm)).Apply(t.Context(), bad, plan.Write{}); err == nil {
			t.Fatal("a schedule of nothing is applied")
		}
		if err := (viewOf(tm)).RemoveJob(t.Context(), "d/j", plan.Write{}); !errors.Is(err, batch.ErrUnknownJob) {
			t.Errorf("a job that was never applied: %v", err)
		}
	})
}

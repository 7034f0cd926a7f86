package bbs

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cantina/action"
	"cantina/event"
	"cantina/fault"
	"cantina/lrp"
	"cantina/plan"
	"cantina/task"
)

// ranked is web with a name and a priority.
func ranked(name string, n, priority int) lrp.Desired {
	d := web(n, "1")
	d.Service.Name, d.PreemptPriority = name, priority
	return d
}

// full runs web with two instances of priority 10, while one instance of service high, with priority 80, and task t,
// with 70, wait. It returns the two that wait.
func full(t *testing.T, r *rig) (service, oneOff Beneficiary) {
	t.Helper()
	r.apply([]lrp.Desired{ranked("web", 2, 10)}, nil)
	r.serve()
	r.apply([]lrp.Desired{ranked("web", 2, 10), ranked("high", 1, 80)}, []plan.NamedTask{{Name: "t",
		Definition: task.Definition{Workload: runs("/bin/true"), PreemptPriority: 70}}})
	synctest.Wait()
	lrps, tasks, _ := r.take()
	if len(lrps) != 1 || len(tasks) != 1 {
		t.Fatalf("%v and %v wait", lrps, tasks)
	}
	return Beneficiary{Key: lrps[0].Key}, Beneficiary{Task: TaskID{tasks[0].GUID, tasks[0].UID}}
}

// stopped returns the instances that were ordered to stop.
func (r *rig) stopped() (keys []string) {
	synctest.Wait()
	_, _, stops := r.take()
	for _, s := range stops {
		keys = append(keys, fmt.Sprint(s.Key.Index))
	}
	return keys
}

// TestPreempt stops instances in one commit, with an event, and both an explanation of the stop and of the place
// that the instance waits for afterwards outlive a change of the leader.
func TestPreempt(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		b, _ := full(t, r)
		sub := r.hub.Tail()
		all := r.b.Preemptibles(80, 10)
		if err := r.b.Preempt(b, all); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(r.stopped()); got != "[0 1]" {
			t.Errorf("stopped: %s", got)
		}
		batch, err := sub.Next(t.Context(), time.Second)
		if err != nil {
			t.Fatal(err)
		}
		var notes []string
		for _, e := range batch.Events {
			if e.Kind == event.Note {
				notes = append(notes, e.Domain+" "+e.Subject+" "+e.Text)
			}
		}
		if got := strings.Join(notes, "; "); got != "d d/web/0 preempted on cell a by d/high/0; "+
			"d d/web/1 preempted on cell a by d/high/0" {
			t.Error(got)
		}
		says := func(code, want string) {
			t.Helper()
			e, err := r.b.ExplainInstance(webKey, 0)
			if err != nil || e.Fine {
				t.Fatalf("%+v, %v", e, err)
			}
			for _, x := range e.Reasons {
				if x.Code == code && strings.HasPrefix(x.Text, want) && x.Change == roomForPreempted {
					return
				}
			}
			t.Errorf("%+v, want %s", e.Reasons, want)
		}
		const stopping = "cell a is stopping it: its room is given to d/high/0, which has preempt_priority 80"
		says(codePreempted, stopping)
		for _, x := range r.b.Preemptibles(80, 10) {
			if !x.Ending {
				t.Errorf("%+v", x)
			}
		}
		r.reelect()
		says(codePreempted, stopping)
		for _, x := range all {
			if err := r.event(x.Key, lrp.Remove{By: x.Identity}); err != nil {
				t.Fatal(err)
			}
		}
		r.reelect()
		e, _ := r.b.ExplainInstance(webKey, 0)
		if e.State != "UNCLAIMED" || len(e.Reasons) < 2 {
			t.Fatalf("%+v", e)
		}
		says(codePreempted, "stopped on cell a at ")
		if all := r.b.Preemptibles(80, 10); len(all) != 0 {
			t.Errorf("%+v", all)
		}
		r.serve()
		if e, _ := r.b.ExplainInstance(webKey, 0); !e.Fine || len(e.Reasons) != 0 {
			t.Errorf("%+v", e)
		}
	})
}

// TestPreemptIsAllOrNothing: none is stopped if one has changed, or if the work waits no longer.
func TestPreemptIsAllOrNothing(t *testing.T) {
	for name, c := range map[string]struct {
		change func(r *rig, b *Beneficiary, all []Preemptible)
		err    error
	}{
		"as planned": {func(*rig, *Beneficiary, []Preemptible) {}, nil},
		"one crashed": {func(r *rig, _ *Beneficiary, all []Preemptible) {
			_ = r.event(all[1].Key, lrp.Crash{By: all[1].Identity, Reason: "r"})
		}, lrp.ErrCannotBePreempted},
		"one is of a rollout": {func(r *rig, _ *Beneficiary, _ []Preemptible) {
			d := ranked("web", 2, 10)
			d.Workload.Resources = map[string]int{"memory_mb": 1}
			r.apply([]lrp.Desired{d, ranked("high", 1, 80)}, nil)
		}, lrp.ErrCannotBePreempted},
		"their priority was raised": {func(r *rig, _ *Beneficiary, _ []Preemptible) {
			r.apply([]lrp.Desired{ranked("web", 2, 80), ranked("high", 1, 80)}, nil)
		}, lrp.ErrCannotBePreempted},
		"its priority was lowered": {func(r *rig, _ *Beneficiary, _ []Preemptible) {
			r.apply([]lrp.Desired{ranked("web", 2, 10), ranked("high", 1, 10)}, nil)
		}, lrp.ErrCannotBePreempted},
		"the service is gone": {func(r *rig, _ *Beneficiary, _ []Preemptible) {
			r.apply([]lrp.Desired{ranked("high", 1, 80)}, nil)
		}, lrp.ErrCannotBePreempted},
		"it runs": {func(r *rig, b *Beneficiary, _ []Preemptible) {
			_ = r.event(b.Key, lrp.Claim{By: lrp.Identity{Instance: "x", Cell: "b", Proc: "b1"}})
		}, fault.ErrConflict},
		"it is not wanted": {func(r *rig, _ *Beneficiary, _ []Preemptible) {
			r.apply([]lrp.Desired{ranked("web", 2, 10)}, nil)
		}, fault.ErrConflict},
		"it crashes again and again": {func(r *rig, b *Beneficiary, _ []Preemptible) {
			for i := range loops {
				by := lrp.Identity{Instance: fmt.Sprint("x", i), Cell: "b", Proc: "b1"}
				_ = r.event(b.Key, lrp.Claim{By: by})
				_ = r.event(b.Key, lrp.Crash{By: by, Reason: "r"})
				r.advance(10 * time.Minute)
			}
		}, fault.ErrConflict},
		"an unknown task": {func(_ *rig, b *Beneficiary, _ []Preemptible) { *b = Beneficiary{Task: TaskID{"x", "y"}} },
			fault.ErrConflict},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				b, _ := full(t, r)
				all := r.b.Preemptibles(80, 10)
				if len(all) != 2 {
					t.Fatal(all)
				}
				c.change(r, &b, all)
				r.stopped()
				if err := r.b.Preempt(b, all); !errors.Is(err, c.err) {
					t.Errorf("%v, want %v", err, c.err)
				}
				synctest.Wait()
				want := "d/high/0 d/high/0"
				if c.err != nil {
					want = " "
				}
				x, y := r.b.services.Index(all[0].Key).Ordinary, r.b.services.Index(all[1].Key).Ordinary
				if x == nil || y == nil { // with their service
					x, y = &lrp.Actual{}, &lrp.Actual{}
				}
				if got := x.Preempted.By + " " + y.Preempted.By; got != want {
					t.Errorf("stopped for: %q", got)
				}
			})
		})
	}
}

// TestPreemptForATask: its priority counts, and its uid.
func TestPreemptForATask(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		_, b := full(t, r)
		all := r.b.Preemptibles(70, 1)
		other := b
		other.Task.UID = "other"
		if err := r.b.Preempt(other, all); !errors.Is(err, fault.ErrConflict) {
			t.Error(err)
		}
		if err := r.b.Preempt(b, all); err != nil {
			t.Error(err)
		}
		if got := fmt.Sprint(r.stopped()); got != "[0]" {
			t.Errorf("stopped: %s", got)
		}
		if err := r.taskEvent(b.Task.GUID, task.Start{UID: b.Task.UID, By: task.Holder{Cell: "b", Proc: "b1"},
			Reservation: "x"}); err != nil {
			t.Fatal(err)
		}
		if err := r.b.Preempt(b, nil); !errors.Is(err, fault.ErrConflict) {
			t.Errorf("a task that has run: %v", err)
		}
	})
}

// TestPreemptibles are the instances of lower priority that serve or are being stopped, the lowest priority first.
func TestPreemptibles(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*lrp.Desired)
		then   func(r *rig, all []Preemptible)
		want   string
	}{
		"all":   {want: "[web/0 10 false, web/1 10 false, x/0 20 false]"},
		"equal": {change: func(d *lrp.Desired) { d.PreemptPriority = 60 }, want: "[x/0 20 false]"},
		"default": {change: func(d *lrp.Desired) { d.PreemptPriority = 0 },
			want: "[x/0 20 false, web/0 50 false, web/1 50 false]"},
		"exclusive":  {change: func(d *lrp.Desired) { d.Exclusive = true }, want: "[x/0 20 false]"},
		"stop first": {change: func(d *lrp.Desired) { d.Strategy = lrp.StopFirst }, want: "[x/0 20 false]"},
		"a fixed port": {change: func(d *lrp.Desired) {
			d.Instances, d.Workload.Ports = 1, []action.Port{{Name: "p", Fixed: 8080}}
		}, want: "[x/0 20 false]"},
		"crashed": {then: func(r *rig, all []Preemptible) {
			for range 5 {
				_ = r.event(all[0].Key, lrp.Crash{By: all[0].Identity, Reason: "r"})
			}
		}, want: "[web/1 10 false, x/0 20 false]"},
		"being restarted": {then: func(r *rig, _ []Preemptible) {
			_, _ = r.b.RetireInstances(r.t.Context(), webKey, []int{1}, plan.Write{})
		}, want: "[web/0 10 false, web/1 10 true, x/0 20 false]"},
		"a rollout": {then: func(r *rig, _ []Preemptible) {
			d := web(2, "2")
			d.PreemptPriority = 10
			r.apply([]lrp.Desired{d, ranked("x", 1, 20)}, nil)
		}, want: "[x/0 20 false]"},
		"removed": {then: func(r *rig, _ []Preemptible) { r.apply([]lrp.Desired{ranked("x", 1, 20)}, nil) },
			want: "[x/0 20 false]"},
		"moved": {then: func(r *rig, _ []Preemptible) {
			r.advance(lrp.MoveAfter)
			r.relocate()
		}, want: "[]"},
	} {
		inBubble(t, func(t *testing.T, r *rig) {
			d := ranked("web", 2, 10)
			if c.change != nil {
				c.change(&d)
			}
			r.apply([]lrp.Desired{d, ranked("x", 1, 20)}, nil)
			r.serve()
			if c.then != nil {
				c.then(r, r.b.Preemptibles(60, 10))
			}
			synctest.Wait()
			var got []string
			for _, x := range r.b.Preemptibles(60, 10) {
				name := r.b.services.Index(x.Key).Ordinary.Service.Name
				got = append(got, fmt.Sprintf("%s/%d %d %v", name, x.Key.Index, x.Priority, x.Ending))
			}
			if text := "[" + strings.Join(got, ", ") + "]"; text != c.want {
				t.Errorf("%s: %s, want %s", name, text, c.want)
			}
			if n := len(r.b.Preemptibles(60, 1)); n > 1 {
				t.Errorf("%s: %d, at most 1", name, n)
			}
		})
	}
}

package schedule

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"cantina/cron"
	"cantina/task"
)

// TestQueueIsAMapByMoment compares the queue with a map that is searched.
func TestQueueIsAMapByMoment(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q Queue
		model := map[int]int64{}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			n := rapid.IntRange(0, 30).Draw(t, "n")
			if rapid.IntRange(0, 3).Draw(t, "what") == 0 {
				q.Remove(n)
				delete(model, n)
			} else {
				at := rapid.Int64Range(0, 50).Draw(t, "at")
				q.Set(n, at)
				model[n] = at
			}
			n, at, ok := q.First()
			if ok != (len(model) > 0) || q.Len() != len(model) {
				t.Fatalf("first %v, %d of %d", ok, q.Len(), len(model))
			}
			if ok && model[n] != at {
				t.Fatalf("%d is at %d, not %d", n, model[n], at)
			}
			for x, other := range model {
				if other < at {
					t.Fatalf("%d at %d is before the first, %d", x, other, at)
				}
			}
		}
	})
}

// row is a schedule for a board, with its calendar.
func row(t *testing.T, name, line string) (Row, cron.Schedule) {
	t.Helper()
	d := &Definition{Calendar: Calendar{Line: line, Zone: "UTC"}, Task: &task.Definition{}}
	it, _, err := d.Item(Key{"d", name}, time.UTC, born(), born())
	if err != nil {
		t.Fatal(err)
	}
	return Row{Key: Key{"d", name}, UID: name, Created: born(), Definition: d, State: New(born())},
		cron.Schedule{Item: it, Zone: time.UTC}
}

func TestBoardReturnsDueWorkInOrder(t *testing.T) {
	b := NewBoard()
	for i, line := range []string{"5 * * * *", "3 * * * *", "4 * * * *"} {
		r, c := row(t, fmt.Sprint(i), line)
		b.Put(r, c, nil)
	}
	if at, ok := b.First(); !ok || !at.Equal(born().Add(33*time.Minute)) {
		t.Fatal(at, ok)
	}
	now := born().Add(34 * time.Minute)
	var got []string
	for k, ok := b.Due(now); ok; k, ok = b.Due(now) {
		got = append(got, k.Name)
		st, moves, err := b.Step(k, Tick{}, Env{Now: now})
		if err != nil || len(moves) != 1 {
			t.Fatal(moves, err)
		}
		b.Update(k, st)
	}
	if fmt.Sprint(got) != "[1 2]" {
		t.Fatal(got)
	}
	if at, _ := b.First(); !at.Equal(born().Add(35 * time.Minute)) {
		t.Fatal(at)
	}
}

func TestBoardForgetsAndReusesNumbers(t *testing.T) {
	b := NewBoard()
	for i := range 100 {
		r, c := row(t, fmt.Sprint(i%7), "* * * * *")
		b.Put(r, c, nil)
		if i%3 == 0 {
			b.Delete(r.Key)
			if _, ok := b.Get(r.Key); ok {
				t.Fatal("still there")
			}
		}
	}
	n := b.Len()
	now := born().Add(time.Hour)
	for k, ok := b.Due(now); ok; k, ok = b.Due(now) {
		if _, there := b.Get(k); !there {
			t.Fatalf("%v is due and gone", k)
		}
		n--
	}
	if n != 0 {
		t.Fatalf("%d schedules are in no queue", n)
	}
	if _, _, err := b.Step(Key{"d", "none"}, Tick{}, Env{}); !errors.Is(err, ErrNotFound) {
		t.Fatal(err)
	}
}

// TestABrokenCalendarNeverFires: its state is kept, and it goes on when it can be read.
func TestABrokenCalendarNeverFires(t *testing.T) {
	b := NewBoard()
	r, c := row(t, "x", "* * * * *")
	broken := errors.New("no such zone")
	b.Put(r, cron.Schedule{}, broken)
	if _, ok := b.First(); ok {
		t.Fatal("it is in the queue")
	}
	if _, _, err := b.Step(r.Key, Tick{}, Env{Now: born().Add(time.Hour)}); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	b.Put(r, c, nil)
	if k, ok := b.Due(born().Add(time.Hour)); !ok || k != r.Key {
		t.Fatal(k, ok)
	}
}

func TestOfTask(t *testing.T) {
	now := born()
	cancelled := &task.Task{State: task.Completed, Outcome: task.Cancelled, Holder: task.Holder{Cell: "c", Proc: "p"},
		FirstCompleted: now, Definition: &task.Definition{}}
	gone, pending, kept := *cancelled, *cancelled, *cancelled
	gone.Result.Ended = now
	pending.Holder = task.Holder{}
	kept.Definition = &task.Definition{OnLost: task.LostKeep}
	for _, c := range []struct {
		name        string
		x           *task.Task
		over        time.Duration
		heard, dead bool
		want        Answer
	}{
		{"none", nil, 0, true, false, Ended},
		{"pending", &task.Task{}, 0, false, false, Running},
		{"running, its cell not heard yet", &task.Task{State: task.Running}, 0, false, false, Unknown},
		{"running", &task.Task{State: task.Running}, 0, true, false, Running},
		{"running on a dead cell, not yet lost", &task.Task{State: task.Running}, 0, false, true, Running},
		{"completed", &task.Task{State: task.Completed, Outcome: task.Succeeded}, 0, true, false, Ended},
		{"lost and may still run", &task.Task{State: task.Completed, Outcome: task.Lost, MayStillRun: true}, 0, true, false,
			Running},
		{"the same, settled", &task.Task{State: task.Completed, Outcome: task.Lost, MayStillRun: true,
			Resolution: task.ResolvedDone}, 0, true, false, Ended},
		{"cancelled, its cell has not said that it is gone", cancelled, time.Hour, false, false, Running},
		{"cancelled, gone", &gone, 0, true, false, Ended},
		{"cancelled before it started", &pending, 0, true, false, Ended},
		{"cancelled, its cell dead", cancelled, 0, true, true, Ended},
		{"cancelled, may outlive its cell", &kept, 20 * time.Second, true, true, Running},
		{"cancelled, may outlive its cell, after its grace time", &kept, 22 * time.Second, true, true, Ended},
	} {
		if got := OfTask(c.x, c.over, c.heard, c.dead); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestValidate(t *testing.T) {
	good := func() *Definition {
		return &Definition{Calendar: Calendar{Line: hourly}, Job: &Job{}}
	}
	if err := good().Validate(); err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]func(*Definition){
		"nothing to do":       func(d *Definition) { d.Job = nil },
		"no calendar":         func(d *Definition) { d.Line = "" },
		"two calendars":       func(d *Definition) { d.JSON = "{}" },
		"max without allow":   func(d *Definition) { d.Max = 2 },
		"allow without max":   func(d *Definition) { d.Overlap = OverlapAllow },
		"misfire_max of once": func(d *Definition) { d.MisfireMax = 2 },
		"negative deadline":   func(d *Definition) { d.Deadline = -1 },
		"negative jitter":     func(d *Definition) { d.Jitter = -1 },
	} {
		d := good()
		f(d)
		if err := d.Validate(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

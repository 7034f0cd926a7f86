package task

import (
	"fmt"
	"testing"
	"time"
)

// TestAPlaceIsAskedForAnewInEachLife: a request of an earlier life does not count for the present one.
func TestAPlaceIsAskedForAnewInEachLife(t *testing.T) {
	for name, again := range map[string]func(w *world){
		"placed anew": func(w *world) {
			_ = w.step("g", Start{UID: "ug", By: alpha, Reservation: "r"})
			w.quiesce()
			w.now = w.now.Add(25 * time.Second)
			_ = w.step("g", Reject{UID: "ug", By: alpha, Reason: "no disk"})
		},
		"another of the same guid": func(w *world) {
			w.quiesce()
			w.now = w.now.Add(25 * time.Second)
			row, _, err := Desire(Task{GUID: "g", UID: "u2", Domain: "d", Definition: &Definition{}}, w.now)
			if err != nil {
				t.Fatal(err)
			}
			w.b.Put(row)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Policy{})
			w.desire("g", Definition{})
			w.quiesce()
			again(w)
			w.quiesce()
			w.did = nil
			w.now = w.now.Add(30*time.Second - 1)
			if w.quiesce(); len(w.did) != 0 {
				t.Fatal("asked again too early", w.did)
			}
			w.now = w.now.Add(1)
			if out := w.b.Converge(w.now); len(out) != 1 || fmt.Sprintf("%T", out[0].Event) != "task.Kick" {
				t.Fatalf("30 s after: %+v", out)
			}
		})
	}
}

// TestAnUnchangedRowKeepsItsRequest: a refusal that changes the reason alone requests nothing again.
func TestAnUnchangedRowKeepsItsRequest(t *testing.T) {
	w := newWorld(t, Policy{})
	w.desire("g", Definition{})
	w.quiesce()
	w.now = w.now.Add(25 * time.Second)
	if err := w.step("g", Reject{UID: "ug", Reason: "memory"}); err != nil {
		t.Fatal(err)
	}
	w.quiesce()
	w.now = w.now.Add(5 * time.Second)
	if out := w.b.Converge(w.now); len(out) != 1 {
		t.Fatalf("30 s after it was asked for: %+v", out)
	}
}

func resolving(t *testing.T) (*world, *Task) {
	t.Helper()
	w := newWorld(t, Policy{})
	w.desire("g", Definition{CallbackURL: "http://x"})
	_ = w.step("g", Cancel{})
	w.quiesce()
	if row := w.b.Get("g"); row.State != Resolving {
		t.Fatalf("%+v", row)
	}
	return w, w.b.Get("g")
}

// TestSendingIsAboutOneEnd of one task: the state of another delivery holds nothing back.
func TestSendingIsAboutOneEnd(t *testing.T) {
	demoted := func(w *world) bool {
		w.now = w.now.Add(time.Minute)
		out := w.b.ConvergeAll(w.now)
		return len(out) == 1 && fmt.Sprintf("%T", out[0].Event) == "task.Demote"
	}
	for name, c := range map[string]struct {
		do      func(w *world, row *Task)
		demoted bool
	}{
		"none under way": {func(*world, *Task) {}, true},
		"under way":      {func(w *world, row *Task) { w.b.Sending(row.Delivery(), true) }, false},
		"over": {func(w *world, row *Task) {
			w.b.Sending(row.Delivery(), true)
			w.b.Sending(row.Delivery(),
				false)
		}, true},
		"of an earlier end": {func(w *world, row *Task) { w.b.Sending(Delivery{"g", "ug", row.Verdict - 1}, true) }, true},
		"of another task":   {func(w *world, row *Task) { w.b.Sending(Delivery{"g", "u2", row.Verdict}, true) }, true},
		"of none":           {func(w *world, row *Task) { w.b.Sending(Delivery{"x", "ux", 1}, true) }, true},
		"the row is written again": {func(w *world, row *Task) {
			w.b.Sending(row.Delivery(), true)
			same := *row
			w.b.Put(&same)
		}, false},
		"another end": {func(w *world, row *Task) {
			w.b.Sending(row.Delivery(), true)
			next := *row
			next.Verdict++
			w.b.Put(&next)
		}, true},
		"asked for again": {func(w *world, row *Task) {
			w.b.Sending(row.Delivery(), true)
			back := *row
			back.State = Completed
			w.b.Put(&back)
			w.b.Put(row)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w, row := resolving(t)
			c.do(w, row)
			if got := demoted(w); got != c.demoted {
				t.Errorf("demoted %v, want %v", got, c.demoted)
			}
		})
	}
	w := newWorld(t, Policy{})
	w.desire("g", Definition{CallbackURL: "http://x"})
	_ = w.step("g", Cancel{})
	row := w.b.Get("g")
	w.b.Sending(row.Delivery(), true) // COMPLETED: nothing is delivered
	next := *row
	next.State = Resolving
	w.b.Put(&next)
	if !demoted(w) {
		t.Error("sending was noted for a row that is not RESOLVING")
	}
}

// TestSinceEnd counts from the load only for the row that was loaded.
func TestSinceEnd(t *testing.T) {
	row := rowOf(t, "COMPLETED self")
	row.Outcome = Cancelled
	now := t0.Add(time.Hour)
	b := NewBoard(Policy{})
	if got := b.SinceEnd(row, now); got != time.Hour {
		t.Errorf("unknown to the board: %v", got)
	}
	b.Load(row, now.Add(-time.Minute), false)
	if got := b.SinceEnd(row, now); got != time.Minute {
		t.Errorf("loaded: %v", got)
	}
	if got := b.SinceEnd(row, t0); got != 0 {
		t.Errorf("a clock that goes back: %v", got)
	}
	other := *row
	other.UID = "u2"
	if got := b.SinceEnd(&other, now); got != time.Hour {
		t.Errorf("another of the same guid: %v", got)
	}
	same := *row
	b.Put(&same)
	if got := b.SinceEnd(&same, now); got != time.Minute {
		t.Errorf("written again: %v", got)
	}
	b.Put(&other)
	if got := b.SinceEnd(&other, now); got != time.Hour {
		t.Errorf("another one in its place: %v", got)
	}
}

// TestTheOldestGoFirst, by time and then by name, once each, and none that a callback waits for.
func TestTheOldestGoFirst(t *testing.T) {
	end := func(b *Board, guid, uid string, at time.Duration, def *Definition) *Task {
		r := &Task{GUID: guid, UID: uid, Domain: "d", Definition: def, Created: t0, Updated: t0, State: Completed,
			Outcome: Failed,
			Verdict: 1, FirstCompleted: t0.Add(at)}
		b.Put(r)
		return r
	}
	plain := &Definition{}
	names := func(out []Move) (s string) {
		for _, m := range out {
			s += fmt.Sprintf("%s:%T ", m.GUID, m.Event)
		}
		return s
	}
	b := NewBoard(Policy{KeepPerDomain: 2})
	end(b, "c", "u", 2, plain)
	end(b, "b", "u", 1, plain)
	if got := names(b.Converge(t0)); got != "" {
		t.Fatalf("as many as are kept: %s", got)
	}
	end(b, "a", "u", 1, plain)
	end(b, "a", "u", 1, plain) // written again
	if got := names(b.Converge(t0)); got != "a:task.Prune " {
		t.Fatalf("one too many: %s", got)
	}
	end(b, "d", "u", 3, plain)
	if got := names(b.Converge(t0)); got != "a:task.Prune b:task.Prune " {
		t.Fatalf("two too many: %s", got)
	}
	b.Delete("a")
	b.Delete("b")
	end(b, "c", "u2", 9, plain) // another life of the guid: it ended last
	end(b, "e", "u", 4, plain)
	if got := names(b.Converge(t0)); got != "d:task.Prune " {
		t.Fatalf("by its present life: %s", got)
	}
	b.Delete("d")
	calls := end(b, "e", "u", 4, &Definition{CallbackURL: "http://x"})
	calls.Callback.Next = t0.Add(time.Hour)
	end(b, "f", "u", 5, plain)
	if got := names(b.Converge(t0)); got != "f:task.Prune " {
		t.Fatalf("a pending delivery stays: %s", got)
	}
	if got := names(b.Converge(t0.Add(48 * time.Hour))); got != "c:task.Prune e:task.KickCallback f:task.Prune " {
		t.Fatalf("after their retention: %s", got)
	}
	if KeepDefault := (Policy{}).WithDefaults().KeepPerDomain; KeepDefault != 10_000 {
		t.Error(KeepDefault)
	}
	for p, want := range map[time.Duration]time.Duration{0: 24 * time.Hour, -1: 2 * time.Minute, time.Hour: time.Hour} {
		if got := (Policy{Retention: p}).WithDefaults().KeptFor(); got != want {
			t.Errorf("retention %v: kept for %v", p, got)
		}
	}
}

// TestProcsOfTheBoard: a process is named as long as one task is on it.
func TestProcsOfTheBoard(t *testing.T) {
	b := NewBoard(Policy{})
	one, two := rowOf(t, "RUNNING self"), rowOf(t, "RUNNING self")
	two.GUID = "h"
	b.Put(one)
	b.Put(two)
	if got := fmt.Sprint(b.Procs(), b.OnProc("pa")); got != "[pa] [g h]" {
		t.Error(got)
	}
	b.Delete("g")
	if got := fmt.Sprint(b.Procs(), b.OnProc("pa")); got != "[pa] [h]" {
		t.Error(got)
	}
	b.Delete("h")
	if got := fmt.Sprint(b.Procs(), b.OnProc("pa"), b.Len()); got != "[] [] 0" {
		t.Error(got)
	}
	if b.SinceEnd(one, t0) < 0 || b.Get("g") != nil {
		t.Error("forgotten")
	}
	b.Quarantine("x", true)
	if out := b.Converge(t0); len(out) != 0 {
		t.Error(out)
	}
}

// TestALateEndCountsFromItself: a lost task whose real end comes is as old as that.
func TestALateEndCountsFromItself(t *testing.T) {
	w := newWorld(t, Policy{KeepPerDomain: 1})
	for _, g := range []string{"x", "y"} {
		w.desire(g, Definition{})
		_ = w.step(g, Start{UID: "u" + g, By: alpha})
	}
	_ = w.step("x", ProcDead{"pa"})
	w.now = w.now.Add(time.Second)
	_ = w.step("y", Complete{UID: "uy", By: alpha})
	w.now = w.now.Add(time.Second)
	_ = w.step("x", Complete{UID: "ux", By: alpha})
	if w.quiesce(); fmt.Sprint(w.b.GUIDs()) != "[x]" {
		t.Fatalf("left: %v, want the one that ended last", w.b.GUIDs())
	}
	w.now = w.now.Add(time.Second)
	w.desire("z", Definition{})
	_ = w.step("z", Cancel{})
	if w.quiesce(); fmt.Sprint(w.b.GUIDs()) != "[z]" {
		t.Fatalf("left: %v, want the one that ended last", w.b.GUIDs())
	}
}

// TestARowIsLoadedInAnyState: the event that made the row requested a placement, but for a loaded row that is
// unknown.
func TestARowIsLoadedInAnyState(t *testing.T) {
	for words, want := range map[string]string{"PENDING": "task.Kick", "RUNNING self": "", "RESOLVING self": "",
		"COMPLETED self": ""} {
		b := NewBoard(Policy{})
		b.Load(rowOf(t, words), t0, false)
		out := b.Converge(t0)
		got := ""
		if len(out) > 0 {
			got = fmt.Sprintf("%T", out[0].Event)
		}
		if got != want {
			t.Errorf("%s: %q, want %q", words, got, want)
		}
		b = NewBoard(Policy{})
		b.Put(rowOf(t, words))
		if out := b.Converge(t0); len(out) != 0 {
			t.Errorf("%s: just made: %+v", words, out)
		}
	}
}

// TestDeletedTasksLeaveTheOrder by age, and present tasks stay in it.
func TestDeletedTasksLeaveTheOrder(t *testing.T) {
	for churn := 50; churn < 90; churn++ {
		b := NewBoard(Policy{KeepPerDomain: 2})
		end := func(guid string, at int) {
			b.Put(&Task{GUID: guid, UID: "u", Domain: "d", Definition: &Definition{}, Created: t0, Updated: t0, State: Completed,
				Outcome: Failed,
				Verdict: 1, FirstCompleted: t0.Add(time.Duration(at))})
		}
		end("a", 0)
		for i := range churn {
			end("gone", i+1)
			b.Delete("gone")
		}
		end("b", churn+1)
		end("c", churn+2)
		if n := b.ended["d"].Len(); n > 2*3+64+1 {
			t.Fatalf("%d entries of 3 tasks", n)
		}
		end("e", churn+3)
		got := ""
		for _, m := range b.Converge(t0.Add(time.Minute)) {
			got += m.GUID
		}
		if got != "ab" {
			t.Fatalf("after %d that are gone: %q is pruned, want the two oldest", churn, got)
		}
	}
}

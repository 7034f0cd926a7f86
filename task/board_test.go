package task

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"cantina/action"
)

// world is a board with a leader's loop around it.
type world struct {
	t   testing.TB
	b   *Board
	now time.Time
	did []Effect
}

func (w *world) desire(guid string, def Definition) {
	row, effects, err := Desire(Task{GUID: guid, UID: "u" + guid, Domain: "d", Definition: &def}, w.now)
	if err != nil {
		w.t.Fatal(err)
	}
	w.did = append(w.did, effects...)
	w.b.Put(row)
}

func (w *world) step(guid string, e Event) error {
	row, effects, err := Step(w.b.Get(guid), e, Env{Now: w.now, Eligible: true, Policy: w.b.Policy()})
	if err != nil {
		return err
	}
	w.did = append(w.did, effects...)
	if row == nil {
		w.b.Delete(guid)
	} else {
		w.b.Put(row)
	}
	return nil
}

func (w *world) quiesce() (moves int) {
	for range 100 {
		out := w.b.Converge(w.now)
		if len(out) == 0 {
			return moves
		}
		for _, m := range out {
			if err := w.step(m.GUID, m.Event); err != nil {
				w.t.Fatalf("%T of %s: %v", m.Event, m.GUID, err)
			}
		}
		moves += len(out)
	}
	w.t.Fatal("convergence does not end")
	return 0
}

func newWorld(t testing.TB, p Policy) *world { return &world{t: t, b: NewBoard(p), now: t0} }

func TestConvergenceDuties(t *testing.T) {
	w := newWorld(t, Policy{})
	w.desire("pending", Definition{})
	w.desire("running", Definition{})
	_ = w.step("running", Start{UID: "urunning", By: alpha, Reservation: "r"})
	w.quiesce()
	w.did = nil

	w.now = w.now.Add(30 * time.Second) // re-emit the start request of a stuck PENDING
	if n := w.quiesce(); n != 1 || w.did[0] != (RequestAuction{"pending", "upending"}) {
		t.Errorf("%d moves, %v", n, w.did)
	}
	w.b.ProcDied("pa") // RUNNING on a failed cell
	if w.quiesce(); w.b.Get("running").Outcome != Lost {
		t.Errorf("%+v", w.b.Get("running"))
	}
	w.now = t0.Add(30 * time.Minute)
	if w.quiesce(); w.b.Get("pending").Result.Reason != ReasonNotStarted {
		t.Errorf("%+v", w.b.Get("pending"))
	}
	_ = w.step("pending", Resolve{}) // stuck RESOLVING
	w.quiesce()
	w.now = w.now.Add(30 * time.Second)
	if w.quiesce(); w.b.Get("pending").State != Completed {
		t.Errorf("%v", w.b.Get("pending").State)
	}
	w.now = w.now.Add(24 * time.Hour) // completed too long ago; the lost one waits for an operator
	if w.quiesce(); w.b.Get("pending") != nil || w.b.Get("running") == nil {
		t.Errorf("%v %v", w.b.Get("pending"), w.b.Get("running"))
	}
	_ = w.step("running", ResolveLost{As: ResolvedFailed})
	if w.quiesce(); w.b.Len() != 0 {
		t.Errorf("%d left", w.b.Len())
	}
}

func TestCompletedIsDeliveredAgain(t *testing.T) {
	w := newWorld(t, Policy{})
	w.desire("g", Definition{CallbackURL: "http://x"})
	_ = w.step("g", Cancel{})
	w.did = nil
	w.quiesce()
	if len(w.did) != 1 || w.did[0] != (CallBack{"g", "ug"}) {
		t.Fatalf("%v", w.did)
	}
	_ = w.step("g", CallbackDone{UID: "ug", Verdict: 1, Error: "refused"})
	w.did = nil
	if w.quiesce(); len(w.did) != 0 {
		t.Fatalf("at once: %v", w.did)
	}
	w.now = w.now.Add(30 * time.Second)
	if w.quiesce(); len(w.did) != 1 {
		t.Fatalf("after 30 s: %v", w.did)
	}
	w.did = nil
	w.now = w.now.Add(30 * time.Second) // the answer never comes: demoted, called again
	if w.quiesce(); len(w.did) != 1 {
		t.Fatalf("stuck: %v", w.did)
	}
	_ = w.step("g", CallbackDone{UID: "ug", Verdict: 1, Error: "refused"}) // the second run: due after 60 s
	w.did = nil
	for range 59 {
		w.now = w.now.Add(time.Second)
		if w.quiesce(); len(w.did) != 0 {
			t.Fatalf("early: %v", w.did)
		}
	}
	w.now = w.now.Add(time.Second)
	if w.quiesce(); len(w.did) != 1 {
		t.Fatalf("after 60 s: %v", w.did)
	}
}

// TestADeliveryUnderWayIsNotDemoted for any duration; one of an earlier verdict, and one that was not taken,
// protects nothing.
func TestADeliveryUnderWayIsNotDemoted(t *testing.T) {
	w := newWorld(t, Policy{})
	w.desire("g", Definition{CallbackURL: "http://x"})
	_ = w.step("g", Cancel{})
	w.quiesce()
	d := Delivery{"g", "ug", 1}
	w.b.Sending(d, true)
	w.did = nil
	w.now = w.now.Add(time.Hour)
	if w.quiesce(); len(w.did) != 0 || w.b.Get("g").State != Resolving || len(w.b.ConvergeAll(w.now)) != 0 {
		t.Fatalf("%v %+v", w.did, w.b.Get("g"))
	}
	w.b.Sending(Delivery{"g", "ug", 2}, false)
	w.b.Sending(Delivery{"g", "another", 1}, false)
	if w.quiesce(); w.b.Get("g").State != Resolving {
		t.Fatalf("%+v", w.b.Get("g"))
	}
	w.b.Sending(d, false)
	if w.quiesce(); len(w.did) != 1 {
		t.Fatalf("no delivery of it: %v", w.did)
	}
}

// TestAnEndThatReplacesAnother has a delivery of its own; the result of the earlier delivery does not count for it.
func TestAnEndThatReplacesAnother(t *testing.T) {
	w := newWorld(t, Policy{})
	w.desire("g", Definition{CallbackURL: "http://x"})
	_ = w.step("g", Start{UID: "ug", By: alpha, Reservation: "r"})
	w.b.ProcDied("pa")
	w.quiesce()
	lost := w.b.Get("g").Delivery()
	w.b.Sending(lost, true)
	_ = w.step("g", Complete{UID: "ug", By: alpha, Result: Result{Output: []byte("done")}})
	w.did = nil
	w.quiesce()
	row := w.b.Get("g")
	if row.Outcome != Succeeded || row.State != Resolving || len(w.did) != 1 {
		t.Fatalf("%+v %v", row, w.did)
	}
	if lost.ID() != "ug" || row.Delivery().ID() != "ug-2" {
		t.Errorf("%v, then %v", lost.ID(), row.Delivery().ID())
	}
	for _, delivered := range []bool{true, false} {
		if _ = w.step("g", CallbackDone{UID: "ug", Verdict: 1, Delivered: delivered}); w.b.Get("g") != row {
			t.Errorf("the delivery of lost is taken for that of the end: %+v", w.b.Get("g"))
		}
	}
	if _ = w.step("g", CallbackDone{UID: "ug", Verdict: 2, Delivered: true}); !w.b.Get("g").Callback.Delivered {
		t.Errorf("%+v", w.b.Get("g"))
	}
}

func TestSeedRetention(t *testing.T) {
	w := newWorld(t, Policy{Retention: -1})
	w.desire("g", Definition{CallbackURL: "http://x"})
	_ = w.step("g", Cancel{})
	w.quiesce()
	w.now = t0.Add(2 * time.Minute)
	_ = w.step("g", CallbackDone{UID: "ug", Verdict: 1, Error: "refused"})
	if w.quiesce(); w.b.Len() != 0 {
		t.Errorf("kept: %+v", w.b.Get("g"))
	}
}

func TestDomainKeepsTheNewest(t *testing.T) {
	w := newWorld(t, Policy{KeepPerDomain: 3})
	for i := range 8 {
		g := fmt.Sprint("g", i)
		w.now = w.now.Add(time.Second)
		w.desire(g, Definition{})
		if i == 0 {
			_ = w.step(g, Start{UID: "u" + g, By: alpha})
			_ = w.step(g, ProcDead{"pa"})
		}
		_ = w.step(g, Cancel{})
		w.quiesce()
	}
	if got := fmt.Sprint(w.b.GUIDs()); got != "[g0 g6 g7]" { // g0 is lost and waits
		t.Errorf("%s", got)
	}
	for i := range 1000 { // a removed task takes no room
		g := fmt.Sprint("h", i)
		w.desire(g, Definition{})
		_ = w.step(g, Cancel{})
		w.quiesce()
	}
	if n := w.b.ended["d"].Len(); n > 100 {
		t.Errorf("%d entries for 3 tasks", n)
	}
}

// TestACancelledTaskGoesOnlyWhenItsContainerHas, also when others are newer and its retention is over: its cell has
// reported that end, or is certainly dead.
func TestACancelledTaskGoesOnlyWhenItsContainerHas(t *testing.T) {
	for name, ends := range map[string]func(w *world){
		"the cell reports it":        func(w *world) { _ = w.step("g", Missing{UID: "ug", By: alpha}) },
		"the cell is certainly dead": func(w *world) { w.b.ProcDied(alpha.Proc) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Policy{KeepPerDomain: 1})
			w.desire("g", Definition{})
			_ = w.step("g", Start{UID: "ug", By: alpha})
			_ = w.step("g", Cancel{})
			w.now = w.now.Add(time.Second)
			w.desire("newer", Definition{})
			_ = w.step("newer", Cancel{})
			w.quiesce()
			w.now = w.now.Add(48 * time.Hour)
			w.quiesce()
			if got := fmt.Sprint(w.b.GUIDs(), w.b.Procs()); got != "[g] [pa]" {
				t.Fatal(got)
			}
			ends(w)
			if w.quiesce(); w.b.Len() != 0 {
				t.Fatal(w.b.GUIDs())
			}
		})
	}
}

// TestACancelledTaskThatOutlivesItsCellHasItsGraceTime also when its cell is dead, and no other
// is so new that it goes before.
func TestACancelledTaskThatOutlivesItsCellHasItsGraceTime(t *testing.T) {
	w := newWorld(t, Policy{KeepPerDomain: 1})
	w.desire("g", Definition{Workload: action.Workload{Action: action.Action{Run: &action.Run{Path: "/bin/sleep"}},
		OnCellRestart: action.RestartKeep, Termination: action.Termination{Grace: 5 * time.Second}}})
	_ = w.step("g", Start{UID: "ug", By: alpha})
	_ = w.step("g", Cancel{})
	w.now = w.now.Add(time.Second)
	w.b.ProcDied(alpha.Proc)
	w.desire("newer", Definition{})
	_ = w.step("newer", Cancel{})
	w.quiesce()
	if w.b.Get("g") == nil {
		t.Fatal("forgotten while its container may be there")
	}
	w.now = w.now.Add(20 * time.Second)
	w.desire("newest", Definition{})
	_ = w.step("newest", Cancel{})
	if w.quiesce(); w.b.Get("g") != nil || w.b.Len() != 1 {
		t.Fatal(w.b.GUIDs())
	}
}

// TestTheGraceTimeOfAnotherLeadersCancelCountsFromTheLoad: that leader's clock may have been far behind, and its
// container may have got the stop signal just now.
func TestTheGraceTimeOfAnotherLeadersCancelCountsFromTheLoad(t *testing.T) {
	w := newWorld(t, Policy{KeepPerDomain: 1})
	w.desire("g", Definition{OnLost: LostKeep})
	for _, e := range []Event{Start{UID: "ug", By: alpha}, Cancel{}} {
		if err := w.step("g", e); err != nil {
			t.Fatal(err)
		}
	}
	row := w.b.Get("g")
	next := newWorld(t, Policy{KeepPerDomain: 1})
	next.now = w.now.Add(time.Hour)
	next.b.Load(row, next.now, false)
	next.b.ProcDied(alpha.Proc)
	next.desire("newer", Definition{})
	_ = next.step("newer", Cancel{})
	if next.quiesce(); next.b.Get("g") == nil {
		t.Fatal("forgotten although its container may still be there")
	}
	if d := next.b.SinceEnd(row, next.now.Add(time.Second)); d != time.Second {
		t.Errorf("over for %v", d)
	}
	next.now = next.now.Add(time.Minute)
	next.desire("newest", Definition{})
	_ = next.step("newest", Cancel{})
	if next.quiesce(); next.b.Get("g") != nil {
		t.Fatal("kept for ever")
	}
}

func TestQuarantinedTasksAreLeftAlone(t *testing.T) {
	w := newWorld(t, Policy{})
	w.desire("g", Definition{})
	w.b.Quarantine("g", true)
	w.now = w.now.Add(time.Hour)
	if n := w.quiesce(); n != 0 {
		t.Errorf("%d moves", n)
	}
	w.b.Quarantine("g", false)
	if n := w.quiesce(); n == 0 {
		t.Error("not looked at again")
	}
}

func TestLoadedTasksAreAskedForAtOnce(t *testing.T) {
	w := newWorld(t, Policy{})
	w.b.Load(rowOf(&testing.T{}, "PENDING"), w.now, false)
	if w.quiesce(); len(w.did) != 1 || w.did[0] != (RequestAuction{"g", "u"}) {
		t.Errorf("%v", w.did)
	}
}

// TestConvergenceIsIdempotentAndMissesNothing: as for services.
func TestConvergenceIsIdempotentAndMissesNothing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t, Policy{KeepPerDomain: 3, CallbackRuns: 2})
		for i := range rapid.IntRange(1, 40).Draw(rt, "steps") {
			guids := w.b.GUIDs()
			switch what := rapid.IntRange(0, 5).Draw(rt, "what"); {
			case what == 0 || len(guids) == 0:
				w.desire(fmt.Sprint("g", i), Definition{CallbackURL: rapid.SampledFrom([]string{"", "http://x"}).Draw(rt, "url")})
			case what == 1:
				w.now = w.now.Add(time.Duration(rapid.IntRange(0, 100000).Draw(rt, "seconds")) * time.Second)
			case what == 2:
				w.b.ProcDied(rapid.SampledFrom([]string{"pa", "po"}).Draw(rt, "dead"))
			default:
				g := rapid.SampledFrom(guids).Draw(rt, "guid")
				uid := "u" + g
				_ = w.step(g, rapid.SampledFrom([]Event{Start{UID: uid, By: alpha}, Start{UID: uid, By: omega},
					Complete{UID: uid, By: alpha}, Cancel{}, Resolve{},
					CallbackDone{UID: uid, Verdict: 1}, CallbackDone{UID: uid, Verdict: 1, Delivered: true},
					ResolveLost{As: ResolvedDone}, Reject{UID: uid, Reason: "full"}}).Draw(rt, "event"))
			}
			w.quiesce()
			if out := w.b.Converge(w.now); len(out) != 0 {
				rt.Fatalf("second pass: %v", out)
			}
			if out := w.b.ConvergeAll(w.now); len(out) != 0 {
				rt.Fatalf("full pass finds more than the incremental one: %v", out)
			}
		}
	})
}

// TestTasksOfANameThatMayRun: those that wait or run, that have not ended yet, and lost ones that may still run.
func TestTasksOfANameThatMayRun(t *testing.T) {
	b := NewBoard(Policy{})
	x := rowOf(t, "PENDING")
	x.Domain, x.Name = "d", "n"
	step := func(e Event) {
		t.Helper()
		after, _, err := Step(x, e, Env{Now: t0, Eligible: true})
		if err != nil {
			t.Fatal(err)
		}
		x = after
		b.Put(x)
	}
	want := func(n int) {
		t.Helper()
		if got := b.MayRun("d", "n"); len(got) != n || len(b.MayRun("d", "")) != 0 || len(b.MayRun("e", "n")) != 0 {
			t.Errorf("%v: %v", x.State, got)
		}
	}
	b.Put(x)
	want(1)
	step(Start{UID: x.UID, By: alpha, Reservation: "r"})
	want(1)
	running := x
	step(Cancel{})
	want(1)
	step(Missing{UID: x.UID, By: alpha})
	want(0)
	x = running
	d := *x.Definition
	d.OnLost = LostKeep
	kept := *x
	kept.Definition = &d
	x = &kept
	b.Put(x)
	step(ProcDead{Proc: alpha.Proc})
	want(1)
	step(ResolveLost{As: ResolvedDone, Accept: true})
	want(0)
	b.Put(running)
	b.Delete(running.GUID)
	want(0)
}

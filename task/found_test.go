package task

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestTheContainerOfATaskThatWaits makes it RUNNING under the uid and the on_lost of the container.
func TestTheContainerOfATaskThatWaits(t *testing.T) {
	for _, had := range []OnLost{LostEnd, LostKeep} {
		for _, bound := range []bool{true, false} {
			d := &Definition{OnLost: had}
			row := with(t, "PENDING", func(r *Task) { r.Definition, r.Reservation, r.Rejection = d, "r", "full" })
			after, effects, err := Step(row, Found{UID: "u2", By: omega, Bound: bound}, env())
			if err != nil || !slices.Equal(effects, []Effect{WithdrawAuction{"g", "u"}}) {
				t.Fatalf("%v %v", err, effects)
			}
			if after.State != Running || after.UID != "u2" || after.Holder != omega || after.Reservation != "" ||
				after.Rejection != "" || after.Definition.DeadlineBound() != bound || Check(after) != nil {
				t.Errorf("%v, bound %v: %+v of %+v", had, bound, after, after.Definition)
			}
			if d.OnLost != had || (after.Definition == d) != (d.DeadlineBound() == bound) {
				t.Errorf("%v, bound %v: the definition is %+v", had, bound, after.Definition)
			}
		}
	}
}

// TestAContainerIsNotTaken by a row that does not permit it to continue, or that is over.
func TestAContainerIsNotTaken(t *testing.T) {
	keep := func(r *Task) { r.Definition = &Definition{OnLost: LostKeep} }
	cancelled, _, _ := Step(rowOf(t, "RUNNING self"), Cancel{}, env())
	bound, _, _ := Step(rowOf(t, "RUNNING self"), ProcDead{"pa"}, env())
	resolved, _, _ := Step(mayRun(t), ResolveLost{As: ResolvedDone, Accept: true}, env())
	kept, _, _ := Step(with(t, "RUNNING self", keep), Cancel{}, env())
	dead, _, _ := Step(kept, ProcDead{"pa"}, env())
	for name, c := range map[string]struct {
		row   *Task
		event Event
		err   error
	}{
		"found: it runs":                    {rowOf(t, "RUNNING self"), Found{UID: "u", By: omega}, nil},
		"found: it succeeded":               {rowOf(t, "COMPLETED self"), Found{UID: "u", By: alpha}, nil},
		"found: it is being ended":          {cancelled, Found{UID: "u", By: Holder{"alpha", "pa2"}}, nil},
		"found: a lost one that is over":    {bound, Found{UID: "u", By: Holder{"alpha", "pa2"}}, nil},
		"found: a lost one that is decided": {resolved, Found{UID: "u", By: Holder{"alpha", "pa2"}}, nil},
		"cancelled again":                   {cancelled, Cancel{}, ErrInvalidStateTransition},
		"cancelled again, of a dead cell":   {dead, Cancel{}, ErrInvalidStateTransition},
		"cancelled: a lost one that is over": {bound, Cancel{},
			ErrInvalidStateTransition},
		"cancelled: a lost one that is decided": {resolved, Cancel{}, ErrInvalidStateTransition},
		"decided while it is being ended": {cancelled, ResolveLost{As: ResolvedDone, Accept: true},
			ErrInvalidStateTransition},
		"decided twice": {resolved, ResolveLost{As: ResolvedFailed, Accept: true},
			ErrInvalidStateTransition},
		"its process died: it succeeded":  {with(t, "COMPLETED self", keep), ProcDead{"pa"}, nil},
		"its process died: it is decided": {resolved, ProcDead{"pa"}, nil},
		"its process died again":          {dead, ProcDead{"pa"}, nil},
		"another process died":            {kept, ProcDead{"po"}, nil},
	} {
		after, effects, err := Step(c.row, c.event, env())
		if after != c.row || len(effects) != 0 || !errors.Is(err, c.err) {
			t.Errorf("%s: %+v %v %v, want it unchanged and %v", name, after, effects, err, c.err)
		}
	}
}

// TestTheEndsThatNobodySaw are failures, with the reason.
func TestTheEndsThatNobodySaw(t *testing.T) {
	older := env()
	older.Older = true
	for name, c := range map[string]struct {
		row  *Task
		e    Event
		env  Env
		want Outcome
		is   Result
	}{
		"no container": {rowOf(t, "RUNNING self"), Missing{UID: "u", By: alpha}, env(), Failed,
			Result{Failed: true, Reason: ReasonNoContainer}},
		"no container, and the row is older": {rowOf(t, "RUNNING self"), Missing{UID: "u", By: alpha}, older, Lost,
			Result{Failed: true, Reason: ReasonForgotten}},
		"dead": {rowOf(t, "RUNNING self"), ProcDead{"pa"}, env(), Lost, Result{Failed: true, Reason: ReasonLost}},
		"cancelled": {rowOf(t, "RUNNING self"), Cancel{}, env(), Cancelled,
			Result{Failed: true, Cancelled: true, Reason: ReasonCancelled}},
		"cancelled, and lost before": {mayRun(t), Cancel{}, env(), Cancelled,
			Result{Failed: true, Cancelled: true, Reason: ReasonCancelled}},
	} {
		after, _, err := Step(c.row, c.e, c.env)
		r := after.Result
		if err != nil || after.Outcome != c.want || r.Failed != c.is.Failed || r.Cancelled != c.is.Cancelled ||
			r.Reason != c.is.Reason {
			t.Errorf("%s: %v %+v", name, err, after)
		}
	}
}

// TestReportedContainers are found by the guid and by what it begins with, and are forgotten with their process.
func TestReportedContainers(t *testing.T) {
	var r Reported
	_, ok := r.Get("d.n.1")
	if first, n := r.Run("d.n", ""); ok || first != "" || n != 0 {
		t.Fatal("an empty list has containers")
	}
	r.Remove("d.n.1")
	for guid, f := range map[string]Found{
		"d.n.1": {UID: "u1", By: alpha}, "d.n.2": {UID: "u2", By: alpha}, "d.n.2.2": {UID: "u3", By: omega},
		"d.no.1": {UID: "u4", By: omega}, "x": {UID: "u5", By: omega},
	} {
		r.Add(guid, Found{UID: "another", By: f.By, Bound: true})
		r.Add(guid, f) // the later report counts
		if got, ok := r.Get(guid); !ok || got != f {
			t.Errorf("%s: %+v, %v", guid, got, ok)
		}
	}
	runs := func(when string, want map[[2]string]string) {
		t.Helper()
		for ask, want := range want {
			if got, n := r.Run(ask[0], ask[1]); got != want || (n > 0) != (want != "") {
				t.Errorf("%s: the first of %q without %q is %q, want %q", when, ask[0], ask[1], got, want)
			}
		}
	}
	for ask, want := range map[[2]string]int{{"d.n", ""}: 3, {"d.n", "d.n.1"}: 2, {"d.n", "d.n.2"}: 1, {"d", "d.n"}: 1} {
		if _, n := r.Run(ask[0], ask[1]); n != want {
			t.Errorf("%q without %q: %d containers, want %d", ask[0], ask[1], n, want)
		}
	}
	for range 20 { // the order of a map must not count
		runs("all", map[[2]string]string{{"d.n", ""}: "d.n.1", {"d.n", "d.n.1"}: "d.n.2", {"d.n", "d.n.2"}: "d.n.1",
			{"d", "d.n.1"}: "d.n.2", {"d", "d.n"}: "d.no.1", {"d.n.2", ""}: "d.n.2.2", {"d.no", ""}: "d.no.1",
			{"d.no", "d.no.1"}: "", {"d.n.1", ""}: "", {"x", ""}: "", {"e", ""}: "", {"d.", ""}: ""})
	}
	r.Remove("d.n.1")
	runs("without one", map[[2]string]string{{"d.n", ""}: "d.n.2", {"d.n", "d.n.2"}: ""})
	r.Keep("pa", []string{"d.n.2", "d.no.1"})
	r.Keep("po", []string{"d.n.2.2", "x"})
	runs("of those that are listed", map[[2]string]string{{"d.n", ""}: "d.n.2", {"d.no", ""}: "",
		{"d.n.2", ""}: "d.n.2.2"})
	r.Drop("pa")
	runs("without a process", map[[2]string]string{{"d.n", ""}: "d.n.2.2", {"d", ""}: "d.n.2.2"})
	r.Keep("po", nil)
	runs("without any", map[[2]string]string{{"d.n", ""}: "", {"d", ""}: "", {"d.n.2", ""}: ""})
	for _, guid := range []string{"d.n.1", "d.n.2", "d.n.2.2", "d.no.1", "x"} {
		if f, ok := r.Get(guid); ok {
			t.Errorf("%s is still there: %+v", guid, f)
		}
	}
	if len(r.runs) != 0 {
		t.Errorf("it remembers %v", r.runs)
	}
}

// TestRowsFromBeforeARestore are older until they are written again.
func TestRowsFromBeforeARestore(t *testing.T) {
	b := NewBoard(Policy{})
	if b.Older("g") {
		t.Error("no row is older")
	}
	for _, older := range []bool{true, false} {
		b.Load(rowOf(t, "RUNNING self"), t0, older)
		if b.Older("g") != older {
			t.Errorf("loaded: %v, want %v", b.Older("g"), older)
		}
	}
	b.Load(rowOf(t, "RUNNING self"), t0, true)
	if b.Put(rowOf(t, "COMPLETED self")); b.Older("g") {
		t.Error("a row that was written is older")
	}
}

// TestATaskIsRunAgain when it has ended and nothing of it is left.
func TestATaskIsRunAgain(t *testing.T) {
	b := NewBoard(Policy{})
	cancelled, _, _ := Step(rowOf(t, "RUNNING self"), Cancel{}, env())
	bound, _, _ := Step(rowOf(t, "RUNNING self"), ProcDead{"pa"}, env())
	resolved, _, _ := Step(mayRun(t), ResolveLost{As: ResolvedDone, Accept: true}, env())
	for name, c := range map[string]struct {
		row *Task
		err error
	}{
		"waits":     {rowOf(t, "PENDING"), ErrInvalidStateTransition},
		"runs":      {rowOf(t, "RUNNING self"), ErrInvalidStateTransition},
		"succeeded": {rowOf(t, "COMPLETED self"), nil}, "is resolved": {rowOf(t, "RESOLVING self"), nil},
		"is lost": {bound, ErrLostUnresolved}, "is lost, and may run": {mayRun(t), ErrLostUnresolved},
		"is decided": {resolved, nil}, "is being ended": {cancelled, ErrEnding},
	} {
		b.Put(c.row)
		if err := b.MayRerun(c.row, t0); !errors.Is(err, c.err) {
			t.Errorf("one that %s: %v, want %v", name, err, c.err)
		}
	}
	b.Put(cancelled)
	b.ProcDied("pa")
	if err := b.MayRerun(cancelled, t0.Add(1000*time.Hour)); err != nil {
		t.Errorf("one whose process is dead: %v", err)
	}
	ended := rowOf(t, "COMPLETED self")
	ended.Name = "n"
	for name, c := range map[string]struct {
		other *Task
		name  string
		err   error
	}{
		"waits": {rowOf(t, "PENDING"), "n", ErrSameName}, "runs": {rowOf(t, "RUNNING other"), "n", ErrSameName},
		"may run": {mayRun(t), "n", ErrSameName}, "has ended": {rowOf(t, "COMPLETED other"), "n", nil},
		"has another name":                   {rowOf(t, "RUNNING other"), "m", nil},
		"is cancelled, and its process dead": {cancelled, "n", nil},
	} {
		other := *c.other
		other.GUID, other.UID, other.Name = "other", "v", c.name
		b.Put(&other)
		if err := b.MayRerun(ended, t0.Add(1000*time.Hour)); !errors.Is(err, c.err) ||
			err != nil && !strings.Contains(err.Error(), "task other of the same name") {
			t.Errorf("while one that %s: %v, want %v", name, err, c.err)
		}
	}
	unnamed := rowOf(t, "PENDING")
	if b.Put(unnamed); len(b.MayRun("d", "")) != 0 {
		t.Errorf("tasks without a name: %v", b.MayRun("d", ""))
	}
}

// TestWhatMayBeLeftOfATask: nothing of one that has ended, but for its container where that was permitted to continue.
func TestWhatMayBeLeftOfATask(t *testing.T) {
	cancelled, _, _ := Step(rowOf(t, "RUNNING self"), Cancel{}, env())
	bound, _, _ := Step(rowOf(t, "RUNNING self"), ProcDead{"pa"}, env())
	resolved, _, _ := Step(mayRun(t), ResolveLost{As: ResolvedDone, Accept: true}, env())
	for name, c := range map[string]struct {
		row  *Task
		want bool
	}{"waits": {rowOf(t, "PENDING"), true}, "runs": {rowOf(t, "RUNNING self"), true}, "is being ended": {cancelled, true},
		"was permitted to continue": {mayRun(t), true}, "is lost": {bound, false}, "is decided": {resolved, false},
		"succeeded": {rowOf(t, "COMPLETED self"), false}, "is resolved": {rowOf(t, "RESOLVING self"), false}} {
		if got := c.row.MayRun(); got != c.want {
			t.Errorf("one that %s: %v, want %v", name, got, c.want)
		}
	}
}

// TestEndsThatTheStoreMayLack: the leader gets the end of a task that an older store has no row of, and no other.
func TestEndsThatTheStoreMayLack(t *testing.T) {
	for name, c := range map[string]struct {
		v    View
		call Call
	}{
		"ended, of an older store":         {View{Container: Done, Older: true}, CallComplete},
		"ended, of this store":             {View{Container: Done}, NoCall},
		"reserved, of an older store":      {View{Container: Reserved, Older: true}, NoCall},
		"runs, of an older store":          {View{Container: Live, Older: true}, NoCall},
		"ended, and the row has its end":   {View{Container: Done, Older: true, Row: rowOf(t, "COMPLETED self")}, NoCall},
		"ended, and the row of another is": {View{Container: Done, Older: true, Row: rowOf(t, "COMPLETED other")}, NoCall},
	} {
		c.v.Self, c.v.UID, c.v.Reservation = alpha, "u", "r"
		a := Harmonise(c.v)
		if a.Call != c.call || c.call == CallComplete && (a.Then != DeleteContainer || a.Refused != DeleteContainer) {
			t.Errorf("%s: %+v", name, a)
		}
	}
}

package task

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var (
	t0    = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	alpha = Holder{"alpha", "pa"}
	omega = Holder{"omega", "po"}
)

func env() Env { return Env{Now: t0, Eligible: true} }

func rowOf(t *testing.T, words string) *Task {
	t.Helper()
	state, who, _ := strings.Cut(words, " ")
	r := &Task{GUID: "g", UID: "u", Domain: "d", Definition: &Definition{}, Created: t0, Updated: t0}
	switch who {
	case "self":
		r.Holder = alpha
	case "other":
		r.Holder = omega
	}
	switch state {
	case "none":
		return nil
	case "PENDING":
	case "RUNNING":
		r.State = Running
	case "COMPLETED":
		r.State, r.Outcome, r.Verdict, r.FirstCompleted = Completed, Succeeded, 1, t0
	case "RESOLVING":
		r.State, r.Outcome, r.Verdict, r.FirstCompleted = Resolving, Succeeded, 1, t0
	default:
		t.Fatalf("unknown row %q", words)
	}
	return r
}

func eventOf(t *testing.T, c Call) Event {
	t.Helper()
	switch c {
	case CallStart:
		return Start{UID: "u", By: alpha, Reservation: "r"}
	case CallComplete:
		return Complete{UID: "u", By: alpha, Result: Result{Output: []byte("x")}}
	case CallMissing:
		return Missing{UID: "u", By: alpha}
	case CallAdopt:
		return Adopt{UID: "u", From: "older", By: alpha}
	}
	t.Fatalf("no event for %v", c)
	return nil
}

func TestHarmoniseTable(t *testing.T) {
	text, err := os.ReadFile("testdata/harmonise.txt")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(text)) {
		if line[0] == '#' {
			continue
		}
		rows++
		r := strings.Split(strings.TrimSpace(line), " | ")
		t.Run(r[0]+"/"+r[1], func(t *testing.T) {
			v := View{Self: alpha, UID: "u", Reservation: "r", Row: rowOf(t, r[1])}
			if v.Row != nil {
				v.Row.Reservation = "another"
			}
			for v.Container = NoContainer; v.Container.String() != r[0]; v.Container++ {
				if v.Container > Unstarted {
					t.Fatalf("unknown container %q", r[0])
				}
			}
			a := Harmonise(v)
			if got := fmt.Sprintf("%v | %v | %v", a.Call, a.Then, a.Refused); got != strings.Join(r[2:], " | ") || a.Why == "" {
				t.Errorf("got %s (%s)", got, a.Why)
			}
			if a.Call != NoCall {
				after, _, err := Step(v.Row, eventOf(t, a.Call), env())
				if err != nil || after == v.Row {
					t.Errorf("the leader refuses it: %v", err)
				}
			}
			v.Quarantined = true
			if q := HarmoniseEvacuating(v, true); q.Call != NoCall || q.Then != Leave {
				t.Errorf("quarantined: %v %v", q.Call, q.Then)
			}
		})
	}
	if rows != 5*8 {
		t.Errorf("%d rows, want 40: five states of the container by eight of the row", rows)
	}
}

func TestHarmoniseBesideTheTable(t *testing.T) {
	with := func(words string, change func(*Task)) *Task {
		r := rowOf(t, words)
		change(r)
		return r
	}
	lost := with("COMPLETED self", func(r *Task) { r.Outcome = Lost })
	kept := with("COMPLETED self", func(r *Task) { r.Outcome, r.MayStillRun = Lost, true })
	older := with("RUNNING self", func(r *Task) { r.Holder.Proc = "older" })
	granted := with("RUNNING self", func(r *Task) { r.Reservation = "r" })
	reused := with("RUNNING self", func(r *Task) { r.UID = "another" })
	cancelled := with("COMPLETED self", func(r *Task) { r.Outcome = Cancelled })
	cancelledBefore := with("COMPLETED self", func(r *Task) { r.Outcome, r.Holder.Proc = Cancelled, "older" })
	over := with("COMPLETED self", func(r *Task) { r.Outcome, r.Result.Ended = Cancelled, t0 })
	for name, c := range map[string]struct {
		container Container
		row       *Task
		call      Call
		then      Fate
	}{
		"cancelled, its end":                           {Done, cancelled, CallComplete, DeleteContainer},
		"cancelled, gone":                              {NoContainer, cancelled, CallMissing, Leave},
		"cancelled, gone with an earlier process":      {NoContainer, cancelledBefore, NoCall, Leave},
		"cancelled, still running":                     {Live, cancelled, NoCall, StopContainer},
		"cancelled, its end is known":                  {Done, over, NoCall, DeleteContainer},
		"the granted reservation asks again":           {Reserved, granted, CallStart, RunContainer},
		"a re-used guid: running container":            {Live, reused, NoCall, DeleteContainer},
		"a re-used guid: ended container":              {Done, reused, NoCall, DeleteContainer},
		"adopted":                                      {Live, older, CallAdopt, Leave},
		"ended under the earlier process":              {Done, older, CallComplete, DeleteContainer},
		"no container of the earlier process":          {NoContainer, older, NoCall, Leave},
		"reserved, but started by the earlier process": {Reserved, older, NoCall, DeleteContainer},
		"reserved, and its row was handed over":        {Reserved, rowOf(t, "RUNNING self"), NoCall, DeleteContainer},
		"lost, and it never ran":                       {Unstarted, lost, CallComplete, DeleteContainer},
		"cancelled, and it never ran":                  {Unstarted, cancelled, CallComplete, DeleteContainer},
		"never ran under the earlier process":          {Unstarted, older, CallComplete, DeleteContainer},
		"lost, but here is its end":                    {Done, lost, CallComplete, DeleteContainer},
		"lost and ended by the deadline rule":          {Live, lost, NoCall, DeleteContainer},
		"lost and kept":                                {Live, kept, NoCall, Leave},
	} {
		a := Harmonise(View{Container: c.container, Self: alpha, UID: "u", Reservation: "r", Row: c.row})
		if a.Call != c.call || a.Then != c.then {
			t.Errorf("%s: %v %v", name, a.Call, a.Then)
		}
	}
}

// TestTheEndOfACancelledTask: it stays cancelled, unless it had ended before by itself. Its cell alone reports its
// end, once.
func TestTheEndOfACancelledTask(t *testing.T) {
	running := rowOf(t, "RUNNING self")
	row, _, err := Step(running, Cancel{}, env())
	if err != nil || !row.Ending() {
		t.Fatal(row, err)
	}
	if _, _, err := Step(row, Complete{UID: "u", By: omega}, env()); !errors.Is(err, ErrInvalidStateTransition) {
		t.Error(err)
	}
	if _, _, err := Step(row, Missing{UID: "another", By: alpha}, env()); !errors.Is(err, ErrOtherUID) {
		t.Error(err)
	}
	older := alpha
	older.Proc = "older"
	if _, _, err := Step(row, Missing{UID: "u", By: older}, env()); !errors.Is(err, ErrInvalidStateTransition) {
		t.Error(err)
	}
	for _, e := range []Event{Missing{UID: "u", By: alpha},
		Complete{UID: "u", By: alpha, Result: Result{ExitCode: 3, Ordered: true, Ended: t0}}} {
		after, effects, err := Step(row, e, env())
		if err != nil || after.Ending() || after.Outcome != Cancelled || !after.Result.Cancelled ||
			after.Result.Ended.IsZero() || len(effects) != 0 {
			t.Errorf("%T: %+v %v %v", e, after, effects, err)
		}
		if _, _, err := Step(after, e, env()); !errors.Is(err, ErrInvalidStateTransition) {
			t.Errorf("%T again: %v", e, err)
		}
	}
	for want, r := range map[Outcome]Result{Succeeded: {Output: []byte("out"), Ended: t0},
		Failed: {Failed: true, ExitCode: 3, Ended: t0}} {
		after, _, err := Step(row, Complete{UID: "u", By: alpha, Result: r}, env())
		if err != nil || after.Ending() || after.Outcome != want || string(after.Result.Output) != string(r.Output) ||
			after.Result.ExitCode != r.ExitCode {
			t.Errorf("ended before it was cancelled: %+v, %v", after, err)
		}
	}
	if pending, _, err := Step(rowOf(t, "PENDING"), Cancel{}, env()); err != nil || pending.Ending() {
		t.Error("what never started has no end to wait for", err)
	}
}

// TestAnEndThatWasNotRecorded: the outcome of a task is unknown, and nothing of it is left. The cell reports it once.
// One that was cancelled stays cancelled.
func TestAnEndThatWasNotRecorded(t *testing.T) {
	unknown := Complete{UID: "u", By: alpha, Result: Result{Failed: true, Lost: true, Ordered: true, ExitCode: -1,
		Reason: "its exit status was not recorded", Ended: t0}}
	cancelled, _, _ := Step(rowOf(t, "RUNNING self"), Cancel{}, env())
	if row, _, err := Step(cancelled, unknown, env()); err != nil || row.Outcome != Cancelled || row.Ending() {
		t.Errorf("cancelled: %+v, %v", row, err)
	}
	for name, before := range map[string]*Task{"RUNNING": rowOf(t, "RUNNING self"), "lost, may still run": mayRun(t)} {
		row, _, err := Step(before, unknown, env())
		if err != nil || !row.Unresolved() || row.MayStillRun || row.MayRun() ||
			row.Result.Reason != unknown.Result.Reason || row.ExitCode() != -1 || row.Verdict != before.Verdict+1 ||
			Check(row) != nil {
			t.Errorf("%s: %+v, %v", name, row, err)
		}
		for _, e := range []Event{unknown, Missing{UID: "u", By: alpha}, Resolve{}} {
			if again, _, err := Step(row, e, env()); err == nil || again != row {
				t.Errorf("%s: %T: %+v, %v", name, e, again, err)
			}
		}
		done, _, err := Step(row, ResolveLost{As: ResolvedDone}, env())
		if err != nil || done.Resolution != ResolvedDone {
			t.Errorf("%s: %+v, %v", name, done, err)
		}
	}
}

func TestHarmoniseEvacuating(t *testing.T) {
	v := View{Container: Reserved, Self: alpha, UID: "u", Row: rowOf(t, "PENDING")}
	if a := HarmoniseEvacuating(v, false); a.Call != CallReject || a.Then != DeleteContainer ||
		a.Refused != DeleteContainer || a.Reason != ReasonEmptied {
		t.Errorf("nothing new starts: %+v", a)
	}
	given := Reject{UID: "u", Reason: ReasonEmptied, Carried: true, By: alpha}
	if row, effects, err := Step(v.Row, given, env()); err != nil || row.State != Pending || row.Rejections != 0 ||
		row.Rejection != ReasonEmptied ||
		len(effects) != 2 || effects[0] != (AttemptDropped{"g", "u"}) || effects[1] != (RequestAuction{"g", "u"}) {
		t.Errorf("another place is asked for, and nothing is counted: %+v %v %v", row, effects, err)
	}
	v = View{Container: Live, Self: alpha, UID: "u", Row: rowOf(t, "RUNNING self")}
	if a := HarmoniseEvacuating(v, false); a.Call != NoCall || a.Then != Leave {
		t.Errorf("it may end by itself: %v %v", a.Call, a.Then)
	}
	if a := HarmoniseEvacuating(v, true); a.Call != NoCall || a.Then != StopContainer ||
		a.Reason != "timed out during cell evacuation" {
		t.Errorf("out of time: %+v", a)
	}
	v.Container = Done
	if a := HarmoniseEvacuating(v, true); a.Reason != "" || a.Call != CallComplete {
		t.Errorf("it has ended: %+v", a)
	}
	// In no state of the row is the end of a live container reported.
	for _, name := range []string{"none", "PENDING", "RUNNING self", "RUNNING other", "COMPLETED self", "RESOLVING self"} {
		for _, timedOut := range []bool{false, true} {
			v := View{Container: Live, Self: alpha, UID: "u", Row: rowOf(t, name)}
			if a := HarmoniseEvacuating(v, timedOut); a.Call == CallComplete || a.Call == CallMissing {
				t.Errorf("%s, timed out %v: %v", name, timedOut, a.Call)
			}
		}
	}
}

// TestTransitions is the table of Diego BBS, Task transitions.
func TestTransitions(t *testing.T) {
	start, complete := Event(Start{UID: "u", By: alpha, Reservation: "r"}), Event(Complete{UID: "u", By: alpha})
	for _, c := range []struct {
		from  string
		event Event
		to    string // "" = refused with err
		err   error
	}{
		{"none", start, "", ErrNotFound},
		{"PENDING", start, "RUNNING", nil},
		{"PENDING", complete, "COMPLETED", nil},
		{"PENDING", Cancel{}, "COMPLETED", nil},
		{"PENDING", Reject{UID: "u", Reason: "full"}, "PENDING", nil},
		{"PENDING", Missing{UID: "u", By: alpha}, "", ErrInvalidStateTransition},
		{"PENDING", Resolve{}, "", ErrInvalidStateTransition},
		{"PENDING", Delete{}, "", ErrInvalidStateTransition},
		{"PENDING", ProcDead{"pa"}, "PENDING", nil},
		{"RUNNING self", start, "", ErrInvalidStateTransition}, // another reservation
		{"RUNNING self", complete, "COMPLETED", nil},
		{"RUNNING self", Missing{UID: "u", By: alpha}, "COMPLETED", nil},
		{"RUNNING self", Cancel{}, "COMPLETED", nil},
		{"RUNNING self", Reject{UID: "u", Reason: "no disk", By: alpha}, "PENDING", nil},
		{"RUNNING self", Reject{UID: "u", Reason: "full"}, "", ErrInvalidStateTransition},
		{"RUNNING self", ProcDead{"pa"}, "COMPLETED", nil},
		{"RUNNING self", ExpirePending{}, "RUNNING", nil},
		{"RUNNING other", start, "", ErrInvalidStateTransition},
		{"RUNNING other", complete, "", ErrRunningOnDifferentCell},
		{"RUNNING other", Missing{UID: "u", By: alpha}, "", ErrRunningOnDifferentCell},
		{"RUNNING other", Reject{UID: "u", Reason: "r", By: alpha}, "", ErrRunningOnDifferentCell},
		{"RUNNING other", ProcDead{"pa"}, "RUNNING", nil},
		{"COMPLETED self", start, "", ErrInvalidStateTransition},
		{"COMPLETED self", complete, "", ErrInvalidStateTransition},
		{"COMPLETED self", Cancel{}, "", ErrInvalidStateTransition},
		{"COMPLETED self", Resolve{}, "RESOLVING", nil},
		{"COMPLETED self", Delete{}, "", ErrInvalidStateTransition},
		{"COMPLETED self", Prune{}, "gone", nil},
		{"COMPLETED self", ResolveLost{As: ResolvedDone}, "", ErrInvalidStateTransition},
		{"RESOLVING self", start, "", ErrInvalidStateTransition},
		{"RESOLVING self", complete, "", ErrInvalidStateTransition},
		{"RESOLVING self", Cancel{}, "", ErrInvalidStateTransition},
		{"RESOLVING self", Delete{}, "gone", nil},
		{"RESOLVING self", Demote{}, "RESOLVING", nil}, // not yet
		{"RUNNING self", Start{UID: "other"}, "", ErrOtherUID},
		{"RUNNING self", Complete{UID: "other", By: alpha}, "", ErrOtherUID},
		{"RUNNING self", Reject{UID: "other", By: alpha}, "", ErrOtherUID},
	} {
		row := rowOf(t, c.from)
		after, _, err := Step(row, c.event, env())
		if c.to == "" {
			if !errors.Is(err, c.err) || after != row {
				t.Errorf("%s, %T: %v", c.from, c.event, err)
			}
			continue
		}
		got := "gone"
		if after != nil {
			got = after.State.String()
		}
		if err != nil || got != c.to {
			t.Errorf("%s, %T: %s %v, want %s", c.from, c.event, got, err, c.to)
		}
	}
}

func TestTheSameReservationGetsTheSameAnswer(t *testing.T) {
	ask := Start{UID: "u", By: alpha, Reservation: "r"}
	row, _, err := Step(rowOf(t, "PENDING"), ask, env())
	if err != nil {
		t.Fatal(err)
	}
	late := env()
	late.Eligible = false
	if again, _, err := Step(row, ask, late); err != nil || again != row {
		t.Errorf("asked again: %v", err)
	}
	for _, other := range []Start{{UID: "u", By: alpha, Reservation: "r2"}, {UID: "u", By: omega, Reservation: "r"},
		{UID: "u", By: Holder{"alpha", "pa2"}, Reservation: "r"}} {
		if _, _, err := Step(row, other, env()); !errors.Is(err, ErrInvalidStateTransition) {
			t.Errorf("%+v: %v", other, err)
		}
	}
	if _, _, err := Step(rowOf(t, "PENDING"), ask, late); !errors.Is(err, ErrNotEligible) {
		t.Errorf("not eligible: %v", err)
	}
	ask.Live = true // the store went back: running work goes on
	if row, _, err := Step(rowOf(t, "PENDING"), ask, late); err != nil || row.State != Running {
		t.Errorf("it runs already: %v", err)
	}
	if _, _, err := Step(rowOf(t, "RUNNING other"), ask, late); !errors.Is(err, ErrInvalidStateTransition) {
		t.Errorf("it runs somewhere else: %v", err)
	}
}

func TestLostTasks(t *testing.T) {
	row := rowOf(t, "RUNNING self")
	row.Definition = &Definition{OnLost: LostKeep, CallbackURL: "http://x"}
	lost, _, _ := Step(row, ProcDead{"pa"}, env())
	if lost.Outcome != Lost || !lost.MayStillRun || lost.Result.Reason != "cell disappeared before completion" {
		t.Fatalf("%+v", lost)
	}
	for _, e := range []Event{Resolve{}, Delete{}} {
		if _, _, err := Step(lost, e, env()); err == nil {
			t.Errorf("%T of an unresolved lost task", e)
		}
	}
	if same, _, _ := Step(lost, Prune{}, env()); same == nil {
		t.Error("a lost task was pruned")
	}
	for _, as := range []Resolution{ResolvedDone, ResolvedFailed, ResolvedRerun} {
		same, _, err := Step(lost, ResolveLost{As: as, Successor: "g2"}, env())
		if !errors.Is(err, ErrMayStillRun) || same != lost {
			t.Errorf("%v of a task that may still run: %v", as, err)
		}
	}
	lost.Callback.Delivered = true
	found, _, err := Step(lost, Complete{UID: "u", By: Holder{"alpha", "pa2"}, Result: Result{Output: []byte("late")}},
		env())
	if err != nil || found.Outcome != Succeeded || string(found.Result.Output) != "late" || found.MayStillRun ||
		found.Callback.Delivered {
		t.Errorf("late result: %v %+v", err, found)
	}
	if _, _, err := Step(lost, Complete{UID: "u", By: omega}, env()); !errors.Is(err, ErrRunningOnDifferentCell) {
		t.Errorf("late result of another cell: %v", err)
	}
	for _, as := range []Resolution{ResolvedDone, ResolvedFailed, ResolvedRerun} {
		resolved, _, err := Step(lost, ResolveLost{As: as, Successor: "g2", Accept: true}, env())
		if err != nil || resolved.MayStillRun || resolved.Resolution != as ||
			(resolved.Successor == "g2") != (as == ResolvedRerun) {
			t.Errorf("%v: %v %+v", as, err, resolved)
		}
		if _, _, err := Step(resolved, Complete{UID: "u", By: alpha}, env()); !errors.Is(err, ErrInvalidStateTransition) {
			t.Errorf("a late result after the word of a person: %v", err)
		}
		if _, _, err := Step(resolved, Resolve{}, env()); err != nil {
			t.Errorf("resolved: %v", err)
		}
	}
	same := ResolveLost{As: ResolvedRerun, Successor: "g", Accept: true}
	if _, _, err := Step(lost, same, env()); !errors.Is(err, ErrInvalid) {
		t.Errorf("rerun under the same guid: %v", err)
	}
	row.Definition = &Definition{}
	if lost, _, _ = Step(row, ProcDead{"pa"}, env()); lost.MayStillRun {
		t.Error("a deadline-bound task may not still run")
	}
	resolved, _, err := Step(lost, ResolveLost{As: ResolvedDone}, env())
	if err != nil || resolved.Resolution != ResolvedDone {
		t.Errorf("a task that is certainly over: %v", err)
	}
}

// mayRun is a lost task whose container was permitted to continue.
func mayRun(t *testing.T) *Task {
	t.Helper()
	row := rowOf(t, "RUNNING self")
	row.Definition = &Definition{OnLost: LostKeep, CallbackURL: "http://x"}
	lost, _, err := Step(row, ProcDead{"pa"}, env())
	if err != nil || !lost.MayStillRun {
		t.Fatalf("%v %+v", err, lost)
	}
	return lost
}

// TestLostTaskIsFound: a lost task is RUNNING again when its cell reports its container, and no other.
func TestLostTaskIsFound(t *testing.T) {
	lost, back := mayRun(t), Holder{"alpha", "pa2"}
	for name, e := range map[string]Found{
		"another task of the guid": {UID: "other", By: back},
		"another cell":             {UID: "u", By: omega},
	} {
		if same, effects, err := Step(lost, e, env()); same != lost || len(effects) > 0 || err != nil {
			t.Errorf("%s: %v %+v", name, err, same)
		}
	}
	found, effects, err := Step(lost, Found{UID: "u", By: back}, env())
	if err != nil || len(effects) > 0 || found.State != Running || found.Holder != back || found.Outcome != Open ||
		found.MayStillRun || found.Ended() || found.Callback != (Callback{}) || Check(found) != nil {
		t.Fatalf("%v %v %+v", err, effects, found)
	}
	_, _, err = Step(found, ResolveLost{As: ResolvedFailed, Accept: true}, env())
	if !errors.Is(err, ErrInvalidStateTransition) {
		t.Errorf("a running task is resolved: %v", err)
	}
	ended, _, err := Step(found, Complete{UID: "u", By: back}, env())
	if err != nil || ended.Outcome != Succeeded || ended.Verdict != 2 {
		t.Errorf("its end: %v %+v", err, ended)
	}
	resolved, _, _ := Step(lost, ResolveLost{As: ResolvedFailed, Accept: true}, env())
	if same, _, _ := Step(resolved, Found{UID: "u", By: back}, env()); same != resolved {
		t.Errorf("found after the decision of a person: %+v", same)
	}
}

// TestContainersThatAreGoneWithTheirCell: a later process of the directory has no container of a task that is marked
// as one that may still run, and reports that. The mark goes; a lost task stays lost.
func TestContainersThatAreGoneWithTheirCell(t *testing.T) {
	later := Holder{"alpha", "pa2"}
	lost := mayRun(t)
	cancelled, _, _ := Step(lost, Cancel{}, env())
	for name, row := range map[string]*Task{"lost": lost, "cancelled": cancelled} {
		for _, earlier := range []bool{true, false} {
			a := Harmonise(View{Container: NoContainer, Self: later, UID: "u", Row: row, Earlier: earlier})
			if (a.Call == CallMissing) != earlier || a.Then != Leave {
				t.Errorf("%s, earlier process of this directory %v: %v %v", name, earlier, a.Call, a.Then)
			}
		}
		if a := Harmonise(View{Container: Live, Self: later, UID: "u", Row: row, Earlier: true}); a.Call != NoCall {
			t.Errorf("%s, alive: %v", name, a.Call)
		}
		if same, _, err := Step(row, Missing{UID: "u", By: omega}, env()); same != row || err == nil {
			t.Errorf("%s, reported by another cell: %v", name, err)
		}
		gone, effects, err := Step(row, Missing{UID: "u", By: later}, env())
		if err != nil || len(effects) > 0 || gone.MayStillRun || gone.MayRun() || gone.Outcome != row.Outcome ||
			gone.Verdict != row.Verdict || Check(gone) != nil {
			t.Errorf("%s: %v %v %+v", name, err, effects, gone)
		}
	}
	gone, _, _ := Step(lost, Missing{UID: "u", By: later}, env())
	if done, _, err := Step(gone, ResolveLost{As: ResolvedDone}, env()); err != nil || done.Resolution != ResolvedDone {
		t.Errorf("resolved then: %v", err)
	}
}

// TestCancelledTaskOfADeadCell: the container of a cancelled task that was permitted to continue may
// run for an unknown time after the death of its cell. The row is kept until the cell is back and
// has ended it, or a person decides.
func TestCancelledTaskOfADeadCell(t *testing.T) {
	back := Holder{"alpha", "pa2"}
	running := rowOf(t, "RUNNING self")
	running.Definition = &Definition{OnLost: LostKeep}
	cancelled, _, _ := Step(running, Cancel{}, env())
	dead, _, err := Step(cancelled, ProcDead{"pa"}, env())
	if err != nil || !dead.MayStillRun || dead.Outcome != Cancelled {
		t.Fatalf("%v %+v", err, dead)
	}
	lost, effects, err := Step(mayRun(t), Cancel{}, env())
	if err != nil || len(effects) > 0 || lost.Outcome != Cancelled || !lost.MayStillRun {
		t.Fatalf("cancel of a lost one: %v %v %+v", err, effects, lost)
	}
	for name, row := range map[string]*Task{"cancelled, then dead": dead, "dead, then cancelled": lost} {
		if Check(row) != nil || !row.Ending() || !row.MayRun() || !row.Held(1000*time.Hour, true) {
			t.Errorf("%s: %v %+v", name, Check(row), row)
		}
		found, effects, err := Step(row, Found{UID: "u", By: back}, env())
		if err != nil || found.Holder != back || found.MayStillRun || !found.Ending() ||
			!slices.Equal(effects, []Effect{CancelContainer{"g", "u", back}}) {
			t.Errorf("%s, found: %v %v %+v", name, err, effects, found)
		}
		ended, _, err := Step(row, Complete{UID: "u", By: back, Result: Result{Ordered: true, Ended: env().Now}}, env())
		if err != nil || ended.MayStillRun || ended.Ending() || ended.Outcome != Cancelled || Check(ended) != nil {
			t.Errorf("%s, ended: %v %+v", name, err, ended)
		}
		if _, _, err := Step(row, ResolveLost{As: ResolvedFailed}, env()); !errors.Is(err, ErrMayStillRun) {
			t.Errorf("%s, resolved without a word: %v", name, err)
		}
		over, _, err := Step(row, ResolveLost{As: ResolvedFailed, Accept: true}, env())
		if err != nil || over.Ending() || over.MayStillRun || over.Held(0, true) || Check(over) != nil {
			t.Errorf("%s, resolved: %v %+v", name, err, over)
		}
	}
	running.Definition = &Definition{}
	bound, _, _ := Step(running, Cancel{}, env())
	if same, _, _ := Step(bound, ProcDead{"pa"}, env()); same != bound {
		t.Errorf("a deadline-bound one: %+v", same)
	}
}

func TestWhenFull(t *testing.T) {
	full := Reject{UID: "u", Reason: "3 cells: memory_mb 512 needed, 300 free"}
	row := rowOf(t, "PENDING")
	for range 10 { // waiting does not count as failing
		var err error
		if row, _, err = Step(row, full, env()); err != nil || row.State != Pending || row.Rejection != full.Reason {
			t.Fatalf("%v %+v", err, row)
		}
	}
	if same, _, _ := Step(row, full, env()); same != row {
		t.Error("the same refusal is written again")
	}
	late := env()
	late.Now = t0.Add(30*time.Minute - 1)
	if same, _, _ := Step(row, ExpirePending{}, late); same != row {
		t.Error("expired early")
	}
	late.Now = t0.Add(30 * time.Minute)
	if ended, _, _ := Step(row, ExpirePending{}, late); ended.Outcome != Failed ||
		ended.Result.Reason != "not started within time limit: "+full.Reason {
		t.Errorf("%+v", ended)
	}
	never := full
	never.Never = true
	if ended, _, _ := Step(row, never, env()); ended.Outcome != Failed || ended.Result.Reason != full.Reason {
		t.Errorf("no cell could ever hold it: %+v", ended)
	}
	row = rowOf(t, "PENDING")
	row.Definition = &Definition{WhenFull: WhenFullFail}
	if ended, effects, _ := Step(row, full, env()); ended.Outcome != Failed || len(effects) != 1 {
		t.Errorf("when_full fail: %+v %v", ended, effects)
	}
	carried := full
	carried.Carried = true
	if waits, effects, err := Step(row, carried, env()); err != nil || waits.State != Pending ||
		waits.Rejection != full.Reason || effects != nil {
		t.Errorf("when_full fail, one cell did not take it: %+v %v %v", waits, effects, err)
	}
}

func TestCellsThatCannotMakeTheContainer(t *testing.T) {
	row := rowOf(t, "RUNNING self")
	for n := 1; n <= 3; n++ {
		var err error
		if row, _, err = Step(row, Reject{UID: "u", Reason: "no disk", By: alpha}, env()); err != nil ||
			row.State != Pending || row.Rejections != n {
			t.Fatalf("rejection %d: %v %+v", n, err, row)
		}
		row, _, _ = Step(row, Start{UID: "u", By: alpha, Reservation: "r"}, env())
	}
	row, _, _ = Step(row, Reject{UID: "u", Reason: "no disk", By: alpha}, env())
	if row.Outcome != Failed || row.Result.Reason != "no disk" {
		t.Fatalf("fourth: %+v", row)
	}
}

func TestCancel(t *testing.T) {
	row, effects, _ := Step(rowOf(t, "RUNNING self"), Cancel{}, env())
	if row.Outcome != Cancelled || row.Result.Reason != "cancelled" || len(effects) != 1 ||
		effects[0] != (CancelContainer{"g", "u", alpha}) {
		t.Errorf("%+v %v", row, effects)
	}
	if a := Harmonise(View{Container: Live, Self: alpha, UID: "u", Row: row}); a.Then != StopContainer {
		t.Errorf("the poll does not find it: %v", a)
	}
	if _, effects, _ = Step(rowOf(t, "PENDING"), Cancel{}, env()); len(effects) != 1 ||
		effects[0] != (WithdrawAuction{"g", "u"}) {
		t.Errorf("%v", effects)
	}
}

func TestResultTooLarge(t *testing.T) {
	row, _, err := Step(rowOf(t, "RUNNING self"),
		Complete{UID: "u", By: alpha, Result: Result{Output: make([]byte, MaxResult+1)}}, env())
	if err != nil || row.Outcome != Failed || row.Result.Reason != "failed to fetch result" || row.Result.Output != nil {
		t.Errorf("%v %+v", err, row)
	}
}

func TestCallbacks(t *testing.T) {
	row := rowOf(t, "COMPLETED self")
	row.Definition = &Definition{CallbackURL: "http://x"}
	e := env()
	row, effects, _ := Step(row, KickCallback{}, e)
	if row.State != Resolving || len(effects) != 1 || effects[0] != (CallBack{"g", "u"}) {
		t.Fatalf("%v %v", row.State, effects)
	}
	ok, _, _ := Step(row, CallbackDone{UID: "u", Verdict: 1, Delivered: true}, e)
	if ok.State != Completed || !ok.Callback.Delivered {
		t.Errorf("%+v", ok)
	}
	seed := e
	seed.Policy.Retention = -1
	if gone, _, err := Step(row, CallbackDone{UID: "u", Verdict: 1, Delivered: true}, seed); gone != nil || err != nil {
		t.Errorf("the notes delete it: %+v", gone)
	}
	for run := 1; run <= 10; run++ {
		row, _, _ = Step(row, CallbackDone{UID: "u", Verdict: 1, Error: "503"}, e)
		if row.State != Completed || row.Callback.Runs != run || row.Callback.Dead != (run == 10) {
			t.Fatalf("run %d: %+v", run, row.Callback)
		}
		if run == 10 {
			break
		}
		if same, _, _ := Step(row, KickCallback{}, e); same != row {
			t.Fatalf("run %d: called again at once", run)
		}
		e.Now = row.Callback.Next
		row, _, _ = Step(row, KickCallback{}, e)
	}
	if same, effects, _ := Step(row, KickCallback{}, e); same != row || effects != nil {
		t.Error("a dead letter is called again")
	}
	if _, _, err := Step(row, CallbackDone{UID: "old"}, e); !errors.Is(err, ErrOtherUID) {
		t.Errorf("%v", err)
	}
}

func TestStuckResolvingIsDemoted(t *testing.T) {
	e := env()
	e.Now = t0.Add(30 * time.Second)
	if row, _, _ := Step(rowOf(t, "RESOLVING self"), Demote{}, e); row.State != Completed {
		t.Errorf("%v", row.State)
	}
}

func TestDesire(t *testing.T) {
	row, effects, err := Desire(Task{GUID: "g", UID: "u", Domain: "d", Definition: &Definition{}, State: Completed}, t0)
	if err != nil || row.State != Pending || len(effects) != 1 || effects[0] != (RequestAuction{"g", "u"}) {
		t.Errorf("%+v %v %v", row, effects, err)
	}
	for _, bad := range []Task{{}, {GUID: "g", UID: "u", Domain: "d"},
		{GUID: "g", UID: "u", Domain: "d", Definition: &Definition{CallbackURL: "ftp://x"}},
		{GUID: "g", UID: "u", Domain: "d", Definition: &Definition{PendingTimeout: -1}},
		{GUID: "g", UID: "u", Domain: "d", Definition: &Definition{Annotation: strings.Repeat("x", 10241)}}} {
		if _, _, err := Desire(bad, t0); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// TestAtMostOnce is I1: calls and deaths come in any order, replayed or not. Permission to run is given to one
// reservation only, unless that one reported that it never ran.
func TestAtMostOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		row, _, _ := Desire(Task{GUID: "g", UID: "u", Domain: "d", Definition: &Definition{}}, t0)
		e := env()
		granted := map[Start]bool{}
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			e.Now = e.Now.Add(time.Duration(rapid.IntRange(0, 900).Draw(rt, "seconds")) * time.Second)
			e.Eligible = rapid.Bool().Draw(rt, "eligible")
			by := rapid.SampledFrom([]Holder{alpha, omega, {"alpha", "pa2"}}).Draw(rt, "by")
			ask := Start{UID: "u", By: by, Reservation: rapid.SampledFrom([]string{"r1", "r2"}).Draw(rt, "reservation")}
			reject := Reject{UID: "u", Reason: "no", By: by}
			event := rapid.SampledFrom([]Event{ask, ask, Complete{UID: "u", By: by}, Missing{UID: "u", By: by},
				Adopt{UID: "u", From: "pa", By: by},
				reject, Reject{UID: "u", Reason: "full"}, Cancel{}, Resolve{}, ProcDead{by.Proc}, ExpirePending{}, Kick{},
				KickCallback{}, Demote{}, ResolveLost{As: ResolvedDone}}).Draw(rt, "event")
			holder := row.Holder
			after, effects, err := Step(row, event, e)
			if err != nil && (after != row || effects != nil) {
				rt.Fatalf("%T: an error that changes something", event)
			}
			switch event := event.(type) {
			case Start:
				if err == nil {
					granted[event] = true
				}
			case Reject:
				if err == nil && event.By == holder && row.State == Running {
					clear(granted) // its holder reports that it never ran
				}
			}
			if len(granted) > 1 {
				rt.Fatalf("granted to %v", granted)
			}
			if after == nil {
				return
			}
			if err := Check(after); err != nil {
				rt.Fatalf("%T: %v", event, err)
			}
			row = after
		}
	})
}

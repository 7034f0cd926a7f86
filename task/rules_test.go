package task

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"cantina/action"
)

func TestTexts(t *testing.T) {
	for got, want := range map[fmt.Stringer]string{
		Open: "", Succeeded: "succeeded", Failed: "failed", Cancelled: "cancelled", Lost: "lost", Outcome(9): "Outcome(9)",
		Unresolved: "", ResolvedDone: "done", ResolvedFailed: "failed", ResolvedRerun: "rerun",
		Resolution(9): "Resolution(9)",
		NoCall:        "-", CallStart: "Start", CallComplete: "Complete", CallMissing: "Missing", CallAdopt: "Adopt",
		CallReject: "Reject",
		Leave:      "leave", RunContainer: "run", DeleteContainer: "delete", StopContainer: "stop",
	} {
		if got.String() != want {
			t.Errorf("%T %q, want %q", got, got, want)
		}
	}
}

func with(t *testing.T, words string, change func(*Task)) *Task {
	t.Helper()
	r := rowOf(t, words)
	change(r)
	return r
}

func TestCheckNamesTheError(t *testing.T) {
	lost := func(r *Task) { r.Outcome, r.Result.Failed = Lost, true }
	for name, c := range map[string]struct {
		row  *Task
		want string // "" = nothing is wrong
	}{
		"waits":           {rowOf(t, "PENDING"), ""},
		"runs":            {rowOf(t, "RUNNING self"), ""},
		"ended":           {rowOf(t, "COMPLETED self"), ""},
		"resolving":       {rowOf(t, "RESOLVING self"), ""},
		"no guid":         {with(t, "PENDING", func(r *Task) { r.GUID = "" }), "without guid"},
		"no uid":          {with(t, "PENDING", func(r *Task) { r.UID = "" }), "without guid"},
		"no domain":       {with(t, "PENDING", func(r *Task) { r.Domain = "" }), "without guid"},
		"no definition":   {with(t, "PENDING", func(r *Task) { r.Definition = nil }), "without guid"},
		"never made":      {with(t, "PENDING", func(r *Task) { r.Created = time.Time{} }), "without the time"},
		"never changed":   {with(t, "PENDING", func(r *Task) { r.Updated = time.Time{} }), "without the time"},
		"open, but ended": {with(t, "COMPLETED self", func(r *Task) { r.Outcome = Open }), "with outcome"},
		"ended, but open": {with(t, "RUNNING self", func(r *Task) { r.Outcome = Failed }), "with outcome"},
		"ended at no time": {with(t, "RESOLVING self", func(r *Task) { r.FirstCompleted = time.Time{} }),
			"ended at no time"},
		"runs on no cell":    {with(t, "RUNNING self", func(r *Task) { r.Holder.Cell = "" }), "RUNNING on no cell"},
		"runs on no process": {with(t, "RUNNING self", func(r *Task) { r.Holder.Proc = "" }), "RUNNING on no cell"},
		"resolved, not lost": {with(t, "COMPLETED self", func(r *Task) { r.Resolution = ResolvedDone }),
			"resolved, but neither lost nor cancelled"},
		"resolved":          {with(t, "COMPLETED self", func(r *Task) { lost(r); r.Resolution = ResolvedDone }), ""},
		"runs on, not lost": {with(t, "COMPLETED self", func(r *Task) { r.MayStillRun = true }), "may still run"},
		"may run on":        {with(t, "COMPLETED self", func(r *Task) { lost(r); r.MayStillRun = true }), ""},
		"definition is refused": {with(t, "PENDING", func(r *Task) { r.Definition = &Definition{PendingTimeout: -1} }),
			"pending_timeout"},
	} {
		err := Check(c.row)
		if (err == nil) != (c.want == "") || err != nil &&
			(!errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestDesireNeedsEverything(t *testing.T) {
	whole := Task{GUID: "g", UID: "u", Domain: "d", Definition: &Definition{}}
	for name, change := range map[string]func(*Task){
		"guid": func(r *Task) { r.GUID = "" }, "uid": func(r *Task) { r.UID = "" }, "domain": func(r *Task) { r.Domain = "" },
		"definition": func(r *Task) { r.Definition = nil },
		"annotation": func(r *Task) { r.Definition = &Definition{Annotation: strings.Repeat("x", MaxAnnotation+1)} },
		"callback":   func(r *Task) { r.Definition = &Definition{CallbackURL: "ftp://x"} },
		"user":       func(r *Task) { r.Definition = &Definition{Workload: action.Workload{User: "a b"}} },
	} {
		r := whole
		change(&r)
		if _, _, err := Desire(r, t0); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, d := range []Definition{{Annotation: strings.Repeat("x", MaxAnnotation)}, {CallbackURL: "http://x"},
		{CallbackURL: "https://x"}} {
		r := whole
		r.Definition = &d
		if _, _, err := Desire(r, t0); err != nil {
			t.Errorf("%+v: %v", d.CallbackURL, err)
		}
	}
	if !(&Definition{}).DeadlineBound() || (&Definition{OnLost: LostKeep}).DeadlineBound() {
		t.Error("a task ends with the credit of its cell unless it is to be kept")
	}
}

// TestEnds has the whole result of each way to end.
func TestEnds(t *testing.T) {
	late := env()
	late.Now = t0.Add(time.Hour)
	failed := func(reason string) Result { return Result{Failed: true, Reason: reason} }
	ran := Result{ExitCode: 3, Failed: true, Reason: "exit status 3", Output: []byte("o"), Started: t0, Ended: t0.Add(1)}
	large := ran
	large.Output = make([]byte, MaxResult+1)
	full := ran
	full.Output = make([]byte, MaxResult)
	rejected := with(t, "PENDING", func(r *Task) { r.Rejection = "memory" })
	older := env()
	older.Older = true
	if after, _, err := Step(rowOf(t, "RUNNING self"), Missing{UID: "u", By: alpha}, older); err != nil ||
		!after.Unresolved() || after.MayStillRun || after.Result.Reason != ReasonForgotten {
		t.Errorf("no container, after a restore: %+v, %v", after, err)
	}
	for name, c := range map[string]struct {
		row     *Task
		event   Event
		outcome Outcome
		result  Result
	}{
		"no container": {rowOf(t, "RUNNING self"), Missing{UID: "u", By: alpha}, Failed,
			failed(ReasonNoContainer)},
		"cancelled": {rowOf(t, "RUNNING self"), Cancel{}, Cancelled,
			Result{Failed: true, Cancelled: true, Reason: ReasonCancelled}},
		"its cell is dead":         {rowOf(t, "RUNNING self"), ProcDead{"pa"}, Lost, failed(ReasonLost)},
		"not started in time":      {rowOf(t, "PENDING"), ExpirePending{}, Failed, failed(ReasonNotStarted)},
		"not started for a reason": {rejected, ExpirePending{}, Failed, failed(ReasonNotStarted + ": memory")},
		"never placed": {rowOf(t, "PENDING"), Reject{UID: "u", Reason: "no such stack", Never: true}, Failed,
			failed("no such stack")},
		"never placed, no reason": {rowOf(t, "PENDING"), Reject{UID: "u", Never: true}, Failed,
			failed("refused without a reason")},
		"its own end":        {rowOf(t, "RUNNING self"), Complete{UID: "u", By: alpha, Result: ran}, Failed, ran},
		"the largest result": {rowOf(t, "RUNNING self"), Complete{UID: "u", By: alpha, Result: full}, Failed, full},
		"a larger result": {rowOf(t, "RUNNING self"), Complete{UID: "u", By: alpha, Result: large}, Failed,
			Result{Failed: true, Reason: ReasonResult, ExitCode: 3, Started: t0, Ended: t0.Add(1)}},
		"stopped by its cell": {rowOf(t, "RUNNING self"),
			Complete{UID: "u", By: alpha, Result: Result{Cancelled: true, Failed: true}}, Cancelled,
			Result{Cancelled: true, Failed: true}},
		"not heard that it started": {rowOf(t, "PENDING"), Complete{UID: "u", By: alpha}, Succeeded, Result{}},
	} {
		after, _, err := Step(c.row, c.event, late)
		if err != nil || after.State != Completed || after.Outcome != c.outcome ||
			!reflect.DeepEqual(after.Result, c.result) ||
			after.FirstCompleted != late.Now || after.Verdict != 1 {
			t.Errorf("%s: %+v, %v", name, after, err)
		}
	}
}

// TestEventsThatComeTooLate change nothing of a row that is further on.
func TestEventsThatComeTooLate(t *testing.T) {
	late := env()
	late.Now = t0.Add(24 * time.Hour)
	calls := func(r *Task) { r.Definition = &Definition{CallbackURL: "http://x"} }
	lost := func(r *Task) { r.Outcome = Lost }
	for name, c := range map[string]struct {
		row   *Task
		event Event
		err   error
	}{
		"died after its end":         {rowOf(t, "COMPLETED self"), ProcDead{"pa"}, nil},
		"expired while it runs":      {rowOf(t, "RUNNING self"), ExpirePending{}, nil},
		"expired after its end":      {rowOf(t, "COMPLETED self"), ExpirePending{}, nil},
		"callback while one is made": {with(t, "RESOLVING self", calls), KickCallback{}, nil},
		"callback while it runs":     {with(t, "RUNNING self", calls), KickCallback{}, nil},
		"callback again": {with(t, "COMPLETED self",
			func(r *Task) { calls(r); r.Callback.Delivered = true }), KickCallback{}, nil},
		"callback of a dead letter": {with(t, "COMPLETED self", func(r *Task) { calls(r); r.Callback.Dead = true }),
			KickCallback{}, nil},
		"no callback receiver": {rowOf(t, "COMPLETED self"), KickCallback{}, nil},
		"answer after it was demoted": {with(t, "COMPLETED self", calls),
			CallbackDone{UID: "u", Verdict: 1, Delivered: true}, nil},
		"answer to a person's resolve": {rowOf(t, "RESOLVING self"), CallbackDone{UID: "u", Verdict: 1, Delivered: true},
			nil},
		"answer about another end": {with(t, "RESOLVING self", calls),
			CallbackDone{UID: "u", Verdict: 2, Delivered: true}, nil},
		"kick while it runs":           {rowOf(t, "RUNNING self"), Kick{}, nil},
		"prune while it runs":          {rowOf(t, "RUNNING self"), Prune{}, nil},
		"prune while it is resolved":   {rowOf(t, "RESOLVING self"), Prune{}, nil},
		"prune while it waits for you": {with(t, "COMPLETED self", lost), Prune{}, nil},
		"demote a running task":        {rowOf(t, "RUNNING self"), Demote{}, nil},
		"settle as nothing": {with(t, "COMPLETED self", lost), ResolveLost{As: Unresolved},
			ErrInvalidStateTransition},
		"settle a task that is not lost": {rowOf(t, "COMPLETED self"), ResolveLost{As: ResolvedDone},
			ErrInvalidStateTransition},
		"rerun without a guid": {with(t, "COMPLETED self", lost), ResolveLost{As: ResolvedRerun}, ErrInvalid},
		"rerun under its own guid": {with(t, "COMPLETED self", lost), ResolveLost{As: ResolvedRerun, Successor: "g"},
			ErrInvalid},
		"no reservation asks again": {rowOf(t, "RUNNING self"), Start{UID: "u", By: alpha},
			ErrInvalidStateTransition},
		"a reservation after the end": {with(t, "COMPLETED self", func(r *Task) { r.Reservation = "r" }),
			Start{UID: "u", By: alpha, Reservation: "r"}, ErrInvalidStateTransition},
		"another's reservation": {with(t, "RUNNING other", func(r *Task) { r.Reservation = "r" }),
			Start{UID: "u", By: alpha, Reservation: "r"}, ErrInvalidStateTransition},
		"an end from a cell it left": {with(t, "COMPLETED other", func(r *Task) { r.Outcome = Cancelled }),
			Complete{UID: "u", By: alpha, Result: Result{Ordered: true}}, ErrInvalidStateTransition},
		"an unknown event":              {rowOf(t, "PENDING"), nil, errUnknown},
		"resolve what waits for a word": {with(t, "COMPLETED self", lost), Resolve{}, ErrLostUnresolved},
		"delete what waits for a word":  {with(t, "RESOLVING self", lost), Delete{}, ErrLostUnresolved},
		"delete a task that is being ended": {with(t, "RESOLVING self", func(r *Task) { r.Outcome = Cancelled }), Delete{},
			ErrEnding},
	} {
		after, effects, err := Step(c.row, c.event, late)
		ok := errors.Is(err, c.err)
		if c.err == errUnknown {
			ok = err != nil
		}
		if after != c.row || len(effects) != 0 || !ok {
			t.Errorf("%s: %+v %v %v, want it unchanged and %v", name, after, effects, err, c.err)
		}
	}
}

var errUnknown = errors.New("any error")

// TestRefusals is the table of Reject: by placement (no cell) or by a cell, of the work or of the attempt alone
// (carried).
func TestRefusals(t *testing.T) {
	wait, fail := &Definition{}, &Definition{WhenFull: WhenFullFail}
	for name, c := range map[string]struct {
		from       string
		def        *Definition
		before     int // rejections so far
		e          Reject
		to         State
		rejections int
		effects    string
		err        error
	}{
		"full":                    {"PENDING", wait, 0, Reject{}, Pending, 0, "[]", nil},
		"full, and that fails it": {"PENDING", fail, 0, Reject{}, Completed, 0, "[{g u}]", nil},
		"full, after many":        {"PENDING", wait, 9, Reject{}, Pending, 9, "[]", nil},
		"full, of one that runs": {"RUNNING self", wait, 0, Reject{}, Running, 0, "",
			ErrInvalidStateTransition},
		"carried by placement":                  {"PENDING", fail, 0, Reject{Carried: true}, Pending, 0, "[]", nil},
		"a cell cannot make it":                 {"RUNNING self", wait, 0, Reject{By: alpha}, Pending, 1, "[]", nil},
		"a cell cannot make it, the last time":  {"RUNNING self", wait, 2, Reject{By: alpha}, Pending, 3, "[]", nil},
		"a cell cannot make it, once too often": {"RUNNING self", wait, 3, Reject{By: alpha}, Completed, 3, "[]", nil},
		"a cell cannot, before it was started":  {"PENDING", wait, 0, Reject{By: alpha}, Pending, 1, "[]", nil},
		"a cell cannot, once too often before":  {"PENDING", wait, 3, Reject{By: alpha}, Completed, 3, "[{g u}]", nil},
		"a cell cannot, though full fails it":   {"RUNNING self", fail, 0, Reject{By: alpha}, Pending, 1, "[]", nil},
		"a cell is emptied, before the start": {"PENDING", wait, 9, Reject{By: alpha, Carried: true}, Pending, 9,
			"[{g u} {g u}]", nil},
		"a cell is emptied, after the start": {"RUNNING self", wait, 9, Reject{By: alpha, Carried: true}, Pending, 10, "[]",
			nil},
		"another cell":  {"RUNNING other", wait, 0, Reject{By: alpha}, Running, 0, "", ErrRunningOnDifferentCell},
		"after its end": {"COMPLETED self", wait, 0, Reject{By: alpha}, Completed, 0, "", ErrInvalidStateTransition},
		"never":         {"RUNNING self", wait, 0, Reject{By: alpha, Never: true}, Completed, 0, "[]", nil},
	} {
		row := with(t, c.from, func(r *Task) { r.Definition, r.Rejections = c.def, c.before })
		c.e.UID, c.e.Reason = "u", "why"
		after, effects, err := Step(row, c.e, env())
		if c.err != nil {
			if after != row || !errors.Is(err, c.err) {
				t.Errorf("%s: %v, want %v", name, err, c.err)
			}
			continue
		}
		if err != nil || after.State != c.to || after.Rejections != c.rejections || after.Rejection != "why" ||
			fmt.Sprint(effects) != c.effects ||
			after.State == Pending && (after.Holder != Holder{} || after.Reservation != "") {
			t.Errorf("%s: %+v %v %v", name, after, effects, err)
		}
	}
}

// TestARefusalForTheSameReasonCounts each time.
func TestARefusalForTheSameReasonCounts(t *testing.T) {
	row := with(t, "PENDING", func(r *Task) { r.Rejection = "no disk" })
	if after, _, err := Step(row, Reject{UID: "u", By: alpha, Reason: "no disk"}, env()); err != nil ||
		after.Rejections != 1 {
		t.Errorf("%+v, %v", after, err)
	}
	if after, _, err := Step(row, Reject{UID: "u", Reason: "no disk"}, env()); err != nil || after != row {
		t.Errorf("no place for the same reason is nothing new: %+v, %v", after, err)
	}
}

// TestCallbackDelays: twice as long after each run, an hour at most.
func TestCallbackDelays(t *testing.T) {
	e := env()
	e.Policy = Policy{Kick: time.Second, CallbackRuns: 100}
	for runs, want := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 11: 1024 * time.Second,
		12: 1024 * time.Second, 50: 1024 * time.Second} {
		row := with(t, "RESOLVING self",
			func(r *Task) { r.Definition = &Definition{CallbackURL: "http://x"}; r.Callback.Runs = runs - 1 })
		after, _, err := Step(row, CallbackDone{UID: "u", Verdict: 1, Error: "refused"}, e)
		if err != nil || after.Callback.Next.Sub(t0) != want || after.Callback.Error != "refused" ||
			after.Callback.Runs != runs {
			t.Errorf("after %d: %+v, %v", runs, after.Callback, err)
		}
	}
	e.Policy = Policy{Retention: -1}
	for outcome, gone := range map[Outcome]bool{Failed: true, Lost: false} {
		row := with(t, "RESOLVING self",
			func(r *Task) { r.Definition = &Definition{CallbackURL: "http://x"}; r.Outcome = outcome })
		if after, _, err := Step(row, CallbackDone{UID: "u", Verdict: 1, Delivered: true}, e); err != nil ||
			(after == nil) != gone {
			t.Errorf("%v: %+v, %v", outcome, after, err)
		}
	}
	row := with(t, "RESOLVING self",
		func(r *Task) { r.Definition = &Definition{CallbackURL: "http://x"}; r.Outcome = Failed })
	if after, _, err := Step(row, CallbackDone{UID: "u", Verdict: 1, Delivered: true}, env()); err != nil ||
		after == nil || !after.Callback.Delivered || after.Callback.Dead {
		t.Errorf("kept for its retention: %+v, %v", after, err)
	}
}

// TestReasonsThatHoldACell has the moments at which a cancelled task lets go of a cell that is dead.
func TestReasonsThatHoldACell(t *testing.T) {
	keep := &Definition{OnLost: LostKeep, Workload: action.Workload{Termination: action.Termination{Grace: time.Minute,
		LeftoverGrace: time.Second}}}
	row := with(t, "COMPLETED self", func(r *Task) { r.Outcome, r.Definition = Cancelled, keep })
	over := time.Minute + time.Second + 10*time.Second
	if !row.Held(over-1, true) || row.Held(over, true) || !row.Held(over, false) {
		t.Error("a container that may outlive its cell has its grace time")
	}
	for name, r := range map[string]*Task{
		"runs": rowOf(t, "RUNNING self"), "succeeded": rowOf(t, "COMPLETED self"),
		"cancelled before it ran": with(t, "COMPLETED", func(r *Task) { r.Outcome = Cancelled }),
		"its end is known":        with(t, "COMPLETED self", func(r *Task) { r.Outcome, r.Result.Ended = Cancelled, t0 }),
	} {
		if r.Held(0, false) || r.Ending() {
			t.Errorf("%s: it has no end to wait for", name)
		}
	}
	if with(t, "RUNNING self", func(r *Task) { r.Outcome = Lost }).Unresolved() {
		t.Error("lost, but not ended")
	}
	if with(t, "RUNNING self", func(r *Task) { r.Outcome = Cancelled }).Ending() {
		t.Error("cancelled, but not ended")
	}
}

// TestWorkUnknownToTheStoreIsLeftAlone, but only running work from before.
func TestWorkUnknownToTheStoreIsLeftAlone(t *testing.T) {
	another := with(t, "RUNNING self", func(r *Task) { r.UID = "another" })
	for name, c := range map[string]struct {
		v       View
		unknown bool
		then    Fate
	}{
		"runs, from before":           {View{Container: Live, Older: true}, true, Leave},
		"runs, and its guid is known": {View{Container: Live, Older: true, Row: another}, true, Leave},
		"runs, of this store":         {View{Container: Live}, false, DeleteContainer},
		"ended, from before":          {View{Container: Done, Older: true}, false, DeleteContainer},
		"reserved, from before":       {View{Container: Reserved, Older: true}, false, DeleteContainer},
		"known, from before":          {View{Container: Live, Older: true, Row: rowOf(t, "RUNNING self")}, false, Leave},
		"no container, from before":   {View{Older: true, Row: another}, false, Leave},
		"cannot be read":              {View{Container: Live, Quarantined: true}, false, Leave},
	} {
		c.v.Self, c.v.UID = alpha, "u"
		a := Harmonise(c.v)
		if a.Unknown != c.unknown || a.Then != c.then || c.unknown && a.Call != NoCall {
			t.Errorf("%s: %+v", name, a)
		}
	}
	// Without a container of its own, the row belongs to this cell, for any uid.
	if a := Harmonise(View{Self: alpha, UID: "u", Row: another}); a.Call != CallMissing {
		t.Errorf("%+v", a)
	}
}

// TestHarmoniseByTheRow has the cases beside the table that take two facts to be true.
func TestHarmoniseByTheRow(t *testing.T) {
	kept := func(r *Task) { r.Outcome, r.MayStillRun = Lost, true }
	for name, c := range map[string]struct {
		container Container
		row       *Task
		call      Call
		then      Fate
	}{
		"a grant to this reservation, but ended": {Reserved,
			with(t, "COMPLETED self", func(r *Task) { r.Reservation = "r" }), NoCall, DeleteContainer},
		"a grant to none, but ended": {Reserved, rowOf(t, "COMPLETED self"), NoCall, DeleteContainer},
		"a grant to this reservation, elsewhere": {Reserved,
			with(t, "RUNNING other", func(r *Task) { r.Reservation = "r" }), NoCall, DeleteContainer},
		"lost, kept, resolved": {Live,
			with(t, "COMPLETED self", func(r *Task) { kept(r); r.Resolution = ResolvedDone }), NoCall, DeleteContainer},
		"lost, kept, elsewhere":           {Live, with(t, "COMPLETED other", kept), NoCall, DeleteContainer},
		"lost, kept, without a container": {NoContainer, with(t, "COMPLETED self", kept), NoCall, Leave},
		"lost, kept, reserved":            {Reserved, with(t, "COMPLETED self", kept), NoCall, DeleteContainer},
		"ended before, under an earlier process": {Done,
			with(t, "COMPLETED self", func(r *Task) { r.Holder.Proc = "older" }), NoCall, DeleteContainer},
		"ended before, and runs": {Live,
			with(t, "COMPLETED self", func(r *Task) { r.Holder.Proc = "older" }), NoCall, DeleteContainer},
		"cancelled, ended, under an earlier one": {Done,
			with(t, "COMPLETED self", func(r *Task) { r.Outcome, r.Holder.Proc = Cancelled, "older" }), CallComplete,
			DeleteContainer},
		"cancelled elsewhere, and has ended here": {Done,
			with(t, "COMPLETED other", func(r *Task) { r.Outcome = Cancelled }), NoCall, DeleteContainer},
		"cancelled elsewhere, and has none": {NoContainer,
			with(t, "COMPLETED other", func(r *Task) { r.Outcome = Cancelled }), NoCall, Leave},
		"lost elsewhere, and here is an end": {Done, with(t, "COMPLETED other", func(r *Task) { r.Outcome = Lost }),
			NoCall, DeleteContainer},
		"waits, though its reservation is granted": {Reserved, with(t, "PENDING", func(r *Task) { r.Reservation = "r" }),
			CallStart, RunContainer},
	} {
		a := Harmonise(View{Container: c.container, Self: alpha, UID: "u", Reservation: "r", Row: c.row})
		if a.Call != c.call || a.Then != c.then {
			t.Errorf("%s: %v %v, want %v %v", name, a.Call, a.Then, c.call, c.then)
		}
	}
}

// TestACellThatIsEmptied stops running tasks as their rows require when the time is over, and no others; it returns
// waiting ones.
func TestACellThatIsEmptied(t *testing.T) {
	kept := with(t, "COMPLETED self", func(r *Task) { r.Outcome, r.MayStillRun = Lost, true })
	for name, c := range map[string]struct {
		v    View
		call Call
		then Fate
	}{
		"runs":                {View{Container: Live, Row: rowOf(t, "RUNNING self")}, NoCall, StopContainer},
		"runs, not heard of":  {View{Container: Live, Row: rowOf(t, "PENDING")}, CallStart, Leave},
		"runs, elsewhere too": {View{Container: Live, Row: rowOf(t, "RUNNING other")}, NoCall, DeleteContainer},
		"runs, no row":        {View{Container: Live}, NoCall, DeleteContainer},
		"runs, from before":   {View{Container: Live, Older: true}, NoCall, Leave},
		"runs, lost and kept": {View{Container: Live, Row: kept}, NoCall, Leave},
		"runs, cannot be read": {View{Container: Live, Quarantined: true, Row: rowOf(t, "RUNNING self")}, NoCall,
			Leave},
		"ended":                    {View{Container: Done, Row: rowOf(t, "RUNNING self")}, CallComplete, DeleteContainer},
		"none":                     {View{Row: rowOf(t, "RUNNING self")}, CallMissing, Leave},
		"reserved, no row":         {View{Container: Reserved}, NoCall, DeleteContainer},
		"reserved, waits":          {View{Container: Reserved, Row: rowOf(t, "PENDING")}, CallReject, DeleteContainer},
		"reserved, cannot be read": {View{Container: Reserved, Quarantined: true, Row: rowOf(t, "PENDING")}, NoCall, Leave},
		"reserved, and granted": {View{Container: Reserved,
			Row: with(t, "RUNNING self", func(r *Task) { r.Reservation = "r" })}, CallStart, RunContainer},
		"reserved, runs elsewhere":   {View{Container: Reserved, Row: rowOf(t, "RUNNING other")}, NoCall, DeleteContainer},
		"never ran, and still waits": {View{Container: Unstarted, Row: rowOf(t, "PENDING")}, NoCall, DeleteContainer},
	} {
		c.v.Self, c.v.UID, c.v.Reservation = alpha, "u", "r"
		a := HarmoniseEvacuating(c.v, true)
		if a.Call != c.call || a.Then != c.then {
			t.Errorf("%s: %v %v, want %v %v", name, a.Call, a.Then, c.call, c.then)
		}
	}
}

package executor

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"cantina/cgroup"
)

var (
	sooner = time.Unix(100, 0)
	later  = time.Unix(200, 0)
)

// TestRequest has the result of each request in each state, with and without an earlier request.
func TestRequest(t *testing.T) {
	both, ending := []EventKind{EventRoutable, EventEnding}, []EventKind{EventEnding}
	for name, c := range map[string]struct {
		was    lifecycle
		ask    ask
		reason string
		want   demand
		is     lifecycle
	}{
		"stop, reserved": {lifecycle{}, askStop, "", demand{first: true, never: true}, lifecycle{ask: askStop, endBy: later}},
		"kill, reserved, again": {lifecycle{ask: askStop, endBy: sooner}, askKill, "late", demand{never: true},
			lifecycle{ask: askStop, endBy: sooner}},
		"delete, reserved": {lifecycle{}, askDelete, "", demand{first: true, deletes: true, never: true},
			lifecycle{ask: askStop, delete: true, endBy: later}},
		"stop, initializing": {lifecycle{state: Initializing}, askStop, "", demand{first: true, events: ending},
			lifecycle{state: Initializing, ask: askStop, endBy: later}},
		"kill, running": {lifecycle{state: Running}, askKill, "why", demand{first: true, events: ending},
			lifecycle{state: Running, ask: askKill, reason: "why", endBy: later}},
		"kill, routable": {lifecycle{state: Running, routable: true}, askKill, "why", demand{first: true, events: both},
			lifecycle{state: Running, routable: true, ask: askKill, reason: "why", endBy: later}},
		"kill what stops: the first counts": {lifecycle{state: Running, routable: true, ask: askStop, endBy: sooner}, askKill,
			"why", demand{},
			lifecycle{state: Running, routable: true, ask: askStop, endBy: sooner}},
		"delete, killed": {lifecycle{state: Running, ask: askKill, reason: "why", endBy: sooner}, askDelete, "",
			demand{deletes: true},
			lifecycle{state: Running, ask: askKill, reason: "why", delete: true, endBy: sooner}},
		"delete, deleted": {lifecycle{state: Running, ask: askStop, delete: true, endBy: sooner}, askDelete, "", demand{},
			lifecycle{state: Running, ask: askStop, delete: true, endBy: sooner}},
		"stop, ended": {lifecycle{state: Completed}, askStop, "", demand{first: true, events: ending},
			lifecycle{state: Completed, ask: askStop, endBy: later}},
		"delete, ended": {lifecycle{state: Completed}, askDelete, "", demand{first: true, deletes: true, forget: true},
			lifecycle{state: Completed, ask: askStop, delete: true, endBy: later}},
		"stop, deleted and ended": {lifecycle{state: Completed, ask: askStop, delete: true, endBy: sooner}, askStop, "",
			demand{forget: true},
			lifecycle{state: Completed, ask: askStop, delete: true, endBy: sooner}},
	} {
		t.Run(name, func(t *testing.T) {
			l := c.was
			if got := l.request(c.ask, c.reason, later); !reflect.DeepEqual(got, c.want) {
				t.Errorf("demands %+v, want %+v", got, c.want)
			}
			if !reflect.DeepEqual(l, c.is) {
				t.Errorf("is %+v, want %+v", l, c.is)
			}
		})
	}
}

// TestLeave: the end of the cell ends, once, all containers that are not kept or do not run yet.
func TestLeave(t *testing.T) {
	for name, c := range map[string]struct {
		was         lifecycle
		kept        bool
		first, ends bool
	}{
		"runs":               {lifecycle{state: Running}, false, true, true},
		"kept, runs":         {lifecycle{state: Running}, true, true, false},
		"kept, is made":      {lifecycle{state: Created}, true, true, true},
		"is ended":           {lifecycle{state: Running, ask: askKill}, false, true, false},
		"kept, again":        {lifecycle{state: Running, left: true}, true, false, false},
		"is ended, again":    {lifecycle{state: Running, left: true, ask: askStop}, false, false, false},
		"reserved, no start": {lifecycle{}, false, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			l := c.was
			if first, ends := l.leave(c.kept, later); first != c.first || ends != c.ends || !l.left {
				t.Errorf("first %v, ends %v, %+v", first, ends, l)
			}
			if c.ends != (l.ask == askStop && l.endBy.Equal(later)) && c.was.ask == askNothing {
				t.Errorf("is %+v", l)
			}
			if c.was.ask != askNothing && (l.ask != c.was.ask || !l.endBy.IsZero()) {
				t.Errorf("the earlier request changed: %+v", l)
			}
		})
	}
}

// TestExpiryIsOfReservationsAlone: a reservation with a start, or with a requested end, does not expire.
func TestExpiryIsOfReservationsAlone(t *testing.T) {
	for _, l := range []lifecycle{{state: Initializing}, {ask: askStop}, {state: Completed}} {
		if was := l; l.expire() || !reflect.DeepEqual(was, l) {
			t.Errorf("expired: %+v", was)
		}
	}
	var l lifecycle
	if !l.expire() || l.expire() {
		t.Error("a reservation expires once")
	}
	if r := l.neverRan(later); !r.NeverRan || !r.Failed || !r.Retryable || r.Stopped ||
		r.Reason != "the reservation expired" || r.ExitCode != -1 || !r.Ended.Equal(later) {
		t.Errorf("result: %+v", r)
	}
	l = lifecycle{ask: askStop, reason: "not of a stop"}
	if r := l.neverRan(later); !r.NeverRan || !r.Stopped || r.Failed || r.Retryable || r.Reason != "" {
		t.Errorf("result of a stopped container: %+v", r)
	}
}

// TestStatesGoOneStep: one step at a time, or to the end, which comes once.
func TestStatesGoOneStep(t *testing.T) {
	all := []State{Reserved, Initializing, Created, Running, Completed}
	for _, from := range all {
		for _, to := range all {
			l := lifecycle{state: from, phase: Phase{What: "setup"}}
			want := to == from+1 || to == Completed && from != Completed
			if ok := l.advance(to); ok != want || ok != (l.state == to && from != to) {
				t.Errorf("%v to %v: %v, is %v", from, to, ok, l.state)
			}
			if over := l.phase.What == ""; over != (want && to == Running) {
				t.Errorf("%v to %v: phase %+v", from, to, l.phase)
			}
		}
	}
	l := lifecycle{state: Running, routable: true, stuck: &Stuck{}, phase: Phase{What: "setup"}}
	if !l.complete(RunResult{ExitCode: 3}) || l.complete(RunResult{ExitCode: 4}) || l.result.ExitCode != 3 {
		t.Errorf("completes once: %+v", l)
	}
	if l.state != Completed || l.routable || l.stuck != nil || l.phase.What != "" {
		t.Errorf("an ended container: %+v", l)
	}
	if !l.forget() || l.forget() {
		t.Error("forgotten once")
	}
}

// TestEndsAndWhy: a request or a decision ends a container; the first gives the reason.
func TestEndsAndWhy(t *testing.T) {
	leftovers := "its main program has ended; its leftover processes are being ended"
	for _, c := range []struct {
		l    lifecycle
		ends bool
		why  string
	}{
		{lifecycle{state: Running}, false, ""},
		{lifecycle{state: Running, ask: askStop}, true, ""},
		{lifecycle{state: Running, ask: askKill, reason: "why"}, true, "why"},
		{lifecycle{state: Running, decided: true}, true, leftovers},
		{lifecycle{state: Running, decided: true, ask: askKill, reason: "why"}, true, leftovers},
		{lifecycle{state: Running, decided: true, decidedWhy: "check failed", reason: "why"}, true, "check failed"},
		{lifecycle{state: Completed, decided: true, decidedWhy: "check failed", ask: askKill, reason: "why"}, true, ""},
	} {
		if c.l.ends() != c.ends || c.l.endWhy() != c.why {
			t.Errorf("%+v: ends %v, %q", c.l, c.l.ends(), c.l.endWhy())
		}
	}
	l := lifecycle{endBy: sooner}
	if l.decide(later); !l.decided || !l.endBy.Equal(later) {
		t.Errorf("decided: %+v", l)
	}
}

// TestRoutableWhileItRuns: only changes are reported to the router, and only for running containers.
func TestRoutableWhileItRuns(t *testing.T) {
	for _, s := range []State{Reserved, Initializing, Created, Completed} {
		if l := (lifecycle{state: s}); l.route(true) || l.routable {
			t.Errorf("%v is routable", s)
		}
	}
	l := lifecycle{state: Running}
	var changed []bool
	for _, ok := range []bool{false, true, true, false} {
		changed = append(changed, l.route(ok))
	}
	if !slices.Equal(changed, []bool{false, true, false, true}) || l.routable {
		t.Errorf("changed: %v, %+v", changed, l)
	}
}

// TestStuckSinceTheFirst: a container that does not die is reported once, with the time of its first sighting,
// until it dies.
func TestStuckSinceTheFirst(t *testing.T) {
	var l lifecycle
	if l.unstick() {
		t.Error("nothing was stuck")
	}
	if !l.stick(&Stuck{Since: sooner}) || l.stick(&Stuck{Since: later, Processes: []StuckProcess{{Pid: 7}}}) {
		t.Error("reported once")
	}
	if !l.stuck.Since.Equal(sooner) || len(l.stuck.Processes) != 1 {
		t.Errorf("stuck: %+v", l.stuck)
	}
	if !l.unstick() || l.stuck != nil || l.unstick() {
		t.Error("all has died, once")
	}
}

// TestHangsWhileAnyStartHangs: the first hanging start is reported, and the end of the last one.
func TestHangsWhileAnyStartHangs(t *testing.T) {
	var l lifecycle
	first, second := l.startHangs(&Hang{Program: "a"}), l.startHangs(&Hang{Program: "b"})
	if !first || second || l.hang.Program != "b" {
		t.Errorf("reported: %v, %v; %+v", first, second, l.hang)
	}
	if l.startGoesOn() || l.hang == nil {
		t.Error("one still hangs")
	}
	if !l.startGoesOn() || l.hang != nil {
		t.Errorf("none hangs any more: %+v", l.hang)
	}
}

// TestCounts has the figures of the kernel, and those of programs and checks.
func TestCounts(t *testing.T) {
	l := lifecycle{state: Running}
	if more := []int{l.countKills(2), l.countKills(2), l.countKills(3), l.countKills(1)}; !slices.Equal(more,
		[]int{2, 0, 1, 0}) || l.oomKills != 3 {
		t.Errorf("new kills %v of %d", more, l.oomKills)
	}
	if l.state = Completed; l.countKills(9) != 6 || l.oomKills != 3 {
		t.Errorf("counted after its end: %d", l.oomKills)
	}
	r := RunResult{Usage: Usage{User: 5, System: 6}}
	if l.addAccount(&r); r.Usage != (Usage{User: 5, System: 6}) || r.OOM != nil {
		t.Errorf("nothing was counted: %+v", r)
	}
	l.count(cgroup.Usage{Counted: true, User: 7, System: 8, MemoryPeak: 9, OOMKills: 4, MemoryLimit: 10})
	l.addAccount(&r)
	if want := (Usage{User: 7, System: 8, Whole: true, MemoryPeak: 9}); r.Usage != want || l.oomKills != 4 ||
		*r.OOM != (OOM{Kills: 4, Limit: 10, Peak: 9}) {
		t.Errorf("counted: %+v, %+v", r.Usage, r.OOM)
	}
	l.begin(11, time.Time{})
	l.begin(12, time.Time{})
	if n, pid := l.check(); n != 1 || pid != 12 || !slices.Equal(l.mains, []int{11, 12}) {
		t.Errorf("check %d looks at %d; %v", n, pid, l.mains)
	}
	if n, _ := l.check(); n != 2 {
		t.Errorf("check %d", n)
	}
}

// TestOutcomesThatAreDue: the outcome of a container is written when it has not been deleted between two polls, or
// at the last poll. After a failed write it is written again.
func TestOutcomesThatAreDue(t *testing.T) {
	o := &outcome{}
	for name, c := range map[string]struct {
		was  lifecycle
		last bool
		want due
	}{
		"runs":                  {lifecycle{state: Running, seen: true}, true, dueNothing},
		"just ended":            {lifecycle{state: Completed}, false, dueNothing},
		"just ended, last look": {lifecycle{state: Completed}, true, dueOutcome},
		"seen before":           {lifecycle{state: Completed, seen: true}, false, dueOutcome},
		"deleted":               {lifecycle{state: Completed, seen: true, delete: true}, true, dueNothing},
		"stopped": {lifecycle{state: Completed, seen: true, result: RunResult{Stopped: true}}, true,
			dueNothing},
		"written down":            {lifecycle{state: Completed, seen: true, outcome: o}, true, dueNothing},
		"not written":             {lifecycle{state: Completed, seen: true, outcome: o, unsaved: true}, false, dueAgain},
		"not written, just ended": {lifecycle{state: Completed, outcome: o, unsaved: true}, false, dueNothing},
	} {
		l := c.was
		if got := l.look(c.last); got != c.want || l.seen != (l.state == Completed) {
			t.Errorf("%s: due %v, want %v; seen %v", name, got, c.want, l.seen)
		}
	}
}

package schedule

import (
	"slices"
	"testing"
	"time"
)

// TestRunAt: the name of a run has its logical time; other names are none of the schedule.
func TestRunAt(t *testing.T) {
	k := Key{Domain: "d", Name: "n"}
	at := time.Date(2026, 3, 2, 1, 0, 0, 0, time.UTC)
	for _, at := range []time.Time{at, at.Add(120 * time.Millisecond)} {
		for try := range 3 {
			if got, ok := RunAt(k, RunID(k, at, try)); !ok || !got.Equal(at) {
				t.Errorf("%s: %v, %v", RunID(k, at, try), got, ok)
			}
		}
	}
	for _, id := range []string{
		"", "d.n", "d.n.", "d.n.1", "d.n.20260302T010000", "d.n.20260302T010000.12", "d.n.o.20260302T010000Z",
		"d.no.20260302T010000Z", "e.n.20260302T010000Z", "d.n.20261302T010000Z",
	} {
		if at, ok := RunAt(k, id); ok {
			t.Errorf("%q is the run of %v", id, at)
		}
	}
}

// TestRunsOfARemovedScheduleAreRunsOfThisOne, each once, and none is newer than the next firing.
func TestRunsOfARemovedScheduleAreRunsOfThisOne(t *testing.T) {
	for _, c := range []struct {
		policy Policy
		moves  []string
		why    Why
	}{
		{Policy{Overlap: OverlapForbid}, nil, WhyOverlap},
		{Policy{Overlap: OverlapReplace}, []string{"end d.n.x"}, WhyNone},
		{Policy{Overlap: OverlapAllow, Max: 1}, nil, WhyOverlap},
		{Policy{Overlap: OverlapAllow, Max: 2}, []string{"start 02T01:00"}, WhyNone},
	} {
		for _, of := range []string{"00:10", "09:00"} { // before, or by a clock that was ahead
			x := begin(t, hourly, c.policy)
			x.earlier = []Run{{At: x.time(of), ID: "d.n.x"}}
			x.runs["d.n.x"] = Running
			x.at("01:00").does(Tick{}, c.moves...)
			if r := x.s.Live[0]; r.ID != "d.n.x" || r.At.After(x.now) || len(x.s.Live) > len(c.moves)+1 {
				t.Errorf("%+v: %+v", c, x.s.Live)
			}
			if h := x.s.History; c.why != WhyNone && (len(h) != 1 || h[0].Why != c.why || h[0].ID != "d.n.x") {
				t.Errorf("%+v: %+v", c, h)
			}
			x.at("01:10").does(Tick{})
			n := 0
			for _, r := range x.s.Live {
				if r.ID == "d.n.x" {
					n++
				}
			}
			if n != 1 {
				t.Errorf("%+v: it is there %d times", c, n)
			}
		}
	}
	x := begin(t, hourly, Policy{})
	x.earlier = []Run{{At: x.time("00:10"), ID: "d.n.x"}} // and it ended
	x.at("01:00").does(Tick{}, "start 02T01:00")
}

// TestTheHistoryHasHowRunsEnded: once, with the outcome at their end, and of a job that was replaced, too.
func TestTheHistoryHasHowRunsEnded(t *testing.T) {
	outcome := map[string]string{}
	for name, c := range map[string]struct {
		job   bool
		p     Policy
		ended bool // the first run, before the second time
		want  []string
	}{
		"task ended":      {false, Policy{}, true, []string{"failed", ""}},
		"job ended":       {true, Policy{}, true, []string{"failed", ""}},
		"job is over":     {true, Policy{Overlap: OverlapReplace}, true, []string{"failed", ""}},
		"job replaced":    {true, Policy{Overlap: OverlapReplace}, false, []string{OutcomeReplaced, ""}},
		"task in its way": {false, Policy{}, false, []string{"", ""}},
	} {
		x := begin(t, hourly, c.p)
		if c.job {
			x.def.Task, x.def.Job = nil, &Job{}
		}
		step := func() {
			env := x.env()
			env.Outcome = func(r Run) string { return outcome[r.ID] }
			next, _, err := Step(x.s, Tick{}, env)
			if err != nil {
				t.Fatal(name, err)
			}
			x.s = next
		}
		x.at("01:00")
		step()
		x.is("01:00", Running)
		if outcome[x.run("01:00")] = "failed"; c.ended {
			x.is("01:00", Ended)
		}
		x.at("02:00")
		step()
		x.is("02:00", Running)
		outcome[x.run("01:00")] = "later"
		x.at("02:10")
		step()
		var got []string
		for _, e := range x.s.History {
			got = append(got, e.Text)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: outcomes %q, want %q", name, got, c.want)
		}
	}
}

// TestWorkOfOthersIsOneRun of those that may run at once.
func TestWorkOfOthersIsOneRun(t *testing.T) {
	for most, want := range map[int]int{1: 0, 2: 1, 3: 1} {
		x := begin(t, hourly, Policy{Overlap: OverlapAllow, Max: most})
		for answer, want := range map[Answer]int{Running: want, Unknown: want, Ended: 1} {
			env := x.at("01:00").env()
			env.Other = func(string) (Answer, string, int) { return answer, "d.n.x", 1 }
			_, moves, err := Step(x.s, Tick{}, env)
			if err != nil || len(moves) != want {
				t.Errorf("at most %d, %v: %+v, %v, want %d moves", most, answer, moves, err, want)
			}
		}
	}
}

// TestWorkOfOthersCountsBesideOwnRuns: a schedule that allows several runs has one, and a restored store lacks others
// that cells have reported.
func TestWorkOfOthersCountsBesideOwnRuns(t *testing.T) {
	x := begin(t, hourly, Policy{Overlap: OverlapAllow, Max: 3})
	x.at("01:00").does(Tick{}, "start 02T01:00").is("01:00", Running)
	for _, c := range []struct {
		answer  Answer
		n       int
		started bool
	}{{Ended, 0, true}, {Running, 1, true}, {Running, 2, false}, {Running, 7, false}, {Unknown, 1, true}} {
		env := x.at("02:00").env()
		env.Other = func(string) (Answer, string, int) { return c.answer, "d.n.x", c.n }
		_, moves, err := Step(x.s, Tick{}, env)
		if err != nil || (len(moves) == 1) != c.started {
			t.Errorf("%v of %d: %+v, %v", c.answer, c.n, moves, err)
		}
	}
	env := x.at("02:00").env()
	env.Definition.Policy.Max = 2
	env.Other = func(string) (Answer, string, int) { return Unknown, "d.n.x", 1 }
	if after, moves, err := Step(x.s, Tick{}, env); err != nil || len(moves) != 0 || len(after.Pending) != 1 {
		t.Errorf("unknown work could be the one too many: %+v, %v", moves, err)
	}
}

// TestEachOutcomeIsThatOfItsRun, of runs beside each other, in any order of their ends.
func TestEachOutcomeIsThatOfItsRun(t *testing.T) {
	x := begin(t, hourly, Policy{Overlap: OverlapAllow, Max: 3})
	outcomes := map[string]string{}
	for clock, want := range map[string][]string{"01:00": {"failed", "", ""}, "02:00": {"", "failed", ""},
		"03:00": {"", "", "failed"}, "04:00": {"", "", ""}} {
		y := *x
		y.runs = map[string]Answer{}
		y.at("01:00").does(Tick{}, "start 02T01:00")
		y.at("02:00").does(Tick{}, "start 02T02:00")
		y.at("03:00").does(Tick{}, "start 02T03:00")
		y.is(clock, Ended).at("03:10")
		clear(outcomes)
		outcomes[y.run(clock)] = "failed"
		env := y.env()
		env.Outcome = func(r Run) string { return outcomes[r.ID] }
		s, _, err := Step(y.s, Tick{}, env)
		var got []string
		for _, e := range s.History {
			got = append(got, e.Text)
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("the run of %s ended: outcomes %q, %v, want %q", clock, got, err, want)
		}
		for _, e := range y.s.History { // values are never changed in place
			if e.Text != "" {
				t.Errorf("the older state has %+v", e)
			}
		}
	}
}

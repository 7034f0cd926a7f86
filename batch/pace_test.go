package batch

import (
	"strings"
	"testing"
)

// TestAnIncompleteTaskRunsOnceInASecond: a run of more than a second is followed at once by the next, a shorter one
// a second after its end. Explain shows the pause. A task that its cell moved has no pause.
func TestAnIncompleteTaskRunsOnceInASecond(t *testing.T) {
	for name, c := range map[string]struct {
		took   int64
		report Report
		due    int64 // after the end, milliseconds
		why    string
	}{
		"short": {0, Report{Bits: Incomplete}, 1000,
			"its last run ended incomplete after less than 1s: it runs again in 1s"},
		"almost": {999, Report{Bits: Incomplete}, 1000,
			"its last run ended incomplete after less than 1s: it runs again in 1s"},
		"long": {1000, Report{Bits: Incomplete}, 0,
			"its last run ended incomplete: it runs again as soon as there is room"},
		"moved": {0, Judge(Ended{ExitCode: -1, Again: AgainNow, Reason: "evacuated"}, nil, false), 0,
			"its last run ended incomplete: it runs again as soon as there is room"},
		"moved, wrote": {0, Judge(Ended{Signal: 15, Again: AgainNow}, []byte("incomplete"), false), 0,
			"its last run ended incomplete: it runs again as soon as there is room"},
		"with backoff": {0, incompleteBackoff, 5000,
			"its last run ended incomplete: waits 5s more; cantina job retry j --node db11"},
		"error": {0, Report{Bits: Error | UsesBackoff, ExitCode: 3}, 5000,
			"retry in 5s after a failed attempt: exit code 3; cantina job retry j --node db11"},
	} {
		t.Run(name, func(t *testing.T) {
			b := twoHosts(t)
			b.Advance(1_000_000)
			n, k := int64(0), Key{"j", "db11"}
			put(t, b, Job{Name: "j", Retries: -1, Backoff: Backoff{Seconds: []int{5}, Repeat: true}})
			start(t, b, b.Pick(4), &n)
			end := 1_000_000 + c.took
			b.Advance(end)
			finish(t, b, k, c.report)
			why, err := b.Explain(k, "", end)
			if err != nil || lines(why) != c.why {
				t.Errorf("%v %s", err, lines(why))
			}
			at, waits := b.NextDue()
			if waits != (c.due > 0) || waits && at != end+c.due {
				t.Errorf("due %d %v, want %d after the end", at-end, waits, c.due)
			}
			if waits {
				if b.Advance(end + c.due - 1); len(b.Pick(4)) != 0 {
					t.Error("picked before its time")
				}
				b.Advance(end + c.due)
			}
			if got := b.Pick(4); len(got) != 1 || got[0].Key != k {
				t.Errorf("picked %v", got)
			}
		})
	}
}

// TestAPaceIsNoProgress: the pause of a short incomplete run moves nothing in the backoff list.
func TestAPaceIsNoProgress(t *testing.T) {
	short := Apply(Status{}, inv(1), Report{Bits: Incomplete}, 1500, Rules{Began: 1000})
	if short.Backoff != 1 || short.configured() != 0 || short.Due() != 2500 {
		t.Errorf("%+v, progress %d, due %d", short, short.configured(), short.Due())
	}
	list := Backoff{Seconds: []int{1, 2}, Repeat: true}
	if next := list.Next(short.configured()); next.Seconds != 1 {
		t.Errorf("the pause after it is %d s", next.Seconds)
	}
	never := Apply(short, inv(2), NeverStarted("no"), 1600, Rules{})
	if never.Backoff != 0 {
		t.Errorf("%+v", never)
	}
}

// TestTheStatusOfTheProgramIsReported: a status that is worse than the exit code is why.
func TestTheStatusOfTheProgramIsReported(t *testing.T) {
	for _, c := range []struct {
		end    Ended
		text   string
		ignore bool
		want   string
	}{
		{Ended{}, "failed", false, "failed: the program reported failed"},
		{Ended{}, `{"result":"failed"}`, false, "failed: the program reported failed"},
		{Ended{ExitCode: 3}, "failed", false, "failed: exit code 3: the program reported failed"},
		{Ended{ExitCode: 3}, "failed", true, "failed: exit code 3: the program reported failed"},
		{Ended{Signal: 9}, "failed", false, "failed: signal 9: the program reported failed"},
		{Ended{}, "error_backoff", false, "failed: the program reported an error"},
		{Ended{ExitCode: 3}, "", false, "failed: exit code 3"},
		{Ended{ExitCode: 3}, "done", false, "failed: exit code 3; it had written the status done"},
	} {
		b := twoHosts(t)
		n, k := int64(0), Key{"j", "db11"}
		put(t, b, Job{Name: "j", Backoff: Backoff{Fail: true}})
		start(t, b, b.Pick(4), &n)
		r := Judge(c.end, []byte(c.text), c.ignore)
		finish(t, b, k, r)
		for _, reason := range []string{r.Reason, ""} { // the board alone cannot know it
			why, err := b.Explain(k, reason, 0)
			got, _, _ := strings.Cut(lines(why), "; cantina")
			if err != nil || reason != "" && got != c.want || reason == "" && strings.Contains(got, "exit code 0") {
				t.Errorf("%+v %q: %v %q, want %q", c.end, c.text, err, got, c.want)
			}
		}
	}
}

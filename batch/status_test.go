package batch

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"cantina/fence"
)

func inv(n int64) fence.Invocation {
	return fence.Invocation{Term: fence.Term{Epoch: 1, Revision: 1}, Counter: n}
}

// run applies reports one after another with the backoff list [1,2,4,"fail"].
func applyAll(reports ...Report) []Status {
	b := Backoff{Seconds: []int{1, 2, 4}, Fail: true}
	var s Status
	var out []Status
	for i, r := range reports {
		s = Apply(s, inv(int64(i+1)), r, 0, Rules{Next: b.Next(s.configured()), Retries: -1})
		out = append(out, s)
	}
	return out
}

var ( // fixed inputs of the tables
	errorBackoff      = Report{Bits: Error | UsesBackoff}
	incomplete        = Report{Bits: Incomplete}
	incompleteBackoff = Report{Bits: Incomplete | UsesBackoff | KeepBackoff}
)

func TestBackoffVectors(t *testing.T) {
	for _, c := range []struct {
		name    string
		reports []Report
		want    string
	}{
		{"errors advance, incomplete begins anew, the end fails",
			[]Report{errorBackoff, errorBackoff, incomplete, errorBackoff, errorBackoff, errorBackoff, errorBackoff},
			"error 1, error 2, incomplete 0, error 1, error 2, error 4, failed 60"},
		{"incomplete_backoff keeps the pause",
			[]Report{incompleteBackoff, incompleteBackoff, errorBackoff, incompleteBackoff},
			"incomplete 1, incomplete 1, error 2, incomplete 2"},
		{"what never ran does not begin the sequence anew",
			[]Report{errorBackoff, errorBackoff, NeverStarted("no"), errorBackoff},
			"error 1, error 2, error 2, error 4"},
		{"bits 8|64 at the end of the list wait and do no harm",
			[]Report{errorBackoff, errorBackoff, errorBackoff, {Bits: Incomplete | UsesBackoff}},
			"error 1, error 2, error 4, incomplete 4"},
		{"done ends it", []Report{errorBackoff, {Bits: Done}}, "error 1, done 0"},
	} {
		var got []string
		for _, s := range applyAll(c.reports...) {
			got = append(got, fmt.Sprintf("%s %d", word(s.Bits), s.Backoff))
		}
		if g := strings.Join(got, ", "); g != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.name, g, c.want)
		}
	}
}

func word(b Bits) string {
	switch b & currentStatusBits {
	case Done:
		return "done"
	case Incomplete:
		return "incomplete"
	case Failed:
		return "failed"
	case Error:
		return "error"
	}
	return fmt.Sprint(int(b))
}

func TestDueIsStrictAndFailedIsNotInBackoff(t *testing.T) {
	s := applyAll(errorBackoff)[0]
	if s.Due() != 1000 {
		t.Errorf("due at %d", s.Due())
	}
	all := applyAll(errorBackoff, errorBackoff, errorBackoff, errorBackoff)
	if last := all[3]; last.Bits&Failed == 0 || last.Due() != 0 {
		t.Errorf("failed is not in backoff: %+v", last)
	}
}

// TestLostVectors are Bistro's: list [5,"fail"], guard 66.
func TestLostVectors(t *testing.T) {
	b := Backoff{Seconds: []int{5}, Fail: true}
	rules := func(s Status) Rules { return Rules{Next: b.Next(s.configured()), Retries: -1, Guard: 66} }
	s := Apply(Status{}, inv(1), LostReport("gone"), 0, rules(Status{}))
	if s.Bits&Error == 0 || s.Saved != 5 || s.Backoff != 66 {
		t.Fatalf("lost once: %+v", s)
	}
	s2 := Apply(s, inv(2), LostReport("gone"), 0, rules(s))
	if s2.Bits&Failed == 0 || s2.Saved != 60 || s2.Backoff != 66 {
		t.Fatalf("lost twice: %+v", s2)
	}
	s3, changed := Retried(s2)
	if !changed || s3.Bits&Error == 0 || s3.Saved != 0 || s3.Backoff != 66 || s3.Due() != 66_000 {
		t.Errorf("forgiven: %+v", s3)
	}
	if !Replaces(s, inv(1), incompleteBackoff) {
		t.Error("the late real status replaces the synthetic one")
	}
}

func TestReplacementTable(t *testing.T) {
	real := Apply(Status{}, inv(5), Report{Bits: Done}, 0, Rules{})
	synthetic := Apply(Status{}, inv(5), NeverStarted("no"), 0, Rules{Retries: -1})
	for _, c := range []struct {
		name string
		prev Status
		n    int64
		r    Report
		want bool
	}{
		{"newer over real", real, 6, errorBackoff, true},
		{"older over real", real, 4, errorBackoff, false},
		{"replay of a real one", real, 5, Report{Bits: Done}, false},
		{"synthetic over real of the same", real, 5, LostReport("x"), false},
		{"real over synthetic of the same", synthetic, 5, Report{Bits: Done}, true},
		{"synthetic over synthetic of the same", synthetic, 5, LostReport("x"), false},
		{"older real over a newer synthetic", synthetic, 4, Report{Bits: Done}, false},
		{"first", Status{}, 1, Report{Bits: Done}, true},
	} {
		if got := Replaces(c.prev, inv(c.n), c.r); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestRetriesAndLosses(t *testing.T) {
	var s Status
	rules := Rules{Next: NextBackoff{Seconds: 1}, Retries: 2}
	for i := range 3 {
		s = Apply(s, inv(int64(i+1)), errorBackoff, 0, rules)
		if failed := s.Bits&Failed != 0; failed != (i == 2) {
			t.Errorf("attempt %d: failed %v", i+1, failed)
		}
	}
	s = Status{}
	for i := range 6 {
		s = Apply(s, inv(int64(i+1)), LostReport("x"), 0, rules)
		if failed := s.Bits&Failed != 0; failed != (i == 5) {
			t.Errorf("loss %d: failed %v", i+1, failed)
		}
	}
	if s := Apply(Status{}, inv(1), errorBackoff, 0, Rules{Next: NextBackoff{Seconds: 1}}); s.Bits&Failed == 0 {
		t.Error("no retries: the first error fails")
	}
	if s := Apply(Status{}, inv(1), incompleteBackoff, 0, Rules{Next: NextBackoff{Seconds: 1}}); s.Bits&Failed != 0 {
		t.Error("an interrupted task has not failed")
	}
}

func TestParseStatusVectors(t *testing.T) {
	for text, want := range map[string]Report{
		"done":                                {Bits: Done},
		"done\n":                              {Bits: Done},
		"incomplete":                          {Bits: Incomplete},
		"incomplete_backoff":                  incompleteBackoff,
		"error_backoff":                       errorBackoff,
		"backoff":                             errorBackoff,
		"failed":                              {Bits: Failed},
		`{"result":"done","data":{"a": 1}}`:   {Bits: Done, Data: []byte(`{"a":1}`)},
		`{"result_bits":96}`:                  errorBackoff,
		`{"result_bits":"4"}`:                 {Bits: Done},
		`{"result_bits":4,"result":"failed"}`: {Bits: Done},
		`{"result":"done","data":{}}`:         {Bits: Done},
		`{"data":{"__bistro_saved_backoff":123},"result_bits":4}`: {Bits: Done},
		`{"result_bits":1056}`: {Bits: Error},
	} {
		got, err := ParseStatus([]byte(text))
		if err != nil || got.Bits != want.Bits || string(got.Data) != string(want.Data) {
			t.Errorf("%s: %+v, %v; want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "foo", `{"result_bits":"bad"}`, `{"result_bits":[]}`, `{"result_bits":0}`, `{"result_bits":12}`,
		`{"result_bits":1}`, `{"result_bits":128}`,
		`{"result_bits":256}`, `{"result_bits":2048}`, `{"result_bits":4098}`, `{"result_bits":2}`, `{"result_bits":-4}`,
		`{"result":"done","data":[5,"6"]}`,
		`{"result":"potato"}`, `{}`, `{"result":"done","data":{"x":"` + strings.Repeat("y", MaxData) + `"}}`,
		strings.Repeat("z", 10<<20),
	} {
		if r, err := ParseStatus([]byte(text)); !errors.Is(err, ErrStatus) {
			t.Errorf("%.60s: %+v, %v", text, r, err)
		}
	}
}

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		name   string
		e      Ended
		text   string
		ignore bool
		bits   Bits
		reason string
	}{
		{"a written status is no better than the exit code", Ended{ExitCode: 3}, "done", false, Error | UsesBackoff,
			"exit code 3; it had written the status done"},
		{"a written status is all that counts", Ended{ExitCode: 3}, "done", true, Done, ""},
		{"the cell is emptied in the middle of a status",
			Ended{Signal: 15, Killed: true, Reason: "evacuated", Again: AgainNow}, `{"resu`, false, Incomplete, "evacuated"},
		{"exit 0 without a status", Ended{}, "", false, Done, ""},
		{"empty last line", Ended{}, "\n", false, Done, ""},
		{"exit 3", Ended{ExitCode: 3}, "", false, Error | UsesBackoff, "exit code 3"},
		{"signal", Ended{Signal: 11}, "", false, Error | UsesBackoff, "ended by signal 11"},
		{"killed", Ended{Signal: 15, Killed: true}, "", false, Incomplete | UsesBackoff | KeepBackoff,
			"Task killed, no status returned"},
		{"time-out", Ended{Signal: 9, Killed: true, TimedOut: true}, "", false, Error | UsesBackoff, "time-out"},
		{"time-out while the image is pulled", Ended{ExitCode: -1, TimedOut: true,
			Reason: "rootfs: time limit exceeded: 5s, while the image i was made ready"}, "", false, Error | UsesBackoff,
			"rootfs: time limit exceeded: 5s, while the image i was made ready"},
		{"old meaning", Ended{}, "", true, Error | UsesBackoff, "Failed to read a status"},
		{"did not start", Ended{Reason: "no such file"}, "", false, Error | UsesBackoff, "no such file"},
		{"nonsense", Ended{}, "what", false, Error | UsesBackoff,
			`cannot read status "what": neither a status word nor a JSON object: bad status`},
	} {
		r := Judge(c.e, []byte(c.text), c.ignore)
		if r.Bits != c.bits || r.Reason != c.reason || r.ExitCode != c.e.ExitCode || r.Signal != c.e.Signal {
			t.Errorf("%s: %+v", c.name, r)
		}
	}
}

// TestTheWorseOfEndAndStatusCounts tries every end with every status in every form. The stored status is never
// better than the end, and its data is kept as progress.
func TestTheWorseOfEndAndStatusCounts(t *testing.T) {
	ends := map[string]struct {
		e    Ended
		bits Bits
	}{
		"exit 0":              {Ended{}, Done},
		"exit 3":              {Ended{ExitCode: 3}, Error | UsesBackoff},
		"signal 9":            {Ended{ExitCode: -1, Signal: 9}, Error | UsesBackoff},
		"no result":           {Ended{ExitCode: -1, Reason: "lost"}, Error | UsesBackoff},
		"failed, though 0":    {Ended{Reason: "unhealthy"}, Error | UsesBackoff},
		"time limit":          {Ended{ExitCode: -1, Signal: 15, TimedOut: true, Reason: "time limit"}, Error | UsesBackoff},
		"time limit, heeded":  {Ended{TimedOut: true}, Error | UsesBackoff},
		"killed":              {Ended{ExitCode: -1, Signal: 15, Killed: true}, Incomplete | UsesBackoff | KeepBackoff},
		"killed, exit 0":      {Ended{Killed: true}, Incomplete | UsesBackoff | KeepBackoff},
		"killed, exit 1":      {Ended{ExitCode: 1, Killed: true}, Incomplete | UsesBackoff | KeepBackoff},
		"evacuated":           {Ended{ExitCode: -1, Signal: 15, Killed: true, Again: AgainNow}, Incomplete},
		"evacuated, exit 0":   {Ended{Killed: true, Again: AgainNow}, Incomplete},
		"could not be made":   {Ended{ExitCode: -1, Again: AgainLater}, Incomplete | UsesBackoff | KeepBackoff},
		"evacuated by signal": {Ended{ExitCode: -1, Signal: 9, Killed: true, Again: AgainNow}, Incomplete},
	}
	order := func(b Bits) int { return strings.Index("done incomplete error failed", word(b)) }
	for name, end := range ends {
		for _, label := range []string{"done", "incomplete", "incomplete_backoff", "error_backoff", "backoff", "failed"} {
			bits, _ := labelBits(label)
			forms := map[string]bool{
				label: false, label + "\n": false, " " + label + " ": false,
				fmt.Sprintf(`{"result":%q}`, label): false, fmt.Sprintf(`{"result":%q,"data":{"at":5}}`, label): true,
				fmt.Sprintf(`{"result_bits":%d,"data":{"at":5}}`, bits):                     true,
				fmt.Sprintf(`{"data":{"at":5},"result_bits":"%d","result":"failed"}`, bits): true,
			}
			for text, data := range forms {
				want := bits
				if order(end.bits) > order(bits) {
					want = end.bits
				}
				r := Judge(end.e, []byte(text), false)
				if r.Bits != want || (string(r.Data) == `{"at":5}`) != data || r.ExitCode != end.e.ExitCode ||
					r.Signal != end.e.Signal {
					t.Errorf("%s, %s: %+v, want %s", name, text, r, word(want))
				}
				if r := Judge(end.e, []byte(text), true); r.Bits != bits || (string(r.Data) == `{"at":5}`) != data {
					t.Errorf("%s, %s, exit code ignored: %+v", name, text, r)
				}
			}
		}
	}
}

func TestBackoffList(t *testing.T) {
	for want, b := range map[string]Backoff{
		`[15 30 fail]`: {Seconds: []int{15, 30}}, `[15 repeat]`: {Seconds: []int{15}, Repeat: true}, `[fail]`: {Fail: true},
		`[15 30 60 300 900 3600 7200 21600 86400 repeat]`: {},
	} {
		if err := b.Check(); err != nil || fmt.Sprint(b.List()) != want {
			t.Errorf("%s: %v, %v", want, b.List(), err)
		}
	}
	for _, b := range []Backoff{{Seconds: []int{0}}, {Seconds: []int{-1}}, {Seconds: []int{5, 5}}, {Seconds: []int{5, 4}},
		{Repeat: true}} {
		if err := b.Check(); !errors.Is(err, ErrBackoff) {
			t.Errorf("%+v: %v", b, err)
		}
	}
	if n := (Backoff{}).Next(86400); n.NoMore || n.Seconds != 86400 {
		t.Errorf("the default list repeats: %+v", n)
	}
	if n := (Backoff{Fail: true}).Next(0); !n.NoMore || n.Seconds != 60 {
		t.Errorf("only fail: %+v", n)
	}
}

func TestWordsOfClassesAndStates(t *testing.T) {
	if got := fmt.Sprint(ClassAbsent, ClassReady, classes); got != "absent ready unknown class" {
		t.Error(got)
	}
	if got := fmt.Sprint(JobWaiting, JobEmpty, JobEmpty+1); got != "waiting empty unknown state" {
		t.Error(got)
	}
}

package executor

import (
	"strings"
	"testing"
	"time"

	"cantina/action"
	"cantina/logstore"
	"cantina/resource"
)

func TestResultInWords(t *testing.T) {
	began := time.Unix(100, 0)
	ran := func(r RunResult) *RunResult {
		r.Started, r.Ended = began, began.Add(1234*time.Millisecond)
		r.Usage = Usage{User: 31 * time.Millisecond, System: 9 * time.Millisecond, Whole: true, MemoryPeak: 12 << 20}
		return &r
	}
	for want, r := range map[string]*RunResult{
		"exit status 0 after 1.234s; user 31ms, system 9ms, memory 12.0 MB": ran(RunResult{}),
		"exit status 3 after 1.234s; user 31ms, system 9ms, memory 12.0 MB": ran(RunResult{Failed: true,
			Reason: "exit status 3", ExitCode: 3}),
		"killed after 1.234s; user 31ms, system 9ms, memory 12.0 MB; 2 killed for lack of memory, limit 32 MB, " +
			"peak 31 MB": ran(RunResult{
			Failed: true, Reason: "killed", OOM: &OOM{Kills: 2, Limit: 32 << 20, Peak: 31 << 20}}),
		"exit status 0 after 1s; user 1s, system 0s (of the main program and the children it waited for), " +
			"memory not counted without a limit": {
			Started: began, Ended: began.Add(time.Second), Usage: Usage{User: time.Second}},
		"lost after 1.234s": ran(RunResult{Failed: true, Reason: "lost", Lost: true}),
		"no such file":      {Failed: true, Reason: "no such file"},
	} {
		if got := r.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestEndOfEachAttemptStays: how a container ended can be read when it is gone.
func TestEndOfEachAttemptStays(t *testing.T) {
	t.Parallel()
	e := testExecutor(t, nil)
	limited := sh(hog)
	limited.Workload.Resources = resource.Amounts{resource.MemoryMB: 32}
	parts := map[string][]string{
		"code":    {"exit status 3 after ", "; user ", ", memory "},
		"signal":  {"killed by signal 7 "},
		"missing": {"no such file"},
		"fine":    nil,
	}
	specs := map[string]Spec{"code": sh("exit 3"), "signal": sh("kill -7 $$"), "fine": sh("true"),
		"missing": {Workload: action.Workload{Action: action.Action{Run: &action.Run{Path: "/no/such"}}}}}
	if e.backend.tree() != nil {
		if offers, _ := e.backend.tree().Offers(); len(offers) == 3 {
			specs["memory"], parts["memory"] = limited, []string{"out of memory", "killed for lack of memory, limit 32 MB"}
		}
	}
	for id, s := range specs {
		launch(t, e, id, s)
		e.Delete(id)
		await(t, e, id, gone)
		text := strings.Join(lines(t, e, id, logstore.Event), "\n")
		for _, want := range parts[id] {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %q lacks %q", id, text, want)
			}
		}
		if parts[id] == nil && text != "" {
			t.Errorf("%s: %q", id, text)
		}
	}
}

// TestOutputIsFoundByAttempt: all streams of a container are under its attempt.
func TestOutputIsFoundByAttempt(t *testing.T) {
	e := testExecutor(t, nil)
	for _, n := range []string{"1", "2"} {
		id := "b-" + n
		r := Reservation{ID: id, Labels: Labels{"job": "crunch", LabelAttempt: n}}
		if err := e.Launch(r, sh("echo out "+n+"; echo err "+n+" >&2; exit 3")); err != nil {
			t.Fatal(err)
		}
		await(t, e, id, completed)
	}
	for _, n := range []string{"1", "2"} {
		page, err := e.Output().Query(t.Context(), logstore.Query{Labels: Labels{"job": "crunch"}, Attempt: n})
		if err != nil {
			t.Fatal(err)
		}
		seen := map[logstore.Stream]bool{}
		for _, l := range page.Lines {
			seen[l.Stream] = true
			if l.Source.ID != "b-"+n {
				t.Errorf("attempt %s has a line of %s", n, l.Source.ID)
			}
		}
		if !seen[logstore.Stdout] || !seen[logstore.Stderr] || !seen[logstore.Event] {
			t.Errorf("attempt %s: streams %v", n, seen)
		}
	}
}

// TestUseIsThatOfTheContainer: of all its processes, and of nothing of the cell.
func TestUseIsThatOfTheContainer(t *testing.T) {
	t.Parallel()
	ballast := make([]byte, 128<<20) // the cell is large
	for i := 0; i < len(ballast); i += 4096 {
		ballast[i] = 1
	}
	shapes := map[string]func(*Spec){
		"single": func(*Spec) {},
		"steps":  func(s *Spec) { s.Workload.Setup = setup() },
		"kept":   func(s *Spec) { s.Workload.OnCellRestart = action.RestartKeep },
	}
	for name, mode := range map[string]CgroupMode{"v2": CgroupAuto, "none": CgroupNone} {
		e := testExecutor(t, func(c *Config) { c.Cgroups = mode })
		for shape, change := range shapes {
			if e.backend.tree() == nil && shape == "kept" {
				continue
			}
			for _, limited := range []bool{false, true} {
				// The main program is idle; its child works, and no process waits for the child.
				s := sh("(i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done; echo >done) & until [ -e done ]; do sleep 0.01; " +
					"done; exit 3")
				change(&s)
				counts := e.backend.tree() != nil
				if limited {
					s.Workload.Resources = resource.Amounts{resource.MemoryMB: 64}
					if counts {
						needLimit(t, e, "memory")
					}
				}
				u := launch(t, e, shape+map[bool]string{true: " limited"}[limited], s).Result.Usage
				if u.Whole != (counts) || u.Whole && u.User+u.System < 20*time.Millisecond {
					t.Errorf("%s %s: %+v", name, shape, u)
				}
				if (u.MemoryPeak > 0) != (counts && limited) || u.MemoryPeak > 64<<20 {
					t.Errorf("%s %s, limited %v: %+v", name, shape, limited, u)
				}
			}
		}
	}
	if ballast[0] != 1 {
		t.Error()
	}
}

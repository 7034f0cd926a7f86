package executor

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cantina/action"
	"cantina/internal/removal"
)

// TestStatesGoForward: a state is followed by the next or by the last, and by no other.
func TestStatesGoForward(t *testing.T) {
	for from := Reserved; from <= Completed; from++ {
		for to := Reserved; to <= Completed; to++ {
			want := to == from+1 || to == Completed && from != Completed
			if from.next(to) != want {
				t.Errorf("%v to %v: %v", from, to, !want)
			}
		}
	}
}

// TestSignalsAroundTheEnd: programs that are stopped close to their own end have ended one way or the other, and no
// other process got a signal. (Bistro, Test scenarios: 100 processes signalled around their exit.)
func TestSignalsAroundTheEnd(t *testing.T) {
	t.Parallel()
	unrelated := startUnrelated(t)
	e := testExecutor(t, nil)
	const n = 100
	for i := range n {
		s := sh("exit 7")
		if i%2 == 1 {
			s = sh("sleep 0.0" + fmt.Sprint(i%10) + "; exit 7")
		}
		if err := e.Launch(Reservation{ID: fmt.Sprint("x", i)}, s); err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		id := fmt.Sprint("x", i)
		if i%4 > 1 { // others are stopped before they run
			await(t, e, id, runningState)
		}
		if err := e.Stop(id); err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		r := await(t, e, fmt.Sprint("x", i), completed).Result
		ended := r.ExitCode == 7 && r.Signal == 0
		signalled := r.Stopped && !r.Failed && r.ExitCode == -1 && (r.Signal == 0 || r.Signal == 15)
		if !ended && !signalled {
			t.Errorf("x%d: %+v", i, r)
		}
	}
	if !unrelated.Alive() {
		t.Error("a process that has nothing to do with it was hit")
	}
}

// TestManyRunAtOnce: ten containers run beside one another with any number of starting threads: each waits for all.
// (Bistro, Test scenarios: 10 tasks on 2 threads.)
func TestManyRunAtOnce(t *testing.T) {
	e := testExecutor(t, nil)
	dir := tempDir(t)
	const n = 10
	for i := range n {
		s := sh(fmt.Sprintf("echo > %[1]s/%[2]d; until [ $(ls %[1]s | wc -l) = %[3]d ]; do sleep 0.01; done", dir, i, n))
		if err := e.Launch(Reservation{ID: fmt.Sprint("x", i)}, s); err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		if r := await(t, e, fmt.Sprint("x", i), completed).Result; r.Failed {
			t.Errorf("%+v", r)
		}
	}
}

// TestStatusOutlivesTheKill: a status that was written stands although the program was
// killed after it. (Bistro, Test scenarios: the status is still done.)
func TestStatusOutlivesTheKill(t *testing.T) {
	t.Parallel()
	e := testExecutor(t, nil)
	s := sh("trap 'echo done >&3; echo said' TERM; echo up; while :; do sleep 1000 & wait; done")
	s.StatusPipe = true
	s.Workload.Termination = action.Termination{Grace: 3 * time.Second}
	if err := e.Launch(Reservation{ID: "x"}, s); err != nil {
		t.Fatal(err)
	}
	awaitLine(t, e, "x", "up")
	if err := e.Stop("x"); err != nil {
		t.Fatal(err)
	}
	c := await(t, e, "x", completed)
	if string(c.Result.Status) != "done" || c.Result.Signal != 9 || !c.Result.Stopped {
		t.Errorf("%+v, status %q", c.Result, c.Result.Status)
	}
}

// TestClausesHaveTheirTests: every test that docs/design/executor-clauses.md names is
// there.
func TestClausesHaveTheirTests(t *testing.T) {
	page, err := os.ReadFile("../docs/design/executor-clauses.md")
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for _, pattern := range []string{"*_test.go", "*/*_test.go", "../*/*_test.go", "../*/*/*_test.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(b)) {
				if rest, ok := strings.CutPrefix(line, "func "); ok {
					name, _, _ := strings.Cut(rest, "(")
					there[name] = true
				}
			}
		}
	}
	rows, named := 0, 0
	for line := range strings.Lines(string(page)) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| clause") {
			continue
		}
		rows++
		before := named
		for _, word := range strings.FieldsFunc(line,
			func(r rune) bool { return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9') }) {
			if !strings.HasPrefix(word, "Test") && !strings.HasPrefix(word, "Benchmark") || word == "Test" ||
				word == "Benchmark" {
				continue
			}
			named++
			if !there[word] {
				t.Errorf("there is no %s: %s", word, line)
			}
		}
		if named == before {
			t.Errorf("no test is named: %s", line)
		}
	}
	if rows < 90 {
		t.Errorf("only %d clauses", rows)
	}
}

// TestMountsInTheDirectoryAreNotEmptied: a container that has mounted something in its directory leaves the mount
// to no later container, and the mounted files as they are.
func TestMountsInTheDirectoryAreNotEmptied(t *testing.T) {
	needRoot(t)
	precious := tempDir(t)
	file := filepath.Join(precious, "file")
	if err := os.WriteFile(file, []byte("precious"), 0o644); err != nil {
		t.Fatal(err)
	}
	e := testExecutor(t, nil)
	s := sh("mkdir 'a b' && mount --bind " + precious + " 'a b' && echo mounted")
	c := launch(t, e, "x", s)
	if c.Result.Failed {
		t.Skip("skipped: nothing can be mounted here: ", c.Result.LastErr)
	}
	if used := diskUsage(c.Dir); used > 64<<10 {
		t.Errorf("%d bytes are counted as the container's", used)
	}
	if at, err := removal.Mounts(c.Dir); err != nil || len(at) != 1 {
		t.Errorf("mounts %v, %v", at, err)
	}
	e.Delete("x")
	await(t, e, "x", gone)
	if b, err := os.ReadFile(file); err != nil || string(b) != "precious" {
		t.Errorf("%q, %v", b, err)
	}
	if left, err := removal.Mounts(c.Dir); err != nil || len(left) != 0 {
		t.Errorf("mounts are left: %v", left)
	}
}

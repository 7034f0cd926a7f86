package mutate

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// machine has changes of each kind, most of which its test notices.
const machine = `package machine

import "time"

type event interface{ is() }
type on struct{}
type off struct{}
type other struct{}

func (on) is()    {}
func (off) is()   {}
func (other) is() {}

const steps = 3

func step(e event, n int, d time.Duration) int {
	if n < 1 || d > 2*time.Second {
		return -1
	} else if n > 90 {
		n = 90
	}
	switch e.(type) {
	case on, other:
		return n + 1
	case off:
		return n - 1
	}
	switch n {
	case 7, 8:
		return 70
	case 9:
		return 90
	default:
		return steps
	}
}
`

const machineTest = `package machine

import (
	"os"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	for os.Getenv("SPIN") != "" {
	}
	os.Exit(m.Run())
}

func TestNothing(*testing.T) {}

func TestStep(t *testing.T) {
	for _, c := range []struct {
		e    event
		n    int
		d    time.Duration
		want int
	}{
		{on{}, 1, time.Second, 2}, {off{}, 5, 2 * time.Second, 4}, {on{}, 0, 0, -1}, {on{}, 5, time.Minute, -1},
		{nil, 7, 0, 70}, {nil, 8, 0, 70}, {nil, 6, 0, 3}, {on{}, 95, 0, 91},
	} {
		if got := step(c.e, c.n, c.d); got != c.want {
			t.Errorf("step(%T, %d, %s) = %d, want %d", c.e, c.n, c.d, got, c.want)
		}
	}
}
`

func writeMachine(t *testing.T) *Package { return write(t, machine) }

func write(t *testing.T, code string) *Package {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module machine\n\ngo 1.26\n", "machine.go": code, "machine_test.go": machineTest,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p, err := Load(dir, 1)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestChangesOfOneProgram builds a package once with all its changes and finds just those
// that its test does not notice.
func TestChangesOfOneProgram(t *testing.T) {
	p := writeMachine(t)
	program, err := NewTests(p, t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	var survive, alone []string
	for i, m := range p.All {
		id := m.ID()[len(filepath.Base(p.Dir))+len("/machine.go step: "):]
		verdict := Verdict(0)
		if p.Number[i] == 0 {
			alone = append(alone, id)
			if verdict, err = program.TryAlone(m); err != nil {
				t.Fatal(err)
			}
		} else {
			verdict = program.Try(p.Number[i])
		}
		if verdict == Survives {
			survive = append(survive, id)
		}
	}
	want := []string{
		"case: case 9: return 90 ->", // the test has no 9
		"constant: 9 -> 10",
		"constant: 90 -> 91 (3)",
		"comparison: n > 90 -> >=", // nothing changes at 90
		"constant: 90 -> 91",
		"constant: 2 -> 3", // the test has no time in between
	}
	slices.Sort(survive)
	slices.Sort(want)
	if !slices.Equal(survive, want) {
		t.Errorf("survive:\n%q\nwant\n%q", survive, want)
	}
	if want := []string{"case: default: return steps ->"}; !slices.Equal(alone, want) {
		t.Errorf("built alone: %q, want %q", alone, want)
	}
}

// TestSomeTests runs only those that are asked for.
func TestSomeTests(t *testing.T) {
	program, err := NewTests(writeMachine(t), t.TempDir(), "TestNothing")
	if err != nil || len(program.parts) != 1 || len(program.parts[0].reached) > 0 {
		t.Errorf("%+v, %v", program, err)
	}
}

// TestValuesBesideAnErrorAreIdle marks no others: an error in a variable may be nil.
func TestValuesBesideAnErrorAreIdle(t *testing.T) {
	p := write(t, `package machine

import (
	"errors"
	"fmt"
)

type problem struct{}

func (*problem) Error() string { return "" }

var ErrOdd = errors.New("odd")

func half(n int) (int, bool, error) {
	var err error
	switch n {
	case 1:
		return 11, false, ErrOdd
	case 2:
		return 12, true, fmt.Errorf("%d", n)
	case 3:
		return 13, false, &problem{}
	case 4:
		return 14, false, err
	}
	return 15, n > 16, nil
}
`)
	var idle []string
	for _, m := range p.All {
		if m.Idle {
			idle = append(idle, m.Old)
		}
	}
	if want := []string{"11", "false", "12", "true", "13", "false"}; !slices.Equal(idle, want) {
		t.Errorf("idle are %q, want %q", idle, want)
	}
}

// TestLoopIsEnded ends a program that does not stop, by the processor time that it has taken.
func TestLoopIsEnded(t *testing.T) {
	program, err := NewTests(writeMachine(t), t.TempDir(), "TestNothing")
	if err != nil {
		t.Fatal(err)
	}
	_, used, err := program.run(program.parts, time.Millisecond, "SPIN=1")
	if err == nil || used < time.Second/2 || used > 5*time.Second {
		t.Errorf("ended with %v after %v of processor time", err, used)
	}
}

// TestKnownSurvivorsAreInTheCode fails on a name in the list that the code no longer has.
func TestKnownSurvivorsAreInTheCode(t *testing.T) {
	known, err := ReadKnown("survivors.txt")
	if err != nil {
		t.Fatal(err)
	}
	var have []Small
	for _, dir := range []string{
		"lrp", "task", "worker", "workerset", "placement", "batch", "schedule", "cron", "fence",
	} {
		files, err := filepath.Glob(filepath.Join("..", "..", dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s has no files: %v", dir, err)
		}
		for _, f := range files {
			l, err := list(f)
			if err != nil {
				t.Fatal(err)
			}
			have = append(have, l.out...)
		}
	}
	for _, id := range Stale(known, have) {
		t.Errorf("%s: the code has no such change; take it off the list", id)
	}
	known["fence/fence.go Believable: branch: if gone { } ->"] = "a name that was there once"
	if got := Stale(known, have); len(got) != 1 {
		t.Errorf("%d names are out of date, want the one that was put in: %q", len(got), got)
	}
}

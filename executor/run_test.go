package executor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cantina/action"
	"cantina/logstore"
	"cantina/resource"
)

func TestEchoAndExitCodeAreNeverLost(t *testing.T) {
	t.Parallel()
	e := testExecutor(t, nil)
	for i := range 100 {
		id := fmt.Sprint("c", i)
		c := launch(t, e, id, sh("echo A; echo B >&2; exit 3"))
		r := c.Result
		if !r.Failed || r.ExitCode != 3 || r.Signal != 0 || r.Reason != "exit status 3" {
			t.Fatalf("result = %+v", r)
		}
		if !slices.Equal(r.LastOut, []string{"A"}) || !slices.Equal(r.LastErr, []string{"B"}) {
			t.Fatalf("last lines %q, %q", r.LastOut, r.LastErr)
		}
		if got := lines(t, e, id, logstore.Stdout); !slices.Equal(got, []string{"A"}) {
			t.Fatalf("stdout %q", got)
		}
		if err := e.Delete(id); err != nil {
			t.Fatal(err)
		}
		await(t, e, id, gone)
	}
	if f := e.Free(); !f.Equal(e.Capacity()) {
		t.Errorf("free %v of %v", f, e.Capacity())
	}
}

func TestCompletedContainerHoldsOnlyItsDisk(t *testing.T) {
	e := testExecutor(t, nil)
	need := resource.Amounts{resource.DiskMB: 3, resource.MemoryMB: 50, resource.CPUMilli: 10}
	if err := e.Launch(Reservation{ID: "x", Resources: need}, sh("exit 0")); err != nil {
		t.Fatal(err)
	}
	c := await(t, e, "x", completed)
	want := resource.Amounts{resource.DiskMB: 3}
	if got := e.Capacity().Sub(e.Free()); !got.Equal(want) || !c.Resources.Equal(want) {
		t.Errorf("used %v, of the container %v, want %v", got, c.Resources, want)
	}
	if err := e.Delete("x"); err != nil {
		t.Fatal(err)
	}
	await(t, e, "x", gone)
	if f := e.Free(); !f.Equal(e.Capacity()) {
		t.Errorf("free %v of %v", f, e.Capacity())
	}
}

func TestSignalByHandEndsTheContainer(t *testing.T) {
	e := testExecutor(t, nil)
	needGroups(t, e)
	c := launch(t, e, "x", sh("setsid sleep 1000 & kill -9 $$"))
	if r := c.Result; r.Signal != 9 || !r.Failed || r.Stopped || r.OOM != nil {
		t.Errorf("result = %+v", r)
	}
}

func TestStopEndsTheWholeTree(t *testing.T) {
	e := testExecutor(t, nil)
	needGroups(t, e)
	dir := tempDir(t)
	script := fmt.Sprintf("setsid sh -c 'echo $$ > %s/a; exec sleep 1000' & while [ ! -s %s/a ]; do :; done; echo up; "+
		"sleep 1000", dir, dir)
	if err := e.Launch(Reservation{ID: "x"}, sh(script)); err != nil {
		t.Fatal(err)
	}
	awaitFile(t, filepath.Join(dir, "a"))
	id := readPid(t, filepath.Join(dir, "a"))
	began := time.Now()
	if err := e.Stop("x"); err != nil {
		t.Fatal(err)
	}
	c := await(t, e, "x", completed)
	if id.Alive() {
		t.Error("the process in its own session is alive after COMPLETED")
	}
	// The grace time is 10 s.
	if !c.Result.Stopped || c.Result.Failed || time.Since(began) > 9*time.Second {
		t.Errorf("after %v: %+v", time.Since(began), c.Result)
	}
}

func TestStubbornTreeIsKilledAfterGrace(t *testing.T) {
	e := testExecutor(t, nil)
	needGroups(t, e)
	s := sh("trap '' TERM; echo up; (trap '' TERM; setsid sh -c 'trap \"\" TERM; while :; do sleep 1; done') & while :; " +
		"do sleep 1; done")
	s.Workload.Termination.Grace = 300 * time.Millisecond
	if err := e.Launch(Reservation{ID: "x"}, s); err != nil {
		t.Fatal(err)
	}
	awaitLine(t, e, "x", "up")
	began := time.Now()
	if err := e.Delete("x"); err != nil {
		t.Fatal(err)
	}
	await(t, e, "x", gone)
	if d := time.Since(began); d < 200*time.Millisecond || d > 9*time.Second {
		// without the workload's own, the grace time is 10 s
		t.Errorf("took %v", d)
	}
}

func TestLeftoversGetTermThenKill(t *testing.T) {
	e := testExecutor(t, nil)
	needGroups(t, e)
	dir := tempDir(t)
	s := sh(fmt.Sprintf("setsid sh -c 'trap \"echo bye; exit\" TERM; echo $$ > %s/a; while :; do sleep 0.05; "+
		"done' & while [ ! -s %s/a ]; do :; done; exit 0", dir, dir))
	s.Workload.Termination.LeftoverGrace = 5 * time.Second
	c := launch(t, e, "x", s)
	if c.Result.Failed || c.Result.ExitCode != 0 {
		t.Errorf("result = %+v", c.Result)
	}
	if got := lines(t, e, "x", logstore.Stdout); !slices.Contains(got, "bye") {
		t.Errorf("stdout = %q, want the leftover's last word", got)
	}
}

func TestStatusEnvironmentAndResultFile(t *testing.T) {
	e := testExecutor(t, nil)
	s := sh(`echo one > $CANTINA_STATUS; echo "two $A $B $PORT_HTTP" > $CANTINA_STATUS; pwd > result; ` +
		`env -0 | tr '\0' '\n' | grep -c SECRET_OF_THE_CELL`)
	t.Setenv("SECRET_OF_THE_CELL", "x")
	s.StatusPipe = true
	s.Workload.ResultFile = "result"
	s.Workload.Env = []action.Variable{{Name: "A", Value: "workload"}, {Name: "B", Value: "workload"}}
	s.Env = []action.Variable{{Name: "B", Value: "container"}}
	s.Workload.Ports = []action.Port{{Name: "http"}}
	c := launch(t, e, "b-1.2.3", s)
	if want := fmt.Sprintf("two workload container %d", c.Ports[0].Port); string(c.Result.Status) != want {
		t.Errorf("status %q, want %q", c.Result.Status, want)
	}
	b, err := e.ResultFile("b-1.2.3")
	if err != nil || strings.TrimSpace(string(b)) != c.Dir {
		t.Errorf("result file %q, %v, want %s", b, err, c.Dir)
	}
	if got := lines(t, e, "b-1.2.3", logstore.Stdout); !slices.Equal(got, []string{"0"}) {
		t.Errorf("the cell's environment reached the container: %q", got)
	}
}

func TestReservation(t *testing.T) {
	e := testExecutor(t, func(c *Config) { c.Capacity = resource.Amounts{resource.Containers: 2, resource.MemoryMB: 100} })
	if err := e.Reserve(Reservation{ID: "a", Resources: resource.Amounts{resource.MemoryMB: 80}}); err != nil {
		t.Fatal(err)
	}
	err := e.Reserve(Reservation{ID: "b", Resources: resource.Amounts{resource.MemoryMB: 30}})
	var short *InsufficientError
	if !errors.Is(err, ErrInsufficient) || !errors.As(err, &short) || short.Missing[0].Have != 20 {
		t.Errorf("reserve b = %v", err)
	}
	if err := e.Reserve(Reservation{ID: "a"}); !errors.Is(err, ErrExists) {
		t.Errorf("reserve a again = %v", err)
	}
	if err := e.Start("none", sh("true")); !errors.Is(err, ErrUnknown) {
		t.Errorf("start of nothing = %v", err)
	}
	if err := e.Reserve(Reservation{ID: "late", Expires: time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	c := await(t, e, "late", completed)
	if !c.Result.Failed || c.Result.Reason != "the reservation expired" || !c.Result.Retryable {
		t.Errorf("expired: %+v", c.Result)
	}
	if err := e.Start("late", sh("true")); !errors.Is(err, ErrState) {
		t.Errorf("start of an expired one = %v", err)
	}
	if err := e.Delete("a"); err != nil {
		t.Fatal(err)
	}
	await(t, e, "a", gone)
	if err := e.Delete("late"); err != nil {
		t.Fatal(err)
	}
	await(t, e, "late", gone)
	if !e.Free().Equal(e.Capacity()) {
		t.Errorf("free %v", e.Free())
	}
}

func TestCannotStart(t *testing.T) {
	e := testExecutor(t, nil)
	s := Spec{Workload: action.Workload{Action: action.Action{Run: &action.Run{Path: "/no/such/program"}}}}
	c := launch(t, e, "x", s)
	if !c.Result.Failed || !strings.Contains(c.Result.Reason, "/no/such/program: no such file") || c.Result.ExitCode == 0 {
		t.Errorf("result = %+v", c.Result)
	}
}

func TestTimeLimit(t *testing.T) {
	e := testExecutor(t, nil)
	s := sh("sleep 1000")
	s.Workload.TimeLimit = 50 * time.Millisecond
	c := launch(t, e, "x", s)
	if !c.Result.Failed || c.Result.Stopped || !strings.Contains(c.Result.Reason, "time limit of 50ms") {
		t.Errorf("result = %+v", c.Result)
	}
}

// TestALimitIsSeenWhileItEndsTheContainer: in the grace time after a limit the container is being
// ended, with the cause and the time, and takes no traffic.
func TestALimitIsSeenWhileItEndsTheContainer(t *testing.T) {
	t.Parallel()
	begin := do("true")
	for name, setup := range map[string]*action.Action{"one program": nil, "with setup": &begin} {
		t.Run(name, func(t *testing.T) {
			e := testExecutor(t, nil)
			sub, err := e.Subscribe()
			if err != nil {
				t.Fatal(err)
			}
			defer sub.Close()
			s := sh("trap '' TERM; while :; do sleep 0.1; done")
			s.Workload.Setup, s.Workload.TimeLimit, s.Workload.Termination.Grace = setup, 500*time.Millisecond, 4*time.Second
			if err := e.Launch(Reservation{ID: "x"}, s); err != nil {
				t.Fatal(err)
			}
			for ev := range sub.C {
				if ev.Kind == EventCompleted {
					t.Fatal("it ended without an event that it is being ended")
				}
				if ev.Kind != EventEnding {
					continue
				}
				c := ev.Container
				if !c.Ending && !c.Decided || c.Routable || c.EndWhy != "time limit of 500ms exceeded" ||
					c.EndBy.Sub(e.clock.Wall()) < 2*time.Second {
					t.Errorf("%+v", c)
				}
				e.Abort()
				break
			}
			if r := await(t, e, "x", completed).Result; !r.Failed || !strings.Contains(r.Reason, "time limit of 500ms") {
				t.Errorf("%+v", r)
			}
		})
	}
}

// awaitFile waits until a file exists and is not empty: the only signal that a container can give.
func awaitFile(t testing.TB, path string) {
	t.Helper()
	awaitThat(t, path, func() bool {
		st, err := os.Stat(path)
		return err == nil && st.Size() > 0
	})
}

// awaitOne is awaitFile for a file of which only a pattern is known.
func awaitOne(t testing.TB, pattern string) {
	t.Helper()
	awaitThat(t, pattern, func() bool {
		found, err := filepath.Glob(pattern)
		return err == nil && len(found) > 0
	})
}

func awaitThat(t testing.TB, path string, there func() bool) {
	t.Helper()
	limit := time.NewTimer(patienceOfTests)
	defer limit.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if there() {
			return
		}
		select {
		case <-tick.C:
		case <-limit.C:
			t.Fatalf("%s does not come", path)
		}
	}
}

// TestErrorsNameTheContainerInOnePlace: the reason of a refused call names neither the container nor a directory of
// the cell. It goes into rows that have a name of their own.
func TestErrorsNameTheContainerInOnePlace(t *testing.T) {
	e := testExecutor(t, func(c *Config) { c.Capacity = resource.Amounts{resource.Containers: 3} })
	const id = "t-0123456789"
	file := func(name, script string) func() error {
		return func() error {
			s := sh(script)
			s.Workload.ResultFile = name
			if err := e.Launch(Reservation{ID: id}, s); err != nil {
				return err
			}
			await(t, e, id, completed)
			_, err := e.ResultFile(id)
			return errors.Join(err, e.Delete(id), waitGone(t, e, id))
		}
	}
	for what, c := range map[string]struct {
		call func() error
		want string
	}{
		"no room": {func() error {
			return e.Reserve(Reservation{ID: id, Resources: resource.Amounts{resource.Containers: 4}})
		}, "insufficient resources: containers 4 needed, 3 free"},
		"no room at all": {func() error {
			return e.Launch(Reservation{ID: id, Resources: resource.Amounts{resource.Containers: 4}}, sh("true"))
		}, "insufficient resources: containers 4 needed, 3 free"},
		"unknown":      {func() error { return e.Start(id, sh("true")) }, ErrUnknown.Error()},
		"stop":         {func() error { return e.Stop(id) }, ErrUnknown.Error()},
		"no file":      {file("r", "true"), "file r: no such file or directory"},
		"no directory": {file("a/r", "true"), "file a/r: no such file or directory"},
		"a directory":  {file("r", "mkdir r"), "file r: not a plain file"},
		"a pipe":       {file("r", "mkfifo r"), "file r: not a plain file"},
	} {
		err := c.call()
		var refused *CallError
		if !errors.As(err, &refused) || refused.ID != id || refused.Err.Error() != c.want {
			t.Errorf("%s: %v, want %s", what, err, c.want)
		}
	}
}

func waitGone(t *testing.T, e *Executor, id string) error {
	await(t, e, id, gone)
	return nil
}

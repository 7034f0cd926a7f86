package executor

import (
	"errors"
	"syscall"
	"testing"

	"cantina/action"
)

// TestSignalReachesTheMainProcessOnly, once, at each level of isolation.
func TestSignalReachesTheMainProcessOnly(t *testing.T) {
	t.Parallel()
	needRoot(t)
	for name, level := range map[string]action.Isolation{"process": action.IsolationProcess,
		"namespaces": action.IsolationNamespaces} {
		t.Run(name, func(t *testing.T) {
			e := testExecutor(t, nil)
			// The child would leave a mark, for which the main process waits.
			s := sh(`(trap 'touch child' USR1; touch ready1; while :; do sleep 0.05; done) &
trap 'sleep 0.3; [ -e child ] && exit 8; exit 7' USR1; touch ready2; while :; do sleep 0.05; done`)
			s.Workload.Isolation = level
			if err := e.Launch(Reservation{ID: "x"}, s); err != nil {
				t.Fatal(err)
			}
			await(t, e, "x", runningState)
			x, err := e.Exec(t.Context(), "x", ExecSpec{Path: "sh",
				Args: []string{"-c", "until [ -e ready1 ] && [ -e ready2 ]; do sleep 0.05; done"}})
			if err != nil {
				t.Fatal(err)
			}
			if r, err := x.Wait(t.Context()); err != nil || r.ExitCode != 0 {
				t.Fatal(r, err)
			}
			x.Close()
			if err := e.Signal("x", int(syscall.SIGUSR1)); err != nil {
				t.Fatal(err)
			}
			c := await(t, e, "x", func(c Container, there bool) bool { return there && c.State == Completed })
			if c.Result.ExitCode != 7 {
				t.Fatalf("%+v", c.Result)
			}
			if err := e.Signal("x", int(syscall.SIGUSR1)); !errors.Is(err, ErrState) {
				t.Error(err)
			}
			if err := e.Signal("none", int(syscall.SIGUSR1)); !errors.Is(err, ErrUnknown) {
				t.Error(err)
			}
			for _, n := range []int{0, -1, 65} {
				if err := e.Signal("x", n); !errors.Is(err, syscall.EINVAL) {
					t.Error(n, err)
				}
			}
		})
	}
}

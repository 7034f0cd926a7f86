package executor

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cantina/action"
)

// TestDelegatedKillAtTheEndOfTheCell: a container that leaves KILL to the reaper and ignores signals does not delay
// the cell for ever. This holds for an orderly end and for a sudden one.
func TestDelegatedKillAtTheEndOfTheCell(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]CgroupMode{"v2": CgroupAuto, "none": CgroupNone} {
		for _, abort := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				cfg := testConfig(tempDir(t))
				cfg.Cgroups = mode
				e, stop := runExecutor(t, cfg)
				s := sh("trap '' TERM; echo up; while :; do sleep 0.1; done")
				s.Workload.Termination.Mode, s.Workload.Termination.Grace = action.KillTerm, 200*time.Millisecond
				if abort {
					s.Workload.Termination.Grace = time.Hour
				}
				if err := e.Launch(Reservation{ID: "x"}, s); err != nil {
					t.Fatal(err)
				}
				awaitLine(t, e, "x", "up")
				ended := make(chan error, 1)
				go func() { ended <- stop() }()
				if abort {
					e.Abort()
				}
				over := timer(20 * time.Second)
				select {
				case err := <-ended:
					if err != nil {
						t.Error(err)
					}
				case <-over:
					t.Error("the cell does not end")
					c, _ := e.Get("x")
					unix.Kill(-c.Pid, unix.SIGKILL)
					<-ended
				}
			})
		}
	}
}

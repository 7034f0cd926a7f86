package scheduler

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cantina/worker"
)

func TestAJobPinnedToADeadHostStopsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, newFakeStore(), 1)
		r.cell("c1", 9)
		w := testJob("pinned", map[string][]string{"host-c1": {"a"}, "host-c2": {"b"}})
		w.Job.HostLevel = "host"
		r.apply(w, testJob("free", map[string][]string{"h": {"x"}}))
		r.wantStarted("free/x pinned/a")
		if why, _ := r.Explain("pinned", "b"); !strings.Contains(fmt.Sprint(why), "1 cell: other host") {
			t.Errorf("explain: %v", why)
		}
		r.cell("c2", 9)
		r.wantStarted("pinned/b")
		r.stop()
	})
}

// TestCellRefusedByTheRegistryAlone: the ledger admits a cell that the registry
// does not; the scheduler must come to rest.
func TestCellRefusedByTheRegistryAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, newFakeStore(), 1)
		r.reg.mu.Lock()
		r.reg.cellHold = worker.Hold{Reason: worker.HoldNotHealthy}
		r.reg.mu.Unlock()
		r.cell("c", 4)
		r.apply(testJob("j", map[string][]string{"h": {"a", "b"}}))
		before := r.Stats().Passes
		pass(time.Second)
		if n := r.Stats().Passes - before; n > 3 {
			t.Errorf("%d passes in a second in which nothing changed", n)
		}
		if why, _ := r.Explain("j", "a"); len(why) == 0 || why[0].Text != "cell is not healthy" {
			t.Errorf("explain: %v", why)
		}
		r.reg.mu.Lock()
		r.reg.cellHold = worker.Hold{}
		r.reg.mu.Unlock()
		r.StartsChanged()
		r.wantStarted("j/a j/b")
		r.stop()
	})
}

// TestCellThatRefusesEverything: a cell that takes nothing is offered work once a
// second, not without end, and nothing is written for it.
func TestCellThatRefusesEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newFakeStore()
		r := begin(t, st, 1)
		r.reg.mu.Lock()
		r.reg.instant = func(x worker.Run) *worker.Ended {
			return &worker.Ended{Run: x, Cell: "c", Proc: "p-c", Kind: worker.NeverStarted, Reason: "not HEALTHY"}
		}
		r.reg.mu.Unlock()
		r.cell("c", 4)
		r.apply(testJob("j", map[string][]string{"h": {"a", "b", "c", "d", "e", "f"}}))
		pass(10 * time.Second)
		if n := r.Stats().Started; n > 12*6 {
			t.Errorf("%d starts in ten seconds", n)
		}
		if got := st.keys(statusPrefix); len(got) != 0 {
			t.Errorf("written: %v", got)
		}
		r.reg.mu.Lock()
		r.reg.instant = nil
		r.reg.started = nil
		r.reg.mu.Unlock()
		pass(2 * time.Second)
		r.wantStarted("j/a j/b j/c j/d")
		r.stop()
	})
}

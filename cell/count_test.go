package cell

import (
	"sync"
	"testing"

	"cantina/executor"
	"cantina/worker"
)

// TestAnOlderCountNeverComesAfter: of two concurrent counts, work that one has missed is counted all the same. It
// ends with the session and is in no deregistration.
func TestAnOlderCountNeverComesAfter(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var other sync.WaitGroup
		w.hooks.listed = func() {
			if err := w.exec.Launch(executor.Reservation{ID: "x", DeadlineBound: true,
				Labels: executor.Labels{labelKind: kindTask}}, executor.Spec{Workload: *sleeper("forever")}); err != nil {
				t.Error(err)
			}
			if w.cell.counting.TryLock() { // then another count may come in between
				w.cell.counting.Unlock()
				w.cell.countBound()
				return
			}
			other.Go(w.cell.countBound)
		}
		w.cell.countBound()
		other.Wait()
		w.cell.session.step(worker.SuicideAsked{Call: worker.Suicide{Term: w.leader.term, Proc: w.proc()}})
		if ct, ok := w.exec.Get("x"); ok && ct.State != executor.Completed {
			t.Errorf("it lives on: %+v", ct)
		}
	})
}

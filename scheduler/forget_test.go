package scheduler

import (
	"testing"
	"testing/synctest"
	"time"

	"cantina/batch"
	"cantina/worker"
)

// TestTimesAreForgotten: the statuses of nodes of a calendar are forgotten a week after the nodes are gone, in the next
// term too; never of one that may still run.
func TestTimesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newFakeStore()
		r := begin(t, st, 1)
		r.cell("c", 9)
		w := testJob("j", nil)
		w.Forest.Levels = []string{"time"}
		w.Forest.Sources = []batch.Source{{Kind: batch.SourceTime, Format: "{time}", Times: []batch.Times{
			{JSON: `{"epoch": {"period": 3600}}`, Lifetime: time.Hour}}}}
		r.apply(w)
		r.reg.mu.Lock()
		r.reg.instant = func(x worker.Run) *worker.Ended { e := endOf(x, "c", 0, ""); return &e }
		r.reg.mu.Unlock()
		gone := func() (n int) {
			r.locked(func() {
				list, err := r.forests["j"].board.Nodes("j", batch.NodeFilter{Classes: []batch.Class{batch.ClassAbsent}})
				if err != nil {
					t.Error(err)
				}
				for _, v := range list {
					if v.Status.Bits != 0 {
						n++
					}
				}
			})
			return n
		}
		const week = 7 * 24
		pass(6 * 24 * time.Hour)
		if n := gone(); n < 6*24-2 {
			t.Errorf("%d statuses after 6 days", n)
		}
		for range 3 {
			pass(week * time.Hour)
			if n := gone(); n < week-2 || n > week+3 {
				t.Errorf("%d statuses, want those of a week", n)
			}
		}
		if n := len(st.keys("batch/status/")); n > 100 {
			t.Errorf("%d segments", n)
		}
		r.stop()
		// In the next term the rows may still have older ones: nothing is forgotten before the wait is over.
		r = begin(t, st, 2)
		r.reg.mu.Lock()
		r.reg.hold = worker.Hold{Reason: worker.HoldWait}
		r.reg.mu.Unlock()
		pass(2 * week * time.Hour)
		if n := gone(); n < week-2 {
			t.Errorf("%d statuses are left in the wait", n)
		}
		r.reg.mu.Lock()
		r.reg.hold = worker.Hold{}
		r.reg.mu.Unlock()
		r.StartsChanged()
		pass(2 * time.Hour)
		if n := gone(); n != 0 {
			t.Errorf("%d statuses are left", n)
		}
		if p := r.progressOf("j"); p.Total != 1 {
			t.Errorf("%+v", p)
		}
		r.stop()
	})
}

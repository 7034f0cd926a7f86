package timetable_test

import (
	"testing"
	"time"

	"cantina/plan"
	"cantina/schedule"
	"cantina/task"
)

// TestAScheduleThatIsMadeAgain: a schedule is removed and applied again, while its run goes on. That one is a run of
// the new schedule: its overlap policy applies, also under the next leader. A run of another schedule whose name
// begins with this one is not.
func TestAScheduleThatIsMadeAgain(t *testing.T) {
	first := schedule.RunID(key, began().Add(30*time.Minute), 0)
	last := func(r *rig) schedule.Entry {
		h := r.get().State.History
		return h[len(h)-1]
	}
	for name, c := range map[string]struct {
		overlap schedule.Overlap
		most    int
		check   func(t *testing.T, r *rig)
	}{
		"forbid": {schedule.OverlapForbid, 0, func(t *testing.T, r *rig) {
			r.started()
			if e := last(r); e.Why != schedule.WhyOverlap || e.ID != first {
				t.Errorf("history: %+v", e)
			}
			r.endAll().at("03:00:00").started("d/n 2026-03-02T03:00:00Z")
		}},
		"replace": {schedule.OverlapReplace, 0, func(t *testing.T, r *rig) {
			r.started()
			run, err := r.board.GetTask(first)
			if err != nil || !run.Ending() {
				t.Fatalf("the earlier run is not ended: %+v, %v", run.Task, err)
			}
			if err := r.event(first, task.Complete{UID: run.UID, By: run.Holder}); err != nil {
				t.Fatal(err)
			}
			r.times.Changed()
			r.at("02:00:30").started("d/n 2026-03-02T02:00:00Z")
		}},
		"allow two": {schedule.OverlapAllow, 2, func(_ *testing.T, r *rig) {
			r.started("d/n 2026-03-02T02:00:00Z").at("03:00:00").started()
		}},
	} {
		for when, between := range map[string]func(r *rig){
			"": func(*rig) {}, ", and the leader changes": func(r *rig) { r.depose() },
		} {
			t.Run(name+when, func(t *testing.T) {
				inBubble(t, func(t *testing.T, r *rig) {
					w := one(func(d *schedule.Definition) { d.Overlap, d.Max = c.overlap, c.most })
					other := one(nil)
					other.Name = "n.other"
					r.apply(false, w, other)
					r.keep = true
					r.at("01:00:00").started("d/n 2026-03-02T01:00:00Z", "d/n.other 2026-03-02T01:00:00Z")
					r.apply(true)
					r.at("01:10:00").started()
					r.apply(false, w)
					between(r)
					r.at("02:00:00")
					c.check(t, r)
				})
			})
		}
	}
}

// TestRunsThatEndBeforeTheirScheduleIsMadeAgain do not count.
func TestRunsThatEndBeforeTheirScheduleIsMadeAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.apply(false, one(nil))
		r.keep = true
		r.at("01:00:00").started("d/n 2026-03-02T01:00:00Z")
		if err := r.times.RemoveSchedule(t.Context(), key, plan.Write{}); err != nil {
			t.Fatal(err)
		}
		r.endAll().apply(false, one(nil))
		r.at("02:00:00").started("d/n 2026-03-02T02:00:00Z")
	})
}

package scheduler

import (
	"slices"
	"testing"
	"testing/synctest"

	"cantina/plan"
)

// TestAnUnownedTaskEndsWhenItsNameIsBornAgain: a restored store has forgotten a job that runs. Its tasks are left
// alone while no row identifies them. Once its name is born again they belong to an earlier life, which ends before
// the new one starts. This also holds in the term of the report, for a report before the birth or during its
// commit.
func TestAnUnownedTaskEndsWhenItsNameIsBornAgain(t *testing.T) {
	for _, reported := range []string{"before the birth", "while it is committed", "just before it is durable"} {
		t.Run(reported, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := begin(t, newFakeStore(), 1)
				r.cell("c", 3)
				r.apply(jobWith(2, "a"))
				r.wantStarted("j/a")
				old := r.reg.Model()[0]
				r.stop()

				st := newFakeStore() // it has no record of the job
				r = begin(t, st, 2)
				r.cell("c", 3)
				if reported == "before the birth" {
					r.reported(old)
				}
				if len(r.reg.kills) > 0 {
					t.Errorf("an unowned task is ended: %v", r.reg.kills)
				}
				st.setManual(true)
				c, err := r.Apply("dom", []plan.NamedJob{jobWith(2, "a")}, plan.Prune{})
				if err != nil {
					t.Fatal(err)
				}
				r.Submit(c, func(int64, error) {})
				switch reported {
				case "while it is committed":
					r.reported(old)
				case "just before it is durable":
					r.reg.mu.Lock()
					r.reg.model[old.Run.Work] = old
					r.reg.adopted++
					r.reg.mu.Unlock()
				}
				st.setManual(false)
				synctest.Wait()
				r.wantStarted("")
				if !slices.Contains(r.reg.kills, old.Run) || !r.KillStored(old.Run) {
					t.Errorf("%v goes on: %v are ended", old.Run, r.reg.kills)
				}
				r.end("j", "a", 0, "")
				r.wantStarted("j/a")
				r.end("j", "a", 0, "")
				if p := r.progressOf("j"); p.Done != 1 {
					t.Errorf("the new life: %+v", p)
				}
				r.stop()
			})
		})
	}
}

// TestAJobMadeAgainNamesLeftoverTasks: plan and apply report the batch tasks that it waits for.
func TestAJobMadeAgainNamesLeftoverTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, newFakeStore(), 1)
		r.cell("c", 3)
		if c := r.apply(jobWith(2, "a", "b")); c.Lines[0].Note != "" {
			t.Errorf("a new job: %q", c.Lines[0].Note)
		}
		r.wantStarted("j/a j/b")
		r.do(r.Remove("j"))
		const want = "2 batch tasks of the removed job of this name still run; their nodes start after that"
		if c, err := r.Plan("dom", []plan.NamedJob{jobWith(2, "a", "b")}, plan.Prune{}); err != nil || len(c) != 1 ||
			c[0].Note != want {
			t.Errorf("plan: %+v, %v", c, err)
		}
		r.end("j", "a", 0, "")
		r.end("j", "b", 0, "")
		if c := r.apply(jobWith(2, "a", "b")); c.Lines[0].Note != "" {
			t.Errorf("after their end: %q", c.Lines[0].Note)
		}
		r.stop()
	})
}

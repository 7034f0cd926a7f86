package scheduler

import (
	"bytes"
	"slices"
	"testing"
	"testing/synctest"

	"cantina/batch"
	"cantina/plan"
)

func (r *rig) renew(w plan.NamedJob) {
	r.t.Helper()
	c, err := r.Renew("dom", w)
	r.do(c, err)
}

func (r *rig) wantRunning(name string, held bool, want Answer) {
	r.t.Helper()
	if got := r.Running(name, held); got != want {
		r.t.Errorf("running %s, held %t: %d, want %d", name, held, got, want)
	}
}

func TestARenewedJobRunsOnEveryNodeOnceMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newFakeStore()
		r := begin(t, st, 1)
		r.cell("c", 10)
		w := testJob("j", map[string][]string{"h": {"a", "b"}})
		r.wantRunning("j", false, AnswerEnded)
		r.renew(w)
		r.wantStarted("j/a j/b")
		r.wantRunning("j", false, AnswerRunning)
		r.wantRunning("j", true, AnswerUnknown)
		first, _ := r.Job("j")
		r.end("j", "a", 0, "")
		r.end("j", "b", 1, `{"result":"failed"}`)
		r.wantRunning("j", true, AnswerEnded)
		r.renew(w)
		r.wantStarted("j/a j/b")
		second, _ := r.Job("j")
		if first.UID == second.UID || second.Progress.Running != 2 || second.Progress.Done+second.Progress.Failed != 0 {
			t.Errorf("born again: %s then %s, %+v", first.UID, second.UID, second.Progress)
		}
		r.end("j", "a", 0, "")
		r.end("j", "b", 0, "")
		r.stop()

		r = begin(t, st, 2) // the next leader has only the second life
		r.cell("c", 10)
		synctest.Wait()
		if p := r.progressOf("j"); p.State != batch.JobDone || p.Done != 2 {
			t.Errorf("after a leader change: %+v", p)
		}
		r.wantStarted("")
		r.stop()
	})
}

func TestARenewedJobEndsEarlierTasksFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, newFakeStore(), 1)
		r.cell("c", 10)
		w := testJob("j", map[string][]string{"h": {"a"}})
		r.renew(w)
		r.wantStarted("j/a")
		old := r.ended("j", "a", 0, "")
		r.renew(w)
		r.wantStarted("") // the old one may still run
		if !r.KillStored(old.Run) {
			t.Error("what ran before is not ended")
		}
		r.Ended(old)
		synctest.Wait()
		r.wantStarted("j/a")
		if p := r.progressOf("j"); p.Done != 0 || p.Running != 1 {
			t.Errorf("the end of the earlier life counts: %+v", p)
		}
		r.end("j", "a", 0, "")
		r.stop()
	})
}

func TestAPruneLeavesJobsOfSchedules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, newFakeStore(), 1)
		r.apply(testJob("mine", map[string][]string{"h": {"a"}}), testJob("other", map[string][]string{"h": {"a"}}))
		lines, err := r.Plan("dom", nil, plan.Prune{On: true}, "mine")
		if err != nil || len(lines) != 1 || lines[0].Name != "other" {
			t.Errorf("%v, %v", lines, err)
		}
		r.stop()
	})
}

func TestWantedComesBackFromItsBytes(t *testing.T) {
	w := testJob("j", map[string][]string{"h": {"a", "b"}})
	first, err := EncodeWanted(&w)
	if err != nil {
		t.Fatal(err)
	}
	back, err := DecodeWanted(first)
	if err != nil {
		t.Fatal(err)
	}
	again, err := EncodeWanted(&back)
	if err != nil || !bytes.Equal(first, again) || back.Job.Name != "j" ||
		!slices.Equal(back.Forest.Levels, w.Forest.Levels) {
		t.Errorf("%+v, %v", back, err)
	}
	if _, err := DecodeWanted([]byte("no")); err == nil {
		t.Error("nonsense is read")
	}
}

package timetable_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cantina/action"
	"cantina/batch"
	"cantina/bbs"
	"cantina/cron"
	"cantina/fault"
	"cantina/plan"
	"cantina/schedule"
	"cantina/store"
	"cantina/task"
	"cantina/worker"
)

var key = schedule.Key{Domain: "d", Name: "n"}

func one(change func(*schedule.Definition)) plan.NamedSchedule {
	return plan.NamedSchedule{Name: "n", Definition: hourly(change)}
}

func (r *rig) get() plan.Schedule {
	r.t.Helper()
	v, err := r.times.Get(key)
	if err != nil {
		r.t.Fatal(err)
	}
	return v
}

func TestATaskStartsWithItsLogicalTime(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		if got := r.apply(false, one(nil)); got != "create n" {
			t.Fatal(got)
		}
		r.at("00:59:59").started().at("01:00:03").started("d/n 2026-03-02T01:00:00Z").at("01:30:00").started()
		v := r.get()
		if !v.Next.Equal(began().Add(90*time.Minute)) || v.State.Fired != 1 || v.Revision == 0 || v.Words == "" {
			t.Fatalf("%+v", v)
		}
	})
}

// TestTheNextLeaderGoesOn: it never goes behind the cursor, and fires missed times by the policy.
func TestTheNextLeaderGoesOn(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.apply(false, one(nil))
		r.at("01:00:00").started("d/n 2026-03-02T01:00:00Z")
		r.depose()
		r.at("01:00:30").started()
		r.stop()
		r.mu.Lock()
		r.wall = r.wall.Add(3 * time.Hour) // there is no leader
		r.mu.Unlock()
		r.elect()
		r.serve()
		r.started("d/n 2026-03-02T04:00:00Z")
		r.mu.Lock()
		r.wall = r.wall.Add(-3 * time.Hour) // a leader whose clock is behind
		r.mu.Unlock()
		r.depose()
		r.at("01:30:00").started().at("04:30:00").started().at("05:00:00").started("d/n 2026-03-02T05:00:00Z")
	})
}

// TestTheNextLeaderRunsAllThatWasMissed one after the other, each with its logical time, over one more change of
// leader. Explain reports it.
func TestTheNextLeaderRunsAllThatWasMissed(t *testing.T) {
	for _, overlap := range []schedule.Overlap{schedule.OverlapForbid, schedule.OverlapReplace} {
		t.Run(overlap.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				r.apply(false, one(func(d *schedule.Definition) { d.Overlap, d.Misfire = overlap, schedule.MisfireAll }))
				r.stop()
				r.wall = r.wall.Add(5 * time.Hour) // there is no leader
				r.keep = true
				r.elect()
				r.serve()
				r.started("d/n 2026-03-02T01:00:00Z")
				state, fine, why, err := r.times.Explain(key)
				if err != nil || state != schedule.CatchingUp || !fine || len(why) < 5 ||
					!strings.Contains(why[1].Text, "missed times run in order, and d.n.20260302T010000Z still runs") {
					t.Fatal(state, fine, why, err)
				}
				for hour := 2; hour <= 5; hour++ {
					if hour == 3 {
						r.depose()
					}
					r.endAll().to(r.wall.Add(2 * time.Second))
					r.started(fmt.Sprintf("d/n 2026-03-02T%02d:00:00Z", hour))
				}
				if v := r.get(); len(v.State.Pending) > 0 || v.State.Fired != 5 || v.State.Skipped != 0 {
					t.Fatalf("%+v", v.State)
				}
			})
		})
	}
}

// TestUndecidedUntilTheCellReports: the firing is stored with its logical time, also
// over a change of the leader, and decided when the wait is over.
func TestUndecidedUntilTheCellReports(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.apply(false, one(nil))
		r.keep = true
		r.at("01:00:00").started("d/n 2026-03-02T01:00:00Z")
		r.heard = false
		r.at("02:00:00").started()
		if v := r.get(); len(v.State.Pending) != 1 {
			t.Fatalf("%+v", v.State)
		}
		if state, _, why, err := r.times.Explain(key); err != nil || state != "undecided" || len(why) == 0 {
			t.Fatal(state, why, err)
		}
		r.depose()
		r.at("02:10:00").started().endAll()
		r.heard = true
		r.at("02:20:00").started("d/n 2026-03-02T02:00:00Z")
		r.at("03:00:00").started() // and that one runs: skipped
		v := r.get()
		if e := v.State.History[len(v.State.History)-1]; e.Why != schedule.WhyOverlap {
			t.Fatal(e)
		}
	})
}

// TestRunsOfARestoredStore: while rows may be older than the work of the cells, a firing is undecided. A run that a
// cell reports and no row has counts as one of the schedule; its own time gets that container.
func TestRunsOfARestoredStore(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.apply(false, one(nil))
		r.keep = true
		r.mu.Lock()
		r.stale = true
		r.mu.Unlock()
		r.at("01:00:00").started()
		if v := r.get(); len(v.State.Pending) != 1 {
			t.Fatalf("%+v", v.State)
		}
		first := schedule.RunID(key, began().Add(30*time.Minute), 0)
		r.mu.Lock()
		r.alive = []worker.Alive{{ID: "u1", Task: first, Older: true, Bound: true}}
		r.mu.Unlock()
		r.board.SessionChanged(worker.SessionChanged{Cell: "c", Proc: "p", From: worker.New, To: worker.Unhealthy})
		r.mu.Lock()
		r.stale = false
		r.mu.Unlock()
		r.at("01:30:00").started()
		run, err := r.board.GetTask(first)
		if err != nil || run.State != task.Running || run.UID != "u1" || run.Holder != (task.Holder{Cell: "c", Proc: "p"}) {
			t.Fatalf("%+v %v", run.Task, err)
		}
		r.at("02:00:00").started() // and that one runs: skipped
		if e := r.get().State.History[len(r.get().State.History)-1]; e.Why != schedule.WhyOverlap || e.ID != first {
			t.Fatal(e)
		}
	})
}

func TestReplaceEndsTheEarlierRunFirst(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.apply(false, one(func(d *schedule.Definition) { d.Overlap = schedule.OverlapReplace }))
		r.keep = true
		r.at("01:00:00").started("d/n 2026-03-02T01:00:00Z").at("02:00:00").started()
		old, err := r.board.GetTask(schedule.RunID(key, began().Add(30*time.Minute), 0))
		if err != nil || !old.Ended() {
			t.Fatalf("the earlier run got no order to end: %+v, %v", old.Task, err)
		}
		r.at("02:59:00").started() // no report yet that its container is gone
		r.end(old.GUID, old.UID)
		r.at("02:59:01").started("d/n 2026-03-02T02:00:00Z")
	})
}

// TestACancelledRunThatContinuesWithoutItsCell: nothing ends the container of a cancelled run of on_lost: keep while
// its cell is away. The next run waits until the cell is back, or a person decides.
func TestACancelledRunThatContinuesWithoutItsCell(t *testing.T) {
	for name, end := range map[string]func(r *rig, x *task.Task) error{
		"its cell is back": func(r *rig, x *task.Task) error {
			r.end(x.GUID, x.UID)
			return nil
		},
		"a person decides": func(r *rig, x *task.Task) error {
			_, err := r.board.ResolveTask(r.t.Context(), x.GUID, task.ResolvedFailed, true, plan.Write{})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				r.apply(false, one(func(d *schedule.Definition) {
					d.Overlap, d.Task.OnLost = schedule.OverlapReplace, task.LostKeep
				}))
				r.keep = true
				r.at("01:00:00").started("d/n 2026-03-02T01:00:00Z").at("02:00:00").started()
				r.die("")
				r.at("02:30:00").started().at("02:59:00").started()
				x, err := r.board.GetTask(schedule.RunID(key, began().Add(30*time.Minute), 0))
				if err == nil {
					err = end(r, x.Task)
				}
				if err != nil {
					t.Fatal(err)
				}
				r.at("02:59:01").started("d/n 2026-03-02T02:00:00Z")
			})
		})
	}
}

// TestTheGraceOfKeptWorkIsByRealTime: a cancelled run that its cell keeps over a restart, and that no process adopts,
// has its grace time. Changes of the wall clock do not matter, in one term and between two.
func TestTheGraceOfKeptWorkIsByRealTime(t *testing.T) {
	for name, set := range map[string]func(r *rig){
		"set ahead":                     func(r *rig) { r.set(20 * time.Minute) },
		"set ahead, then a new leader":  func(r *rig) { r.set(20 * time.Minute).depose() },
		"set ahead between two leaders": func(r *rig) { r.stop(); r.wall = r.wall.Add(20 * time.Minute); r.elect() },
		"set back between two leaders":  func(r *rig) { r.stop(); r.wall = r.wall.Add(-20 * time.Minute); r.elect() },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				r.apply(false, one(func(d *schedule.Definition) {
					d.Overlap, d.Task.Workload.OnCellRestart = schedule.OverlapReplace, action.RestartKeep
				}))
				r.keep = true
				r.at("01:00:00").started("d/n 2026-03-02T01:00:00Z").at("02:00:00").started()
				r.die("")
				set(r)
				r.started()
				r.to(r.wall.Add(5 * time.Second))
				r.started()
				r.to(r.wall.Add(30 * time.Second))
				r.started("d/n 2026-03-02T02:00:00Z")
			})
		})
	}
}

// TestARunThatASuccessorHasIsNotOver: the registry knows that a process is dead before the board has moved its
// adopted work to the successor. Until then, and after it, an earlier run that is ending and does not die blocks
// the next.
func TestARunThatASuccessorHasIsNotOver(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.apply(false, one(func(d *schedule.Definition) { d.Overlap = schedule.OverlapReplace }))
		r.keep = true
		r.at("01:00:00").started("d/n 2026-03-02T01:00:00Z").at("02:00:00").started()
		old, err := r.board.GetTask(schedule.RunID(key, began().Add(30*time.Minute), 0))
		if err != nil || !old.Ending() {
			t.Fatalf("the earlier run got no order to end: %+v, %v", old.Task, err)
		}
		r.dead = true // by the registry
		r.at("02:10:00").started()
		r.alive = []worker.Alive{{ID: old.UID}}
		r.die("q").at("02:20:00").started()
		if err := r.event(old.GUID, task.Complete{UID: old.UID, By: task.Holder{Cell: "c", Proc: "q"}}); err != nil {
			t.Fatal(err)
		}
		r.times.Changed()
		r.at("02:30:00").started("d/n 2026-03-02T02:00:00Z")
	})
}

// TestAPersonsCallHappensOncePerKey and answers alike when it is repeated.
func TestAPersonsCallHappensOncePerKey(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.apply(false, one(nil))
		at := began().Add(30 * time.Minute)
		for range 2 {
			id, err := r.times.RunSchedule(t.Context(), key, at, plan.Write{Key: "k"})
			if err != nil || id != "d.n.20260302T010000Z" {
				t.Fatal(id, err)
			}
			r.serve()
		}
		r.started("d/n 2026-03-02T01:00:00Z")
		if _, err := r.times.RunSchedule(t.Context(), key, at, plan.Write{Key: "l"}); !errors.Is(err, schedule.ErrFired) {
			t.Fatal(err)
		}
		if _, err := r.times.RunSchedule(t.Context(), schedule.Key{Domain: "d", Name: "x"}, at, plan.Write{}); !errors.Is(err,
			schedule.ErrNotFound) {
			t.Fatal(err)
		}
		if err := r.times.PauseSchedule(t.Context(), key, true, plan.Write{Expect: 1}); !errors.Is(err, fault.ErrRevision) {
			t.Fatal(err)
		}
		r.at("01:00:00").started().at("02:00:00").started("d/n 2026-03-02T02:00:00Z")
	})
}

func TestPauseMissedAndBackfill(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.apply(false, one(nil))
		if err := r.times.PauseSchedule(t.Context(), key, true, plan.Write{}); err != nil {
			t.Fatal(err)
		}
		r.at("03:30:00").started()
		if err := r.times.PauseSchedule(t.Context(), key, false, plan.Write{}); err != nil {
			t.Fatal(err)
		}
		r.at("03:40:00").started().at("07:30:00").started("d/n 2026-03-02T07:00:00Z")
		missed, rest, err := r.times.ListMissed(key, 2)
		if err != nil || len(missed) != 2 || rest != 1 || !missed[0].At.Equal(began().Add(210*time.Minute)) {
			t.Fatal(missed, rest, err)
		}
		n, err := r.times.Backfill(t.Context(), key, missed[0].At, missed[1].At, 10, plan.Write{})
		if err != nil || n != 2 {
			t.Fatal(n, err)
		}
		r.serve()
		r.at("07:30:05").started("d/n 2026-03-02T04:00:00Z", "d/n 2026-03-02T05:00:00Z")
		if missed, _, _ := r.times.ListMissed(key, 10); len(missed) != 1 {
			t.Fatal(missed)
		}
	})
}

func TestApplyPlansKeepsEditsAndPrunes(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		if got := r.apply(false, one(nil), plan.NamedSchedule{Name: "b",
			Definition: hourly(nil)}); got != "create n, create b" {
			t.Fatal(got)
		}
		if got := r.apply(false, one(nil)); got != "keep n" {
			t.Fatal(got)
		}
		lines, err := r.times.Plan("d", []plan.NamedSchedule{one(func(d *schedule.Definition) { d.Jitter = time.Minute })},
			plan.Prune{On: true})
		if err != nil || len(lines) != 2 || lines[0].Verb != plan.VerbUpdate ||
			fmt.Sprint(lines[0].Fields) != "[{policy.jitter  1m0s}]" || lines[1].Verb != plan.VerbRemove {
			t.Fatal(lines, err)
		}
		r.mu.Lock()
		r.wall = r.wall.Add(5 * time.Hour)
		r.mu.Unlock()
		if got := r.apply(true, one(func(d *schedule.Definition) { d.Line = "*/5 * * * *" })); got != "update n, remove b" {
			t.Fatal(got)
		}
		r.at("05:34:00").started().at("05:35:00").started("d/n 2026-03-02T05:35:00Z") // never for the past
		if v := r.get(); v.UID == "" || !v.Created.Equal(began()) || v.Edited.Equal(v.Created) {
			t.Fatalf("%+v", v.Row)
		}
		if _, err := r.times.Get(schedule.Key{Domain: "d", Name: "b"}); !errors.Is(err, schedule.ErrNotFound) {
			t.Fatal(err)
		}
		if _, err := r.times.Plan("d", []plan.NamedSchedule{one(func(d *schedule.Definition) { d.Line = "0 0 30 2 *" })},
			plan.Prune{}); !errors.Is(err, schedule.ErrInvalid) {
			t.Fatal(err)
		}
	})
}

// ofJob is a schedule of a job.
func ofJob(overlap schedule.Overlap) plan.NamedSchedule {
	return one(func(d *schedule.Definition) {
		workload := d.Task.Workload
		d.Task, d.Overlap = nil, overlap
		d.Job = &schedule.Job{Job: batch.Job{Name: "n", Forest: "n", Workload: workload},
			Forest: batch.ForestSpec{Name: "n", Levels: []string{"host"}}}
	})
}

// TestAJobIsRunAnew and only once its nodes have ended.
func TestAJobIsRunAnew(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.apply(false, ofJob(schedule.OverlapForbid))
		r.at("01:00:00").at("02:00:00")
		if len(r.renews) != 1 {
			t.Fatal(r.renews)
		}
		r.jobs["n"] = schedule.Ended
		r.at("03:00:00")
		if len(r.renews) != 2 {
			t.Fatal(r.renews)
		}
	})
}

// TestAJobThatOthersHaveSetGoing is not started over by its schedule, which has no such run. A person ran the job
// again or forgave it, or a restored store had forgotten an end.
func TestAJobThatOthersHaveSetGoing(t *testing.T) {
	for _, c := range []struct {
		overlap schedule.Overlap
		what    schedule.Answer
		renews  int
		story   string
	}{
		{schedule.OverlapForbid, schedule.Running, 0, "skipped: an earlier run was still running: job/d/n"},
		{schedule.OverlapForbid, schedule.Unknown, 0, ""},
		{schedule.OverlapReplace, schedule.Running, 1, ""},
		{schedule.OverlapReplace, schedule.Unknown, 1, ""},
	} {
		inBubble(t, func(t *testing.T, r *rig) {
			r.apply(false, ofJob(c.overlap))
			r.jobs["n"] = c.what
			r.at("02:00:00")
			if len(r.renews) != c.renews || c.story != "" && r.story() != c.story {
				t.Fatal(c, r.renews, r.story())
			}
			if c.renews > 0 {
				return
			}
			if _, err := r.times.RunSchedule(t.Context(), key, time.Time{}, plan.Write{}); !errors.Is(err,
				schedule.ErrOverlap) || !strings.Contains(err.Error(), "job/d/n") {
				t.Fatal(err)
			}
			r.jobs["n"] = schedule.Ended
			r.at("02:00:02")
			if pended := c.what == schedule.Unknown; (len(r.renews) == 1) != pended {
				t.Fatal(c, r.renews)
			}
		})
	}
}

// TestATaskWhoseRowCannotBeRead may run: nothing starts until an operator has resolved it.
func TestATaskWhoseRowCannotBeRead(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.keep = true
		r.apply(false, one(nil))
		r.at("01:00:00").started("d/n 2026-03-02T01:00:00Z")
		row := bbs.TaskRow(r.get().State.Live[0].ID)
		r.leadership.Submit(store.Transition{Ops: []store.Op{{Key: row, Value: []byte("torn")}}}, nil)
		synctest.Wait()
		r.depose()
		r.at("02:00:00").started()
		if p := r.get().State.Pending; len(p) != 1 {
			t.Fatal(p)
		}
		if err := r.board.Release(row, false, nil, nil); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		r.at("02:00:02").started("d/n 2026-03-02T02:00:00Z")
	})
}

// TestAStateThatCannotBeReadNeverFires: without its cursor the fired times are unknown.
func TestAStateThatCannotBeReadNeverFires(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.apply(false, one(nil))
		r.at("01:00:00").started("d/n 2026-03-02T01:00:00Z")
		r.leadership.Submit(store.Transition{Ops: []store.Op{{Key: "schedule-state/d/n", Value: []byte("torn")}}}, nil)
		synctest.Wait()
		r.depose()
		r.at("09:00:00").started()
		if _, err := r.times.Get(key); !errors.Is(err, fault.ErrQuarantined) {
			t.Fatal(err)
		}
		if _, err := r.times.Plan("d", []plan.NamedSchedule{one(nil)}, plan.Prune{}); !errors.Is(err, fault.ErrQuarantined) {
			t.Fatal(err)
		}
	})
}

// TestChangedRulesOfAZone move future times, without a restart.
func TestChangedRulesOfAZone(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.zones["X"] = time.FixedZone("X", 3600)
		r.apply(false, one(func(d *schedule.Definition) { d.Line, d.Zone = "0 9 * * *", "X" }))
		if v := r.get(); !v.Next.Equal(began().Add(7*time.Hour + 30*time.Minute)) {
			t.Fatal(v.Next)
		}
		r.mu.Lock()
		r.zones["X"] = time.FixedZone("X", 7200)
		r.mu.Unlock()
		r.times.ZonesChanged([]string{"X"})
		r.at("07:00:00").started("d/n 2026-03-02T07:00:00Z").at("08:30:00").started()
	})
}

// TestClockChangesAreReportedWhenTheyHappen, once, also by the next leader.
func TestClockChangesAreReportedWhenTheyHappen(t *testing.T) {
	for name, c := range map[string]struct {
		line string
		fold cron.Fold
		run  []string // from 23:00 UTC of the day before to noon
		want []string
	}{
		"gap": {"30 2 * * *", cron.FoldFirst,
			[]string{"2026-03-28T23:00:00Z", "2026-03-29T00:59:59Z", "2026-03-29T01:00:00Z", "2026-03-29T12:00:00Z"},
			[]string{"", "", "1 the clock jumps over it: 2026-03-29 02:30", "1 the clock jumps over it: 2026-03-29 02:30"}},
		"repeated hour": {"0,30 2 * * *", cron.FoldFirst,
			[]string{"2026-10-25T00:40:00Z", "2026-10-25T01:00:00Z", "2026-10-25T01:29:59Z", "2026-10-25T01:30:00Z"},
			[]string{"", "1 repeated hour: the other pass fires", "1 repeated hour: the other pass fires",
				"2 repeated hour: the other pass fires"}},
		"first pass": {"30 2 * * *", cron.FoldLast,
			[]string{"2026-10-25T00:29:59Z", "2026-10-25T00:30:00Z", "2026-10-25T01:20:00Z"},
			[]string{"", "1 repeated hour: the other pass fires", "1 repeated hour: the other pass fires"}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				r.wall = time.Date(2026, 3, 28, 12, 0, 0, 0, time.UTC)
				if name != "gap" {
					r.wall = time.Date(2026, 10, 24, 12, 0, 0, 0, time.UTC)
				}
				r.apply(false, one(func(d *schedule.Definition) {
					d.Line, d.Zone, d.Gap, d.Fold = c.line, "Europe/Berlin", cron.GapSkip, c.fold
				}))
				for i, text := range c.run {
					at, err := time.Parse(time.RFC3339, text)
					if err != nil {
						t.Fatal(err)
					}
					r.to(at)
					if got := remark(r.get().State.History); got != c.want[i] {
						t.Errorf("%s: the history has %q, want %q", text, got, c.want[i])
					}
					r.depose()
				}
			})
		})
	}
}

// remark is the note of a history on times that the calendar's policies skipped.
func remark(h []schedule.Entry) string {
	for i := len(h) - 1; i >= 0; i-- {
		if e := h[i]; e.Why == schedule.WhyGap || e.Why == schedule.WhyRepeated {
			return fmt.Sprintf("%d %s", e.Count, strings.TrimPrefix(e.String(), "skipped: "))
		}
	}
	return ""
}

// TestTenYearsInFourZones: a calendar fires each night at two, once, through all clock changes and changes of
// leader. The oracle checks every half hour of ten years.
func TestTenYearsInFourZones(t *testing.T) {
	zones := []string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"}
	inBubble(t, func(t *testing.T, r *rig) {
		var wanted []plan.NamedSchedule
		for i, z := range zones {
			wanted = append(wanted, plan.NamedSchedule{Name: fmt.Sprint("z", i),
				Definition: hourly(func(d *schedule.Definition) {
					d.Line, d.Zone, d.Gap, d.Fold = "0 2 * * *", z, cron.GapRun, cron.FoldFirst
				})})
		}
		r.apply(false, wanted...)
		end := began().AddDate(10, 0, 0)
		var want []string
		for i, z := range zones {
			for _, at := range nights(t, z, began(), end) {
				want = append(want, fmt.Sprintf("d/z%d %s", i, at.Format(time.RFC3339)))
			}
		}
		slices.Sort(want)
		var got []string
		for n := 0; ; n++ {
			next := end
			for i := range zones {
				v, err := r.times.Get(schedule.Key{Domain: "d", Name: fmt.Sprint("z", i)})
				if err != nil {
					t.Fatal(err)
				}
				if v.Next.Before(next) {
					next = v.Next
				}
			}
			if next.Equal(end) {
				break
			}
			r.to(next)
			got = append(got, r.take()...)
			if n%500 == 499 {
				r.depose()
				r.serve()
			}
		}
		slices.Sort(got)
		if len(got) != len(want) {
			t.Errorf("%d firings, want %d", len(got), len(want))
		}
		for i := range want {
			if i >= len(got) || got[i] != want[i] {
				t.Fatalf("firing %d differs, want %s", i, want[i])
			}
		}
	})
}

// nights finds for each day the first instant at which the clock shows 02:00, or, when
// it jumps over that, the instant of the jump.
func nights(t *testing.T, zone string, from, to time.Time) (out []time.Time) {
	t.Helper()
	loc, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	day, done := 0, false
	for at := from.AddDate(0, 0, -2); !at.After(to); at = at.Add(30 * time.Minute) {
		local := at.In(loc)
		if local.YearDay() != day {
			day, done = local.YearDay(), false
		}
		if !done && local.Hour() >= 2 && local.Hour() < 12 {
			done = true
			if at.After(from) && at.Before(to) {
				out = append(out, at)
			}
		}
	}
	return out
}

package scheduler

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"cantina/batch"
	"cantina/fault"
	"cantina/fence"
	"cantina/plan"
	"cantina/store"
	"cantina/worker"
)

// change is an action of a person, a schedule or a file on jobs. It is decided and handed to the store at once, and
// done returns its answer.
type change struct {
	name string
	do   func(r *rig) (done func() string)
}

// prepared makes a change of rows that are prepared.
func prepared(name string, prepare func(r *rig) (*Change, error)) change {
	return change{name, func(r *rig) func() string {
		c, err := prepare(r)
		if err != nil {
			return func() string { return err.Error() }
		}
		r.store.Submit(store.Transition{Ops: c.Ops}, c.Done)
		var verbs []string
		for _, l := range c.Lines {
			verbs = append(verbs, l.Name+" "+string(l.Verb))
		}
		return func() string { return strings.Join(verbs, ", ") }
	}}
}

func jobWith(retries int, nodes ...string) plan.NamedJob {
	w := testJob("j", map[string][]string{"h": nodes})
	w.Job.Retries = retries
	return w
}

func applying(name string, prune bool, wanted ...plan.NamedJob) change {
	return prepared(name, func(r *rig) (*Change, error) { return r.Apply("dom", wanted, plan.Prune{On: prune}) })
}

// again is a change that waits for its own commits.
func again() change {
	return change{"again", func(r *rig) func() string {
		answer := make(chan string, 1)
		go func() {
			n, err := r.Rerun(r.t.Context(), "j", batch.NodeFilter{})
			answer <- fmt.Sprint(n, " ", err)
		}()
		synctest.Wait()
		return func() string { return <-answer }
	}}
}

func changes() []change {
	shared := testJob("k", nil)
	shared.Job.Forest, shared.Forest = "j", batch.ForestSpec{}
	return []change{
		prepared("pause", func(r *rig) (*Change, error) { return r.Pause("j", true) }),
		prepared("resume", func(r *rig) (*Change, error) { return r.Pause("j", false) }),
		prepared("remove", func(r *rig) (*Change, error) { return r.Remove("j") }),
		prepared("renew", func(r *rig) (*Change, error) { return r.Renew("dom", jobWith(7, "a", "b")) }),
		applying("apply", false, jobWith(3, "a", "b")),
		applying("apply other", false, jobWith(4, "a", "b", "c")),
		applying("apply a job on its nodes", false, shared),
		applying("prune", true),
		prepared("take", func(r *rig) (*Change, error) {
			return r.Apply("other", []plan.NamedJob{jobWith(5, "a")}, plan.Prune{})
		}),
		again(),
		prepared("kill", func(r *rig) (*Change, error) { return r.Kill("j", batch.NodeFilter{}) }),
	}
}

// unlike reports pairs that may answer differently: statuses are decided on committed
// ones, so two reruns count the same nodes; and of a life on its way nothing runs yet
// that could be ended.
func unlike(one, two change) bool {
	born := one.name == "renew" || one.name == "take" || strings.HasPrefix(one.name, "apply")
	return one.name == "again" && two.name == "again" || born && two.name == "kill"
}

// started are the situations in which changes cross.
func started() map[string]func(r *rig) {
	run := func(r *rig) {
		r.cell("c", 1)
		r.apply(jobWith(2, "a", "b"))
		r.end("j", "a", 0, "") // b has the only room now
	}
	return map[string]func(r *rig){
		"a job that runs": run,
		"no job":          func(*rig) {},
		"a job that is being removed": func(r *rig) {
			run(r)
			r.do(r.Remove("j"))
		},
	}
}

// shown is the view of readers, and the number of rows.
func (r *rig) shown() string {
	var out []string
	for _, v := range r.Jobs(plan.NameFilter{}, "", 0) {
		p := v.Progress
		out = append(out, fmt.Sprintf("%s of %s: removed %t, paused %t, retries %d, nodes %d, done %d, failed %d, running %d",
			v.Name, v.Domain, v.Removed, v.Paused, v.Retries, p.Total, p.Done, p.Failed, p.Running))
	}
	return fmt.Sprintf("%s; rows %v %v", strings.Join(out, "; "), r.store.keys(jobPrefix), r.store.keys(forestPrefix))
}

// drain ends all that runs until nothing starts any more.
func (r *rig) drain() {
	for {
		pass(2 * tidyEvery)
		model := r.reg.Model()
		if len(model) == 0 {
			return
		}
		for _, v := range model {
			r.Ended(endOf(v.Run, string(v.Cell), 0, ""))
		}
	}
}

// twoChanges makes two changes, the second before or after the first is durable. It returns the answers and the
// views: at that time, in the end, and of a new leader.
func twoChanges(t *testing.T, before func(*rig), one, two change, cross bool) (out []string) {
	synctest.Test(t, func(t *testing.T) {
		st := newFakeStore()
		r := begin(t, st, 1)
		before(r)
		st.setManual(cross)
		first := one.do(r)
		synctest.Wait()
		second := two.do(r)
		st.setManual(false)
		synctest.Wait()
		out = append(out, first(), second())
		synctest.Wait()
		out = append(out, r.shown())
		r.stop()
		next := begin(t, st, 2, r.reg.Model()...)
		synctest.Wait()
		out = append(out, next.shown())
		next.cell("c", 1)
		next.drain()
		out = append(out, next.shown())
		next.stop()
	})
	return out
}

// TestChangesThatCross: two changes of which the second is decided before the first is durable have the same result
// as one after the other.
func TestChangesThatCross(t *testing.T) {
	for situation, before := range started() {
		for _, one := range changes() {
			for _, two := range changes() {
				if unlike(one, two) {
					continue
				}
				t.Run(fmt.Sprintf("%s, then %s, with %s", one.name, two.name, situation), func(t *testing.T) {
					serial, crossed := twoChanges(t, before, one, two, false), twoChanges(t, before, one, two, true)
					for i, what := range []string{"first answer", "second answer", "shown", "shown by the next leader", "in the end"} {
						if serial[i] != crossed[i] {
							t.Errorf("%s:\n crossed %s\n serial  %s", what, crossed[i], serial[i])
						}
					}
					if crossed[2] != crossed[3] && !strings.Contains(crossed[2], "removed true") {
						t.Errorf("the next leader shows something else:\n %s\n %s", crossed[2], crossed[3])
					}
				})
			}
		}
	}
}

// TestAnUpdateThatCrossesARenewalKeepsStatuses: it is about the life to come.
func TestAnUpdateThatCrossesARenewalKeepsStatuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newFakeStore()
		r := begin(t, st, 1)
		r.cell("c", 2)
		r.apply(jobWith(2, "a", "b"))
		r.end("j", "a", 0, "")
		r.end("j", "b", 0, "")
		st.setManual(true)
		prepared("renew", func(r *rig) (*Change, error) { return r.Renew("dom", jobWith(2, "a", "b")) }).do(r)
		update := applying("apply", false, jobWith(3, "a", "b")).do(r)
		if got := update(); got != "j update" {
			t.Errorf("update: %s", got)
		}
		st.setManual(false)
		r.wantStarted("j/a j/a j/b j/b")
		r.end("j", "a", 0, "")
		r.end("j", "b", 1, `{"result":"failed"}`)
		if v, err := r.Job("j"); err != nil || v.Progress.Done != 1 || v.Progress.Failed != 1 || v.Retries != 3 {
			t.Errorf("%+v, %v", v.Progress, err)
		}
		pass(2 * tidyEvery)
		if got := st.keys(statusPrefix); len(got) != 2 {
			t.Errorf("segments of both lives, or of none: %v", got)
		}
		r.stop()
	})
}

// TestATombstoneThatGoesWhileItsNameIsBornAgain: neither crosses the other out.
func TestATombstoneThatGoesWhileItsNameIsBornAgain(t *testing.T) {
	for _, first := range []string{"birth", "burial"} {
		t.Run(first, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := newFakeStore()
				r := begin(t, st, 1)
				r.apply(jobWith(2, "a"))
				r.reg.mayRun(true)
				r.do(r.Remove("j"))
				st.setManual(true)
				idle := func() {
					r.reg.mayRun(false)
					pass(2 * tidyEvery)
				}
				if first == "burial" {
					idle()
				}
				applying("apply", false, jobWith(3, "a")).do(r)
				if first == "birth" {
					idle()
				}
				st.setManual(false)
				pass(2 * tidyEvery)
				if v, err := r.Job("j"); err != nil || v.Removed || v.Retries != 3 {
					t.Errorf("%+v, %v", v, err)
				}
				r.stop()
				next := begin(t, st, 2)
				if v, err := next.Job("j"); err != nil || v.Removed || v.Retries != 3 {
					t.Errorf("next leader: %+v, %v", v, err)
				}
				next.stop()
			})
		})
	}
}

// TestAnEndingJobStartsNothing: from the decision on.
func TestAnEndingJobStartsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newFakeStore()
		r := begin(t, st, 1)
		r.apply(jobWith(2, "a"))
		st.setManual(true)
		c, err := r.Remove("j")
		if err != nil {
			t.Fatal(err)
		}
		r.cell("c", 1)
		r.wantStarted("")
		if v, err := r.Job("j"); err != nil || v.Removed {
			t.Errorf("shown before it is durable: %+v, %v", v, err)
		}
		c.Undo()
		r.wantStarted("j/a")
		r.end("j", "a", 0, "")
		st.setManual(false)
		r.do(r.Pause("j", true)) // decided on the state without the removal
		if v, err := r.Job("j"); err != nil || v.Removed || !v.Paused {
			t.Errorf("%+v, %v", v, err)
		}
		r.stop()
	})
}

// TestAPlanIsNoDecision: it leaves nothing behind that others decide on.
func TestAPlanIsNoDecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, newFakeStore(), 1)
		if _, err := r.Plan("dom", []plan.NamedJob{jobWith(2, "a")}, plan.Prune{}); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Pause("j", true); !errors.Is(err, batch.ErrUnknownJob) {
			t.Errorf("pause of a plan: %v", err)
		}
		r.stop()
	})
}

// TestAFailedCommitOfJobsEndsTheTerm: others were decided on its rows.
func TestAFailedCommitOfJobsEndsTheTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, newFakeStore(), 1)
		c, err := r.Apply("dom", []plan.NamedJob{jobWith(2, "a")}, plan.Prune{})
		if err != nil {
			t.Fatal(err)
		}
		c.Done(0, store.ErrResigned)
		if err := r.Run(t.Context()); !errors.Is(err, fault.ErrTermOver) || !errors.Is(err, store.ErrResigned) {
			t.Errorf("%v", err)
		}
		if _, err := r.Job("j"); !errors.Is(err, batch.ErrUnknownJob) {
			t.Errorf("shown: %v", err)
		}
		r.stop()
	})
}

// TestAnEditThatCrossesAnEnd: a run whose cell reports it as ended is on no board. Its end is on its way when a
// person forgives or runs the job again. The status stays that of the newest run.
func TestAnEditThatCrossesAnEnd(t *testing.T) {
	for name, edit := range map[string]func(r *rig) (int, error){
		"again":   func(r *rig) (int, error) { return r.Rerun(r.t.Context(), "j", batch.NodeFilter{}) },
		"forgive": func(r *rig) (int, error) { return r.Retry(r.t.Context(), "j", batch.NodeFilter{}) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := newFakeStore()
				r := begin(t, st, 1)
				r.cell("c", 2)
				r.apply(jobWith(0, "a", "b"))
				r.end("j", "a", 1, "") // failed for good
				r.end("j", "b", 1, "")
				r.stop()
				r = begin(t, st, 2)
				synctest.Wait()
				newest := worker.Run{Work: worker.Work{Job: "j", Node: "a"},
					Invocation: fence.Invocation{Term: fence.Term{Epoch: 1, Revision: 1}, Counter: 50}}
				st.setManual(true)
				r.Ended(endOf(newest, "c", 0, ""))
				synctest.Wait()
				answer := make(chan error, 1)
				go func() {
					n, err := edit(r)
					if err == nil && n != 1 {
						err = fmt.Errorf("%d nodes changed", n)
					}
					answer <- err
				}()
				synctest.Wait()
				st.setManual(false)
				synctest.Wait()
				if err := <-answer; err != nil {
					t.Error(err)
				}
				var got batch.Status
				var err error
				r.locked(func() { got, err = r.jobs["j"].forest.board.Status(batch.Key{Job: "j", Node: "a"}) })
				if err != nil || got.Invocation != newest.Invocation || got.Bits&batch.Done == 0 {
					t.Errorf("%+v, %v", got, err)
				}
				r.stop()
			})
		})
	}
}

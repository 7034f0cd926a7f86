package bbs

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cantina/lrp"
	"cantina/plan"
	"cantina/task"
)

// coherent checks an explanation: an object that is as desired gives nothing more. Any other object is in another
// state than the desired one, and gives a reason.
func coherent(t *testing.T, what string, e plan.Explanation) {
	t.Helper()
	switch {
	case e.State == "" || e.Wanted == "":
		t.Errorf("%s: no reason: %+v", what, e)
	case !e.Fine && e.State == e.Wanted:
		t.Errorf("%s: is not fine and as it should be: %+v", what, e)
	case !e.Fine && len(e.Reasons) == 0:
		t.Errorf("%s: no reason: %+v", what, e)
	}
}

// TestEveryInstanceIsExplained: all states, with all marks that rows of an index carry.
func TestEveryInstanceIsExplained(t *testing.T) {
	now := time.Unix(1e9, 0)
	b := &queries{view: newView(0, 0)}
	version := &lrp.Version{Desired: lrp.Desired{Service: lrp.ServiceKey{Domain: "d", Name: "web"}}, Low: 0, High: 1}
	for state := lrp.Unclaimed; state <= lrp.Crashed; state++ {
		for marks := range 1 << 5 {
			on := func(bit int) bool { return marks&(1<<bit) != 0 }
			a := &lrp.Actual{Key: lrp.Key{Process: "p"}, Service: version.Service, State: state, Since: now, Retiring: on(0) &&
				(state == lrp.Claimed || state == lrp.Running), Net: lrp.Net{Routable: on(1)}}
			if state == lrp.Crashed {
				a.CrashCount, a.Finished = 3, on(2)
			}
			x := lrp.Index{Key: a.Key, Ordinary: a}
			if on(3) {
				x.Suspect = &lrp.Actual{Key: a.Key, State: lrp.Running, Presence: lrp.Suspect}
			}
			if on(4) {
				x.Evacuating = &lrp.Actual{Key: a.Key, State: lrp.Running, Presence: lrp.Evacuating, Expires: now}
			}
			for _, wanted := range []string{lrp.Running.String(), "gone"} {
				v := *version
				if wanted == "gone" {
					v.High = 0
				}
				what := fmt.Sprintf("%v, marks %05b, wanted %s", state, marks, wanted)
				e := plan.Explanation{State: "no row", Wanted: wanted}
				b.explainRows(&e, x, &v, now)
				if wanted == "gone" && len(e.Reasons) == 0 { // ExplainInstance adds it
					e.Add("unwanted", "", "", 0)
				}
				coherent(t, what, e)
				fine := wanted != "gone" && (state == lrp.Running && a.Net.Routable && !a.Retiring || a.Finished && !a.Retiring &&
					!on(3))
				if e.Fine != fine {
					t.Errorf("%s: fine is %t: %+v", what, e.Fine, e)
				}
			}
		}
	}
}

// TestEveryTaskIsExplained: all states and outcomes, with all that may be known of them.
func TestEveryTaskIsExplained(t *testing.T) {
	now := time.Unix(1e9, 0)
	for _, x := range []struct {
		row           task.Task
		state, wanted string
		fine          bool
	}{
		{task.Task{State: task.Pending}, "PENDING", "RUNNING", false},
		{task.Task{State: task.Pending, Rejection: "insufficient resources: 1 cell: memory"}, "PENDING", "RUNNING", false},
		{task.Task{State: task.Running, Holder: task.Holder{Cell: "c"}}, "RUNNING", "RUNNING", true},
		{task.Task{State: task.Completed, Outcome: task.Succeeded}, "COMPLETED, succeeded", "ended", true},
		{task.Task{State: task.Resolving, Outcome: task.Succeeded}, "RESOLVING, succeeded", "ended", true},
		{task.Task{State: task.Completed, Outcome: task.Failed, Result: task.Result{Reason: "exit 3"}}, "COMPLETED, failed",
			"succeeded", false},
		{task.Task{State: task.Resolving, Outcome: task.Failed, Result: task.Result{Reason: "exit 3"}}, "RESOLVING, failed",
			"succeeded", false},
		{task.Task{State: task.Completed, Outcome: task.Cancelled,
			Result: task.Result{Reason: task.ReasonCancelled, Ended: now}}, "COMPLETED, cancelled", "ended", true},
		{task.Task{State: task.Completed, Outcome: task.Cancelled, Holder: task.Holder{Cell: "c"},
			Result: task.Result{Reason: task.ReasonCancelled}}, "COMPLETED, cancelled, being ended", "COMPLETED, cancelled",
			false},
		{task.Task{State: task.Completed, Outcome: task.Lost, Holder: task.Holder{Cell: "c"},
			Result: task.Result{Reason: task.ReasonLost}}, "COMPLETED, lost", "succeeded", false},
		{task.Task{State: task.Completed, Outcome: task.Lost, Resolution: task.ResolvedDone,
			Result: task.Result{Reason: task.ReasonLost}}, "COMPLETED, lost", "ended", true},
		{task.Task{State: task.Completed, Outcome: task.Succeeded, Callback: task.Callback{Dead: true, Error: "status 503"}},
			"COMPLETED, succeeded, not delivered", "COMPLETED, succeeded", false},
		{task.Task{State: task.Completed, Outcome: task.Succeeded, Callback: task.Callback{Runs: 1, Error: "status 503"}},
			"COMPLETED, succeeded", "ended", true},
	} {
		x.row.Definition, x.row.Created = &task.Definition{}, now
		e := explainTask(plan.Task{Task: &x.row}, now)
		what := fmt.Sprintf("%v %v", x.row.State, x.row.Outcome)
		coherent(t, what, e)
		if e.State != x.state || e.Wanted != x.wanted || e.Fine != x.fine {
			t.Errorf("%s: %+v, want %s, %s, %t", what, e, x.state, x.wanted, x.fine)
		}
	}
}

// TestCrashesInWords has the number of crashes, and the cause, place and time of the last one, for any present
// cell.
func TestCrashesInWords(t *testing.T) {
	at := time.Unix(1e9, 0).UTC()
	last := lrp.LastCrash{Reason: "exit status 1", Cell: "c1", At: at}
	const lastly = "last on cell c1 at 2001-09-09T01:46:40Z: exit status 1"
	for want, c := range map[string]struct {
		n      int
		last   lrp.LastCrash
		policy lrp.RestartPolicy
	}{
		"crashed once; it is restarted at once":               {n: 1},
		"crashed 3 times; after the next crash it waits 1m0s": {n: 3},
		"crashed 900 times, " + lastly + "; it is restarted at once": {900, last,
			lrp.RestartPolicy{Immediate: 1000, GiveUp: -1}},
		"crashed 200 times, " + lastly + "; it is not restarted after the next crash": {n: 200, last: last},
		"crashed before, " + lastly: {last: last},
	} {
		if got := crashes(&lrp.Actual{CrashCount: c.n, LastCrash: c.last},
			&lrp.Version{Desired: lrp.Desired{Restart: c.policy}}); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestStoppingInstancesAreShown: for each cause, a stopping instance is neither routable nor as desired, and its
// remaining time is shown.
func TestStoppingInstancesAreShown(t *testing.T) {
	now := time.Unix(1e9, 0).UTC()
	by := lrp.Identity{Instance: "i", Cell: "c1", Proc: "p"}
	retire := func(a *lrp.Actual) { a.Retiring = true }
	killedIn := func(d time.Duration) func(*lrp.Actual) {
		return func(a *lrp.Actual) { a.Retiring, a.Net.Stopping, a.Net.StopBy = true, true, now.Add(d) }
	}
	for want, c := range map[string]struct {
		change func(*lrp.Actual)
		wanted bool
		left   time.Duration
	}{
		"it is not wanted any more; it is killed at 2001-09-09T01:46:50Z at the latest": {
			killedIn(10 * time.Second), false, 10 * time.Second},
		"it is not wanted any more; it was to be killed at 2001-09-09T01:46:39Z at the latest, and has not ended": {
			killedIn(-time.Second), false, 0},
		"it is not wanted any more":       {retire, false, 0},
		"it is started afresh afterwards": {retire, true, 0},
		"its cell ends it":                {func(a *lrp.Actual) { a.Net.Stopping = true }, true, 0},
		"the cell is being emptied, and the time for that is over": {
			func(a *lrp.Actual) { a.Net.Stopping, a.Presence = true, lrp.Evacuating }, true, 0},
	} {
		want = "cell c1 is stopping it: " + want
		a := &lrp.Actual{State: lrp.Running, Identity: by, Net: lrp.Net{Routable: true}}
		c.change(a)
		x := lrp.Index{Ordinary: a}
		if a.Presence == lrp.Evacuating {
			x = lrp.Index{Evacuating: a, Ordinary: &lrp.Actual{}}
		}
		v := &lrp.Version{}
		e := plan.Explanation{Wanted: "gone"}
		if c.wanted {
			v.High, e.Wanted = 1, lrp.Running.String()
		}
		(&queries{}).explainRows(&e, x, v, now)
		i := slices.IndexFunc(e.Reasons, func(r plan.Reason) bool { return r.Code == "stopping" })
		if a.Serves() || e.Fine || e.State != Stopping || i < 0 || e.Reasons[i].Text != want ||
			e.Reasons[i].Longest != c.left {
			t.Errorf("%q: %+v", want, e)
		}
	}
}

// TestAStaleDomainIsAReasonOnlyForKeptInstances: a service that is as desired does not name it.
func TestAStaleDomainIsAReasonOnlyForKeptInstances(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.kept()
		if _, err := r.b.SetDomain(t.Context(), "d", time.Minute, plan.Write{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		stale := func() []plan.Reason {
			e, err := r.b.ExplainService(webKey)
			if err != nil {
				t.Fatal(err)
			}
			return slices.DeleteFunc(e.Reasons, func(x plan.Reason) bool { return x.Code != "stale_domain" })
		}
		if got := stale(); len(got) != 0 {
			t.Errorf("all is wanted: %+v", got)
		}
		kept := 0
		for _, i := range r.b.queries.view.instancesOf(webKey) {
			key := i.key
			p := r.b.queries.view.processes[key.Process]
			v := *p.version
			v.High = 0
			p.version = &v
			r.b.queries.view.processes[key.Process] = p
			kept++
		}
		want := fmt.Sprintf("domain d is not fresh, so %d instance", kept)
		if got := stale(); kept == 0 || len(got) != 1 || !strings.HasPrefix(got[0].Text, want) ||
			!strings.HasSuffix(got[0].Text, "not wanted") {
			t.Errorf("%d are not wanted: %+v", kept, got)
		}
	})
}

// TestInstancesOfAnEarlierServiceAreExplained: a service was removed and applied again, smaller. The instances of the
// earlier one that are still being stopped are listed, and each is explained.
func TestInstancesOfAnEarlierServiceAreExplained(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.apply([]lrp.Desired{web(3, "1")}, nil)
		synctest.Wait()
		all, _, _ := r.take()
		for _, w := range all {
			r.run(w)
		}
		if _, err := r.b.RemoveService(t.Context(), webKey, plan.Write{}); err != nil {
			t.Fatal(err)
		}
		r.apply([]lrp.Desired{web(1, "2")}, nil)
		synctest.Wait()
		e, err := r.b.ExplainInstance(webKey, 2)
		if err != nil || e.State != Stopping || len(e.Reasons) != 1 || e.Reasons[0].Code != "stopping" {
			t.Errorf("%v %+v", err, e)
		}
		if _, err := r.b.ExplainInstance(webKey, 3); !errors.Is(err, lrp.ErrNotFound) {
			t.Errorf("an index that never was: %v", err)
		}
	})
}

package bbs

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cantina/action"
	"cantina/event"
	"cantina/fault"
	"cantina/lrp"
	"cantina/plan"
	"cantina/store"
	"cantina/store/mem"
	"cantina/wire"
)

func TestAServiceRunsAndEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		out := r.apply([]lrp.Desired{web(3, "1")}, nil)
		if len(out.Changes) != 1 || out.Changes[0].Verb != plan.VerbCreate || out.Revision == 0 {
			t.Fatalf("%+v", out)
		}
		r.serve()
		if got := fmt.Sprint(r.running(webKey)); got != "[a/0 a/1 a/2]" {
			t.Fatalf("running %s", got)
		}
		s, err := r.b.GetService(webKey)
		if err != nil || s.Running != 3 || s.Routable != 3 || s.Phase != lrp.Steady || !s.Target().Good {
			t.Fatalf("%v %+v", err, s)
		}
		again := r.apply([]lrp.Desired{web(3, "1")}, nil)
		if again.Changes[0].Verb != plan.VerbKeep || again.Revision != out.Revision {
			t.Fatalf("applied unchanged: %+v, first %+v", again, out)
		}
		if _, err := r.b.ScaleService(t.Context(), webKey, 1, plan.Write{}); err != nil {
			t.Fatal(err)
		}
		r.serve()
		if got := fmt.Sprint(r.running(webKey)); got != "[a/0]" {
			t.Fatalf("scaled down: %s", got)
		}
		if s, err := r.b.RemoveService(t.Context(), webKey, plan.Write{}); err != nil || !s.Removed {
			t.Fatalf("%v %+v", err, s)
		}
		r.serve()
		if _, err := r.b.GetService(webKey); !errors.Is(err, ErrServiceNotFound) {
			t.Fatalf("removed: %v", err)
		}
		rows := r.rowsLeft("lrp/")
		if len(rows) != 0 {
			t.Fatalf("rows left: %v", rows)
		}
	})
}

// rowsLeft lists the keys in the store below a prefix, as a new leader would load them.
func (r *rig) rowsLeft(prefix string) []string {
	rows, _, err := r.leadership.Range(r.t.Context(), prefix, "", 0)
	if err != nil {
		r.t.Fatal(err)
	}
	var out []string
	for _, row := range rows {
		out = append(out, row.Key)
	}
	return out
}

func TestAChangedServiceRolls(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.apply([]lrp.Desired{web(3, "1")}, nil)
		r.serve()
		if list, _ := r.b.Rollouts(10); len(list) != 0 {
			t.Fatalf("nothing rolls: %+v", list)
		}
		out := r.apply([]lrp.Desired{web(3, "2")}, nil)
		if list, more := r.b.Rollouts(10); len(list) != 1 || more != 0 || list[0].Phase != lrp.RollingOut ||
			list[0].Version != 2 || list[0].Instances != 3 {
			t.Fatalf("%+v", list)
		}
		if list, more := r.b.Rollouts(0); len(list) != 0 || more != 1 {
			t.Fatalf("%+v and %d more", list, more)
		}
		if out.Changes[0].Verb != plan.VerbReplace || len(out.Changes[0].Fields) != 1 ||
			out.Changes[0].Fields[0].Path != "workload.action.run.args" {
			t.Fatalf("%+v", out.Changes)
		}
		r.serve()
		s, _ := r.b.GetService(webKey)
		if s.Phase != lrp.Steady || len(s.Versions) != 1 || s.Target().Number != 2 || s.Running != 3 {
			t.Fatalf("%+v", s)
		}
	})
}

func TestCrashesWaitByTheClock(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.apply([]lrp.Desired{web(1, "1")}, nil)
		crash := func() {
			synctest.Wait()
			w, _, _ := r.take()
			if len(w) != 1 {
				t.Fatalf("%d requests", len(w))
			}
			by := lrp.Identity{Instance: r.newID(), Cell: "a", Proc: "a1"}
			_ = r.event(w[0].Key, lrp.Claim{By: by})
			if err := r.event(w[0].Key, lrp.Crash{By: by, Reason: "exited with status 1"}); err != nil {
				t.Fatal(err)
			}
		}
		for range 3 {
			crash()
		}
		e, err := r.b.ExplainInstance(webKey, 0)
		if err != nil || e.State != "CRASHED" || e.Reasons[0].Code != "crash_backoff" ||
			e.Reasons[0].Longest != 30*time.Second {
			t.Fatalf("%v %+v", err, e)
		}
		of, err := r.b.ExplainService(webKey)
		last := of.Reasons[len(of.Reasons)-1]
		if err != nil || of.Fine || last.Code != "crash_backoff" ||
			!strings.HasPrefix(last.Text, "web/0: crash 3: exited with status 1") {
			t.Fatalf("%v %+v", err, of)
		}
		time.Sleep(30*time.Second - time.Millisecond)
		synctest.Wait()
		if w, _, _ := r.take(); len(w) != 0 {
			t.Fatal("restarted early")
		}
		time.Sleep(time.Millisecond)
		r.serve()
		if got := fmt.Sprint(r.running(webKey)); got != "[a/0]" {
			t.Fatalf("running %s", got)
		}
	})
}

// TestScaleHasBounds: a number that no leader could keep rows for is refused, and changes nothing.
func TestScaleHasBounds(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.apply([]lrp.Desired{web(1, "1")}, nil)
		many := web(lrp.MaxInstances+1, "1")
		_, err := r.b.Plan(plan.Application{Domain: "d", Services: []lrp.Desired{many}})
		if !errors.Is(err, fault.ErrInvalid) || !strings.Contains(err.Error(), "instances: at most 1000000") {
			t.Errorf("plan: %v", err)
		}
		for _, n := range []int{-1, lrp.MaxInstances + 1, 2_000_000_000} {
			_, err := r.b.ScaleService(t.Context(), webKey, n, plan.Write{})
			if !errors.Is(err, fault.ErrInvalid) || !strings.Contains(err.Error(), "not from 0 to 1000000") {
				t.Errorf("%d: %v", n, err)
			}
		}
		if s, _ := r.b.GetService(webKey); s.Instances != 1 {
			t.Errorf("%d instances", s.Instances)
		}
	})
}

func TestExpectedRevision(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		out := r.apply([]lrp.Desired{web(1, "1")}, nil)
		r.serve()
		s, _ := r.b.GetService(webKey)
		if _, err := r.b.ScaleService(t.Context(), webKey, 2, plan.Write{Expect: s.Revision + 1}); !errors.Is(err,
			fault.ErrRevision) {
			t.Fatalf("%v", err)
		}
		if _, err := r.b.ScaleService(t.Context(), webKey, 2, plan.Write{Expect: s.Revision}); err != nil {
			t.Fatal(err)
		}
		a := plan.Application{Domain: "d", Services: []lrp.Desired{web(1, "2")}}
		if _, err := r.b.Apply(t.Context(), a, plan.Write{Expect: out.Revision}, nil); !errors.Is(err, fault.ErrRevision) {
			t.Fatalf("a plan of before the scaling: %v", err)
		}
		p, err := r.b.Plan(a)
		if err != nil || p.Revision <= out.Revision || p.Changes[0].Verb != plan.VerbReplace {
			t.Fatalf("%v %+v", err, p)
		}
		if _, err := r.b.Apply(t.Context(), a, plan.Write{Expect: p.Revision}, nil); err != nil {
			t.Fatal(err)
		}
		r.serve()
	})
}

// TestEventsRebuildTheView is I13: events from any revision, played on the rows of
// that revision, give the rows of now; revisions never go back.
func TestEventsRebuildTheView(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		ctx, cancel := context.WithCancel(t.Context())
		seen, shown := map[string]*lrp.Actual{}, map[lrp.Key]*lrp.Actual{}
		last := event.Position{}
		done := make(chan struct{})
		start := event.After(r.leadership.Revision())
		go func() {
			defer close(done)
			follow(ctx, r.hub.Since(start), func(e event.Event) {
				if e.Position.Compare(last) <= 0 {
					t.Errorf("event at %v after %v", e.Position, last)
				}
				last = e.Position
				if e.Kind == event.Instance {
					switch {
					case e.Turn && e.Shown == nil:
						delete(shown, e.Instance.Key)
					case e.Turn:
						shown[e.Instance.Key] = e.Shown
					}
					subject := e.Instance.Key.String()
					id := subject + "/" + e.Instance.Instance
					if e.Gone {
						delete(seen, id)
						return
					}
					// A row that gains or loses its instance keeps its key in the stream.
					for k, a := range seen {
						if strings.HasPrefix(k, subject+"/") &&
							(a.Instance == "" || e.Instance.State == lrp.Crashed && a.Presence == lrp.Ordinary) &&
							e.Instance.Presence == lrp.Ordinary && a != e.Instance {
							delete(seen, k)
						}
					}
					seen[id] = e.Instance
				}
			})
		}()
		r.apply([]lrp.Desired{web(3, "1")}, nil)
		r.serve()
		r.b.CellUnhealthy("a", "a1")
		r.kill("a1")
		r.serve()
		r.apply([]lrp.Desired{web(2, "2")}, nil)
		r.serve()
		synctest.Wait()
		cancel()
		<-done
		page, _ := r.b.ListInstances(plan.InstanceFilter{}, plan.Range{Limit: 100})
		want := map[string]*lrp.Actual{}
		if len(shown) != len(page.Items) {
			t.Errorf("readers see %d indices, not %d", len(shown), len(page.Items))
		}
		for _, i := range page.Items {
			if got := shown[i.Key]; got == nil || !reflect.DeepEqual(*got, i.Actual) {
				t.Errorf("readers see %+v of %v, not %+v", got, i.Key, i.Actual)
			}
			for _, a := range i.Rows.Rows() {
				want[a.Key.String()+"/"+a.Instance] = a
			}
		}
		if !reflect.DeepEqual(seen, want) {
			t.Fatalf("rebuilt %v\nwant %v", seen, want)
		}
	})
}

func follow(ctx context.Context, s *event.Subscription, each func(event.Event)) {
	for {
		b, err := s.Next(ctx, time.Hour)
		if err != nil {
			return
		}
		for _, e := range b.Events {
			each(e)
		}
	}
}

// TestALargeApplyIsAManifest: more than one transaction, promised first, rolled
// forward by the next leader when the first one dies on the way.
func TestALargeApplyIsAManifest(t *testing.T) {
	const n = 200
	var services []lrp.Desired
	for i := range n {
		d := web(1, "1")
		d.Service.Name = fmt.Sprintf("s%03d", i)
		services = append(services, d)
	}
	inBubble(t, func(t *testing.T, r *rig) {
		out, err := r.b.Apply(t.Context(), plan.Application{Domain: "d", Services: services}, plan.Write{}, nil)
		if err != nil || len(out.Changes) != n {
			t.Fatalf("%v %d", err, len(out.Changes))
		}
		r.serve()
		if page, _ := r.b.ListServices(plan.NameFilter{Domain: "d"}, plan.Range{Limit: 1000}); len(page.Items) != n ||
			page.Items[n-1].Running != 1 {
			t.Fatalf("%d services", len(page.Items))
		}
		if rows := r.rowsLeft(store.ManifestPrefix); len(rows) != 0 {
			t.Fatalf("left: %v", rows)
		}
	})
	// The leader dies after the promise and a few steps.
	var d dying
	for _, after := range []int{2, 3, 5} {
		d.at(0)
		inBubbleOn(t, mem.Config{Fault: d.fault, Limits: store.Limits{Ops: 24, Bytes: 64 << 10}}, func(t *testing.T, r *rig) {
			d.at(after)
			_, err := r.b.Apply(t.Context(), plan.Application{Domain: "d", Services: services}, plan.Write{}, nil)
			d.at(0)
			r.reelect()
			r.serve()
			page, _ := r.b.ListServices(plan.NameFilter{Domain: "d"}, plan.Range{Limit: 1000})
			if got := len(page.Items); got != n && (got != 0 || err == nil) {
				t.Fatalf("after %d transactions: %d services, apply returned %v", after, got, err)
			}
			if rows := r.rowsLeft(store.ManifestPrefix); len(rows) != 0 {
				t.Fatalf("left: %v", rows)
			}
		})
	}
}

func TestListsArePaged(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		var services []lrp.Desired
		for _, n := range []string{"a", "a-b", "a.b", "b"} {
			d := web(2, "1")
			d.Service.Name = n
			services = append(services, d)
		}
		r.apply(services, nil)
		r.serve()
		var names []string
		for after := ""; ; {
			page, err := r.b.ListServices(plan.NameFilter{Domain: "d"}, plan.Range{After: after, Limit: 1})
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range page.Items {
				names = append(names, s.Key.Name)
			}
			if after = page.Next; after == "" {
				break
			}
		}
		if fmt.Sprint(names) != "[a a-b a.b b]" {
			t.Errorf("%v", names)
		}
		n := 0
		for after := ""; ; {
			page, err := r.b.ListInstances(plan.InstanceFilter{Domain: "d"}, plan.Range{After: after, Limit: 3})
			if err != nil {
				t.Fatal(err)
			}
			n += len(page.Items)
			if after = page.Next; after == "" {
				break
			}
		}
		if n != 8 {
			t.Errorf("%d instances", n)
		}
		if _, err := r.b.ListInstances(plan.InstanceFilter{}, plan.Range{After: "nonsense"}); !errors.Is(err,
			fault.ErrInvalid) {
			t.Errorf("%v", err)
		}
	})
}

func TestRetireStartsAfresh(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.apply([]lrp.Desired{web(2, "1")}, nil)
		r.serve()
		before, _ := r.b.ListInstances(plan.InstanceFilter{}, plan.Range{})
		if n, err := r.b.RetireInstances(t.Context(), webKey, []int{1}, plan.Write{}); err != nil || n != 1 {
			t.Fatalf("%d %v", n, err)
		}
		r.serve()
		after, _ := r.b.ListInstances(plan.InstanceFilter{}, plan.Range{})
		if before.Items[0].Instance != after.Items[0].Instance || before.Items[1].Instance == after.Items[1].Instance {
			t.Fatalf("before %v\nafter %v", before.Items, after.Items)
		}
	})
}

func TestExtraRowsAreInTheSameCommit(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		var reported int64
		a := plan.Application{Domain: "d", Services: []lrp.Desired{web(1, "1")}}
		others := func() (store.Part, error) {
			return store.Part{Ops: []store.Op{{Key: "job/x", Value: []byte("x")}},
				Done: func(revision int64, _ error) { reported = revision }}, nil
		}
		out, err := r.b.Apply(t.Context(), a, plan.Write{}, others)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if reported != out.Revision || len(r.rowsLeft("job/")) != 1 {
			t.Fatalf("reported %d, revision %d", reported, out.Revision)
		}
		others = func() (store.Part, error) { return store.Part{}, errors.New("no") }
		a.Services = []lrp.Desired{web(5, "1")}
		if _, err := r.b.Apply(t.Context(), a, plan.Write{}, others); err == nil {
			t.Fatal("applied although the other owner refuses")
		}
		r.serve()
		if s, _ := r.b.GetService(webKey); s.Instances != 1 || s.Running != 1 {
			t.Fatalf("%+v", s)
		}
	})
}

func TestOneBatchOfEventsAnswersEach(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.apply([]lrp.Desired{web(120, "1")}, nil)
		synctest.Wait()
		w, _, _ := r.take()
		var calls []wire.LRPCall
		for i, want := range w {
			by := lrp.Identity{Instance: fmt.Sprint("i", i), Cell: "a", Proc: "a1"}
			calls = append(calls, wire.LRPCall{Key: want.Key, Event: lrp.Claim{By: by}},
				wire.LRPCall{Key: want.Key, Event: lrp.Crash{By: lrp.Identity{Instance: "no", Cell: "a", Proc: "a1"}}})
		}
		answers, err := r.b.LRPEvents(t.Context(), calls)
		if err != nil || len(answers) != 240 {
			t.Fatal(err)
		}
		for i, a := range answers {
			if (i%2 == 0) != (a == nil) {
				t.Fatalf("answer %d: %v", i, a)
			}
		}
		if rows := r.b.Rows("a", nil, nil, false); len(rows.LRPs) != 120 {
			t.Fatalf("%d rows", len(rows.LRPs))
		}
	})
}

func TestAFixedPortStopsFirst(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		d := web(2, "1")
		d.Workload.Ports = []action.Port{{Name: "http", Fixed: 8080}}
		got, err := r.b.Plan(plan.Application{Domain: "d", Services: []lrp.Desired{d}})
		if err != nil || !strings.Contains(got.Changes[0].Note, "port http is fixed") {
			t.Errorf("%+v, %v", got, err)
		}
		r.apply([]lrp.Desired{d}, nil)
		if s, _ := r.b.GetService(webKey); s.Target().Strategy != lrp.StopFirst {
			t.Errorf("%+v", s.Target())
		}
		if out := r.apply([]lrp.Desired{d}, nil); out.Changes[0].Verb != plan.VerbKeep || out.Changes[0].Note != "" {
			t.Errorf("unchanged: %+v", out.Changes)
		}
	})
}

// TestPortsThatNeverFitAreRefused at plan, apply and scale, counting the fixed ports of other services. A change
// that takes no more ports than before is not checked.
func TestPortsThatNeverFitAreRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		d := web(2, "1")
		d.Workload.Ports = []action.Port{{Name: "http", Fixed: 8080}}
		other := d
		other.Service.Name = "api"
		refused := func(what string, err error) {
			t.Helper()
			if !errors.Is(err, lrp.ErrInvalid) || !strings.Contains(err.Error(), "port 8080 is fixed for") {
				t.Errorf("%s: %v", what, err)
			}
		}
		r.machines = 2
		r.apply([]lrp.Desired{d}, nil)
		_, err := r.b.Plan(plan.Application{Domain: "d", Services: []lrp.Desired{d, other}})
		refused("plan of another service", err)
		_, err = r.b.Apply(t.Context(), plan.Application{Domain: "d", Services: []lrp.Desired{other}}, plan.Write{}, nil)
		refused("apply of another service", err)
		_, err = r.b.ScaleService(t.Context(), webKey, 3, plan.Write{})
		refused("scale", err)
		if _, err := r.b.Plan(plan.Application{Domain: "d", Services: []lrp.Desired{other},
			Prune: plan.Prune{On: true}}); err != nil {
			t.Errorf("another service in the place of the first: %v", err)
		}
		r.machines = 1
		d.Annotation = "a machine is gone for good"
		if _, err := r.b.Plan(plan.Application{Domain: "d", Services: []lrp.Desired{d}}); err != nil {
			t.Errorf("no more ports than before: %v", err)
		}
		if _, err := r.b.ScaleService(t.Context(), webKey, 1, plan.Write{}); err != nil {
			t.Errorf("fewer than before: %v", err)
		}
		r.machines = 0
		if _, err := r.b.ScaleService(t.Context(), webKey, 9, plan.Write{}); err != nil {
			t.Errorf("the machines are unknown: %v", err)
		}
	})
}

// TestBecomingExclusiveIsStopFirstAndWarns: an instance of a version that was not exclusive is stopped before an
// exclusive one starts. Plan and apply warn that this does not prove its end.
func TestBecomingExclusiveIsStopFirstAndWarns(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.apply([]lrp.Desired{web(1, "1")}, nil)
		r.serve()
		r.take()
		d := web(1, "2")
		d.Exclusive = true
		app := plan.Application{Domain: "d", Services: []lrp.Desired{d}}
		planned, err := r.b.Plan(app)
		if err != nil || planned.Changes[0].Verb != plan.VerbReplace ||
			!strings.Contains(planned.Changes[0].Note, "becomes exclusive") {
			t.Errorf("%+v, %v", planned, err)
		}
		r.slow = true
		if out := r.apply(app.Services, nil); !strings.Contains(out.Changes[0].Note, "becomes exclusive") {
			t.Errorf("%+v", out.Changes)
		}
		synctest.Wait()
		wants, _, stops := r.take()
		if len(stops) != 1 || len(wants) != 0 {
			t.Errorf("%d starts beside %d stops", len(wants), len(stops))
		}
		r.slow = false
		for _, s := range stops {
			if err := r.event(s.Key, lrp.Remove{By: s.Who}); err != nil {
				t.Error(err)
			}
		}
		synctest.Wait()
		if wants, _, _ = r.take(); len(wants) != 1 {
			t.Errorf("%d starts when the old one is gone", len(wants))
		}
		d.Workload = web(1, "3").Workload
		if planned, err = r.b.Plan(plan.Application{Domain: "d", Services: []lrp.Desired{d}}); err != nil ||
			!strings.Contains(planned.Changes[0].Note, "becomes exclusive") {
			t.Errorf("while an older version is there: %+v, %v", planned, err)
		}
	})
}

func TestAServiceNamesItsFirstInstancesThatAreNotAsWanted(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.apply([]lrp.Desired{web(8, "1")}, nil)
		synctest.Wait()
		w, _, _ := r.take()
		for _, x := range w {
			if x.Key.Index == 1 {
				r.run(x)
			} else {
				r.b.PlacementFailed(Unplaced{x.Key, "insufficient resources: 2 cells: memory_mb 512 needed, largest free 300"})
			}
		}
		synctest.Wait()
		e, err := r.b.ExplainService(webKey)
		if err != nil || e.Fine {
			t.Fatalf("%+v, %v", e, err)
		}
		var texts []string
		for _, x := range e.Reasons {
			if x.Code == "insufficient_resources" || x.Code == "instances" {
				texts = append(texts, strings.SplitN(x.Text, ":", 2)[0])
			}
		}
		if got := strings.Join(texts,
			", "); got != "web/0, web/2, web/3, web/4, web/5, 2 more instances are not in the desired state" {
			t.Errorf("%s", got)
		}
		if _, err := r.b.ExplainService(lrp.ServiceKey{Domain: "d", Name: "nope"}); !errors.Is(err, ErrServiceNotFound) {
			t.Error(err)
		}
	})
}

// TestAnApplyThatChangesNothingKeepsItsAnswer: it is answered with the revision that the domain has, which a later
// apply may expect; the same call again, also after a change of leader, gets the same answer.
func TestAnApplyThatChangesNothingKeepsItsAnswer(t *testing.T) {
	for name, key := range map[string]string{"with a key": "k", "without": ""} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				a := plan.Application{Domain: "d", Services: []lrp.Desired{web(1, "1")}}
				first := r.apply(a.Services, nil)
				call := func() plan.Applied {
					out, err := r.b.Apply(t.Context(), a, plan.Write{Key: key}, nil)
					if err != nil || len(out.Changes) != 1 || out.Changes[0].Verb != plan.VerbKeep {
						t.Fatalf("%+v %v", out, err)
					}
					return out
				}
				one := call()
				if one.Revision != first.Revision {
					t.Fatalf("revision %d; the domain has %d", one.Revision, first.Revision)
				}
				if _, err := r.b.Apply(t.Context(), a, plan.Write{Expect: one.Revision}, nil); err != nil {
					t.Fatal(err)
				}
				if two := call(); two.Revision != one.Revision {
					t.Fatalf("revision %d, then %d", one.Revision, two.Revision)
				}
				r.reelect()
				if two := call(); two.Revision != one.Revision {
					t.Fatalf("revision %d, after a change of leader %d", one.Revision, two.Revision)
				}
			})
		})
	}
}

// TestAnApplyBehindAWriteInFlight: the revision of its domain is not known yet, so it gets one of its own, which the
// domain then has.
func TestAnApplyBehindAWriteInFlight(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		a := plan.Application{Domain: "d", Services: []lrp.Desired{web(1, "1")}}
		const calls = 5
		answers := make(chan plan.Applied, calls)
		for i := range calls {
			go func() {
				out, err := r.b.Apply(t.Context(), a, plan.Write{Key: fmt.Sprint(i)}, nil)
				if err != nil {
					t.Error(err)
				}
				answers <- out
			}()
		}
		var last int64
		for range calls {
			last = max(last, (<-answers).Revision)
		}
		if p, err := r.b.Plan(a); err != nil || p.Revision != last {
			t.Fatalf("the domain has revision %d, the last answer %d: %v", p.Revision, last, err)
		}
		for i := range calls {
			one, err := r.b.Apply(t.Context(), a, plan.Write{Key: fmt.Sprint(i)}, nil)
			if err != nil || one.Revision > last || one.Revision == 0 {
				t.Fatalf("revision %d of %d: %v", one.Revision, last, err)
			}
		}
	})
}

package bbs

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cantina/fault"
	"cantina/lrp"
	"cantina/plan"
	"cantina/store"
	"cantina/task"
	"cantina/worker"
)

// kept is the board that rows of every kind are made of: a service with two
// instances, a task of a spec file, one that a key was given for, and a domain.
func (r *rig) kept() {
	r.t.Helper()
	r.apply([]lrp.Desired{web(2, "1")}, []plan.NamedTask{{Name: "once",
		Definition: task.Definition{Workload: runs("/bin/true")}}})
	n := plan.NewTask{GUID: "t", Domain: "d", Definition: task.Definition{Workload: runs("/bin/true")}}
	if _, err := r.b.DesireTask(r.t.Context(), n, plan.Write{Key: "token"}); err != nil {
		r.t.Fatal(err)
	}
	synctest.Wait()
	lrps, _, _ := r.take() // the tasks stay PENDING
	for _, w := range lrps {
		r.run(w)
	}
	r.serveLRPs()
	r.report("b", worker.Alive{ID: "container", Task: "lost", Older: true})
}

// serveLRPs is serve without tasks.
func (r *rig) serveLRPs() {
	r.t.Helper()
	for range 100 {
		synctest.Wait()
		lrps, _, stops := r.take()
		if len(lrps)+len(stops) == 0 {
			return
		}
		for _, w := range lrps {
			r.run(w)
		}
		for _, s := range stops {
			_ = r.event(s.Key, lrp.Remove{By: s.Who})
		}
	}
	r.t.Fatal("does not come to rest")
}

// overwrite puts value in place of a row, as a new leader will find it.
func (r *rig) overwrite(key string, value []byte) {
	r.t.Helper()
	ticket := r.b.newTicket()
	r.leadership.Submit(store.Transition{Ops: []store.Op{{Key: key, Value: value}}}, ticket.done)
	if _, err := ticket.wait(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) value(key string) []byte {
	r.t.Helper()
	row, ok, err := r.leadership.Get(r.t.Context(), key)
	if err != nil || !ok {
		r.t.Fatalf("%s: %v %v", key, ok, err)
	}
	return row.Value
}

// damages has the ways in which a record can be unusable, by the text of the reason.
func damages(t *testing.T, value []byte) map[string][]byte {
	version, kind, payload, err := store.Decode(value)
	if err != nil {
		t.Fatal(err)
	}
	flipped := append([]byte(nil), value...)
	flipped[len(flipped)/2] ^= 0x40
	return map[string][]byte{
		"garbage": []byte("garbage"), "empty": {}, "flipped": flipped, "cut": value[:len(value)-1],
		"another kind": store.Encode(version, "cake", payload), "newer": store.Encode(version+1, kind, payload),
		"no message": store.Encode(version, kind, []byte{0xff, 0xff, 0xff}),
		"nothing":    store.Encode(version, kind, nil),
	}
}

// rowsOfEveryKind names one row of each kind that the board of kept has.
func (r *rig) rowsOfEveryKind() map[string]string {
	page, _ := r.b.ListInstances(plan.InstanceFilter{}, plan.Range{})
	return map[string]string{
		kindService: ServiceRow(webKey), kindIndex: IndexRow(page.Items[0].Key), kindTask: TaskRow("t"),
		kindDomain:  domainRow("d"),
		kindApplied: appliedRow("d", "once"), kindIdem: idemRow("token"), kindReported: reportedTaskRow("lost"),
	}
}

// TestEveryUnreadableRowIsSetAside: for any damage and any kind of row, the term begins. The row is counted, counts
// as existing, and stays as it is.
func TestEveryUnreadableRowIsSetAside(t *testing.T) {
	for _, kind := range []string{kindService, kindIndex, kindTask, kindDomain, kindApplied, kindIdem, kindReported} {
		inBubble(t, func(t *testing.T, r *rig) {
			r.kept()
			key := r.rowsOfEveryKind()[kind]
			good := r.value(key)
			for name, bad := range damages(t, good) {
				if kind == kindIdem && name == "nothing" {
					continue // without a field of its own it is a key that is over
				}
				r.overwrite(key, bad)
				r.reelect()
				if n := r.b.Count().Quarantined; n != 1 {
					t.Fatalf("%s, %s: %d quarantined", kind, name, n)
				}
				r.serveLRPs()
				if got := string(r.value(key)); got != string(bad) {
					t.Fatalf("%s, %s: the row was changed", kind, name)
				}
				r.overwriteQuarantined(key, good)
				r.reelect()
			}
			if n := r.b.Count().Quarantined; n != 0 {
				t.Fatalf("%s repaired: %d quarantined", kind, n)
			}
			if got := fmt.Sprint(r.running(webKey)); got != "[a/0 a/1]" {
				t.Fatalf("%s: running %s", kind, got)
			}
			r.take()
		})
	}
}

// overwriteQuarantined repairs a row through the store.
func (r *rig) overwriteQuarantined(key string, value []byte) {
	r.t.Helper()
	ticket := r.b.newTicket()
	r.leadership.Restore(key, value, ticket.done)
	if _, err := ticket.wait(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
}

// TestInvalidRowsAreSetAside: rows that can be decoded and that no leader can have
// written.
func TestInvalidRowsAreSetAside(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	service := func(alter func(*lrp.Service)) []byte {
		d := web(2, "1")
		d.Process = "p"
		s := &lrp.Service{Key: webKey, Instances: 2, Numbers: 1, Versions: []lrp.Version{{Desired: d, Number: 1, High: 2}}}
		alter(s)
		return encode(kindService, serviceRecord(s))
	}
	index := func(alter func(*lrp.Actual)) []byte {
		a := &lrp.Actual{Key: lrp.Key{Process: "p", Index: 1}, Service: webKey, State: lrp.Running,
			Identity: lrp.Identity{Instance: "i", Cell: "a", Proc: "a1"}, Since: at}
		alter(a)
		return encode(kindIndex, indexRecord(lrp.Index{Key: a.Key, Ordinary: a}))
	}
	row := func(alter func(*task.Task)) []byte {
		x := &task.Task{GUID: "t", UID: "u", Domain: "d", Definition: &task.Definition{Workload: runs("/bin/true")},
			Created: at, Updated: at}
		alter(x)
		return encode(kindTask, taskRecord(x))
	}
	svc, idx, tsk := ServiceRow(webKey), IndexRow(lrp.Key{Process: "p", Index: 1}), TaskRow("t")
	for name, c := range map[string]struct {
		key   string
		value []byte
		ok    bool
	}{
		"a good service": {svc, service(func(*lrp.Service) {}), true},
		"a good index":   {idx, index(func(*lrp.Actual) {}), true},
		"a good task":    {tsk, row(func(*task.Task) {}), true},
		"no version":     {svc, service(func(s *lrp.Service) { s.Versions = nil }), false},
		"another service's key": {svc, service(func(s *lrp.Service) {
			s.Key.Name, s.Versions[0].Service.Name = "x",
				"x"
		}), false},
		"another service's version": {svc, service(func(s *lrp.Service) { s.Versions[0].Service.Name = "x" }), false},
		"a version without process": {svc, service(func(s *lrp.Service) { s.Versions[0].Process = "" }), false},
		"one process twice": {svc, service(func(s *lrp.Service) {
			s.Numbers, s.Versions = 2, append(s.Versions, s.Versions[0])
			s.Versions[1].Number = 2
		}), false},
		"a range below zero": {svc, service(func(s *lrp.Service) { s.Versions[0].Low = -1 }), false},
		"a range turned round": {svc, service(func(s *lrp.Service) { s.Versions[0].Low, s.Versions[0].High = 2, 1 }),
			false},
		"a range beyond instances": {svc, service(func(s *lrp.Service) { s.Versions[0].High = 3 }), false},
		"an unknown number":        {svc, service(func(s *lrp.Service) { s.Versions[0].Number = 2 }), false},
		"a refused definition": {svc,
			service(func(s *lrp.Service) { s.Versions[0].Annotation = strings.Repeat("x", lrp.MaxAnnotation+1) }), false},
		"negative instances": {svc, service(func(s *lrp.Service) { s.Instances, s.Versions[0].High = -1, -1 }),
			false},
		"another index's row":       {idx, index(func(a *lrp.Actual) { a.Key.Index = 2 }), false},
		"RUNNING on no cell":        {idx, index(func(a *lrp.Actual) { a.Identity = lrp.Identity{} }), false},
		"UNCLAIMED on a cell":       {idx, index(func(a *lrp.Actual) { a.State = lrp.Unclaimed }), false},
		"no since":                  {idx, index(func(a *lrp.Actual) { a.Since = time.Time{} }), false},
		"a placement error running": {idx, index(func(a *lrp.Actual) { a.PlacementError = "full" }), false},
		"another task's row":        {tsk, row(func(x *task.Task) { x.GUID = "x" }), false},
		"no uid":                    {tsk, row(func(x *task.Task) { x.UID = "" }), false},
		"COMPLETED without outcome": {tsk, row(func(x *task.Task) { x.State, x.FirstCompleted = task.Completed, at }),
			false},
		"an outcome while PENDING": {tsk, row(func(x *task.Task) { x.Outcome = task.Failed }), false},
		"COMPLETED at no time": {tsk, row(func(x *task.Task) { x.State, x.Outcome = task.Completed, task.Failed }),
			false},
		"a task RUNNING on no cell":  {tsk, row(func(x *task.Task) { x.State = task.Running }), false},
		"a resolution without loss":  {tsk, row(func(x *task.Task) { x.Resolution = task.ResolvedDone }), false},
		"may run without loss":       {tsk, row(func(x *task.Task) { x.MayStillRun = true }), false},
		"a task's bad definition":    {tsk, row(func(x *task.Task) { x.Definition.CallbackURL = "gopher:" }), false},
		"a task that was never made": {tsk, row(func(x *task.Task) { x.Created = time.Time{} }), false},
	} {
		inBubble(t, func(t *testing.T, r *rig) {
			r.overwrite(c.key, c.value)
			r.reelect()
			if n := r.b.Count().Quarantined; n != 1 && !c.ok || n != 0 && c.ok {
				t.Errorf("%s: %d quarantined", name, n)
			}
			r.take()
		})
	}
}

// TestHandlingOfUnreadableRows is the table of docs/design/lrp.md, Rows that cannot
// be read.
func TestHandlingOfUnreadableRows(t *testing.T) {
	type after func(t *testing.T, r *rig)
	app := func(r *rig, services []lrp.Desired, tasks []plan.NamedTask) error {
		_, err := r.b.Apply(r.t.Context(), plan.Application{Domain: "d", Services: services, Tasks: tasks}, plan.Write{}, nil)
		return err
	}
	refused := func(t *testing.T, what string, err error) {
		t.Helper()
		if !errors.Is(err, fault.ErrQuarantined) {
			t.Errorf("%s: %v", what, err)
		}
	}
	runs2 := func(t *testing.T, r *rig, want string) {
		t.Helper()
		if got := fmt.Sprint(r.running(webKey)); got != want {
			t.Errorf("running %s, want %s", got, want)
		}
	}
	again := plan.NewTask{GUID: "t", Domain: "d", Definition: task.Definition{Workload: runs("/bin/true")}}
	for kind, c := range map[string]struct{ held, dropped after }{
		kindService: {func(t *testing.T, r *rig) {
			refused(t, "apply", app(r, []lrp.Desired{web(2, "2")}, nil))
			_, err := r.b.ScaleService(t.Context(), webKey, 0, plan.Write{})
			refused(t, "scale", err)
			_, err = r.b.RemoveService(t.Context(), webKey, plan.Write{})
			refused(t, "rm", err)
			runs2(t, r, "[a/0 a/1]")
			if n := r.b.Count().Orphans; n != 0 {
				t.Errorf("%d orphans", n)
			}
		}, func(t *testing.T, r *rig) { runs2(t, r, "[]") }}, // a fresh domain: unwanted instances are stopped
		kindIndex: {func(t *testing.T, r *rig) {
			runs2(t, r, "[a/1]")
			if _, err := r.b.ScaleService(t.Context(), webKey, 0, plan.Write{}); err != nil {
				t.Error(err)
			}
			r.serveLRPs()
			runs2(t, r, "[]")
			if _, err := r.b.ScaleService(t.Context(), webKey, 2, plan.Write{}); err != nil {
				t.Error(err)
			}
			r.serveLRPs()
			runs2(t, r, "[a/1]") // index 0 may still run
		}, func(t *testing.T, r *rig) { runs2(t, r, "[a/0 a/1]") }},
		kindTask: {func(t *testing.T, r *rig) {
			_, err := r.b.DesireTask(t.Context(), again, plan.Write{})
			if !errors.Is(err, task.ErrExists) {
				t.Errorf("its guid is free: %v", err)
			}
			_, err = r.b.CancelTask(t.Context(), "t", plan.Write{})
			refused(t, "cancel", err)
		}, func(t *testing.T, r *rig) {
			if _, err := r.b.DesireTask(t.Context(), again, plan.Write{}); err != nil {
				t.Errorf("its guid is free again: %v", err)
			}
		}},
		kindDomain: {func(t *testing.T, r *rig) {
			_, err := r.b.SetDomain(t.Context(), "d", 0, plan.Write{})
			refused(t, "set domain", err)
			refused(t, "apply", app(r, nil, nil))
			runs2(t, r, "[a/0 a/1]")
		}, func(t *testing.T, r *rig) {
			if err := app(r, []lrp.Desired{web(1, "1")}, nil); err != nil {
				t.Error(err)
			}
		}},
		kindApplied: {func(t *testing.T, r *rig) {
			refused(t, "apply",
				app(r, nil, []plan.NamedTask{{Name: "once", Definition: task.Definition{Workload: runs("/bin/false")}}}))
		}, func(t *testing.T, r *rig) {
			if err := app(r, nil, []plan.NamedTask{{Name: "once",
				Definition: task.Definition{Workload: runs("/bin/false")}}}); err != nil {
				t.Error(err)
			}
		}},
		kindReported: {func(t *testing.T, r *rig) {
			_, err := r.b.DesireTask(t.Context(), plan.NewTask{GUID: "lost", Domain: "d", Definition: again.Definition},
				plan.Write{})
			if !errors.Is(err, task.ErrExists) {
				t.Errorf("its guid is free: %v", err)
			}
		}, func(t *testing.T, r *rig) {
			if _, err := r.b.DesireTask(t.Context(), plan.NewTask{GUID: "lost", Domain: "d", Definition: again.Definition},
				plan.Write{}); err != nil {
				t.Errorf("its guid is free again: %v", err)
			}
		}},
		kindIdem: {func(t *testing.T, r *rig) {
			_, err := r.b.DesireTask(t.Context(), again, plan.Write{Key: "token"})
			refused(t, "the key", err)
			time.Sleep(23 * time.Hour)
			synctest.Wait()
			if n := r.b.Count(); n.Quarantined != 1 || n.Pruned != 0 {
				t.Errorf("pruned early: %+v", n)
			}
			time.Sleep(time.Hour + time.Minute)
			synctest.Wait()
			if n := r.b.Count(); n.Quarantined != 0 || n.Pruned != 1 || len(r.rowsLeft("idem/")) != 0 {
				t.Errorf("not pruned: %+v", n)
			}
			r.overwrite(idemRow("token"), []byte("garbage")) // for the next case
			r.reelect()
		}, func(t *testing.T, r *rig) {
			if _, err := r.b.DesireTask(t.Context(), plan.NewTask{GUID: "u", Domain: "d", Definition: again.Definition},
				plan.Write{Key: "token"}); err != nil {
				t.Errorf("the key can be used: %v", err)
			}
		}},
	} {
		inBubble(t, func(t *testing.T, r *rig) {
			r.kept()
			key := r.rowsOfEveryKind()[kind]
			r.overwrite(key, []byte("garbage"))
			r.reelect()
			r.serveLRPs()
			c.held(t, r)
			done := make(chan error, 1)
			if err := r.b.Release(key, false, nil, func(_ int64, err error) { done <- err }); err != nil {
				t.Fatalf("%s: %v", kind, err)
			}
			if err := <-done; err != nil {
				t.Fatalf("%s: %v", kind, err)
			}
			r.serveLRPs()
			c.dropped(t, r)
			if t.Failed() {
				t.Fatalf("kind %s", kind)
			}
			r.take()
		})
	}
}

// TestOrphansAreCounted: instances that no service owns stay while their domain is
// not fresh, and go when it is.
func TestOrphansAreCounted(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.kept()
		if _, err := r.b.SetDomain(t.Context(), "d", time.Minute, plan.Write{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		r.overwrite(ServiceRow(webKey), []byte("garbage"))
		r.reelect()
		done := make(chan error, 1)
		if err := r.b.Release(ServiceRow(webKey), false, nil, func(_ int64, err error) { done <- err }); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		r.serveLRPs()
		if n := r.b.Count(); n.Orphans != 2 || n.Running != 2 {
			t.Fatalf("%+v", n)
		}
		other := web(1, "1")
		other.Service = lrp.ServiceKey{Domain: "e", Name: "other"}
		if _, err := r.b.Apply(t.Context(), plan.Application{Domain: "e", Services: []lrp.Desired{other}}, plan.Write{},
			nil); err != nil {
			t.Fatal(err)
		}
		r.serveLRPs()
		if page, err := r.b.ListInstances(plan.InstanceFilter{Orphans: true}, plan.Range{}); err != nil ||
			len(page.Items) != 2 || !page.Items[0].Orphan || page.Items[0].Service != webKey {
			t.Fatalf("%v %+v", err, page.Items)
		}
		if _, err := r.b.SetDomain(t.Context(), "d", 0, plan.Write{}); err != nil {
			t.Fatal(err)
		}
		r.serveLRPs()
		if n := r.b.Count(); n.Orphans != 0 || n.Running != 1 {
			t.Fatalf("%+v", n)
		}
		r.take()
	})
}

func TestCorruptRowsAreQuarantined(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.apply([]lrp.Desired{web(2, "1")}, nil)
		r.serve()
		page, _ := r.b.ListInstances(plan.InstanceFilter{}, plan.Range{})
		k0, k1 := page.Items[0].Key, page.Items[1].Key
		r.smash(IndexRow(k0), ServiceRow(lrp.ServiceKey{Domain: "d", Name: "ghost"}), "task/bad")
		r.reelect()
		if n := r.b.Count().Quarantined; n != 3 {
			t.Fatalf("%d quarantined", n)
		}
		// It counts as existing: not started, not stopped, its container left alone.
		r.serve()
		if got := fmt.Sprint(r.running(webKey)); got != "[a/1]" {
			t.Fatalf("running %s", got)
		}
		rows := r.b.Rows("a", []lrp.Key{k0}, []string{"bad"}, true)
		if len(rows.LRPs) != 0 || len(rows.QuarantinedLRPs) != 1 || len(rows.QuarantinedTasks) != 1 {
			t.Fatalf("%+v", rows)
		}
		if err := r.event(k0, lrp.Remove{By: lrp.Identity{Instance: "x", Cell: "a", Proc: "a1"}}); !errors.Is(err,
			lrp.ErrNotEligible) {
			t.Fatalf("an event for it: %v", err)
		}
		if _, err := r.b.DesireTask(t.Context(), plan.NewTask{GUID: "bad", Domain: "d",
			Definition: task.Definition{Workload: runs("/bin/true")}}, plan.Write{}); !errors.Is(err, task.ErrExists) {
			t.Fatalf("its guid is taken: %v", err)
		}
		ghost := web(1, "1")
		ghost.Service.Name = "ghost"
		if _, err := r.b.Apply(t.Context(), plan.Application{Domain: "d", Services: []lrp.Desired{ghost}}, plan.Write{},
			nil); !errors.Is(err, fault.ErrQuarantined) {
			t.Fatalf("applied over it: %v", err)
		}
		// Dropped: the index is made again.
		done := make(chan error, 1)
		if err := r.b.Release(IndexRow(k0), false, nil, func(_ int64, err error) { done <- err }); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		r.serve()
		if got := fmt.Sprint(r.running(webKey)); got != "[a/0 a/1]" {
			t.Fatalf("dropped: %s", got)
		}
		// Restored with a value that can be read.
		if err := r.b.Release("task/bad", true, []byte("still bad"), nil); err == nil {
			t.Fatal("restored garbage")
		}
		good := encode(kindTask, taskRecord(&task.Task{GUID: "bad", UID: "u", Domain: "d",
			Definition: &task.Definition{Workload: runs("/bin/true")}, Created: r.clock.Wall(), Updated: r.clock.Wall()}))
		if err := r.b.Release("task/bad", true, good, func(_ int64, err error) { done <- err }); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		r.serve()
		if row, err := r.b.GetTask("bad"); err != nil || row.Outcome != task.Succeeded {
			t.Fatalf("restored: %v", err)
		}
		_ = k1
	})
}

// smash overwrites rows with garbage, as a new leader will find them.
func (r *rig) smash(keys ...string) {
	r.t.Helper()
	for _, k := range keys {
		ticket := r.b.newTicket()
		r.leadership.Submit(store.Transition{Ops: []store.Op{{Key: k, Value: []byte("garbage")}}}, ticket.done)
		if _, err := ticket.wait(r.t.Context()); err != nil {
			r.t.Fatal(err)
		}
	}
}

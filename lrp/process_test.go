package lrp

import (
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"testing"
	"time"
)

// TestAProcessCountsItsRows: after any change of its rows and its definition, the counts of a process equal those
// of a scan of all its rows.
func TestAProcessCountsItsRows(t *testing.T) {
	for seed := range 200 {
		r := rand.New(rand.NewSource(int64(seed)))
		b := NewBoard(ConvergePolicy{})
		b.SetDomain("d", time.Time{})
		now := t0
		s := &Service{Key: svc, Instances: 8, Phase: RollingOut,
			Versions: []Version{{Desired: Desired{Service: svc, Process: "p1"}, High: 8}}}
		b.PutService(s)
		for range 300 {
			k := Key{fmt.Sprint("p", 1+r.Intn(3)), r.Intn(10)}
			switch r.Intn(6) {
			case 0:
				c := s.clone()
				c.Versions = c.Versions[:0]
				for n := range 1 + r.Intn(3) {
					low := r.Intn(5)
					c.Versions = append(c.Versions, Version{Desired: Desired{Service: svc, Process: fmt.Sprint("p", n+1)}, Low: low,
						High: low + r.Intn(6)})
				}
				b.PutService(c)
				s = c
			case 1:
				b.PutIndex(Index{Key: k})
			case 2:
				now = now.Add(time.Second)
			case 3:
				b.Converge(now)
			default:
				a := &Actual{Key: k, Service: svc, State: []State{Unclaimed, Running, Crashed}[r.Intn(3)], Since: now,
					Retiring: r.Intn(4) == 0}
				if a.State == Running {
					a.Net, a.Identity = Net{Routable: true}, Identity{fmt.Sprint("i", r.Int()), "a", "pa"}
				}
				b.PutIndex(Index{Key: k, Ordinary: a})
			}
			sameAsALookAtAll(t, seed, b, now)
		}
	}
}

func sameAsALookAtAll(t *testing.T, seed int, b *Board, now time.Time) {
	t.Helper()
	for guid, p := range b.procs {
		running, top, surplus := 0, 0, []int{}
		for i, s := range p.rows {
			top = max(top, i+1)
			switch wanted := p.version != nil && p.version.Wants(i); {
			case wanted && s.index.Ordinary.Serves():
				running++
			case p.version != nil && !wanted && unwantedEvent(s.index):
				surplus = append(surplus, i)
			}
		}
		slices.Sort(surplus)
		if got := slices.Sorted(maps.Keys(p.surplus)); p.running != running || b.Top(guid) != top ||
			!slices.Equal(got, surplus) {
			t.Fatalf("seed %d: %s: running %d, top %d, surplus %v; a look at all: %d, %d, %v", seed, guid, p.running,
				b.Top(guid), got, running, top, surplus)
		}
		if v := p.version; v != nil {
			want := 0
			for ; want < v.High; want++ {
				if ok, _ := b.Healthy(guid, want, v.settle(), now); !ok {
					break
				}
			}
			if got, _ := b.Unhealthy(guid, v.High, v.settle(), now); got != want {
				t.Fatalf("seed %d: %s [%d %d]: first unhealthy %d; a look at all: %d", seed, guid, v.Low, v.High, got, want)
			}
		}
	}
}

// TestWorkInProportionToChange: a rollout, a scale and a removal of a service look at the indices that change, not at
// all of its instances for each.
func TestWorkInProportionToChange(t *testing.T) {
	for _, first := range []bool{false, true} {
		looks := func(n int) int {
			w := newWorld(t)
			d := Desired{Instances: n, Workload: checked(), Rollout: RolloutPolicy{Batch: n / 4}}
			if first {
				d.Strategy = StopFirst
			}
			w.apply(d)
			w.quiesce()
			w.serve(nil)
			before := w.b.looks
			d.Stack = "new"
			w.apply(d)
			for range 40 {
				w.quiesce()
				w.serve(nil)
			}
			if s := w.b.Service(svc); s.Phase != Steady {
				t.Fatalf("%+v", s)
			}
			return w.b.looks - before
		}
		one, four := looks(100), looks(400)
		if four > 5*one {
			t.Errorf("stop first %v: a rollout of 100 instances looks at %d rows, of 400 at %d", first, one, four)
		}
	}
}

// TestNothingIsLeftOfAProcessThatTwoRowsName: the rows of an index may name one cell process twice. Nothing stays
// in the board when those rows are deleted, and the session of that process may become HEALTHY and die afterwards.
func TestNothingIsLeftOfAProcessThatTwoRowsName(t *testing.T) {
	who := Identity{"i1", "a", "pa"}
	row := func() *Actual {
		return &Actual{Key: key0, Service: svc, State: Running, Identity: who, Net: netA, Since: t0, Replaces: who}
	}
	for name, x := range map[string]Index{
		"ordinary that replaces one on the same": {Key: key0, Ordinary: row()},
		"evacuating beside it":                   {Key: key0, Ordinary: row(), Evacuating: row()},
		"suspect beside it":                      {Key: key0, Ordinary: row(), Suspect: row()},
	} {
		b := NewBoard(ConvergePolicy{})
		b.PutIndex(x)
		if got := b.OnProc("pa"); len(got) != 1 {
			t.Errorf("%s: on the process: %v", name, got)
		}
		b.PutIndex(Index{Key: key0})
		b.Heard("pa", t0)
		b.ProcDied("pa")
		if len(b.Procs()) != 0 || len(b.OnProc("pa")) != 0 || len(b.procs) != 0 {
			t.Errorf("%s: left: %v %v", name, b.Procs(), b.OnProc("pa"))
		}
	}
}

// TestOneIndexMoreIsOneLook: a range that grows or shrinks by an index has only that one looked at.
func TestOneIndexMoreIsOneLook(t *testing.T) {
	b := boardOf(t, 100, plainService)
	for i := range 100 {
		b.PutIndex(rowAt(t, Key{"p1", i}, "RUNNING self"))
	}
	b.Converge(t0)
	for _, n := range []int{101, 100, 99, 100} {
		before := b.looks
		b.PutService(b.Service(svc).Scale(n))
		b.Converge(t0)
		if looks := b.looks - before; looks != 2 { // by the range, and by convergence
			t.Errorf("scaled to %d: %d looks", n, looks)
		}
	}
}

// TestADomainThatStaysFresh has no row that was left alone: nothing is looked at again.
func TestADomainThatStaysFresh(t *testing.T) {
	soon := t0.Add(time.Minute)
	for name, c := range map[string]struct {
		was, is time.Time
		looks   bool
	}{
		"for ever, and for ever":      {time.Time{}, time.Time{}, false},
		"for ever, and for a time":    {time.Time{}, soon, false},
		"for a time, and the same":    {soon, soon, false},
		"for a time, and a later one": {soon, soon.Add(1), true},
		"for a time, and for ever":    {soon, time.Time{}, true},
		"not at all, and for ever":    {t0.Add(-1), time.Time{}, true},
	} {
		b := boardOf(t, 1, plainService)
		if !c.was.Before(t0) || c.was.IsZero() {
			b.SetDomain("other", c.was)
		}
		b.PutIndex(Index{Key: Key{"p9", 0}, Ordinary: rowWith(t, "RUNNING self", func(a *Actual) {
			a.Key, a.Service = Key{"p9", 0}, ServiceKey{"other", "web"}
		})})
		b.Converge(t0)
		before := b.looks
		b.SetDomain("other", c.is)
		if b.Converge(t0); b.looks > before != c.looks {
			t.Errorf("%s: %d looks", name, b.looks-before)
		}
	}
}

// TestAnIndexThatWasNotCreated despite an order of convergence is found by the pass over everything.
func TestAnIndexThatWasNotCreated(t *testing.T) {
	b := NewBoard(ConvergePolicy{})
	s, err := Apply(nil, Desired{Service: svc, Instances: 2}, "p1", t0)
	if err != nil {
		t.Fatal(err)
	}
	b.PutService(s)
	for _, c := range []struct {
		pass func(time.Time) Outcome
		want string
	}{{b.Converge, "0:lrp.Create 1:lrp.Create "}, {b.Converge, ""}, {b.ConvergeAll, "0:lrp.Create 1:lrp.Create "}} {
		if got := moves(c.pass(t0)); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	b.PutIndex(rowAt(t, key0, "RUNNING self"))
	b.Converge(t0)
	if got := moves(b.ConvergeAll(t0)); got != "1:lrp.Create " {
		t.Errorf("%q: one is there", got)
	}
}

// TestPlansOfOneIndex: the number of its plans stays small after any number of replaced rows.
func TestPlansOfOneIndex(t *testing.T) {
	b := boardOf(t, 1, plainService)
	for i := range 1000 {
		b.PutIndex(rowWithSince(t, key0, t0.Add(-time.Duration(i))))
		b.Converge(t0)
	}
	if n := b.due.Len(); n > 100 {
		t.Errorf("%d plans of one index", n)
	}
}

// TestUnhealthyAsksForNoMore than the requested range: an index above the last one plans no check.
func TestUnhealthyAsksForNoMore(t *testing.T) {
	b := boardOf(t, 3, plainService)
	put := func(i int, since time.Time) {
		b.PutIndex(Index{Key: Key{"p1", i}, Ordinary: rowWith(t, "RUNNING self", func(a *Actual) {
			a.Key, a.Since = Key{"p1", i}, since
		})})
	}
	first := func(guid string, high, want int, at time.Time) {
		t.Helper()
		if i, when := b.Unhealthy(guid, high, time.Minute, t0); i != want || !when.Equal(at) {
			t.Errorf("%s below %d: %d at %v, want %d at %v", guid, high, i, when, want, at)
		}
	}
	old, young := t0.Add(-time.Hour), t0.Add(-time.Second)
	put(0, old)
	put(1, young)
	first("p1", 1, 1, time.Time{})
	first("p1", 2, 1, young.Add(time.Minute))
	put(1, old)
	first("p1", 2, 2, time.Time{})
	put(1, young)
	first("p1", 1, 1, time.Time{})
	first("none", 3, 0, time.Time{})
}

// TestAVersionThatIsDropped leaves its rows without a definition, and its process is not known without rows.
func TestAVersionThatIsDropped(t *testing.T) {
	b := boardOf(t, 1, plainService)
	s := b.Service(svc).Restart("p2", t0).Restart("p3", t0)
	b.PutService(s)
	b.PutIndex(rowAt(t, key0, "RUNNING self"))
	s = s.clone()
	s.Versions = s.Versions[2:]
	b.PutService(s)
	if got := b.Orphans(); len(got) != 1 || got[0] != key0 || b.Env(key0, t0).Desired != nil {
		t.Errorf("orphans %v", got)
	}
	if b.procs["p2"] != nil || b.procs["p3"] == nil {
		t.Errorf("known: %v", slices.Sorted(maps.Keys(b.procs)))
	}
}

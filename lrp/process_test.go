package lrp

import (
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"testing"
	"time"
)

// TestAProcessCountsWhatItHas: whatever changes of its rows and its definition, the counts of a process are those of a
// look at all of its rows.
func TestAProcessCountsWhatItHas(t *testing.T) {
	for seed := range 200 {
		r := rand.New(rand.NewSource(int64(seed)))
		b := NewBoard(ConvergePolicy{})
		b.SetDomain("d", time.Time{})
		now := t0
		s := &Service{Key: svc, Instances: 8, Phase: RollingOut, Versions: []Version{{Desired: Desired{Service: svc, Process: "p1"}, High: 8}}}
		b.PutService(s)
		for range 300 {
			k := Key{fmt.Sprint("p", 1+r.Intn(3)), r.Intn(10)}
			switch r.Intn(6) {
			case 0:
				c := s.clone()
				c.Versions = c.Versions[:0]
				for n := range 1 + r.Intn(3) {
					low := r.Intn(5)
					c.Versions = append(c.Versions, Version{Desired: Desired{Service: svc, Process: fmt.Sprint("p", n+1)}, Low: low, High: low + r.Intn(6)})
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
				a := &Actual{Key: k, Service: svc, State: []State{Unclaimed, Running, Crashed}[r.Intn(3)], Since: now, Retiring: r.Intn(4) == 0}
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
		if got := slices.Sorted(maps.Keys(p.surplus)); p.running != running || b.Top(guid) != top || !slices.Equal(got, surplus) {
			t.Fatalf("seed %d: %s: running %d, top %d, surplus %v; a look at all: %d, %d, %v", seed, guid, p.running, b.Top(guid), got, running, top, surplus)
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

// TestNothingIsLeftOfAProcessThatTwoRowsName: an index whose rows name one cell process twice leaves nothing of it in
// the board when its rows go, and the session of that process may become HEALTHY and die afterwards.
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

package lrp

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"cantina/action"
	"cantina/internal/draw"
)

// odd draws rows and services of which nothing is known but that Check and CheckService let them pass.
type odd struct{ draw.Source }

func (o *odd) who() Identity {
	return Identity{draw.One(o, "", "i1", "i2"), draw.One(o, "", "a", "b"), draw.One(o, "", "pa", "pb", "pb2")}
}

func (o *odd) key() Key {
	return Key{draw.One(o, "p1", "p2", "p3", "gone"), draw.One(o, 0, 1, 2, 3, 1<<40, -1)}
}

func (o *odd) service() ServiceKey { return ServiceKey{draw.One(o, "d", "e"), draw.One(o, "s", "t")} }

func (o *odd) net() Net {
	n := Net{Address: draw.One(o, "", "10.0.0.1"), Routable: !o.Flag(), Stopping: o.Flag(), StopBy: o.Moment()}
	if o.Flag() {
		n.Ports = []action.Mapping{{}}
	}
	return n
}

func (o *odd) row(k Key, is Presence) *Actual {
	if o.Flag() {
		return nil
	}
	a := &Actual{Key: k, Presence: is, Service: o.service(), State: State(o.IntN(4)), Since: o.Moment(),
		Exclusive: o.Flag(), CrashCount: draw.One(o, 0, 1, -1, 500), Unheard: o.Flag()}
	if is != Ordinary {
		a.State, a.Expires = Running, o.Moment()
	}
	if a.State == Claimed || a.State == Running {
		a.Identity, a.Retiring = o.who(), o.Flag()
	}
	switch a.State {
	case Unclaimed:
		a.PlacementError, a.NotBefore = draw.One(o, "", "full"), draw.One(o, time.Time{}, time.Time{}, o.Moment())
	case Running:
		a.Net = o.net()
		if o.Flag() {
			a.Replaces = o.who()
		}
	case Crashed:
		a.Finished = o.Flag()
	}
	return a
}

// index draws rows that Check lets pass.
func (o *odd) index() Index {
	for {
		k := o.key()
		k.Index = max(k.Index, 0)
		x := Index{Key: k, Ordinary: o.row(k, Ordinary), Evacuating: o.row(k, Evacuating), Suspect: o.row(k, Suspect)}
		if Check(x) == nil {
			return x
		}
	}
}

// rolling draws a service that CheckService lets pass.
func (o *odd) rolling() *Service {
	for {
		s := &Service{Key: o.service(), Instances: o.IntN(4), Numbers: 3, Removed: o.IntN(5) == 0,
			Phase: Phase(o.IntN(4)), Progress: o.Moment(),
			Healthy: draw.One(o, -1, 0, 1, 9), FailedVersion: draw.One(o, -1, 0, 1, 2)}
		for n := range 1 + o.IntN(3) {
			low := o.IntN(4)
			v := Version{Desired: Desired{Service: s.Key, Process: draw.One(o, "p1", "p2", "p3"), Instances: o.IntN(4),
				Exclusive: o.Flag(), Strategy: Strategy(o.IntN(2)),
				OnReturn: OnReturn(o.IntN(2)), ReplaceAfter: draw.One(o, 0, time.Minute)},
				Number: n + 1, Low: low, High: low + o.IntN(4), Good: o.Flag()}
			v.Rollout.KeepFailed = o.Flag()
			s.Versions = append(s.Versions, v)
		}
		if CheckService(s) == nil {
			return s
		}
	}
}

func (o *odd) event() Event {
	who := o.who()
	return draw.One[Event](o, Create{}, Undesire{}, Retire{}, RestartCrashed{}, Resend{}, ExpireEvacuating{},
		PlacementFailed{"full"}, Claim{who}, Start{who, o.net(), o.service(), o.Flag()}, Crash{who, "x", o.Flag()},
		Remove{who}, Evacuate{who, o.net(), o.Moment()}, EvacuateClaimed{who}, EvacuateStopped{who},
		EvacuateCrashed{who, "x", o.Flag()}, RemoveEvacuating{who}, CellHealthy{who.Cell, who.Proc},
		CellUnhealthy{who.Cell, who.Proc}, CellUnheard{who.Cell, who.Proc},
		CellMustDie{who.Cell, who.Proc}, ProcDead{who.Proc},
		ProcMoved{who.Cell, who.Proc, "pb2"}, Found{who, o.service(), o.Flag()})
}

// TestStoredRowsNeverEndTheLeader: the board takes any rows and services that Check and CheckService accept, in any
// order, and any reports of cells. Its counts equal those of a full scan.
func TestStoredRowsNeverEndTheLeader(t *testing.T) {
	for seed := range uint64(300) {
		o := &odd{draw.From(seed, 7, t0)}
		b := NewBoard(ConvergePolicy{})
		step := func(k Key, e Event) {
			env := b.Env(k, o.Now)
			env.Eligible = !o.Flag()
			x, _, err := Step(b.Index(k), e, env)
			if err == nil && Check(x) == nil {
				b.PutIndex(x)
			}
		}
		for range 60 {
			switch o.IntN(12) {
			case 0, 1:
				b.PutService(o.rolling())
			case 2:
				b.LoadIndex(o.index())
			case 3:
				b.PutIndex(o.index())
			case 4:
				b.DeleteService(o.service())
			case 5:
				o.Now = o.Now.Add(draw.One(o, time.Second, time.Hour, -time.Minute))
			case 6:
				b.SetDomain(draw.One(o, "d", "e"), o.Moment())
			case 7:
				b.QuarantineIndex(o.key(), o.Flag())
				b.QuarantineService(o.service(), o.Flag())
			case 8:
				draw.One(o, func(p string) { b.Heard(p, o.Now) }, b.ProcDied)(o.who().Proc)
			case 9:
				for _, m := range b.Surplus(o.service()) {
					step(m.Key, m.Event)
				}
			case 10:
				out := draw.One(o, b.Converge, b.ConvergeAll)(o.Now)
				for _, m := range out.Moves {
					step(m.Key, m.Event)
				}
				for _, s := range out.Services {
					if err := CheckService(s); err != nil {
						t.Fatalf("seed %d: a rollout made %v", seed, err)
					}
					b.PutService(s)
				}
			default:
				step(o.key(), o.event())
			}
			looksWhole(t, seed, b)
		}
	}
}

// looksWhole compares the board's entries of its cell processes with all of its rows.
func looksWhole(t *testing.T, seed uint64, b *Board) {
	t.Helper()
	want := map[string]bool{}
	for _, k := range b.Keys() {
		for _, a := range b.Index(k).Rows() {
			for _, proc := range []string{a.Proc, a.Replaces.Proc} {
				want[fmt.Sprint(proc, " ", k)] = proc != ""
			}
		}
	}
	for _, proc := range b.Procs() {
		for _, k := range b.OnProc(proc) {
			if name := fmt.Sprint(proc, " ", k); !want[name] {
				t.Fatalf("seed %d: %s has no row", seed, name)
			}
			delete(want, fmt.Sprint(proc, " ", k))
		}
	}
	for name, there := range want {
		if there {
			t.Fatalf("seed %d: %s is not found", seed, name)
		}
	}
	if keys := b.Orphans(); !slices.IsSortedFunc(keys, Key.Compare) {
		t.Fatalf("seed %d: %v", seed, keys)
	}
}

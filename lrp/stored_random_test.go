package lrp

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"cantina/action"
)

// odd draws rows and services of which nothing is known but that Check and CheckService let them pass.
type odd struct {
	rng *rand.Rand
	now time.Time
}

func oneOf[T any](o *odd, xs ...T) T { return xs[o.rng.IntN(len(xs))] }

func (o *odd) flag() bool { return o.rng.IntN(3) == 0 }

func (o *odd) moment() time.Time {
	return oneOf(o, time.Time{}, time.Unix(0, 0), o.now, o.now.Add(-time.Hour), o.now.Add(time.Hour), o.now.Add(1<<62))
}

func (o *odd) who() Identity {
	return Identity{oneOf(o, "", "i1", "i2"), oneOf(o, "", "a", "b"), oneOf(o, "", "pa", "pb", "pb2")}
}

func (o *odd) key() Key {
	return Key{oneOf(o, "p1", "p2", "p3", "gone"), oneOf(o, 0, 1, 2, 3, 1<<40, -1)}
}

func (o *odd) service() ServiceKey { return ServiceKey{oneOf(o, "d", "e"), oneOf(o, "s", "t")} }

func (o *odd) net() Net {
	n := Net{Address: oneOf(o, "", "10.0.0.1"), Routable: !o.flag(), Stopping: o.flag(), StopBy: o.moment()}
	if o.flag() {
		n.Ports = []action.Mapping{{}}
	}
	return n
}

func (o *odd) row(k Key, is Presence) *Actual {
	if o.flag() {
		return nil
	}
	a := &Actual{Key: k, Presence: is, Service: o.service(), State: State(o.rng.IntN(4)), Since: o.moment(),
		Exclusive: o.flag(), CrashCount: oneOf(o, 0, 1, -1, 500), Unheard: o.flag()}
	if is != Ordinary {
		a.State, a.Expires = Running, o.moment()
	}
	if a.State == Claimed || a.State == Running {
		a.Identity, a.Retiring = o.who(), o.flag()
	}
	switch a.State {
	case Unclaimed:
		a.PlacementError, a.NotBefore = oneOf(o, "", "full"), oneOf(o, time.Time{}, time.Time{}, o.moment())
	case Running:
		a.Net = o.net()
		if o.flag() {
			a.Replaces = o.who()
		}
	case Crashed:
		a.Finished = o.flag()
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
		s := &Service{Key: o.service(), Instances: o.rng.IntN(4), Numbers: 3, Removed: o.rng.IntN(5) == 0,
			Phase: Phase(o.rng.IntN(4)), Progress: o.moment(),
			Healthy: oneOf(o, -1, 0, 1, 9), FailedVersion: oneOf(o, -1, 0, 1, 2)}
		for n := range 1 + o.rng.IntN(3) {
			low := o.rng.IntN(4)
			v := Version{Desired: Desired{Service: s.Key, Process: oneOf(o, "p1", "p2", "p3"), Instances: o.rng.IntN(4),
				Exclusive: o.flag(), Strategy: Strategy(o.rng.IntN(2)),
				OnReturn: OnReturn(o.rng.IntN(2)), ReplaceAfter: oneOf(o, 0, time.Minute)},
				Number: n + 1, Low: low, High: low + o.rng.IntN(4), Good: o.flag()}
			v.Rollout.KeepFailed = o.flag()
			s.Versions = append(s.Versions, v)
		}
		if CheckService(s) == nil {
			return s
		}
	}
}

func (o *odd) event() Event {
	who := o.who()
	return oneOf[Event](o, Create{}, Undesire{}, Retire{}, RestartCrashed{}, Resend{}, ExpireEvacuating{},
		PlacementFailed{"full"}, Claim{who}, Start{who, o.net(), o.service(), o.flag()}, Crash{who, "x", o.flag()},
		Remove{who}, Evacuate{who, o.net(), o.moment()}, EvacuateClaimed{who}, EvacuateStopped{who},
		EvacuateCrashed{who, "x", o.flag()}, RemoveEvacuating{who}, CellHealthy{who.Cell, who.Proc},
		CellUnhealthy{who.Cell, who.Proc}, CellUnheard{who.Cell, who.Proc},
		CellMustDie{who.Cell, who.Proc}, ProcDead{who.Proc},
		ProcMoved{who.Cell, who.Proc, "pb2"})
}

// TestNothingThatIsReadEndsTheLeader: whatever rows and services of the store Check and CheckService let pass, in
// whatever order, and whatever cells say: the board takes it, and what becomes of it is found by a look at all.
func TestNothingThatIsReadEndsTheLeader(t *testing.T) {
	for seed := range uint64(300) {
		o := &odd{rng: rand.New(rand.NewPCG(seed, 7)), now: t0}
		b := NewBoard(ConvergePolicy{})
		step := func(k Key, e Event) {
			env := b.Env(k, o.now)
			env.Eligible = !o.flag()
			x, _, err := Step(b.Index(k), e, env)
			if err == nil && Check(x) == nil {
				b.PutIndex(x)
			}
		}
		for range 60 {
			switch o.rng.IntN(12) {
			case 0, 1:
				b.PutService(o.rolling())
			case 2:
				b.LoadIndex(o.index())
			case 3:
				b.PutIndex(o.index())
			case 4:
				b.DeleteService(o.service())
			case 5:
				o.now = o.now.Add(oneOf(o, time.Second, time.Hour, -time.Minute))
			case 6:
				b.SetDomain(oneOf(o, "d", "e"), o.moment())
			case 7:
				b.QuarantineIndex(o.key(), o.flag())
				b.QuarantineService(o.service(), o.flag())
			case 8:
				oneOf(o, func(p string) { b.Heard(p, o.now) }, b.ProcDied)(o.who().Proc)
			case 9:
				for _, m := range b.Surplus(o.service()) {
					step(m.Key, m.Event)
				}
			case 10:
				out := oneOf(o, b.Converge, b.ConvergeAll)(o.now)
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

// looksWhole compares what the board has of its cell processes with all of its rows.
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

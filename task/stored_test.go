package task

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// odd draws tasks of which nothing is known but that Check lets them pass, and what cells say of them.
type odd struct {
	rng *rand.Rand
	now time.Time
}

func oneOf[T any](o *odd, xs ...T) T { return xs[o.rng.IntN(len(xs))] }

func (o *odd) flag() bool { return o.rng.IntN(3) == 0 }

func (o *odd) moment() time.Time {
	return oneOf(o, time.Time{}, time.Unix(0, 0), o.now, o.now.Add(-time.Hour), o.now.Add(time.Hour), o.now.Add(1<<62))
}

func (o *odd) holder() Holder { return Holder{oneOf(o, "", "a", "b"), oneOf(o, "", "pa", "pb")} }

func (o *odd) guid() string { return oneOf(o, "t1", "t2", "t3", "") }

func (o *odd) result() Result {
	return Result{Failed: o.flag(), Cancelled: o.flag(), Ordered: o.flag(),
		Output: []byte("x"), ExitCode: oneOf(o, 0, 1, -1)}
}

func (o *odd) task() *Task {
	for {
		t := &Task{GUID: o.guid(), UID: oneOf(o, "u1", "u2"), Domain: oneOf(o, "d", "e"), State: State(o.rng.IntN(4)),
			Outcome: Outcome(o.rng.IntN(5)), Holder: o.holder(), Reservation: oneOf(o, "", "r"), Result: o.result(),
			MayStillRun: o.flag(),
			Rejections:  oneOf(o, 0, 1, -1, 1<<40), Created: o.moment(), Updated: o.moment(), FirstCompleted: o.moment(),
			Verdict: oneOf(o, 0, 1, -1), Resolution: Resolution(o.rng.IntN(4)), Successor: o.guid()}
		t.Callback = Callback{Runs: oneOf(o, 0, 1, -1, 1<<40), Next: o.moment(), Delivered: o.flag(), Dead: o.flag()}
		t.Definition = &Definition{CallbackURL: oneOf(o, "", "http://localhost/"), WhenFull: WhenFull(o.rng.IntN(2)),
			OnLost: OnLost(o.rng.IntN(2)), PendingTimeout: oneOf(o, 0, time.Second)}
		if Check(t) == nil {
			return t
		}
	}
}

func (o *odd) event() Event {
	uid := oneOf(o, "u1", "u2", "")
	return oneOf[Event](o, Start{uid, o.holder(), oneOf(o, "r", ""), o.flag()}, Complete{uid, o.holder(), o.result()},
		Missing{uid, o.holder()}, Adopt{uid, oneOf(o, "pa", "pb", ""), o.holder()},
		Reject{uid, "full", o.flag(), o.flag(), o.holder()}, Cancel{}, Resolve{}, Delete{},
		ResolveLost{Resolution(o.rng.IntN(4)), o.guid()}, ProcDead{o.holder().Proc}, ExpirePending{},
		Kick{}, KickCallback{}, CallbackDone{uid, oneOf(o, 0, 1, -1), o.flag(), "x"}, Demote{}, Prune{})
}

// TestNothingThatIsReadEndsTheLeader: whatever tasks of the store Check lets pass, and whatever cells say: the board
// takes it, and what it keeps by cell process is what its tasks have.
func TestNothingThatIsReadEndsTheLeader(t *testing.T) {
	for seed := range uint64(300) {
		o := &odd{rng: rand.New(rand.NewPCG(seed, 5)), now: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)}
		b := NewBoard(Policy{KeepPerDomain: o.rng.IntN(3)})
		step := func(guid string, e Event) {
			before := b.Get(guid)
			env := Env{Now: o.now, Policy: b.Policy(), Eligible: !o.flag(), HolderDead: o.flag()}
			if before != nil {
				env.Over = b.SinceEnd(before, o.now)
			}
			after, _, err := Step(before, e, env)
			switch {
			case err != nil || after == before:
			case after == nil:
				b.Delete(guid)
			default:
				b.Put(after)
			}
		}
		for range 60 {
			switch o.rng.IntN(10) {
			case 0, 1:
				b.Load(o.task(), o.now)
			case 2:
				b.Put(o.task())
			case 3:
				b.Delete(o.guid())
			case 4:
				o.now = o.now.Add(oneOf(o, time.Second, time.Hour, -time.Minute, 24*time.Hour))
			case 5:
				b.Quarantine(o.guid(), o.flag())
			case 6:
				oneOf(o, b.Heard, b.ProcDied)(o.holder().Proc)
			case 7:
				for _, m := range oneOf(o, b.Converge, b.ConvergeAll)(o.now) {
					step(m.GUID, m.Event)
				}
			case 8:
				b.Sending(Delivery{o.guid(), "u1", oneOf(o, 0, 1)}, o.flag())
			default:
				step(o.guid(), o.event())
			}
			onProcs(t, seed, b)
		}
	}
}

// onProcs demands that each task that the board has by a cell process is one of its own.
func onProcs(t *testing.T, seed uint64, b *Board) {
	t.Helper()
	for _, proc := range b.Procs() {
		for _, guid := range b.OnProc(proc) {
			if x := b.Get(guid); x == nil || x.Holder.Proc != proc {
				t.Fatalf("seed %d: %s has %s by its rows, %+v", seed, proc, guid, x)
			}
		}
	}
	for _, guid := range b.GUIDs() {
		x := b.Get(guid)
		if x != nil && x.State == Running && !slices.Contains(b.OnProc(x.Holder.Proc), guid) {
			t.Fatalf("seed %d: %s is not found by its process", seed, guid)
		}
	}
}

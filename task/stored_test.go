package task

import (
	"slices"
	"testing"
	"time"

	"cantina/internal/draw"
)

// odd draws tasks with any content that Check accepts, and reports of cells on them.
type odd struct{ draw.Source }

func (o *odd) holder() Holder { return Holder{draw.One(o, "", "a", "b"), draw.One(o, "", "pa", "pb")} }

func (o *odd) guid() string { return draw.One(o, "t1", "t2", "t3", "") }

func (o *odd) result() Result {
	return Result{Failed: o.Flag(), Cancelled: o.Flag(), Ordered: o.Flag(), Lost: o.Flag(),
		Output: []byte("x"), ExitCode: draw.One(o, 0, 1, -1)}
}

func (o *odd) task() *Task {
	for {
		t := &Task{GUID: o.guid(), UID: draw.One(o, "u1", "u2"), Domain: draw.One(o, "d", "e"), State: State(o.IntN(4)),
			Outcome: Outcome(o.IntN(5)), Holder: o.holder(), Reservation: draw.One(o, "", "r"), Result: o.result(),
			MayStillRun: o.Flag(),
			Rejections:  draw.One(o, 0, 1, -1, 1<<40), Created: o.Moment(), Updated: o.Moment(), FirstCompleted: o.Moment(),
			Verdict: draw.One(o, 0, 1, -1), Resolution: Resolution(o.IntN(4)), Successor: o.guid()}
		t.Callback = Callback{Runs: draw.One(o, 0, 1, -1, 1<<40), Next: o.Moment(), Delivered: o.Flag(), Dead: o.Flag()}
		t.Definition = &Definition{CallbackURL: draw.One(o, "", "http://localhost/"), WhenFull: WhenFull(o.IntN(2)),
			OnLost: OnLost(o.IntN(2)), PendingTimeout: draw.One(o, 0, time.Second)}
		if Check(t) == nil {
			return t
		}
	}
}

func (o *odd) event() Event {
	uid := draw.One(o, "u1", "u2", "")
	return draw.One[Event](o, Start{uid, o.holder(), draw.One(o, "r", ""), o.Flag()},
		Complete{uid, o.holder(), o.result()},
		Missing{uid, o.holder()}, Adopt{uid, draw.One(o, "pa", "pb", ""), o.holder()},
		Reject{uid, "full", o.Flag(), o.Flag(), o.holder()}, Cancel{}, Resolve{}, Delete{},
		ResolveLost{Resolution(o.IntN(4)), o.guid(), o.Flag()}, Found{uid, o.holder(), o.Flag()},
		ProcDead{o.holder().Proc}, ExpirePending{}, Kick{}, KickCallback{},
		CallbackDone{uid, draw.One(o, 0, 1, -1), o.Flag(), "x"},
		Demote{}, Prune{})
}

// TestStoredRowsNeverEndTheLeader: the board takes any tasks that Check accepts, and any reports of cells. Its
// entries by cell process equal those of its tasks.
func TestStoredRowsNeverEndTheLeader(t *testing.T) {
	for seed := range uint64(300) {
		o := &odd{draw.From(seed, 5, time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))}
		b := NewBoard(Policy{KeepPerDomain: o.IntN(3)})
		step := func(guid string, e Event) {
			before := b.Get(guid)
			env := Env{Now: o.Now, Policy: b.Policy(), Eligible: !o.Flag(), HolderDead: o.Flag()}
			if before != nil {
				env.Over = b.SinceEnd(before, o.Now)
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
			switch o.IntN(10) {
			case 0, 1:
				b.Load(o.task(), o.Now, o.Flag())
			case 2:
				b.Put(o.task())
			case 3:
				b.Delete(o.guid())
			case 4:
				o.Now = o.Now.Add(draw.One(o, time.Second, time.Hour, -time.Minute, 24*time.Hour))
			case 5:
				b.Quarantine(o.guid(), o.Flag())
			case 6:
				draw.One(o, b.Heard, b.ProcDied)(o.holder().Proc)
			case 7:
				for _, m := range draw.One(o, b.Converge, b.ConvergeAll)(o.Now) {
					step(m.GUID, m.Event)
				}
			case 8:
				b.Sending(Delivery{o.guid(), "u1", draw.One(o, 0, 1)}, o.Flag())
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

package lrp

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// world is a board with a leader's loop around it and cells that obey its calls.
type world struct {
	t       testing.TB
	b       *Board
	now     time.Time
	guids   int
	effects []Effect
}

func newWorld(t testing.TB) *world {
	w := &world{t: t, b: NewBoard(ConvergePolicy{}), now: t0}
	w.b.SetDomain("d", time.Time{})
	return w
}

func (w *world) apply(d Desired) {
	w.t.Helper()
	d.Service = svc
	w.guids++
	s, err := Apply(w.b.Service(svc), d, fmt.Sprintf("p%d", w.guids), w.now)
	if err != nil {
		w.t.Fatal(err)
	}
	w.put(s)
}

func (w *world) put(s *Service) {
	w.t.Helper()
	if err := CheckService(s); err != nil {
		w.t.Fatal(err)
	}
	w.b.PutService(s)
	for _, m := range w.b.Surplus(s.Key) {
		w.step(m.Key, m.Event)
	}
}

func (w *world) step(k Key, e Event) error {
	env := w.b.Env(k, w.now)
	env.Eligible = true
	x, effects, err := Step(w.b.Index(k), e, env)
	if err != nil {
		return err
	}
	if err := Check(x); err != nil {
		w.t.Fatalf("%T: %v", e, err)
	}
	w.effects = append(w.effects, effects...)
	w.b.PutIndex(x)
	return nil
}

// quiesce converges until there is nothing to do and returns the number of moves made.
func (w *world) quiesce() int {
	w.t.Helper()
	n := 0
	for range 1000 {
		out := w.b.Converge(w.now)
		if out.Empty() {
			return n
		}
		n += len(out.Moves) + len(out.Services) + len(out.Gone)
		for _, s := range out.Services {
			w.put(s)
		}
		for _, k := range out.Gone {
			w.b.DeleteService(k)
		}
		for _, m := range out.Moves {
			if err := w.step(m.Key, m.Event); err != nil {
				w.t.Fatalf("move %T of %v: %v", m.Event, m.Key, err)
			}
		}
	}
	w.t.Fatal("convergence does not end")
	return 0
}

// serve makes cells fulfil the effects so far: start requested instances, and stop those to be stopped. Broken
// processes crash instead of starting.
func (w *world) serve(broken map[string]bool) {
	for len(w.effects) > 0 {
		effects := w.effects
		w.effects = nil
		for _, e := range effects {
			switch e := e.(type) {
			case RequestAuction:
				w.guids++
				who := Identity{fmt.Sprintf("i%d", w.guids), "alpha", "pa"}
				if w.step(e.Key, Claim{By: who}) != nil {
					continue
				}
				if broken[e.Key.Process] {
					_ = w.step(e.Key, Crash{By: who, Reason: "no database"})
				} else {
					_ = w.step(e.Key, Start{By: who, Net: netA, Service: svc})
				}
			case StopInstance:
				_ = w.step(e.Key, Remove{By: e.Who})
			}
		}
		w.quiesce()
	}
}

func (w *world) running(process string) (out []int) {
	for _, k := range w.b.Keys() {
		if a := w.b.Index(k).Ordinary; k.Process == process && a != nil && a.State == Running {
			out = append(out, k.Index)
		}
	}
	return out
}

func TestMissingAndExtraAreIndexSets(t *testing.T) {
	w := newWorld(t)
	w.apply(Desired{Instances: 2})
	w.b.PutIndex(Index{Key: Key{"p1", 1}, Ordinary: &Actual{Key: Key{"p1", 1}, State: Running, Identity: alpha,
		Since: t0}})
	w.b.PutIndex(Index{Key: Key{"p1", 2}, Ordinary: &Actual{Key: Key{"p1", 2}, State: Running, Identity: omega,
		Since: t0}})
	out := w.b.Converge(w.now)
	want := []Move{{Key{"p1", 0}, Create{}}, {Key{"p1", 2}, Undesire{}}}
	if len(out.Moves) != 2 || out.Moves[0] != want[0] || out.Moves[1] != want[1] {
		t.Fatalf("{1,2} of 2: %v", out.Moves)
	}
}

func TestExtraIsStoppedOnlyInAFreshDomain(t *testing.T) {
	w := newWorld(t)
	w.b.SetDomain("d", w.now) // expired
	orphan := Index{Key: Key{"gone", 0}, Ordinary: &Actual{Key: Key{"gone", 0}, Service: svc, State: Running,
		Identity: alpha, Since: t0}}
	w.b.PutIndex(orphan)
	if n := w.quiesce(); n != 0 {
		t.Fatalf("%d moves in a stale domain", n)
	}
	if o := w.b.Orphans(); len(o) != 1 || o[0] != orphan.Key {
		t.Fatalf("orphans: %v", o)
	}
	w.b.SetDomain("d", time.Time{})
	if n := w.quiesce(); n != 1 || !w.b.Index(orphan.Key).Ordinary.Retiring {
		t.Fatalf("fresh: %d moves", n)
	}
}

func TestScaleDownActsAtOnceAlsoInAStaleDomain(t *testing.T) {
	w := newWorld(t)
	w.apply(Desired{Instances: 3})
	w.quiesce()
	w.serve(nil)
	w.b.SetDomain("d", w.now.Add(-time.Second))
	w.put(w.b.Service(svc).Scale(1))
	w.serve(nil)
	if got := fmt.Sprint(w.running("p1")); got != "[0]" {
		t.Fatalf("running %s", got)
	}
	w.put(w.b.Service(svc).Remove())
	w.serve(nil)
	w.quiesce()
	if w.b.Service(svc) != nil || len(w.b.Keys()) != 0 {
		t.Fatalf("left: %v %v", w.b.Service(svc), w.b.Keys())
	}
}

func TestQuarantinedRowsAreLeftAlone(t *testing.T) {
	w := newWorld(t)
	w.b.QuarantineIndex(Key{"p1", 1}, true)
	w.apply(Desired{Instances: 3})
	w.quiesce()
	w.serve(nil)
	if got := fmt.Sprint(w.running("p1")); got != "[0 2]" {
		t.Fatalf("running %s", got)
	}
	w.b.QuarantineIndex(Key{"p1", 1}, false)
	w.quiesce()
	w.serve(nil)
	if got := fmt.Sprint(w.running("p1")); got != "[0 1 2]" {
		t.Fatalf("dropped: running %s", got)
	}
	// The row of the service goes bad: its instances are no orphans.
	w.b.QuarantineService(svc, true)
	w.b.DeleteService(svc)
	if n := w.quiesce(); n != 0 || len(w.b.Orphans()) != 0 {
		t.Fatalf("%d moves, orphans %v", n, w.b.Orphans())
	}
}

// TestARemovedServiceStaysForUnreadableRows: an instance with an unreadable row may run. Until that is resolved,
// its service and its version stay known. A later version of the same name thus knows the instances that it must
// wait for.
func TestARemovedServiceStaysForUnreadableRows(t *testing.T) {
	w := newWorld(t)
	w.b.QuarantineIndex(Key{"p1", 0}, true)
	w.apply(Desired{Instances: 1, Exclusive: true})
	w.quiesce()
	s := *w.b.Service(svc)
	s.Removed = true
	w.b.PutService(&s)
	w.quiesce()
	if w.b.Service(svc) == nil || w.b.Top("p1") != 1 {
		t.Fatal("forgotten while an instance may run")
	}
	w.b.QuarantineIndex(Key{"p1", 0}, false) // dropped
	w.quiesce()
	if w.b.Service(svc) != nil {
		t.Fatal("a removed service without instances stays")
	}
}

func TestRequestsWithoutEffectAreRepeated(t *testing.T) {
	w := newWorld(t)
	w.apply(Desired{Instances: 1})
	w.quiesce()
	w.effects = nil // lost
	for range 3 {
		w.now = w.now.Add(29 * time.Second)
		if n := w.quiesce(); n != 0 {
			t.Fatalf("%d moves after 29 s", n)
		}
		_ = w.step(key0, PlacementFailed{fmt.Sprint("full ", w.now)}) // does not hurry it
		w.now = w.now.Add(time.Second)
		if n := w.quiesce(); n != 1 || !has(w.effects, RequestAuction{key0}) {
			t.Fatalf("%d moves after 30 s: %v", n, w.effects)
		}
		w.effects = nil
	}
	w.effects = []Effect{RequestAuction{key0}}
	w.serve(nil)
	_ = w.step(key0, Retire{})
	w.effects = nil // lost
	w.quiesce()
	w.now = w.now.Add(30 * time.Second)
	if w.quiesce(); len(w.effects) != 1 {
		t.Fatalf("stop not repeated: %v", w.effects)
	}
}

func TestLoadedRowsAreAskedForAtOnce(t *testing.T) {
	w := newWorld(t)
	w.apply(Desired{Instances: 2})
	w.b.LoadIndex(Index{Key: key0, Ordinary: &Actual{Key: key0, State: Unclaimed, Since: w.now}})
	k1 := Key{"p1", 1}
	w.b.LoadIndex(Index{Key: k1, Ordinary: &Actual{Key: k1, State: Running, Identity: alpha, Since: w.now,
		Retiring: true}})
	w.quiesce()
	if !has(w.effects, RequestAuction{key0}) || !has(w.effects, StopInstance{k1, alpha}) {
		t.Fatalf("%v", w.effects)
	}
}

func TestDeadProcessesAreReaped(t *testing.T) {
	w := newWorld(t)
	w.apply(Desired{Instances: 2})
	w.quiesce()
	w.serve(nil)
	w.b.ProcDied("pa")
	w.quiesce()
	for i := range 2 {
		if a := w.b.Index(Key{"p1", i}).Ordinary; a.State != Unclaimed {
			t.Errorf("index %d: %v", i, a.State)
		}
	}
	if w.b.OnProc("pa") != nil && len(w.b.OnProc("pa")) != 0 {
		t.Errorf("still on it: %v", w.b.OnProc("pa"))
	}
}

func TestCrashedAreRestartedWhenDue(t *testing.T) {
	w := newWorld(t)
	w.apply(Desired{Instances: 1})
	w.b.PutIndex(Index{Key: key0, Ordinary: &Actual{Key: key0, Service: svc, State: Crashed, CrashCount: 3, Since: w.now}})
	w.quiesce()
	at, ok := w.b.NextDue()
	if !ok || !at.Equal(w.now.Add(30*time.Second)) {
		t.Fatalf("due %v %v", at, ok)
	}
	w.now = at
	if w.quiesce(); w.b.Index(key0).Ordinary.State != Unclaimed {
		t.Fatal("not restarted")
	}
}

func TestEvacuatingRowsExpire(t *testing.T) {
	w := newWorld(t)
	w.apply(Desired{Instances: 1})
	w.quiesce()
	w.serve(nil)
	who := w.b.Index(key0).Ordinary.Identity
	_ = w.step(key0, Evacuate{By: who, Net: netA, Until: w.now.Add(time.Minute)})
	w.effects = nil
	w.quiesce()
	w.now = w.now.Add(59 * time.Second)
	if w.quiesce(); w.b.Index(key0).Evacuating == nil {
		t.Fatal("gone early")
	}
	w.now = w.now.Add(time.Second)
	if w.quiesce(); w.b.Index(key0).Evacuating != nil {
		t.Fatal("still there")
	}
}

// TestConvergenceIsIdempotentAndMissesNothing: after any history, incremental
// passes leave nothing that a full pass would find, and a second pass is empty.
func TestConvergenceIsIdempotentAndMissesNothing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t)
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			switch rapid.IntRange(0, 6).Draw(rt, "what") {
			case 0:
				w.apply(Desired{Instances: rapid.IntRange(0, 4).Draw(rt, "n"),
					Stack:     rapid.SampledFrom([]string{"", "a", "b"}).Draw(rt, "version"),
					Exclusive: rapid.Bool().Draw(rt, "exclusive"),
					Rollout:   RolloutPolicy{Batch: 1, ProgressDeadline: 2 * time.Minute}})
			case 1:
				if s := w.b.Service(svc); s != nil && !s.Removed {
					w.put(s.Scale(rapid.IntRange(0, 4).Draw(rt, "n")))
				}
			case 2:
				if s := w.b.Service(svc); s != nil {
					w.put(s.Remove())
				}
			case 3:
				w.now = w.now.Add(time.Duration(rapid.IntRange(0, 400).Draw(rt, "seconds")) * time.Second)
			case 4:
				w.b.SetDomain("d", w.now.Add(time.Duration(rapid.IntRange(-1, 100).Draw(rt, "fresh"))*time.Second))
			default:
				if keys := w.b.Keys(); len(keys) > 0 {
					k := rapid.SampledFrom(keys).Draw(rt, "key")
					_ = w.step(k, drawEvent(rt, w.now, false))
				}
			}
			w.quiesce()
			if rapid.Bool().Draw(rt, "serve") {
				w.serve(nil)
			}
			w.effects = nil
			if out := w.b.Converge(w.now); !out.Empty() {
				rt.Fatalf("second pass: %+v", out)
			}
			if out := w.b.ConvergeAll(w.now); !out.Empty() {
				rt.Fatalf("full pass finds more than the incremental one: %s, was %+v", showOut(out), w.b.Service(svc))
			}
		}
		finishWell(rt, w)
	})
}

// finishWell: once faults stop, actual equals desired (I14).
func finishWell(rt *rapid.T, w *world) {
	w.b.SetDomain("d", time.Time{})
	for _, k := range w.b.Keys() { // cells find rows without containers
		for _, a := range w.b.Index(k).Rows() {
			if a.Instance != "" {
				_ = w.step(k, Remove{By: a.Identity})
			}
		}
	}
	for range 60 {
		w.now = w.now.Add(20 * time.Minute)
		w.quiesce()
		w.serve(nil)
	}
	s := w.b.Service(svc)
	want := 0
	if s != nil {
		want = s.Instances
		if s.Removed || s.Phase != Steady || len(s.Versions) != 1 {
			rt.Fatalf("service not steady: %+v", s)
		}
	}
	if got := len(w.b.Keys()); got != want {
		rt.Fatalf("%d indices, want %d", got, want)
	}
	for _, k := range w.b.Keys() {
		if x := w.b.Index(k); x.Ordinary == nil || x.Ordinary.State != Running || x.Evacuating != nil || x.Suspect != nil {
			rt.Fatalf("%v: %s", k, show(x))
		}
	}
}

func TestAppliedUnchangedChangesNothing(t *testing.T) {
	w := newWorld(t)
	w.apply(Desired{Instances: 2, Routes: map[string]string{"r": "1"}})
	s := w.b.Service(svc)
	if same, err := Apply(s, Desired{Service: svc, Instances: 2, Routes: map[string]string{"r": "1"}}, "x",
		w.now); err != nil || same != s {
		t.Fatalf("%v %+v", err, same)
	}
	c, err := Apply(s, Desired{Service: svc, Instances: 3, Annotation: "note"}, "x", w.now)
	if err != nil || len(c.Versions) != 1 || c.Target().Process != "p1" || c.Target().Annotation != "note" ||
		c.Instances != 3 {
		t.Fatalf("%v %+v", err, c)
	}
}

func showOut(o Outcome) string {
	s := fmt.Sprint(o.Moves, o.Gone)
	for _, v := range o.Services {
		s += fmt.Sprintf(" %+v", *v)
	}
	return s
}

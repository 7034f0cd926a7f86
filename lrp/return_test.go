package lrp

import (
	"errors"
	"testing"
	"time"
)

// replacedBy returns an index whose suspect instance on alpha was replaced by one on omega.
func replacedBy(t *testing.T, env Env) Index {
	t.Helper()
	x := Index{Key: key0, Ordinary: rowOf(t, "RUNNING self")}
	for _, e := range []Event{CellUnhealthy{"alpha", "pa"}, Claim{By: omega}, Start{By: omega, Net: netA, Service: svc}} {
		var err error
		if x, _, err = Step(x, e, env); err != nil || Check(x) != nil {
			t.Fatalf("%T: %v, %v", e, err, Check(x))
		}
	}
	return x
}

// TestTheKeptCopy: the cell of a replaced instance is back. The old instance stays if it is ready for traffic and
// its cell may get work; the new one stays where the service requires it.
func TestTheKeptCopy(t *testing.T) {
	env := wantedEnv()
	x := replacedBy(t, env)
	if len(x.Rows()) != 1 || !x.Ordinary.Is(omega) || !x.Ordinary.replaced(alpha) {
		t.Fatalf("replaced: %s", show(x))
	}
	slow := netA
	slow.Routable = false
	for name, c := range map[string]struct {
		v    View
		call Call
		then Fate
	}{
		"ready":              {View{Container: Up, Net: &netA}, CallStart, Leave},
		"not ready":          {View{Container: Up, Net: &slow}, NoCall, DeleteContainer},
		"crashed meanwhile":  {View{Container: CompletedCrashed}, NoCall, DeleteContainer},
		"ended meanwhile":    {View{Container: CompletedShutdown}, NoCall, DeleteContainer},
		"not running at all": {View{Container: Starting}, NoCall, DeleteContainer},
	} {
		c.v.Self, c.v.Rows = alpha, x
		if a := Harmonise(c.v); a.Call != c.call || a.Then != c.then {
			t.Errorf("%s: %v %v", name, a.Call, a.Then)
		}
	}
	if a := HarmoniseEvacuating(View{Container: Up, Net: &netA, Self: alpha, Rows: x}); a.Call != NoCall ||
		a.Then != DeleteContainer {
		t.Errorf("back on a cell that is being emptied: %v %v", a.Call, a.Then)
	}
	moved := alpha
	moved.Proc = "later" // of the cell's next session
	back, effects, err := Step(x, Start{By: moved, Net: netA, Service: svc}, env)
	if err != nil || Check(back) != nil || !back.Ordinary.Is(alpha) || back.Ordinary.Proc != "later" ||
		len(back.Rows()) != 1 || !has(effects, StopInstance{key0, omega}) {
		t.Errorf("the old one stays: %s %v %v", show(back), effects, err)
	}
	for name, c := range map[string]struct {
		e    Event
		env  func(*Env)
		want error
	}{
		"not ready":                 {Start{By: alpha, Net: slow}, func(*Env) {}, ErrCannotBeStarted},
		"another instance":          {Start{By: Identity{"ix", "alpha", "pa"}, Net: netA}, func(*Env) {}, ErrCannotBeStarted},
		"its cell may be cut again": {Start{By: alpha, Net: netA}, func(e *Env) { e.Eligible = false }, ErrNotEligible},
	} {
		env := wantedEnv()
		c.env(&env)
		if after, _, err := Step(x, c.e, env); !errors.Is(err, c.want) || after != x {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, e := range map[string]Event{"given up": CellMustDie{"alpha", "pa"}, "certainly dead": ProcDead{"pa"}} {
		gone, _, err := Step(x, e, env)
		if err != nil || gone.Ordinary.replaced(alpha) || !gone.Ordinary.Is(omega) {
			t.Errorf("its cell is %s: %s %v", name, show(gone), err)
		}
		if a := Harmonise(View{Container: Up, Net: &netA, Self: alpha, Rows: gone}); a.Call != NoCall ||
			a.Then != DeleteContainer {
			t.Errorf("back after its cell was %s: %v %v", name, a.Call, a.Then)
		}
	}
	if y, _, _ := Step(x, ProcMoved{Cell: "alpha", From: "pa", To: "later"}, env); y.Ordinary.Replaces.Proc != "later" ||
		!y.Ordinary.Is(omega) {
		t.Errorf("its cell has another process: %s", show(y))
	}
	b := NewBoard(ConvergePolicy{})
	b.PutIndex(x)
	if on := b.OnProc("pa"); len(on) != 1 {
		t.Errorf("it would get no report of the end of the process: %v", on)
	}
	b.PutIndex(Index{Key: key0})
	if on := b.Procs(); len(on) != 0 {
		t.Errorf("left: %v", on)
	}
	env.Desired.OnReturn = ReturnNew
	y := replacedBy(t, env)
	if y.Ordinary.Replaces != (Identity{}) {
		t.Errorf("the new one stays: %s", show(y))
	}
	if _, _, err := Step(y, Start{By: alpha, Net: netA}, env); !errors.Is(err, ErrCannotBeStarted) {
		t.Errorf("the new one stays: %v", err)
	}
	sick := Index{Key: key0, Ordinary: rowOf(t, "CLAIMED other"), Suspect: suspectOf("self")}
	sick.Suspect.Net.Routable = false
	if z, effects, _ := Step(sick, Start{By: omega, Net: netA}, wantedEnv()); z.Ordinary.Replaces != (Identity{}) ||
		!has(effects, StopInstance{key0, alpha}) {
		t.Errorf("the old one was not ready when its cell fell silent: %s %v", show(z), effects)
	}
}

// TestReplaceAfter: a suspect instance is waited for as long as the service requires, also by a new leader, and not
// longer than its cell.
func TestReplaceAfter(t *testing.T) {
	w := newWorld(t)
	d := Desired{Instances: 1, Workload: checked(), ReplaceAfter: time.Minute}
	w.apply(d)
	w.quiesce()
	w.serve(nil)
	key := w.b.Keys()[0]
	who := w.b.Index(key).Ordinary.Identity
	silent, effects, err := Step(w.b.Index(key), CellUnhealthy{who.Cell, who.Proc}, w.b.Env(key, w.now))
	if err != nil || Check(silent) != nil || !silent.Suspect.Is(who) || len(effects) != 0 ||
		!silent.Ordinary.NotBefore.Equal(w.now.Add(time.Minute)) {
		t.Fatalf("%s %v %v", show(silent), effects, err)
	}
	if r := silent.Resolved(); r != silent.Suspect {
		t.Errorf("readers see %+v", r)
	}
	asks := func(b *Board, at time.Time) bool {
		for _, m := range b.Converge(at).Moves {
			if _, effects, _ := Step(b.Index(m.Key), m.Event, b.Env(m.Key, at)); has(effects, RequestAuction{key}) {
				return true
			}
		}
		return false
	}
	next := NewBoard(ConvergePolicy{})
	next.SetDomain("d", time.Time{})
	next.PutService(w.b.Service(svc))
	next.LoadIndex(silent)
	w.b.PutIndex(silent)
	for name, b := range map[string]*Board{"the same leader": w.b, "the next one": next} {
		if asks(b, w.now) || asks(b, w.now.Add(59*time.Second)) {
			t.Errorf("%s does not wait", name)
		}
		if due, ok := b.NextDue(); !ok || due.After(w.now.Add(time.Minute)) {
			t.Errorf("%s looks again at %v (%v)", name, due, ok)
		}
		if !asks(b, w.now.Add(time.Minute)) {
			t.Errorf("%s waits for ever", name)
		}
		if asks(b, w.now.Add(time.Minute+time.Second)) {
			t.Errorf("%s asks without end", name)
		}
	}
	env := w.b.Env(key, w.now)
	for name, e := range map[string]Event{"given up": CellMustDie{who.Cell, who.Proc}, "crashed": Crash{By: who},
		"stopped": Remove{By: who}} {
		after, effects, err := Step(silent, e, env)
		if err != nil || Check(after) != nil || after.Suspect != nil || !after.Ordinary.NotBefore.IsZero() ||
			!has(effects, RequestAuction{key}) {
			t.Errorf("%s: %s %v %v", name, show(after), effects, err)
		}
	}
	if back, effects, err := Step(silent, CellHealthy{who.Cell, who.Proc}, env); err != nil || Check(back) != nil ||
		!back.Ordinary.Is(who) || !has(effects, WithdrawAuction{key}) {
		t.Errorf("back: %s %v %v", show(back), effects, err)
	}
}

package lrp

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestAllowedTransitions is the table of the permitted changes of an ordinary row, by instance. The words are those
// of the test tables; "refused" is an error that changes nothing.
func TestAllowedTransitions(t *testing.T) {
	claim, start := Event(Claim{By: alpha}), Event(Start{By: alpha, Net: netA, Service: svc})
	crash, remove := Event(Crash{By: alpha, Reason: "r"}), Event(Remove{By: alpha})
	for _, c := range []struct {
		from  string
		event Event
		to    string
	}{
		{"none", claim, "refused"},
		{"none", start, "RUNNING self"},
		{"none", crash, "UNCLAIMED"},
		{"none", remove, "refused"},
		{"none", Create{}, "UNCLAIMED"},
		{"none", Retire{}, "refused"},
		{"none", PlacementFailed{"full"}, "refused"},
		{"UNCLAIMED", claim, "CLAIMED self"},
		{"UNCLAIMED", start, "RUNNING self"},
		{"UNCLAIMED", crash, "refused"},
		{"UNCLAIMED", remove, "refused"},
		{"UNCLAIMED", Create{}, "UNCLAIMED"},
		{"UNCLAIMED", PlacementFailed{"full"}, "UNCLAIMED+error"},
		{"UNCLAIMED+error", claim, "CLAIMED self"},
		{"UNCLAIMED+error", start, "RUNNING self"},
		{"CLAIMED self", claim, "CLAIMED self"},
		{"CLAIMED self", start, "RUNNING self"},
		{"CLAIMED self", crash, "UNCLAIMED"},
		{"CLAIMED self", remove, "UNCLAIMED"},
		{"CLAIMED self", PlacementFailed{"full"}, "refused"},
		{"CLAIMED self", CellUnhealthy{"alpha", "pa"}, "UNCLAIMED"},
		{"CLAIMED self", CellMustDie{"alpha", "pa"}, "UNCLAIMED"},
		{"CLAIMED self", ProcDead{"pa"}, "UNCLAIMED"},
		{"CLAIMED self", ProcDead{"po"}, "CLAIMED self"},
		{"CLAIMED other", claim, "refused"},
		{"CLAIMED other", start, "RUNNING self"},
		{"CLAIMED other", crash, "refused"},
		{"CLAIMED other", remove, "refused"},
		{"CLAIMED other", Event(EvacuateClaimed{By: alpha}), "refused"},
		{"RUNNING self", claim, "CLAIMED self"},
		{"RUNNING self", start, "RUNNING self"},
		{"RUNNING self", crash, "UNCLAIMED"},
		{"RUNNING self", remove, "UNCLAIMED"},
		{"RUNNING self", PlacementFailed{"full"}, "refused"},
		{"RUNNING self", CellMustDie{"alpha", "pa"}, "UNCLAIMED"},
		{"RUNNING self", CellHealthy{"alpha", "pa"}, "RUNNING self"},
		{"RUNNING other", claim, "refused"},
		{"RUNNING other", start, "refused"},
		{"RUNNING other", crash, "refused"},
		{"RUNNING other", remove, "refused"},
		{"CRASHED", claim, "refused"},
		{"CRASHED", start, "RUNNING self"},
		{"CRASHED", crash, "refused"},
		{"CRASHED", remove, "refused"},
		{"CRASHED", Retire{}, "UNCLAIMED"},
		{"CRASHED", RestartCrashed{}, "CRASHED"}, // not due yet
	} {
		x := Index{Key: key0, Ordinary: rowOf(t, c.from)}
		after, effects, err := Step(x, c.event, wantedEnv())
		got := words(after.Ordinary)
		if err != nil {
			if after != x || effects != nil {
				t.Errorf("%s, %T: an error that changes something", c.from, c.event)
			}
			got = "refused"
		}
		if got != c.to {
			t.Errorf("%s, %T: %s, want %s (%v)", c.from, c.event, got, c.to, err)
		}
		if got == "UNCLAIMED" && c.from != "UNCLAIMED" && !has(effects, RequestAuction{key0}) {
			t.Errorf("%s, %T: no auction requested: %v", c.from, c.event, effects)
		}
		if err := Check(after); err != nil {
			t.Errorf("%s, %T: %v", c.from, c.event, err)
		}
	}
}

// words describes an ordinary row in the words of rowOf.
func words(a *Actual) string {
	switch {
	case a == nil:
		return "none"
	case a.PlacementError != "":
		return a.State.String() + "+error"
	case a.Is(alpha):
		return a.State.String() + " self"
	case a.Instance != "":
		return a.State.String() + " other"
	}
	return a.State.String()
}

func TestClaimNeedsAnEligibleCellAndAWantedIndex(t *testing.T) {
	x := Index{Key: key0, Ordinary: rowOf(t, "UNCLAIMED")}
	env := wantedEnv()
	env.Eligible = false
	if _, _, err := Step(x, Claim{By: alpha}, env); !errors.Is(err, ErrNotEligible) {
		t.Errorf("not eligible: %v", err)
	}
	env = wantedEnv()
	env.Wanted = false
	if _, _, err := Step(x, Claim{By: alpha}, env); !errors.Is(err, ErrCannotBeClaimed) {
		t.Errorf("not wanted: %v", err)
	}
	env = wantedEnv()
	env.Desired = nil
	if _, _, err := Step(x, Claim{By: alpha}, env); !errors.Is(err, ErrCannotBeClaimed) {
		t.Errorf("no definition: %v", err)
	}
}

func TestHeartbeatOfAnUnchangedInstanceWritesNothing(t *testing.T) {
	x := Index{Key: key0, Ordinary: rowOf(t, "RUNNING self")}
	after, effects, err := Step(x, Start{By: alpha, Net: netA}, wantedEnv())
	if err != nil || after != x || effects != nil {
		t.Fatalf("%v %v", err, effects)
	}
}

// TestUnheard: a cell does not come back after a leader change. Its instance becomes suspect and gets no traffic,
// until the cell is HEALTHY, or reports it. An exclusive instance waits.
func TestUnheard(t *testing.T) {
	x := Index{Key: key0, Ordinary: rowOf(t, "RUNNING self")}
	env := wantedEnv()
	silent, effects, err := Step(x, CellUnheard{"alpha", "pa"}, env)
	if err != nil || !silent.Suspect.Is(alpha) || words(silent.Ordinary) != "UNCLAIMED" ||
		!has(effects, RequestAuction{key0}) {
		t.Fatalf("%+v %v %v", silent, effects, err)
	}
	if r := silent.Resolved(); r != silent.Suspect || r.Serves() || !r.Net.Routable {
		t.Errorf("readers see %+v", r)
	}
	if again, effects, _ := Step(silent, CellUnheard{"alpha", "pa"}, env); again != silent || effects != nil {
		t.Errorf("again: %+v %v", again, effects)
	}
	claimed, _, _ := Step(silent, Claim{By: omega}, env)
	notReady := netA
	notReady.Routable = false
	running, _, _ := Step(claimed, Start{By: omega, Net: notReady}, env)
	if running.Suspect != nil {
		t.Errorf("a copy that runs takes the place of an unreachable one: %+v", running)
	}
	for name, before := range map[string]Index{"before the claim": silent, "while it starts": claimed} {
		back, _, _ := Step(before, CellHealthy{"alpha", "pa"}, env)
		if words(back.Ordinary) != "RUNNING self" || back.Suspect != nil || !back.Ordinary.Serves() {
			t.Errorf("back %s: %+v", name, back)
		}
	}
	spoke, _, err := Step(silent, Start{By: alpha, Net: netA}, env)
	if err != nil || spoke.Suspect == nil || !spoke.Suspect.Serves() {
		t.Errorf("it speaks: %+v %v", spoke, err)
	}
	if a := Harmonise(View{Container: Up, Self: alpha, Net: &netA, Rows: silent}); a.Call != CallStart || a.Then != Leave {
		t.Errorf("its cell reports it as running: %+v", a)
	}
	if starting, _, _ := Step(Index{Key: key0, Ordinary: rowOf(t, "CLAIMED self")}, CellUnheard{"alpha", "pa"},
		env); words(starting.Ordinary) != "UNCLAIMED" || starting.Suspect != nil {
		t.Errorf("claimed: %+v", starting)
	}
	evacuating := Index{Key: key0, Evacuating: rowOf(t, "RUNNING self")}
	evacuating.Evacuating.Presence = Evacuating
	if silent, _, _ := Step(evacuating, CellUnheard{"alpha", "pa"}, env); silent.Evacuating == nil ||
		silent.Evacuating.Serves() {
		t.Errorf("evacuating: %+v", silent)
	}
	env.Desired.Exclusive = true
	if same, effects, _ := Step(x, CellUnheard{"alpha", "pa"}, env); same != x || effects != nil {
		t.Errorf("exclusive: %+v %v", same, effects)
	}
}

func TestSuspect(t *testing.T) {
	x := Index{Key: key0, Ordinary: rowOf(t, "RUNNING self")}
	env := wantedEnv()
	suspect, effects, err := Step(x, CellUnhealthy{"alpha", "pa"}, env)
	if err != nil || suspect.Suspect == nil || words(suspect.Ordinary) != "UNCLAIMED" ||
		!has(effects, RequestAuction{key0}) {
		t.Fatalf("%+v %v %v", suspect, effects, err)
	}
	if r := suspect.Resolved(); r != suspect.Suspect {
		t.Errorf("readers see %+v, not the suspect", r)
	}
	claimed, _, _ := Step(suspect, Claim{By: omega}, env)

	// Its cell is back first: the replacement is withdrawn.
	back, effects, _ := Step(claimed, CellHealthy{"alpha", "pa"}, env)
	if words(back.Ordinary) != "RUNNING self" || back.Suspect != nil || !has(effects, StopInstance{key0, omega}) {
		t.Errorf("back: %+v %v", back, effects)
	}
	if back, effects, _ = Step(suspect, CellHealthy{"alpha", "pa"}, env); words(back.Ordinary) != "RUNNING self" ||
		!has(effects, WithdrawAuction{key0}) {
		t.Errorf("back before the claim: %+v %v", back, effects)
	}
	// The replacement runs first: the suspect is stopped on contact, where the new one stays.
	newStays := wantedEnv()
	newStays.Desired.OnReturn = ReturnNew
	replaced, effects, err := Step(claimed, Start{By: omega, Net: netA}, newStays)
	if err != nil || !replaced.Ordinary.Is(omega) || replaced.Suspect != nil || !has(effects, StopInstance{key0, alpha}) {
		t.Errorf("replaced: %+v %v", replaced, effects)
	}
	// The leader gives the cell up: the row goes, the replacement stays.
	dead, _, _ := Step(claimed, CellMustDie{"alpha", "pa"}, env)
	if dead.Suspect != nil || !dead.Ordinary.Is(omega) {
		t.Errorf("must die: %+v", dead)
	}
	// The replacement's cell goes too: only the replacement is placed again.
	twice, _, _ := Step(claimed, CellUnhealthy{"omega", "po"}, env)
	if twice.Suspect == nil || words(twice.Ordinary) != "UNCLAIMED" {
		t.Errorf("twice: %+v", twice)
	}
	// The suspect itself reports: nothing changes; it crashes or stops: its row is deleted.
	if same, _, err := Step(claimed, Start{By: alpha, Net: netA}, env); err != nil || same != claimed {
		t.Errorf("suspect's start: %v", err)
	}
	for _, e := range []Event{Crash{By: alpha}, Remove{By: alpha}} {
		if gone, _, err := Step(claimed, e, env); err != nil || gone.Suspect != nil || !gone.Ordinary.Is(omega) {
			t.Errorf("%T: %v %+v", e, err, gone)
		}
	}
	// Not wanted any more: both go.
	env.Wanted = false
	gone, effects, _ := Step(suspect, Undesire{}, env)
	if !gone.Empty() || !has(effects, StopInstance{key0, alpha}) {
		t.Errorf("undesired: %+v %v", gone, effects)
	}
}

// TestExclusive: nothing replaces an exclusive instance before its holder has
// stopped it or is certainly dead.
func TestExclusive(t *testing.T) {
	env := wantedEnv()
	env.Desired.Exclusive = true
	for _, state := range []string{"CLAIMED self", "RUNNING self"} {
		row := rowOf(t, state)
		row.Exclusive = true
		x := Index{Key: key0, Ordinary: row}
		for _, e := range []Event{
			CellUnhealthy{"alpha", "pa"}, CellMustDie{"alpha", "pa"}, Evacuate{By: alpha, Net: netA}, Undesire{}, Retire{},
			Resend{},
			Claim{By: omega}, Start{By: omega, Net: netA}, Remove{By: Identity{"ia", "alpha", "successor"}},
			EvacuateClaimed{By: alpha}, ProcDead{"po"},
		} {
			en := env
			_, undesire := e.(Undesire)
			en.Wanted = !undesire
			after, _, _ := Step(x, e, en)
			if !after.Ordinary.Is(alpha) || after.Suspect != nil || after.Evacuating != nil {
				t.Errorf("%s, %T: %+v", state, e, after)
			}
		}
		if after, effects, _ := Step(x, ProcDead{"pa"}, env); words(after.Ordinary) != "UNCLAIMED" ||
			!has(effects, RequestAuction{key0}) {
			t.Errorf("dead: %+v", after)
		}
		unwanted := env
		unwanted.Wanted = false
		if after, _, _ := Step(x, ProcDead{"pa"}, unwanted); !after.Empty() {
			t.Errorf("dead and not wanted: %+v", after)
		}
		if after, _, err := Step(x, Remove{By: alpha}, env); err != nil || words(after.Ordinary) != "UNCLAIMED" {
			t.Errorf("removed by its holder: %v", err)
		}
		if _, _, err := Step(x, Remove{By: Identity{"ia", "alpha", "successor"}}, env); !errors.Is(err, ErrNotProven) {
			t.Errorf("removed by a successor: %v", err)
		}
		moved, _, _ := Step(x, ProcMoved{"alpha", "pa", "successor"}, env)
		if _, _, err := Step(moved, Remove{By: Identity{"ia", "alpha", "successor"}}, env); err != nil {
			t.Errorf("removed by a proven successor: %v", err)
		}
	}
}

func TestStopFirstDrainsOneAtATime(t *testing.T) {
	env := wantedEnv()
	env.Desired.Strategy = StopFirst
	x := Index{Key: key0, Ordinary: rowOf(t, "RUNNING self")}
	env.OthersRunning = false
	if _, _, err := Step(x, Evacuate{By: alpha, Net: netA}, env); !errors.Is(err, ErrNotYet) {
		t.Errorf("while another is down: %v", err)
	}
	env.OthersRunning = true
	after, effects, err := Step(x, Evacuate{By: alpha, Net: netA}, env)
	if err != nil || !after.Ordinary.Retiring || after.Evacuating != nil || !has(effects, StopInstance{key0, alpha}) {
		t.Fatalf("%+v %v %v", after, effects, err)
	}
	env.OthersRunning = false // itself
	if again, _, err := Step(after, Evacuate{By: alpha, Net: netA}, env); err != nil || again != after {
		t.Errorf("repeated: %v", err)
	}
}

func TestEvacuationOfASuspect(t *testing.T) {
	suspect := rowOf(t, "RUNNING self")
	suspect.Presence = Suspect
	for _, ordinary := range []string{"UNCLAIMED", "CLAIMED other"} {
		x := Index{Key: key0, Ordinary: rowOf(t, ordinary), Suspect: suspect}
		a := HarmoniseEvacuating(View{Container: Up, Self: alpha, Rows: x})
		after, _, err := Step(x, Evacuate{By: alpha, Net: netA, Until: t0.Add(time.Minute)}, wantedEnv())
		if a.Call != CallEvacuate && ordinary == "UNCLAIMED" {
			t.Errorf("%s: %v", ordinary, a)
		}
		if err != nil || after.Suspect != nil && ordinary == "UNCLAIMED" || after.Evacuating == nil {
			t.Errorf("%s: %v %+v", ordinary, err, after)
		}
	}
}

func TestScaleDownDuringEvacuation(t *testing.T) {
	env := wantedEnv()
	env.Wanted = false
	x := Index{Key: key0, Ordinary: rowOf(t, "UNCLAIMED"), Evacuating: copyOf("self")}
	x, effects, _ := Step(x, Undesire{}, env)
	if x.Ordinary != nil || x.Evacuating == nil || !has(effects, StopInstance{key0, alpha}) {
		t.Fatalf("%+v %v", x, effects)
	}
	if !x.Evacuating.Stopping() || x.Evacuating.Serves() {
		t.Fatalf("%+v", x.Evacuating)
	}
	a := HarmoniseEvacuating(View{Container: Up, Self: alpha, Rows: x})
	if a.Call != NoCall || a.Then != StopContainer {
		t.Fatalf("%v", a)
	}
	if a = HarmoniseEvacuating(View{Container: CompletedShutdown, Self: alpha, Rows: x}); a.Call != CallEvacuateStopped ||
		a.Then != DeleteContainer {
		t.Fatalf("%v", a)
	}
}

// TestOrphansOfAStaleDomainAreKept: nothing of a process without definition is
// deleted or restarted while its domain is not fresh.
func TestOrphansOfAStaleDomainAreKept(t *testing.T) {
	env := Env{Now: t0}
	x := Index{Key: key0, Ordinary: rowOf(t, "RUNNING self")}
	for _, e := range []Event{CellMustDie{"alpha", "pa"}, CellUnhealthy{"alpha", "pa"}, Crash{By: alpha},
		Evacuate{By: alpha, Net: netA, Until: t0}} {
		after, effects, err := Step(x, e, env)
		if err != nil || after.Empty() || has(effects, RequestAuction{key0}) {
			t.Errorf("%T: %v %+v %v", e, err, after, effects)
		}
	}
	env.Fresh = true
	for _, e := range []Event{CellMustDie{"alpha", "pa"}, Crash{By: alpha}} {
		if after, _, err := Step(x, e, env); err != nil || after.Ordinary != nil {
			t.Errorf("fresh, %T: %v %+v", e, err, after)
		}
	}
}

func TestRetiringIsStoredAndSentAgain(t *testing.T) {
	env := wantedEnv()
	x, effects, _ := Step(Index{Key: key0, Ordinary: rowOf(t, "RUNNING self")}, Retire{}, env)
	if !x.Ordinary.Retiring || !has(effects, StopInstance{key0, alpha}) {
		t.Fatalf("%+v %v", x, effects)
	}
	if y, effects, _ := Step(x, Resend{}, env); y != x || !has(effects, StopInstance{key0, alpha}) {
		t.Errorf("resend: %v", effects)
	}
	x.Ordinary.CrashCount = 9
	y, effects, _ := Step(x, Crash{By: alpha}, env)
	if words(y.Ordinary) != "UNCLAIMED" || y.Ordinary.CrashCount != 0 || !has(effects, RequestAuction{key0}) {
		t.Errorf("it ended while retiring: %+v", y.Ordinary)
	}
}

func TestCut(t *testing.T) {
	if got := Cut(strings.Repeat("x", 1024)); len(got) != 1024 {
		t.Errorf("%d", len(got))
	}
	got := Cut(strings.Repeat("é", 600))
	if len(got) > 1024 || !strings.HasSuffix(got, "(truncated)") || strings.ContainsRune(got, '\uFFFD') {
		t.Errorf("%d %q", len(got), got[len(got)-20:])
	}
}

func TestResolved(t *testing.T) {
	suspect := rowOf(t, "RUNNING self")
	suspect.Presence = Suspect
	for _, c := range []struct{ ordinary, evacuating, want string }{
		{"none", "-", "none"}, {"none", "self", "copy"},
		{"UNCLAIMED", "-", "ordinary"}, {"UNCLAIMED", "self", "copy"},
		{"CLAIMED other", "self", "copy"}, {"RUNNING other", "self", "ordinary"}, {"CRASHED", "self", "ordinary"},
	} {
		x := Index{Key: key0, Ordinary: rowOf(t, c.ordinary), Evacuating: copyOf(c.evacuating)}
		if got := which(x); got != c.want {
			t.Errorf("%s | %s: %s", c.ordinary, c.evacuating, got)
		}
		x.Suspect = suspect
		want := "suspect"
		if c.ordinary == "RUNNING other" {
			want = "ordinary"
		}
		if got := which(x); got != want {
			t.Errorf("%s | %s with a suspect: %s", c.ordinary, c.evacuating, got)
		}
	}
}

func which(x Index) string {
	switch x.Resolved() {
	case nil:
		return "none"
	case x.Ordinary:
		return "ordinary"
	case x.Evacuating:
		return "copy"
	case x.Suspect:
		return "suspect"
	}
	return "?"
}

func TestChangesInOrder(t *testing.T) {
	env := wantedEnv()
	running := Index{Key: key0, Ordinary: rowOf(t, "RUNNING self")}
	for name, c := range map[string]struct {
		from  Index
		event Event
		want  string
	}{
		"first":   {Index{Key: key0}, Create{}, "created UNCLAIMED"},
		"claimed": {Index{Key: key0, Ordinary: rowOf(t, "UNCLAIMED")}, Claim{By: alpha}, "changed CLAIMED"},
		"started": {Index{Key: key0, Ordinary: rowOf(t, "CLAIMED self")}, Start{By: alpha, Net: netA},
			"changed RUNNING"},
		"not crashed": {Index{Key: key0, Ordinary: rowOf(t, "CRASHED")}, Start{By: alpha, Net: netA}, "changed RUNNING"},
		"wins": {Index{Key: key0, Ordinary: rowOf(t, "CLAIMED other")}, Start{By: alpha, Net: netA},
			"created RUNNING, removed CLAIMED"},
		"identity is lost": {running, CellMustDie{"alpha", "pa"}, "created UNCLAIMED, removed RUNNING"},
		"evacuation": {running, Evacuate{By: alpha, Net: netA, Until: t0},
			"changed RUNNING EVACUATING, created UNCLAIMED"},
		"suspicion": {running, CellUnhealthy{"alpha", "pa"}, "changed RUNNING SUSPECT, created UNCLAIMED"},
		"not suspicious": {Index{Key: key0, Ordinary: rowOf(t, "UNCLAIMED"), Suspect: suspectOf("self")},
			CellHealthy{"alpha", "pa"}, "changed RUNNING, removed UNCLAIMED"},
		"nor claimed away": {Index{Key: key0, Ordinary: rowOf(t, "CLAIMED other"), Suspect: suspectOf("self")},
			CellHealthy{"alpha", "pa"}, "changed RUNNING, removed CLAIMED"},
		"takes over": {Index{Key: key0, Ordinary: rowOf(t, "CLAIMED self"), Evacuating: copyOf("other")},
			Start{By: alpha, Net: netA}, "changed RUNNING, removed RUNNING EVACUATING"},
		"crash, waits": {Index{Key: key0, Ordinary: &Actual{Key: key0, State: Running, Identity: alpha, Since: t0,
			CrashCount: 5}}, Crash{By: alpha}, "changed CRASHED"},
		"crash, restarts": {running, Crash{By: alpha}, "created UNCLAIMED, removed RUNNING"},
		"gone":            {running, Remove{By: alpha}, "created UNCLAIMED, removed RUNNING"},
		"nothing":         {running, Start{By: alpha, Net: netA}, ""},
	} {
		after, _, err := Step(c.from, c.event, env)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := describe(Changes(c.from, after)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestAnUnreadyInstanceReplacesNone: RUNNING means ready for traffic in the notes. A replacement whose readiness
// check still fails does not displace copies that serve.
func TestAnUnreadyInstanceReplacesNone(t *testing.T) {
	env := wantedEnv()
	slow := netA
	slow.Routable = false
	unready := func(a *Actual) *Actual { b := *a; b.Net.Routable = false; return &b }
	env.Desired.OnReturn = ReturnNew
	for name, c := range map[string]struct {
		from   Index
		by     Identity
		net    Net
		copies int // left
		shown  Presence
		stops  int
	}{
		"evacuating, not ready": {Index{Key: key0, Ordinary: rowOf(t, "CLAIMED other"), Evacuating: copyOf("self")},
			omega, slow, 1, Evacuating, 0},
		"evacuating, ready": {Index{Key: key0, Ordinary: rowOf(t, "CLAIMED other"), Evacuating: copyOf("self")},
			omega, netA, 0, Ordinary, 1},
		"evacuating, neither": {Index{Key: key0, Ordinary: rowOf(t, "CLAIMED other"),
			Evacuating: unready(copyOf("self"))}, omega, slow, 0, Ordinary, 1},
		"evacuating, ready later": {Index{Key: key0, Ordinary: unready(rowOf(t, "RUNNING other")),
			Evacuating: copyOf("self")}, omega, netA, 0, Ordinary, 1},
		"taken back": {Index{Key: key0, Ordinary: unready(rowOf(t, "RUNNING other")),
			Evacuating: copyOf("self")}, alpha, netA, 0, Ordinary, 1},
		"suspect, not ready": {Index{Key: key0, Ordinary: rowOf(t, "CLAIMED other"), Suspect: suspectOf("self")},
			omega, slow, 1, Suspect, 0},
		"suspect, ready": {Index{Key: key0, Ordinary: rowOf(t, "CLAIMED other"), Suspect: suspectOf("self")},
			omega, netA, 0, Ordinary, 1},
		"suspect, neither": {Index{Key: key0, Ordinary: rowOf(t, "CLAIMED other"),
			Suspect: unready(suspectOf("self"))}, omega, slow, 0, Ordinary, 1},
		"nothing to take the place of": {Index{Key: key0, Ordinary: rowOf(t, "CLAIMED other")}, omega, slow, 0, Ordinary, 0},
	} {
		x, effects, err := Step(c.from, Start{By: c.by, Net: c.net, Service: svc}, env)
		if err != nil || Check(x) != nil {
			t.Errorf("%s: %v, %v", name, err, Check(x))
			continue
		}
		stops := 0
		for _, e := range effects {
			if _, ok := e.(StopInstance); ok {
				stops++
			}
		}
		if got := len(x.Rows()) - 1; got != c.copies || x.Resolved().Presence != c.shown || stops != c.stops ||
			!x.Ordinary.Same(c.by) {
			t.Errorf("%s: %s, shown %v, %d stops", name, show(x), x.Resolved().Presence, stops)
		}
	}
	// The cell of the suspect is back before its replacement serves.
	x := Index{Key: key0, Ordinary: unready(rowOf(t, "RUNNING other")), Suspect: suspectOf("self")}
	back, effects, err := Step(x, CellHealthy{"alpha", "pa"}, env)
	if err != nil || !back.Ordinary.Same(alpha) || back.Suspect != nil || len(effects) != 1 ||
		effects[0] != (StopInstance{key0, omega}) {
		t.Errorf("back: %s %v %v", show(back), effects, err)
	}
	// The replacement's cell falls silent too: only the replacement goes.
	lost, _, err := Step(x, CellUnhealthy{"omega", "po"}, env)
	if err != nil || lost.Suspect == nil || !lost.Suspect.Same(alpha) || lost.Ordinary.State != Unclaimed {
		t.Errorf("both silent: %s %v", show(lost), err)
	}
	evac := Index{Key: key0, Ordinary: unready(rowOf(t, "RUNNING other")), Evacuating: copyOf("self")}
	if lost, _, err = Step(evac, CellUnhealthy{"omega", "po"}, env); err != nil || lost.Suspect != nil ||
		lost.Evacuating == nil || lost.Ordinary.State != Unclaimed {
		t.Errorf("silent beside an evacuating copy: %s %v", show(lost), err)
	}
	// Its cell is emptied: it goes, and the one that serves stays.
	v := View{Container: Up, Self: omega, Net: &slow, Rows: evac}
	if a := HarmoniseEvacuating(v); a.Call != CallEvacuateClaimed || a.Then != DeleteContainer {
		t.Errorf("emptied before it serves: %v %v", a.Call, a.Then)
	}
	if _, _, err := Step(evac, Evacuate{By: omega, Net: slow, Until: t0}, env); !errors.Is(err, ErrCannotBeEvacuated) {
		t.Errorf("evacuated before it serves: %v", err)
	}
	if a := HarmoniseEvacuating(View{Container: Up, Self: omega, Rows: evac}); a.Call != CallEvacuateClaimed {
		t.Errorf("emptied, readiness by the row: %v", a.Call)
	}
	// The one that serves waits, and may be the instance again when its cell takes work.
	v = View{Container: Up, Self: alpha, Net: &netA, Rows: evac}
	if a := HarmoniseEvacuating(v); a.Call != CallEvacuate || a.Then != Leave {
		t.Errorf("it waits: %v %v", a.Call, a.Then)
	}
	if a := Harmonise(v); a.Call != CallStart {
		t.Errorf("its cell takes work again: %v %v", a.Call, a.Then)
	}
}

func suspectOf(who string) *Actual {
	a := *copyOf(who)
	a.Presence = Suspect
	return &a
}

// TestTurns has the events that readers get of an index, and the change that causes each.
func TestTurns(t *testing.T) {
	env := wantedEnv()
	with := func(o string, e, s *Actual) Index {
		x := Index{Key: key0, Evacuating: e, Suspect: s}
		if o != "" {
			x.Ordinary = rowOf(t, o)
		}
		return x
	}
	for name, c := range map[string]struct {
		from  Index
		event Event
		want  string
	}{
		"first": {with("", nil, nil), Create{}, "UNCLAIMED"},
		"evacuation": {with("RUNNING self", nil, nil), Evacuate{By: alpha, Net: netA, Until: t0},
			"RUNNING EVACUATING (1 hidden)"},
		"starts elsewhere": {with("UNCLAIMED", copyOf("self"), nil), Claim{By: omega}, "- (1 hidden)"},
		"runs elsewhere":   {with("CLAIMED other", copyOf("self"), nil), Start{By: omega, Net: netA}, "RUNNING"},
		"suspicion": {with("RUNNING self", nil, nil), CellUnhealthy{"alpha", "pa"},
			"RUNNING SUSPECT (1 hidden)"},
		"the suspect is replaced": {with("CLAIMED other", nil, suspectOf("self")), Start{By: omega, Net: netA}, "RUNNING"},
		"the suspect is back":     {with("CLAIMED other", nil, suspectOf("self")), CellHealthy{"alpha", "pa"}, "RUNNING"},
		"tried again beside a copy": {with("CRASHED", copyOf("self"), nil), RestartCrashed{},
			"RUNNING EVACUATING (1 hidden)"},
		"gone": {with("", copyOf("self"), nil), RemoveEvacuating{By: alpha}, "nothing"},
	} {
		env.Now = t0.Add(time.Hour)
		env.Wanted = name != "gone"
		after, _, err := Step(c.from, c.event, env)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, hidden := "-", 0
		for _, x := range Changes(c.from, after) {
			if x.Turn {
				got = "nothing"
				if x.Shown != nil {
					got = x.Shown.State.String()
					if x.Shown.Presence != Ordinary {
						got += " " + x.Shown.Presence.String()
					}
				}
			}
			if x.Hidden {
				hidden++
			}
		}
		if hidden > 0 {
			got += fmt.Sprintf(" (%d hidden)", hidden)
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestACopyIsNoOtherRow: several steps in one commit; the ordinary row does not come from another instance's copy.
func TestACopyIsNoOtherRow(t *testing.T) {
	before := Index{Key: key0, Suspect: suspectOf("self")}
	after := Index{Key: key0, Ordinary: rowOf(t, "CRASHED")}
	if got := describe(Changes(before, after)); got != "created CRASHED, removed RUNNING SUSPECT" {
		t.Error(got)
	}
	after.Ordinary = rowOf(t, "RUNNING other")
	if got := describe(Changes(before, after)); got != "created RUNNING, removed RUNNING SUSPECT" {
		t.Error(got)
	}
}

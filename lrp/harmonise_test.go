package lrp

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

var (
	t0    = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	key0  = Key{"p1", 0}
	alpha = Identity{Instance: "ia", Cell: "alpha", Proc: "pa"}
	omega = Identity{Instance: "io", Cell: "omega", Proc: "po"}
	beta  = Identity{Instance: "ib", Cell: "beta", Proc: "pb"}
	netA  = Net{Address: "10.0.0.1", Routable: true, Zone: "z1"}
	svc   = ServiceKey{"d", "s"}
)

func definition() *Desired { return &Desired{Process: "p1", Service: svc, Instances: 1} }

func wantedEnv() Env {
	return Env{Now: t0, Desired: definition(), Wanted: true, Fresh: true, Eligible: true, OthersRunning: true}
}

// rowOf builds an ordinary row from the words of the test tables.
func rowOf(t *testing.T, words string) *Actual {
	t.Helper()
	a := &Actual{Key: key0, Service: svc, Since: t0}
	state, who, _ := strings.Cut(words, " ")
	switch who {
	case "self":
		a.Identity = alpha
	case "other":
		a.Identity = omega
	}
	switch state {
	case "none":
		return nil
	case "UNCLAIMED":
	case "UNCLAIMED+error":
		a.PlacementError = "insufficient resources"
	case "CLAIMED":
		a.State = Claimed
	case "RUNNING":
		a.State, a.Net = Running, netA
	case "CRASHED":
		a.State, a.CrashCount = Crashed, 3
	default:
		t.Fatalf("unknown row %q", words)
	}
	return a
}

func copyOf(words string) *Actual {
	a := &Actual{Key: key0, Service: svc, Presence: Evacuating, State: Running, Net: netA, Since: t0,
		Expires: t0.Add(time.Minute)}
	switch words {
	case "self":
		a.Identity = alpha
	case "other":
		a.Identity = beta
	default:
		return nil
	}
	return a
}

func readTable(t *testing.T, name string) [][]string {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var rows [][]string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		cells := strings.Split(line, "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows = append(rows, cells)
	}
	return rows
}

func containerOf(t *testing.T, words string) Container {
	t.Helper()
	for c := NoContainer; c <= CompletedShutdown; c++ {
		if c.String() == words {
			return c
		}
	}
	t.Fatalf("unknown container %q", words)
	return 0
}

func TestHarmoniseTable(t *testing.T) {
	rows := readTable(t, "harmonise.txt")
	if len(rows) != 6*7 {
		t.Fatalf("%d rows, want 42: six states of the container by seven of the row", len(rows))
	}
	for _, r := range rows {
		t.Run(r[0]+"/"+r[1], func(t *testing.T) {
			v := View{Container: containerOf(t, r[0]), Self: alpha, Rows: Index{Key: key0, Ordinary: rowOf(t, r[1])}}
			a := Harmonise(v)
			if got := fmt.Sprintf("%v %v %v", a.Call, a.Then, a.Refused); got != strings.Join(r[2:5], " ") {
				t.Errorf("got %s", got)
			}
			if a.Why == "" {
				t.Error("no reason")
			}
			v.Quarantined = true
			if q := Harmonise(v); q.Call != NoCall || q.Then != Leave {
				t.Errorf("quarantined: %v", q)
			}
			if q := HarmoniseEvacuating(v); q.Call != NoCall || q.Then != Leave {
				t.Errorf("quarantined and evacuating: %v", q)
			}
		})
	}
}

// TestHarmoniseActionsAreAccepted performs the call of each row at the leader: it
// must be taken, but where the row is another's.
func TestHarmoniseActionsAreAccepted(t *testing.T) {
	for _, r := range readTable(t, "harmonise.txt") {
		v := View{Container: containerOf(t, r[0]), Self: alpha, Rows: Index{Key: key0, Ordinary: rowOf(t, r[1])}}
		a := Harmonise(v)
		if a.Call == NoCall {
			continue
		}
		x, _, err := Step(v.Rows, eventOf(t, a.Call), wantedEnv())
		if err != nil {
			t.Errorf("%s × %s: %v", r[0], r[1], err)
		}
		if err := Check(x); err != nil {
			t.Errorf("%s × %s: %v", r[0], r[1], err)
		}
		switch {
		case a.Call == CallStart && (x.Ordinary == nil || x.Ordinary.State != Running || !x.Ordinary.Is(alpha)):
			t.Errorf("%s × %s: not RUNNING here: %+v", r[0], r[1], x.Ordinary)
		case a.Call == CallClaim && (x.Ordinary.State != Claimed || !x.Ordinary.Is(alpha)):
			t.Errorf("%s × %s: not CLAIMED here: %+v", r[0], r[1], x.Ordinary)
		case a.Call == CallRemove && words(x.Ordinary) != "UNCLAIMED":
			t.Errorf("%s × %s: not removed", r[0], r[1])
		case a.Call == CallCrash && (x.Ordinary == nil || x.Ordinary.CrashCount != 1):
			t.Errorf("%s × %s: crash not counted: %+v", r[0], r[1], x.Ordinary)
		}
	}
}

func eventOf(t *testing.T, c Call) Event {
	t.Helper()
	switch c {
	case CallClaim:
		return Claim{By: alpha}
	case CallStart:
		return Start{By: alpha, Net: netA, Service: svc}
	case CallCrash:
		return Crash{By: alpha, Reason: "exited with status 1"}
	case CallRemove:
		return Remove{By: alpha}
	case CallEvacuate:
		return Evacuate{By: alpha, Net: netA, Until: t0.Add(10 * time.Minute)}
	case CallEvacuateClaimed:
		return EvacuateClaimed{By: alpha}
	case CallEvacuateStopped:
		return EvacuateStopped{By: alpha}
	case CallEvacuateCrashed:
		return EvacuateCrashed{By: alpha, Reason: "exited with status 1"}
	case CallRemoveEvacuating:
		return RemoveEvacuating{By: alpha}
	}
	t.Fatalf("no event for %v", c)
	return nil
}

func TestEvacuationTable(t *testing.T) {
	rows := readTable(t, "evacuate.txt")
	if len(rows) != 8*3 {
		t.Fatalf("%d rows, want 24", len(rows))
	}
	for _, r := range rows {
		t.Run(r[0]+"/"+r[1], func(t *testing.T) {
			x := Index{Key: key0, Ordinary: rowOf(t, r[0]), Evacuating: copyOf(r[1])}
			a := HarmoniseEvacuating(View{Container: Up, Self: alpha, Rows: x})
			if a.Then.String() != r[3] {
				t.Errorf("container: %v, want %s", a.Then, r[3])
			}
			after := x
			if a.Call != NoCall {
				var err error
				env := wantedEnv()
				env.Wanted = r[0] != "none"
				if after, _, err = Step(x, eventOf(t, a.Call), env); err != nil {
					t.Fatal(err)
				}
			}
			if got := written(x, after); got != r[2] {
				t.Errorf("written %q, want %q", got, r[2])
			}
			if e := after.Evacuating; e.Is(alpha) && !e.Expires.Equal(t0.Add(10*time.Minute)) {
				t.Errorf("expiry not refreshed: %v", e.Expires)
			}
		})
	}
}

// written describes the changes of a call in the words of the table; a refreshed expiry is no change.
func written(before, after Index) string {
	var out []string
	switch {
	case after.Evacuating.Is(alpha) && !before.Evacuating.Is(alpha):
		out = append(out, "e=self")
	case before.Evacuating != nil && after.Evacuating == nil:
		out = append(out, "e=-")
	}
	if before.Ordinary != after.Ordinary {
		out = append(out, "i="+after.Ordinary.State.String())
	}
	if len(out) == 0 {
		return "-"
	}
	return strings.Join(out, " ")
}

// TestEvacuationNotRunning is the prose "When the container is not Running".
func TestEvacuationNotRunning(t *testing.T) {
	for _, c := range []struct {
		container  Container
		ordinary   string
		call       Call
		after      string // state of the ordinary row afterwards, "none" = gone
		wantRequst bool
	}{
		{Reserved, "CLAIMED self", CallEvacuateClaimed, "UNCLAIMED", true},
		{Reserved, "UNCLAIMED", CallEvacuateClaimed, "UNCLAIMED", true},
		{Starting, "UNCLAIMED", CallEvacuateClaimed, "UNCLAIMED", true},
		{Reserved, "CLAIMED other", NoCall, "CLAIMED", false},
		{Reserved, "none", NoCall, "none", false},
		{Starting, "CLAIMED self", CallEvacuateClaimed, "UNCLAIMED", true},
		{Starting, "RUNNING self", CallEvacuateClaimed, "UNCLAIMED", true},
		{Starting, "CLAIMED other", NoCall, "CLAIMED", false},
		{CompletedShutdown, "RUNNING self", CallEvacuateStopped, "UNCLAIMED", true},
		{CompletedShutdown, "UNCLAIMED", NoCall, "UNCLAIMED", false},
		{CompletedCrashed, "RUNNING self", CallEvacuateCrashed, "UNCLAIMED", true},
		{CompletedCrashed, "RUNNING other", NoCall, "RUNNING", false},
		{CompletedCrashed, "UNCLAIMED", NoCall, "UNCLAIMED", false},
		{CompletedCrashed, "none", CallEvacuateCrashed, "UNCLAIMED", true},
		{CompletedShutdown, "none", NoCall, "none", false},
	} {
		x := Index{Key: key0}
		if c.ordinary != "none" {
			x.Ordinary = rowOf(t, c.ordinary)
		}
		a := HarmoniseEvacuating(View{Container: c.container, Self: alpha, Rows: x})
		if a.Call != c.call || a.Then != DeleteContainer {
			t.Errorf("%v × %s: %v %v", c.container, c.ordinary, a.Call, a.Then)
			continue
		}
		var effects []Effect
		if a.Call != NoCall {
			var err error
			if x, effects, err = Step(x, eventOf(t, a.Call), wantedEnv()); err != nil {
				t.Errorf("%v × %s: %v", c.container, c.ordinary, err)
			}
		}
		state := "none"
		if x.Ordinary != nil {
			state = x.Ordinary.State.String()
		}
		if state != c.after || has(effects, RequestAuction{key0}) != c.wantRequst {
			t.Errorf("%v × %s: row %s, effects %v", c.container, c.ordinary, state, effects)
		}
	}
	// The attempt that was dropped is known to the auctioneer, which may count it as on its way.
	_, effects, err := Step(Index{Key: key0, Ordinary: rowOf(t, "UNCLAIMED")}, EvacuateClaimed{By: alpha}, wantedEnv())
	if err != nil || !has(effects, AttemptDropped{key0, alpha.Instance}) {
		t.Errorf("dropped reservation: %v %v", effects, err)
	}
	for _, c := range []Container{Reserved, CompletedShutdown, CompletedCrashed} {
		x := Index{Key: key0, Ordinary: rowOf(t, "CLAIMED other"), Evacuating: copyOf("self")}
		a := HarmoniseEvacuating(View{Container: c, Self: alpha, Rows: x})
		after, _, err := Step(x, eventOf(t, a.Call), wantedEnv())
		if err != nil || after.Evacuating != nil || after.Ordinary != x.Ordinary || a.Then != DeleteContainer {
			t.Errorf("%v with an evacuating row: %v, %+v", c, err, after)
		}
	}
}

// TestCrashWithoutARowIsCounted: on a cell that is being emptied as on any other, beside its
// own copy too.
func TestCrashWithoutARowIsCounted(t *testing.T) {
	crashes := map[string]Event{"emptied": EvacuateCrashed{By: alpha, Reason: "boom"},
		"other": Crash{By: alpha, Reason: "boom"}}
	for name, crash := range crashes {
		for _, x := range []Index{{Key: key0}, {Key: key0, Evacuating: copyOf("self")}} {
			after, effects, err := Step(x, crash, wantedEnv())
			if err != nil || after.Ordinary == nil || after.Ordinary.CrashCount != 1 || after.Evacuating != nil ||
				!has(effects, CrashNoted{Key: key0, Who: alpha, Count: 1, Reason: "boom"}) {
				t.Errorf("%s, copy %v: %+v %v %v", name, x.Evacuating != nil, after.Ordinary, effects, err)
			}
		}
		if after, _, err := Step(Index{Key: key0, Evacuating: copyOf("self")}, crash, Env{Now: t0}); err != nil ||
			!after.Empty() {
			t.Errorf("%s, not wanted: %+v %v", name, after, err)
		}
	}
}

// TestAPlaceIsAskedForWhenACopyGoes: a waiting row keeps away from the cell of its copy, and
// only so long.
func TestAPlaceIsAskedForWhenACopyGoes(t *testing.T) {
	suspect := *rowOf(t, "RUNNING self")
	suspect.Presence = Suspect
	for name, c := range map[string]struct {
		x Index
		e Event
	}{
		"evacuating copy removed": {Index{Evacuating: copyOf("self")}, RemoveEvacuating{By: alpha}},
		"evacuating copy expired": {Index{Evacuating: copyOf("self")}, ExpireEvacuating{}},
		"evacuating copy crashed": {Index{Evacuating: copyOf("self")}, EvacuateCrashed{By: alpha}},
		"its cell given up":       {Index{Evacuating: copyOf("self")}, CellMustDie{Cell: alpha.Cell, Proc: alpha.Proc}},
		"suspect crashed":         {Index{Suspect: &suspect}, Crash{By: alpha}},
		"suspect given up":        {Index{Suspect: &suspect}, CellMustDie{Cell: alpha.Cell, Proc: alpha.Proc}},
	} {
		c.x.Key, c.x.Ordinary = key0, rowOf(t, "UNCLAIMED")
		env := wantedEnv()
		env.Now = t0.Add(time.Hour)
		after, effects, err := Step(c.x, c.e, env)
		if err != nil || after.Ordinary == nil || len(after.Rows()) != 1 || !has(effects, RequestAuction{key0}) {
			t.Errorf("%s: %+v %v %v", name, after, effects, err)
		}
	}
}

func has(effects []Effect, want Effect) bool {
	for _, e := range effects {
		if e == want {
			return true
		}
	}
	return false
}

func TestHarmoniseBesideTheTable(t *testing.T) {
	running := rowOf(t, "RUNNING self")
	other := *running
	other.Proc = "older"
	retiring := *running
	retiring.Retiring = true
	suspect := *running
	suspect.Presence = Suspect
	flipped := netA
	flipped.Routable = false
	for name, c := range map[string]struct {
		v    View
		call Call
		then Fate
	}{
		"process has changed": {View{Container: Up, Self: alpha, Rows: Index{Ordinary: &other}}, CallStart, Leave},
		"readiness has changed": {View{Container: Up, Self: alpha, Net: &flipped, Rows: Index{Ordinary: running}},
			CallStart, Leave},
		"nothing has changed": {View{Container: Up, Self: alpha, Net: &netA, Rows: Index{Ordinary: running}}, NoCall,
			Leave},
		"retired, running": {View{Container: Up, Self: alpha, Rows: Index{Ordinary: &retiring}}, NoCall,
			StopContainer},
		"retired, stopped": {View{Container: CompletedShutdown, Self: alpha, Rows: Index{Ordinary: &retiring}},
			CallRemove, DeleteContainer},
		"retired while evacuating": {View{Container: Up, Self: alpha, Rows: Index{Ordinary: &retiring}}, NoCall,
			StopContainer},
		"suspect, running": {View{Container: Up, Self: alpha,
			Rows: Index{Ordinary: rowOf(t, "UNCLAIMED"), Suspect: &suspect}}, NoCall, Leave},
		"suspect, crashed": {View{Container: CompletedCrashed, Self: alpha,
			Rows: Index{Ordinary: rowOf(t, "UNCLAIMED"), Suspect: &suspect}}, CallCrash, DeleteContainer},
		"suspect, no container": {View{Self: alpha, Rows: Index{Ordinary: rowOf(t, "UNCLAIMED"), Suspect: &suspect}},
			CallRemove, Leave},
		"evacuating, no container": {View{Self: alpha,
			Rows: Index{Ordinary: rowOf(t, "UNCLAIMED"), Evacuating: copyOf("self")}}, CallRemove, Leave},
		"undrained with a copy": {View{Container: Up, Self: alpha,
			Rows: Index{Ordinary: rowOf(t, "UNCLAIMED"), Evacuating: copyOf("self")}}, CallStart, Leave},
		"the same instance elsewhere": {View{Container: Up, Self: alpha,
			Rows: Index{Ordinary: &Actual{State: Running, Identity: Identity{"ia", "omega", "po"}}}}, NoCall, DeleteContainer},
		"another instance here": {View{Container: Up, Self: alpha,
			Rows: Index{Ordinary: &Actual{State: Running, Identity: Identity{"io", "alpha", "pa"}}}}, NoCall, DeleteContainer},
	} {
		got := Harmonise(c.v)
		if name == "retired while evacuating" {
			got = HarmoniseEvacuating(c.v)
		}
		if got.Call != c.call || got.Then != c.then {
			t.Errorf("%s: %v %v", name, got.Call, got.Then)
		}
	}
}

package lrp

import (
	"fmt"
	"testing"
	"time"
)

var key1 = Key{"p1", 1}

// moves prints the moves of a pass: "p1/0 Create, p1/1 Undesire".
func moves(out Outcome) (s string) {
	for _, m := range out.Moves {
		s += fmt.Sprintf("%d:%T ", m.Key.Index, m.Event)
	}
	return s
}

// boardOf has a steady service of n instances, of which none has a row.
func boardOf(t *testing.T, n int, change func(*Desired)) *Board {
	t.Helper()
	d := Desired{Service: svc, Instances: n}
	change(&d)
	s, err := Apply(nil, d, "p1", t0)
	if err != nil {
		t.Fatal(err)
	}
	s.Phase, s.Versions[0].Good = Steady, true
	b := NewBoard(ConvergePolicy{})
	b.SetDomain("d", time.Time{})
	b.PutService(s)
	b.Converge(t0)
	return b
}

func plainService(*Desired) {}

// TestRequiredEventOfARow: the event that each kind of row needs at a moment, wanted or not, in a
// domain that is fresh or not.
func TestRequiredEventOfARow(t *testing.T) {
	retiring := func(a *Actual) { a.Retiring = true }
	for name, c := range map[string]struct {
		x                Index
		unwanted, stale  bool
		at               time.Duration
		loaded           bool
		want             string
		due              time.Duration // of the next look; 0 = none
		dead, quarantine bool
	}{
		"nothing":                {x: Index{}, want: "0:lrp.Create "},
		"nothing, unwanted":      {x: Index{}, unwanted: true},
		"a copy alone":           {x: Index{Evacuating: copyOf("self")}, want: "0:lrp.Create ", due: time.Minute},
		"a copy alone, unwanted": {x: Index{Evacuating: copyOf("self")}, unwanted: true, due: time.Minute},
		"a copy, expired": {x: Index{Evacuating: copyOf("self")}, at: time.Minute,
			want: "0:lrp.ExpireEvacuating "},
		"runs": {x: Index{Ordinary: rowOf(t, "RUNNING self")}},
		"runs, unwanted": {x: Index{Ordinary: rowOf(t, "RUNNING self")}, unwanted: true,
			want: "0:lrp.Undesire "},
		"runs, unwanted, stale": {x: Index{Ordinary: rowOf(t, "RUNNING self")}, unwanted: true, stale: true},
		"waits, unwanted, stale": {x: Index{Ordinary: rowOf(t, "UNCLAIMED")}, unwanted: true, stale: true,
			at: time.Hour},
		"stopping, unwanted": {x: Index{Ordinary: rowWith(t, "RUNNING self", retiring)}, unwanted: true,
			due: 30 * time.Second},
		"stopping, unwanted, no answer": {x: Index{Ordinary: rowWith(t, "RUNNING self", retiring)}, unwanted: true,
			loaded: true, want: "0:lrp.Resend ", due: 30 * time.Second},
		"stopping, claimed, no answer": {x: Index{Ordinary: rowWith(t, "CLAIMED self", retiring)}, loaded: true,
			want: "0:lrp.Resend ", due: 30 * time.Second},
		"a suspect, unwanted": {x: Index{Suspect: suspectOf("self")}, unwanted: true, want: "0:lrp.Undesire "},
		"claimed":             {x: Index{Ordinary: rowOf(t, "CLAIMED self")}, loaded: true, at: time.Hour},
		"crashed":             {x: Index{Ordinary: rowOf(t, "CRASHED")}, due: 30 * time.Second},
		"crashed, its wait is over": {x: Index{Ordinary: rowOf(t, "CRASHED")}, at: 30 * time.Second,
			want: "0:lrp.RestartCrashed "},
		"crashed, for good": {x: Index{Ordinary: rowWith(t, "CRASHED",
			func(a *Actual) { a.Finished = true })}, at: time.Hour},
		"crashed, unwanted": {x: Index{Ordinary: rowOf(t, "CRASHED")}, unwanted: true, stale: true,
			at: time.Hour},
		"waits": {x: Index{Ordinary: rowOf(t, "UNCLAIMED")}, due: 30 * time.Second},
		"waits, loaded": {x: Index{Ordinary: rowOf(t, "UNCLAIMED")}, loaded: true, want: "0:lrp.Resend ",
			due: 30 * time.Second},
		"waits for its copy": {x: Index{Ordinary: rowWith(t, "UNCLAIMED",
			func(a *Actual) { a.NotBefore = t0.Add(time.Minute) }), Suspect: suspectOf("self")}, loaded: true, due: time.Minute},
		"has waited for its copy": {x: Index{Ordinary: rowWith(t, "UNCLAIMED",
			func(a *Actual) { a.NotBefore = t0.Add(time.Minute) }), Suspect: suspectOf("self")}, at: time.Minute,
			want: "0:lrp.Resend ", due: 90 * time.Second},
		"waits for its copy, unwanted": {x: Index{Ordinary: rowWith(t, "UNCLAIMED",
			func(a *Actual) { a.NotBefore = t0.Add(time.Minute) }), Suspect: suspectOf("self")}, unwanted: true, stale: true},
		"on a dead process": {x: Index{Ordinary: rowOf(t, "RUNNING self")}, dead: true,
			want: "0:lrp.ProcDead "},
		"a copy on a dead process": {x: Index{Ordinary: rowOf(t, "UNCLAIMED"), Suspect: suspectOf("self")},
			dead: true, want: "0:lrp.ProcDead "},
		"another one on a dead process": {x: Index{Ordinary: rowOf(t, "RUNNING other")}, dead: true},
		"it replaced one on a dead process": {x: Index{Ordinary: rowWith(t, "RUNNING other",
			func(a *Actual) { a.Replaces = alpha })}, dead: true, want: "0:lrp.ProcDead "},
		"it replaced one on another process": {x: Index{Ordinary: rowWith(t, "RUNNING other",
			func(a *Actual) { a.Replaces = beta })}, dead: true},
		"cannot be read": {x: Index{Ordinary: rowOf(t, "RUNNING self")}, unwanted: true, quarantine: true},
	} {
		n := 1
		if c.unwanted {
			n = 0
		}
		b := boardOf(t, n, plainService)
		if c.stale {
			b.SetDomain("d", t0)
		}
		c.x.Key = key0
		b.QuarantineIndex(key0, c.quarantine)
		if c.loaded {
			b.LoadIndex(c.x)
		} else {
			b.PutIndex(c.x)
		}
		if c.dead {
			b.ProcDied("pa")
		}
		now := t0.Add(c.at)
		if got := moves(b.Converge(now)); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		at, ok := b.NextDue()
		if ok != (c.due != 0) || ok && !at.Equal(t0.Add(c.due)) {
			t.Errorf("%s: due %v, %v; want after %v", name, at.Sub(t0), ok, c.due)
		}
	}
}

// TestAPassChecksOnlyChangedRows: a pass visits the rows that a change touches, and no others.
func TestAPassChecksOnlyChangedRows(t *testing.T) {
	b := boardOf(t, 0, plainService)
	other := ServiceKey{Domain: "e", Name: "web"}
	orphan := Key{"gone", 0}
	for k, a := range map[Key]*Actual{
		key0:   {Key: key0, Service: svc, State: Running, Identity: alpha, Since: t0, Net: netA},
		orphan: {Key: orphan, Service: other, State: Running, Identity: omega, Since: t0, Net: netA},
	} {
		b.SetDomain(a.Service.Domain, t0) // stale from now on
		b.PutIndex(Index{Key: k, Ordinary: a})
	}
	if got := moves(b.Converge(t0)); got != "" {
		t.Fatalf("both domains are stale: %s", got)
	}
	if b.Fresh("nowhere", t0) || b.Fresh("d", t0) || !b.Fresh("d", t0.Add(-1)) {
		t.Error("a domain is fresh until its time, and no other one is")
	}
	b.SetDomain("e", t0.Add(time.Hour))
	if out := b.Converge(t0); len(out.Moves) != 1 || out.Moves[0].Key != orphan {
		t.Errorf("domain e is fresh again: %+v", out.Moves)
	}
	b.SetDomain("d", time.Time{})
	if out := b.Converge(t0); len(out.Moves) != 1 || out.Moves[0].Key != key0 {
		t.Errorf("domain d is fresh for ever: %+v", out.Moves)
	}
	if got := fmt.Sprint(b.Orphans(), len(b.Keys()), b.Services()); got != "[gone/0] 2 [d/web]" &&
		got != fmt.Sprint([]Key{orphan}, 2, []ServiceKey{svc}) {
		t.Error(got)
	}
	b.QuarantineService(other, true)
	if len(b.Orphans()) != 0 || !b.Quarantined(orphan) || b.Quarantined(key0) || b.Quarantined(Key{"x", 0}) {
		t.Error("rows of a service that cannot be read are no orphans")
	}
	if out := b.Converge(t0); len(out.Moves) != 0 {
		t.Errorf("a service that cannot be read: %+v", out.Moves)
	}
	b.QuarantineService(other, false)
	if out := b.Converge(t0); len(out.Moves) != 1 || out.Moves[0].Key != orphan {
		t.Errorf("it can be read: %+v", out.Moves)
	}
	if got := moves(b.ConvergeAll(t0)); got != "0:lrp.Undesire 0:lrp.Undesire " {
		t.Errorf("all: %s", got)
	}
	if got := moves(b.Converge(t0)); got != "" {
		t.Errorf("nothing has changed: %s", got)
	}
	b.PutIndex(Index{Key: orphan})
	b.PutIndex(Index{Key: orphan}) // twice
	if len(b.Keys()) != 1 || b.procs["gone"] != nil || len(b.Procs()) != 1 {
		t.Errorf("forgotten: %v %v", b.Keys(), b.Procs())
	}
	if b.Surplus(other) != nil {
		t.Error("a service that is not there has no surplus")
	}
}

// TestSurplus: an index is surplus if it has something to stop and is not wanted, unless it is unreadable.
func TestSurplus(t *testing.T) {
	b := boardOf(t, 1, plainService)
	put := func(i int, words string, f func(*Actual)) {
		a := rowWith(t, words, f)
		a.Key = Key{"p1", i}
		b.PutIndex(Index{Key: a.Key, Ordinary: a})
	}
	put(0, "RUNNING self", func(*Actual) {})
	put(1, "RUNNING self", func(*Actual) {})
	put(2, "RUNNING self", func(a *Actual) { a.Retiring = true })
	put(3, "UNCLAIMED", func(*Actual) {})
	put(4, "RUNNING self", func(*Actual) {})
	b.QuarantineIndex(Key{"p1", 4}, true)
	if got := moves(Outcome{Moves: b.Surplus(svc)}); got != "1:lrp.Undesire 3:lrp.Undesire " {
		t.Error(got)
	}
}

// TestARequestIsOfItsRow: a request counts for the row that waits for the same placement.
func TestARequestIsOfItsRow(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Actual)
		asked  bool // the request still counts after 20 s
	}{
		"another reason": {func(a *Actual) { a.PlacementError = "full" }, true},
		"a new wait":     {func(a *Actual) { a.Since = t0.Add(20 * time.Second) }, false},
		"another state":  {func(a *Actual) { a.State, a.Identity, a.Retiring = Claimed, alpha, true }, false},
	} {
		b := boardOf(t, 1, plainService)
		a := rowOf(t, "UNCLAIMED")
		b.PutIndex(Index{Key: key0, Ordinary: a})
		b.Converge(t0)
		next := *a
		c.change(&next)
		b.PutIndex(Index{Key: key0, Ordinary: &next})
		b.Converge(t0.Add(20 * time.Second))
		got := moves(b.Converge(t0.Add(30*time.Second))) != ""
		if got != c.asked {
			t.Errorf("%s: asked again after 30 s %v, want %v", name, got, c.asked)
		}
	}
	b := boardOf(t, 1, plainService)
	a := rowOf(t, "RUNNING self")
	b.PutIndex(Index{Key: key0, Ordinary: a})
	next := *a
	next.Retiring = true
	b.Converge(t0)
	b.PutIndex(Index{Key: key0, Ordinary: &next})
	b.Converge(t0.Add(time.Hour))
	if got := moves(b.Converge(t0.Add(time.Hour + 29*time.Second))); got != "" {
		t.Errorf("it was just asked to stop: %s", got)
	}
	if got := moves(b.Converge(t0.Add(time.Hour + 30*time.Second))); got != "0:lrp.Resend " {
		t.Errorf("it does not stop: %q", got)
	}
}

// TestALoadedRowStaysSo until it is another one.
func TestALoadedRowStaysSo(t *testing.T) {
	b := boardOf(t, 1, plainService)
	a := rowOf(t, "RUNNING self")
	healthy := func() bool { ok, _ := b.Healthy("p1", 0, 0, t0.Add(time.Hour)); return ok }
	b.LoadIndex(Index{Key: key0, Ordinary: a})
	if healthy() {
		t.Error("its cell was not heard")
	}
	b.PutIndex(Index{Key: key0, Ordinary: a, Suspect: nil})
	if healthy() {
		t.Error("the same row again")
	}
	next := *a
	b.PutIndex(Index{Key: key0, Ordinary: &next})
	if !healthy() {
		t.Error("written in this term")
	}
	b.PutIndex(Index{Key: key0, Ordinary: a})
	if !healthy() {
		t.Error("a row that was once loaded")
	}
	for name, c := range map[string]struct {
		x    Index
		want bool
	}{
		"none":                {Index{}, false},
		"claimed":             {Index{Ordinary: rowOf(t, "CLAIMED self")}, false},
		"to be stopped":       {Index{Ordinary: rowWith(t, "RUNNING self", func(a *Actual) { a.Retiring = true })}, false},
		"a suspect that does": {Index{Ordinary: rowOf(t, "UNCLAIMED"), Suspect: suspectOf("self")}, true},
		"a suspect, unheard": {Index{Ordinary: rowOf(t, "UNCLAIMED"),
			Suspect: func() *Actual { s := *suspectOf("self"); s.Unheard = true; return &s }()}, false},
		"an evacuating one": {Index{Ordinary: rowOf(t, "UNCLAIMED"), Evacuating: copyOf("self")}, false},
		"stopping, a suspect?": {Index{Ordinary: rowWith(t, "RUNNING other", func(a *Actual) { a.Retiring = true }),
			Suspect: suspectOf("self")}, true},
	} {
		c.x.Key = key0
		b.PutIndex(c.x)
		if got := healthy(); got != c.want {
			t.Errorf("%s: healthy %v", name, got)
		}
	}
}

// TestCauseAndTop are the values that Roll reads of the rows.
func TestCauseAndTop(t *testing.T) {
	b := boardOf(t, 3, plainService)
	for i, a := range []*Actual{rowOf(t, "RUNNING self"),
		rowWith(t, "CRASHED", func(a *Actual) { a.CrashReason = "exit status 1" }), rowOf(t, "UNCLAIMED+error"),
		rowOf(t, "UNCLAIMED")} {
		a.Key.Index = i
		a.CrashReason += map[bool]string{true: "old"}[i == 0]
		b.PutIndex(Index{Key: a.Key, Ordinary: a})
	}
	for i, want := range []string{"", "crashed: exit status 1", "insufficient resources", "", ""} {
		if got := b.Cause("p1", i); got != want {
			t.Errorf("%d: %q, want %q", i, got, want)
		}
	}
	b.policy.Starting = func(a *Actual) string { return fmt.Sprint("start of ", a.Key.Index, " on ", a.Cell) }
	a := rowOf(t, "CLAIMED self")
	a.Key.Index = 3
	b.PutIndex(Index{Key: a.Key, Ordinary: a})
	for i, want := range []string{"", "crashed: exit status 1", "insufficient resources", "start of 3 on " + a.Cell} {
		if got := b.Cause("p1", i); got != want {
			t.Errorf("with starts, %d: %q, want %q", i, got, want)
		}
	}
	if b.Top("p1") != 4 || b.Top("p9") != 0 || !b.Exists("p1", 3) || b.Exists("p1", 4) {
		t.Error("what there is", b.Top("p1"))
	}
	b.QuarantineIndex(Key{"p1", 7}, true)
	b.QuarantineIndex(Key{"p9", 2}, true)
	if b.Top("p1") != 8 || b.Top("p9") != 3 || !b.Exists("p1", 7) || b.Exists("p1", 6) || !b.Exists("p9", 2) {
		t.Error("what cannot be read may run", b.Top("p1"), b.Top("p9"))
	}
}

// TestARowOfARolloutMovesItsService: a change of one row has the service looked at while it
// rolls, goes, or has more than one version.
func TestARowOfARolloutMovesItsService(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Service)
		want   bool
	}{
		"steady":      {func(*Service) {}, false},
		"rolling out": {func(s *Service) { s.Phase = RollingOut }, true},
		"removed":     {func(s *Service) { s.Removed = true }, true},
		"two versions": {func(s *Service) {
			v := s.Versions[0]
			v.Process, v.Number = "p2", 2
			s.Versions = append(s.Versions, v)
		}, true},
	} {
		b := boardOf(t, 1, plainService)
		s := b.Service(svc).clone()
		c.change(s)
		b.PutService(s)
		b.Converge(t0)
		a := rowOf(t, "RUNNING self")
		b.PutIndex(Index{Key: key0, Ordinary: a})
		if _, got := b.dirtySvcs[svc]; got != c.want {
			t.Errorf("%s: looked at %v", name, got)
		}
	}
}

// TestADrainWaitsForARollout: while a stop-first rollout takes index 0 from one version to the
// next, a drain stops no other index, of either version.
func TestADrainWaitsForARollout(t *testing.T) {
	b := boardOf(t, 3, func(d *Desired) { d.Strategy = StopFirst })
	for i := range 3 {
		a := rowOf(t, "RUNNING self")
		a.Key.Index = i
		b.PutIndex(Index{Key: a.Key, Ordinary: a})
	}
	s := b.Service(svc).clone()
	v := s.Versions[0]
	v.Process, v.Number, v.Low, v.High = "p2", 2, 0, 0
	s.Versions[0].Low = 1 // index 0 is given up, and not wanted of the next one before it is gone
	s.Versions = append(s.Versions, v)
	b.PutService(s)
	others := func(process string, i int) bool { return b.Env(Key{process, i}, t0).OthersRunning }
	if !others("p1", 0) || others("p1", 1) || others("p1", 2) {
		t.Error("index 0 is being replaced")
	}
	b.PutIndex(Index{Key: Key{"p1", 0}})
	s = s.clone()
	s.Versions[1].High = 1
	b.PutService(s)
	if others("p1", 1) || others("p1", 2) {
		t.Error("index 0 has not begun yet")
	}
	b.PutIndex(Index{Key: Key{"p2", 0}, Ordinary: rowWith(t, "RUNNING self", func(a *Actual) { a.Key = Key{"p2", 0} })})
	if !others("p1", 1) || !others("p1", 2) || !others("p2", 0) {
		t.Error("all run")
	}
}

// TestRunningIsCounted: a row counts if it is wanted, serves and is not to be stopped. The count follows changes of
// rows and ranges.
func TestRunningIsCounted(t *testing.T) {
	b := boardOf(t, 3, func(d *Desired) { d.Strategy = StopFirst })
	others := func(i int) bool { return b.Env(Key{"p1", i}, t0).OthersRunning }
	for i := range 4 { // index 3 is one too many
		a := rowOf(t, "RUNNING self")
		a.Key.Index = i
		b.PutIndex(Index{Key: a.Key, Ordinary: a})
		for j := range 4 {
			want := i >= 2 || i == 1 && j == 2
			if got := others(j); got != want {
				t.Errorf("%d run: others of %d: %v", i+1, j, got)
			}
		}
	}
	b.PutService(b.Service(svc).Scale(4))
	if !others(0) {
		t.Error("index 3 is wanted now, and runs")
	}
	b.PutIndex(Index{Key: key1, Ordinary: rowWith(t, "RUNNING self", func(a *Actual) { a.Key, a.Retiring = key1, true })})
	if others(0) || !others(1) {
		t.Error("index 1 is to be stopped")
	}
	if env := b.Env(Key{"nothing", 0}, t0); env.Desired != nil || env.Wanted || env.Fresh || env.OthersRunning {
		t.Errorf("%+v", env)
	}
	b.DeleteService(svc)
	if env := b.Env(key0, t0); env.Desired != nil || env.Wanted || !env.Fresh {
		t.Errorf("an orphan: %+v", env)
	}
	b.DeleteService(svc)
	if got := fmt.Sprint(len(b.Orphans()), len(b.Services())); got != "4 0" {
		t.Error(got)
	}
}

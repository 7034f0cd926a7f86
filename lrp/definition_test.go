package lrp

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"cantina/action"
)

func TestTexts(t *testing.T) {
	for got, want := range map[fmt.Stringer]string{
		Steady: "steady", RollingOut: "rolling out", RollingBack: "rolling back", RollFailed: "rollout failed",
		NoCall: "-", CallClaim: "Claim", CallStart: "Start", CallCrash: "Crash", CallRemove: "Remove",
		CallEvacuate:        "Evacuate",
		CallEvacuateClaimed: "EvacuateClaimed", CallEvacuateStopped: "EvacuateStopped",
		CallEvacuateCrashed:  "EvacuateCrashed",
		CallRemoveEvacuating: "RemoveEvacuating", Ordinary: "ORDINARY", Evacuating: "EVACUATING", Suspect: "SUSPECT",
		Leave: "leave", RunContainer: "run", StopContainer: "stop", DeleteContainer: "delete",
	} {
		if got.String() != want {
			t.Errorf("%T %q, want %q", got, got, want)
		}
	}
}

func TestValidName(t *testing.T) {
	for name, want := range map[string]bool{
		"": false, ".": false, "..": false, "...": false, ".a": false, "-a": false, "_a": true, "a-": true, "123": true,
		"a": true, "z": true, "A": true, "Z": true, "0": true, "9": true, "-": false, "_": true, "a.b": true,
		strings.Repeat("x", 128): true, strings.Repeat("x", 129): false, "a/b": false, "a:b": false, "a@b": false,
		"a[b": false, "a`b": false, "a{b": false,
		"a b": false, "ü": false, "a\n": false,
	} {
		if got := ValidName(name); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}

// TestDefinitionsAtTheirBounds: each field alone, as far as it may go and one step further.
func TestDefinitionsAtTheirBounds(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Desired)
		want   string // "" = nothing is wrong
	}{
		"whole":             {func(*Desired) {}, ""},
		"no domain":         {func(d *Desired) { d.Service.Domain = "" }, "domain: "},
		"no name":           {func(d *Desired) { d.Service.Name = "a b" }, "name: "},
		"no instance":       {func(d *Desired) { d.Instances = 0 }, ""},
		"fewer":             {func(d *Desired) { d.Instances = -1 }, "instances: "},
		"a million":         {func(d *Desired) { d.Instances = 1_000_000 }, ""},
		"one more":          {func(d *Desired) { d.Instances = 1_000_001 }, "instances: at most 1000000"},
		"annotation":        {func(d *Desired) { d.Annotation = strings.Repeat("x", 10<<10) }, ""},
		"longer annotation": {func(d *Desired) { d.Annotation = strings.Repeat("x", 10<<10+1) }, "annotation: "},
		"routes":            {func(d *Desired) { d.Routes = map[string]string{"ab": strings.Repeat("x", 128<<10-2)} }, ""},
		"more routes": {func(d *Desired) { d.Routes = map[string]string{"ab": strings.Repeat("x", 128<<10-1)} },
			"routes: "},
		"replace after":        {func(d *Desired) { d.ReplaceAfter = -1 }, "replace_after: "},
		"batch":                {func(d *Desired) { d.Rollout.Batch = -1 }, "rollout: "},
		"settle":               {func(d *Desired) { d.Rollout.Settle = -1 }, "rollout: "},
		"deadline":             {func(d *Desired) { d.Rollout.ProgressDeadline = -1 }, "rollout: "},
		"never at once":        {func(d *Desired) { d.Restart.Immediate = -1 }, ""},
		"less than that":       {func(d *Desired) { d.Restart.Immediate = -2 }, "restart: "},
		"never give up":        {func(d *Desired) { d.Restart.GiveUp = -1 }, ""},
		"less than that too":   {func(d *Desired) { d.Restart.GiveUp = -2 }, "restart: "},
		"base":                 {func(d *Desired) { d.Restart.Base = -1 }, "restart: "},
		"max":                  {func(d *Desired) { d.Restart.Max = -1 }, "restart: must not"},
		"reset":                {func(d *Desired) { d.Restart.ResetAfter = -1 }, "restart: "},
		"workload":             {func(d *Desired) { d.Workload.User = "a b" }, "user: "},
		"the longest is short": {func(d *Desired) { d.Restart.Base, d.Restart.Max = 2, 1 }, "restart: max"},
	} {
		d := Desired{Service: svc, Instances: 1}
		c.change(&d)
		err := d.Validate()
		if (err == nil) != (c.want == "") || err != nil &&
			(!errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if _, err := Apply(nil, d, "p", t0); (err == nil) != (c.want == "") {
			t.Errorf("%s applied: %v", name, err)
		}
	}
	for name, c := range map[string]struct {
		d           Desired
		first, ends bool
		port        string
	}{
		"plain":     {Desired{}, false, false, ""},
		"exclusive": {Desired{Exclusive: true}, true, true, ""},
		"strategy":  {Desired{Strategy: StopFirst}, true, false, ""},
		"partition": {Desired{OnPartition: PartitionStop}, false, true, ""},
		"port": {Desired{Workload: action.Workload{Ports: []action.Port{{Name: "a"}, {Name: "b", Fixed: 1}}}}, false,
			false, "b"},
	} {
		if c.d.StopFirst() != c.first || c.d.DeadlineBound() != c.ends || c.d.FixedPort() != c.port {
			t.Errorf("%s: stop first %v, deadline-bound %v, port %q", name, c.d.StopFirst(), c.d.DeadlineBound(),
				c.d.FixedPort())
		}
	}
}

func TestWaitsAtTheirBounds(t *testing.T) {
	for name, c := range map[string]struct {
		p     RestartPolicy
		count int
		wait  time.Duration
		ever  bool
	}{
		"the last":           {RestartPolicy{GiveUp: 5}, 5, 2 * time.Minute, true},
		"one more":           {RestartPolicy{GiveUp: 5}, 6, 0, false},
		"never give up":      {RestartPolicy{GiveUp: -1}, math.MaxInt, 16 * time.Minute, true},
		"just below the max": {RestartPolicy{Base: 8 * time.Minute, Max: 16 * time.Minute}, 4, 16 * time.Minute, true},
		"not a multiple":     {RestartPolicy{Base: 7 * time.Minute, Max: 16 * time.Minute}, 5, 16 * time.Minute, true},
		"none at once":       {RestartPolicy{Immediate: -1}, 1, 30 * time.Second, true},
		"never":              {RestartPolicy{Mode: RestartNever}, 1, 0, false},
	} {
		if wait, ever := c.p.Wait(c.count); wait != c.wait || ever != c.ever {
			t.Errorf("%s: %v %v, want %v %v", name, wait, ever, c.wait, c.ever)
		}
	}
	p := RestartPolicy{}
	for name, a := range map[string]*Actual{
		"runs": {State: Running, Since: t0}, "finished": {State: Crashed, Finished: true, Since: t0},
		"given up": {State: Crashed, CrashCount: 201, Since: t0},
	} {
		if at, ever := p.RestartAt(a); ever || !at.IsZero() {
			t.Errorf("%s: %v %v", name, at, ever)
		}
	}
	if at, ever := p.RestartAt(&Actual{State: Crashed, CrashCount: 3, Since: t0}); !ever || at != t0.Add(30*time.Second) {
		t.Error(at, ever)
	}
}

func TestCheckNamesTheError(t *testing.T) {
	ordinary := func(f func(*Actual)) Index {
		a := &Actual{Key: key0, State: Running, Identity: alpha, Since: t0, Net: netA}
		f(a)
		return Index{Key: key0, Ordinary: a}
	}
	copied := func(is Presence, f func(*Index, *Actual)) Index {
		c := &Actual{Key: key0, State: Running, Identity: omega, Since: t0, Presence: is}
		x := Index{Key: key0}
		if is == Evacuating {
			x.Evacuating = c
		} else {
			x.Suspect = c
		}
		f(&x, c)
		return x
	}
	open := func(a *Actual) { a.State, a.Identity, a.Net = Unclaimed, Identity{}, Net{} }
	beside := func(f func(*Actual)) func(*Index, *Actual) {
		return func(x *Index, _ *Actual) {
			x.Ordinary = &Actual{Key: key0, State: Unclaimed, Since: t0}
			f(x.Ordinary)
		}
	}
	serves := func(a *Actual) { a.State, a.Identity, a.Net = Running, alpha, netA }
	for name, c := range map[string]struct {
		x    Index
		want string
	}{
		"none":                     {Index{Key: key0}, ""},
		"runs":                     {ordinary(func(*Actual) {}), ""},
		"waits":                    {ordinary(open), ""},
		"another key":              {ordinary(func(a *Actual) { a.Key.Index = 9 }), "another index's key"},
		"presence":                 {ordinary(func(a *Actual) { a.Presence = Suspect }), "wrong presence"},
		"no since":                 {ordinary(func(a *Actual) { a.Since = time.Time{} }), "no since"},
		"a claimed copy":           {copied(Suspect, func(_ *Index, c *Actual) { c.State = Claimed }), "not RUNNING"},
		"a claimed evacuee":        {copied(Evacuating, func(_ *Index, c *Actual) { c.State = Claimed }), "not RUNNING"},
		"an error of placement":    {ordinary(func(a *Actual) { a.PlacementError = "x" }), "a placement error"},
		"no place":                 {ordinary(func(a *Actual) { open(a); a.PlacementError = "x" }), ""},
		"no instance":              {ordinary(func(a *Actual) { a.Instance = "" }), "do not fit"},
		"no cell":                  {ordinary(func(a *Actual) { a.Cell = "" }), "do not fit"},
		"claimed without a cell":   {ordinary(func(a *Actual) { open(a); a.State = Claimed }), "do not fit"},
		"crashed somewhere":        {ordinary(func(a *Actual) { a.State, a.Net = Crashed, Net{} }), "do not fit"},
		"waits while it runs":      {ordinary(func(a *Actual) { a.NotBefore = t0 }), "waits for a copy outside"},
		"waits for a missing copy": {ordinary(func(a *Actual) { open(a); a.NotBefore = t0 }), "a copy that is not there"},
		"waits for a copy":         {copied(Suspect, beside(func(a *Actual) { a.NotBefore = t0 })), ""},
		"replaces while it waits":  {ordinary(func(a *Actual) { open(a); a.Replaces = omega }), "took the place"},
		"a copy that replaces":     {copied(Suspect, func(_ *Index, c *Actual) { c.Replaces = alpha }), "took the place"},
		"replaces":                 {ordinary(func(a *Actual) { a.Replaces = omega }), ""},
		"retiring, held by none":   {ordinary(func(a *Actual) { open(a); a.Retiring = true }), "retiring"},
		"retiring":                 {ordinary(func(a *Actual) { a.Retiring = true }), ""},
		"finished, but runs":       {ordinary(func(a *Actual) { a.Finished = true }), "finished"},
		"finished":                 {ordinary(func(a *Actual) { open(a); a.State, a.Finished = Crashed, true }), ""},
		"an address of none":       {ordinary(func(a *Actual) { open(a); a.Net.Address = "1.2.3.4" }), "an address"},
		"a port of none": {ordinary(func(a *Actual) { open(a); a.Net.Ports = make([]action.Mapping, 1) }),
			"an address"},
		"both copies": {copied(Suspect, func(x *Index,
			c *Actual) {
			e := *c
			e.Presence = Evacuating
			x.Evacuating = &e
		}), "at once"},
		"exclusive and suspect": {copied(Suspect, beside(func(a *Actual) { a.Exclusive = true })), "exclusive"},
		"exclusive and leaving": {copied(Evacuating, beside(func(a *Actual) { a.Exclusive = true })), "exclusive"},
		"exclusive alone":       {ordinary(func(a *Actual) { a.Exclusive = true }), ""},
		"suspect and serving":   {copied(Suspect, beside(serves)), "a suspect copy beside"},
		"leaving and serving":   {copied(Evacuating, beside(serves)), "an evacuating copy beside"},
		"suspect and waiting":   {copied(Suspect, beside(func(*Actual) {})), ""},
	} {
		err := Check(c.x)
		if (err == nil) != (c.want == "") || err != nil &&
			(!errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestCheckServiceNamesTheError(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Service)
		want   string
	}{
		"whole":             {func(*Service) {}, ""},
		"no version":        {func(s *Service) { s.Versions = nil }, "no version"},
		"no process":        {func(s *Service) { s.Versions[0].Process = "" }, "without a process"},
		"the same process":  {func(s *Service) { s.Versions[0].Process = "p2" }, "without a process"},
		"number 0":          {func(s *Service) { s.Versions[0].Number = 0 }, "version number 0"},
		"a number to come":  {func(s *Service) { s.Versions[0].Number = 3 }, "version number 3"},
		"a number twice":    {func(s *Service) { s.Versions[0].Number = 2 }, "version number 2"},
		"another service":   {func(s *Service) { s.Versions[0].Service.Name = "other" }, "a version of service"},
		"below 0":           {func(s *Service) { s.Versions[0].Low = -1 }, "wants the indices"},
		"the wrong way":     {func(s *Service) { s.Versions[0].Low, s.Versions[0].High = 2, 1 }, "wants the indices"},
		"more than wanted":  {func(s *Service) { s.Versions[1].High = 4 }, "wants the indices"},
		"too many":          {func(s *Service) { s.Instances = MaxInstances + 1 }, "1000001 instances, at most 1000000"},
		"as many as can be": {func(s *Service) { s.Instances = MaxInstances }, ""},
		"none of it":        {func(s *Service) { s.Versions[0].Low, s.Versions[0].High = 3, 3 }, ""},
		"a wrong defintion": {func(s *Service) { s.Versions[1].Rollout.Batch = -1 }, "rollout"},
	} {
		version := func(n int) Version {
			return Version{Desired: Desired{Service: svc, Process: fmt.Sprint("p", n), Instances: 3}, Number: n, High: 3}
		}
		s := &Service{Key: svc, Instances: 3, Numbers: 2, Versions: []Version{version(1), version(2)}}
		c.change(s)
		err := CheckService(s)
		if (err == nil) != (c.want == "") || err != nil &&
			(!errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestScale has the immediate count, the target of a rollout, and the cases without a change.
func TestScale(t *testing.T) {
	d := Desired{Service: svc, Instances: 4}
	steady, err := Apply(nil, d, "p1", t0)
	if err != nil {
		t.Fatal(err)
	}
	steady.Phase, steady.Versions[0].Good = Steady, true
	if s := steady.Scale(4); s != steady {
		t.Error("nothing changes")
	}
	d.Stack = "new"
	rolling, err := Apply(steady, d, "p2", t0)
	if err != nil {
		t.Fatal(err)
	}
	rolling.Versions[0].Low, rolling.Versions[1].High = 1, 1
	failed, kept := rolling.clone(), rolling.clone()
	failed.Phase, failed.Versions = RollFailed, failed.Versions[1:]
	kept.Phase = RollFailed
	for name, c := range map[string]struct {
		s    *Service
		n    int
		want string
	}{
		"steady, more":           {steady, 6, "[0 6]"},
		"steady, fewer":          {steady, 2, "[0 2]"},
		"rolling, more":          {rolling, 6, "[1 4] [0 1]"},
		"rolling, fewer":         {rolling, 2, "[1 2] [0 1]"},
		"rolling, none":          {rolling, 0, "[0 0] [0 0]"},
		"failed, nothing before": {failed, 6, "[0 6]"},
		"failed, left as it is":  {kept, 6, "[1 4] [0 1]"},
	} {
		s := c.s.Scale(c.n)
		got := ""
		for _, v := range s.Versions {
			got += fmt.Sprintf(" [%d %d]", v.Low, v.High)
		}
		if got[1:] != c.want || s.Instances != c.n || s.Target().Instances != c.n {
			t.Errorf("%s:%s, want %s", name, got, c.want)
		}
	}
	removed := rolling.Remove()
	if removed.Instances != 0 || !removed.Removed || removed.Phase != Steady ||
		removed.Versions[0].High+removed.Versions[1].High != 0 {
		t.Errorf("removed: %+v", removed)
	}
	if s := removed.Scale(0); s == removed {
		t.Error("a removed service is another one than one of no instance")
	}
	if removed.Restart("p", t0) != removed || steady.Scale(0).Restart("p", t0).Numbers != 1 ||
		(&Service{}).Restart("p", t0).Numbers != 0 {
		t.Error("nothing is wanted: nothing is to be started afresh")
	}
	d.Stack = ""
	again, err := Apply(removed, d, "p3", t0)
	if err != nil || again.Removed || again.Numbers != 3 {
		t.Errorf("applied again: %+v, %v", again, err)
	}
	d.Stack = "new"
	if again, err = Apply(removed, d, "p3", t0); err != nil || again.Removed || again.Numbers != 3 {
		t.Errorf("the same one applied again: %+v, %v", again, err)
	}
}

// TestAppliedInPlace: routes, annotation and instances change no process, one by one.
func TestAppliedInPlace(t *testing.T) {
	d := Desired{Service: svc, Instances: 2, Annotation: "a", Routes: map[string]string{"r": "1"}}
	s, err := Apply(nil, d, "p1", t0)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Desired){
		"annotation": func(d *Desired) { d.Annotation = "b" },
		"routes":     func(d *Desired) { d.Routes = map[string]string{"r": "2"} },
		"instances":  func(d *Desired) { d.Instances = 3 },
		"all":        func(d *Desired) { d.Annotation, d.Routes, d.Instances = "", nil, 1 },
	} {
		e := d
		change(&e)
		n, err := Apply(s, e, "p2", t0)
		if err != nil || n == s || n.Numbers != 1 || n.Instances != e.Instances || n.Target().Annotation != e.Annotation ||
			fmt.Sprint(n.Target().Routes) != fmt.Sprint(e.Routes) {
			t.Errorf("%s: %+v, %v", name, n, err)
		}
		if s.Target().Annotation != "a" || s.Instances != 2 || s.Target().Routes["r"] != "1" {
			t.Fatalf("%s: the old value has changed", name)
		}
	}
	if n, err := Apply(s, d, "p2", t0); err != nil || n != s {
		t.Errorf("the same: %v", err)
	}
}

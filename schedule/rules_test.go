package schedule

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"cantina/task"
)

// filled returns a state of which no field is zero.
func filled() State {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	return State{
		Cursor: at, Done: []Span{{Until: at}}, Skew: time.Second, Paused: true, Pending: []Firing{{At: at}}, Backlog: 1,
		Ahead: []time.Time{at},
		Live:  []Run{{ID: "r"}}, Open: []Span{{Until: at, Why: WhyLate}}, History: []Entry{{At: at}}, Fired: 1, Skipped: 1,
	}
}

// TestEqualTakesEveryField: a change of any one is stored.
func TestEqualTakesEveryField(t *testing.T) {
	a, b := filled(), filled()
	if !a.Equal(&b) {
		t.Fatal("two equal states")
	}
	fields := reflect.TypeFor[State]()
	for i := range fields.NumField() {
		x, y := filled(), filled()
		v := reflect.ValueOf(&y).Elem().Field(i)
		if v.IsZero() {
			t.Fatalf("%s is not filled", fields.Field(i).Name)
		}
		v.SetZero()
		if x.Equal(&y) || y.Equal(&x) {
			t.Errorf("%s makes no difference", fields.Field(i).Name)
		}
	}
}

func TestPhases(t *testing.T) {
	late, onTime := Firing{Late: true}, Firing{}
	for name, c := range map[string]struct {
		s    State
		want string
	}{
		"paused":                       {State{Paused: true, Pending: []Firing{late}}, Paused},
		"nothing is due":               {State{Live: []Run{{Late: true}}}, Waiting},
		"a missed time runs":           {State{Pending: []Firing{late}, Live: []Run{{Late: true}}}, CatchingUp},
		"a missed time waits":          {State{Pending: []Firing{late}}, Undecided},
		"one of the runs was on time":  {State{Pending: []Firing{late}, Live: []Run{{Late: true}, {}}}, Undecided},
		"a due time was not missed":    {State{Pending: []Firing{onTime}, Live: []Run{{Late: true}}}, Undecided},
		"the run before it is in time": {State{Pending: []Firing{late}, Live: []Run{{}}}, Undecided},
	} {
		if got := c.s.Phase(); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestLeadAtItsBound: the permitted difference between the clocks of two machines is no lead.
func TestLeadAtItsBound(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct{ ahead, skew, want time.Duration }{
		{2 * time.Second, 0, 0}, {2*time.Second + 1, 0, 2 * time.Second}, {time.Minute + 1, 0, time.Minute},
		{-time.Hour, 0, 0},
		{time.Minute, time.Minute, 0}, {time.Minute, -time.Minute, 2 * time.Minute},
	} {
		s := State{Cursor: now.Add(c.ahead), Skew: c.skew}
		if got := s.Lead(now); got != c.want {
			t.Errorf("%v ahead, skew %v: %v, want %v", c.ahead, c.skew, got, c.want)
		}
	}
}

// TestAnswerOfATask has whether a run may still run, by its row, its cell and the elapsed time.
func TestAnswerOfATask(t *testing.T) {
	on := task.Holder{Cell: "c", Proc: "p"}
	def := &task.Definition{}
	for name, c := range map[string]struct {
		t           *task.Task
		heard, dead bool
		want        Answer
	}{
		"no row":                 {nil, true, false, Ended},
		"waits":                  {&task.Task{State: task.Pending}, false, false, Running},
		"runs, heard":            {&task.Task{State: task.Running, Holder: on}, true, false, Running},
		"runs, not heard":        {&task.Task{State: task.Running, Holder: on}, false, false, Unknown},
		"runs, its cell is dead": {&task.Task{State: task.Running, Holder: on}, false, true, Running},
		"ended": {&task.Task{State: task.Completed, Outcome: task.Failed, Holder: on, Definition: def},
			true, false, Ended},
		"lost, may run on": {&task.Task{State: task.Completed, Outcome: task.Lost, MayStillRun: true, Holder: on,
			Definition: def}, false, true, Running},
		"lost, may run on, resolved": {&task.Task{State: task.Completed, Outcome: task.Lost, MayStillRun: true,
			Resolution: task.ResolvedDone, Holder: on, Definition: def}, false, true, Ended},
		"lost, ended by its deadline": {&task.Task{State: task.Completed, Outcome: task.Lost, Holder: on, Definition: def},
			false, true, Ended},
		"cancelled, still ending": {&task.Task{State: task.Completed, Outcome: task.Cancelled, Holder: on,
			Definition: def}, true, false, Running},
		"cancelled, its cell is dead": {&task.Task{State: task.Completed, Outcome: task.Cancelled, Holder: on,
			Definition: def}, true, true, Ended},
	} {
		if got := OfTask(c.t, 0, c.heard, c.dead); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestDefinitionsAtTheirBounds: each field alone, as far as it may go and one step further.
func TestDefinitionsAtTheirBounds(t *testing.T) {
	signal := func(d *Definition) { d.Task, d.Signal = nil, &Signal{Service: "web", Number: 1} }
	for name, c := range map[string]struct {
		change func(*Definition)
		want   string // "" = nothing is wrong
	}{
		"whole":          {func(*Definition) {}, ""},
		"nothing to run": {func(d *Definition) { d.Task = nil }, "exactly one of task"},
		"two things to run": {func(d *Definition) { d.Signal = &Signal{Service: "web", Number: 1} },
			"exactly one of task"},
		"no calendar":              {func(d *Definition) { d.Line = "" }, "exactly one of a crontab line"},
		"two calendars":            {func(d *Definition) { d.JSON = "{}" }, "exactly one of a crontab line"},
		"overlap without a bound":  {func(d *Definition) { d.Overlap = OverlapAllow }, "needs overlap_max"},
		"a bound without overlap":  {func(d *Definition) { d.Max = 1 }, "belongs to overlap allow"},
		"overlap":                  {func(d *Definition) { d.Overlap, d.Max = OverlapAllow, 1000 }, ""},
		"more overlap":             {func(d *Definition) { d.Overlap, d.Max = OverlapAllow, 1001 }, "at most 1000"},
		"misfires":                 {func(d *Definition) { d.Misfire, d.MisfireMax = MisfireAll, 1000 }, ""},
		"more misfires":            {func(d *Definition) { d.Misfire, d.MisfireMax = MisfireAll, 1001 }, "at most 1000"},
		"fewer misfires":           {func(d *Definition) { d.Misfire, d.MisfireMax = MisfireAll, -1 }, "at most 1000"},
		"a bound without misfires": {func(d *Definition) { d.MisfireMax = 1 }, "belongs to misfire all"},
		"deadline":                 {func(d *Definition) { d.Deadline = -1 }, "must not be negative"},
		"jitter":                   {func(d *Definition) { d.Jitter = -1 }, "must not be negative"},
		"signal":                   {signal, ""},
		"signal 64":                {func(d *Definition) { signal(d); d.Signal.Number = 64 }, ""},
		"signal 65":                {func(d *Definition) { signal(d); d.Signal.Number = 65 }, "from 1 to 64"},
		"signal 0":                 {func(d *Definition) { signal(d); d.Signal.Number = 0 }, "from 1 to 64"},
		"signal without a service": {func(d *Definition) { signal(d); d.Signal.Service = "" }, "name of a service"},
		"signal, several times": {func(d *Definition) { signal(d); d.Misfire = MisfireAll },
			"missed signals are sent at most once"},
		"signal, overlap":        {func(d *Definition) { signal(d); d.Overlap = OverlapReplace }, "overlap belongs to"},
		"a task that is refused": {func(d *Definition) { d.Task.PendingTimeout = -1 }, "pending_timeout"},
	} {
		d := Definition{Calendar: Calendar{Line: "* * * * *"}, Task: &task.Definition{}}
		c.change(&d)
		err := d.Validate()
		if (err == nil) != (c.want == "") || err != nil &&
			(!strings.Contains(err.Error(), c.want) || !errors.Is(err, ErrInvalid) && c.want != "pending_timeout") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	k := Key{Domain: "d", Name: "n"}
	seen := map[time.Duration]bool{}
	for i := range 200 {
		k.Name = strings.Repeat("x", i+1)
		at := Offset(k, 3*time.Second)
		if at < 0 || at > 3*time.Second || at%time.Second != 0 {
			t.Fatalf("%v after its time", at)
		}
		seen[at] = true
		if Offset(k, time.Second-1) != 0 {
			t.Fatal("a jitter below one second is none")
		}
	}
	if len(seen) != 4 {
		t.Errorf("offsets %v, want each of 0 to 3 s", seen)
	}
}

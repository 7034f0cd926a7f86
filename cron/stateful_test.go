package cron_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"cantina/cron"
)

// machine is a computer with two clocks and a zone.
type machine struct {
	wall time.Time
	mono time.Duration
	zone *time.Location
}

func (m *machine) clocks() cron.Clocks {
	return cron.Clocks{
		System:    func() time.Time { return m.wall },
		Monotonic: func() time.Duration { return m.mono },
		Zone:      func() *time.Location { return m.zone },
	}
}

// pass lets real time go by, step moves the wall clock alone.
func (m *machine) pass(d time.Duration) { m.wall, m.mono = m.wall.Add(d), m.mono+d }
func (m *machine) step(d time.Duration) { m.wall = m.wall.Add(d) }

// scene is a machine with a Stateful on it.
type scene struct {
	*testing.T
	machine
	s    *cron.Stateful
	last cron.Finding
}

const quarters = `{"minute":{"period":15},"dst_fixes":["skip","repeat_use_both"],` +
	`"max_shift_seconds_for_unskip_and_do_not_repeat":7200}`

func newScene(t *testing.T, item, zoneName, start string) *scene {
	t.Helper()
	it, err := cron.ParseJSON([]byte(item))
	must(t, err)
	sc := &scene{T: t, machine: machine{wall: at(t, start), zone: load(t, loader(t), zoneName)}}
	sc.s, err = cron.NewStateful(it, sc.clocks(), cron.StatefulOptions{})
	must(t, err)
	return sc
}

// poll gives the events that fire now, as local times.
func (sc *scene) poll() string {
	sc.Helper()
	var err error
	sc.last, err = sc.s.Poll()
	must(sc, err)
	var out []string
	for e := range sc.s.Due() {
		out = append(out, e.At.Format("15:04"))
	}
	return strings.Join(out, " ")
}

func (sc *scene) want(want string) {
	sc.Helper()
	if got := sc.poll(); got != want {
		sc.Errorf("at %v: fires %q, want %q (%+v)", sc.wall, got, want, sc.last)
	}
}

func TestQuietLife(t *testing.T) {
	sc := newScene(t, quarters, "Europe/Berlin", "2026-01-10T11:59:30Z")
	sc.want("")
	for _, want := range []string{"13:00", "", "", "", "", "", "", "", "", "", "", "", "", "", "", "13:15", ""} {
		sc.pass(time.Minute)
		sc.want(want)
		if sc.last.Step != 0 || sc.last.ZoneShift != 0 || sc.last.Net != time.Minute {
			t.Errorf("found %+v", sc.last)
		}
	}
}

func TestSmallStepsChangeNothing(t *testing.T) {
	sc := newScene(t, quarters, "Europe/Berlin", "2026-01-10T11:00:30Z")
	fired := map[string]int{}
	for i := range 600 { // ten hours, with a step of a few seconds each minute
		sc.pass(time.Minute)
		sc.step(time.Duration([]int{-3, 2, -2, 3, 4, -4}[i%6]) * time.Second)
		for _, e := range strings.Fields(sc.poll()) {
			fired[e]++
		}
	}
	if len(fired) != 40 {
		t.Errorf("%d different events in ten hours of quarters", len(fired))
	}
	for e, n := range fired {
		if n != 1 {
			t.Errorf("%s fired %d times", e, n)
		}
	}
}

func TestSingleDisruptions(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(*scene)
		want string
		then string // after another hour
		late int64
	}{
		"step forward an hour": {func(s *scene) { s.step(time.Hour) }, "13:15 13:30 13:45 14:00",
			"14:15 14:30 14:45 15:00", 0},
		"step forward three hours": {func(s *scene) { s.step(3 * time.Hour) },
			"14:15 14:30 14:45 15:00 15:15 15:30 15:45 16:00", "16:15 16:30 16:45 17:00", 4},
		"step back an hour": {func(s *scene) { s.step(-time.Hour) }, "", "", 0},
		"step back three hours": {func(s *scene) { s.step(-3 * time.Hour) }, "", "10:15 10:30 10:45 11:00",
			0},
		"suspended for an hour": {func(s *scene) { s.pass(time.Hour) }, "13:15 13:30 13:45 14:00",
			"14:15 14:30 14:45 15:00", 0},
		"suspended for four hours": {func(s *scene) { s.pass(4 * time.Hour) },
			"15:15 15:30 15:45 16:00 16:15 16:30 16:45 17:00", "17:15 17:30 17:45 18:00", 8},
		"zone an hour further east": {func(s *scene) { s.zone = load(s, loader(s), "Europe/Athens") },
			"13:15 13:30 13:45 14:00", "14:15 14:30 14:45 15:00", 0},
		"zone an hour further west": {func(s *scene) { s.zone = load(s, loader(s), "Europe/London") }, "", "", 0},
		"zone eight hours east": {func(s *scene) { s.zone = load(s, loader(s), "Asia/Tokyo") },
			"19:15 19:30 19:45 20:00 20:15 20:30 20:45 21:00", "21:15 21:30 21:45 22:00", 24},
		"zone six hours west": {func(s *scene) { s.zone = load(s, loader(s), "America/New_York") }, "",
			"07:15 07:30 07:45 08:00", 0},
		"another zone with the same local time": {func(s *scene) { s.zone = load(s, loader(s), "Africa/Lagos") }, "",
			"13:15 13:30 13:45 14:00", 0},
	} {
		t.Run(name, func(t *testing.T) {
			sc := newScene(t, quarters, "Europe/Berlin", "2026-01-10T12:00:30Z")
			sc.T = t
			c.do(sc)
			sc.want(c.want)
			if sc.last.TooOld != c.late {
				t.Errorf("%d too old, want %d", sc.last.TooOld, c.late)
			}
			sc.pass(time.Hour)
			sc.want(c.then)
		})
	}
}

// disruptions are the three kinds, each by plus and minus an hour of local time.
func disruptions(t *testing.T) map[string]func(*machine) {
	zones := loader(t)
	return map[string]func(*machine){
		"step +1h":      func(m *machine) { m.step(time.Hour) },
		"step -1h":      func(m *machine) { m.step(-time.Hour) },
		"zone +1h":      func(m *machine) { m.zone = load(t, zones, "Europe/Athens") },
		"zone -1h":      func(m *machine) { m.zone = load(t, zones, "Europe/London") },
		"suspended 1h":  func(m *machine) { m.pass(time.Hour) },
		"suspended 90m": func(m *machine) { m.pass(90 * time.Minute) },
	}
}

// hours is by how much each disruption moves local time.
func hours(name string) (d time.Duration) {
	d, _ = time.ParseDuration(strings.TrimPrefix(name[strings.LastIndex(name, " ")+1:], "+"))
	return d
}

// TestPairsAndTriplesAddUp does every pair and every triple of disruptions of
// different kinds between two polls, and checks that only the sum counts.
func TestPairsAndTriplesAddUp(t *testing.T) {
	all := disruptions(t)
	kind := func(name string) string { return strings.Fields(name)[0] }
	n := 0
	run := func(names ...string) {
		n++
		t.Run(strings.Join(names, ", "), func(t *testing.T) {
			sc := newScene(t, quarters, "Europe/Berlin", "2026-01-10T12:00:30Z")
			sc.T = t
			var net time.Duration
			for _, name := range names {
				all[name](&sc.machine)
				net += hours(name)
			}
			var want []string
			local := time.Date(2026, 1, 10, 13, 0, 30, 0, time.UTC) // the display of the clock on the wall
			for e := local.Truncate(15 * time.Minute).Add(15 * time.Minute); !e.After(local.Add(net)); e = e.Add(
				15 * time.Minute) {
				if local.Add(net).Sub(e) <= 2*time.Hour {
					want = append(want, e.Format("15:04"))
				}
			}
			sc.want(strings.Join(want, " "))
			if sc.last.Net != net {
				t.Errorf("net %v, want %v: %+v", sc.last.Net, net, sc.last)
			}
			// After any history, each quarter of the next six hours of local time after the furthest point fires
			// once.
			furthest := local.Add(max(net, 0))
			if net < -2*time.Hour {
				furthest = local.Add(net)
			}
			fired := map[string]int{}
			for range 6 * 60 {
				sc.pass(time.Minute)
				for _, e := range strings.Fields(sc.poll()) {
					fired[e]++
				}
			}
			for i := range 12 {
				e := furthest.Truncate(15 * time.Minute).Add(time.Duration(i+1) * 15 * time.Minute).Format("15:04")
				if fired[e] != 1 {
					t.Errorf("%s fired %d times: %v", e, fired[e], fired)
				}
			}
		})
	}
	for a := range all {
		for b := range all {
			if kind(a) < kind(b) {
				run(a, b)
			}
			for c := range all {
				if kind(a) < kind(b) && kind(b) < kind(c) {
					run(a, b, c)
				}
			}
		}
	}
	if n != 3*4+8 {
		t.Errorf("%d combinations", n)
	}
}

func TestSuspensionAndStepCancelOut(t *testing.T) {
	sc := newScene(t, quarters, "Europe/Berlin", "2026-01-10T12:00:30Z")
	sc.pass(time.Hour)
	sc.step(-time.Hour)
	sc.want("")
	if sc.last.Elapsed != time.Hour || sc.last.Step != -time.Hour || sc.last.Net != 0 {
		t.Errorf("found %+v", sc.last)
	}
	sc.pass(15 * time.Minute)
	sc.want("13:15")
}

func TestAYearAtOnce(t *testing.T) {
	var sc *scene
	least := time.Hour // of some tries: another program may have the processor meanwhile
	for range 5 {
		sc = newScene(t,
			`{"seconds":[],"minute":[],"dst_fixes":["skip","repeat_use_both"],`+
				`"max_shift_seconds_for_unskip_and_do_not_repeat":3}`, "Europe/Berlin", "2026-01-10T12:00:30Z")
		sc.step(365 * 24 * time.Hour)
		begin := time.Now()
		if got := sc.poll(); got != "13:00 13:00 13:00 13:00" { // seconds 27 to 30
			t.Errorf("fires %s", got)
		}
		least = min(least, time.Since(begin))
	}
	if least > 50*time.Millisecond {
		t.Errorf("a year took %v", least)
	}
	if sc.last.TooOld != 365*24*3600-4 {
		t.Errorf("%d too old", sc.last.TooOld)
	}
	sc.step(-365 * 24 * time.Hour)
	sc.want("")
	if !sc.last.Forgot {
		t.Error("a year back was not forgotten")
	}
	sc.pass(2 * time.Second)
	sc.want("13:00 13:00")
}

func TestEpochItemsIgnoreTheZone(t *testing.T) {
	sc := newScene(t, `{"epoch":{"period":900},"max_shift_seconds_for_unskip_and_do_not_repeat":7200}`, "Europe/Berlin",
		"2026-01-10T12:00:30Z")
	if sc.s.TimezoneDependent() {
		t.Error("depends on the zone")
	}
	sc.zone = load(t, loader(t), "Asia/Tokyo")
	sc.want("")
	if sc.last.ZoneShift != 0 {
		t.Errorf("found %+v", sc.last)
	}
	sc.pass(15 * time.Minute)
	sc.want("12:15")
	sc.step(-10 * time.Minute)
	sc.want("")
	sc.pass(20 * time.Minute)
	sc.want("")
	sc.pass(10 * time.Minute)
	sc.want("12:30")
}

func TestMaxShiftIsMandatoryButForEpoch(t *testing.T) {
	m := machine{wall: at(t, "2026-01-10T12:00:30Z")}
	it, err := cron.ParseJSON([]byte(`{"minute":0,"dst_fixes":["skip","repeat_use_both"]}`))
	must(t, err)
	if _, err := cron.NewStateful(it, m.clocks(), cron.StatefulOptions{}); !errors.Is(err, cron.ErrSyntax) ||
		!strings.Contains(err.Error(), "max_shift_seconds") {
		t.Errorf("without max_shift: %v", err)
	}
	if _, err := cron.NewStateful(it, m.clocks(), cron.StatefulOptions{MaxShift: time.Hour}); !errors.Is(err,
		cron.ErrNoZone) {
		t.Errorf("without a zone: %v", err)
	}
	if it, err = cron.ParseJSON([]byte(`{"epoch":{"period":300}}`)); err != nil {
		t.Fatal(err)
	}
	s, err := cron.NewStateful(it, m.clocks(), cron.StatefulOptions{})
	must(t, err)
	m.pass(time.Hour) // without a setting the newest missed event fires
	_, err = s.Poll()
	must(t, err)
	n := 0
	for range s.Due() {
		n++
	}
	if n != 1 {
		t.Errorf("%d events after an hour of suspension", n)
	}
}

func TestSetZone(t *testing.T) {
	it, err := cron.ParseJSON([]byte(quarters))
	must(t, err)
	m := machine{wall: at(t, "2026-01-10T12:00:30Z")}
	c := m.clocks()
	c.Zone = nil
	zones := loader(t)
	s, err := cron.NewStateful(it, c, cron.StatefulOptions{Zone: load(t, zones, "Asia/Shanghai")})
	must(t, err)
	s.SetZone(load(t, zones, "Pacific/Honolulu"))
	f, err := s.Poll()
	must(t, err)
	if f.ZoneShift != -18*time.Hour || !f.Forgot {
		t.Errorf("from Shanghai to Hawaii: %+v", f)
	}
}

func TestLabelledEvents(t *testing.T) {
	sc := newScene(t, quarters, "Europe/Berlin", "2026-01-10T12:00:30Z")
	labelled := func() string {
		_, err := sc.s.Poll()
		must(t, err)
		var out []string
		for e := range sc.s.Events() {
			out = append(out, fmt.Sprintf("%s %v %v %v", e.At.Format("15:04"), e.Label, e.Shift, e.Fire))
		}
		return strings.Join(out, "; ")
	}
	expect := func(want string) {
		t.Helper()
		if got := labelled(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	sc.step(150 * time.Minute) // 13:00:30 to 15:30:30
	expect("13:15 skipped 2h15m30s false; 13:30 skipped 2h0m30s false; 13:45 skipped 1h45m30s true; " +
		"14:00 skipped 1h30m30s true; 14:15 skipped 1h15m30s true; 14:30 skipped 1h0m30s true; 14:45 skipped 45m30s true; " +
		"15:00 skipped 30m30s true; 15:15 skipped 15m30s true; 15:30 due 0s true")
	sc.step(-20 * time.Minute)
	expect("")
	sc.pass(5 * time.Minute)
	expect("15:15 already fired 20m0s false")
	sc.pass(15 * time.Minute)
	expect("15:30 already fired 20m0s false")
	sc.pass(15 * time.Minute)
	expect("15:45 due 0s true")
	sc.step(-5 * time.Hour)
	expect("")
	sc.pass(15 * time.Minute)
	expect("11:00 already fired 5h0m0s true")
}

func TestBreakingOffLeavesTheRest(t *testing.T) {
	sc := newScene(t, quarters, "Europe/Berlin", "2026-01-10T12:00:30Z")
	sc.pass(time.Hour)
	_, err := sc.s.Poll()
	must(t, err)
	for e := range sc.s.Due() {
		if got := e.At.Format("15:04"); got != "13:15" {
			t.Errorf("first %s", got)
		}
		break
	}
	sc.want("13:30 13:45 14:00")
}

func TestRestart(t *testing.T) {
	it, err := cron.ParseJSON([]byte(quarters))
	must(t, err)
	zones := loader(t)
	for name, c := range map[string]struct {
		do   func(*machine)
		want string
	}{
		"an hour later":                {func(m *machine) { m.pass(time.Hour) }, "13:15 13:30 13:45 14:00"},
		"the clock set back meanwhile": {func(m *machine) { m.pass(time.Hour); m.step(-90 * time.Minute) }, ""},
		"set back a day":               {func(m *machine) { m.pass(time.Hour); m.step(-24 * time.Hour) }, ""},
		"in another zone": {func(m *machine) { m.zone = load(t, zones, "Europe/Athens") },
			"13:15 13:30 13:45 14:00"},
		"in another zone, an hour later": {func(m *machine) { m.pass(time.Hour); m.zone = load(t, zones, "Europe/London") },
			""},
		"with a monotonic clock from zero": {func(m *machine) { m.mono = 0; m.wall = m.wall.Add(15 * time.Minute) }, "13:15"},
		"immediately":                      {func(m *machine) {}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			sc := newScene(t, quarters, "Europe/Berlin", "2026-01-10T12:00:30Z")
			sc.T = t
			sc.poll()
			stored, err := json.Marshal(sc.s.State())
			must(t, err)
			c.do(&sc.machine)
			var state cron.State
			must(t, json.Unmarshal(stored, &state))
			sc.s, err = cron.NewStateful(it, sc.clocks(), cron.StatefulOptions{Resume: &state})
			must(t, err)
			sc.want(c.want)
		})
	}
}

func TestDaylightSavingIsNoZoneChange(t *testing.T) {
	sc := newScene(t, quarters, "America/New_York", "2026-11-01T04:50:30Z")
	fired := 0
	for range 4 * 60 {
		sc.pass(time.Minute)
		fired += len(strings.Fields(sc.poll()))
		if sc.last.ZoneShift != 0 {
			t.Fatalf("found %+v", sc.last)
		}
	}
	if fired != 16 {
		t.Errorf("%d quarters in four hours, one of them repeated", fired)
	}
}

// TestZoneChangesInsideAFold: the zone changes in the middle of a repeated hour. The events that this hour has
// already decided depend on the pass that counts.
func TestZoneChangesInsideAFold(t *testing.T) {
	const item = `{"minute":30,"hour":1,"max_shift_seconds_for_unskip_and_do_not_repeat":86400,"dst_fixes":["skip",` +
		`"repeat_use_only_%s"]}`
	for _, c := range []struct{ fold, start, want string }{
		{"late", "2022-11-06T05:45:00Z", "01:30"}, // first pass, 01:30 is still to come
		{"late", "2022-11-06T06:45:00Z", ""},      // second pass, it has fired
		{"early", "2022-11-06T05:15:00Z", "01:30"},
		{"early", "2022-11-06T06:15:00Z", ""}, // it has fired before the clock went back
	} {
		sc := newScene(t, fmt.Sprintf(item, c.fold), "America/New_York", c.start)
		sc.zone = load(t, loader(t), "Europe/Berlin")
		sc.want(c.want)
	}
	// A step back into the first pass, seen before the zone changes.
	sc := newScene(t,
		`{"minute":[0,30],"max_shift_seconds_for_unskip_and_do_not_repeat":1800,"dst_fixes":["skip","repeat_use_both"]}`,
		"America/New_York", "2022-11-06T06:00:00Z")
	sc.step(-2 * time.Second)
	sc.want("")
	sc.zone = load(t, loader(t), "Europe/Berlin")
	sc.want("06:30")
	if sc.last.TooOld != 9 { // 02:00 to 06:00
		t.Errorf("%d too old", sc.last.TooOld)
	}
}

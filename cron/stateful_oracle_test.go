package cron_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"cantina/cron"
)

// world holds the knowledge of the oracle of stateful cron: the true events of each item in each zone over some
// years. It finds them by watching clocks minute by minute.
type world struct {
	zones   []*time.Location
	borders [][]int64 // where offsets change, by zone
	items   []worldItem
	events  [][][]int64 // by item and zone, sorted
}

type worldItem struct {
	json     string
	p        *pattern // nil for the epoch item
	maxShift int64
	fold     string
}

const (
	worldStart = 1577836800 // 2020-01-01
	worldEnd   = worldStart + 4*366*86400
)

func newWorld(t *testing.T) *world {
	zones := loader(t)
	w := &world{}
	for _, name := range []string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"} {
		w.zones = append(w.zones, load(t, zones, name))
	}
	add := func(p pattern, maxShift int64) {
		var obj map[string]any
		must(t, json.Unmarshal(p.json(), &obj))
		obj["max_shift_seconds_for_unskip_and_do_not_repeat"] = maxShift
		text, err := json.Marshal(obj)
		must(t, err)
		w.items = append(w.items, worldItem{string(text), &p, maxShift, p.Fold})
	}
	add(pattern{Minute: []int{30}, Hour: []int{2}, Gap: "unskip", Fold: "repeat_use_only_early"}, 7200)
	add(pattern{Minute: []int{0, 30}, Gap: "skip", Fold: "repeat_use_both"}, 1800)
	add(pattern{Minute: []int{30}, Hour: []int{1, 13}, Gap: "unskip", Fold: "repeat_use_only_late"}, 86400)
	w.items = append(w.items, worldItem{`{"epoch":{"period":1800},"max_shift_seconds_for_unskip_and_do_not_repeat":3600}`,
		nil, 3600, ""})
	for _, loc := range w.zones {
		w.borders = append(w.borders, transitions(loc, time.Unix(worldStart, 0), time.Unix(worldEnd, 0)))
		var patterns []pattern
		for _, it := range w.items {
			if it.p != nil {
				patterns = append(patterns, *it.p)
			}
		}
		seen := observe(loc, worldStart, worldEnd, patterns...)
		for i, it := range w.items {
			if loc == w.zones[0] {
				w.events = append(w.events, nil)
			}
			var events []int64
			if it.p != nil {
				events = seen.fires(*it.p)
			} else {
				for e := int64(worldStart); e <= worldEnd; e += 1800 {
					events = append(events, e)
				}
			}
			w.events[i] = append(w.events[i], events)
		}
	}
	return w
}

// reached is a moment with a local time up to which everything has been decided.
type reached struct{ at, label int64 }

// oracle decides from the whole history of one run: every place that time has
// reached since the past was last forgotten.
type oracle struct {
	w       *world
	item    int
	zone    int
	history []reached
}

func (o *oracle) here(zone int, t int64) reached {
	if o.w.items[o.item].p == nil {
		return reached{t, t}
	}
	shown := func(t int64) int64 { return wallAt(o.w.zones[zone], t).Unix() }
	label := shown(t)
	for _, b := range o.w.borders[zone] {
		switch o.w.items[o.item].fold {
		case "repeat_use_only_early": // labels that the clock has shown before, however late it was
			if b <= t && t-b < 86400 {
				label = max(label, shown(b-1))
			}
		case "repeat_use_only_late": // only labels that it will not show again
			if b > t && b-t < 86400 {
				label = min(label, shown(b)-1)
			}
		}
	}
	return reached{t, label}
}

// moved finds where a place of the history lies in a zone: the instant at which
// clocks show that local time, found by trying all offsets.
func (o *oracle) moved(zone int, r reached) reached {
	if o.here(zone, r.at).label == r.label {
		return r
	}
	var found []int64
	for off := int64(-16 * 3600); off <= 16*3600; off += 900 {
		if wallAt(o.w.zones[zone], r.label-off).Unix() == r.label {
			found = append(found, r.label-off)
		}
	}
	slices.Sort(found)
	switch {
	case len(found) == 0: // no clock shows it: the first instant that shows more
		t := r.label - 16*3600
		for wallAt(o.w.zones[zone], t).Unix() < r.label {
			t += 900
		}
		for wallAt(o.w.zones[zone], t-1).Unix() > r.label {
			t--
		}
		return o.here(zone, t)
	case o.w.items[o.item].fold == "repeat_use_only_late":
		return reached{found[len(found)-1], r.label}
	}
	return reached{found[0], r.label}
}

// poll returns the events that fire when a clock in the zone shows t, and the number of those too old for it.
func (o *oracle) poll(zone int, t int64) (fires []int64, tooOld int64) {
	maxShift := o.w.items[o.item].maxShift
	if zone != o.zone { // where both passes count, the furthest and the present instant decide
		o.zone = zone
		o.history = []reached{
			slices.MaxFunc(o.history, func(a, b reached) int { return int(a.at - b.at) }),
			o.history[len(o.history)-1],
		}
	}
	high := int64(0)
	for i, r := range o.history {
		o.history[i] = o.moved(zone, r)
		high = max(high, o.history[i].at)
	}
	if high-t > maxShift {
		o.history, high = nil, t
	}
	events := o.w.events[o.item][zone]
	if o.w.items[o.item].p == nil {
		events = o.w.events[o.item][0]
	}
	first, _ := slices.BinarySearch(events, high+1)
	for _, e := range events[first:] {
		switch {
		case e > t:
			o.history = append(o.history, o.here(zone, t))
			return fires, tooOld
		case e < t-maxShift:
			tooOld++
		default:
			fires = append(fires, e)
		}
	}
	panic("the world ends too early")
}

// disruption is an event of a machine, such as a clock step.
type disruption struct {
	Kind string
	Secs int64
	Zone int
}

func drawDisruption(t *rapid.T) disruption {
	kind := rapid.SampledFrom([]string{"pass", "pass", "step", "zone", "suspend", "restart"}).Draw(t, "kind")
	d := disruption{Kind: kind}
	sizes := []int64{1, 3, 59, 60, 600, 1799, 3600, 7200, 7201, 86400, 30 * 86400, 365 * 86400}
	switch kind {
	case "pass":
		d.Secs = rapid.SampledFrom([]int64{1, 60, 60, 600, 1800}).Draw(t, "seconds")
	case "step":
		d.Secs = rapid.SampledFrom(sizes).Draw(t, "step") * rapid.SampledFrom([]int64{1, -1}).Draw(t, "sign")
	case "suspend":
		d.Secs = rapid.SampledFrom(sizes[4:10]).Draw(t, "suspended")
	case "zone":
		d.Zone = rapid.IntRange(0, 3).Draw(t, "zone")
	}
	return d
}

// TestStatefulAgainstTheOracle runs random sequences of steps, zone changes,
// suspensions and restarts: 10,000, or a million in the long form.
func TestStatefulAgainstTheOracle(t *testing.T) {
	w := sync.OnceValue(func() *world { return newWorld(t) })()
	setChecks(t, 10000, 1000000)
	items := make([]*cron.Item, len(w.items))
	for i, it := range w.items {
		var err error
		items[i], err = cron.ParseJSON([]byte(it.json))
		must(t, err)
	}
	met := map[string]int{} // counts of the runs, so that the test cannot pass by doing nothing
	defer func() {
		t.Logf("met %v", met)
		for _, what := range []string{"pass", "step", "zone", "suspend", "restart", "fired", "forgot", "too old"} {
			if met[what] < 1000 {
				t.Errorf("%q was met %d times only", what, met[what])
			}
		}
	}()
	rapid.Check(t, func(t *rapid.T) {
		item := rapid.IntRange(0, len(items)-1).Draw(t, "item")
		zone := rapid.IntRange(0, 3).Draw(t, "first zone")
		start := worldStart + 500*86400 + rapid.Int64Range(0, 365*86400).Draw(t, "start")
		if rapid.Bool().Draw(t, "near a border") { // New York, Berlin and Lord Howe, spring and autumn
			start = rapid.SampledFrom([]int64{1647154800, 1667714400, 1648342800, 1648911600, 1633190400}).Draw(t,
				"border") + rapid.Int64Range(-9000, 9000).Draw(t, "distance")
		}
		m := machine{wall: time.Unix(start, 0), zone: w.zones[zone]}
		s, err := cron.NewStateful(items[item], m.clocks(), cron.StatefulOptions{})
		if err != nil {
			t.Fatal(err)
		}
		o := &oracle{w: w, item: item, zone: zone}
		o.history = append(o.history, o.here(zone, start))
		for i := range rapid.IntRange(1, 8).Draw(t, "polls") {
			for range rapid.IntRange(1, 3).Draw(t, "disruptions") {
				d := drawDisruption(t)
				if far := m.wall.Unix() + d.Secs; far < worldStart+90*86400 || far > worldEnd-90*86400 {
					continue
				}
				met[d.Kind]++
				switch d.Kind {
				case "pass", "suspend":
					m.pass(time.Duration(d.Secs) * time.Second)
				case "step":
					m.step(time.Duration(d.Secs) * time.Second)
				case "zone":
					zone = d.Zone
					m.zone = w.zones[zone]
				case "restart":
					state := s.State()
					m.mono = 0
					if s, err = cron.NewStateful(items[item], m.clocks(), cron.StatefulOptions{Resume: &state}); err != nil {
						t.Fatal(err)
					}
				}
			}
			found, err := s.Poll()
			if err != nil {
				t.Fatal(err)
			}
			if found.Forgot {
				met["forgot"]++
			}
			if found.TooOld > 0 {
				met["too old"]++
			}
			var got []int64
			for e := range s.Due() {
				got = append(got, e.At.Unix())
			}
			met["fired"] += len(got)
			want, old := o.poll(zone, m.wall.Unix())
			if found.TooOld != old {
				t.Fatalf("poll %d at %v: %d events are too old, want %d", i, m.wall.In(m.zone), found.TooOld, old)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("poll %d at %v: fires %v, want %v\n%s", i, m.wall.In(m.zone), times(got, m.zone), times(want, m.zone),
					w.items[item].json)
			}
		}
	})
}

func times(list []int64, loc *time.Location) []string {
	var out []string
	for _, t := range list {
		out = append(out, time.Unix(t, 0).In(loc).Format("2006-01-02T15:04:05-07:00"))
	}
	return append(out, fmt.Sprint(len(list)))
}

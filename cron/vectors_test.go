package cron_test

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"cantina/cron"
	"cantina/zone"
)

type vector struct {
	ID       string          `json:"id"`
	Kind     string          `json:"kind"`
	Pattern  json.RawMessage `json:"pattern"`
	TZ       string          `json:"tz"`
	Input    json.RawMessage `json:"input"`
	Expect   json.RawMessage `json:"expect"`
	Selector struct {
		Min   int64  `json:"min"`
		Max   int64  `json:"max"`
		Alias string `json:"alias_table"`
	} `json:"selector"`
}

type vectorFile struct {
	Aliases   map[string]json.RawMessage `json:"alias_tables"`
	Roundtrip []int64                    `json:"roundtrip_timestamps"`
	Vectors   []vector                   `json:"vectors"`
}

func readVectors(t *testing.T) vectorFile {
	t.Helper()
	data, err := os.ReadFile("testdata/cron-vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var f vectorFile
	if err := json.Unmarshal(data, &f); err != nil {
		t.Fatal(err)
	}
	return f
}

// inverted has vectors that record a defect, or a refusal that contradicts the text of the seed. The value is the
// right result (docs/decisions/0600).
var inverted = map[string]any{
	"v0236": int64(1362909599),  // unskip must not be lost in the last minute
	"v0237": int64(1362909599),  //
	"v0239": int64(1362909599),  //
	"v0267": "accepted",         // Sept has three or more letters
	"v0268": "accepted",         // Tues too
	"v0271": "accepted",         // a period of maximum minus minimum is fine
	"v0272": "accepted",         //
	"v0096": cron.ErrImpossible, // an error as in Bistro, with our text
}

func TestVectors(t *testing.T) {
	f := readVectors(t)
	zones := loader(t)
	kinds := map[string]int{}
	for _, v := range f.Vectors {
		kinds[v.Kind]++
		t.Run(v.ID, func(t *testing.T) {
			switch v.Kind {
			case "selector_match":
				f.selectorMatch(t, v)
			case "first_match":
				firstMatch(t, v, zones)
			case "item_error", "add_time_error":
				itemError(t, v)
			case "utc_to_local", "local_to_utc":
				conversion(t, v, zones)
			case "add_time":
				addTime(t, v, zones)
			default:
				t.Fatalf("unknown kind %s", v.Kind)
			}
		})
	}
	if len(f.Vectors) != 186 || len(kinds) != 7 {
		t.Fatalf("%d vectors of %d kinds, want 186 of 7", len(f.Vectors), len(kinds))
	}
}

func (f vectorFile) selectorMatch(t *testing.T, v vector) {
	var table map[string]int64
	if err := json.Unmarshal(f.Aliases[v.Selector.Alias], &table); err != nil {
		t.Fatal(err)
	}
	field := cron.Field{Key: "x", Min: v.Selector.Min, Max: v.Selector.Max}
	for text, value := range table {
		field.Names = append(field.Names, cron.Name{Text: text, Value: value})
	}
	sel, err := cron.ParseSelector(field, plain(t, v.Pattern))
	if err != nil {
		t.Fatal(err)
	}
	var want struct {
		Value int64
		Carry bool
	}
	must(t, json.Unmarshal(v.Expect, &want))
	if got, carry := sel.Match(number(t, v.Input)); got != want.Value || carry != want.Carry {
		t.Errorf("Match(%s) of %s = %d, %v; want %d, %v", v.Input, v.Pattern, got, carry, want.Value, want.Carry)
	}
}

func firstMatch(t *testing.T, v vector, zones *zone.Loader) {
	it, err := cron.ParseJSON(v.Pattern)
	if want, ok := inverted[v.ID].(error); ok {
		if !errors.Is(err, want) {
			t.Fatalf("ParseJSON(%s) = %v, want %v", v.Pattern, err, want)
		}
		return
	}
	must(t, err)
	loc := load(t, zones, v.TZ)
	got, err := it.FirstMatch(time.Unix(number(t, v.Input), 0), loc)
	if string(v.Expect) == "null" {
		if !errors.Is(err, cron.ErrNoMoreMatches) {
			t.Fatalf("got %v, %v; want no more matches", got, err)
		}
		return
	}
	must(t, err)
	want, ok := inverted[v.ID].(int64)
	if !ok {
		want = number(t, v.Expect)
	}
	if got.Unix() != want {
		t.Errorf("FirstMatch(%s) of %s = %d (%v), want %d", v.Input, v.Pattern, got.Unix(), got, want)
	}
	if again, err := it.FirstMatch(got, loc); err != nil || !again.Equal(got) {
		t.Errorf("FirstMatch of its own result is %v, %v", again, err)
	}
}

func itemError(t *testing.T, v vector) {
	pattern := v.Pattern
	if v.Kind == "add_time_error" {
		_, err := schedules(v.Pattern)
		if err == nil {
			t.Error("a schedule without lifetime was accepted")
		}
		return
	}
	_, err := cron.ParseJSON(pattern)
	if inverted[v.ID] == "accepted" {
		must(t, err)
		return
	}
	var pe *cron.ParseError
	if !errors.As(err, &pe) || !errors.Is(err, cron.ErrSyntax) || pe.Field == "" || pe.Problem == "" {
		t.Errorf("ParseJSON(%s) = %v, want an error that names the place", pattern, err)
	}
}

func conversion(t *testing.T, v vector, zones *zone.Loader) {
	loc := load(t, zones, v.TZ)
	const form = "2006-01-02T15:04:05"
	var text string
	if v.Kind == "utc_to_local" {
		must(t, json.Unmarshal(v.Expect, &text))
		if got := time.Unix(number(t, v.Input), 0).In(loc).Format(form); got != text {
			t.Errorf("%s is %s there, want %s", v.Input, got, text)
		}
		return
	}
	must(t, json.Unmarshal(v.Input, &text))
	var want, got []int64
	must(t, json.Unmarshal(v.Expect, &want))
	wall, err := time.Parse(form, text)
	must(t, err)
	for _, at := range cron.Instants(wall, loc) {
		got = append(got, at.Unix())
	}
	if !slices.Equal(got, want) {
		t.Errorf("Instants(%s) = %v, want %v", text, got, want)
	}
}

// node is the result of Bistro's add_time fetcher for a firing.
type node struct {
	Time    int64    `json:"time"`
	Enabled bool     `json:"enabled"`
	Tags    []string `json:"tags"`
}

type addTimeItem struct {
	Cron            json.RawMessage `json:"cron"`
	Lifetime        int64           `json:"lifetime"`
	EnabledLifetime int64           `json:"enabled_lifetime"`
	Tags            []string        `json:"tags"`
}

func schedules(pattern []byte) ([]addTimeItem, error) {
	var prefs struct {
		Schedule []addTimeItem `json:"schedule"`
	}
	if err := json.Unmarshal(pattern, &prefs); err != nil {
		return nil, err
	}
	for _, s := range prefs.Schedule {
		if s.Lifetime == 0 {
			return nil, errors.New("lifetime is missing")
		}
	}
	return prefs.Schedule, nil
}

func addTime(t *testing.T, v vector, zones *zone.Loader) {
	items, err := schedules(v.Pattern)
	must(t, err)
	now := time.Unix(number(t, v.Input), 0)
	got := map[int64]node{}
	for _, s := range items {
		it, err := cron.ParseJSON(s.Cron)
		must(t, err)
		enabled := s.EnabledLifetime
		if enabled == 0 {
			enabled = s.Lifetime
		}
		due, err := cron.Schedule{Item: it, Zone: load(t, zones, v.TZ)}.Due(now.Add(-time.Duration(s.Lifetime)*time.Second),
			now, 1000)
		must(t, err)
		for _, o := range due.Fire {
			at := o.At.Unix()
			n, ok := got[at]
			n.Enabled = (!ok || n.Enabled) && now.Unix()-at < enabled
			n.Time, n.Tags = at, append(n.Tags, s.Tags...)
			got[at] = n
		}
	}
	var want []node
	must(t, json.Unmarshal(v.Expect, &want))
	if len(got) != len(want) {
		t.Fatalf("%d nodes, want %d: %v", len(got), len(want), got)
	}
	for _, w := range want {
		g := got[w.Time]
		slices.Sort(g.Tags)
		if g.Enabled != w.Enabled || g.Time != w.Time || !slices.Equal(g.Tags, w.Tags) {
			t.Errorf("node %+v, want %+v", g, w)
		}
	}
}

func TestRoundtripTimestamps(t *testing.T) {
	f := readVectors(t)
	zones := loader(t)
	for _, tz := range []string{"PST+8PDT,M3.2.0,M11.1.0", "EST+5EDT,M3.2.0,M11.1.0", "America/Los_Angeles",
		"Australia/Lord_Howe"} {
		loc := load(t, zones, tz)
		for _, ts := range f.Roundtrip {
			at := time.Unix(ts, 0).In(loc)
			if !slices.ContainsFunc(cron.Instants(at, loc), at.Equal) {
				t.Errorf("%s: %d is lost on the way to local time and back", tz, ts)
			}
		}
	}
}

func loader(t testing.TB) *zone.Loader {
	t.Helper()
	l, err := zone.New(zone.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func load(t testing.TB, l *zone.Loader, name string) *time.Location {
	t.Helper()
	if name == "" {
		return nil
	}
	z, err := l.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return z.Location
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func number(t *testing.T, raw json.RawMessage) int64 {
	t.Helper()
	var n int64
	if err := json.Unmarshal(raw, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// plain decodes a bare selector with numbers as JSON writes them.
func plain(t *testing.T, raw json.RawMessage) any {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(string(raw)))
	dec.UseNumber()
	var v any
	must(t, dec.Decode(&v))
	return v
}

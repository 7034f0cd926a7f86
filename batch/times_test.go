package batch_test

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"cantina/batch"
	"cantina/cron"
	"cantina/zone"
)

// addTime is a vector of Bistro's add_time.
type addTime struct {
	ID, Kind, TZ string
	Pattern      struct {
		Schedule []struct {
			Cron            json.RawMessage
			Lifetime        int64
			EnabledLifetime int64 `json:"enabled_lifetime"`
			Tags            []string
		}
	}
	Input  int64
	Expect []struct {
		Time    int64
		Enabled bool
		Tags    []string
	}
}

func vectors(t *testing.T) (out []addTime) {
	t.Helper()
	text, err := os.ReadFile("../cron/testdata/cron-vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var all struct{ Vectors []json.RawMessage }
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	for _, raw := range all.Vectors {
		var v addTime
		if json.Unmarshal(raw, &v) == nil && v.Kind == "add_time" {
			out = append(out, v)
		}
	}
	return out
}

// TestAddTimeVectors are Bistro's, each below two parents.
func TestAddTimeVectors(t *testing.T) {
	zones, err := zone.New(zone.Options{})
	if err != nil {
		t.Fatal(err)
	}
	all := vectors(t)
	if len(all) < 20 {
		t.Fatalf("%d vectors", len(all))
	}
	for _, v := range all {
		loc, err := zones.Load(v.TZ)
		if err != nil {
			t.Fatal(err)
		}
		src := batch.Source{Kind: batch.SourceTime, ParentLevel: "host", Format: batch.TimeFormat}
		for _, x := range v.Pattern.Schedule {
			src.Times = append(src.Times, batch.Times{JSON: string(x.Cron), Lifetime: time.Duration(x.Lifetime) * time.Second,
				Enabled: time.Duration(x.EnabledLifetime) * time.Second, Tags: x.Tags})
		}
		got, next, err := batch.TimeNodes([]string{"host", "time"}, &src, []string{"a", "b"}, loc.Location,
			time.Unix(v.Input, 7e8))
		var want []batch.NodeSpec
		for _, p := range []string{"a", "b"} {
			for _, e := range v.Expect {
				want = append(want, batch.NodeSpec{Name: p + ":" + json.Number(jsonOf(e.Time)).String(), Level: "time", Parent: p,
					Disabled: !e.Enabled, Tags: e.Tags})
			}
		}
		if err != nil || jsonOf(plainTags(got)) != jsonOf(plainTags(want)) {
			t.Errorf("%s: %v\n got %s\nwant %s", v.ID, err, jsonOf(got), jsonOf(want))
		}
		if !next.After(time.Unix(v.Input, 0)) {
			t.Errorf("%s: next change at %v", v.ID, next)
			continue
		}
		// They are the same until then, and others at that time.
		same, _, _ := batch.TimeNodes([]string{"host", "time"}, &src, []string{"a"}, loc.Location, next.Add(-1))
		other, _, _ := batch.TimeNodes([]string{"host", "time"}, &src, []string{"a"}, loc.Location, next)
		if jsonOf(same) != jsonOf(got[:len(got)/2]) && len(got) > 0 || jsonOf(same) == jsonOf(other) {
			t.Errorf("%s: at %v\nnow    %s\nbefore %s\nthen   %s", v.ID, next,
				jsonOf(got[:len(got)/2]), jsonOf(same), jsonOf(other))
		}
	}
}

func jsonOf(x any) string {
	text, err := json.Marshal(x)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func plainTags(nodes []batch.NodeSpec) []batch.NodeSpec {
	for i := range nodes {
		if len(nodes[i].Tags) == 0 {
			nodes[i].Tags = nil
		}
	}
	return nodes
}

func TestTimesThatCannotBe(t *testing.T) {
	levels := []string{"host", "time"}
	good := func() batch.Source {
		return batch.Source{Kind: batch.SourceTime, ParentLevel: "host", Format: "{parent}:{time}",
			Times: []batch.Times{{JSON: `{"epoch": {"period": 60}}`, Lifetime: time.Hour}}}
	}
	for name, c := range map[string]struct {
		change func(*batch.Source)
		want   string
	}{
		"good":        {func(*batch.Source) {}, ""},
		"never on":    {func(s *batch.Source) { s.Times[0].Enabled = -1 }, ""},
		"root":        {func(s *batch.Source) { s.ParentLevel = "" }, ""},
		"level":       {func(s *batch.Source) { s.ParentLevel = "nope" }, `unknown level "nope"`},
		"last level":  {func(s *batch.Source) { s.ParentLevel = "time" }, `no level below "time"`},
		"format":      {func(s *batch.Source) { s.Format = "{parent}" }, "no {time}"},
		"none":        {func(s *batch.Source) { s.Times = nil }, "no schedule"},
		"no cron":     {func(s *batch.Source) { s.Times[0].JSON = "" }, "schedule 0: no cron"},
		"two":         {func(s *batch.Source) { s.Times[0].Line = "@daily" }, "schedule 0: no cron"},
		"no lifetime": {func(s *batch.Source) { s.Times[0].Lifetime = 0 }, "schedule 0: lifetime 0s"},
		"negative":    {func(s *batch.Source) { s.Times[0].Lifetime = -time.Hour }, "schedule 0: lifetime -1h0m0s"},
		"for ever":    {func(s *batch.Source) { s.Times[0].Lifetime = 1 << 62 }, "schedule 0: lifetime"},
		"enabled":     {func(s *batch.Source) { s.Times[0].Enabled = 1 << 62 }, "schedule 0: enabled_lifetime"},
	} {
		s := good()
		c.change(&s)
		err := batch.CheckForest(&batch.ForestSpec{Levels: levels, Sources: []batch.Source{s}})
		if (err == nil) != (c.want == "") || err != nil && (!errors.Is(err, batch.ErrNodes) ||
			!strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, c := range map[string]struct {
		change func(*batch.Source)
		want   string
	}{
		"syntax": {func(s *batch.Source) { s.Times[0].JSON = `{"minute": 99}` }, "schedule 0: "},
		"no zone": {func(s *batch.Source) { s.Times[0].JSON, s.Times[0].Line = "", "0 * * * *" },
			"no time zone"},
		"too many": {func(s *batch.Source) { s.Times[0].Lifetime = 99 * 365 * 24 * time.Hour }, "at most 10000000"},
		"a name":   {func(s *batch.Source) { s.Format = strings.Repeat("x", batch.MaxName) + "{time}" }, "at most 4096"},
	} {
		s := good()
		c.change(&s)
		_, _, err := batch.TimeNodes(levels, &s, []string{"h"}, nil, time.Unix(1e9, 0))
		if !errors.Is(err, batch.ErrNodes) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s := good()
	s.Times[0] = batch.Times{JSON: `{"epoch": 5}`, Lifetime: time.Hour}
	if got, next, err := batch.TimeNodes(levels, &s, []string{"h"}, nil, time.Unix(1e9, 0)); err != nil || len(got) > 0 ||
		!next.IsZero() {
		t.Errorf("times that are all over: %v, %v, %v", got, next, err)
	}
	s.Times[0] = batch.Times{Line: "0 * * * *", Gap: cron.GapRun, Fold: cron.FoldFirst, Lifetime: 2 * time.Hour}
	if got, _, err := batch.TimeNodes(levels, &s, []string{"h"}, time.UTC, time.Unix(7300, 0)); err != nil ||
		len(got) != 2 ||
		got[0].Name != "h:3600" || got[1].Name != "h:7200" {
		t.Errorf("a crontab line: %+v %v", got, err)
	}
}

package scheduler

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cantina/batch"
)

// TestNodesComeWithTheirTimes: a node is there in the second of its time, is disabled and leaves in the seconds of
// its lifetimes, in the next term too; jobs select the nodes of a calendar by its tags.
func TestNodesComeWithTheirTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newFakeStore()
		r := begin(t, st, 1)
		defer func() { r.stop() }()
		r.cell("c", 9)
		w := testJob("j", nil)
		w.Forest.Levels = []string{"host", "time"}
		w.Forest.Sources = []batch.Source{{Kind: batch.SourceManual, Manual: []batch.ManualNode{{Name: "h"}}},
			{Kind: batch.SourceTime, ParentLevel: "host", Format: batch.TimeFormat, Times: []batch.Times{
				{JSON: `{"epoch": {"period": 3600}}`, Lifetime: 3 * time.Hour, Enabled: 90 * time.Minute, Tags: []string{"hourly"}},
				{JSON: `{"epoch": {"period": 5400}}`, Lifetime: time.Hour, Tags: []string{"other"}}}}}
		w.Job.Filters = map[string]batch.Filter{"time": {TagWhitelist: []string{"hourly"}}}
		begun := time.Now().Truncate(3 * time.Hour) // a bubble begins at midnight
		c := r.apply(w)
		if c.Lines[0].Nodes != 3 {
			t.Errorf("planned %+v", c.Lines)
		}
		node := func(hours int) string { return fmt.Sprintf("h:%d", begun.Add(time.Duration(hours)*time.Hour).Unix()) }
		counts := func(enabled, disabled, avoided int) {
			t.Helper()
			p := r.progressOf("j")
			if p.Total != enabled || p.Disabled != disabled || p.Avoided != avoided {
				t.Errorf("%v later: %d enabled, %d disabled, %d avoided; want %d, %d, %d", time.Since(begun), p.Total, p.Disabled,
					p.Avoided, enabled, disabled, avoided)
			}
		}
		pass(0)
		counts(2, 1, 0) // of -2h, -1h and now
		r.wantStarted("j/" + node(-1) + " j/" + node(0))
		r.end("j", node(-1), 0, "")
		r.end("j", node(0), 0, "")
		pass(30*time.Minute - time.Second)
		counts(2, 1, 0)
		pass(time.Second)
		counts(1, 2, 0)
		pass(30 * time.Minute)
		counts(2, 1, 0) // -2h is over
		r.wantStarted("j/" + node(1))
		r.end("j", node(1), 0, "")
		pass(30 * time.Minute)
		counts(1, 2, 1) // that of the other calendar
		r.stop()
		r = begin(t, st, 2)
		r.cell("c", 9)
		pass(0)
		counts(1, 2, 1)
	})
}

// TestTimesWithoutAZone: an unknown time zone is the job's problem, and keeps the last good nodes.
func TestTimesWithoutAZone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, newFakeStore(), 1)
		defer r.stop()
		src := batch.Source{Kind: batch.SourceTime, Format: batch.TimeFormat, Zone: "Mars/Olympus",
			Times: []batch.Times{{JSON: `{"minute": 0, "dst_fixes": ["skip", "repeat_use_both"]}`, Lifetime: time.Hour}}}
		w := testJob("j", nil)
		w.Forest.Levels, w.Forest.Sources = []string{"time"}, []batch.Source{src}
		r.apply(w)
		pass(0)
		if v, _ := r.Job("j"); !strings.Contains(v.NodesError, `time zone "Mars/Olympus"`) || v.Progress.Total != 0 {
			t.Errorf("%q %+v", v.NodesError, v.Progress)
		}
		src.Zone = "Europe/Berlin"
		w.Forest.Sources = []batch.Source{src}
		r.apply(w)
		pass(0)
		if v, _ := r.Job("j"); v.NodesError != "" || v.Progress.Total != 1 {
			t.Errorf("%q %+v", v.NodesError, v.Progress)
		}
		r.zoneless.Store(true)
		pass(6 * time.Minute)
		if v, _ := r.Job("j"); !strings.Contains(v.NodesError, "gone") || v.Progress.Total != 1 {
			t.Errorf("%q %+v", v.NodesError, v.Progress)
		}
	})
}

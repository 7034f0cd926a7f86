package spec

import (
	"strings"
	"testing"
	"time"

	"cantina/batch"
	"cantina/cron"
)

// TestNodesOfCalendars: add_time in a spec file, and its errors with their place.
func TestNodesOfCalendars(t *testing.T) {
	parse := func(source string) (*File, error) {
		return Parse("f", "", []byte("jobs:\n  a: {command: [x], levels: [host, time], nodes: [{manual: [h]}, {"+
			source+"}]}\n"), testTimes())
	}
	got, err := parse("parent_level: host, add_time: {timezone: Europe/Berlin, gap: run, fold: first, schedule: [" +
		"{cron: '30 2 * * *', lifetime: 2d, enabled_lifetime: 1d, tags: [nightly]}, " +
		"{cron: {epoch: {period: 90}}, lifetime: 5m, enabled_lifetime: 0s}]}")
	if err != nil {
		t.Fatal(err)
	}
	src := got.Jobs[0].Forest.Sources[1]
	if src.Kind != batch.SourceTime || src.ParentLevel != "host" || src.Format != "{parent}:{time}" ||
		src.Zone != "Europe/Berlin" || len(src.Times) != 2 {
		t.Fatalf("%+v", src)
	}
	if x := src.Times[0]; x.Line != "30 2 * * *" || x.Gap != cron.GapRun || x.Fold != cron.FoldFirst ||
		x.Lifetime != 48*time.Hour || x.Enabled != 24*time.Hour || x.Tags[0] != "nightly" {
		t.Errorf("%+v", x)
	}
	if x := src.Times[1]; x.JSON != `{"epoch":{"period":90}}` || x.Gap != 0 || x.Fold != 0 || x.Enabled >= 0 {
		t.Errorf("%+v", x)
	}
	const ok = "{cron: '@every 90s', lifetime: 1h}"
	for _, c := range []struct{ source, want string }{
		{"add_time: {}", "jobs.a.nodes[1].add_time: field schedule is missing"},
		{"add_time: {schedule: []}", "schedule: "},
		{"add_time: {schedule: [{cron: '@every 90s'}]}", "schedule[0]: field lifetime is missing"},
		{"add_time: {schedule: [{lifetime: 1h}]}", "schedule[0]: field cron is missing"},
		{"add_time: {format: x, schedule: [" + ok + "]}", "add_time.format: needs {time}"},
		{"add_time: {timezone: Mars/Olympus, schedule: [" + ok + "]}", "add_time.timezone: "},
		{"add_time: {schedule: [{cron: '0 * * * *', lifetime: 1h}]}", "field timezone is missing"},
		{"add_time: {timezone: UTC, schedule: [{cron: '0 99 * * *', lifetime: 1h}]}", "schedule[0].cron: "},
		{"add_time: {timezone: Europe/Berlin, schedule: [{cron: '30 2 * * *', lifetime: 1h}]}", "gap"},
		{"add_time: {schedule: [{cron: '@every 90s', lifetime: 0s}]}", "lifetime: must be at least 1s"},
		{"add_time: {schedule: [{cron: '@every 90s', lifetime: 1h, enabled_lifetime: 2h}]}", "must not exceed lifetime"},
		{"add_time: {schedule: [" + ok + "]}, manual: [q]", "needs exactly one of"},
		{"parent_level: time, add_time: {schedule: [" + ok + "]}", "is on the last level"},
		{"add_time: {schedule: [{cron: {epoch: {period: 90}, minute: 1}, lifetime: 1h}]}", "schedule[0].cron: "},
	} {
		if _, err := parse(c.source); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: want %q in %v", c.source, c.want, err)
		}
	}
}

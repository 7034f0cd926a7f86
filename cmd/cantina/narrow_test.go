package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "cantina/wire/cantinav1"
)

// narrow is the width of a terminal that nobody has widened.
const narrow = 80

// TestTablesFitANarrowTerminal renders each table with names as they are used, in full states: no row is
// wider than 80 columns, and only a note is below its row.
func TestTablesFitANarrowTerminal(t *testing.T) {
	ago := func(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(now().Add(-d)) }
	long := "exited with status 137: killed by the memory limit of 512Mi, 14 s after it began to serve"
	render := map[string]func(*cli) error{
		"ps": func(c *cli) error {
			return list(c, instanceTable(c), []*pb.Instance{{Domain: "payments", Service: "checkout-api", Index: 12,
				State: "RUNNING", Presence: "ORDINARY", Routable: true, Cell: "node-017", Address: "10.128.14.203",
				Ports: []*pb.Mapping{{Name: "http", Port: 61234}}, Since: ago(49 * time.Hour), CrashCount: 3},
				{Domain: "payments", Service: "checkout-api", Index: 13, State: "UNCLAIMED", CrashReason: long, CrashCount: 112,
					PlacementError: "no cell has memory_mb 65536 free, the largest has 32768"}})
		},
		"service": func(c *cli) error {
			return list(c, serviceTable(c), []*pb.Service{{Domain: "payments", Name: "checkout-api", Instances: 120,
				Running:  118,
				Routable: 117, Crashed: 1, Phase: "rolling out", Healthy: 87, Stopping: 2, Version: 41,
				Applied: ago(26 * time.Hour),
				Failure: long}})
		},
		"task": func(c *cli) error {
			return list(c, taskTable(c), []*pb.Task{{Id: "payments.nightly-export.20270115T020000Z", Domain: "payments",
				Name: "nightly-export", State: "COMPLETED", Outcome: "failed", ExitCode: 137, Cell: "node-017",
				Created: ago(26 * time.Hour), Ended: ago(25 * time.Hour), Reason: long},
				{Id: "0ja8kq2f4e5h6t7w", Domain: "default", State: "RUNNING", Cell: "node-003", Created: ago(time.Minute)}})
		},
		"cron ls": func(c *cli) error {
			return list(c, scheduleTable(c), []*pb.Schedule{{Domain: "payments", Name: "nightly-export", State: "waiting",
				Cron: "15,45 2-6 1-15 * 1-5", Timezone: "America/Los_Angeles", Starts: "signal",
				Signal: &pb.ScheduleSignal{Service: "checkout-api", Signal: "HUP"}, Last: ago(23 * time.Hour),
				Next: ago(-time.Hour),
				Note: "the clock is 3 h behind the decided times"}})
		},
		"cron history": func(c *cli) error {
			return list(c, historyTable(c), []*pb.ScheduleEntry{{At: ago(49 * time.Hour), Until: ago(26 * time.Hour),
				Count: 1380,
				What:  "skipped", Outcome: "succeeded",
				Text: "an earlier run was still running: payments.nightly-export.20270115T020000Z"}})
		},
		"cron missed": func(c *cli) error {
			return list(c, missedTable(c), []*pb.Missed{{At: ago(49 * time.Hour), Reason: "older than misfire_deadline"}})
		},
		"cron next": func(c *cli) error {
			at := ago(0)
			return list(c, firingTable(c), firingsOf([]*pb.ScheduleTime{{At: at, Mark: "second time, the clock moves back"}},
				time.FixedZone("x", -9*3600-1800)))
		},
		"cells": func(c *cli) error {
			capacity := map[string]int32{"memory_mb": 262144, "cpu_milli": 64000, "disk_mb": 1800000, "containers": 1000,
				"gpu": 8}
			return list(c, cellTable(c), []*pb.Cell{{Name: "node-017", Session: "UNHEALTHY", Since: ago(49 * time.Hour),
				Zone: "eu-central-1a", Instances: 112, Tasks: 14, Batch: 640, Capacity: capacity, Free: capacity,
				Unavailable: long, Proc: strings.Repeat("0f", 16)}})
		},
		"job ls": func(c *cli) error {
			return list(c, jobTable(c), []*pb.Job{{Domain: "payments", Name: "nightly-export", State: "running", Reason: long,
				Counts: &pb.Counts{Total: 1000000, Done: 712044, Running: 1024, Failed: 312, Ready: 286620, Backoff: 104}}})
		},
		"job nodes": func(c *cli) error {
			return list(c, nodeTable(c), []*pb.JobNode{{Job: "nightly-export", Node: "rack12/db-0412", State: "backoff",
				Cell: "node-017", Errors: 12, Signal: 11, Time: ago(26 * time.Hour), Reason: long}})
		},
		"job results": func(c *cli) error {
			data, err := structpb.NewStruct(map[string]any{"lines": 81234, "bytes": 1234567890,
				"file": "/srv/export/db-0412.csv"})
			if err != nil {
				return err
			}
			return list(c, resultTable(c), []*pb.JobNode{{Job: "nightly-export", Node: "rack12/db-0412", State: "failed",
				ExitCode: 137, Data: data, Reason: long}})
		},
		"apply": func(c *cli) error {
			return list(c, changeTable("payments", true),
				[]*pb.Change{{Kind: "schedule", Name: "nightly-export", Verb: "replace",
					Nodes: 1000000, Note: long}})
		},
	}
	for name, print := range render {
		var out bytes.Buffer
		c := &cli{environment: environment{Out: &out, Getenv: func(string) string { return "" }, OutTTY: true,
			Width: func() int { return narrow }, Now: now}}
		c.output = "table"
		if err := print(c); err != nil {
			t.Fatal(name, err)
		}
		for l := range strings.Lines(out.String()) {
			l = strings.TrimSuffix(l, "\n")
			if n := utf8.RuneCountInString(plain(l)); n > narrow && !strings.HasPrefix(l, "  ") {
				t.Errorf("%s: a row of %d columns:\n%s", name, n, out.String())
				break
			}
		}
	}
}

// plain is a line without its colours.
func plain(l string) string {
	for {
		i := strings.Index(l, "\x1b[")
		if i < 0 {
			return l
		}
		j := strings.IndexByte(l[i:], 'm')
		l = l[:i] + l[i+j+1:]
	}
}

// TestHelpFitsANarrowTerminal prints the help of each verb. Examples are single lines, to be copied: they may be wider.
func TestHelpFitsANarrowTerminal(t *testing.T) {
	root := rootCommand(&cli{environment: environment{Getenv: func(string) string { return "" }}, ctx: t.Context()})
	var look func(cmd *cobra.Command)
	look = func(cmd *cobra.Command) {
		var out, errs bytes.Buffer
		args := append(strings.Fields(cmd.CommandPath())[1:], "--help")
		invoke(t.Context(), args, environment{In: strings.NewReader(""), Out: &out, Err: &errs, OutTTY: true,
			Getenv: func(string) string { return "" }, Now: now, Width: func() int { return narrow }})
		for l := range strings.Lines(out.String()) {
			l = strings.TrimSuffix(l, "\n")
			if n := utf8.RuneCountInString(plain(l)); n > narrow && !strings.Contains(cmd.Example, strings.TrimSpace(l)) {
				t.Errorf("%s: %d columns: %s", cmd.CommandPath(), n, l)
			}
		}
		for _, sub := range cmd.Commands() {
			look(sub)
		}
	}
	look(root)
}

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"cantina/api"
	"cantina/fence"
	"cantina/lrp"
	"cantina/plan"
	"cantina/resource"
	"cantina/store"
	"cantina/store/datadir"
	"cantina/task"
	pb "cantina/wire/cantinav1"
	"cantina/worker"
)

func TestNotesOfInstances(t *testing.T) {
	for want, x := range map[string]*pb.Instance{
		"orphan; kept until its domain is applied again": {Orphan: true, State: "RUNNING"},
		"insufficient resources: 1 cell": {State: "UNCLAIMED",
			PlacementError: "insufficient resources: 1 cell", PlacementCode: "insufficient_resources"},
		"exit 1": {State: "CRASHED", CrashReason: "exit 1"}, "suspect": {State: "RUNNING", Presence: "SUSPECT"},
		"": {State: "RUNNING", Presence: "ORDINARY"},
	} {
		if got := instanceNote(&cli{}, x); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	s := newShell(t)
	s.apply()
	if got := s.ok("ps", "--orphans", "-q"); got != "" {
		t.Error(got)
	}
}

func TestStatusCellsAndQuarantine(t *testing.T) {
	s := newShell(t)
	s.apply()
	s.SetStatus(func(x *api.Status) {
		x.Waiting, x.For, x.Longest = true, []string{"c3"}, 42*time.Second
		x.Held = []api.Held{{What: "job count on a", Reason: "initial wait", Cell: "c3", Longest: 42 * time.Second}}
		x.Warnings = []string{"listening on 0.0.0.0:7480 without protection"}
		web := lrp.ServiceKey{Domain: "d", Name: "web"}
		x.Rollouts = []plan.Rollout{{Key: web, Phase: lrp.RollingOut, Version: 3, Healthy: 1, Instances: 4},
			{Key: web, Phase: lrp.Steady, Version: 2, Healthy: 4, Instances: 4,
				Failure: "version 3: no progress for 10m0s: 1 of 4 instances healthy"}}
		x.RolloutsMore, x.Behind = 7, []string{"2,400 instances and tasks are not placed yet"}
	})
	s.Quarantine(api.Quarantined{Key: "task/x", Reason: "checksum", Bytes: []byte{1}})
	got := s.ok("status")
	for _, want := range []string{"for c3, at most 42s", "job count on a: initial wait", "WARNING     listening",
		"1 rows cannot be read", "behind      2,400 instances and tasks are not placed yet\n",
		"rollout     d/web: rolling out, version 3: 1 of 4 healthy\n",
		"rollout     d/web: rolled back, version 2 serves; version 3: no progress for 10m0s: 1 of 4 instances healthy\n" +
			"rollout     and 7 more\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	s.SetStatus(func(x *api.Status) { x.For = nil })
	if got := s.ok("status"); strings.Contains(got, "for ,") ||
		!strings.Contains(got, "cells may run work that is not in it, at most 42s") {
		t.Error(got)
	}
	if got := s.ok("cells"); !strings.Contains(got, "c1    HEALTHY") || !strings.Contains(got, "memory_mb 40/100") {
		t.Error(got)
	}
	s.fails(api.ExitUsage, "a second time", "leader", "end-wait", "--yes")
	for _, want := range []string{"the initial wait has ended", "no initial wait in progress"} {
		if _, errs, code := s.run("leader", "end-wait", "--accept-double-starts", "--yes"); code != 0 ||
			!strings.Contains(errs, want) {
			t.Errorf("%d %s", code, errs)
		}
	}
	if got := s.ok("store", "quarantine", "show"); !strings.Contains(got, "task/x") {
		t.Error(got)
	}
	s.fails(api.ExitFailed, "still not readable", "store", "quarantine", "restore", "task/x")
	s.ok("store", "quarantine", "drop", "task/x", "--yes")
	if got := s.ok("store", "quarantine", "show", "-o", "json"); got != "[]\n" {
		t.Error(got)
	}
}

func TestStatusIsAligned(t *testing.T) {
	var out bytes.Buffer
	c := &cli{environment: environment{Out: &out}}
	if err := printStatus(c, &pb.Status{Cluster: "x",
		Counts: map[string]int32{"cells": 1, "batch_running": 2}}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"cluster        x\n", "\nbatch_running  2\n", "\ncells          1\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}

func TestEventTexts(t *testing.T) {
	for want, e := range map[string]*pb.Event{
		"RUNNING":            {Task: &pb.Task{State: "RUNNING"}},
		"COMPLETED failed":   {Task: &pb.Task{State: "COMPLETED", Outcome: "failed"}},
		"job running":        {Job: &pb.Job{State: "running"}},
		"node n7 is backoff": {Subject: "count/n7", Node: &pb.JobNode{Node: "n7", State: "backoff"}},
		"d/web/0 is gone":    {Subject: "d/web/0", Gone: true, Instance: &pb.Instance{}},
		"waiting":            {Schedule: &pb.Schedule{State: "waiting"}},
		"web/0 RUNNING (suspect) on c1": {Instance: &pb.Instance{Service: "web", State: "RUNNING", Presence: "SUSPECT",
			Cell: "c1"}},
		"web/0 RUNNING on c2": {Instance: &pb.Instance{Service: "web", State: "RUNNING", Presence: "ORDINARY",
			Cell: "c2"}},
		"d/web/0 (suspect) on c1 is gone": {Subject: "d/web/0", Gone: true,
			Instance: &pb.Instance{Presence: "SUSPECT", Cell: "c1"}},
		"web/1 CLAIMED":      {Instance: &pb.Instance{Service: "web", Index: 1, State: "CLAIMED"}},
		"web/1 UNCLAIMED: x": {Instance: &pb.Instance{Service: "web", Index: 1, State: "UNCLAIMED", PlacementError: "x"}},
	} {
		if got := eventOf(e); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestAReasonNamesAShortageOnce: a shortage in the text has no separate line.
func TestAReasonNamesAShortageOnce(t *testing.T) {
	r := &pb.Reason{Text: "running: 1 needed, 0 free, held by count/a", Resource: "running", Need: 1, Holder: "count/a"}
	if !saysAll(r) {
		t.Error("printed twice")
	}
	if r.Holder += ", count/b"; saysAll(r) {
		t.Error("a holder is missing")
	}
}

func TestBackupAndRestore(t *testing.T) {
	s := newShell(t)
	dir := t.TempDir()
	s.fails(api.ExitUsage, "--data or --etcd-endpoints", "store", "backup", dir+"/b")
	s.fails(api.ExitUsage, "no such directory", "store", "backup", dir+"/b", "--data", dir+"/none")
	if err := os.Mkdir(dir+"/empty", 0o700); err != nil {
		t.Fatal(err)
	}
	s.fails(api.ExitFailed, "no store found", "store", "backup", dir+"/b", "--data", dir+"/empty")
	if _, err := os.Stat(dir + "/empty/server"); err == nil {
		t.Fatal("a backup made a store")
	}
	if _, err := os.Stat(dir + "/b"); err == nil {
		t.Fatal("a failed backup left a file")
	}
	if err := os.WriteFile(dir+"/bad", []byte("not a backup"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.fails(api.ExitFailed, "bad backup", "store", "restore", dir+"/bad", "--data", dir+"/new")
	if err := os.MkdirAll(dir+"/held/server/etcd", 0o700); err != nil {
		t.Fatal(err)
	}
	held, err := datadir.Open(dir + "/held/server")
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	s.fails(api.ExitFailed, "in use", "store", "mark-restored", "--data", dir+"/held")
}

// TestADirectoryOfAnotherProcessIsRefused: by all verbs that take --data, by name, and unchanged.
func TestADirectoryOfAnotherProcessIsRefused(t *testing.T) {
	s, dir := newShell(t), t.TempDir()
	err := (&place{data: dir + "/server", empty: true}).open(t.Context(),
		func(ctx context.Context, st *store.Store) error {
			leadership, err := st.Campaign(ctx, store.Candidate{ID: "test"})
			if err != nil {
				return err
			}
			return leadership.Resign(ctx)
		})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir+"/cell/executor", 0o700); err != nil {
		t.Fatal(err)
	}
	s.ok("store", "backup", dir+"/b", "--data", dir+"/server")
	for _, argv := range [][]string{
		{"store", "restore", dir + "/b"}, {"store", "mark-restored"}, {"store", "backup", dir + "/c"}, {"server"}, {"dev"},
	} {
		s.fails(api.ExitUsage, dir+"/cell belongs to a cell", append(argv, "--data", dir+"/cell")...)
	}
	s.fails(api.ExitUsage, dir+"/server holds the store of a server",
		"cell", "--servers", "127.0.0.1:1", "--data", dir+"/server")
	for _, name := range []string{"/cell/server", "/cell/etcd", "/server/executor", "/server/identity.json", "/c"} {
		if _, err := os.Stat(dir + name); err == nil {
			t.Errorf("%s was made", name)
		}
	}
}

// TestABackupComesBack writes a store as a leader does, backs it up and restores it.
func TestABackupComesBack(t *testing.T) {
	s := newShell(t)
	dir := t.TempDir()
	write := func(ctx context.Context, st *store.Store) error {
		leadership, err := st.Campaign(ctx, store.Candidate{ID: "test"})
		if err != nil {
			return err
		}
		done := make(chan error, 1)
		leadership.Submit(store.Transition{Ops: []store.Op{{Key: "task/x", Value: []byte("row")}}},
			func(_ int64, err error) { done <- err })
		return errors.Join(<-done, leadership.Resign(ctx))
	}
	if err := (&place{data: dir + "/old", empty: true}).open(t.Context(), write); err != nil {
		t.Fatal(err)
	}
	_, errs, code := s.run("store", "backup", dir+"/b", "--data", dir+"/old")
	if code != 0 || !strings.Contains(errs, "1 rows") {
		t.Fatal(code, errs)
	}
	s.fails(api.ExitUsage, "exists", "store", "backup", dir+"/b", "--data", dir+"/old")
	s.ok("store", "backup", dir+"/b", "--data", dir+"/old", "--force")
	s.fails(api.ExitUsage, "is not a file", "store", "backup", dir, "--data", dir+"/old", "--force")
	s.ok("store", "restore", dir+"/b", "--data", dir+"/new")
	s.ok("store", "restore", dir+"/b", "--data", dir+"/second", "--new-identity")
	s.fails(api.ExitFailed, "not empty", "store", "restore", dir+"/b", "--data", dir+"/new")
	s.ok("store", "mark-restored", "--data", dir+"/old")
	var rows []store.Row
	restored := false
	identity := func(name string) (id fence.Cluster) {
		err := (&place{data: dir + name}).open(t.Context(), func(ctx context.Context, st *store.Store) error {
			leadership, err := st.Campaign(ctx, store.Candidate{ID: "test"})
			if err != nil {
				return err
			}
			id = leadership.Cluster()
			return leadership.Resign(ctx)
		})
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	if old, same, second := identity("/old"), identity("/new"), identity("/second"); old == "" || same != old ||
		second == "" || second == old {
		t.Errorf("identities: %q, restored %q, as new %q", old, same, second)
	}
	read := func(ctx context.Context, st *store.Store) error {
		leadership, err := st.Campaign(ctx, store.Candidate{ID: "test"})
		if err != nil {
			return err
		}
		rows, restored = leadership.Rows(), leadership.Restored()
		return leadership.Resign(ctx)
	}
	if err := (&place{data: dir + "/new"}).open(t.Context(), read); err != nil {
		t.Fatal(err)
	}
	if len(rows) != 1 || rows[0].Key != "task/x" || string(rows[0].Value) != "row" || !restored {
		t.Fatalf("rows %v, restored %v", rows, restored)
	}
}

func TestEventsAndWatch(t *testing.T) {
	s := newShell(t)
	s.apply()
	got := s.ok("events", "--since", "100", "--kind", "task", "-o", "jsonl")
	if strings.Count(got, "\n") != 1 || !strings.Contains(got, `"subject":"d.once"`) {
		t.Fatal(got)
	}
	if got := s.ok("events", "--since", "10m", "-q"); got == "" {
		t.Error("no events of the last minutes")
	}
	s.signals <- os.Interrupt // bare, it follows
	s.ok("events", "-q")
	s.out = &safeBuffer{wrote: make(chan struct{}, 1)}
	changed := make(chan struct{})
	go func() {
		defer close(changed)
		<-s.out.wrote
		s.SetTask("d.once", func(x *task.Task) { x.State = task.Running })
		<-s.out.wrote
		s.signals <- os.Interrupt
	}()
	if got, _, code := s.run("task", "ls", "-w", "-o", "jsonl"); code != 0 || strings.Count(got, "\n") != 2 ||
		!strings.Contains(got, "RUNNING") {
		t.Fatal(code, got)
	}
	<-changed
}

func TestDrainVerbs(t *testing.T) {
	s := newShell(t)
	s.apply()
	s.fails(api.ExitUsage, "a reason is required", "drain", "c1")
	s.fails(api.ExitNotFound, `cell "c9"`, "drain", "c9", "--reason", "x")
	s.fails(api.ExitUsage, "from 1 s to 30 days", "drain", "c1", "--reason", "x", "--deadline", "10ms")
	if _, errs, code := s.run("drain", "cell/c1", "--reason", "new disk", "--deadline", "30m"); code != 0 ||
		!strings.Contains(errs, "deadline in 30m; to cancel: cantina undrain c1") {
		t.Fatalf("%d %s", code, errs)
	}
	if got := s.ok("cells", "c1"); !strings.Contains(got, "draining until") || !strings.Contains(got, "0 left: new disk") {
		t.Fatal(got)
	}
	s.fails(api.ExitUsage, `finish or stop, not "wait"`, "drain", "c1", "--reason", "x", "--batch", "wait")
	for flag, want := range map[string]string{"--batch=finish": "false", "--batch=stop": "true", "--stop-batch": "true"} {
		s.ok("drain", "c1", "--reason", "x", flag)
		if got := s.ok("cells", "c1", "--template", "{{.drain.stop_batch}}"); got != want+"\n" {
			t.Errorf("%s: %q", flag, got)
		}
	}
	for _, want := range []string{"accepts work again", "cell c1 is not drained"} {
		if _, errs, code := s.run("undrain", "c1"); code != 0 || !strings.Contains(errs, want) {
			t.Fatalf("%d %s", code, errs)
		}
	}
	s.fails(api.ExitNotFound, `cell "c9"`, "undrain", "c9")
	if got := s.ok("cells", "c1"); strings.Contains(got, "drain") {
		t.Fatal(got)
	}
	s.SetCell(api.Cell{Name: "c1", Proc: "p1", Session: worker.Healthy, Reported: true, Draining: true, Since: time.Now()})
	if got := s.ok("cells", "c1"); !strings.Contains(got, "undrained; waiting for the cell") {
		t.Error(got)
	}
}

// TestNoNoteIsCut: on a terminal of any width every note is complete, even if the columns beside
// it are narrowed; FREE loses the least important part.
func TestNoNoteIsCut(t *testing.T) {
	s := newShell(t)
	s.tty = true
	long := "its heartbeats stopped 12 s ago: the cell, its machine or the network between them does not answer any more"
	for i, reason := range []string{"", "short", long} {
		s.SetCell(api.Cell{Name: worker.CellName(fmt.Sprintf("cell-%d", i)), Proc: "p", Session: worker.Unhealthy,
			Reason: reason, Reported: true, Since: time.Now(),
			Capacity: resource.Amounts{"containers": 1000, "disk_mb": 97000, "memory_mb": 24105, "cpu_milli": 2000, "slots": 3},
			Free:     resource.Amounts{"containers": 1000, "disk_mb": 97000, "memory_mb": 24105, "cpu_milli": 2000, "slots": 3}})
	}
	for _, args := range [][]string{{"cells"}, {"cells", "-o", "wide"}, {"cells", "--columns", "cell,note,proc"}} {
		got := s.ok(append(args, "--color", "never")...)
		if !strings.Contains(got, long+"\n") && !strings.Contains(got, long+" ") || !strings.Contains(got, "short") {
			t.Errorf("%q: a note is cut:\n%s", args, got)
		}
		for _, l := range strings.Split(got, "\n") {
			if n := utf8.RuneCountInString(l); n > 100 && args[len(args)-1] == "cells" && !strings.HasPrefix(l, "  ") {
				t.Errorf("a row has %d columns:\n%s", n, l)
			}
		}
	}
	if got := s.ok("cells"); !strings.Contains(got, "memory_mb 24105/24105") {
		t.Errorf("FREE:\n%s", got)
	}
	s.tty = false
	if got := s.ok("cells"); strings.Count(got, "\n") != 4 ||
		!strings.Contains(got, "disk_mb 97000/97000, slots 3/3, containers 1000/1000  ") {
		t.Errorf("one row for each, whole, where no terminal is:\n%s", got)
	}
}

// TestStatusNamesTheLostTasks: up to three, and the command that lists all; those that were
// resolved are no news. ls finds tasks by how they ended.
func TestStatusNamesTheLostTasks(t *testing.T) {
	s := newShell(t)
	status := func(n int32, want string) {
		t.Helper()
		c := &cli{environment: environment{Out: &bytes.Buffer{}, Err: &bytes.Buffer{},
			Getenv: func(k string) string { return s.env[k] }}, ctx: t.Context(), printing: printing{zone: time.UTC}}
		if err := printStatus(c, &pb.Status{Counts: map[string]int32{"tasks_lost": n}}); err != nil {
			t.Fatal(err)
		}
		if c.clientMade != nil {
			c.clientMade.Close()
		}
		if out := c.Out.(*bytes.Buffer).String(); !strings.Contains(out, "tasks_lost  "+want) {
			t.Errorf("%q in\n%s", want, out)
		}
	}
	status(0, "0\n")
	lose := func(ids ...string) {
		for _, id := range ids {
			s.ok("run", "-d", "--id", id, "--", "true")
			s.SetTask(id, func(x *task.Task) { x.State, x.Outcome = task.Completed, task.Lost })
		}
	}
	s.ok("run", "-d", "--id", "fine", "--", "true")
	s.SetTask("fine", func(x *task.Task) { x.State, x.Outcome = task.Completed, task.Succeeded })
	lose("a", "b")
	status(2, "2: a, b; cantina task resolve ID --as done, failed or rerun\n")
	lose("c", "d")
	status(4, "4: a, b, c, …; all: cantina task ls --outcome lost;")
	s.SetTask("a", func(x *task.Task) { x.Resolution = task.ResolvedDone })
	status(3, "3: b, c, d; cantina task resolve")
	if got := s.ok("task", "ls", "--outcome", "succeeded,cancelled", "-q"); got != "fine\n" {
		t.Errorf("%q", got)
	}
	s.fails(api.ExitUsage, "--outcome must be succeeded, failed, cancelled or lost", "task", "ls", "--outcome", "missing")
}

// TestGraces: --now and --grace shorten the end of the work that a verb ends, and only that.
func TestGraces(t *testing.T) {
	s := newShell(t)
	s.apply()
	s.fails(api.ExitUsage, "--all-at-once", "restart", "web", "--now")
	s.ok("restart", "web/0", "--grace", "0s")
	s.ok("restart", "web", "--all-at-once", "--now")
	s.ok("stop", "web/0", "--grace", "90s")
	s.ok("stop", "web", "--now")
	s.ok("stop", "count", "--now")
	s.ok("stop", "web")
	s.ok("rm", "web", "--yes", "--grace", "2s")
	want := []string{
		"instance d/web 0s", "service d/web 0s", "instance d/web 1m30s", "service d/web 0s", "job d/count 0s",
		"service d/web 2s",
	}
	if !slices.Equal(s.Graces, want) {
		t.Errorf("got  %q\nwant %q", s.Graces, want)
	}
	s.fails(api.ExitUsage, "--now and --grace exclude each other; give one of them", "stop", "web", "--now", "--grace",
		"1s")
}

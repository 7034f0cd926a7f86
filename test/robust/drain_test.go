package robust

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cantina/api"
	"cantina/task"
	pb "cantina/wire/cantinav1"
)

// drained waits until the drain of a cell has ended and returns it.
func (c *cluster) drained(name string) *pb.Drain {
	c.t.Helper()
	var d *pb.Drain
	err := until(c.t.Context(), c.client(), &pb.StreamEventsRequest{Kind: []string{"cell"}, Subject: name}, func() bool {
		if x := c.cell(name); x != nil {
			d = x.Drain
		}
		return d.GetEnded() != nil
	})
	if err != nil {
		c.t.Fatalf("the drain of cell %s does not end: %v; it is %v", name, err, d)
	}
	return d
}

// onCells lists the cells of a service's instances.
func (c *cluster) onCells(service string) []string {
	c.t.Helper()
	l, err := api.Call(c.t.Context(), c.client(), calls.ListInstances,
		&pb.ListInstancesRequest{Domain: "d", Service: service})
	if err != nil {
		c.t.Fatal(err)
	}
	var out []string
	for _, x := range l.Instances {
		out = append(out, x.State+" on "+x.Cell)
	}
	return out
}

// routes is the view of a routing consumer of events: the running instances of each index.
type routes struct {
	running map[int32]map[string]bool
	moved   int
	bad     string // the event that left an index without any
}

func (c *cluster) routes(service string) *routes {
	c.t.Helper()
	l, err := api.Call(c.t.Context(), c.client(), calls.ListInstances,
		&pb.ListInstancesRequest{Domain: "d", Service: service})
	if err != nil {
		c.t.Fatal(err)
	}
	r := &routes{running: map[int32]map[string]bool{}}
	for _, x := range l.Instances {
		r.running[x.Index] = map[string]bool{x.Instance: true}
	}
	return r
}

func (r *routes) take(e *pb.Event) {
	x := e.GetInstance()
	if x == nil || x.Instance == "" {
		return
	}
	all := r.running[x.Index]
	switch {
	case e.Gone || x.State != "RUNNING":
		delete(all, x.Instance)
	case !all[x.Instance]:
		all[x.Instance] = true
		r.moved++
	}
	if len(all) == 0 && r.bad == "" {
		r.bad = e.String()
	}
}

// routed follows a service as a routing consumer does until stop is called. The call fails the test if an index was
// without a running instance, and returns the number of new instances.
func (c *cluster) routed(service string) (stop func() (moved int)) {
	c.t.Helper()
	ctx, cancel := context.WithCancel(c.t.Context())
	open, seen := make(chan struct{}), make(chan struct{})
	routes, client := c.routes(service), c.client()
	go func() {
		defer close(seen)
		first := true
		_ = client.Events(ctx, &pb.StreamEventsRequest{Kind: []string{"instance"}, Domain: "d", All: true},
			func(m *pb.StreamEventsResponse) error {
				if first {
					first = false
					close(open)
				}
				routes.take(m.Event)
				return nil
			})
	}()
	<-open
	return func() int {
		cancel()
		<-seen
		if routes.bad != "" {
			c.t.Errorf("an index was without a running instance: %s", routes.bad)
		}
		return routes.moved
	}
}

// TestDrainMovesBeforeItStops empties the cell that runs a service: no event shows
// an index without a running instance, and the cell is empty in the end.
func TestDrainMovesBeforeItStops(t *testing.T) {
	w := newWitness(t)
	c := startCluster(t, patient, 1, 2)
	apply(t, c.addr(), "domain: d\nservices:\n  web: {command: ["+w.command()+
		", web, sleep, \"1000\"], instances: 4, stop_grace: 1s}\n")
	must(t, c.addr(), "wait", "web", "--timeout", "100s")
	stop := c.routed("web")
	got := cli(t, c.addr(), "drain", "c1", "--reason", "new disk", "--deadline", "90s", "--wait", "--timeout", "80s")
	if got.code != 0 || !strings.Contains(got.err, "cell c1 is empty") {
		t.Fatalf("drain: %+v", got)
	}
	if moved := stop(); moved == 0 {
		t.Error("nothing was on the cell that was drained")
	}
	if on := strings.Join(c.onCells("web"), ", "); on != strings.TrimSuffix(strings.Repeat("RUNNING on c2, ", 4), ", ") {
		t.Errorf("web is %s", on)
	}
	if text := must(t, c.addr(), "cells", "c1"); !strings.Contains(text, "drained: new disk") {
		t.Errorf("cells:\n%s", text)
	}
	if text := must(t, c.addr(), "explain", "cell/c1"); !strings.Contains(text, "new disk; no work is left") ||
		!strings.Contains(text, "undrain c1") {
		t.Errorf("explain:\n%s", text)
	}
	if text := must(t, c.addr(), "events", "--since", "1", "--kind", "cell"); !strings.Contains(text, "no work is left") {
		t.Errorf("events:\n%s", text)
	}
}

// TestDrainSurvivesItsLeaderAndItsCell: a drain goes on under the next leader and in the next process of the cell.
// It ends at its deadline, names the work it waited for, and is undone.
func TestDrainSurvivesItsLeaderAndItsCell(t *testing.T) {
	w := newWitness(t)
	c := startCluster(t, patient, 2, 2)
	must(t, c.addr(), "drain", "c2", "--reason", "first")
	c.drained("c2")
	client := c.client()
	if err := runTask(t.Context(), client, "t1", w.command(), "t1", "sleep", "1000"); err != nil {
		t.Fatal(err)
	}
	w.waitBegun("t1", 1)
	must(t, c.addr(), "undrain", "c2")
	must(t, c.addr(), "drain", "c1", "--reason", "second", "--deadline", "20s")
	was := c.status()
	c.servers[was.Leader].kill()
	if now := c.status(); now.Term == was.Term {
		t.Fatalf("term %s goes on after its leader was killed", was.Term)
	}
	c.session("c1", "HEALTHY")
	c.session("c2", "HEALTHY")
	if err := runTask(t.Context(), client, "t2", w.command(), "t2", "true"); err != nil {
		t.Fatal(err)
	}
	must(t, c.addr(), "wait", "t2", "--timeout", "100s")
	if x := getTask(t, client, "t2"); x.Cell != "c2" {
		t.Errorf("t2 ran on %s", x.Cell)
	}
	if d := c.drained("c1"); len(d.Waits) != 1 || !strings.Contains(d.Waits[0], "task t1") || d.Reason != "second" {
		t.Errorf("the drain of c1 ended as %v", d)
	}
	cli(t, c.addr(), "wait", "t1", "--timeout", "100s")
	if x := getTask(t, client, "t1"); x.Outcome != task.Failed.String() ||
		!strings.Contains(x.String(), task.ReasonDrain) {
		t.Errorf("t1: %v", x)
	}
	c.cells["c1"].kill()
	c.startCell("c1").wait()
	c.session("c1", "HEALTHY")
	must(t, c.addr(), "drain", "c2", "--reason", "third")
	if err := runTask(t.Context(), client, "t3", w.command(), "t3", "true"); err != nil {
		t.Fatal(err)
	}
	shows(t, c.addr(), []string{"being drained"}, "explain", "task/t3")
	must(t, c.addr(), "undrain", "c1")
	must(t, c.addr(), "wait", "t3", "--timeout", "100s")
	if x := getTask(t, client, "t3"); x.Cell != "c1" {
		t.Errorf("t3 ran on %s", x.Cell)
	}
}

func getTask(t *testing.T, client *api.Client, id string) *pb.Task {
	t.Helper()
	got, err := api.Call(t.Context(), client, calls.GetTask, &pb.GetTaskRequest{Id: id})
	if err != nil {
		t.Fatal(err)
	}
	return got.Task
}

// TestDrainWaitsForReadiness drains the cell of a service that becomes ready slowly: a router always has an
// instance that serves.
func TestDrainWaitsForReadiness(t *testing.T) {
	c := startCluster(t, patient, 1, 2)
	apply(t, c.addr(), `
domain: d
services:
  web:
    command: [sh, -c, 'sleep 2; touch ready; exec sleep 1000']
    instances: 2
    stop_grace: 1s
    readiness_checks: [{exec: {command: [test, -e, ready]}, startup_interval: 200ms, interval: 1s}]
`)
	must(t, c.addr(), "wait", "web", "--timeout", "100s")
	stop := c.watch("web")
	for _, cell := range []string{"c1", "c2"} {
		if d := cli(t, c.addr(), "drain", cell, "--reason", "kernel", "--deadline", "60s", "--wait", "--timeout",
			"50s"); d.code != 0 {
			t.Fatalf("drain: %+v", d)
		}
		must(t, c.addr(), "undrain", cell)
		c.session(cell, "HEALTHY")
	}
	if v := stop(); v.bad != "" {
		t.Errorf("an index was without an instance that serves: %s", v.bad)
	}
}

// TestDrainOfBatchTasks drains cells that run batch tasks beside a service and a schedule of another domain. The
// tasks may finish, or are stopped and run again on another cell, or wait for a cell when there is none. A blocked
// drain ends at its deadline and names the work it waited for, and nothing runs twice at a time.
func TestDrainOfBatchTasks(t *testing.T) {
	w := newWitness(t)
	c := startCluster(t, patient, 1, 2)
	apply(t, c.addr(), fmt.Sprintf(`
domain: d
services:
  web: {command: [sleep, "1000"], stop_grace: 1s}
jobs:
  long:
    levels: [item]
    cell_order: round_robin
    nodes: [{manual: [l1, l2, l3, l4]}]
    command: [%[1]s, "{}", sh, -c, "until [ -e %[2]s/go ]; do sleep 0.1; done"]
`, w.command(), w.dir))
	apply(t, c.addr(), fmt.Sprintf(`
domain: e
schedules:
  tick:
    cron: '@every 1s'
    misfire: skip
    overlap: allow
    overlap_max: 100
    task: {command: [sh, -c, 'exec %s "tick-$CANTINA_SCHEDULED_AT" true']}
`, w.command()))
	must(t, c.addr(), "wait", "web", "--timeout", "100s")
	nodes := []string{"l1", "l2", "l3", "l4"}
	for _, n := range nodes {
		w.waitBegun(n, 1)
	}
	first := c.batchCells("long")
	if first["c1"] == 0 || first["c2"] == 0 {
		t.Fatalf("the batch tasks run on %v: nothing of both cells is tested", first)
	}

	// They may finish: the drain waits for them and reports that, and the other cell goes on.
	must(t, c.addr(), "drain", "c1", "--reason", "finish", "--deadline", "60s")
	c.waits("c1", func(list string) bool {
		return strings.Count(list, "job d/long") == first["c1"] && !strings.Contains(list, "service")
	})
	if got := c.batchCells("long"); got["c1"] != first["c1"] {
		t.Errorf("they run on %v, and did on %v", got, first)
	}
	// Now they are stopped: another drain of the same cell replaces the first.
	must(t, c.addr(), "drain", "c1", "--reason", "stop", "--batch", "stop", "--deadline", "60s")
	if d := c.drained("c1"); len(d.Waits) != 0 || d.Reason != "stop" {
		t.Errorf("the drain ended as %v", d)
	}
	again := func() (n int) {
		for _, id := range nodes {
			n += len(w.begun()[id]) - 1
		}
		return n
	}
	if !w.until(patience, func() bool { return again() >= first["c1"] }) || again() != first["c1"] ||
		c.batchCells("long")["c1"] != 0 {
		t.Errorf("%d batch tasks began again elsewhere, want %d; they run on %v", again(), first["c1"], c.batchCells("long"))
	}
	c.noRetries("long")
	if on := c.onCells("web"); len(on) != 1 || on[0] != "RUNNING on c2" {
		t.Errorf("web is %v", on)
	}

	// No cell is left: the deadline ends them, and they wait.
	must(t, c.addr(), "drain", "c2", "--reason", "deadline", "--deadline", "4s")
	d := c.drained("c2")
	if list := strings.Join(d.Waits, ", "); strings.Count(list, "job d/long on l") != len(nodes) ||
		!strings.Contains(list, "service web/0") {
		t.Errorf("it waited for %s", list)
	}
	if took := d.Ended.AsTime().Sub(d.Since.AsTime()); took > 13*time.Second { // the grace time of the work is 10 s
		t.Errorf("a drain of 4s took %v", took)
	}
	shows(t, c.addr(), []string{"drained"}, "explain", "job/long")
	before := w.begun()
	must(t, c.addr(), "undrain", "c1")
	for _, n := range nodes {
		w.waitBegun(n, len(before[n])+1)
	}
	c.noRetries("long")
	must(t, c.addr(), "wait", "web", "--timeout", "100s")

	// And once more they may finish, before the deadline.
	must(t, c.addr(), "undrain", "c2")
	must(t, c.addr(), "drain", "c1", "--reason", "finish", "--deadline", "60s")
	if err := os.WriteFile(filepath.Join(w.dir, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	must(t, c.addr(), "wait", "long", "--timeout", "100s")
	if d := c.drained("c1"); len(d.Waits) != 0 {
		t.Errorf("the drain ended as %v", d)
	}
	ticks := 0
	for id, list := range w.begun() {
		if strings.HasPrefix(id, "tick-") {
			ticks++
			if len(list) != 1 {
				t.Errorf("%s fired %d times", id, len(list))
			}
		}
	}
	if ticks < 5 {
		t.Errorf("the schedule of the other domain fired %d times", ticks)
	}
	w.check()
}

// batchCells counts the running batch tasks of a job by their cells.
func (c *cluster) batchCells(job string) map[string]int {
	c.t.Helper()
	l, err := api.Call(c.t.Context(), c.client(), calls.ListNodes,
		&pb.ListNodesRequest{Domain: "d", Job: job, State: []string{"running"}})
	if err != nil {
		c.t.Fatal(err)
	}
	out := map[string]int{}
	for _, n := range l.Nodes {
		out[n.Cell]++
	}
	return out
}

// noRetries demands that no interruption of a job counts as a failure.
func (c *cluster) noRetries(job string) {
	c.t.Helper()
	l, err := api.Call(c.t.Context(), c.client(), calls.ListNodes, &pb.ListNodesRequest{Domain: "d", Job: job})
	if err != nil {
		c.t.Fatal(err)
	}
	for _, n := range l.Nodes {
		if n.State == "failed" || n.State == "backoff" || n.Losses != 0 {
			c.t.Errorf("%s: %v", n.Node, n)
		}
	}
}

// waits waits until the list of a drain's remaining work is as expected.
func (c *cluster) waits(name string, want func(list string) bool) {
	c.t.Helper()
	list := ""
	err := until(c.t.Context(), c.client(), &pb.StreamEventsRequest{}, func() bool {
		list = strings.Join(c.cell(name).GetDrain().GetWaits(), ", ")
		return want(list)
	})
	if err != nil {
		c.t.Fatalf("the drain of %s waits for %q: %v", name, list, err)
	}
}

// TestADrainsDeadlineAndForbiddenOverlap drains the cell of a schedule's run that takes three seconds to stop. The
// next run begins on another cell as soon as that has ended, and not at the deadline.
func TestADrainsDeadlineAndForbiddenOverlap(t *testing.T) {
	w := newWitness(t)
	c := startCluster(t, patient, 1, 2)
	must(t, c.addr(), "drain", "c2", "--reason", "not yet")
	apply(t, c.addr(), fmt.Sprintf(`
domain: d
schedules:
  slow:
    cron: '@every 1s'
    overlap: forbid
    misfire: skip
    task:
      command: [%s, slow, sh, -c, 'trap "sleep 3; exit" TERM; while :; do sleep 0.1; done']
`, w.command()))
	w.waitBegun("slow", 1)
	must(t, c.addr(), "undrain", "c2")
	c.session("c2", "HEALTHY")
	must(t, c.addr(), "drain", "c1", "--reason", "disk", "--deadline", "1s")
	d := c.drained("c1")
	if len(d.Waits) != 1 || !strings.HasPrefix(d.Waits[0], "task d.slow") {
		t.Fatalf("the drain ended as %v", d)
	}
	w.waitBegun("slow", 2)
	if x := getTask(t, c.client(), strings.Fields(d.Waits[0])[1]); x.Outcome != task.Failed.String() ||
		!strings.Contains(x.String(), task.ReasonDrain) {
		t.Errorf("the run that the drain ended: %v", x)
	}
	must(t, c.addr(), "rm", "schedule/slow", "--domain", "d", "--yes")
	w.check()
}

// TestUndrainKeepsRunningInstances: an undrain cancels the evacuation of running instances, also before the cell
// has reported the drain. Waiting work is placed at once.
func TestUndrainKeepsRunningInstances(t *testing.T) {
	w := newWitness(t)
	c := startCluster(t, nil, 1, 1) // beats every 5 s: longer than the drain
	apply(t, c.addr(), "domain: d\nservices:\n  web: {command: ["+w.command()+", web, sleep, \"1000\"], instances: 3}\n")
	must(t, c.addr(), "wait", "web", "--timeout", "100s")
	w.waitBegun("web", 3)
	ordinary := func() bool {
		l, err := api.Call(t.Context(), c.client(), calls.ListInstances,
			&pb.ListInstancesRequest{Domain: "d", Service: "web", All: true})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, x := range l.Instances {
			if x.State == "RUNNING" && x.Presence == "ORDINARY" {
				n++
			}
		}
		return n == 3 && len(l.Instances) == 3
	}
	for range soak(3, 20) {
		must(t, c.addr(), "drain", "c1", "--reason", "by mistake", "--deadline", "3s")
		must(t, c.addr(), "undrain", "c1")
		if err := until(t.Context(), c.client(), &pb.StreamEventsRequest{Kind: []string{"instance"}, Domain: "d", All: true},
			ordinary); err != nil {
			t.Fatalf("web is not as it was: %v\n%s", err, must(t, c.addr(), "ps", "--all"))
		}
		if x := c.cell("c1"); x.Drain != nil || x.Draining {
			t.Fatalf("c1: %v", x)
		}
	}
	// An instance whose time was over is placed again as soon as its cell takes work.
	must(t, c.addr(), "drain", "c1", "--reason", "for good", "--deadline", "1s")
	c.drained("c1")
	must(t, c.addr(), "undrain", "c1")
	w.waitBegun("web", 6)
	if n := len(w.begun()["web"]); n != 6 {
		t.Errorf("%d processes of web were started, want 3 before and 3 after the drain that ran out", n)
	}
}

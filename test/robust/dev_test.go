package robust

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"cantina/api"
	pb "cantina/wire/cantinav1"
	"cantina/wire/cantinav1/cantinav1connect"
)

type calls = cantinav1connect.CantinaServiceClient

func startDev(t *testing.T, data string, more ...string) *process {
	t.Helper()
	return start(t, "dev", append([]string{"dev", "--data", data, "--socket", "none", "--listen", "127.0.0.1:0", "--name",
		"one"}, more...)...)
}

// acked has the promises of cantina.
type acked struct {
	mu     sync.Mutex
	tasks  map[string]bool
	done   map[string]string // node of a finished batch task -> its invocation
	serial int
}

// TestKillDev kills cantina dev at random moments under a mixed load and starts it
// on the same directory: nothing acknowledged is lost, nothing runs twice, and nothing
// of the dead process is left.
func TestKillDev(t *testing.T) {
	r, w, data := seeded(t), newWitness(t), tempDir(t)
	rounds, nodes := soak(3, 200), soak(300, 6000)
	known := &acked{tasks: map[string]bool{}, done: map[string]string{}}
	d := startDev(t, data).wait()
	apply(t, d.Addr, mixedSpec(w, nodes))
	for round := range rounds {
		event := 1 + r.IntN(300)
		load(t, d, w, known, event)
		d.kill()
		if r.IntN(2) == 0 {
			t.Logf("round %d: killed at event %d, all gone after %v", round, event,
				gone(t, filepath.Join(data, "cell"), patience))
		}
		if r.IntN(3) == 0 {
			killAtStart(t, r, data)
		}
		d = startDev(t, data).wait()
	}
	awaitEnd(t, d, w, known, nodes)
	d.stop()
	clean(t, filepath.Join(data, "cell"))
	w.check()
}

func mixedSpec(w *witness, nodes int) string {
	return fmt.Sprintf(`
domain: d
services:
  web: {command: [sh, -c, 'exec %[1]s web-$CANTINA_INDEX sleep 1000'], instances: 2, stop_grace: 1s}
jobs:
  append:
    levels: [item]
    nodes: [{script: [sh, -c, "seq -f n%%g %[2]d"]}]
    command: [%[1]s, "{}", "true"]
    backoff: [1s, repeat]
`, w.command(), nodes)
}

// killAtStart kills a dev while it starts, after a random line of its log.
func killAtStart(t *testing.T, r *rand.Rand, data string) {
	t.Helper()
	d, lines := startDev(t, data), r.IntN(10)
	d.log.until(d.ready, patience, func(s string) bool { return strings.Count(s, "\n") >= lines })
	d.kill()
}

// load submits tasks until so many events were seen.
func load(t *testing.T, d *process, w *witness, known *acked, events int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c := d.client()
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			known.mu.Lock()
			known.serial++
			id := fmt.Sprintf("t%d", known.serial)
			known.mu.Unlock()
			if runTask(ctx, c, id, w.command(), id, "true") == nil {
				known.mu.Lock()
				known.tasks[id] = true
				known.mu.Unlock()
			}
		}
	})
	seen := 0
	err := c.Events(ctx, &pb.StreamEventsRequest{Since: "0"}, func(m *pb.StreamEventsResponse) error {
		if e := m.Event; e != nil {
			seen++
			if n := e.Node; n != nil && n.State == "done" {
				known.mu.Lock()
				known.done[n.Node] = n.Invocation
				known.mu.Unlock()
			}
		}
		if seen >= events {
			return api.Stop()
		}
		return nil
	})
	if err != nil {
		t.Fatalf("events: %v", err)
	}
	cancel()
	wg.Wait()
}

// runTask submits one task.
func runTask(ctx context.Context, c *api.Client, id string, argv ...string) error {
	_, err := api.Call(ctx, c, calls.RunTask, &pb.RunTaskRequest{Id: id, Domain: "d",
		Definition: &pb.TaskDefinition{Workload: runWorkload(argv...)}})
	return err
}

func runWorkload(argv ...string) *pb.Workload {
	return &pb.Workload{Action: &pb.Action{Kind: &pb.Action_Run{Run: &pb.Run{Path: argv[0], Args: argv[1:]}}}}
}

// awaitEnd waits until all has ended and compares it with the expected outcomes.
func awaitEnd(t *testing.T, d *process, w *witness, known *acked, nodes int) {
	t.Helper()
	must(t, d.Addr, "wait", "append", "--timeout", "100s")
	must(t, d.Addr, "wait", "web", "--timeout", "100s")
	ends := map[string]*pb.Task{}
	for id := range known.tasks {
		ends[id] = taskEnd(t, d.client(), id)
	}
	begun := w.begun()
	for n := range nodes {
		id := fmt.Sprintf("n%d", n+1)
		list := begun[id]
		if len(list) == 0 {
			t.Errorf("batch task %s never ran and is reported as done", id)
			continue
		}
		if last, ok := known.done[id]; ok && last != list[len(list)-1] {
			t.Errorf("batch task %s was done with invocation %s and ran again: %v", id, last, list)
		}
	}
	lost := 0
	for id, end := range ends {
		switch n := len(begun[id]); {
		case n > 1:
			t.Errorf("task %s ran %d times", id, n)
		case n == 0 && end.Outcome == "succeeded":
			t.Errorf("task %s never ran and is reported as succeeded", id)
		case end.Outcome == "lost":
			lost++
		case end.Outcome != "succeeded":
			t.Errorf("task %s: %s, %s", id, end.Outcome, end.Reason)
		}
	}
	t.Logf("%d tasks acknowledged, %d lost, %d batch tasks known to be done before the last start", len(known.tasks), lost,
		len(known.done))
}

// taskEnd waits for the end of a task.
func taskEnd(t *testing.T, c *api.Client, id string) *pb.Task {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	got, err := api.Call(ctx, c, calls.GetTask, &pb.GetTaskRequest{Id: id})
	if err != nil {
		t.Fatalf("task %s: %v", id, err)
	}
	task := got.Task
	if task.State == "COMPLETED" {
		return task
	}
	err = c.Events(ctx, &pb.StreamEventsRequest{Since: got.Position, Kind: []string{"task"}, Subject: id},
		func(m *pb.StreamEventsResponse) error {
			if e := m.Event; e != nil && e.Task != nil && e.Task.State == "COMPLETED" {
				task = e.Task
				return api.Stop()
			}
			return nil
		})
	if err != nil || task.State != "COMPLETED" {
		t.Fatalf("task %s is %s: %v", id, task.State, errors.Join(err, ctx.Err()))
	}
	return task
}

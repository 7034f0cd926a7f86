package robust

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"cantina/api"
	pb "cantina/wire/cantinav1"
)

// TestKillLeader kills the leader again and again while batch tasks and tasks run on three cells, each in a network
// namespace. No id is written twice, and none is missing without a record of its loss. Work that runs over the
// change goes on.
func TestKillLeader(t *testing.T) {
	r, w := seeded(t), newWitness(t)
	kills, nodes := soak(5, 50), 1000
	c := startNetwork(t, patient, 2, 3)
	apply(t, c.addr(), appendSpec(w, nodes))
	must(t, c.addr(), "wait", "web", "--timeout", "100s")
	var tasks sync.WaitGroup
	ids := make([]bool, soak(100, 1000))
	tasks.Go(func() {
		client := c.client()
		for i := range ids {
			id := fmt.Sprintf("t%d", i)
			ids[i] = runTask(t.Context(), client, id, w.command(), id, "sleep", "0.02") == nil
		}
	})
	for range kills {
		// Each further kill is after some more of the work, and no later than its end.
		share := 1 + r.IntN(max(1, nodes/kills))
		c.doneMore(share)
		was := c.status()
		begin := time.Now()
		c.servers[was.Leader].kill()
		back := r.IntN(2) == 0
		if back {
			c.startServer(was.Leader).wait()
		}
		now := c.status()
		t.Logf("%s killed, %s leads after %v", was.Leader, now.Leader, time.Since(begin))
		if !back {
			c.startServer(was.Leader).wait()
		}
		if now.Term == was.Term {
			t.Errorf("the term is still %s after its leader was killed", was.Term)
		}
	}
	if err := os.WriteFile(filepath.Join(w.dir, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	must(t, c.addr(), "wait", "append", "long", "--timeout", "100s")
	tasks.Wait()
	c.onceEach(w, ids)
	w.check()
}

func appendSpec(w *witness, nodes int) string {
	return fmt.Sprintf(`
domain: d
services:
  web: {command: [sh, -c, 'exec %[1]s web-$CANTINA_INDEX sleep 1000'], instances: 2, stop_grace: 1s}
jobs:
  append:
    levels: [item]
    nodes: [{script: [sh, -c, "seq -f n%%g %[2]d"]}]
    resources: {instance: {slots: {limit: 4}}}
    command: [%[1]s, "{}", sleep, "0.03"]
  long:
    levels: [item]
    nodes: [{manual: [l1, l2, l3]}]
    command: [%[1]s, "{}", sh, -c, "until [ -e %[3]s/go ]; do sleep 0.1; done"]
`, w.command(), nodes, w.dir)
}

// doneMore waits until so many more batch tasks of append are done, or all are.
func (c *cluster) doneMore(n int) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	first, last := int32(-1), ""
	err := until(ctx, c.client(), &pb.StreamEventsRequest{Kind: []string{"job", "node"}}, func() bool {
		got, err := api.Call(ctx, c.client(), calls.GetJob, &pb.GetJobRequest{Domain: "d", Name: "append"})
		if err != nil {
			return false
		}
		last = fmt.Sprint(got.Job.State, got.Job.Counts)
		done := got.Job.GetCounts().GetDone()
		if first < 0 {
			first = done
		}
		return int(done-first) >= n || got.Job.State == "done"
	})
	if err != nil {
		c.t.Fatalf("job append stands still at %s: %v", last, err)
	}
}

// onceEach demands one line for each id that was not lost, and none twice.
func (c *cluster) onceEach(w *witness, tasks []bool) {
	c.t.Helper()
	client, lost := c.client(), 0
	ends := map[string]*pb.Task{}
	for i, ok := range tasks {
		if !ok {
			c.t.Errorf("task t%d was not accepted although a server was there", i)
			continue
		}
		id := fmt.Sprintf("t%d", i)
		ends[id] = taskEnd(c.t, client, id)
	}
	begun := w.begun()
	for id, list := range begun {
		if len(list) != 1 {
			c.t.Errorf("%s began %d times: %v", id, len(list), list)
		}
	}
	seen := 0
	for cursor := ""; ; {
		l, err := api.Call(c.t.Context(), client, calls.ListResults,
			&pb.ListResultsRequest{Domain: "d", Job: "append", Page: &pb.Page{Cursor: cursor, Limit: api.MaxPage}})
		if err != nil {
			c.t.Fatal(err)
		}
		for _, n := range l.Results {
			seen++
			if len(begun[n.Node]) == 0 && n.Losses == 0 {
				c.t.Errorf("batch task %s is %s, never ran and has no record of a loss", n.Node, n.State)
			}
		}
		if cursor = l.Listing.Next; cursor == "" {
			break
		}
	}
	for id, end := range ends {
		if end.Outcome == "lost" {
			lost++
		} else if len(begun[id]) != 1 {
			c.t.Errorf("task %s: %s, and began %d times", id, end.Outcome, len(begun[id]))
		}
	}
	c.t.Logf("%d batch tasks, %d tasks of which %d lost", seen, len(tasks), lost)
}

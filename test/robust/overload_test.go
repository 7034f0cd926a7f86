package robust

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"cantina/api"
	pb "cantina/wire/cantinav1"
)

// observer reads the events of a cluster: it notes instances that were started a second time, and
// sessions of cells that were lost.
type observer struct {
	mu       sync.Mutex
	session  map[string]string // cell → its session
	instance map[string]string // index → its first instance
	faults   []string
}

func (o *observer) take(e *pb.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case e == nil:
	case e.Cell != nil && o.session[e.Subject] == "HEALTHY" && e.Cell.Session != "HEALTHY":
		o.faults = append(o.faults, fmt.Sprintf("cell %s is %s", e.Subject, e.Cell.Session))
	case e.Cell != nil:
		o.session[e.Subject] = e.Cell.Session
	case e.Instance != nil && e.Instance.Instance != "":
		key := e.Domain + "/" + e.Subject
		if first := o.instance[key]; first != "" && first != e.Instance.Instance {
			o.faults = append(o.faults, fmt.Sprintf("%s is %s, and was %s", key, e.Instance.Instance, first))
		}
		o.instance[key] = e.Instance.Instance
	}
}

// observe reads events until the test ends, and reports the faults then.
func observe(t *testing.T, client *api.Client) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	o := &observer{session: map[string]string{}, instance: map[string]string{}}
	open, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		first := true
		ended <- client.Events(ctx, &pb.StreamEventsRequest{Kind: []string{"cell", "instance"}},
			func(m *pb.StreamEventsResponse) error {
				if first {
					first = false
					close(open)
				}
				if m.Gap != nil {
					return errors.New("the event stream has a gap")
				}
				o.take(m.Event)
				return nil
			})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil && ctx.Err() == nil {
			t.Errorf("events: %v", err)
		}
		if n := len(o.faults); n > 0 {
			t.Errorf("%d faults: %s", n, strings.Join(o.faults[:min(n, 10)], "\n"))
		}
	})
	select {
	case <-open:
	case err := <-ended:
		t.Fatalf("events: %v", err)
	}
}

// TestOverload applies more work than a server starts at once, and has it late by ten seconds, applies twice at
// once, and applies work that fits nowhere. No session is lost, no instance starts twice, and all that fits runs.
func TestOverload(t *testing.T) {
	cells, services, each := soak(30, 300), soak(6, 60), 500
	c := newCluster(t, "", []string{"--log-level", "warn"}).start(1, 0)
	start(t, "many", "cell", "--simulate", strconv.Itoa(cells), "--name", "many", "--data", t.TempDir(), "--servers",
		c.addr(), "--capacity", "containers=1000", "--log-level", "warn").wait()
	counts := func() map[string]int32 { return c.status().Counts }
	if !eventually(func() bool { return int(counts()["cells_healthy"]) == cells }) {
		t.Fatalf("cells: %v", counts())
	}
	observe(t, c.client())
	all := 0
	flood := func(domain, memory string) {
		var b strings.Builder
		fmt.Fprintf(&b, "domain: %s\nservices:\n", domain)
		for i := range services {
			fmt.Fprintf(&b, "  s%d: {command: [serve], instances: %d, memory: %s, cpu: 1m}\n", i, each, memory)
		}
		must(t, c.addr(), "apply", write(t, domain+".yaml", b.String()))
	}
	settled := func(unclaimed int) {
		t.Helper()
		all += services * each
		if !eventually(func() bool {
			n := counts()
			return int(n["running"]) == all-unclaimed && int(n["unclaimed"]) == unclaimed
		}) {
			t.Fatalf("of %d instances: %v", all, counts())
		}
	}

	flood("late", "1Mi")
	if !eventually(func() bool { return int(counts()["running"]) > 0 }) {
		t.Fatalf("nothing runs: %v", counts())
	}
	c.servers["s1"].freeze()
	passes(time.Now().Add(10 * time.Second))
	c.servers["s1"].signal(syscall.SIGCONT)
	settled(0)

	var both sync.WaitGroup
	both.Go(func() { flood("one", "1Mi") })
	both.Go(func() { flood("two", "1Mi") })
	both.Wait()
	all += services * each
	settled(0)

	flood("nowhere", "100Ti")
	nowhere := services * each
	settled(nowhere)
	flood("beside", "1Mi")
	settled(nowhere)
	shows(t, c.addr(), []string{"memory", "100Ti"}, "explain", "nowhere.s0/0")
	shows(t, c.addr(), []string{strconv.Itoa(nowhere)}, "status")
}

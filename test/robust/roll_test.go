package robust

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"cantina/api"
	"cantina/lrp"
	pb "cantina/wire/cantinav1"
)

// viewer is a routing consumer. It follows the view of a service over a succession of leaders. It remembers the
// first moment at which an index had no instance that serves.
type viewer struct {
	c       *cluster
	service string
	shown   map[int32]map[string]bool // index → versions with an instance that serves
	floor   int64                     // the list has all up to here
	bad     string
	lists   int
}

// watch follows until the test calls stop, which returns the faults.
func (c *cluster) watch(service string) (stop func() *viewer) {
	c.t.Helper()
	v := &viewer{c: c, service: service}
	client := c.client()
	q := &pb.StreamEventsRequest{Kind: []string{"instance"}, Domain: "d", Since: v.list(client)}
	ctx, cancel := context.WithCancel(c.t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- client.Events(ctx, q, func(m *pb.StreamEventsResponse) error {
			if m.Gap != nil {
				v.list(client)
			} else if m.Event != nil {
				v.take(m.Event)
			}
			return nil
		})
	}()
	return func() *viewer {
		cancel()
		if err := <-ended; err != nil && c.t.Context().Err() == nil && !strings.Contains(err.Error(), "cancel") {
			c.t.Errorf("events: %v", err)
		}
		return v
	}
}

// list reads the present view and returns the position from which to go on.
func (v *viewer) list(client *api.Client) string {
	l, err := api.Call(context.Background(), client, calls.ListInstances,
		&pb.ListInstancesRequest{Domain: "d", Service: v.service, Page: &pb.Page{Limit: api.MaxPage}})
	if err != nil {
		v.c.t.Errorf("list: %v", err)
		return ""
	}
	v.lists++
	v.shown, v.floor = map[int32]map[string]bool{}, l.Listing.Revision
	for _, x := range l.Instances {
		v.set(x.Index, x.Process, serves(x))
	}
	v.look("a list")
	return l.Listing.Position
}

func serves(x *pb.Instance) bool { return x.State == lrp.Running.String() && x.Routable }

func (v *viewer) set(index int32, process string, running bool) {
	if v.shown[index] == nil {
		v.shown[index] = map[string]bool{}
	}
	if running {
		v.shown[index][process] = true
	} else {
		delete(v.shown[index], process)
	}
}

func (v *viewer) take(e *pb.Event) {
	if x := e.Instance; x != nil && x.Service == v.service && e.Revision > v.floor {
		v.set(x.Index, x.Process, !e.Gone && serves(x))
		v.look(e.String())
	}
}

func (v *viewer) look(after string) {
	for i, running := range v.shown {
		if len(running) == 0 && v.bad == "" {
			v.bad = fmt.Sprintf("index %d after %s", i, after)
		}
	}
}

// service returns a service of domain d.
func (c *cluster) service(name string) *pb.Service {
	c.t.Helper()
	got, err := api.Call(c.t.Context(), c.client(), calls.GetService, &pb.GetServiceRequest{Domain: "d", Name: name})
	if err != nil {
		c.t.Fatal(err)
	}
	return got.Service
}

// rolls waits until a rollout to a version is under way and has come so far.
func (c *cluster) rolls(name string, version, healthy int32) {
	c.t.Helper()
	var last *pb.Service
	err := until(c.t.Context(), c.client(), &pb.StreamEventsRequest{Kind: []string{"service", "instance"}}, func() bool {
		last = c.service(name)
		return last.Version == version && last.Phase == lrp.RollingOut.String() && last.Healthy >= healthy
	})
	if err != nil {
		c.t.Fatalf("%s does not roll to version %d: %v; it is %v", name, version, err, last)
	}
}

// changeLeader kills the leader, waits for the next one and starts the old one again.
func (c *cluster) changeLeader() {
	c.t.Helper()
	was := c.status()
	c.servers[was.Leader].kill()
	if now := c.status(); now.Term == was.Term {
		c.t.Fatalf("term %s goes on after its leader was killed", was.Term)
	}
	c.startServer(was.Leader).wait()
}

// TestRollOverALeaderChange rolls services while their leader is killed in the middle. The rollout goes on where it
// was, a failed one is rolled back, and a newer one supersedes. A router never sees an index without an instance,
// and the exclusive one never runs twice.
func TestRollOverALeaderChange(t *testing.T) {
	w := newWitness(t)
	c := startCluster(t, patient, 2, 2)
	version := func(v int, awaitEnd, end string) string {
		return fmt.Sprintf(`
domain: d
services:
  web:
    command: [sh, -c, 'exec %[1]s web-%[2]d-$CANTINA_INDEX %[4]s']
    instances: 4
    stop_grace: 1s
    update: {batch: 1, settle: %[3]s, progress_deadline: 8s}
  lock:
    command: [sh, -c, 'V=%[2]d exec %[1]s lock sleep 1000']
    exclusive: true
    stop_grace: 1s
    update: {settle: 1s}
`, w.command(), v, awaitEnd, end)
	}
	apply(t, c.addr(), version(1, "1s", "sleep 1000"))
	must(t, c.addr(), "wait", "web", "lock", "--timeout", "100s")
	stop := c.watch("web")

	apply(t, c.addr(), version(2, "1s", "sleep 1000"))
	c.rolls("web", 2, 1)
	if text := must(t, c.addr(), "status"); !strings.Contains(text, "d/web: rolling out, version 2: ") {
		t.Errorf("status:\n%s", text)
	}
	c.changeLeader()
	must(t, c.addr(), "wait", "web", "lock", "--timeout", "100s")
	if x := c.service("web"); x.Version != 2 || x.Failure != "" {
		t.Errorf("after the leader changed in the middle: %v", x)
	}

	apply(t, c.addr(), version(3, "1s", "false"))
	c.rolls("web", 3, 0)
	w.waitBegun("web-3-0", 1)
	c.changeLeader()
	if r := cli(t, c.addr(), "wait", "web", "--timeout", "100s"); r.code != api.ExitFailed ||
		!strings.Contains(r.err, "version 3: no progress for 8s: 0 of 4 instances healthy; web/0: crashed: exit status 1") ||
		!strings.Contains(r.err, "; rolled back to version 2") {
		t.Errorf("a version that fails: code %d, %s", r.code, r.err)
	}
	if text := must(t, c.addr(), "status"); !strings.Contains(text,
		"d/web: rolled back, version 2 serves; version 3: no progress") {
		t.Errorf("status:\n%s", text)
	}

	apply(t, c.addr(), version(4, "1m", "sleep 1000"))
	c.rolls("web", 4, 0)
	if r := cli(t, c.addr(), "plan", write(t, "cantina.yaml", version(5, "1s", "sleep 1000"))); r.code != 10 ||
		!strings.Contains(r.out, "replaces a running rollout") {
		t.Errorf("plan: %d %s", r.code, r.out)
	}
	apply(t, c.addr(), version(5, "1s", "sleep 1000"))
	must(t, c.addr(), "wait", "web", "lock", "--timeout", "100s")
	if x := c.service("web"); x.Version != 5 || x.Failure != "" || x.Running != 4 {
		t.Errorf("superseded: %v", x)
	}
	v := stop()
	if v.bad != "" {
		t.Errorf("an index was without a running instance: %s", v.bad)
	}
	if v.lists < 3 {
		t.Errorf("the consumer listed %d times over two changes of leaders", v.lists)
	}
	begun := w.begun()
	for _, v := range []int{1, 2, 5} {
		for i := range 4 {
			if id := fmt.Sprintf("web-%d-%d", v, i); len(begun[id]) != 1 {
				t.Errorf("%s began %d times", id, len(begun[id]))
			}
		}
	}
	for i := 1; i < 4; i++ {
		if id := fmt.Sprintf("web-3-%d", i); len(begun[id]) != 0 {
			t.Errorf("%s of the broken version began, a batch ahead of its first", id)
		}
	}
	w.check()
}

// TestRestartIsRolling: restart replaces every instance, and each index goes on running all the while; with
// --all-at-once all stop and start again together.
func TestRestartIsRolling(t *testing.T) {
	w := newWitness(t)
	c := startCluster(t, patient, 1, 1)
	apply(t, c.addr(), "domain: d\nservices:\n  web: {command: ["+w.command()+
		", web, sleep, \"1000\"], instances: 4, update: {batch: 1}}\n")
	must(t, c.addr(), "wait", "web", "--timeout", "100s")
	stop := c.routed("web")
	must(t, c.addr(), "restart", "web")
	must(t, c.addr(), "wait", "web", "--timeout", "100s")
	if moved := stop(); moved != 4 {
		t.Errorf("%d instances were started, want 4", moved)
	}
	if text := must(t, c.addr(), "plan", write(t, "c.yaml", "domain: d\nservices:\n  web: {command: ["+w.command()+
		", web, sleep, \"1000\"], instances: 4, update: {batch: 1}}\n")); !strings.Contains(text, "keep") {
		t.Errorf("plan after a restart:\n%s", text)
	}
	must(t, c.addr(), "restart", "web", "--all-at-once")
	w.waitBegun("web", 12)
	must(t, c.addr(), "wait", "web", "--timeout", "100s")
	if n := len(w.begun()["web"]); n != 12 {
		t.Errorf("%d processes were started in all, want 12", n)
	}
}

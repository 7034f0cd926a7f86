package robust

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// TestLeaseGone removes a proof of life: the leader's election key, its time to renew it, and the row of a cell
// process. Each time there is a leader again at once, and no server ends. Work that may run is neither forgotten
// for ever nor run twice, and new work runs.
func TestLeaseGone(t *testing.T) {
	w := newWitness(t)
	c := startCluster(t, hasty, 2, 1)
	apply(t, c.addr(), fmt.Sprintf(`
domain: d
services:
  web: {command: [%[1]s, web, sleep, "1000"], stop_grace: 1s}
jobs:
  long:
    levels: [item]
    nodes: [{manual: [l1]}]
    command: [%[1]s, "{}", sh, -c, "until [ -e %[2]s/go ]; do sleep 0.1; done"]
`, w.command(), w.dir))
	client := c.client()
	if err := runTask(t.Context(), client, "t1", w.command(), "t1", "sleep", "1000"); err != nil {
		t.Fatal(err)
	}
	must(t, c.addr(), "wait", "web", "--timeout", "100s")
	for _, id := range []string{"t1", "l1"} {
		w.waitBegun(id, 1)
	}
	alive := func(after string) {
		t.Helper()
		for name, s := range c.servers {
			select {
			case <-s.ended:
				t.Fatalf("server %s ended %s: %v", name, after, s.err)
			default:
			}
		}
		c.session("c1", "HEALTHY")
		if out := must(t, c.addr(), "run", "--timeout", "60s", "--", "echo", after); out != after+"\n" {
			t.Errorf("%s a task printed %q", after, out)
		}
		must(t, c.addr(), "wait", "web", "--timeout", "100s")
		w.check()
	}
	newTerm := func(was, after string) {
		t.Helper()
		if now := c.status().Term; now == was {
			t.Errorf("term %s goes on %s", was, after)
		}
	}

	was := c.status()
	c.remove("cantina/election")
	if !c.servers[was.Leader].log.until(nil, patience,
		func(s string) bool { return strings.Contains(s, "term ended") || strings.Contains(s, "is over") }) {
		t.Fatal("the leader does not notice that its key is gone")
	}
	alive("without its election key")
	newTerm(was.Term, "without its key")

	was = c.status()
	leader, other := c.servers[was.Leader], c.servers["s1"]
	if was.Leader == "s1" {
		other = c.servers["s2"]
	}
	led := func(s string) int { return strings.Count(s, "msg=leading") }
	before := led(other.log.tail(1 << 20))
	leader.signal(syscall.SIGSTOP)
	if !other.log.until(other.ended, patience, func(s string) bool { return led(s) > before }) {
		t.Fatal("there is no leader while the leader is stopped")
	}
	leader.signal(syscall.SIGCONT)
	alive("after its leader was stopped")
	newTerm(was.Term, "although its leader was stopped")
	for _, id := range []string{"t1", "l1", "web"} {
		if n := len(w.begun()[id]); n != 1 {
			t.Errorf("%s began %d times by now", id, n)
		}
	}

	was = c.status()
	if n := c.remove("cantina/row/member/"); n != 1 {
		t.Fatalf("%d rows of cell processes", n)
	}
	c.servers[was.Leader].kill()
	c.startServer(was.Leader).wait()
	alive("after its row was deleted")
	if err := runTask(t.Context(), client, "go", "touch", w.dir+"/go"); err != nil {
		t.Fatal(err)
	}
	must(t, c.addr(), "wait", "long", "--timeout", "100s")
	must(t, c.addr(), "stop", "t1")
	if x := taskEnd(t, c.client(), "t1"); x.Outcome != "cancelled" {
		t.Errorf("the task of a cell process that no list named: %v", x)
	}
	for _, id := range []string{"t1", "l1", "web"} {
		if n := len(w.begun()[id]); n != 1 {
			t.Errorf("%s began %d times", id, n)
		}
	}
	w.check()
}

// remove deletes all keys with a prefix from the store, and returns their number.
func (c *cluster) remove(key string) int64 {
	c.t.Helper()
	client, ctx, done := c.etcd()
	defer done()
	got, err := client.Delete(ctx, key, clientv3.WithPrefix())
	if err != nil {
		c.t.Fatal(err)
	}
	return got.Deleted
}

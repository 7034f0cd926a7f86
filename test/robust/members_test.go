package robust

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"cantina/api"
	"cantina/store/etcdtest"
	pb "cantina/wire/cantinav1"
)

// longestFailover is how long the cluster may be without a leader that decides, after the loss of one, with the
// default settings.
const longestFailover = 3 * time.Second

// startMembers starts servers whose stores are one cluster, and cells.
func startMembers(t *testing.T, flags []string, servers, cells int) *cluster {
	t.Helper()
	c := newCluster(t, "", flags)
	for i := range servers {
		c.peers = append(c.peers, fmt.Sprintf("s%d=%s", i+1, etcdtest.FreeAddr(t)))
	}
	return c.start(servers, cells)
}

// others are the addresses of all servers but one.
func (c *cluster) others(name string) []string {
	var all []string
	for i, a := range c.addresses {
		if fmt.Sprintf("s%d", i+1) != name {
			all = append(all, a)
		}
	}
	return all
}

// decides returns how long the servers at these addresses take until one of them has committed a change. Each is asked
// again and again, for the leader that one of them names may be the one that is lost.
func (c *cluster) decides(since time.Time, id string, addresses ...string) time.Duration {
	c.t.Helper()
	try := func(address string) error {
		ctx, cancel := context.WithTimeout(c.t.Context(), 250*time.Millisecond)
		defer cancel()
		client := api.NewClient(api.ClientConfig{Addresses: []string{address}, Token: token,
			NewKey: func() string { return c.t.Name() + id }})
		defer client.Close()
		return runTask(ctx, client, id, "true")
	}
	var err error
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for time.Since(since) < patience {
		for _, a := range addresses {
			if err = try(a); err == nil {
				return time.Since(since)
			}
		}
		<-again.C
	}
	c.t.Fatalf("task %s: %v", id, err)
	return 0
}

// ready waits until a server of several knows the leader.
func (c *cluster) ready(name string) {
	c.t.Helper()
	p := c.servers[name]
	if !p.log.until(p.ended, patience, func(text string) bool {
		return strings.Contains(text, "standing by") || strings.Contains(text, "msg=leading")
	}) {
		c.t.Fatalf("server %s takes no part: %s", name, p.log.tail(20))
	}
}

// TestThreeServers: three servers have one store, with default settings. The leader is killed and stopped, again and
// again, while batch tasks, tasks and services run. A new leader decides within 3 s each time. No acknowledged write
// is lost, nothing is started twice, and running work is left alone.
func TestThreeServers(t *testing.T) {
	r, w := seeded(t), newWitness(t)
	rounds, nodes := soak(2, 30), soak(300, 3000)
	c := startMembers(t, nil, 3, 3)
	for name := range c.servers {
		c.ready(name)
	}
	apply(t, c.addr(), appendSpec(w, nodes))
	must(t, c.addr(), "wait", "web", "--timeout", "100s")
	web := w.begun()
	var tasks sync.WaitGroup
	ids := make([]bool, soak(60, 600))
	tasks.Go(func() {
		client := c.client()
		for i := range ids {
			id := fmt.Sprintf("t%d", i)
			ids[i] = runTask(t.Context(), client, id, w.command(), id, "sleep", "0.02") == nil
		}
	})
	for i := range rounds {
		c.doneMore(1 + r.IntN(max(1, nodes/rounds/2)))
		was := c.status()
		leader := c.servers[was.Leader]
		begin := time.Now()
		leader.kill()
		took := c.decides(begin, fmt.Sprintf("k%d", i), c.others(was.Leader)...)
		now := c.status()
		t.Logf("leader %s killed: %s decides after %v", was.Leader, now.Leader, took.Round(time.Millisecond))
		if took > longestFailover || now.Term == was.Term {
			t.Errorf("no leader for %v, term %s after %s", took, now.Term, was.Term)
		}
		c.startServer(was.Leader).wait()
		c.ready(was.Leader)
	}
	was := c.status()
	leader := c.servers[was.Leader]
	begin := time.Now()
	leader.signal(syscall.SIGSTOP)
	took := c.decides(begin, "stopped", c.others(was.Leader)...)
	t.Logf("leader %s stopped: another decides after %v", was.Leader, took.Round(time.Millisecond))
	if took > longestFailover {
		t.Errorf("no leader for %v", took)
	}
	// A client that stays with the stopped leader finds the new one.
	client := dial(t, leader.Addr, c.others(was.Leader)[0])
	if err := runTask(t.Context(), client, "moves", "true"); err != nil {
		t.Errorf("a client of the stopped leader: %v", err)
	}
	leader.signal(syscall.SIGCONT)
	if now := c.status(); now.Term == was.Term {
		t.Errorf("term %s goes on", was.Term)
	}
	if err := os.WriteFile(filepath.Join(w.dir, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	must(t, c.addr(), "wait", "append", "long", "--timeout", "100s")
	tasks.Wait()
	c.onceEach(w, ids)
	w.check()
	for _, id := range []string{"web-0", "web-1"} {
		if len(web[id]) != 1 || len(w.begun()[id]) != 1 {
			t.Errorf("%s began %v, and %v at the end", id, web[id], w.begun()[id])
		}
	}
}

// startThreeWithWeb starts three servers and a cell, which runs the service web.
func startThreeWithWeb(t *testing.T, w *witness) *cluster {
	t.Helper()
	c := startMembers(t, patient, 3, 1)
	for name := range c.servers {
		c.ready(name)
	}
	apply(t, c.addr(), fmt.Sprintf("domain: d\nservices: {web: {command: [%s, web, sleep, '1000'], stop_grace: 1s}}\n",
		w.command()))
	must(t, c.addr(), "wait", "web", "--timeout", "100s")
	return c
}

// TestMinorityWritesNothing: of three servers, two are killed. The third refuses changes with the reason, and does not
// answer from old state. When one is back, all goes on. Then all are stopped, and started again.
func TestMinorityWritesNothing(t *testing.T) {
	t.Parallel()
	w := newWitness(t)
	c := startThreeWithWeb(t, w)
	was := c.status()
	for _, name := range []string{"s1", "s2"} {
		c.servers[name].kill()
	}
	s3 := c.servers["s3"]
	if !s3.log.until(s3.ended, patience, func(text string) bool { return strings.Contains(text, "no majority") }) {
		t.Fatalf("s3 does not report that it is alone: %s", s3.log.tail(20))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := runTask(ctx, dial(t, s3.Addr), "alone", "true"); err == nil {
		t.Error("one of three servers commits a change")
	}
	for _, args := range [][]string{{"run", "--timeout", "1s", "--", "true"}, {"ps", "--timeout", "1s"}} {
		if r := cli(t, s3.Addr, args...); r.code == 0 || !strings.Contains(r.err, "majority") {
			t.Errorf("cantina %v at one of three servers: exit code %d, %s%s", args, r.code, r.out, r.err)
		}
	}
	c.startServer("s1").wait()
	c.ready("s1")
	c.session("c1", "HEALTHY")
	if out := must(t, c.addr(), "run", "--timeout", "60s", "--", "echo", "two"); out != "two\n" {
		t.Errorf("with two of three a task printed %q", out)
	}
	c.startServer("s2").wait()
	c.ready("s2")

	var stopping sync.WaitGroup
	for _, s := range c.servers {
		stopping.Go(s.stop)
	}
	stopping.Wait()
	for _, name := range []string{"s1", "s2", "s3"} {
		c.startServer(name).wait()
	}
	c.session("c1", "HEALTHY")
	must(t, c.addr(), "wait", "web", "--timeout", "100s")
	if out := must(t, c.addr(), "run", "--timeout", "60s", "--", "echo", "again"); out != "again\n" {
		t.Errorf("after a stop of all servers a task printed %q", out)
	}
	if now := c.status(); now.ClusterId != was.ClusterId {
		t.Errorf("cluster id %s, then %s", was.ClusterId, now.ClusterId)
	}
	if n := len(w.begun()["web"]); n != 1 {
		t.Errorf("the service began %d times", n)
	}
	w.check()
	c.stopKept("web")
}

// members waits until a server lists the members of the store as want demands.
func (c *cluster) members(at string, want func(map[string]*pb.StoreMember) bool) {
	c.t.Helper()
	var last []*pb.StoreMember
	client := dial(c.t, at)
	if !eventually(func() bool {
		got, err := api.Call(c.t.Context(), client, calls.ListMembers, &pb.ListMembersRequest{})
		if err != nil {
			c.t.Fatalf("members: %v", err)
		}
		last = got.Members
		by := map[string]*pb.StoreMember{}
		for _, m := range last {
			by[m.Name] = m
		}
		return want(by)
	}) {
		c.t.Fatalf("members: %v", last)
	}
}

// TestMemberIsReplaced: the disk of a server is lost. Its flags alone do not start it again: it would vote without the
// changes that it has acknowledged. It is removed and added, gets all entries and votes: the store then lives without
// another one. A removed server that runs ends. Running work is left alone.
func TestMemberIsReplaced(t *testing.T) {
	t.Parallel()
	w := newWitness(t)
	c := startThreeWithWeb(t, w)
	at := c.servers["s1"].Addr
	c.members(at, func(by map[string]*pb.StoreMember) bool {
		leads, elected := 0, 0
		for _, m := range by {
			if m.Leader && !m.Elected {
				leads++
			}
			if m.Elected {
				elected++
			}
			if m.Learner || !m.Reachable || !m.Reported || m.Size == 0 || m.Applied == 0 || m.Behind > 10 {
				return false
			}
		}
		return len(by) == 3 && leads == 1 && elected == 1
	})

	c.servers["s3"].kill()
	if err := os.RemoveAll(filepath.Join(c.dir, "s3")); err != nil {
		t.Fatal(err)
	}
	c.members(at, func(by map[string]*pb.StoreMember) bool { return !by["s3"].Reachable && by["s2"].Reachable })
	if s3 := c.startServer("s3"); !s3.log.until(s3.ended, patience, func(text string) bool {
		return strings.Contains(text, "cantina server members remove s3")
	}) {
		t.Errorf("a server with an empty directory: %s", s3.log.tail(20))
	} else {
		<-s3.ended
	}
	if err := os.RemoveAll(filepath.Join(c.dir, "s3")); err != nil {
		t.Fatal(err)
	}
	must(t, at, "server", "members", "remove", "s3", "--yes")
	out := must(t, at, "server", "members", "add", c.peers[2], "-o", "json")
	if !strings.Contains(out, c.peers[2]) {
		t.Errorf("members add prints %s", out)
	}
	r := cli(t, at, "server", "members", "add", c.peers[2])
	if r.code != 1 || !strings.Contains(r.err, "already a member") {
		t.Errorf("added twice: exit code %d, %s", r.code, r.err)
	}
	if r := cli(t, at, "server", "members", "remove", "s9", "--yes"); r.code != 3 {
		t.Errorf("an unknown member is removed: exit code %d, %s", r.code, r.err)
	}
	if r := cli(t, at, "server", "members", "add", "s9"); r.code != 2 {
		t.Errorf("a member without address: exit code %d, %s", r.code, r.err)
	}
	c.startServer("s3", "--join").wait()
	c.members(at, func(by map[string]*pb.StoreMember) bool {
		return len(by) == 3 && !by["s3"].Learner && by["s3"].Reachable
	})
	c.ready("s3")

	// s1 leaves while it runs; then s3 and s2 are all that is left, and s3 has a vote.
	must(t, c.servers["s2"].Addr, "server", "members", "remove", "s1", "--yes")
	s1 := c.servers["s1"]
	select {
	case <-s1.ended:
	case <-time.After(patience):
		t.Fatal("a removed server does not end")
	}
	if s1.err == nil || !strings.Contains(s1.log.tail(20), "was removed") {
		t.Errorf("a removed server ended with %v: %s", s1.err, s1.log.tail(5))
	}
	c.session("c1", "HEALTHY")
	if out := must(t, c.addr(), "run", "--timeout", "60s", "--", "echo", "two"); out != "two\n" {
		t.Errorf("a task printed %q", out)
	}
	if n := len(w.begun()["web"]); n != 1 {
		t.Errorf("the service began %d times", n)
	}
	w.check()
	c.stopKept("web")
}

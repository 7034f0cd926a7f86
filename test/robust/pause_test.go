package robust

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	pb "cantina/wire/cantinav1"
)

// slowEnd is how long the deadlines of these tests are: all has to begin before the pause.
const slowEnd = 8 * time.Second

// pausing is work that ends at the order of the test, also while its runner is stopped.
type pausing struct {
	t   *testing.T
	dir string
}

func newPausing(t *testing.T) *pausing {
	t.Helper()
	p := &pausing{t: t, dir: tempDir(t)}
	script := fmt.Sprintf("#!/bin/sh\n# work ID CMD...: does CMD, and ends when it may\ncd %[1]s\necho $$ >>pid.$1\n"+
		"shift\neval \"$@\"\nuntil [ -e go ]; do sleep 0.05; done\n", p.dir)
	if err := os.WriteFile(p.command(), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *pausing) command() string { return filepath.Join(p.dir, "work") }

func (p *pausing) pids(id string) []int {
	p.t.Helper()
	b, err := os.ReadFile(filepath.Join(p.dir, "pid."+id))
	if err != nil && !os.IsNotExist(err) {
		p.t.Fatal(err)
	}
	var all []int
	for _, f := range strings.Fields(string(b)) {
		pid, err := strconv.Atoi(f)
		if err != nil {
			p.t.Fatal(err)
		}
		all = append(all, pid)
	}
	return all
}

// begun waits until all have begun.
func (p *pausing) begun(ids ...string) {
	p.t.Helper()
	for _, id := range ids {
		if !eventually(func() bool { return len(p.pids(id)) > 0 }) {
			p.t.Fatalf("%s has not begun", id)
		}
	}
}

// touch makes a file that programs wait for.
func (p *pausing) touch(name string) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, name), nil, 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// endNow makes all end, and waits for that: there may be no parent to wait for them.
func (p *pausing) endNow(ids ...string) {
	p.t.Helper()
	p.touch("go")
	for _, id := range ids {
		for _, pid := range p.pids(id) {
			if !eventually(func() bool { return state(pid) == "" || state(pid) == "Z" }) {
				p.t.Fatalf("%s has not ended", id)
			}
		}
	}
}

// state is the letter that the kernel shows of a process; "" when it is gone.
func state(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	text := string(b)
	return text[strings.LastIndexByte(text, ')')+2:][:1]
}

// freeze stops a process for certain, as a debugger, or the pause of its machine, does.
func (p *process) freeze() {
	p.t.Helper()
	p.signal(syscall.SIGSTOP)
	if !eventually(func() bool { return state(p.cmd.Process.Pid) == "T" }) {
		p.t.Fatalf("%s is not stopped", p.name)
	}
}

// passes waits until a time is over: there is no event for it.
func passes(at time.Time) { <-time.After(time.Until(at)) }

// follow runs verbs of the CLI beside the test; wait returns how they ended.
func follow(t *testing.T, addr string, verbs ...[]string) (wait func() []result) {
	all := make([]result, len(verbs))
	var group sync.WaitGroup
	for i, v := range verbs {
		group.Go(func() { all[i] = cli(t, addr, v...) })
	}
	return func() []result {
		group.Wait()
		return all
	}
}

// TestEndsBeforeDeadlines stops dev until every deadline of its work has passed. Work that ended well meanwhile has
// ended well. The ends are taken before any time limit or timeout (of a step, of a check, of a start) has an
// effect. Nothing runs a second time.
func TestEndsBeforeDeadlines(t *testing.T) {
	p := newPausing(t)
	d := startDev(t, t.TempDir()).wait()
	apply(t, d.Addr, fmt.Sprintf(`
domain: d
services:
  checked:
    command: "sleep 1000"
    stop_grace: 1s
    checks: [{exec: {command: "[ ! -e %[1]s/held ] || exec %[2]s check"}, interval: 300ms, timeout: %[3]v}]
  late:
    command: "sleep 1000"
    stop_grace: 1s
    start_timeout: %[3]v
    checks: [{exec: {command: "[ -e %[1]s/go ]"}}]
tasks:
  limit: {command: [%[2]s, limit], time_limit: %[3]v}
  step: {action: {timeout: {after: %[3]v, action: {run: {command: [%[2]s, step]}}}}}
  both:
    action:
      timeout:
        after: %[3]v
        action: {parallel: [{run: {command: [%[2]s, both1]}}, {run: {command: [%[2]s, both2]}}]}
    time_limit: %[3]v
  fails: {action: {try: {timeout: {after: %[3]v, action: {run: {command: "%[2]s fails; exit 3"}}}}}}
  keep: {command: [%[2]s, keep], time_limit: %[3]v, on_cell_restart: keep}
  left: {command: [%[2]s, left, "(trap '' TERM; exec sleep 1000) &"], time_limit: %[3]v, leftover_grace: 500ms}
jobs:
  nodes: {levels: [item], nodes: [{manual: [n1]}], command: [%[2]s, "{}"], time_limit: %[3]v}
`, p.dir, p.command(), slowEnd))
	ids := []string{"limit", "step", "both1", "both2", "fails", "keep", "left", "n1"}
	clients := follow(t, d.Addr, []string{"run", "--time-limit", slowEnd.String(), "--", p.command(), "run"},
		[]string{"logs", "-f", "d.limit"}, []string{"wait", "d.limit"}, []string{"wait", "nodes"})
	ids = append(ids, "run")
	p.begun(ids...)
	p.touch("held")
	p.begun("check")
	deadlines := time.Now().Add(slowEnd)
	d.freeze()
	p.endNow(append(ids, "check")...)
	passes(deadlines)
	d.signal(syscall.SIGCONT)
	for i, r := range clients() {
		if r.code != 0 {
			t.Errorf("client %d: exit code %d: %s%s", i, r.code, r.out, r.err)
		}
	}
	for _, id := range []string{"limit", "step", "both", "fails", "keep", "left"} {
		if x := taskEnd(t, d.client(), "d."+id); x.Outcome != "succeeded" {
			t.Errorf("%s is %s: %s", id, x.Outcome, x.Reason)
		}
	}
	must(t, d.Addr, "wait", "checked", "late", "--timeout", "100s")
	for _, id := range ids {
		if n := len(p.pids(id)); n != 1 {
			t.Errorf("%s began %d times", id, n)
		}
	}
	if out := must(t, d.Addr, "events", "--since", "0"); strings.Contains(out, "crash") {
		t.Errorf("a service crashed:\n%s", out)
	}
}

// TestStoppedCellKeepsTheEnds stops a cell until its reaper has ended the work that must not outlive its credit.
// Work that ended before has its own end when the cell is back. Work that the reaper ended has failed, also when
// its exit code was 0.
func TestStoppedCellKeepsTheEnds(t *testing.T) {
	p := newPausing(t)
	c := startCluster(t, hasty, 1, 1)
	loop := "while :; do sleep 0.05; done"
	apply(t, c.addr(), fmt.Sprintf(`
domain: d
tasks:
  done: {command: [%[1]s, done]}
  steps: {action: {serial: [{run: {command: [%[1]s, steps]}}]}}
  soft: {command: [%[1]s, soft, "trap 'exit 0' TERM; %[2]s"]}
  hard: {command: [%[1]s, hard, "trap '' TERM; %[2]s"]}
`, p.command(), loop))
	p.begun("done", "steps", "soft", "hard")
	c.cells["c1"].freeze()
	p.endNow("done", "steps")
	for _, id := range []string{"soft", "hard"} {
		if pid := p.pids(id)[0]; !eventually(func() bool { return state(pid) == "Z" }) {
			t.Fatalf("the reaper has not ended %s", id)
		}
	}
	c.session("c1", "MUST_DIE")
	c.cells["c1"].signal(syscall.SIGCONT)
	c.session("c1", "HEALTHY")
	for id, want := range map[string]string{"done": "succeeded", "steps": "succeeded", "soft": "failed",
		"hard": "failed"} {
		var got *pb.Task
		if !eventually(func() bool { got = getTask(t, c.client(), "d."+id); return got.Outcome == want }) {
			t.Errorf("%s is %s %s: %s", id, got.State, got.Outcome, got.Reason)
		}
		if want == "failed" && !strings.Contains(got.Reason, "deadline") {
			t.Errorf("%s failed: %s", id, got.Reason)
		}
		if n := len(p.pids(id)); n != 1 {
			t.Errorf("%s began %d times", id, n)
		}
	}
}

// TestStoppedServerSendsItsReadersOn stops a server until its lease is gone, around the end of the subjects that
// clients wait for. Each client ends, with the exit code of its subject.
func TestStoppedServerSendsItsReadersOn(t *testing.T) {
	p := newPausing(t)
	c := startCluster(t, patient, 1, 1)
	apply(t, c.addr(), fmt.Sprintf(`
domain: d
tasks:
  one: {command: [%[1]s, one, "echo said"]}
jobs:
  nodes: {levels: [item], nodes: [{manual: [n1]}], command: [%[1]s, "{}"]}
`, p.command()))
	clients := follow(t, c.addr(), []string{"run", "--", p.command(), "run", "echo said"}, []string{"logs", "-f", "d.one"},
		[]string{"wait", "d.one"},
		[]string{"logs", "-f", "nodes"}, []string{"wait", "nodes"})
	p.begun("run", "one", "n1")
	was := c.status().Term
	server := c.servers["s1"]
	server.freeze()
	p.endNow("run", "one", "n1")
	if !eventually(func() bool { return c.count("cantina/election") == 0 }) {
		t.Fatal("the lease of a server that is stopped does not end")
	}
	server.signal(syscall.SIGCONT)
	for i, r := range clients() {
		if said := strings.Count(r.out, "said"); r.code != 0 || i < 2 && said != 1 {
			t.Errorf("client %d: exit code %d, %d lines: %s%s", i, r.code, said, r.out, r.err)
		}
	}
	if now := c.status().Term; now == was {
		t.Errorf("term %s goes on", was)
	}
	for _, id := range []string{"run", "one", "n1"} {
		if n := len(p.pids(id)); n != 1 {
			t.Errorf("%s began %d times", id, n)
		}
	}
}

// count is how many keys of the store begin with a key.
func (c *cluster) count(key string) int64 {
	c.t.Helper()
	client, ctx, done := c.etcd()
	defer done()
	got, err := client.Get(ctx, key, clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		c.t.Fatal(err)
	}
	return got.Count
}

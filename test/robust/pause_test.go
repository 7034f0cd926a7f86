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
)

// slowEnd is how long the deadlines of these tests are: all has to begin before the pause.
const slowEnd = 8 * time.Second

// pausing is work that ends when the test says so, also while who runs it is stopped.
type pausing struct {
	t   *testing.T
	dir string
}

func newPausing(t *testing.T) *pausing {
	t.Helper()
	p := &pausing{t: t, dir: tempDir(t)}
	script := fmt.Sprintf("#!/bin/sh\n# work ID CMD...: does CMD, and ends when it may\ncd %[1]s\necho $$ >>pid.$1\nshift\neval \"$@\"\nuntil [ -e go ]; do sleep 0.05; done\n", p.dir)
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

// endNow has all end, and waits until they have: nobody may be there to wait for them.
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

// passes waits until a time is over: nothing tells of it.
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

// TestEndsBeforeDeadlines stops dev until every deadline of its work has passed. What ended well
// meanwhile has ended well: no time limit, timeout of a step, of a check or of a start is
// acted on before the ends have been taken, and nothing runs a second time.
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
  both: {action: {timeout: {after: %[3]v, action: {parallel: [{run: {command: [%[2]s, both1]}}, {run: {command: [%[2]s, both2]}}]}}}, time_limit: %[3]v}
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

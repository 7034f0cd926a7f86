package robust

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"cantina/api"
	pb "cantina/wire/cantinav1"
)

// TestFollowAcrossCells follows numbered lines while the cell that keeps them is
// killed and started again: every number comes once, in order.
func TestFollowAcrossCells(t *testing.T) {
	c := startCluster(t, patient, 1, 1)
	const lines = 3000
	apply(t, c.addr(),
		fmt.Sprintf("services:\n  n: {command: 'i=0; while [ $i -lt %d ]; do echo $i; i=$((i+1)); "+
			"[ $((i %% 50)) -ne 0 ] || sleep 0.1; done; sleep 1000', on_cell_restart: keep, stop_grace: 1s}\n", lines))
	must(t, c.addr(), "wait", "n", "--timeout", "100s")
	next := 0
	err := c.client().FollowOutput(t.Context(), &pb.FollowOutputRequest{Query: &pb.OutputQuery{Service: "n"}},
		func(m *pb.FollowOutputResponse) error {
			for _, l := range m.Lines {
				if l.Text != fmt.Sprint(next) || l.Gap != nil {
					return fmt.Errorf("line %d is %v", next, l)
				}
				if next++; next == lines/3 {
					c.cells["c1"].kill()
					c.startCell("c1")
				}
			}
			if next == lines {
				return api.Stop()
			}
			return nil
		})
	if err != nil || next != lines {
		t.Errorf("%d lines, %v", next, err)
	}
	c.cells["c1"].wait()
	c.session("c1", "HEALTHY")
	c.stopKept("n")
}

// TestLostIsNoSuccess kills the cell under a task: each follower gets the loss, by text and exit code, and never a
// success.
func TestLostIsNoSuccess(t *testing.T) {
	c := startCluster(t, patient, 1, 1)
	id := strings.TrimSpace(must(t, c.addr(), "run", "-d", "--", "sh", "-c", "echo up; sleep 1000"))
	err := c.client().FollowOutput(t.Context(), &pb.FollowOutputRequest{Query: &pb.OutputQuery{Task: id}},
		func(m *pb.FollowOutputResponse) error {
			if len(m.Lines) > 0 {
				return api.Stop()
			}
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
	c.cells["c1"].kill()
	c.startCell("c1").wait()
	r := cli(t, c.addr(), "wait", id, "--timeout", "100s")
	got := taskEnd(t, c.client(), id)
	if r.code != api.ExitLost || got.Outcome != "lost" {
		t.Errorf("exit code %d, outcome %q: %s", r.code, got.Outcome, r.err)
	}
	if r := cli(t, c.addr(), "rm", "task/"+id, "--yes"); r.code == 0 || !strings.Contains(r.err, "cantina task resolve") {
		t.Errorf("a lost task was removed: %d %s", r.code, r.err)
	}
	must(t, c.addr(), "task", "resolve", id, "--as", "done")
	must(t, c.addr(), "rm", "task/"+id, "--yes")
}

// TestResolutionsOfLostTasks: a person resolves them in three ways; rerun makes a new task of the same definition.
func TestResolutionsOfLostTasks(t *testing.T) {
	w := newWitness(t)
	c := startCluster(t, patient, 1, 1)
	client := c.client()
	words := []string{"done", "failed", "rerun"}
	for _, as := range words {
		if err := runTask(t.Context(), client, as, w.command(), as, "sh", "-c", "[ -e "+w.dir+
			"/go ] || sleep 1000"); err != nil {
			t.Fatal(err)
		}
	}
	for _, as := range words {
		w.waitBegun(as, 1)
	}
	c.cells["c1"].kill()
	c.startCell("c1").wait()
	c.session("c1", "HEALTHY")
	if err := os.WriteFile(filepath.Join(w.dir, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, as := range words {
		if x := taskEnd(t, client, as); x.Outcome != "lost" || x.Resolution != "" {
			t.Errorf("%s: %v", as, x)
		}
		out := must(t, c.addr(), "task", "resolve", as, "--as", as)
		x := getTask(t, client, as)
		if x.Resolution != as || x.Outcome != "lost" {
			t.Errorf("%s: %v", as, x)
		}
		if again := strings.TrimSpace(out); (again != "") != (as == "rerun") || again != x.Successor {
			t.Errorf("%s: printed %q, successor %q", as, again, x.Successor)
		}
		if r := cli(t, c.addr(), "task", "resolve", as, "--as", "done"); r.code == 0 {
			t.Errorf("%s: a second word was taken", as)
		}
		must(t, c.addr(), "rm", "task/"+as, "--yes")
	}
	if x := taskEnd(t, client, "rerun.rerun1"); x.Outcome != "succeeded" {
		t.Errorf("the rerun: %v", x)
	}
	for as, n := range map[string]int{"done": 1, "failed": 1, "rerun": 2} {
		if got := len(w.begun()[as]); got != n {
			t.Errorf("%s began %d times, want %d", as, got, n)
		}
	}
	if n := c.status().Counts["tasks_lost"]; n != 0 {
		t.Errorf("%d tasks are lost and unresolved", n)
	}
}

// TestLostTasksThatContinue: a cell is away, and its tasks are lost and may still run. None is started again without
// a word of its own. When the cell is back, they are RUNNING again, and one that was cancelled meanwhile is ended.
func TestLostTasksThatContinue(t *testing.T) {
	w := newWitness(t)
	c := startCluster(t, hasty, 1, 1)
	client := c.client()
	apply(t, c.addr(), fmt.Sprintf(`
domain: d
tasks:
  one: {command: [%[1]s, one, sleep, "1000"], on_lost: keep}
  two: {command: [%[1]s, two, sleep, "1000"], on_lost: keep, on_cell_restart: keep, stop_grace: 1s}
`, w.command()))
	w.waitBegun("one", 1)
	w.waitBegun("two", 1)
	c.cells["c1"].signal(syscall.SIGSTOP)
	for _, id := range []string{"d.one", "d.two"} {
		if !eventually(func() bool { x := getTask(t, client, id); return x.Outcome == "lost" && x.MayStillRun }) {
			t.Fatalf("%s: %v", id, getTask(t, client, id))
		}
		for _, as := range []string{"done", "failed", "rerun"} {
			r := cli(t, c.addr(), "task", "resolve", id, "--as", as)
			if r.code == 0 || !strings.Contains(r.err, "may still run on cell c1") ||
				!strings.Contains(r.err, "--accept-double-starts") {
				t.Errorf("%s as %s: %d %s", id, as, r.code, r.err)
			}
		}
	}
	must(t, c.addr(), "stop", "task/d.two")
	r := cli(t, c.addr(), "rm", "task/d.two", "--yes")
	if r.code == 0 || !strings.Contains(r.err, "may still run on cell c1") {
		t.Errorf("rm while the cell is away: %d %s", r.code, r.err)
	}
	c.cells["c1"].signal(syscall.SIGCONT)
	if !eventually(func() bool { x := getTask(t, client, "d.one"); return x.State == "RUNNING" && !x.MayStillRun }) {
		t.Errorf("its cell is back: %v", getTask(t, client, "d.one"))
	}
	if !eventually(func() bool { return !w.lives("two") }) {
		t.Error("the cancelled one still runs")
	}
	if !w.lives("one") {
		t.Error("the other has ended")
	}
	must(t, c.addr(), "stop", "task/d.one", "--now")
	for _, id := range []string{"d.one", "d.two"} {
		if !eventually(func() bool { return cli(t, c.addr(), "rm", "task/"+id, "--yes").code == 0 }) {
			t.Errorf("%s: %v", id, getTask(t, client, id))
		}
	}
	for _, id := range []string{"one", "two"} {
		if n := len(w.begun()[id]); n != 1 {
			t.Errorf("%s began %d times", id, n)
		}
	}
}

// TestLostTasksThatEndedWithTheirCell: a task may continue without its leader, but has ended with its cell. The next
// process on the directory has no container of it, so that it need not be taken for one that may still run.
func TestLostTasksThatEndedWithTheirCell(t *testing.T) {
	w := newWitness(t)
	c := startCluster(t, hasty, 1, 1)
	client := c.client()
	apply(t, c.addr(), fmt.Sprintf(`
domain: d
tasks:
  one: {command: [%[1]s, one, sleep, "1000"], on_lost: keep}
  two: {command: [%[1]s, two, sleep, "1000"], on_lost: keep}
`, w.command()))
	w.waitBegun("one", 1)
	w.waitBegun("two", 1)
	c.cells["c1"].kill()
	for _, id := range []string{"d.one", "d.two"} {
		if !eventually(func() bool { x := getTask(t, client, id); return x.Outcome == "lost" && x.MayStillRun }) {
			t.Fatalf("%s: %v", id, getTask(t, client, id))
		}
	}
	must(t, c.addr(), "stop", "task/d.two")
	c.startCell("c1").wait()
	for _, id := range []string{"d.one", "d.two"} {
		if !eventually(func() bool { return !getTask(t, client, id).MayStillRun }) {
			t.Errorf("%s: %v", id, getTask(t, client, id))
		}
	}
	must(t, c.addr(), "task", "resolve", "d.one", "--as", "failed")
	must(t, c.addr(), "rm", "task/d.one", "task/d.two", "--yes")
}

// TestDamagedCell writes nonsense over all files that a cell wrote while it ran, after it was killed. Its successor
// starts all the same, ends the running work and takes new work. It cannot prove any more which process it
// succeeds, so it joins when the leader declares its predecessor lost.
func TestDamagedCell(t *testing.T) {
	w := newWitness(t)
	c := startCluster(t, hasty, 1, 1)
	apply(t, c.addr(),
		fmt.Sprintf("services:\n  stop: {command: [sh, -c, 'echo $$ >>%[1]s/stop; exec sleep 1000'], stop_grace: 1s}\n"+
			"  keep: {command: [sh, -c, 'echo $$ >>%[1]s/keep; exec sleep 1000'], stop_grace: 1s, on_cell_restart: keep}\n",
			w.dir))
	must(t, c.addr(), "wait", "stop", "keep", "--timeout", "100s")
	old := append(w.begunPids("stop", 1), w.begunPids("keep", 1)...)
	c.cells["c1"].kill()
	c.session("c1", "MUST_DIE")
	damaged := 0
	err := filepath.WalkDir(c.cellDir("c1"), func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || d.Name() == "id" { // written once, when the directory was made
			return err
		}
		damaged++
		return os.WriteFile(path, []byte("\x00nonsense\xff{"), 0o600)
	})
	if err != nil || damaged == 0 {
		t.Fatalf("%d files, %v", damaged, err)
	}
	c.startCell("c1").wait()
	c.session("c1", "HEALTHY")
	must(t, c.addr(), "wait", "stop", "keep", "--timeout", "100s")
	if out := must(t, c.addr(), "run", "--", "echo", "new"); out != "new\n" {
		t.Errorf("a new task printed %q", out)
	}
	left := append(w.pids("stop"), w.pids("keep")...)
	for _, pid := range old {
		// A service is either adopted as it was, or ended and started again.
		if len(left) > len(old) && !ended(pid, patience) {
			t.Errorf("process %d runs beside its successor: %v, now %v", pid, old, left)
		}
	}
	c.stopKept("stop", "keep")
	t.Logf("%d files damaged; processes %v, then %v", damaged, old, left)
}

// TestCapacityIsAdded starts a cell in a directory that does not exist, with custom resources: they count beside
// the capacity of the machine.
func TestCapacityIsAdded(t *testing.T) {
	c := startCluster(t, patient, 1, 0)
	name := filepath.Join("not", "there", "yet")
	p := launch(t, "c1", nil, append([]string{"cell", "--name", "c1", "--data", filepath.Join(c.dir, name), "--servers",
		c.addr(), "--capacity", "gpu=2,memory_mb=77"}, c.flags...)...)
	t.Cleanup(p.cleanup)
	p.wait()
	c.session("c1", "HEALTHY")
	got := c.cell("c1").Capacity
	if got["gpu"] != 2 || got["memory_mb"] != 77 || got["disk_mb"] == 0 || got["containers"] == 0 ||
		got["cpu_milli"] == 0 {
		t.Errorf("capacity %v", got)
	}
}

// TestStopHeedsTheTrap: a program that traps the signal and ends is not waited for, with any grace, also below a
// shell.
func TestStopHeedsTheTrap(t *testing.T) {
	d := startDev(t, tempDir(t)).wait()
	inner := filepath.Join(tempDir(t), "inner")
	if err := os.WriteFile(inner,
		[]byte("#!/bin/sh\ntrap 'echo trapped; exit 0' TERM\necho up\nwhile :; do sleep 0.05; done\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	apply(t, d.Addr, fmt.Sprintf("services:\n  web: {command: '%s; echo outer', stop_grace: 60s}\n", inner))
	must(t, d.Addr, "wait", "web", "--timeout", "100s")
	shows(t, d.Addr, []string{"up"}, "logs", "web")
	begin := time.Now()
	must(t, d.Addr, "stop", "web")
	must(t, d.Addr, "wait", "web", "--for", "stopped", "--timeout", "100s")
	took := time.Since(begin)
	t.Logf("stopped after %v", took)
	if took > 45*time.Second {
		t.Errorf("the stop took %v of a grace of 60 s, although the program ends at once", took)
	}
	if out := must(t, d.Addr, "logs", "web"); !strings.Contains(out, "trapped") {
		t.Errorf("the trap did not run: %q", out)
	}
}

// TestLargeApply applies services and jobs that do not fit into one transaction of an etcd with its default limits.
// Another leader sees all of them, and nothing is left to do.
func TestLargeApply(t *testing.T) {
	c := startCluster(t, patient, 2, 1)
	var b strings.Builder
	b.WriteString("domain: large\nservices:\n")
	const things = 200
	for i := range things {
		fmt.Fprintf(&b, "  s%d: {command: [%q], instances: 0}\n", i, strings.Repeat("x", 4000))
	}
	b.WriteString("jobs:\n")
	for i := range 3 {
		fmt.Fprintf(&b, "  j%d: {levels: [n], command: ['true'], nodes: [{manual: [", i)
		for n := range 300 {
			fmt.Fprintf(&b, "%s-%d, ", strings.Repeat("n", 1000), n)
		}
		b.WriteString("]}]}\n")
	}
	file := write(t, "large.yaml", b.String())
	must(t, c.addr(), "apply", file)
	count := func() (services, jobs int) {
		return len(strings.Fields(must(t, c.addr(), "service", "ls", "-q"))),
			len(strings.Fields(must(t, c.addr(), "job", "ls", "-q")))
	}
	if s, j := count(); s != things || j != 3 {
		t.Errorf("%d services and %d jobs", s, j)
	}
	for _, j := range []string{"j0", "j1", "j2"} {
		must(t, c.addr(), "wait", j, "--timeout", "120s")
	}
	leader := c.status().Leader
	c.servers[leader].kill()
	if s, j := count(); s != things || j != 3 {
		t.Errorf("the next leader sees %d services and %d jobs", s, j)
	}
	if r := cli(t, c.addr(), "plan", file); r.code != 0 {
		t.Errorf("the next leader would change something: code %d\n%.2000s", r.code, r.out+r.err)
	}
}

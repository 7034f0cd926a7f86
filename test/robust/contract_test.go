package robust

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"cantina/api"
	pb "cantina/wire/cantinav1"
)

// TestKeyedSubmits sends the same request many times at once: it is carried out once.
func TestKeyedSubmits(t *testing.T) {
	w, d := newWitness(t), startDev(t, tempDir(t)).wait()
	var wg sync.WaitGroup
	uids := make([]string, 50)
	for i := range uids {
		c := d.client()
		wg.Go(func() {
			a, err := api.Call(t.Context(), c, calls.RunTask,
				&pb.RunTaskRequest{Domain: "d", Write: &pb.Write{IdempotencyKey: "one"},
					Definition: &pb.TaskDefinition{Workload: runWorkload(w.command(), "once", "true")}})
			if err != nil {
				t.Errorf("submit: %v", err)
				return
			}
			uids[i] = a.Task.Id + " " + a.Task.Uid
		})
	}
	wg.Wait()
	id, _, _ := strings.Cut(uids[0], " ")
	taskEnd(t, d.client(), id)
	for _, u := range uids {
		if u != uids[0] {
			t.Errorf("answers %q and %q", uids[0], u)
		}
	}
	if n := len(w.begun()["once"]); n != 1 {
		t.Errorf("it ran %d times", n)
	}
}

// TestKillDuringPlacement submits many tasks at once and kills the server when the
// last is acknowledged: after the next start none waits for ever.
func TestKillDuringPlacement(t *testing.T) {
	w, data := newWitness(t), tempDir(t)
	d := startDev(t, data).wait()
	var wg sync.WaitGroup
	for i := range 100 {
		c := d.client()
		wg.Go(func() {
			if err := runTask(t.Context(), c, fmt.Sprintf("t%d", i), w.command(), fmt.Sprintf("t%d", i), "true"); err != nil {
				t.Errorf("t%d: %v", i, err)
			}
		})
	}
	wg.Wait()
	d.kill()
	d = startDev(t, data).wait()
	begin, c, lost := time.Now(), d.client(), 0
	for i := range 100 {
		if taskEnd(t, c, fmt.Sprintf("t%d", i)).Outcome == "lost" {
			lost++
		}
	}
	t.Logf("all have ended %v after the start, %d of them lost", time.Since(begin), lost)
	for id, list := range w.begun() {
		if len(list) > 1 {
			t.Errorf("%s began %d times", id, len(list))
		}
	}
}

// TestFinishedStaysFinished applies ended work again, over restarts: it does not run again.
func TestFinishedStaysFinished(t *testing.T) {
	w, data := newWitness(t), tempDir(t)
	spec := fmt.Sprintf("domain: d\ntasks: {t: {command: [%[1]s, t, 'true']}}\njobs: {j: {levels: [n], nodes: [{manual: "+
		"[a, b]}], command: [%[1]s, '{}', 'true']}}\n", w.command())
	for range 3 {
		d := startDev(t, data).wait()
		apply(t, d.Addr, spec)
		must(t, d.Addr, "wait", "t", "j", "--timeout", "100s")
		d.stop()
	}
	for id, list := range w.begun() {
		if len(list) != 1 {
			t.Errorf("%s ran %d times", id, len(list))
		}
	}
	clean(t, filepath.Join(data, "cell"))
}

// TestGrandchildren stops work that put a child into a session of its own, and kills the cell of such work. No
// process of the work is left when its end is reported.
func TestGrandchildren(t *testing.T) {
	w, data := newWitness(t), tempDir(t)
	d := startDev(t, data).wait()
	const family = "echo $$ >>%[1]s/pids; setsid sh -c 'echo $$ >>%[1]s/pids; sleep 1000' & sleep 1000"
	script := fmt.Sprintf(family, w.dir)
	if err := runTask(t.Context(), d.client(), "family", "sh", "-c", script); err != nil {
		t.Fatal(err)
	}
	two := func() bool { return len(w.lines("pids")) >= 2 }
	if !w.until(patience, two) {
		t.Fatal("the family did not start")
	}
	must(t, d.Addr, "stop", "family")
	if end := taskEnd(t, d.client(), "family"); end.Outcome != "cancelled" {
		t.Errorf("outcome %s", end.Outcome)
	}
	// A cancelled task is COMPLETED at once (Diego dev notes, Tasks); its cell ends it then.
	for _, pid := range w.pids("pids") {
		if !ended(pid, patience) {
			t.Errorf("process %d is left %v after its task was cancelled", pid, patience)
		}
	}
	apply(t, d.Addr,
		fmt.Sprintf("domain: d\nservices:\n  stop: {command: [sh, -c, %[1]q]}\n"+
			"  keep: {command: [sh, -c, %[2]q], on_cell_restart: keep}\n",
			script, strings.ReplaceAll(script, "/pids", "/kept")))
	if !w.until(patience, func() bool { return len(w.lines("pids")) >= 4 && len(w.lines("kept")) >= 2 }) {
		t.Fatal("the services did not start")
	}
	must(t, d.Addr, "wait", "stop", "keep", "--timeout", "100s")
	must(t, d.Addr, "stop", "stop")
	must(t, d.Addr, "wait", "stop", "--for", "stopped", "--timeout", "100s")
	for _, pid := range w.pids("pids") {
		if !ended(pid, 0) {
			t.Errorf("process %d is left after its service has stopped", pid)
		}
	}
	must(t, d.Addr, "service", "scale", "stop", "1")
	if !w.until(patience, func() bool { return len(w.lines("pids")) >= 6 }) {
		t.Fatal("the service did not start again")
	}
	d.kill()
	killed := time.Now()
	for _, pid := range w.pids("pids") {
		if !ended(pid, patience) {
			t.Errorf("process %d lives %v after its cell was killed", pid, patience)
		}
	}
	t.Logf("all gone after %v", time.Since(killed))
	d = startDev(t, data).wait()
	must(t, d.Addr, "wait", "stop", "keep", "--timeout", "100s")
	for _, pid := range w.pids("kept") {
		if ended(pid, 0) {
			t.Errorf("process %d of the service that is kept has ended", pid)
		}
	}
	if n := len(w.lines("kept")); n != 2 {
		t.Errorf("the service that is kept was started again: %d processes", n)
	}
	must(t, d.Addr, "stop", "keep", "stop")
	must(t, d.Addr, "wait", "keep", "stop", "--for", "stopped", "--timeout", "100s")
	d.stop()
	clean(t, filepath.Join(data, "cell"))
}

// TestVerdicts distinguishes an OOM kill, a kill by hand and an exit.
func TestVerdicts(t *testing.T) {
	d := startDev(t, tempDir(t)).wait()
	if _, err := os.Stat("/sys/fs/cgroup/memory"); err != nil {
		t.Skip("no memory controller of cgroup v1 here: the limit is tested on v2 by the executor's tests")
	}
	for _, c := range []struct {
		id, script string
		signal     int32
		oom        bool
	}{
		{"oom", `exec awk 'BEGIN { s = "x"; while (length(s) < 300000000) s = s s }'`, 9, true},
		{"killed", "kill -9 $$", 9, false},
	} {
		r := cli(t, d.Addr, "run", "--id", c.id, "--memory", "32Mi", "--", "sh", "-c", c.script)
		got := taskEnd(t, d.client(), c.id)
		if got.Oom != c.oom || got.Signal != c.signal || got.Outcome != "failed" || r.code != 128+9 {
			t.Errorf("%s: exit code %d, oom %v, signal %d, %s: %s", c.id, r.code, got.Oom, got.Signal, got.Outcome, got.Reason)
		}
		t.Logf("%s: %s", c.id, got.Reason)
	}
}

// TestShortOutput runs tasks that print one word and fail: no word and no code is lost.
func TestShortOutput(t *testing.T) {
	d := startDev(t, tempDir(t)).wait()
	n := soak(100, 500)
	var wg sync.WaitGroup
	for i := range n {
		c := d.client()
		wg.Go(func() {
			if err := runTask(t.Context(), c, fmt.Sprintf("t%d", i), "sh", "-c", "echo A; exit 3"); err != nil {
				t.Errorf("t%d: %v", i, err)
			}
		})
	}
	wg.Wait()
	c := d.client()
	for i := range n {
		id := fmt.Sprintf("t%d", i)
		if end := taskEnd(t, c, id); end.ExitCode != 3 {
			t.Errorf("%s: exit code %d, %s", id, end.ExitCode, end.Reason)
		}
		out, err := api.Call(t.Context(), c, calls.ReadOutput,
			&pb.ReadOutputRequest{Query: &pb.OutputQuery{Task: id}, Page: &pb.Page{Limit: 10}})
		if err != nil || len(out.Lines) != 1 || out.Lines[0].Text != "A" {
			t.Errorf("%s: output %v, %v", id, out, err)
		}
	}
}

// TestBigOutput lets a task print a gigabyte: memory and store do not grow with it.
func TestBigOutput(t *testing.T) {
	data := tempDir(t)
	d := startDev(t, data).wait()
	must(t, d.Addr, "run", "--", "true")
	mb := soak(1100, 4000) // more than a container's output is kept of
	store, before := filepath.Join(data, "server", "etcd", "member", "snap", "db"), peak(t, d)
	size := fileSize(t, store)
	id := strings.TrimSpace(must(t, d.Addr, "run", "-d", "--", "sh", "-c",
		fmt.Sprintf("yes 'a line of output that is not short and not long either' | head -c %dM; exit 7", mb)))
	begin := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	if r := cli(t, d.Addr, "wait", id, "--timeout", "100s"); r.code != 7 || ctx.Err() != nil {
		t.Errorf("exit code %d, want 7: %s", r.code, r.err)
	}
	grown, wrote := peak(t, d)-before, fileSize(t, store)-size
	t.Logf("%d MB in %v: peak memory grew by %d MB, the store by %d kB", mb, time.Since(begin), grown>>20, wrote>>10)
	if grown > 100<<20 || wrote > 1<<20 {
		t.Errorf("memory grew by %d bytes, the store by %d", grown, wrote)
	}
	if out := must(t, d.Addr, "logs", "-n", "1", "--raw", id); !strings.Contains(out, "a line of") {
		t.Errorf("its last line is %q", out)
	}
}

// peak is the most memory that a process had resident, in bytes.
func peak(t *testing.T, p *process) int64 {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(b), "\n") {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "VmHWM:" {
			kb, err := strconv.ParseInt(f[1], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kb << 10
		}
	}
	t.Fatal("no VmHWM")
	return 0
}

// fileSize returns the size of a file on the disk, in bytes.
func fileSize(t *testing.T, path string) int64 {
	t.Helper()
	var st syscall.Stat_t
	if err := syscall.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	return st.Blocks * 512
}

package executor

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cantina/action"
	"cantina/cgroup"
	"cantina/executor/shim"
	"cantina/logstore"
	"cantina/spawn/procid"
)

func keep(s Spec) Spec {
	s.Workload.OnCellRestart = action.RestartKeep
	return s
}

func TestKeptContainerIsOrdinaryOtherwise(t *testing.T) {
	t.Parallel()
	e := testExecutor(t, nil)
	needGroups(t, e)
	s := keep(sh("echo out; echo err >&2; echo state > $CANTINA_STATUS; exit 5"))
	s.StatusPipe = true
	for i := range 5 {
		id := fmt.Sprint("k", i)
		c := launch(t, e, id, s)
		if r := c.Result; r.ExitCode != 5 || !r.Failed || string(r.Status) != "state" || r.Lost {
			t.Fatalf("%+v", r)
		}
		if out := lines(t, e, id, logstore.Stdout); len(out) != 1 || out[0] != "out" {
			t.Fatalf("%q", out)
		}
		e.Delete(id)
		await(t, e, id, gone)
	}
	if c := launch(t, e, "none",
		keep(Spec{Workload: action.Workload{Action: action.Action{Run: &action.Run{Path: "/no/such"}}}})); !strings.Contains(
		c.Result.Reason, "no such file") {
		t.Errorf("%+v", c.Result)
	}
	if c := launch(t, e, "killed", keep(sh("kill -7 $$"))); c.Result.Signal != 7 {
		t.Errorf("%+v", c.Result)
	}
	// Stopped whole, with a process in a session of its own that does not heed TERM.
	if err := e.Launch(Reservation{ID: "stop"},
		keep(sh("setsid sh -c 'trap \"\" TERM; echo up; while :; do sleep 1; done' & wait"))); err != nil {
		t.Fatal(err)
	}
	awaitLine(t, e, "stop", "up")
	e.Stop("stop")
	if c := await(t, e, "stop", completed); !c.Result.Stopped || c.Result.Lost {
		t.Errorf("%+v", c.Result)
	}
	left, _ := filepath.Glob(filepath.Join(e.cfg.Dir, "keep", "k[0-9]*"))
	if len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func TestKilledShimIsLost(t *testing.T) {
	e := testExecutor(t, nil)
	needGroups(t, e)
	if err := e.Launch(Reservation{ID: "x"}, keep(sh("trap '' HUP; echo up; while :; do sleep 1; done"))); err != nil {
		t.Fatal(err)
	}
	awaitLine(t, e, "x", "up")
	var s keptRecord
	if err := shim.Get(e.keepDir("x"), keptRecordFile, &s); err != nil {
		t.Fatal(err)
	}
	unix.Kill(s.Shim.Pid, unix.SIGKILL)
	c := await(t, e, "x", completed)
	if r := c.Result; !r.Lost || !r.Failed || r.ExitCode == 0 || r.Reason != "its exit status was not recorded" {
		t.Errorf("%+v", r)
	}
}

// TestTheEndOfAKeptProgramOnAFullDisk is recorded, and the next cell starts there and
// reports it: their space was taken before.
func TestTheEndOfAKeptProgramOnAFullDisk(t *testing.T) {
	needRoot(t)
	dataDir, dir := tempDir(t), tempDir(t)
	if err := unix.Mount("tmpfs", dataDir, "tmpfs", 0, "size=32m"); err != nil {
		t.Skip("skipped: nothing can be mounted here: ", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dataDir, unix.MNT_DETACH) }) // it was mounted
	spec := keep(sh(fmt.Sprintf("echo $$ >%[1]s/x; until [ -e %[1]s/end ]; do sleep 0.01; done; "+
		"head -c 60000 /dev/zero | tr '\\0' x >&3; exit 7", dir)))
	spec.StatusPipe = true
	c := startCell(t, script{Dir: dataDir, Jobs: []job{{ID: "x", Spec: spec}}})
	awaitFile(t, filepath.Join(dir, "x"))
	c.kill(t)
	free := fill(t, dataDir)
	if err := os.WriteFile(filepath.Join(dir, "end"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	awaitEmpty(t, classAt(t, trackerOf(t, dataDir), classKeepFree))
	e, stop := runExecutor(t, testConfig(dataDir))
	if r := await(t, e, "x", completed).Result; r.Lost || r.ExitCode != 7 || len(r.Status) != 60000 {
		t.Errorf("%d bytes of status, %+v", len(r.Status), r)
	}
	free()
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// writerScript prints numbered lines at full speed and ends with its own code. All
// lines of one writer are as long as is asked.
const writerScript = `p=$(head -c %d /dev/zero | tr '\0' -); i=0; while [ $i -lt %d ]; do i=$((i+1)); ` +
	`echo "line $i of this writer$p"; done; while [ ! -e %s ]; do sleep 0.2; done; i=$((i+1)); ` +
	`echo "line $i of this writer$p"; exit %d`

// numbered checks that lines 1 to n came once each and in order.
func numbered(lines []string, n int) error {
	for i, l := range lines {
		if want := fmt.Sprintf("line %d of this writer", i+1); strings.TrimRight(l, "-") != want {
			return fmt.Errorf("line %d is %q", i+1, l[:min(len(l), 100)])
		}
	}
	if len(lines) != n {
		return fmt.Errorf("%d lines, want %d", len(lines), n)
	}
	return nil
}

func TestReadoption(t *testing.T) {
	t.Parallel()
	// Each writer goes through more than one file of its shim.
	writers, kills, count, long := 16, 20, 2500, shim.SegmentSize/2000
	if testing.Short() {
		writers, kills = 10, 6
	}
	if soak() {
		writers, count, long = 50, 200_000, 1
	}
	dataDir := tempDir(t)
	dir := tempDir(t)
	flag := filepath.Join(dir, "end")
	s := script{Dir: dataDir}
	for i := range writers {
		s.Jobs = append(s.Jobs, job{ID: fmt.Sprint("w", i),
			Spec: keep(sh(fmt.Sprintf("echo $$ > %s/w%d; ", dir, i) + fmt.Sprintf(writerScript, long, count, flag, i)))})
	}
	c := startCell(t, s)
	pids := map[string]int{}
	for i := range writers {
		name := fmt.Sprint("w", i)
		awaitFile(t, filepath.Join(dir, name))
		b, _ := os.ReadFile(filepath.Join(dir, name))
		pids[name], _ = strconv.Atoi(strings.TrimSpace(string(b)))
	}
	c.kill(t)
	for k := range kills {
		s.Jobs = nil
		c := startCell(t, s)
		if k == kills/2 {
			os.WriteFile(flag, []byte("x"), 0o644) // the writers end around the next deaths of the cell
		}
		pause := timer(time.Duration(rand.IntN(200)+1) * time.Millisecond)
		<-pause
		c.kill(t)
	}
	e, stop := runExecutor(t, testConfig(dataDir))
	for i := range writers {
		id := fmt.Sprint("w", i)
		got := await(t, e, id, completed)
		if r := got.Result; r.ExitCode != i || r.Lost || !got.Adopted {
			t.Errorf("%s: %+v", id, r)
		}
		if got.Pid != pids[id] {
			t.Errorf("%s: pid %d, was %d", id, got.Pid, pids[id])
		}
		if err := numbered(allLines(t, e, id), count+1); err != nil {
			again := numbered(allLines(t, e, id), count+1)
			segs, _ := shim.Segments(e.keepDir(id), 1)
			w, _ := e.Output().Writer(logstore.Source{ID: id}, logstore.Stdout)
			t.Errorf("%s: %v; read again %v, written %d, segments %+v", id, err, again, w.Written(), segs)
		}
		e.Delete(id)
		await(t, e, id, gone)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// allLines reads a container's standard output through all pages.
func allLines(t testing.TB, e *Executor, id string) (out []string) {
	t.Helper()
	q := logstore.Query{IDs: []string{id}, Streams: []logstore.Stream{logstore.Stdout}, Limit: 50000}
	for {
		p, err := e.Output().Query(context.Background(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range p.Lines {
			if l.Gap != nil {
				t.Fatalf("gap %+v", l.Gap)
			}
			out = append(out, string(l.Data))
		}
		if !p.More {
			return out
		}
		q.Cursor = p.Next
	}
}

func TestAdoptedKeepsItsDeadline(t *testing.T) {
	t.Parallel()
	dataDir, dir := tempDir(t), tempDir(t)
	s := script{Dir: dataDir, Jobs: []job{
		{ID: "early", Bound: true, Spec: keep(writesPid(dir, "early", ""))},
		{ID: "free", Spec: keep(writesPid(dir, "free", ""))},
	}}
	c := startCell(t, s)
	early, free := pidsOf(t, dir, "early"), pidsOf(t, dir, "free")
	c.deadline(t, 2*time.Second)
	c.kill(t)
	// No successor comes: the reaper holds the deadline of kept work.
	for _, id := range early {
		awaitDeath(t, id)
	}
	for _, id := range free {
		if !id.Alive() {
			t.Errorf("free process %d is gone", id.Pid)
		}
	}
	e, stop := runExecutor(t, testConfig(dataDir))
	if c := await(t, e, "early", completed); !c.Result.Failed || c.Result.ExitCode == 0 {
		t.Errorf("%+v", c.Result)
	}
	for _, id := range []string{"early", "free"} {
		e.Delete(id)
		await(t, e, id, gone)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestSuccessorDoesNotExtendAnAdoptedDeadline(t *testing.T) {
	for _, recorded := range []bool{false, true} {
		t.Run(fmt.Sprint("recorded ", recorded), func(t *testing.T) {
			t.Parallel()
			dataDir, dir := tempDir(t), tempDir(t)
			c := startCell(t, script{Dir: dataDir, Jobs: []job{{ID: "x", Bound: true, Spec: keep(writesPid(dir, "x", ""))}}})
			ids := pidsOf(t, dir, "x")
			in := 3 * time.Second
			if recorded { // before it has passed
				in = 8 * time.Second
			}
			passed := c.deadline(t, in)
			c.kill(t)
			e, stop := runExecutor(t, testConfig(dataDir))
			if recorded {
				e.AdoptionRecorded()
			}
			e.SetDeadline(e.clock.Boot() + time.Hour)
			if !recorded {
				for _, id := range ids {
					awaitDeath(t, id)
				}
				await(t, e, "x", completed)
			} else {
				over := timer(time.Until(passed) + 2*time.Second)
				<-over
				for _, id := range ids {
					if !id.Alive() {
						t.Errorf("process %d is gone, although its adoption was recorded", id.Pid)
					}
				}
			}
			e.Delete("x")
			await(t, e, "x", gone)
			if err := stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestRecordedDeadlineIsInherited: the next successor finds the deadline that a leader extended after one adoption.
func TestRecordedDeadlineIsInherited(t *testing.T) {
	t.Parallel()
	dataDir, dir := tempDir(t), tempDir(t)
	c := startCell(t, script{Dir: dataDir, Deadline: 20 * time.Second,
		Jobs: []job{{ID: "x", Bound: true, Spec: keep(writesPid(dir, "x", ""))}}})
	ids := pidsOf(t, dir, "x")
	c.kill(t)
	deadline := time.Duration(0)
	for i := range 3 {
		e, stop := runExecutor(t, testConfig(dataDir))
		if got := e.recovery.adopted[0].deadline; len(e.recovery.adopted) != 1 || deadline != 0 && got != int64(deadline) {
			t.Errorf("successor %d: deadline %d, want %d", i, got, deadline)
		}
		deadline = e.clock.Boot() + time.Duration(i+1)*time.Hour
		e.SetDeadline(deadline)
		e.AdoptionRecorded()
		await(t, e, "x", func(c Container, _ bool) bool { return c.State == Running && c.Pid != 0 })
		if i == 2 {
			e.Delete("x")
			await(t, e, "x", gone)
		}
		if err := stop(); (err == nil) != (i == 2) {
			t.Errorf("the kept container keeps its group, and no other stays: %v", err)
		}
	}
	for _, id := range ids {
		awaitDeath(t, id)
	}
}

// TestKeptWorkEndsWhileNoCellIsThere: its shim holds its time limit; how it ended, and its result
// file, are read by the successor, also when a reaper has removed its group meanwhile.
func TestKeptWorkEndsWhileNoCellIsThere(t *testing.T) {
	t.Parallel()
	const limit = 6 * time.Second
	dataDir, dir := tempDir(t), tempDir(t)
	limited := func(s Spec) Spec {
		s.Workload.TimeLimit, s.Workload.Termination.Grace = limit, 200*time.Millisecond
		return keep(s)
	}
	succeeds := func() Spec {
		s := sh("until [ -e " + dir + "/go ]; do sleep 0.05; done; printf ok > result")
		s.Workload.ResultFile = "result"
		return s
	}
	at := limited(writesPid(dir, "sudden", ""))
	at.Workload.Termination.Mode = action.KillNow
	jobs := []job{
		{ID: "bound", Bound: true, Spec: keep(succeeds())},
		{ID: "early", Spec: limited(succeeds())},
		{ID: "late", Spec: limited(writesPid(dir, "late", ""))},
		{ID: "heeds", Bound: true, Spec: limited(writesPid(dir, "heeds", `trap "exit 0" TERM;`))},
		{ID: "stubborn", Spec: limited(writesPid(dir, "stubborn", `trap "" TERM;`))},
		{ID: "sudden", Spec: at},
	}
	began := time.Now()
	c := startCell(t, script{Dir: dataDir, Jobs: jobs})
	var mains []procid.Identity
	for _, j := range jobs[2:] {
		mains = append(mains, pidsOf(t, dir, j.ID)[0])
	}
	reaper := reaperOf(t, dataDir)
	passed := c.deadline(t, limit+5*time.Second)
	c.kill(t)
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, id := range mains {
		awaitDeath(t, id)
		if after := time.Since(began); after < limit {
			t.Errorf("process %d: ended after %v", id.Pid, after)
		}
	}
	awaitDeath(t, reaper) // the reaper removes the empty groups
	if time.Now().After(passed.Add(10 * time.Second)) {
		t.Error("the reaper outlived the deadline")
	}
	e, stop := runExecutor(t, testConfig(dataDir))
	for _, j := range jobs {
		c := await(t, e, j.ID, completed)
		text, err := e.ResultFile(j.ID)
		switch r := c.Result; {
		case j.Spec.Workload.ResultFile != "":
			if r.Failed || string(text) != "ok" || err != nil {
				t.Errorf("%s: %+v, result %q, %v", j.ID, r, text, err)
			}
		case !r.Failed || !r.TimedOut || r.Reason != "time limit of 6s exceeded":
			t.Errorf("%s: %+v", j.ID, r)
		}
		e.Delete(j.ID)
		await(t, e, j.ID, gone)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// TestTimeLimitOfKeptWorkOverARestart: it counts from the start of the work, and is named whole.
func TestTimeLimitOfKeptWorkOverARestart(t *testing.T) {
	t.Parallel()
	dataDir, dir := tempDir(t), tempDir(t)
	s := keep(writesPid(dir, "x", `trap "" TERM;`))
	s.Workload.TimeLimit, s.Workload.Termination.Grace = 5*time.Second, 100*time.Millisecond
	began := time.Now()
	c := startCell(t, script{Dir: dataDir, Jobs: []job{{ID: "x", Spec: s}}})
	pidsOf(t, dir, "x")
	c.kill(t)
	e, stop := runExecutor(t, testConfig(dataDir))
	got := await(t, e, "x", completed)
	after := time.Since(began)
	if r := got.Result; !r.TimedOut || r.Reason != "time limit of 5s exceeded" || after < s.Workload.TimeLimit {
		t.Errorf("after %v: %+v", after, r)
	}
	e.Delete("x")
	await(t, e, "x", gone)
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func mustRead(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestEmptyGroupsOfDeadCells: the next cell removes the empty groups of dead cells, and no others. It leaves groups
// of a living cell, groups with a process, groups of a container for its own successor, and groups of unrelated
// processes.
func TestEmptyGroupsOfDeadCells(t *testing.T) {
	dir := tempDir(t)
	dead, alive, kept := tempDir(t), tempDir(t), tempDir(t)
	c := startCell(t, script{Dir: dead, Jobs: []job{{ID: "x", Spec: writesPid(dir, "x", "")}}})
	ids, reaper := pidsOf(t, dir, "x"), reaperOf(t, dead)
	startCell(t, script{Dir: alive})
	k := startCell(t,
		script{Dir: kept,
			Jobs: []job{{ID: "k",
				Spec: keep(sh(fmt.Sprintf("echo $$ > %[1]s/k; while [ ! -e %[1]s/end ]; do sleep 0.01; done; exit 7", dir)))}}})
	awaitFile(t, filepath.Join(dir, "k"))
	k.kill(t)
	if err := os.WriteFile(filepath.Join(dir, "end"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	awaitEmpty(t, classAt(t, trackerOf(t, kept), classKeepFree))
	c.kill(t)
	for _, id := range append(ids, reaper) {
		awaitDeath(t, id)
	}
	host, err := cgroup.Detect()
	if err != nil {
		t.Fatal(err)
	}
	id := func(dataDir string) string { return filepath.Base(trackerOf(t, dataDir)) }
	// The reaper has removed its classes; a killed one had not, as here.
	for _, d := range host.Dirs(id(dead)) {
		if err := os.MkdirAll(filepath.Join(d, "stop.free.0000000000000001", "x"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	strange := filepath.Join(filepath.Dir(trackerOf(t, dead)), fmt.Sprint("not-ours-", os.Getpid()))
	if err := os.Mkdir(strange, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(strange) })
	busy := filepath.Join(filepath.Dir(trackerOf(t, dead)), fmt.Sprintf("%08xdeadbeef", os.Getpid()))
	if err := os.Mkdir(busy, 0o755); err != nil {
		t.Fatal(err)
	}
	sleeper := startUnrelated(t)
	if err := os.WriteFile(filepath.Join(busy, "cgroup.procs"), []byte(strconv.Itoa(sleeper.Pid)), 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		syscall.Kill(sleeper.Pid, syscall.SIGKILL)
		awaitEmpty(t, busy)
		os.Remove(busy)
	})
	_, stop := runExecutor(t, testConfig(tempDir(t)))
	if left := host.Dirs(id(dead)); len(left) != 0 {
		t.Errorf("left of the dead cell: %v", left)
	}
	for what, path := range map[string]string{"of a living cell": trackerOf(t, alive),
		"of what is to be adopted": trackerOf(t, kept), "of an unrelated process": strange, "with a process": busy} {
		if _, err := os.Stat(path); err != nil {
			t.Errorf("group %s is gone: %v", what, err)
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	e, stop := runExecutor(t, testConfig(kept))
	if r := await(t, e, "k", completed).Result; r.ExitCode != 7 {
		t.Errorf("%+v", r)
	}
	e.Delete("k")
	await(t, e, "k", gone)
	if err := stop(); err != nil {
		t.Error(err)
	}
}

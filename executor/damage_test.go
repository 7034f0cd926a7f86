package executor

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cantina/cgroup"
	"cantina/spawn"
	"cantina/spawn/procid"
)

// TestDamagedPrevious: any file that names the leftovers of a dead cell may be unreadable. Its successor still
// knows all of them, and adopts or ends them.
func TestDamagedPrevious(t *testing.T) {
	t.Parallel()
	for _, damage := range []struct {
		files string // pattern below the directory
		lives bool
	}{{previousFile, true}, {"keep/*/" + keptRecordFile, false}, {"*", true}, {"keep/*/*", false}, {"id", true},
		{"[ip]*", true}, {"[ip]*,keep/*/" + keptRecordFile, false}} {
		t.Run(damage.files, func(t *testing.T) {
			dataDir, dir := tempDir(t), tempDir(t)
			c := startCell(t, script{Dir: dataDir, Deadline: 20 * time.Second, Jobs: []job{
				{ID: "kept", Spec: keep(writesPid(dir, "kept", ""))}, {ID: "stop", Spec: writesPid(dir, "stop", "")}}})
			kept, stop := pidsOf(t, dir, "kept"), pidsOf(t, dir, "stop")
			c.kill(t)
			var files []string
			for pattern := range strings.SplitSeq(damage.files, ",") {
				found, err := filepath.Glob(filepath.Join(dataDir, pattern))
				if err != nil || len(found) == 0 {
					t.Fatal(found, err)
				}
				files = append(files, found...)
			}
			for _, f := range files {
				if info, err := os.Lstat(f); err == nil && info.Mode().IsRegular() {
					if err := os.WriteFile(f, []byte("\x00nonsense"), 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
			e, end := runExecutor(t, testConfig(dataDir))
			for _, id := range stop {
				awaitDeath(t, id)
			}
			if _, there := e.Get("kept"); there != damage.lives {
				t.Errorf("the successor has the kept container: %v, want %v", there, damage.lives)
			}
			if damage.lives {
				e.Delete("kept")
				await(t, e, "kept", gone)
			}
			for _, id := range kept {
				awaitDeath(t, id)
			}
			if err := end(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestDamagedIdentityByTracker: a successor that has only the control groups finds its own, and no other cell's.
func TestDamagedIdentityByTracker(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"damaged", "removed"} {
		t.Run(name, func(t *testing.T) {
			dataDir, dir := tempDir(t), tempDir(t)
			c := startCell(t, script{Dir: dataDir, Jobs: []job{
				{ID: "kept", Spec: keep(writesPid(dir, "kept", ""))}, {ID: "stop", Spec: writesPid(dir, "stop", "")}}})
			kept, ends := pidsOf(t, dir, "kept"), pidsOf(t, dir, "stop")
			others := tempDir(t)
			other := startCell(t, script{Dir: others, Jobs: []job{{ID: "kept", Spec: keep(writesPid(dir, "other", ""))}}})
			unrelated := pidsOf(t, dir, "other")
			c.kill(t)
			other.kill(t)
			was := strings.TrimSpace(string(mustRead(t, filepath.Join(dataDir, "id"))))
			for _, f := range []string{"id", previousFile, filepath.Join("keep", "kept", keptRecordFile)} {
				err := os.Remove(filepath.Join(dataDir, f))
				if name == "damaged" {
					err = os.WriteFile(filepath.Join(dataDir, f), []byte("nonsense"), 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			cfg := testConfig(dataDir)
			e, end := runExecutor(t, cfg)
			for _, id := range append(kept, ends...) { // no file names the purpose of the kept one
				awaitDeath(t, id)
			}
			if is := strings.TrimSpace(string(mustRead(t, filepath.Join(dataDir, "id")))); is != was || len(e.List()) != 0 {
				t.Errorf("identity %s, was %s; %+v", is, was, e.List())
			}
			if err := end(); err != nil {
				t.Error(err)
			}
			for _, id := range unrelated {
				if !id.Alive() {
					t.Error("what another cell keeps was killed")
				}
			}
			cfg.Dir = others
			e, end = runExecutor(t, cfg)
			e.Delete("kept")
			await(t, e, "kept", gone)
			if err := end(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestUnreadableDataProvesNothing: a cell does not start while it cannot read the files of its predecessor. It
// names the file and disturbs nothing; once it can read them, it adopts.
func TestUnreadableDataProvesNothing(t *testing.T) {
	dataDir := tempDir(t)
	cell := startCell(t,
		script{Dir: dataDir, Jobs: []job{{ID: "k", Spec: keep(sh("echo up; while :; do sleep 0.1; done"))}}})
	cell.kill(t)
	for _, name := range []string{"id", "keep/k/container"} {
		path := filepath.Join(dataDir, name)
		saved, err := os.ReadFile(path)
		missing := errors.Is(err, os.ErrNotExist)
		if err := errors.Join(os.RemoveAll(path), os.Mkdir(path, 0o700)); err != nil {
			t.Fatal(err)
		}
		previousPath := filepath.Join(dataDir, previousFile)
		l, lerr := os.ReadFile(previousPath)
		if name == "id" { // it is asked for when the previous one is damaged
			lerr = errors.Join(lerr, os.WriteFile(previousPath, []byte("nonsense"), 0o600))
		}
		if _, err := Open(testConfig(dataDir)); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: opened: %v", name, err)
		}
		err = errors.Join(lerr, os.Remove(path), os.WriteFile(previousPath, l, 0o600))
		if !missing {
			err = errors.Join(err, os.WriteFile(path, saved, 0o600))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	adopts(t, dataDir, "k")
}

// TestWatchAsksAgain: a process is not taken for gone while there is no descriptor to look at it.
func TestWatchAsksAgain(t *testing.T) {
	reported := make(chan string, 1)
	e := testExecutor(t, func(cfg *Config) { cfg.Log = slog.New(slog.NewTextHandler(lineChan(reported), nil)) })
	launch(t, e, "first", sh("true")) // the reaper is up: it must not inherit the limit below
	unrelated := startUnrelated(t)
	var was unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, nil, &was); err != nil {
		t.Fatal(err)
	}
	if err := rawPrlimit(&unix.Rlimit{Cur: 0, Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	pinned := make(chan *spawn.Process)
	go func() {
		p, err := (&container{order: &order{e: e}}).watch(t.Context(), unrelated)
		if err != nil {
			t.Error(err)
		}
		pinned <- p
	}()
	line := <-reported
	if err := rawPrlimit(&was); err != nil {
		t.Fatal(err)
	}
	if p := <-pinned; !strings.Contains(line, "retrying") || p == nil || p.Ended() {
		t.Errorf("%s: %v", line, p)
	}
	syscall.Kill(unrelated.Pid, syscall.SIGKILL)
	if p, err := (&container{order: &order{e: e}}).watch(t.Context(),
		procid.Identity{Pid: unrelated.Pid, Start: unrelated.Start + 1}); !errors.Is(err, procid.ErrGone) {
		t.Errorf("another process: %v %v", p, err)
	}
}

// lineChan passes on the first line that reports a repeated request.
type lineChan chan string

// Write implements io.Writer.
func (l lineChan) Write(b []byte) (int, error) {
	if !strings.Contains(string(b), "retrying") {
		return len(b), nil
	}
	select {
	case l <- string(b):
	default:
	}
	return len(b), nil
}

// TestCopiedDir: two cells whose directories have the same identity do not share groups.
func TestCopiedDir(t *testing.T) {
	t.Parallel()
	a, b := tempDir(t), tempDir(t)
	e, stop := runExecutor(t, testConfig(a))
	needGroups(t, e)
	if err := os.WriteFile(filepath.Join(b, "id"), mustRead(t, filepath.Join(a, "id")), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(testConfig(b)); !errors.Is(err, cgroup.ErrInUse) || !strings.Contains(err.Error(), "copy") {
		t.Errorf("open of a copy: %v", err)
	}
	launch(t, e, "x", sh("true"))
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestReusedPidIsNotKilled(t *testing.T) {
	// A record with the pid of an unrelated process and another start time.
	cfg := testConfig(tempDir(t))
	cfg.Cgroups = CgroupNone
	e, stop := runExecutor(t, cfg)
	launch(t, e, "x", sh("true"))
	if _, err := Open(cfg); !errors.Is(err, ErrInUse) {
		t.Errorf("the directory of a living cell: %v", err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	unrelated := startUnrelated(t)
	dataDir := filepath.Join(cfg.Dir, "run", "y")
	if err := errors.Join(os.MkdirAll(dataDir, 0o755),
		os.WriteFile(filepath.Join(dataDir, ".pid"), fmt.Appendf(nil, "%d %d", unrelated.Pid, unrelated.Start-7),
			0o600)); err != nil {
		t.Fatal(err)
	}
	_, stop = runExecutor(t, cfg)
	if !unrelated.Alive() {
		t.Error("an unrelated process was killed")
	}
	if _, err := os.Stat(dataDir); err == nil {
		t.Error("the stale directory is left")
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	syscall.Kill(unrelated.Pid, syscall.SIGKILL)
}

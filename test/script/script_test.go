// Package script runs the command line as people do: the real binary, a real
// `cantina dev` for each script, real processes. The scripts are testdata/*.txtar;
// `make test` builds the binary first.
//
// Commands beside those of testscript:
//
//	dev [FLAG...]        start `cantina dev` on $WORK/data and wait until it is ready
//	undev                end it with SIGTERM and demand that it ends well
//	code N CMD [ARG...]  run a command that must end with this exit code
//	until TEXT CMD [ARG...]  run a command again and again until it prints TEXT: for what
//	                     programs and the auction say a moment after what was asked for is so
package script

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// patience bounds the start and the end of a dev server.
const patience = 60 * time.Second

// TestScripts runs each script twice: its workloads, which name no user, run as the cell's
// own, and as one without privileges.
func TestScripts(t *testing.T) {
	for name, user := range map[string]string{"root": "", "user": "65534:65534"} {
		t.Run(name, func(t *testing.T) {
			if user != "" && os.Getuid() != 0 {
				t.Skip("skipped: only root runs work as somebody else")
			}
			runScripts(t, user)
		})
	}
}

func runScripts(t *testing.T, user string) {
	bin, err := filepath.Abs("../../bin")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(bin, "cantina")); err != nil {
		t.Skip("bin/cantina is not built: run make build")
	}
	// Whoever runs a workload gets to the files of its script.
	work := t.TempDir()
	if err := errors.Join(os.Chmod(filepath.Dir(work), 0o711), os.Chmod(work, 0o711)); err != nil {
		t.Fatal(err)
	}
	servers := &servers{bin: filepath.Join(bin, "cantina"), user: user, running: map[*testscript.TestScript]*dev{}}
	testscript.Run(t, testscript.Params{
		Dir: "testdata", WorkdirRoot: work,
		Setup: func(e *testscript.Env) error {
			if err := os.Chmod(e.WorkDir, 0o777); err != nil {
				return err
			}
			// Short: a socket's path has at most 107 bytes.
			run, err := os.MkdirTemp("", "ct")
			if err != nil {
				return err
			}
			e.Defer(func() { _ = os.RemoveAll(run) })
			e.Setenv("XDG_RUNTIME_DIR", run)
			e.Setenv("XDG_DATA_HOME", filepath.Join(run, "data")) // of the token
			e.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"dev": servers.start, "undev": servers.stop, "code": exitCode, "until": until,
		},
	})
}

// exitCode runs a command and compares its exit code.
func exitCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N CMD [ARG...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	err = ts.Exec(args[1], args[2:]...)
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		got = exit.ExitCode()
	case err != nil:
		ts.Fatalf("%v", err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// until runs a command until its output has a text.
func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until TEXT CMD [ARG...]")
	}
	end := time.NewTimer(patience)
	defer end.Stop()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		if err := ts.Exec(args[1], args[2:]...); err == nil && strings.Contains(ts.ReadFile("stdout"), args[0]) {
			return
		}
		select {
		case <-again.C:
		case <-end.C:
			ts.Fatalf("%q is not printed within %v", args[0], patience)
		}
	}
}

// servers are the dev servers of the scripts that run.
type servers struct {
	bin, user string

	mu      sync.Mutex
	running map[*testscript.TestScript]*dev
}

// dev is one dev server.
type dev struct {
	cmd   *exec.Cmd
	ended chan error
}

// start starts `cantina dev` and waits until it says that it is ready.
func (s *servers) start(ts *testscript.TestScript, neg bool, args []string) {
	work := ts.Getenv("WORK")
	own := []string{"dev", "--data", filepath.Join(work, "data"), "--listen", "127.0.0.1:0", "--ready-fd", "3"}
	if s.user != "" {
		own = append(own, "--default-user", s.user)
	}
	cmd := exec.Command(s.bin, append(own, args...)...)
	cmd.Dir = work
	cmd.Env = []string{"PATH=" + ts.Getenv("PATH"), "HOME=" + work, "XDG_RUNTIME_DIR=" + ts.Getenv("XDG_RUNTIME_DIR"), "XDG_DATA_HOME=" + ts.Getenv("XDG_DATA_HOME")}
	// Its own group: what the script's terminal sends must not reach it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	log, err := os.Create(filepath.Join(work, "dev.log"))
	ts.Check(err)
	read, write, err := os.Pipe()
	ts.Check(err)
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = log, log, []*os.File{write}
	ts.Check(cmd.Start())
	ts.Check(write.Close())
	d := &dev{cmd: cmd, ended: make(chan error, 1)}
	ready := make(chan struct{})
	go func() {
		// The server writes its addresses and closes; a dead one only closes.
		if text, err := io.ReadAll(read); err == nil && len(text) > 0 {
			close(ready)
		}
		_ = read.Close()
	}()
	go func() { d.ended <- errors.Join(cmd.Wait(), log.Close()) }()
	s.mu.Lock()
	s.running[ts] = d
	s.mu.Unlock()
	ts.Defer(func() { s.end(ts) })
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-ready:
		if neg {
			ts.Fatalf("dev started, and should not")
		}
	case err := <-d.ended:
		d.ended <- err
		text, rerr := os.ReadFile(log.Name())
		ts.Check(rerr)
		ts.Logf("%s", text)
		if !neg {
			ts.Fatalf("dev ended: %v", err)
		}
	case <-timer.C:
		ts.Fatalf("dev was not ready after %v", patience)
	}
}

// stop ends the server of a script and demands that it ends well.
func (s *servers) stop(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: undev")
	}
	if err := s.end(ts); err != nil {
		ts.Fatalf("dev ended with %v", err)
	}
}

// end ends the server of a script, if it runs.
func (s *servers) end(ts *testscript.TestScript) error {
	s.mu.Lock()
	d := s.running[ts]
	delete(s.running, ts)
	s.mu.Unlock()
	if d == nil {
		return nil
	}
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	select {
	case err := <-d.ended:
		return err
	case <-ctx.Done():
		// It hangs: the group is ours alone.
		_ = syscall.Kill(-d.cmd.Process.Pid, syscall.SIGKILL)
		return fmt.Errorf("it did not end within %v: %w", patience, <-d.ended)
	}
}

package executor

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
)

// terminalCell starts a test cell that has a terminal of its own.
func terminalCell(t *testing.T, s script) (*exec.Cmd, *os.File) {
	t.Helper()
	s.Reaper, s.Terminal = reaperPath, true
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), cellScript+"="+string(b))
	tty, err := pty.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		tty.Close()
		cmd.Process.Signal(syscall.SIGCONT)
		cmd.Process.Kill()
		cmd.Wait()
	})
	r := bufio.NewReader(tty)
	for {
		line, err := r.ReadString('\n')
		if strings.TrimSpace(line) == "ready" {
			break
		}
		if err != nil {
			t.Fatalf("cell prints %q, %v", line, err)
		}
	}
	go r.WriteTo(os.Stderr)
	return cmd, tty
}

func exited(cmd *exec.Cmd) <-chan error {
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	return done
}

func TestCtrlCEndsEverything(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		send   func(*exec.Cmd, *os.File)
		second bool
	}{
		{"Ctrl-C", func(_ *exec.Cmd, tty *os.File) { tty.WriteString("\x03") }, false},
		{"Ctrl-\\", func(_ *exec.Cmd, tty *os.File) { tty.WriteString("\x1c") }, false},
		{"TERM", func(c *exec.Cmd, _ *os.File) { c.Process.Signal(syscall.SIGTERM) }, false},
		{"HUP", func(c *exec.Cmd, _ *os.File) { c.Process.Signal(syscall.SIGHUP) }, false},
		{"Ctrl-C twice", func(_ *exec.Cmd, tty *os.File) { tty.WriteString("\x03") }, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := tempDir(t)
			prelude := ""
			if tc.second {
				prelude = `trap "" TERM;`
			}
			j := job{ID: "x", Spec: writesPid(dir, "x", prelude)}
			j.Spec.Workload.Termination.Grace = time.Minute
			cmd, tty := terminalCell(t, script{Dir: tempDir(t), Jobs: []job{j}})
			ids := pidsOf(t, dir, "x")
			done := exited(cmd)
			began := time.Now()
			tc.send(cmd, tty)
			limit := timer(30 * time.Second) // the grace time is a minute
			again := time.NewTicker(200 * time.Millisecond)
			defer again.Stop()
			for ended := false; !ended; {
				select {
				case err := <-done:
					if ended = true; err != nil {
						t.Errorf("cell: %v", err)
					}
				case <-again.C:
					if tc.second { // one that comes before the first was handled is none
						tc.send(cmd, tty)
					}
				case <-limit:
					t.Fatal("the cell is still there after 30 s")
				}
			}
			t.Logf("ended after %v", time.Since(began))
			for _, id := range ids {
				if id.Alive() {
					t.Errorf("process %d is alive", id.Pid)
				}
			}
		})
	}
}

func TestCtrlZFreezesAndFgThaws(t *testing.T) {
	dir, dataDir := tempDir(t), tempDir(t)
	ticks := filepath.Join(dir, "ticks")
	cmd, tty := terminalCell(t, script{Dir: dataDir,
		Jobs: []job{{ID: "x", Spec: sh("while :; do echo >> " + ticks + "; sleep 0.01; done")}}})
	awaitFile(t, ticks)
	tty.WriteString("\x1a")
	awaitState(t, cmd.Process.Pid, "T")
	class := classAt(t, trackerOf(t, dataDir), classStopFree)
	if b, err := os.ReadFile(filepath.Join(class, "cgroup.events")); err == nil &&
		!strings.Contains(string(b), "frozen 1") {
		t.Errorf("class is not frozen: %s", b)
	}
	before, _ := os.Stat(ticks)
	pause := timer(200 * time.Millisecond)
	<-pause
	if after, _ := os.Stat(ticks); after.Size() != before.Size() {
		t.Error("the container goes on while the cell is stopped")
	}
	cmd.Process.Signal(syscall.SIGCONT)
	for {
		if after, _ := os.Stat(ticks); after.Size() > before.Size()+3 {
			break
		}
	}
	done := exited(cmd)
	tty.WriteString("\x03")
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// awaitState waits until ps would show a process in a state.
func awaitState(t *testing.T, pid int, want string) {
	t.Helper()
	end := time.Now().Add(patienceOfTests)
	for time.Now().Before(end) {
		if s := describe(pid); s.State == want {
			return
		}
	}
	t.Fatalf("process %d is in state %s, want %s", pid, describe(pid).State, want)
}

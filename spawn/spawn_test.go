package spawn

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"cantina/executor/executortest"
)

// TestIgnoredSignalsAreReset: a shell's "&" or nohup makes the cell ignore signals; its containers do not.
func TestIgnoredSignalsAreReset(t *testing.T) {
	signal.Ignore(syscall.SIGUSR2)
	defer signal.Reset(syscall.SIGUSR2)
	l, _ := start(t)
	for _, gain := range []bool{false, true} {
		p, err := l.Start(&Spec{Path: "sh", Args: []string{"-c", "kill -USR2 $$; exit 3"}, Session: true, Gain: gain})
		if err != nil {
			t.Fatal(err)
		}
		if r := p.Result(); r.Signal != syscall.SIGUSR2 {
			t.Errorf("gain %v: %+v", gain, r)
		}
	}
}

// TestNothingOfTheCellStays: a child inherits no descriptor of the cell but its own three, under any numbers, and
// no blocked or handled signal.
func TestNothingOfTheCellStays(t *testing.T) {
	l, _ := start(t)
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	fd, err := unix.Dup(int(null.Fd())) // without CLOEXEC
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	const script = "ls /proc/self/fd | tr '\n' ' '; cat /proc/self/status | grep -E 'Sig(Blk|Cgt|Ign)' | tr -d '\t\n'"
	p, err := l.Start(&Spec{Path: "sh", Args: []string{"-c", script}, Session: true, Files: []uintptr{0, w.Fd(), 1}})
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	p.Result()
	buf := make([]byte, 1000)
	n, err := r.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	text := string(buf[:n])
	if more, _ := r.Read(buf[n:]); more > 0 {
		text = string(buf[:n+more])
	}
	if !strings.HasPrefix(text, "0 1 2 3 ") || !strings.Contains(text,
		"SigBlk:0000000000000000SigIgn:0000000000000000SigCgt:0000000000000000") {
		t.Errorf("got %q", text)
	}
}

// TestWithoutClone3 makes a child as on a kernel that does not have it.
func TestWithoutClone3(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &lim); err != nil {
		t.Fatal(err)
	}
	files := []uintptr{null.Fd(), null.Fd(), null.Fd()}
	for path, want := range map[string]error{"/bin/false": nil, "/no/such": unix.ENOENT} {
		s := &Spec{Path: path, ParentDeath: syscall.SIGKILL}
		c, err := newChild(s, files, &lim, nil)
		if err != nil {
			t.Fatal(err)
		}
		pid := int(c.spawnOld(0))
		if pid <= 0 || int(c.tid.Load()) != pid {
			t.Fatalf("spawn = %d, %d", pid, c.tid.Load())
		}
		if err := c.failure(s); !errors.Is(err, want) {
			t.Errorf("%s: %v", path, err)
		}
		var ws unix.WaitStatus
		if _, err := wait4(pid, &ws, 0, nil); err != nil || want == nil && ws.ExitStatus() != 1 {
			t.Errorf("%s: %v, %v", path, ws, err)
		}
	}
}

// TestParentHasEnded: a child whose parent is not the cell any more ends.
func TestParentHasEnded(t *testing.T) {
	l, _ := start(t)
	c, err := newChild(&Spec{Path: "/bin/true", ParentDeath: syscall.SIGKILL}, []uintptr{0, 1, 2}, &l.limit, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range c.ops {
		if c.ops[i].nr == unix.SYS_GETPPID {
			c.ops[i].want = 1
		}
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pid, err := c.spawn(0, -1)
	if err != nil {
		t.Fatal(err)
	}
	var ws unix.WaitStatus
	if _, err := wait4(pid, &ws, 0, nil); err != nil || ws.ExitStatus() != 127 || c.failure(&Spec{}) == nil {
		t.Errorf("%v, %v, %v", ws, err, c.failure(&Spec{}))
	}
}

// TestThreadsOfHungStartsAreNotPiledUp: more starts hang, one after the other, than there
// may ever be threads; in the end there are as many as are wanted and hung at a time, and
// all kinds of start work.
func TestThreadsOfHungStartsAreNotPiledUp(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("skipped: needs root to mount")
	}
	l, _ := start(t)
	const rounds, side = 20, 16
	for round := range rounds {
		h, err := executortest.Hang(t.TempDir())
		if err != nil {
			t.Skip("skipped: ", err)
		}
		all := make([]*Process, side)
		var wg sync.WaitGroup
		for i := range all {
			wg.Go(func() {
				p, err := l.Start(&Spec{Path: fmt.Sprint(h.Dir, "/", i), Session: true, Gain: i%4 == 0})
				if err != nil || !p.Hangs() {
					t.Errorf("round %d: %v", round, err)
					return
				}
				all[i] = p
			})
		}
		wg.Wait()
		if err := h.Release(); err != nil {
			t.Fatal(err)
		}
		for _, p := range all {
			if p == nil {
				continue
			}
			if <-p.Launched(); p.LaunchError() == nil {
				t.Error("a start that hung in a removed mount has reached its program")
			}
			<-p.Done()
		}
	}
	l.mu.Lock()
	works, hangs, want := l.works, l.hangs, 0
	for _, c := range l.pools {
		want += c.want
		if c.free < c.want {
			t.Errorf("pool %+v", c)
		}
	}
	l.mu.Unlock()
	if hangs != 0 || works > want+side {
		t.Errorf("%d threads, %d of them hang; wanted are %d", works, hangs, want)
	}
	for _, gain := range []bool{false, true} {
		for range 50 {
			p, err := l.Start(&Spec{Path: "/bin/true", Session: true, Gain: gain})
			if err != nil {
				t.Fatal(err)
			}
			p.Result()
		}
	}
}

// TestAStartThatWasSlowHangsNoMore: on a busy machine a program may start late. Once it has started, the start does
// not count as hanging, though the process lives on. Otherwise a container whose action began so would never start
// a check again.
func TestAStartThatWasSlowHangsNoMore(t *testing.T) {
	r := &request{done: make(chan struct{})}
	p := &Process{start: r, done: make(chan struct{})}
	if !p.Hanging() {
		t.Error("it has not got to its program yet")
	}
	close(r.done)
	if p.Hanging() || !p.Hangs() {
		t.Error("it has got to its program, and runs")
	}
}

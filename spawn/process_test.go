package spawn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"cantina/cgroup"
	"cantina/spawn/procid"
)

type buffer struct {
	mu     sync.Mutex
	b      bytes.Buffer
	closed chan struct{}
}

func newBuffer() *buffer { return &buffer{closed: make(chan struct{})} }

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}
func (b *buffer) Close() error { close(b.closed); return nil }
func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func start(t testing.TB) (*Launcher, *cgroup.Tree) {
	t.Helper()
	host, err := cgroup.Detect()
	if err != nil {
		t.Fatal(err)
	}
	tree, err := cgroup.Open(host, fmt.Sprintf("test-%d", os.Getpid()), cgroup.Options{})
	if err != nil {
		t.Skip("no control groups here: ", err)
	}
	if err := tree.Class("c"); err != nil {
		t.Fatal(err)
	}
	l, err := NewLauncher(tree)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- l.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		tree.Close()
	})
	return l, tree
}

func TestOutputAndCode(t *testing.T) {
	l, _ := start(t)
	for range 100 {
		out, errs := newBuffer(), newBuffer()
		p, err := l.Start(&Spec{Path: "sh", Args: []string{"-c", "echo A; echo B >&2; exit 3"}, Stdout: out, Stderr: errs,
			Session: true})
		if err != nil {
			t.Fatal(err)
		}
		if r := p.Result(); r.ExitCode != 3 || r.Signal != 0 {
			t.Fatalf("result = %+v", r)
		}
		p.CloseOutput()
		<-out.closed
		<-errs.closed
		if out.String() != "A\n" || errs.String() != "B\n" {
			t.Fatalf("output %q, %q", out, errs)
		}
	}
}

func TestGrandchildDoesNotHoldTheVerdict(t *testing.T) {
	l, tree := start(t)
	g, err := tree.Create("c", "holder", cgroup.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	out := newBuffer()
	p, err := l.Start(&Spec{Path: "sh", Args: []string{"-c", "sleep 1000 & echo done"}, Stdout: out, Session: true,
		Group: g})
	if err != nil {
		t.Fatal(err)
	}
	if r := p.Result(); r.ExitCode != 0 {
		t.Fatalf("result = %+v", r)
	}
	if full, err := g.Populated(); err != nil || !full {
		t.Fatalf("populated = %v, %v, want the sleep", full, err)
	}
	if err := g.Remove(); !errors.Is(err, cgroup.ErrBusy) {
		t.Fatalf("remove = %v, want busy", err)
	}
	if err := g.Kill(); err != nil {
		t.Fatal(err)
	}
	p.CloseOutput()
	<-out.closed
	if out.String() != "done\n" {
		t.Errorf("output = %q", out)
	}
}

func TestSignalIsKept(t *testing.T) {
	l, _ := start(t)
	p, err := l.Start(&Spec{Path: "/bin/sleep", Args: []string{"1000"}, Session: true})
	if err != nil {
		t.Fatal(err)
	}
	id, err := procid.Of(p.Pid)
	if err != nil || !id.Alive() {
		t.Fatalf("identity %+v: %v", id, err)
	}
	if err := p.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	if r := p.Result(); r.Signal != syscall.SIGUSR1 {
		t.Errorf("result = %+v", r)
	}
	if err := p.Signal(syscall.SIGTERM); !errors.Is(err, ErrGone) {
		t.Errorf("signal after the end = %v", err)
	}
	if id.Alive() {
		t.Error("identity is alive after the end")
	}
}

func TestMissingProgramIsNamed(t *testing.T) {
	l, _ := start(t)
	for _, path := range []string{"/no/such/program", "no-such-program"} {
		_, err := l.Start(&Spec{Path: path})
		if !errors.Is(err, syscall.ENOENT) || !strings.Contains(err.Error(), path) {
			t.Errorf("start %s = %v", path, err)
		}
	}
}

func TestNoNewPrivsAndOpenFiles(t *testing.T) {
	l, _ := start(t)
	for _, gain := range []bool{false, true} {
		out := newBuffer()
		p,
			err := l.Start(&Spec{Path: "sh", Args: []string{"-c",
			"grep NoNewPrivs /proc/self/status; ulimit -n; ls /proc/self/fd | wc -l"}, Stdout: out, OpenFiles: 77, Gain: gain})
		if err != nil {
			t.Fatal(err)
		}
		<-p.Done()
		p.CloseOutput()
		<-out.closed
		want := "NoNewPrivs:\t1\n77\n4\n"
		if gain {
			want = "NoNewPrivs:\t0\n77\n4\n"
		}
		if out.String() != want {
			t.Errorf("gain %v: %q, want %q", gain, out, want)
		}
	}
}

// TestBurstNeedsFewDescriptors: a burst of starts needs the descriptors of the running processes and few more.
func TestBurstNeedsFewDescriptors(t *testing.T) {
	const n, each = 600, 3
	l, _ := start(t)
	open, err := os.ReadDir("/proc/thread-self/fd")
	if err != nil {
		t.Fatal(err)
	}
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	low := syscall.Rlimit{Cur: uint64(len(open) + n*each + 4*maxStarts + maxHangs), Max: was.Max}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	defer syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was)
	var wg sync.WaitGroup
	all := make([]*Process, n)
	for i := range n {
		wg.Go(func() {
			var err error
			if all[i], err = l.Start(&Spec{Path: "sleep", Args: []string{"1000"}, Session: true, Stdout: newBuffer(),
				Stderr: newBuffer()}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, p := range all {
		if p == nil {
			continue
		}
		p.Signal(syscall.SIGKILL)
		<-p.Done()
		p.CloseOutput()
	}
}

func BenchmarkBare(b *testing.B) {
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := exec.Command("/bin/true").Run(); err != nil {
				b.Error(err)
			}
		}
	})
}

func BenchmarkLaunch(b *testing.B) { benchLaunch(b, cgroup.Limits{}) }
func BenchmarkLaunchLimits(b *testing.B) {
	benchLaunch(b, cgroup.Limits{MemoryBytes: 64 << 20, Pids: 50, CPUMilli: 1000})
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) Close() error                { return nil }

func benchLaunch(b *testing.B, lim cgroup.Limits) {
	l, tree := start(b)
	b.ResetTimer()
	busy := 0
	b.RunParallel(func(pb *testing.PB) {
		i := 0
		for pb.Next() {
			i++
			g, err := tree.Create("c", fmt.Sprintf("%p-%d", pb, i), lim)
			if err != nil {
				b.Fatal(err)
			}
			p, err := l.Start(&Spec{Path: "/bin/true", Session: true, Group: g, Stdout: discard{}, Stderr: discard{},
				ParentDeath: syscall.SIGTERM})
			if err != nil {
				b.Fatal(err)
			}
			<-p.Done()
			p.CloseOutput()
			for g.Remove() != nil {
				busy++
			}
		}
	})
	b.ReportMetric(float64(busy)/float64(b.N), "busy/op")
}

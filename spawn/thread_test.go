package spawn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestOffMain: with any number of threads, none is the main one, and each ends.
func TestOffMain(t *testing.T) {
	const threads = 200
	var all, here sync.WaitGroup
	here.Add(threads)
	tids := make([]int, threads)
	for i := range tids {
		all.Go(func() {
			OffMain(func() {
				tids[i] = unix.Gettid()
				here.Done()
				here.Wait() // all at once: every thread that there is has been taken
			})
		})
	}
	all.Wait()
	seen := map[int]bool{}
	for _, tid := range tids {
		if tid == unix.Getpid() || seen[tid] {
			t.Errorf("thread %d of process %d", tid, unix.Getpid())
		}
		seen[tid] = true
	}
}

// TestDescriptorsAreSeenByProc: /proc/self/fd shows the open descriptors of the process, although some threads of a
// launcher have tables of their own.
func TestDescriptorsAreSeenByProc(t *testing.T) {
	for range 10 {
		t.Run("launcher", func(t *testing.T) {
			l, _ := start(t)
			p, err := l.Start(&Spec{Path: "true"})
			if err != nil {
				t.Fatal(err)
			}
			<-p.Done()
			f, err := os.Open(os.DevNull)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if _, err := os.Stat(fmt.Sprintf("/proc/self/fd/%d", f.Fd())); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestNoCopyStaysWithoutDescriptors: a thread makes its table of descriptors while no new descriptor is available.
// It keeps none of the cell's open, and forks again when one is available.
func TestNoCopyStaysWithoutDescriptors(t *testing.T) {
	l, err := NewLauncher(nil)
	if err != nil {
		t.Fatal(err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	var was unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, nil, &was); err != nil {
		t.Fatal(err)
	}
	limit := func(lim unix.Rlimit) { // past the wrapper, which would make it the children's
		if _, _, errno := unix.RawSyscall6(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE, uintptr(unsafe.Pointer(&lim)), 0, 0,
			0); errno != 0 {
			t.Fatal(errno)
		}
	}
	limit(unix.Rlimit{Cur: 0, Max: was.Max})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	for range starters { // each thread in turn
		if p, err := l.Start(&Spec{Path: "true"}); !errors.Is(err, unix.EMFILE) {
			t.Errorf("started without a descriptor: %v %v", p, err)
		}
	}
	limit(was)
	write.Close()
	if err := read.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if n, err := read.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("a thread holds a copy of a closed descriptor: %d %v", n, err)
	}
	for range starters {
		p, err := l.Start(&Spec{Path: "true"})
		if err != nil {
			t.Fatal(err)
		}
		if r := p.Result(); r.ExitCode != 0 {
			t.Errorf("%+v", r)
		}
	}
}

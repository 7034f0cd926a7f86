package process

import (
	"fmt"
	"os"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// TestOffMain: however many threads there are, none is the main one, and each ends.
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

// TestDescriptorsAreSeenByProc: /proc/self/fd shows what the process has open, whatever
// threads of a launcher have tables of their own.
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

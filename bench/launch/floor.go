package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// bare starts n times /bin/true from two goroutines with os/exec and nothing
// around it: the floor that everything else is compared with. It returns
// launches per second.
func bare(n int) (float64, error) {
	var left atomic.Int64
	left.Store(int64(n))
	var wg sync.WaitGroup
	errs := make(chan error, 2)
	start := time.Now()
	for range 2 {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if err := exec.Command("/bin/true").Run(); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	rate := float64(n) / time.Since(start).Seconds()
	select {
	case err := <-errs:
		return 0, fmt.Errorf("bare loop: %w", err)
	default:
		return rate, nil
	}
}

// xargs starts n times /bin/true with xargs -P2 and returns launches per second.
func xargs(n int) (float64, error) {
	var in strings.Builder
	for i := range n {
		fmt.Fprintln(&in, i)
	}
	cmd := exec.Command("xargs", "-P2", "-n1", "/bin/true")
	cmd.Stdin, cmd.Stderr = strings.NewReader(in.String()), os.Stderr
	start := time.Now()
	if err := cmd.Run(); err != nil {
		return 0, fmt.Errorf("xargs: %w", err)
	}
	return float64(n) / time.Since(start).Seconds(), nil
}

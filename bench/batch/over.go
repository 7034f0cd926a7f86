package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"cantina/bench/dev"
	"cantina/bench/gauge"
)

// over runs /bin/true n times at one width: in a bare loop, by xargs, and as a job on one cell, in alternating rounds.
func over(ctx context.Context, program string, n, width, rounds int) error {
	forms := []struct {
		name  string
		run   func(context.Context) error
		rates []float64
	}{
		{name: "loop", run: func(context.Context) error { return loop(n, width) }},
		{name: "xargs", run: func(ctx context.Context) error {
			cmd := exec.CommandContext(ctx, "xargs", "-P", strconv.Itoa(width), "-n1", "/bin/true")
			var in strings.Builder
			for i := range n {
				fmt.Fprintln(&in, i)
			}
			cmd.Stdin, cmd.Stderr = strings.NewReader(in.String()), os.Stderr
			return cmd.Run()
		}},
		{name: "job"},
	}
	for range rounds {
		for i := range forms {
			f := &forms[i]
			took, err := time.Duration(0), error(nil)
			if f.run != nil {
				begin := time.Now()
				err = f.run(ctx)
				took = time.Since(begin)
			} else {
				took, err = job(ctx, program, n, width)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
			f.rates = append(f.rates, float64(n)/took.Seconds())
		}
	}
	mine := gauge.Median(forms[2].rates)
	fmt.Printf("over: %d × /bin/true, width %d, medians of %d rounds: loop %.0f/s, xargs %.0f/s, job run --over %.0f/s: "+
		"%.2f of the loop, %.2f of xargs, load %s\n", n, width, rounds, gauge.Median(forms[0].rates),
		gauge.Median(forms[1].rates), mine, mine/gauge.Median(forms[0].rates), mine/gauge.Median(forms[1].rates),
		gauge.Load())
	return nil
}

// loop starts processes from as many goroutines as the width.
func loop(n, width int) error {
	var left atomic.Int64
	left.Store(int64(n))
	errs := make(chan error, width)
	var wg sync.WaitGroup
	for range width {
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
	close(errs)
	return <-errs
}

// job runs them as batch tasks of a fresh `cantina dev`; its start is not measured.
func job(ctx context.Context, program string, n, width int) (took time.Duration, err error) {
	d, err := dev.Start(ctx, program)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, d.Stop()) }()
	args := append(d.Flags(), "job", "run", "--over", "1-"+strconv.Itoa(n), "-P", strconv.Itoa(width), "--cpu", "1m", "--",
		"/bin/true")
	begin := time.Now()
	if text, err := exec.CommandContext(ctx, program, args...).CombinedOutput(); err != nil {
		return 0, fmt.Errorf("%w: %s", err, text)
	}
	return time.Since(begin), nil
}

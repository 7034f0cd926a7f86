package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
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
		{name: "loop", run: func(context.Context) error { return gauge.Loop(n, width) }},
		{name: "xargs", run: func(ctx context.Context) error { return gauge.Xargs(ctx, n, width) }},
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

package main

import (
	"context"
	"fmt"
	"time"

	"cantina/bench/gauge"
)

// bare starts n times /bin/true from two goroutines: the floor that everything else is compared with.
// It returns launches per second.
func bare(n int) (float64, error) {
	return rate("bare loop", n, func() error { return gauge.Loop(n, 2) })
}

// xargs starts n times /bin/true with xargs -P2 and returns launches per second.
func xargs(n int) (float64, error) {
	return rate("xargs", n, func() error { return gauge.Xargs(context.Background(), n, 2) })
}

// rate returns how many of n launches do makes per second.
func rate(name string, n int, do func() error) (float64, error) {
	start := time.Now()
	if err := do(); err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return float64(n) / time.Since(start).Seconds(), nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"cantina/bench/gauge"
)

// steadyConfig is one measurement of the steady state.
type steadyConfig struct {
	grove
	store       string
	task        time.Duration
	warm, watch time.Duration
	profile     string
}

// steady runs a grove whose slots should always be full, and prints how full they were.
func steady(ctx context.Context, c steadyConfig) (err error) {
	s, err := open(ctx, c.store)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	l, err := lead(ctx, s, c.slots(), c.task)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.stop(ctx)) }()
	begin := time.Now()
	if err := l.apply(ctx, c.grove); err != nil {
		return err
	}
	full := func() bool { return l.workers.Live() >= c.slots() || time.Since(begin) > 2*time.Minute }
	if err := l.until(ctx, full); err != nil {
		return err
	}
	fmt.Printf("steady: %d nodes × %d jobs read and %d tasks started: %v\n", c.hosts*c.databases, c.jobs,
		l.workers.Live(), time.Since(begin).Round(time.Millisecond))
	if err := pause(ctx, c.warm); err != nil {
		return err
	}
	stop, err := gauge.Profile(c.profile)
	if err != nil {
		return err
	}
	before, spent := l.sched.Stats(), gauge.Spent()
	l.workers.measure(c.watch)
	if err := pause(ctx, c.watch); err != nil {
		return err
	}
	spent = gauge.Spent() - spent
	m, after := l.workers.measured(), l.sched.Stats()
	if err := stop(); err != nil {
		return err
	}
	ideal := float64(c.slots()) * c.watch.Seconds()
	decisions := float64(m.started)
	fmt.Printf("steady: store %s, tasks of %v, %d slots, %v: %.3f of ideal, %.0f decisions/s, %.1f µs of processor time "+
		"each, %.0f visits each, %d rows, %d MB resident, load %s\n", c.store, c.task, c.slots(), c.watch,
		m.task.Seconds()/ideal, decisions/c.watch.Seconds(), float64(spent.Microseconds())/max(decisions, 1),
		float64(after.Visits-before.Visits)/max(decisions, 1), after.Segments-before.Segments,
		gauge.Resident(os.Getpid())>>20, gauge.Load())
	return nil
}

// until waits for a condition, looking at it a hundred times a second.
func (l *leader) until(ctx context.Context, done func() bool) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case err := <-l.ended:
			l.ended <- err
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

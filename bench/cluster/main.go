// Command cluster measures a server with simulated cells (cantina cell --simulate): how fast
// services and tasks start, one service at a time compared with a durable write of the same run,
// how fast the instances of lost cells are RUNNING again, the cost of heartbeats, how the cost
// of each kind of work grows with its amount, and a whole cluster under its full load. Every figure
// is of a fresh server with an embedded store and fsync. It is no test: it fails only if a figure
// cannot be measured.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"cantina/bench/gauge"
	"cantina/internal/run"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := bench(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

func bench(ctx context.Context) error {
	program := flag.String("cantina", "bin/cantina", "the program to measure")
	cells := flag.Int("cells", 100, "simulated cells")
	n := flag.Int("n", 1000, "services, instances and tasks")
	single := flag.Int("single", 100, "services that are applied one at a time")
	beats := flag.Int("beats", 0, "simulated cells whose heartbeats are measured for a minute; 0 = not")
	grown := flag.Int("growth", 0, "amount of work that is compared with four times as much; 0 = not")
	f := floodFlags()
	flag.StringVar(&monitors, "monitors", "",
		"a directory for sockets with metrics and profiles of the processes: server.sock, a.sock, b.sock")
	only := flag.String("only", "",
		"the only measurement to make: services, one service, one at a time, tasks, lost cells, heartbeats, growth, flood")
	flag.Parse()
	rigs := func(do func(ctx context.Context, r *rig) error, sets ...int) error {
		var flags []string
		if len(sets) > 1 {
			flags = hasty
		}
		r, err := newRig(ctx, *program, flags, sets...)
		if err == nil {
			err = do(ctx, r)
		}
		return r.close(err)
	}
	for _, m := range []struct {
		name string
		run  func() error
	}{
		{"services", func() error {
			return rigs(func(ctx context.Context, r *rig) error {
				d, err := r.untilRunning(ctx, many(*n, 1), *n)
				fmt.Printf("%d services of 1, apply to all RUNNING: %v\n", *n, round(d))
				return err
			}, *cells)
		}},
		{"one service", func() error {
			return rigs(func(ctx context.Context, r *rig) error {
				d, err := r.untilRunning(ctx, many(1, *n), *n)
				fmt.Printf("one service of %d, apply to all RUNNING: %v\n", *n, round(d))
				return err
			}, *cells)
		}},
		{"one at a time", func() error {
			return rigs(func(ctx context.Context, r *rig) error { return oneAtATime(ctx, r, *single) }, *cells)
		}},
		{"tasks", func() error {
			return rigs(func(ctx context.Context, r *rig) error { return tasks(ctx, r, *n) }, *cells)
		}},
		{"lost cells", func() error {
			return rigs(func(ctx context.Context, r *rig) error { return lost(ctx, r, *cells*22) }, *cells-*cells/10, *cells/10)
		}},
		{"heartbeats", func() error {
			if *beats == 0 {
				return nil
			}
			return rigs(func(ctx context.Context, r *rig) error { return heartbeats(ctx, r, *beats) }, *beats)
		}},
		{"growth", func() error {
			if *grown == 0 {
				return nil
			}
			return growth(ctx, *program, *grown)
		}},
		{"flood", func() error {
			if f.cells == 0 {
				return nil
			}
			return flood(ctx, *program, *f)
		}},
	} {
		if *only != "" && *only != m.name {
			continue
		}
		if err := m.run(); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return nil
}

// floodFlags declares the flags of the flood.
func floodFlags() *aFlood {
	f := &aFlood{}
	flag.IntVar(&f.cells, "flood", 0, "simulated cells that are measured under full load; 0 = not")
	flag.IntVar(&f.services, "flood-services", 20, "services of that load")
	flag.IntVar(&f.each, "flood-instances", 500, "instances of each of them")
	flag.IntVar(&f.busy, "flood-busy", 0, "busy loops that compete with that load while it starts")
	flag.DurationVar(&f.stay, "flood-stay", time.Minute, "how long all of it must stay RUNNING")
	return f
}

func round(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }

// many is a spec file of services with the same number of instances.
func many(services, instances int) string {
	var b strings.Builder
	b.WriteString("domain: d\nservices:\n")
	for i := range services {
		fmt.Fprintf(&b, "  s%d: {command: [serve], instances: %d, memory: 32Mi, cpu: 10m}\n", i, instances)
	}
	return b.String()
}

// oneAtATime applies services of one instance, each when the one before runs, and as
// often a service of none, which is a durable write and nothing else. The first one
// warms up and does not count.
func oneAtATime(ctx context.Context, r *rig, n int) error {
	var writes, starts []time.Duration
	for i := range n + 1 {
		file := fmt.Sprintf("domain: d%d\nservices:\n  web: {command: [serve], instances: %%d, memory: 32Mi, cpu: 10m}\n", i)
		begin := time.Now()
		if err := r.apply(ctx, fmt.Sprintf(file, 0)); err != nil {
			return err
		}
		writes = append(writes, time.Since(begin))
		d, err := r.untilRunning(ctx, fmt.Sprintf(file, 1), i+1)
		if err != nil {
			return err
		}
		starts = append(starts, d)
	}
	w, s := quantiles(writes[1:]), quantiles(starts[1:])
	fmt.Printf("one service at a time, apply to RUNNING: p50 %v, p99 %v; a durable write alone: "+
		"p50 %v, p99 %v; p50 is %.1f writes, p99 is %.1f p50\n",
		round(s[0]), round(s[1]), round(w[0]), round(w[1]), float64(s[0])/float64(w[0]), float64(s[1])/float64(s[0]))
	return nil
}

// quantiles returns the median and the 99th percentile.
func quantiles(all []time.Duration) [2]time.Duration {
	slices.Sort(all)
	return [2]time.Duration{all[len(all)/2], all[min(len(all)-1, len(all)*99/100)]}
}

func tasks(ctx context.Context, r *rig, n int) error {
	var b strings.Builder
	b.WriteString("domain: d\ntasks:\n")
	for i := range n {
		fmt.Fprintf(&b, "  t%d: {command: [sleep, 50ms], memory: 32Mi, cpu: 10m}\n", i)
	}
	begin := time.Now()
	if err := r.apply(ctx, b.String()); err != nil {
		return err
	}
	if err := r.news.until(ctx, func(s *seen) bool { return s.done == n }); err != nil {
		return err
	}
	fmt.Printf("%d tasks of 50 ms, apply to all COMPLETED: %v\n", n, round(time.Since(begin)))
	return nil
}

// lost kills the process with the second set of cells.
func lost(ctx context.Context, r *rig, n int) error {
	if _, err := r.untilRunning(ctx, many(10, n/10), n/10*10); err != nil {
		return err
	}
	before := r.news.on("b-")
	if err := r.cells[1].kill(); err != nil {
		return err
	}
	if err := r.news.until(ctx, func(s *seen) bool { return len(s.silent) == r.sets[1] }); err != nil {
		return err
	}
	if err := r.news.until(ctx, func(s *seen) bool { return s.on("b-") == 0 }); err != nil {
		return err
	}
	whole := time.Now()
	first, last := r.news.silence()
	fmt.Printf("%d of %d cells killed, %d instances: whole again %v after the last "+
		"of them was found silent, %v after the first\n",
		r.sets[1], r.sets[0]+r.sets[1], before, round(whole.Sub(last)), round(whole.Sub(first)))
	return nil
}

// heartbeats measures the server's usage while cells only send heartbeats.
func heartbeats(ctx context.Context, r *rig, n int) error {
	const span = time.Minute
	before, err := gauge.SpentBy(r.server.cmd.Process.Pid)
	if err != nil {
		return err
	}
	begin := time.Now()
	if err := run.Pause(ctx, span); err != nil {
		return err
	}
	after, err := gauge.SpentBy(r.server.cmd.Process.Pid)
	if err != nil {
		return err
	}
	fmt.Printf("heartbeats and probes of %d cells: %.0f %% of one processor in the server\n", n,
		100*float64(after-before)/float64(time.Since(begin)))
	return nil
}

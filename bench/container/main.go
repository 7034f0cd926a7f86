package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"syscall"
	"time"

	"cantina/action"
	"cantina/bench/gauge"
	"cantina/resource"
)

// trueProgram is the program of every launch.
var trueProgram = action.Action{Run: &action.Run{Path: "/bin/true"}}

// form is one way to start a process.
type form struct {
	name   string
	target float64 // part of the floor; 0 = none
	load   *action.Workload
	rates  []float64 // launches per second
	costs  []float64 // microseconds of processor time a launch
}

// forms are the compared forms; the first is the floor.
func forms() []*form {
	limits := resource.Amounts{resource.MemoryMB: 64, resource.CPUMilli: 1000}
	all := []*form{
		{name: "os/exec"},
		{name: "process", target: 0.6, load: &action.Workload{Action: trueProgram}},
		{name: "process, cpu limit", load: &action.Workload{Action: trueProgram,
			Resources: resource.Amounts{resource.CPUMilli: 1000}}},
		{name: "process, memory, pids, cpu", target: 0.45,
			load: &action.Workload{Action: trueProgram, MaxPids: 50, Resources: limits}},
	}
	if os.Getuid() == 0 {
		all = append(all, &form{name: "namespaces", target: 0.3,
			load: &action.Workload{Action: trueProgram, Isolation: action.IsolationNamespaces}})
	}
	return all
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := measure(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "container:", err)
		os.Exit(1)
	}
}

func measure(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("container", flag.ContinueOnError)
	n := fs.Int("n", 3000, "launches of each form in each round")
	rounds := fs.Int("rounds", 5, "rounds")
	idle := fs.Int("idle", 1000, "idle containers; 0 = not measured")
	beside := fs.Int("beside", 5000, "running containers beside which a launch is measured; 0 = not measured")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if err := ratios(ctx, *n, *rounds); err != nil {
		return err
	}
	if *idle > 0 {
		if err := standing(ctx, *idle); err != nil {
			return err
		}
	}
	if *beside == 0 {
		return nil
	}
	return crowd(ctx, *n, *rounds, *beside)
}

// ratios prints the launches of each form as a part of the floor.
func ratios(ctx context.Context, n, rounds int) error {
	return withCell(ctx, func(c *cell) error {
		all := forms()
		for range rounds {
			for _, f := range all {
				run := func() error { return c.launch(n, f.load) }
				if f.load == nil {
					run = func() error { return bare(n) }
				}
				before, begin := gauge.Spent(), time.Now()
				err := run()
				if err != nil {
					return fmt.Errorf("%s: %w", f.name, err)
				}
				f.rates = append(f.rates, float64(n)/time.Since(begin).Seconds())
				f.costs = append(f.costs, float64((gauge.Spent()-before).Microseconds())/float64(n))
			}
		}
		fmt.Printf("launches of /bin/true, two at a time: %d each, %d rounds, %d processors, load %s\n", n, rounds,
			runtime.NumCPU(), gauge.Load())
		fmt.Printf("%-28s %8s %8s %8s %9s %7s %8s %9s\n", "form", "median/s", "lowest", "highest", "of floor", "target",
			"CPU us", "of floor")
		for _, f := range all {
			target := ""
			if f.target > 0 {
				target = fmt.Sprintf("%.2f", f.target)
			}
			fmt.Printf("%-28s %8.0f %8.0f %8.0f %9.2f %7s %8.0f %9.2f\n", f.name, gauge.Median(f.rates), slices.Min(f.rates),
				slices.Max(f.rates),
				gauge.Median(f.rates)/gauge.Median(all[0].rates), target, gauge.Median(f.costs),
				gauge.Median(all[0].costs)/gauge.Median(f.costs))
		}
		return nil
	})
}

// standing prints the resources of idle containers outside their own processes.
func standing(ctx context.Context, n int) error {
	return withCell(ctx, func(c *cell) error {
		if err := c.fill("warm", 50, sleeper()); err != nil {
			return err
		}
		fds, kb, err := c.holds()
		if err != nil {
			return err
		}
		if err := c.fill("idle", n, sleeper()); err != nil {
			return err
		}
		fdsNow, kbNow, err := c.holds()
		if err != nil {
			return err
		}
		kept := sleeper()
		kept.OnCellRestart = action.RestartKeep
		if err := c.fill("keep", n, kept); err != nil {
			return err
		}
		shims, err := c.shims()
		if err != nil {
			return err
		}
		fmt.Printf("\n%d idle containers, each: %.2f descriptors (target 3), %.1f kB of the cell (target 100); "+
			"with keep a shim of %d kB (Pss, target 3000); load %s\n",
			n, float64(fdsNow-fds)/float64(n), float64(kbNow-kb)/float64(n), shims/n, gauge.Load())
		return c.end("keep", n)
	})
}

// crowd prints the cost of a launch beside few and beside many running containers.
func crowd(ctx context.Context, n, rounds, many int) error {
	const few = 100
	rates, costs := map[int][]float64{}, map[int][]float64{}
	for range rounds {
		for _, running := range []int{few, many} {
			err := withCell(ctx, func(c *cell) error {
				if err := c.fill("idle", running, sleeper()); err != nil {
					return err
				}
				before, begin := gauge.Spent(), time.Now()
				if err := c.launch(n, &action.Workload{Action: trueProgram}); err != nil {
					return err
				}
				rates[running] = append(rates[running], float64(n)/time.Since(begin).Seconds())
				costs[running] = append(costs[running], float64((gauge.Spent()-before).Microseconds())/float64(n))
				return nil
			})
			if err != nil {
				return fmt.Errorf("beside %d: %w", running, err)
			}
		}
	}
	fmt.Printf("\n%d launches, %d rounds: beside %d running %.0f/s and %.0f us CPU each, beside %d %.0f/s and %.0f us "+
		"(target: at most 1.20 of it; %.2f by time, %.2f by CPU); load %s\n",
		n, rounds, few, gauge.Median(rates[few]), gauge.Median(costs[few]), many, gauge.Median(rates[many]),
		gauge.Median(costs[many]),
		gauge.Median(rates[few])/gauge.Median(rates[many]), gauge.Median(costs[many])/gauge.Median(costs[few]), gauge.Load())
	return nil
}

func sleeper() *action.Workload {
	w := &action.Workload{Action: action.Action{Run: &action.Run{Path: "/bin/sleep", Args: []string{"100000"}}}}
	w.Termination.Mode = action.KillNow
	return w
}

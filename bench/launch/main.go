package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"cantina/bench/gauge"
)

// Targets of the issue "The spine", as a part of the floor.
const (
	batchTarget = 0.5
	taskTarget  = 0.25
)

// form is one way to start processes.
type form struct {
	name   string
	target float64 // part of the floor; 0 = none
	run    func(ctx context.Context, n int) (outcome, error)
	rates  []float64
	costs  []float64 // milliseconds of processor time a launch
}

// outcome is the result of one measurement.
type outcome struct {
	rate float64       // launches per second
	cpu  time.Duration // processor time of one launch, that of the process included
}

// costing runs a form whose processes are children of this one.
func costing(run func(n int) (float64, error)) func(context.Context, int) (outcome, error) {
	return func(_ context.Context, n int) (outcome, error) {
		before := gauge.Spent()
		rate, err := run(n)
		return outcome{rate: rate, cpu: (gauge.Spent() - before) / time.Duration(n)}, err
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := measure(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "launch:", err)
		os.Exit(1)
	}
}

// measure runs all rounds and prints the table.
func measure(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("launch", flag.ContinueOnError)
	cantina := fs.String("cantina", "bin/cantina", "the program")
	n := fs.Int("n", 5000, "launches of each form in each round")
	rounds := fs.Int("rounds", 3, "rounds")
	only := fs.String("only", "floor,xargs,batch,tasks", "forms to measure")
	cpu := fs.Int("cpu", 100, "thousandths of a processor that each launch asks for")
	callers := fs.Int("callers", 32, "concurrent RunTask calls")
	if err := fs.Parse(args); err != nil {
		return err
	}
	c := &cluster{program: *cantina, callers: *callers, cpuMilli: *cpu}
	all := []*form{
		{name: "floor", run: costing(bare)},
		{name: "xargs", run: costing(xargs)},
		{name: "batch", target: batchTarget, run: c.batch},
		{name: "tasks", target: taskTarget, run: c.tasks},
	}
	var forms []*form
	for _, f := range all {
		if slices.Contains(strings.Split(*only, ","), f.name) {
			forms = append(forms, f)
		}
	}
	for round := range *rounds {
		for _, f := range forms {
			got, err := f.run(ctx, *n)
			if err != nil {
				return fmt.Errorf("round %d, %s: %w", round+1, f.name, err)
			}
			ms := float64(got.cpu.Microseconds()) / 1000
			f.rates, f.costs = append(f.rates, got.rate), append(f.costs, ms)
			fmt.Fprintf(os.Stderr, "round %d  %-6s %7.0f/s  %5.2f ms CPU  load %s\n", round+1, f.name, got.rate, ms,
				gauge.Load())
		}
	}
	table(forms, *n, *rounds)
	return nil
}

// table prints the medians and their parts of the floor.
func table(forms []*form, n, rounds int) {
	fmt.Printf("launches of /bin/true a second: %d each, %d rounds, %d processors, load %s\n", n, rounds, runtime.NumCPU(),
		gauge.Load())
	fmt.Printf("%-8s %8s %8s %8s %9s %7s %8s\n", "form", "median", "lowest", "highest", "of floor", "target", "CPU ms")
	floor := 0.0
	for _, f := range forms {
		m := gauge.Median(f.rates)
		if f.name == "floor" {
			floor = m
		}
		part, target := "", ""
		if floor > 0 {
			part = fmt.Sprintf("%.2f", m/floor)
		}
		if f.target > 0 {
			target = fmt.Sprintf("%.2f", f.target)
		}
		fmt.Printf("%-8s %8.0f %8.0f %8.0f %9s %7s %8.2f\n", f.name, m, slices.Min(f.rates), slices.Max(f.rates), part,
			target, gauge.Median(f.costs))
	}
}

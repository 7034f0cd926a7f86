// Command batch measures the scheduler of batch work: the load of a million nodes, the utilisation of 240,000 slots and
// the cost of a freed slot. It also measures processes of a job, and the growth of the store. Decisions are those of a
// server. It is no test: it fails only when something cannot be measured.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"cantina/internal/run"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := measure(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "batch:", err)
		os.Exit(1)
	}
}

// measure measures one figure.
func measure(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("batch", flag.ContinueOnError)
	only := fs.String("only", "steady", "figure: load, visits, steady, over or growth")
	c := steadyConfig{}
	fs.IntVar(&c.hosts, "hosts", 12_000, "hosts")
	fs.IntVar(&c.databases, "databases", 25, "databases of each host")
	fs.IntVar(&c.jobs, "jobs", 10, "jobs")
	fs.IntVar(&c.root, "root", 0, "limit of the root, 0 = none")
	fs.StringVar(&c.store, "store", "mem", "store: mem or etcd")
	fs.DurationVar(&c.task, "task", 5*time.Second, "duration of a task")
	fs.DurationVar(&c.warm, "warm", 10*time.Second, "time before the measurement")
	fs.DurationVar(&c.watch, "for", 20*time.Second, "time of the measurement")
	fs.StringVar(&c.profile, "profile", "", "file of a processor profile")
	program := fs.String("cantina", "bin/cantina", "over: the program")
	n := fs.Int("n", 20_000, "over: processes; visits: freed slots")
	width := fs.Int("width", 16, "over: processes at once")
	rounds := fs.Int("rounds", 3, "over: rounds")
	if err := fs.Parse(args); err != nil {
		return err
	}
	switch *only {
	case "load":
		return load(c.grove)
	case "visits":
		return visits(c.grove, *n)
	case "steady":
		return steady(ctx, c)
	case "over":
		return over(ctx, *program, *n, *width, *rounds)
	case "growth":
		return growth(ctx, c.grove)
	}
	return fmt.Errorf("unknown figure %q", *only)
}

// pause waits.
func pause(ctx context.Context, d time.Duration) error { return run.Pause(ctx, d) }

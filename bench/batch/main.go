// Command batch measures the scheduler of batch work: how long a forest of a million nodes takes to load, how full
// 240,000 slots are kept, what one freed slot costs, and what a job over real processes costs. Decisions are those of
// a server. It is no test: it fails only when something cannot be measured.
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
	only := fs.String("only", "steady", "figure: steady")
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
	if err := fs.Parse(args); err != nil {
		return err
	}
	switch *only {
	case "steady":
		return steady(ctx, c)
	}
	return fmt.Errorf("unknown figure %q", *only)
}

// pause waits.
func pause(ctx context.Context, d time.Duration) error { return run.Pause(ctx, d) }

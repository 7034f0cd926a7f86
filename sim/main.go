package sim

import (
	"flag"
	"fmt"
	"io"
	"time"

	"cantina/worker"
)

// Many runs seeds one after another.
type Many struct {
	Config        // Seed is set for each run
	Seed   uint64 // the first
	Steps  int    // stop when that many are done; 0 = after Seeds runs
	Seeds  int
	// Stop, when set, ends the sequence between two runs.
	Stop func() bool
}

// Sum is what many runs did.
type Sum struct {
	Result
	Seeds int
	Last  uint64
}

// RunMany runs seeds until enough steps are done or an invariant breaks.
func RunMany(m Many) (Sum, error) {
	var s Sum
	for {
		c := m.Config
		c.Seed = m.Seed + uint64(s.Seeds)
		s.Last = c.Seed
		r, err := Run(c)
		s.Seeds++
		s.Steps += r.Steps
		s.Launches += r.Launches
		s.Terms += r.Terms
		s.Ended += r.Ended
		s.Lost += r.Lost
		s.Begun += r.Begun
		s.TasksLost += r.TasksLost
		s.Fired += r.Fired
		s.Orphans += r.Orphans
		s.TooLarge += r.TooLarge
		s.Stale += r.Stale
		s.Coverage.Merge(r.Coverage)
		if err != nil {
			return s, err
		}
		if m.Steps > 0 && s.Steps >= m.Steps || m.Steps == 0 && s.Seeds >= max(m.Seeds, 1) || m.Stop != nil && m.Stop() {
			return s, nil
		}
	}
}

// Main is the verb `cantina sim`: it parses args, runs, prints and returns the
// exit code: 0 when every invariant held, 1 when one broke, 2 for wrong usage.
func Main(args []string, stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet("cantina sim", flag.ContinueOnError)
	fs.SetOutput(stderr)
	seed := fs.Uint64("seed", 1, "first seed; with --trace the only one")
	steps := fs.Int("steps", 0, "run seeds until that many steps are done")
	seeds := fs.Int("seeds", 1, "number of seeds, when --steps is 0")
	length := fs.Duration("for", 0, "run for that long (wall clock)")
	cells := fs.Int("cells", 3, "cells")
	servers := fs.Int("servers", 2, "servers")
	jobs := fs.Int("jobs", 2, "jobs")
	nodes := fs.Int("nodes", 2, "nodes of each job")
	load := fs.String("load", "both", "batch, mixed (with services and tasks) or both in turn")
	witness := fs.String("witness", "list", "list or consensus")
	schedules := fs.Int("schedules", 0, "schedules of tasks, jobs and signals, in turn")
	trace := fs.Bool("trace", false, "print every step of one seed")
	cover := fs.Bool("coverage", false, "print how often each operation met each fault")
	if err := fs.Parse(args); err != nil {
		return 2
	}
	if fs.NArg() > 0 || *witness != "list" && *witness != "consensus" || *cells < 1 || *servers < 1 || *jobs < 1 || *nodes < 1 || *schedules < 0 {
		fmt.Fprintln(stderr, "cantina sim: wrong arguments; see --help")
		return 2
	}
	loads := map[string]Load{"batch": Batch, "mixed": Mixed, "both": Alternate}
	if _, ok := loads[*load]; !ok {
		fmt.Fprintln(stderr, "cantina sim: --load is batch, mixed or both")
		return 2
	}
	m := Many{Config: Config{Load: loads[*load], Cells: *cells, Servers: *servers, Jobs: *jobs, Nodes: *nodes, Schedules: *schedules}, Seed: *seed, Steps: *steps, Seeds: *seeds}
	if *witness == "consensus" {
		m.Witness = worker.WitnessConsensus
	}
	if *trace {
		m.Trace, m.Steps, m.Seeds = stdout, 0, 1
	}
	return runMain(m, *length, *cover, stdout, stderr)
}

func runMain(m Many, length time.Duration, cover bool, stdout, stderr io.Writer) int {
	began := time.Now()
	if length > 0 {
		m.Steps = int(^uint(0) >> 1)
		m.Stop = func() bool { return time.Since(began) >= length }
	}
	s, err := RunMany(m)
	took := time.Since(began).Seconds()
	fmt.Fprintf(stdout, "%d steps, %.0f steps/s, seeds %d–%d, %d terms, %d launches, %d ends, %d lost; %d containers of services and tasks, %d tasks lost\n",
		s.Steps, float64(s.Steps)/max(took, 1e-9), m.Seed, s.Last, s.Terms, s.Launches, s.Ended, s.Lost, s.Begun, s.TasksLost)
	if cover {
		fmt.Fprint(stdout, s.Coverage.String())
		for _, p := range s.Coverage.Missing() {
			fmt.Fprintln(stdout, "never:", p)
		}
	}
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}

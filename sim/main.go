package sim

import (
	"flag"
	"fmt"
	"io"
	"time"
)

// Many runs seeds one after another.
type Many struct {
	Config        // Seed is set for each run
	Seed   uint64 // the first
	Steps  int    // stop when that many are done; 0 = after Seeds runs
	Seeds  int
	// Draw draws the shape of each run from its seed, but for the flags that Fixed names.
	Draw  bool
	Fixed []string
	// Stop, when set, ends the sequence between two runs.
	Stop func() bool
}

// Sum is the total of many runs.
type Sum struct {
	Result
	Seeds  int
	Last   uint64
	Shapes Shapes
}

// RunMany runs seeds until enough steps are done or an invariant breaks.
func RunMany(m Many) (Sum, error) {
	s := Sum{Shapes: Shapes{}}
	for {
		c := m.Config
		c.Seed = m.Seed + uint64(s.Seeds)
		if m.Draw {
			c = c.drawShape(m.Fixed)
		}
		c = c.withDefaults()
		s.Last = c.Seed
		s.Shapes.add(&c)
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
		s.Moves += r.Moves
		s.Preempted += r.Preempted
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

// Command is one `cantina sim`: Flags reads its flags, Run carries it out.
type Command struct {
	// For is how long it runs, by the wall clock; 0 = until the seeds are done.
	For time.Duration

	many         Many
	trace, cover bool
}

// Flags returns the flags of `cantina sim`, with their defaults.
func (o *Command) Flags() *flag.FlagSet {
	o.many = Many{Config: Config{Load: Alternate}.withShape()}
	fs := flag.NewFlagSet("cantina sim", flag.ContinueOnError)
	fs.Uint64Var(&o.many.Seed, "seed", 1, "first seed; with --trace the only one")
	fs.IntVar(&o.many.Steps, "steps", 0, "run seeds until that many steps are done")
	fs.IntVar(&o.many.Seeds, "seeds", 1, "number of seeds, when --steps is 0")
	fs.DurationVar(&o.For, "for", 0, "run for that long (wall clock)")
	fs.BoolVar(&o.many.Draw, "draw", false, "draw the flags of the cluster that are not given from each seed")
	fs.BoolVar(&o.trace, "trace", false, "print every step of one seed")
	fs.BoolVar(&o.cover, "coverage", false, "print how often each operation met each fault")
	fs.Func("faults", "`names` of the faults that are made, with a comma between them; all; none (default all)",
		func(v string) (err error) {
			o.many.Faults, err = parseFaults(v)
			return err
		})
	for _, p := range parts() {
		usage := fmt.Sprintf("%s (default %s)", p.help, p.get(&o.many.Config))
		fs.Func(p.name, usage, func(v string) error {
			o.many.Fixed = append(o.many.Fixed, p.name)
			return p.set(&o.many.Config, v)
		})
	}
	return fs
}

// parse reads the arguments of a program that has no other flags.
func parse(args []string, stderr io.Writer) (Command, error) {
	var o Command
	fs := o.Flags()
	fs.SetOutput(stderr)
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if fs.NArg() > 0 {
		err := fmt.Errorf("cantina sim takes no argument %q; see --help", fs.Arg(0))
		fmt.Fprintln(stderr, err)
		return o, err
	}
	return o, nil
}

// Main is a program that only simulates: it parses args, and returns the exit code of Run, or 2 for
// wrong usage.
func Main(args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	if err != nil {
		return 2
	}
	return o.Run(stdout, stderr)
}

// Run runs the seeds, prints, and returns the exit code: 0 when every invariant held, 1 when one
// broke.
func (o *Command) Run(stdout, stderr io.Writer) int {
	m, began := o.many, time.Now()
	if o.trace {
		m.Trace, m.Steps, m.Seeds = stdout, 0, 1
	}
	if o.For > 0 && !o.trace {
		m.Steps = int(^uint(0) >> 1)
		m.Stop = func() bool { return time.Since(began) >= o.For }
	}
	s, err := RunMany(m)
	took := time.Since(began).Seconds()
	fmt.Fprintf(stdout,
		"%d steps, %.0f steps/s, seeds %d–%d, %d terms, %d launches, %d ends, %d lost; "+
			"%d containers of services and tasks, %d tasks lost\n",
		s.Steps, float64(s.Steps)/max(took, 1e-9), m.Seed, s.Last, s.Terms, s.Launches, s.Ended, s.Lost, s.Begun, s.TasksLost)
	if m.Draw {
		fmt.Fprintln(stdout, "drawn:", s.Shapes)
	}
	if o.cover {
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

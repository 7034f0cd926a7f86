package sim

import (
	"cmp"
	"io"
	"time"

	"cantina/worker"
)

// Config describes one run.
type Config struct {
	Seed    uint64
	Cells   int // default 3
	Servers int // default 2
	Jobs    int // default 2
	Nodes   int // of each job; default 2
	// Schedules is how many schedules there are; default none.
	Schedules int
	// Faulty is how long (simulated) faults are made, Calm how long nothing fails
	// afterwards; defaults 150 s and 120 s.
	Faulty, Calm time.Duration
	Load         Load
	Witness      worker.Witness
	// Alone: the server and its one cell are one process (cantina dev).
	Alone bool
	// Late: the leader is late at times (see late.go).
	Late bool
	// Moves: instances of services are moved (see moves.go).
	Moves bool
	// Preempt: the cells are full, and instances are stopped for work of higher priority (see preempt.go).
	Preempt bool
	// Faults are those that are made; nil = all.
	Faults []Fault
	// Trace gets one line for each step; nil = none.
	Trace io.Writer
}

// Load is the kinds of work that a cluster is given.
type Load int

// String returns the name that `cantina sim --load` takes.
func (l Load) String() string {
	switch l {
	case Mixed:
		return "mixed"
	case Alternate:
		return "both"
	}
	return "batch"
}

// withShape fills in the numbers that are not given.
func (c Config) withShape() Config {
	c.Cells, c.Servers = cmp.Or(c.Cells, 3), cmp.Or(c.Servers, 2)
	c.Jobs, c.Nodes = cmp.Or(c.Jobs, 2), cmp.Or(c.Nodes, 2)
	if c.Alone {
		c.Cells, c.Servers, c.Witness = 1, 1, worker.WitnessList
	}
	return c
}

func (c Config) withDefaults() Config {
	c = c.withShape()
	if c.Load == Alternate {
		c.Load = Load(1 - c.Seed%2)
	}
	if c.Faulty == 0 {
		c.Faulty = 150 * time.Second
	}
	if c.Calm == 0 {
		c.Calm = 120 * time.Second
	}
	return c
}

// Result describes a run.
type Result struct {
	Steps    int
	Launches int
	Terms    int
	Ended    int // real ends applied
	Lost     int
	// Begun counts the containers of services and tasks that were started, TasksLost the tasks that were lost.
	Begun, TasksLost int
	Fired            int // logical times of schedules
	Orphans          int // instances without a definition that were stopped, or were to be
	TooLarge         int // tasks that ended because no cell could ever hold them
	Late             int // how often a leader was late
	Moves            int // instances of which a move began
	Preempted        int // instances that were stopped for other work
	Stale            int // how often a user found that a domain was not fresh
	Coverage         Coverage
}

// Violation is a broken invariant, and the run that showed it.
type Violation struct {
	Config    Config
	Step      int
	At        time.Duration
	Invariant string
	Text      string
}

// Seed returns the seed of the run.
func (v *Violation) Seed() uint64 { return v.Config.Seed }

// callTimeout is how long a call waits for its answer.
const callTimeout = time.Second

// performTimeout bounds one call of the auction to a cell.
const performTimeout = 1500 * time.Millisecond

// The loads.
const (
	Batch     Load = iota // jobs
	Mixed                 // jobs, services and tasks
	Alternate             // Batch for odd seeds, Mixed for even ones
)

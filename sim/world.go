package sim

import (
	"cmp"
	"container/heap"
	"fmt"
	"io"
	"math/rand/v2"
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
	// Faults are those that are made; nil = all.
	Faults []Fault
	// Trace gets one line for each step; nil = none.
	Trace io.Writer
}

// Load is the kinds of work that a cluster is given.
type Load int

// The loads.
const (
	Batch     Load = iota // jobs
	Mixed                 // jobs, services and tasks
	Alternate             // Batch for odd seeds, Mixed for even ones
)

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

// Error prints the violation and how to replay it.
func (v *Violation) Error() string {
	return fmt.Sprintf("%s violated at step %d (%v): %s; replay: cantina sim %s", v.Invariant, v.Step, v.At, v.Text,
		v.Replay())
}

// Replay returns the arguments of `cantina sim` that run the same run again.
func (v *Violation) Replay() string {
	return fmt.Sprintf("--seed %d %s --trace", v.Config.Seed, v.Config.flags())
}

type planned struct {
	at  time.Duration
	seq int
	fn  func()
}

type queue []planned

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].seq < q[j].seq
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(planned)) }
func (q *queue) Pop() any {
	old := *q
	x := old[len(old)-1]
	old[len(old)-1] = planned{}
	*q = old[:len(old)-1]
	return x
}

type world struct {
	cfg       Config
	rng       *rand.Rand
	now       time.Duration
	q         queue
	seq       int
	store     *storage
	servers   []*server
	machines  []*machine
	byProc    map[worker.Proc]*machine
	boots     map[worker.Proc]string // the boot id under which each process began
	procs     int
	calm      bool
	net       network
	faults    faults
	customers customers
	check     checker
	res       Result
	failed    *Violation
	plans     *plans
	threads   []*threads // of the processes that live
	current   *thread    // the coroutine that runs; nil = an event of the world
}

// Run runs one seed to its end. It returns a *Violation when an invariant broke.
func Run(cfg Config) (Result, error) {
	w := newWorld(cfg.withDefaults())
	defer w.close()
	w.trace("run --seed %d %s", w.cfg.Seed, w.cfg.flags())
	end := w.cfg.Faulty + w.cfg.Calm
	for w.failed == nil && len(w.q) > 0 && w.q[0].at <= end {
		w.step()
		if w.res.Steps%1000 == 0 {
			w.check.full(w)
		}
	}
	if w.failed == nil {
		w.now = end
		w.check.full(w)
		w.check.liveness(w)
	}
	w.res.Fired = w.plans.fired
	if w.failed != nil {
		return w.res, w.failed
	}
	return w.res, nil
}

// step runs the next event.
func (w *world) step() {
	e := heap.Pop(&w.q).(planned)
	w.now = e.at
	w.res.Steps++
	e.fn()
}

// close releases all waiting code.
func (w *world) close() {
	for len(w.threads) > 0 {
		w.threads[0].end()
	}
}

func newWorld(cfg Config) *world {
	w := &world{cfg: cfg, rng: rand.New(rand.NewPCG(cfg.Seed, 0x5eed)), byProc: map[worker.Proc]*machine{},
		boots: map[worker.Proc]string{}}
	w.net = network{w: w, cuts: map[[2]int]time.Duration{}}
	w.faults, w.customers = faults{w: w}, customers{w: w}
	w.check = newChecker()
	w.res.Coverage.Mixed = w.mixed()
	w.plans = &plans{w: w}
	w.store = newStore(w)
	for i := range cfg.Servers {
		w.servers = append(w.servers, newServer(w, i))
	}
	for i := range cfg.Cells + 1 {
		w.machines = append(w.machines, newMachine(w, i, cfg))
	}
	for _, s := range w.servers {
		s.start()
	}
	for _, m := range w.machines[:cfg.Cells] {
		m.startAgent()
	}
	w.after(w.between(0, time.Second), w.client)
	w.after(w.between(2*time.Second, 10*time.Second), w.faults.fault)
	w.after(cfg.Faulty, w.faults.calmDown)
	if cfg.Late {
		w.after(w.between(4*time.Second, 10*time.Second), w.late)
	}
	if w.mixed() {
		w.after(w.between(0, time.Second), w.customers.act)
	}
	w.plans = newPlans(w)
	return w
}

func (w *world) after(d time.Duration, fn func()) {
	w.seq++
	heap.Push(&w.q, planned{w.now + max(d, 0), w.seq, fn})
}

// boards reports whether the board has work: services and tasks, or the runs of schedules.
func (w *world) boards() bool { return w.mixed() || w.cfg.Schedules > 0 }

// mixed reports whether services and tasks are among the work.
func (w *world) mixed() bool { return w.cfg.Load == Mixed }

func (w *world) chance(perMille int) bool { return w.rng.IntN(1000) < perMille }

func (w *world) between(a, b time.Duration) time.Duration {
	if b <= a {
		return a
	}
	return a + time.Duration(w.rng.Int64N(int64(b-a)))
}

func (w *world) trace(format string, args ...any) {
	if w.cfg.Trace != nil {
		fmt.Fprintf(w.cfg.Trace, "%10.3f %s\n", w.now.Seconds(), fmt.Sprintf(format, args...))
	}
}

func (w *world) fail(invariant, format string, args ...any) {
	if w.failed == nil {
		w.failed = &Violation{w.cfg, w.res.Steps, w.now, invariant, fmt.Sprintf(format, args...)}
		w.trace("VIOLATION %v", w.failed)
	}
}

// clock is one machine's CLOCK_BOOTTIME.
type clock struct {
	started time.Duration // true time of boot
	frozen  time.Duration
	perMill time.Duration // rate error in 1/1,000,000
}

func (c *clock) at(now time.Duration) time.Duration {
	d := now - c.started - c.frozen
	return d + d/1_000_000*c.perMill + time.Second
}

// until returns a time in which the clock certainly has not passed local time t yet, and which
// shrinks to nothing at repeated calls.
func (c *clock) until(now, t time.Duration) time.Duration {
	d := t - c.at(now)
	if d <= 0 {
		return 0
	}
	return d - d/100 + time.Microsecond
}

// newClock draws a rate: two machines differ by less than 1 %.
func (w *world) newClock() clock {
	return clock{started: w.now, perMill: time.Duration(w.rng.IntN(9000) - 4500)}
}

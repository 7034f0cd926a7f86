package sim

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"time"

	"cantina/worker"
)

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

// Replay returns the arguments of `cantina sim` that run the same run again.
func (v *Violation) Replay() string {
	return fmt.Sprintf("--seed %d %s --trace", v.Config.Seed, v.Config.flags())
}

// Error prints the violation and how to replay it.
func (v *Violation) Error() string {
	return fmt.Sprintf("%s violated at step %d (%v): %s; replay: cantina sim %s", v.Invariant, v.Step, v.At, v.Text,
		v.Replay())
}

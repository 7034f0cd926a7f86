package sim

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"time"

	"cantina/cell"
	"cantina/lrp"
	"cantina/schedule"
	"cantina/timetable"
	"cantina/worker"
)

// berlin is the zone of Berlin during a run: one hour is repeated. It is made here, because a run
// reads no files.
func berlin() (*time.Location, error) {
	be := binary.BigEndian
	data := append([]byte("TZif"), make([]byte, 16)...) // version 1
	for _, n := range []uint32{0, 0, 0, 1, 2, 9} {      // transitions 1, types 2, letters 9
		data = be.AppendUint32(data, n)
	}
	data = be.AppendUint32(data, uint32(time.Date(2026, 10, 25, 1, 0, 0, 0, time.UTC).Unix()))
	data = append(data, 1) // to the second type
	data = append(be.AppendUint32(data, 7200), 1, 0)
	data = append(be.AppendUint32(data, 3600), 0, 5)
	return time.LoadLocationFromTZData("Europe/Berlin", append(data, "CEST\x00CET\x00"...))
}

func newPlans(w *world) *plans {
	p := &plans{w: w, rng: rand.New(rand.NewPCG(w.cfg.Seed, 0xca1e)), wall: make([]time.Duration, w.cfg.Servers),
		planCheck: newPlanCheck()}
	if w.cfg.Schedules == 0 {
		return p
	}
	var err error
	if p.berlin, err = berlin(); err != nil {
		w.fail("setup", "%v", err)
		return p
	}
	w.after(time.Second, p.client)
	w.after(2*time.Second, p.clocks)
	w.after(w.cfg.Faulty+w.cfg.Calm/4, func() { p.frozen = w.now })
	return p
}

// clocks steps the wall clock of some server: all its shells read it.
func (p *plans) clocks() {
	if p.w.calm {
		clear(p.wall)
		return
	}
	p.w.after(p.between(3*time.Second, 20*time.Second), p.clocks)
	size := []time.Duration{0, time.Second, 20 * time.Second, 90 * time.Second, 20 * time.Second,
		time.Second}[p.rng.IntN(6)]
	if p.chance(20) {
		size = time.Hour
	}
	if p.chance(500) {
		size = -size
	}
	i := p.rng.IntN(len(p.wall))
	p.wall[i] = size
	p.w.trace("FAULT wall clock of server %d is off by %v", i, size)
}

// zone finds a time zone.
func (p *plans) zone(name string) (*time.Location, error) {
	if name == "UTC" {
		return time.UTC, nil
	}
	return p.berlin, nil
}

// newTimes is made before the timetable, which config is for.
func newTimes(r *leadership) *times { return &times{r: r, p: r.s.w.plans} }

// config has the parts of a timetable; nil if there are no schedules.
func (t *times) config() *timetable.Config {
	w := t.r.s.w
	if w.cfg.Schedules == 0 {
		return nil
	}
	clock := t.r.s.kernel()
	clock.Wall = t.wall
	return &timetable.Config{Clock: clock, Zone: w.plans.zone,
		NewID: func() string { return w.customers.newID("schedule-") }}
}

// run drives the loop while the term lasts.
func (t *times) run() {
	t.r.drive(t.Loop(), 0)
}

// wall is the server's wall clock. Some time after the faults it is frozen for the timetable
// alone: then no new time is due, and pending ones must be decided.
func (t *times) wall() time.Time {
	s := t.r.s
	if t.p.frozen > 0 {
		return s.wall.Add(s.clock.at(t.p.frozen))
	}
	return s.kernel().Wall()
}

// beside runs f in the process, as long as the term lasts.
func (t *times) beside(f func(context.Context)) {
	t.r.s.later(0, func() { t.r.beside(f) })
}

// signals sends signals: it implements timetable.Signals.
type signals struct {
	timetable.Signals
	t *times
}

// Signal sends a signal, unless the process dies right before.
func (x signals) Signal(s timetable.Sending, report func(schedule.Delivery)) {
	r := x.t.r
	if r.stops() {
		return
	}
	x.t.p.signalled(r, s)
	x.Signals.Signal(s, func(d schedule.Delivery) {
		if !r.over {
			report(d)
		}
	})
}

// signal makes one call to a cell. The network doubles messages, and a connection does not:
// a call that arrives twice is taken once.
func (t *times) signal(ctx context.Context, s timetable.Sending, a *lrp.Actual) error {
	t.p.calls(s, a)
	var refused error
	taken := false
	err := calls{t.r}.ask(callTimeout, OpCall, OpCall, worker.Proc(a.Proc), func(to *cell.Cell) func() {
		if taken {
			return nil
		}
		taken = true
		err := to.SignalInstance(ctx, t.r.term, worker.Proc(a.Proc), a.Key, a.Instance, s.Number)
		return func() { refused = err }
	})
	return errors.Join(err, refused)
}

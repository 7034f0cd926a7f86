package sim

import (
	"context"
	"time"

	"cantina/internal/run"
)

// driven is a loop of a shell that the world drives: its work runs as a coroutine, its timer is an
// event of the world, and sometimes late.
type driven struct {
	p     *threads
	loop  *run.Loop
	later func(time.Duration, func()) // in the process
	busy  bool
	woken bool
	turns int
}

// lateness is how late a timer fires at most.
const lateness = 100 * time.Millisecond

func (p *threads) drive(l *run.Loop, later func(time.Duration, func())) {
	d := &driven{p: p, loop: l, later: later}
	l.OnWake(func() {
		if !d.woken && !d.busy && !p.dead {
			d.woken = true
			later(0, d.turn)
		}
	})
	d.turn()
}

// turn runs the loop's due work until it waits.
func (d *driven) turn() {
	d.woken = false
	d.turns++
	for !d.busy && !d.p.dead {
		do, pause := d.loop.Next()
		if do == nil {
			d.sleep(pause)
			return
		}
		d.busy = true
		returned := false
		d.p.run(func() {
			do(context.Background())
			d.busy = false
			if returned { // it has waited
				d.turn()
			}
		})
		returned = true
	}
}

func (d *driven) sleep(pause time.Duration) {
	if pause == run.Never {
		return
	}
	turns := d.turns
	d.later(pause+d.p.w.between(0, lateness), func() {
		if d.turns == turns {
			d.turn()
		}
	})
}

// beside runs code that may wait, while the term lasts.
func (r *leadership) beside(f func(context.Context)) {
	if !r.over {
		r.threads.run(func() { f(context.Background()) })
	}
}

// drive drives a loop of a part while the term lasts; each of its turns is late by less than most.
func (r *leadership) drive(l *run.Loop, most time.Duration) {
	r.threads.drive(l, func(d time.Duration, fn func()) {
		if most > 0 {
			d += r.s.w.between(0, most)
		}
		r.s.later(d, func() {
			if !r.over {
				fn()
			}
		})
	})
}

// shift is within how long a loop of a shell runs that was woken.
const shift = 300 * time.Microsecond

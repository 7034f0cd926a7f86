package sim

import (
	"fmt"
	"time"
)

// hang makes some or all running work on a machine hang in the kernel, for a time or until the
// machine reboots.
func (fs *faults) hang(first *machine) bool {
	for i := range fs.w.cfg.Cells {
		m := fs.w.machines[(first.id+i)%fs.w.cfg.Cells]
		all := m.containers.hangable()
		if len(all) == 0 {
			continue
		}
		if fs.w.chance(600) {
			all = all[fs.w.rng.IntN(len(all)):][:1]
		}
		d := fs.w.between(time.Second, 45*time.Second)
		forever := fs.w.chance(300)
		for _, fn := range all {
			fn(d, forever)
		}
		if fs.allowed(KillAgent) && fs.w.chance(400) {
			m.later(fs.w.between(0, 3*time.Second), func() {
				m.crash()
				fs.w.after(fs.w.between(100*time.Millisecond, 5*time.Second), m.startAgent)
			})
		}
		return true
	}
	return false
}

// hangable are the containers that may hang, each as the function that hangs it.
func (cs *containers) hangable() (all []func(d time.Duration, forever bool)) {
	add := func(g *grip, name string, alive func() bool) {
		if g.held {
			return
		}
		all = append(all, func(d time.Duration, forever bool) {
			cs.m.w.trace("%s: %s hangs for %v, for ever %v", cs.m.name, name, d, forever)
			g.held = true
			if !forever {
				cs.m.w.after(d, func() {
					if alive() {
						cs.letGo(g, name)
					}
				})
			}
		})
	}
	for _, u := range cs.units {
		if u.alive {
			add(&u.grip, u.String(), func() bool { return u.alive })
		}
	}
	for _, c := range cs.box {
		if c.alive && !c.extra {
			add(&c.grip, fmt.Sprint(c.run.Work), func() bool { return c.alive })
		}
	}
	return all
}

// calmStuck: after the faults hanging containers are released, except sometimes on one machine,
// where they hang until the end. Then the other machines have more capacity.
func (fs *faults) calmStuck() {
	if fs.w.cfg.Cells > 1 && fs.w.cfg.Schedules == 0 && fs.w.chance(400) {
		for _, m := range fs.w.machines[:fs.w.cfg.Cells] {
			if m.containers.anyHeld() && !m.containers.unnamed {
				fs.stays = m
				break
			}
		}
	}
	for _, m := range fs.w.machines {
		if m == fs.stays {
			continue
		}
		for _, u := range m.containers.units {
			fs.w.after(fs.w.between(0, 10*time.Second), func() { m.containers.letGo(&u.grip, u.String()) })
		}
		for _, c := range m.containers.box {
			fs.w.after(fs.w.between(0, 10*time.Second), func() { m.containers.letGo(&c.grip, fmt.Sprint(c.run.Work)) })
		}
	}
}

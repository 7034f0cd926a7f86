package sim

import (
	"fmt"
	"time"

	"cantina/worker"
)

func newMachine(w *world, id int, cfg Config) *machine {
	name := fmt.Sprintf("cell-%d", id%cfg.Cells)
	m := &machine{w: w, id: id, name: worker.CellName(name), dir: fmt.Sprintf("dir-%d", id), clock: w.newClock(),
		up: true, boots: 1, off: id >= cfg.Cells, reboots: w.chance(300)}
	m.containers = containers{m: m, unnamed: w.chance(200)}
	m.identity.DirID = m.dir
	return m
}

// exit is the orderly end of the agent's process; a supervisor starts it again, but for a rejected twin.
func (m *machine) exit() {
	m.w.trace("%s: process exits", m.name)
	m.die()
	m.containers.disown(false)
	if m.id >= m.w.cfg.Cells {
		m.off = true
		return
	}
	m.w.after(m.w.between(500*time.Millisecond, 5*time.Second), m.startAgent)
}

// die is the end of the agent's process.
func (m *machine) die() {
	if !m.alive {
		return
	}
	m.alive, m.inbox = false, nil
	m.threads.end()
	if s := m.w.servers[0]; m.w.cfg.Alone && s.alive {
		s.crash()
	}
}

// reaper waits for its deadline, in any state of the agent.
func (m *machine) reaper() {
	if m.deadline == 0 {
		return
	}
	at, boots := m.deadline, m.boots
	m.w.after(m.clock.until(m.w.now, at), func() {
		if m.boots != boots || m.deadline != at || !m.up {
			return
		}
		if m.local() < at {
			m.reaper()
			return
		}
		for _, c := range m.containers.live() {
			c.reaped = true
			m.containers.end(c, m.w.between(0, killWait))
		}
		m.containers.reapUnits()
	})
}

// crash is SIGKILL of the agent: the reaper ends work that may not outlive it.
func (m *machine) crash() {
	m.w.trace("%s: process %s is killed", m.name, m.proc())
	m.die()
	m.containers.disown(false)
}

func (m *machine) pauseAgent(d time.Duration) {
	m.w.trace("%s: agent pauses %v", m.name, d)
	m.paused = m.w.now + d
	m.promises.beatBy, m.promises.statusBy = 0, 0
	life := m.life
	m.w.after(d+time.Nanosecond, func() {
		if m.life != life || m.paused > m.w.now {
			return
		}
		box := m.inbox
		m.inbox = nil
		for _, fn := range box {
			fn()
		}
	})
}

// pauseAll stops the machine and its clock, for less than the margin.
func (m *machine) pauseAll(d time.Duration) {
	m.pauseAgent(d)
	m.clock.frozen += d
}

func (m *machine) reboot(d time.Duration) {
	m.w.trace("%s: machine reboots, down %v", m.name, d)
	m.die()
	m.up = false
	m.boots++
	m.deadline = 0
	m.containers.losePower()
	m.w.after(d, func() {
		m.up = true
		m.clock = m.w.newClock()
		m.startAgent()
	})
}

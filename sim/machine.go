package sim

import (
	"fmt"
	"time"

	"cantina/cell"
	"cantina/worker"
)

// machine is one host with a cell agent, its reaper and its containers.
type machine struct {
	w          *world
	id         int
	name       worker.CellName
	dir        string
	boots      int
	clock      clock
	up         bool
	cell       *cell.Cell   // the agent
	agent      *worker.Cell // its end of the session
	threads    *threads     // its waiting work
	alive      bool         // the agent's process
	doomed     bool         // it dies in this very moment
	life       int          // grows with each agent
	paused     time.Duration
	inbox      []func()
	identity   cell.Identity // content of the directory
	drain      drainState    // reported to the agent
	containers containers
	deadline   time.Duration // the reaper's, local; 0 = none
	server     int
	broken     time.Duration // probes fail until then
	cutOff     time.Duration // no server can call it until then; its own calls and their responses pass
	lag        time.Duration // messages sent to it until then arrive late
	pausing    time.Duration // for how long the agent pauses when it has sent its next heartbeat
	cleared    bool          // the agent knows that its predecessors are gone
	promises   promises
	off        bool // a twin that should not run
	leaving    bool // a deregistration was requested
	reboots    bool // when work that must be dead does not die
}

func newMachine(w *world, id int, cfg Config) *machine {
	name := fmt.Sprintf("cell-%d", id%cfg.Cells)
	m := &machine{w: w, id: id, name: worker.CellName(name), dir: fmt.Sprintf("dir-%d", id), clock: w.newClock(),
		up: true, boots: 1, off: id >= cfg.Cells, reboots: w.chance(300)}
	m.containers = containers{m: m, unnamed: w.chance(200)}
	m.identity.DirID = m.dir
	return m
}

func (m *machine) local() time.Duration { return m.clock.at(m.w.now) }

func (m *machine) on(fn func()) {
	if !m.alive || !m.up {
		return
	}
	life := m.life
	if m.paused > m.w.now {
		m.inbox = append(m.inbox, func() {
			if m.alive && m.life == life {
				fn()
			}
		})
		return
	}
	fn()
}

func (m *machine) later(d time.Duration, fn func()) {
	life := m.life
	m.w.after(d, func() {
		if m.alive && m.life == life {
			m.on(fn)
		}
	})
}

func (m *machine) boot() string { return fmt.Sprint(m.id, "-", m.boots) }

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

func (m *machine) proc() worker.Proc {
	if m.agent == nil {
		return ""
	}
	return m.agent.Proc()
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

package sim

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"cantina/cell"
	"cantina/executor"
	"cantina/fence"
	"cantina/resource"
	"cantina/worker"
)

// machine is one host with a cell agent, its reaper and its containers.
type machine struct {
	w        *world
	id       int
	name     worker.CellName
	dir      string
	boots    int
	clock    clock
	up       bool
	cell     *cell.Cell   // the agent
	agent    *worker.Cell // its end of the session
	threads  *threads     // its waiting work
	alive    bool         // the agent's process
	doomed   bool         // it dies in this very moment
	life     int          // grows with each agent
	paused   time.Duration
	inbox    []func()
	identity cell.Identity // content of the directory
	drain    drainState    // reported to the agent
	box      []*container
	deadline time.Duration // the reaper's, local; 0 = none
	server   int
	answered int64
	broken   time.Duration // probes fail until then
	cutOff   time.Duration // no server can call it until then; its own calls and their responses pass
	lag      time.Duration // messages sent to it until then arrive late
	pausing  time.Duration // for how long the agent pauses when it has sent its next heartbeat
	cleared  bool          // the agent knows that its predecessors are gone
	promises promises
	off      bool // a twin that should not run
	units    []*unit
	leaving  bool // a deregistration was requested
	reboots  bool // when work that must be dead does not die
	unnamed  bool // its groups do not identify their work
}

// container is one process tree of a batch invocation.
type container struct {
	grip
	m        *machine
	id       string
	labels   executor.Labels
	run      worker.Run
	procs    []worker.Proc // its owners, in order
	need     resource.Amounts
	keep     bool // survives its agent
	extra    bool // no batch task
	never    bool // ends only when it is killed
	alive    bool
	dying    bool
	asked    bool // ordered to end
	deleting bool
	orphan   bool // no agent knows it: it is being ended
	adopted  bool
	status   string // how it ended
}

func newMachine(w *world, id int, cfg Config) *machine {
	name := fmt.Sprintf("cell-%d", id%cfg.Cells)
	m := &machine{w: w, id: id, name: worker.CellName(name), dir: fmt.Sprintf("dir-%d", id), clock: w.newClock(),
		up: true, boots: 1, off: id >= cfg.Cells, reboots: w.chance(300), unnamed: w.chance(200)}
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
	m.disown(false)
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

var errNoProbe = errors.New("no container can be made")

// launch starts the container of an invocation.
func (m *machine) launch(r executor.Reservation, keep bool) {
	w := m.w
	m.starting()
	inv, err := fence.ParseInvocation(r.Labels["invocation"])
	if err != nil {
		w.fail("contract", "%v: %v", r.Labels, err)
	}
	c := &container{m: m, id: r.ID, labels: r.Labels, need: need(r.Resources), run: worker.Run{Work: worker.Work{Job: r.Labels["job"], Node: r.Labels["node"]}, Invocation: inv},
		procs: []worker.Proc{m.agent.Proc()}, keep: keep, alive: true}
	m.box = append(m.box, c)
	w.check.launched(w, c)
	d := w.between(100*time.Millisecond, 4*time.Second)
	if !w.calm && w.chance(300) {
		d = w.between(5*time.Second, 60*time.Second)
	}
	how := "ok"
	if !w.calm && w.chance(80) {
		how = "failed"
	}
	if c.never = !w.calm && w.chance(30); !c.never {
		w.after(d, func() { m.ended(c, how) })
	}
}

// snapshot is the container as an executor shows it.
func (c *container) snapshot() executor.Container {
	ct := executor.Container{ID: c.id, Labels: c.labels, State: executor.Running, DeadlineBound: true, Adopted: c.adopted, Kept: c.keep && !c.left, Ending: c.dying, Stuck: c.condition()}
	if c.nameless {
		ct.Labels = nil
	}
	if !c.alive {
		ct.State = executor.Completed
		switch c.status {
		case "ok":
		case "failed":
			ct.Result = executor.RunResult{Failed: true, ExitCode: 1, Reason: c.status}
		default:
			ct.Result = executor.RunResult{Failed: true, Stopped: c.asked && !c.left, Signal: 9, Reason: c.status}
		}
	}
	return ct
}

// container finds one that the agent knows.
func (m *machine) container(id string) *container {
	for _, c := range m.box {
		if c.id == id && !c.orphan {
			return c
		}
	}
	return nil
}

// live returns the containers that are alive, in the order of their making.
func (m *machine) live() []*container {
	var cs []*container
	for _, c := range m.box {
		if c.alive {
			cs = append(cs, c)
		}
	}
	return cs
}

// end makes a container die within d.
func (m *machine) end(c *container, d time.Duration) {
	c.dying = true
	m.w.after(d, func() {
		if m.ended(c, "killed"); c.alive {
			m.stick(&c.grip, c.snapshot, func() bool { return !c.orphan })
		}
	})
}

// ended: the processes of a container are gone. A container that the agent knows, or that another
// one will adopt, stays until it is deleted.
func (m *machine) ended(c *container, status string) {
	if !c.alive || c.waits(func() { m.ended(c, status) }) {
		return
	}
	c.stuck = false
	c.alive, c.status = false, status
	if !c.asked && !c.reaped && !c.dying && !c.orphan {
		m.w.check.own[c.run.Invocation] = status
	}
	m.w.check.ended(c)
	m.w.trace("%s: container of %v %v ended: %s", m.name, c.run.Work, c.run.Invocation, status)
	if c.orphan || c.extra || c.deleting {
		m.drop(c)
	} else {
		m.happened(executor.Event{Kind: executor.EventCompleted, Container: c.snapshot()})
	}
	m.clearedIf()
}

// drop removes a container without processes.
func (m *machine) drop(c *container) {
	m.box = slices.DeleteFunc(m.box, func(o *container) bool { return o == c })
	if !c.orphan {
		m.happened(executor.Event{Kind: executor.EventDeleted, Container: c.snapshot()})
	}
	if c.nameless {
		m.clearedIf()
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
		for _, c := range m.live() {
			c.reaped = true
			m.end(c, m.w.between(0, killWait))
		}
		m.reapUnits()
	})
}

// crash is SIGKILL of the agent: the reaper ends work that may not outlive it.
func (m *machine) crash() {
	m.w.trace("%s: process %s is killed", m.name, m.proc())
	m.die()
	m.disown(false)
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
	m.losePower()
	m.w.after(d, func() {
		m.up = true
		m.clock = m.w.newClock()
		m.startAgent()
	})
}

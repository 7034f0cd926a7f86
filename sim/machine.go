package sim

import (
	"fmt"
	"slices"
	"time"

	"cantina/fence"
	"cantina/worker"
)

// machine is one host with a cell agent, its reaper and its containers.
type machine struct {
	w        *world
	id       int
	name     worker.CellName
	folder   string
	boots    int
	clock    clock
	up       bool
	agent    *worker.Cell
	alive    bool // the agent's process
	life     int  // grows with each agent
	paused   time.Duration
	inbox    []func()
	starts   int64
	kept     worker.Kept
	box      map[fence.Invocation]*container
	deadline time.Duration // the reaper's, local; 0 = none
	server   int
	answered int64
	calls    int           // UpdateStatus calls; grows with an answer, too
	broken   time.Duration // probes fail until then
	deaf     time.Duration // no server can call it until then; its own calls and their answers pass
	lag      time.Duration // what is sent to it until then arrives late
	cleared  bool          // the agent was told that its predecessors are gone
	promises promises
	off      bool // a twin that should not run
	rep      *rep // of the agent; nil without services and tasks
	units    []*unit
	leaving  bool // a farewell was asked for
}

// container is one process tree of a batch invocation.
type container struct {
	m     *machine
	run   worker.Run
	procs []worker.Proc // who owned it, in order
	keep  bool          // survives its agent
	extra bool          // no batch task
	never bool          // ends only when it is killed
	alive bool
	dying bool
}

func newMachine(w *world, id int, cfg Config) *machine {
	name := fmt.Sprintf("cell-%d", id%cfg.Cells)
	m := &machine{w: w, id: id, name: worker.CellName(name), folder: fmt.Sprintf("folder-%d", id), clock: w.newClock(),
		up: true, box: map[fence.Invocation]*container{}, boots: 1, off: id >= cfg.Cells}
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

func (m *machine) newProc() worker.Proc {
	m.w.procs++
	p := worker.Proc(fmt.Sprintf("p%d", m.w.procs))
	m.w.byProc[p], m.w.boots[p] = m, fmt.Sprint(m.id, "-", m.boots)
	m.starts++
	return p
}

// startAgent starts the cell's process on its folder: what is alive is adopted
// when it may be, and cleared otherwise.
func (m *machine) startAgent() {
	if m.alive || !m.up || m.off {
		return
	}
	m.life++
	m.alive, m.paused, m.inbox, m.answered = true, 0, nil, 0
	var adopted []worker.Held
	gone := true
	proc := m.newProc()
	for _, c := range m.live() {
		if c.keep && !c.dying && !c.extra {
			adopted = append(adopted, worker.Held{Run: c.run, Adopted: true})
			c.procs = append(c.procs, proc)
		} else {
			gone = false
			m.end(c, 0)
		}
	}
	if !m.adoptUnits(proc) {
		gone = false
	}
	deadline := m.kept.Deadline
	m.agent = worker.NewCell(worker.CellConfig{Cell: m.name, Proc: proc, Started: m.starts, Folder: m.folder,
		Boot: fmt.Sprint(m.id, "-", m.boots), Now: m.local(), Timeouts: m.w.timeouts(), SetID: m.kept.SetID, Epoch: m.kept.Epoch,
		Predecessor: m.kept.Proc, Adopted: adopted, Deadline: deadline, Promise: m.kept.Promise, Gone: gone, Mistakes: m.w.cfg.Mistakes})
	m.cleared = gone
	m.promises = promises{sent: map[int64]time.Duration{}, proc: proc}
	m.w.trace("machine %d (%s) starts process %s, adopts %d", m.id, m.name, proc, len(adopted))
	m.server = m.w.rng.IntN(len(m.w.servers))
	if m.leaving, m.rep = false, nil; m.w.mixed() {
		m.rep = newRep(m)
		m.counted()
		m.rep.pollNow()
	}
	m.tick()
}

func (m *machine) tick() {
	m.step(worker.CellTick{})
	if !m.alive {
		return
	}
	m.perform()
	m.later(m.w.between(50*time.Millisecond, 250*time.Millisecond), m.tick)
}

// step is the cell's loop: one event, then its effects in order.
func (m *machine) step(e worker.CellEvent) {
	if !m.alive || m.agent == nil {
		return
	}
	if a, ok := e.(worker.BeatAnswered); ok && a.Answer.Proc == m.agent.Proc() {
		m.promises.fresh = a.Answer.Beat > m.answered
		m.answered, m.promises.beatBy = max(m.answered, a.Answer.Beat), 0
	}
	if _, ok := e.(worker.StatusAnswered); ok {
		m.calls++
		m.promises.statusBy = 0
	}
	b := m.view()
	es := m.agent.Step(m.local(), e)
	m.kept = m.agent.Kept()
	m.contract(b, e, es)
	for _, e := range es {
		if !m.alive {
			return
		}
		if !m.w.calm && m.w.rng.IntN(5000) == 0 && m.w.allowed(KillAgent) {
			m.crash()
			m.w.after(m.w.between(200*time.Millisecond, 3*time.Second), m.startAgent)
			return
		}
		m.effect(e)
	}
}

func (m *machine) effect(e worker.CellEffect) {
	w := m.w
	w.trace("  %s/%s: %T%v", m.name, m.agent.Proc(), e, e)
	switch e := e.(type) {
	case worker.SendBeat:
		m.beat(e)
	case worker.SendStatus:
		m.toServer(OpStatus, e)
		m.statusSent()
	case worker.AnswerReport:
		m.toServer(OpReport, e)
	case worker.AnswerRun:
		m.toServer(OpRunAnswer, e)
	case worker.AnswerNotify:
		m.toServer(OpNotifyAnswer, e)
	case worker.Launch:
		m.launch(e.Run)
	case worker.StopWork:
		if c := m.box[e.Run.Invocation]; c != nil {
			m.end(c, w.between(0, killWait))
		}
	case worker.StartProbe:
		m.probe(e.Probe)
	case worker.SetDeadline:
		m.deadline = e.At
		m.reaper()
	case worker.EndBound:
		for _, c := range m.live() {
			m.end(c, w.between(0, e.Grace)+w.between(0, killWait))
		}
		m.endUnits(false, e.Grace)
	case worker.EndAll:
		for _, c := range m.live() {
			m.end(c, w.between(0, killWait))
		}
		m.endUnits(true, 0)
		m.exit()
	case worker.NewSession:
		m.later(w.between(0, 50*time.Millisecond), func() {
			proc := m.newProc()
			m.adoptUnits(proc)
			m.step(worker.SessionBegun{Proc: proc, Started: m.starts})
			m.answered = 0
			for _, c := range m.live() {
				c.procs = append(c.procs, m.agent.Proc())
			}
			m.counted()
		})
	case worker.Exit:
		m.exit()
	case worker.CellChanged:
		if m.rep != nil && e.To == worker.Healthy {
			m.rep.pollNow()
		}
	case worker.AnswerKill:
	}
}

// exit is the orderly end of the agent's process; a supervisor starts it again, but for a rejected twin.
func (m *machine) exit() {
	m.w.trace("%s: process exits", m.name)
	m.alive = false
	m.disown(false)
	if m.id >= m.w.cfg.Cells {
		m.off = true
		return
	}
	m.w.after(m.w.between(500*time.Millisecond, 5*time.Second), m.startAgent)
}

func (m *machine) beat(e worker.SendBeat) {
	m.beatSent(e.Beat)
	m.redirect()
	m.toServer(OpBeat, saidBeat{e, m.says()})
	n, proc := e.Beat.Beat, e.Beat.Proc
	s := m.w.servers[m.server]
	down := !s.alive || s.reign == nil && s.paused <= m.w.now
	wait := callTimeout
	if down {
		wait = 20 * time.Millisecond // refused, or told that it does not lead
	}
	m.later(wait, func() {
		if m.answered < n && m.agent.Proc() == proc {
			m.server = m.w.rng.IntN(len(m.w.servers))
			newest := m.promises.sent[n+1] == 0
			m.step(worker.BeatFailed{Beat: n})
			if newest && m.promises.beatBy == 0 && m.promises.sent[n+1] == 0 {
				m.promises.beatBy = m.w.now + 850*time.Millisecond
			}
		}
	})
}

// statusSent lets the call time out when nothing of it is answered.
func (m *machine) statusSent() {
	m.calls++
	call, proc, term := m.calls, m.proc(), m.agent.Term()
	m.later(callTimeout, func() {
		if m.calls != call || m.proc() != proc || m.agent.Term() != term {
			return
		}
		m.step(worker.StatusFailed{})
		if m.unacked() && m.agent.State() != worker.New {
			m.promises.statusBy = m.w.now + 1500*time.Millisecond
		}
	})
}

func (m *machine) unacked() bool {
	return slices.ContainsFunc(m.agent.Held(), func(h worker.Held) bool { return h.Ended })
}

// redirect follows a standby's word about who leads, when it can be asked.
func (m *machine) redirect() {
	s := m.w.servers[m.server]
	a, b := m.w.machineNode(m.id), m.w.serverNode(s.id)
	if !s.alive || s.paused > m.w.now || s.reign != nil || m.w.cut(a, b) || m.w.cut(b, a) {
		return
	}
	if r := m.w.leading(); r != nil {
		m.server = r.s.id
	}
}

func (m *machine) toServer(op Op, e worker.CellEffect) {
	s := m.w.servers[m.server]
	m.w.send(op, m.w.machineNode(m.id), m.w.serverNode(s.id), func() { s.on(func() { s.fromCell(m, e) }) })
}

func (m *machine) probe(n int64) {
	m.later(m.w.between(5*time.Millisecond, 300*time.Millisecond), func() {
		bad := m.broken > m.w.now
		m.step(worker.ProbeEnded{Probe: n, OK: !bad, Reason: "no container can be made"})
	})
}

func (m *machine) launch(r worker.Run) {
	w := m.w
	m.starting()
	c := &container{m: m, run: r, procs: []worker.Proc{m.agent.Proc()}, keep: w.chance(500), alive: true}
	m.box[r.Invocation] = c
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

// live returns the containers that are alive, in a stable order.
func (m *machine) live() []*container {
	cs := make([]*container, 0, len(m.box))
	for _, c := range m.box {
		if c.alive {
			cs = append(cs, c)
		}
	}
	slices.SortFunc(cs, func(a, b *container) int { return a.run.Compare(b.run) })
	return cs
}

// end makes a container die within d.
func (m *machine) end(c *container, d time.Duration) {
	c.dying = true
	m.w.after(d, func() { m.ended(c, "killed") })
}

func (m *machine) ended(c *container, status string) {
	if !c.alive {
		return
	}
	c.alive = false
	delete(m.box, c.run.Invocation)
	m.w.check.ended(c)
	if c.extra {
		m.counted()
	}
	m.w.trace("%s: container of %v %v ended: %s", m.name, c.run.Work, c.run.Invocation, status)
	if !c.extra {
		m.on(func() { m.step(worker.WorkEnded{Run: c.run, Status: m.w.ends[status]}) })
	}
	m.clearedIf()
}

func (m *machine) proc() worker.Proc {
	if m.agent == nil {
		return ""
	}
	return m.agent.Proc()
}

// reaper waits for its deadline, whatever the agent does.
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
			m.end(c, m.w.between(0, killWait))
		}
		m.reapUnits()
	})
}

// crash is SIGKILL of the agent: the reaper ends what may not outlive it.
func (m *machine) crash() {
	m.w.trace("%s: process %s is killed", m.name, m.proc())
	m.alive, m.inbox = false, nil
	for _, c := range m.live() {
		if !c.keep {
			m.end(c, m.w.between(0, killWait))
		}
	}
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
	m.alive, m.up, m.inbox = false, false, nil
	m.boots++
	m.deadline = 0
	for _, c := range m.live() {
		m.ended(c, "power")
	}
	m.losePower()
	m.w.after(d, func() {
		m.up = true
		m.clock = m.w.newClock()
		m.kept.Deadline = 0
		m.startAgent()
	})
}

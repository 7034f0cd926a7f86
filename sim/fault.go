package sim

import (
	"time"
)

// fault makes one fault and plans the next.
func (fs *faults) fault() {
	if fs.w.calm {
		return
	}
	fs.w.after(fs.w.between(time.Second, 10*time.Second), fs.fault)
	f := Fault(fs.w.rng.IntN(int(fs.kinds())))
	if only := fs.w.cfg.Faults; len(only) > 0 {
		f = only[fs.w.rng.IntN(len(only))]
	}
	if !fs.allowed(f) {
		return
	}
	fs.w.trace("FAULT %v", f)
	s := fs.w.servers[fs.w.rng.IntN(len(fs.w.servers))]
	if r := fs.w.leading(); r != nil && fs.w.chance(700) {
		s = r.s
	}
	fs.active[f] = fs.w.now + fs.inflict(f, s, fs.w.machines[fs.w.rng.IntN(fs.w.cfg.Cells)])
}

// inflict does the fault and returns how long it shows.
func (fs *faults) inflict(f Fault, s *server, m *machine) time.Duration {
	short, long := fs.w.between(100*time.Millisecond, 5*time.Second), fs.w.between(time.Second, 40*time.Second)
	switch f {
	case KillServer, PauseServer, CutStore:
		fs.inflictServer(f, s, m, short, long)
	case KillAgent:
		if m.alive {
			m.crash()
			fs.w.after(short, m.startAgent)
		}
	case PauseMachine:
		if m.alive && m.paused <= fs.w.now {
			m.pauseAll(fs.w.between(0, 700*time.Millisecond))
		}
	case PauseAgent, Reboot:
		fs.inflictMachine(f, m, long)
		return long
	case CutLink, CutCalls, RoughNetwork:
		fs.inflictNetwork(f, s, m, short, long)
		return long
	case Twin:
		fs.twin()
		return long
	case HangWork:
		if !fs.hang(m) {
			return 0
		}
		return long
	case FullStore:
		if !noRoom(fs.w) {
			fs.filled = fs.w.now
		}
		fs.full = fs.w.now + long
		return long
	default:
		fs.inflictMore(f, m)
	}
	return 2 * short
}

func (fs *faults) inflictServer(f Fault, s *server, m *machine, short, long time.Duration) {
	switch {
	case f == KillServer && s.alive:
		s.crash()
		fs.w.after(short, s.start)
	case f == PauseServer && s.alive:
		s.pause(2 * short)
	case f == CutStore:
		fs.w.net.cuts[[2]int{fs.w.net.serverNode(s.id), fs.w.net.storeNode()}] = fs.w.now + 2*short
		if fs.w.chance(500) { // one cell reaches only the server that lost the store
			m.server = s.id
			fs.w.net.cutOthers(s, m, 10*time.Second+long)
			fs.pauseLater(m, 2*short)
		}
	}
}

func (fs *faults) inflictMachine(f Fault, m *machine, long time.Duration) {
	switch {
	case f == Reboot && m.up:
		m.reboot(long)
	case f == PauseAgent && m.alive && fs.w.chance(300):
		m.pausing = fs.w.between(time.Second, 6*time.Second)
	case f == PauseAgent && m.alive:
		m.pauseAgent(long)
	}
}

func (fs *faults) inflictNetwork(f Fault, s *server, m *machine, short, long time.Duration) {
	switch f {
	case CutLink:
		if fs.w.chance(500) {
			fs.w.net.cutLink(s, m, long)
			return
		}
		m.lag = fs.w.now + 1500*time.Millisecond // stragglers arrive during the cut
		fs.pauseLater(m, 12*time.Second)
		fs.w.after(1500*time.Millisecond, func() {
			if !fs.w.calm {
				fs.w.net.cutLink(s, m, long)
			}
		})
	case CutCalls:
		m.cutOff = fs.w.now + long
		if m.alive && fs.w.chance(500) {
			m.cutOff += 15 * time.Second
			m.crash()
			fs.w.after(short/4, m.startAgent)
			fs.pauseLater(m, 7*time.Second)
		}
	case RoughNetwork:
		fs.w.net.rough = fs.w.now + long/2
	}
}

func (fs *faults) inflictMore(f Fault, m *machine) {
	switch f {
	case RestoreStore:
		if len(fs.w.store.older) > 0 && fs.w.chance(500) {
			fs.w.store.back(fs.w.store.older[fs.w.rng.IntN(len(fs.w.store.older))], true)
			fs.w.check.reset(fs.w.store)
			fs.w.check.work.wentBack()
		}
	case MoveStore:
		if fs.w.chance(300) {
			fs.w.store.back(fs.w.store.copy(), false)
		}
	case BreakProbe:
		m.broken = fs.w.now + fs.w.between(time.Second, 15*time.Second)
	case Deregister:
		if m.alive {
			m.on(m.leave)
		}
	case UnknownCommit:
		fs.loseJob = true
		if fs.w.chance(500) {
			fs.w.net.cutOthers(nil, m, fs.w.between(time.Second, 20*time.Second))
		}
	case Drain:
		fs.w.customers.drainOne(m.name)
	case CorruptRow:
		fs.corrupt()
	case OtherFlags, DeleteJob, FailWork, ChangeService, ChangeTask:
	}
	if len(fs.w.store.older) < 5 {
		fs.w.store.older = append(fs.w.store.older, fs.w.store.copy())
	}
}

// pauseLater pauses an agent some time within d, half of the times: then only its
// reaper keeps the deadline.
func (fs *faults) pauseLater(m *machine, d time.Duration) {
	if !fs.w.chance(500) {
		return
	}
	fs.w.after(fs.w.between(0, d), func() {
		if m.alive && fs.allowed(PauseAgent) && m.paused <= fs.w.now {
			m.pauseAgent(fs.w.between(5*time.Second, 25*time.Second))
		}
	})
}

// pauseAgain lets nothing but the answer of its heartbeat reach an agent that pauses for
// d, half of the times, and pauses it again when it has taken that.
func (fs *faults) pauseAgain(m *machine, d time.Duration) {
	if !fs.allowed(CutLink) || !fs.w.chance(500) {
		return
	}
	fs.w.after(300*time.Millisecond, func() {
		if !fs.w.calm {
			fs.w.net.cutOthers(nil, m, d+20*time.Second)
		}
	})
	fs.w.after(d+300*time.Millisecond, func() {
		if m.alive && fs.allowed(PauseAgent) && m.paused <= fs.w.now {
			m.pauseAgent(fs.w.between(10*time.Second, 25*time.Second))
		}
	})
}

// twin starts or stops a second machine under the name of the first cell.
func (fs *faults) twin() {
	t := fs.w.machines[fs.w.cfg.Cells]
	switch {
	case t.alive:
		t.off = true
		t.crash()
	case t.up:
		t.off = false
		if fs.w.machines[0].alive && fs.w.chance(500) {
			fs.w.machines[0].pauseAgent(fs.w.between(time.Second, 30*time.Second))
		}
		t.startAgent()
	}
}

// calmDown ends all faults.
func (fs *faults) calmDown() {
	fs.w.trace("CALM")
	fs.w.calm = true
	clear(fs.w.net.cuts)
	for _, s := range fs.w.servers {
		s.backlog.late = 0
	}
	fs.w.net.rough, fs.full, fs.loseJob = 0, 0, false
	if fs.w.boards() {
		fs.w.quiesce()
	}
	for _, s := range fs.w.servers {
		if !s.alive {
			s.start()
		}
	}
	t := fs.w.machines[fs.w.cfg.Cells]
	if t.alive {
		t.off = true
		t.crash()
	}
	t.containers.losePower() // it is switched off
	fs.calmStuck()
	for _, m := range fs.w.machines[:fs.w.cfg.Cells] {
		m.broken, m.cutOff, m.lag, m.pausing = 0, 0, 0, 0
		m.off = false
	}
}

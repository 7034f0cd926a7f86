package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"cantina/worker"
)

// Fault is a kind of fault.
type Fault int

// The faults.
const (
	KillServer Fault = iota
	PauseServer
	CutStore
	UnknownCommit
	KillAgent
	PauseAgent
	PauseMachine
	Reboot
	CutLink
	CutCalls
	RoughNetwork
	Twin
	RestoreStore
	MoveStore
	DeleteJob
	BreakProbe
	OtherFlags
	Deregister
	HangWork
	FullStore
	// Of services and tasks: only in runs that have any.
	Drain
	FailWork
	ChangeService
	ChangeTask
	CorruptRow
	faultCount
)

// batchFaults is how many of the faults there are in runs without services and tasks.
const batchFaults = Drain

var faultNames = [faultCount]string{"kill server", "pause server", "cut store", "unknown commit", "kill agent", "pause agent",
	"pause machine", "reboot", "cut link", "cut calls", "rough network", "twin", "restore store", "move store", "delete job", "break probe",
	"other flags", "deregister", "hang work", "full store",
	"drain", "fail work", "change service", "change task", "corrupt row"}

// parseFaults reads the value of `cantina sim --faults`: all, none, or names with a comma
// between them.
func parseFaults(value string) ([]Fault, error) {
	switch value {
	case "all":
		return nil, nil
	case "none":
		return []Fault{}, nil
	}
	var out []Fault
	for name := range strings.SplitSeq(value, ",") {
		f := slices.Index(faultNames[:], strings.ReplaceAll(name, "-", " "))
		if f < 0 {
			return nil, fmt.Errorf("no fault %q: want all, none, or some of %s", name, formatFaults(every()))
		}
		out = append(out, Fault(f))
	}
	return out, nil
}

// every returns all faults.
func every() []Fault {
	var out []Fault
	for f := range faultCount {
		out = append(out, f)
	}
	return out
}

// formatFaults prints the input of parseFaults.
func formatFaults(fs []Fault) string {
	switch {
	case fs == nil:
		return "all"
	case len(fs) == 0:
		return "none"
	}
	var names []string
	for _, f := range fs {
		names = append(names, strings.ReplaceAll(f.String(), " ", "-"))
	}
	return strings.Join(names, ",")
}

// String returns the fault's name.
func (f Fault) String() string { return faultNames[f] }

// timeouts draws the flags of one process: two sets, with different promises.
func (w *world) timeouts() worker.Timeouts {
	t := worker.Timeouts{Heartbeat: time.Second, HeartbeatGrace: 2 * time.Second, Healthcheck: 2 * time.Second,
		HealthcheckGrace: 2 * time.Second, Check: 500 * time.Millisecond, Lost: 6 * time.Second, KillWait: killWait,
		Margin: time.Second, DriftPerMille: 10, MaxDiesWithin: 20 * time.Second, Lease: leaseTTL,
		KeepAlive: 500 * time.Millisecond, LeaseDrift: leaseDrift}
	if w.allowed(OtherFlags) && w.chance(400) {
		t.Lost = 13 * time.Second
		w.active[OtherFlags] = w.now + 20*time.Second
	}
	return t
}

// between are the faults that need two processes.
var between = []Fault{Twin, CutLink, CutCalls, RoughNetwork, PauseAgent, PauseServer}

func (w *world) allowed(f Fault) bool {
	if w.cfg.Alone && slices.Contains(between, f) {
		return false
	}
	return !w.calm && (w.cfg.Faults == nil || slices.Contains(w.cfg.Faults, f))
}

func (w *world) faults() Fault {
	if w.mixed() {
		return faultCount
	}
	return batchFaults
}

// fault makes one fault and plans the next.
func (w *world) fault() {
	if w.calm {
		return
	}
	w.after(w.between(time.Second, 10*time.Second), w.fault)
	f := Fault(w.rng.IntN(int(w.faults())))
	if only := w.cfg.Faults; len(only) > 0 {
		f = only[w.rng.IntN(len(only))]
	}
	if !w.allowed(f) {
		return
	}
	w.trace("FAULT %v", f)
	s := w.servers[w.rng.IntN(len(w.servers))]
	if r := w.leading(); r != nil && w.chance(700) {
		s = r.s
	}
	w.active[f] = w.now + w.inflict(f, s, w.machines[w.rng.IntN(w.cfg.Cells)])
}

// inflict does the fault and returns how long it shows.
func (w *world) inflict(f Fault, s *server, m *machine) time.Duration {
	short, long := w.between(100*time.Millisecond, 5*time.Second), w.between(time.Second, 40*time.Second)
	switch f {
	case KillServer, PauseServer, CutStore:
		w.inflictServer(f, s, m, short, long)
	case KillAgent:
		if m.alive {
			m.crash()
			w.after(short, m.startAgent)
		}
	case PauseMachine:
		if m.alive && m.paused <= w.now {
			m.pauseAll(w.between(0, 700*time.Millisecond))
		}
	case PauseAgent, Reboot:
		w.inflictMachine(f, m, long)
		return long
	case CutLink, CutCalls, RoughNetwork:
		w.inflictNetwork(f, s, m, short, long)
		return long
	case Twin:
		w.twin()
		return long
	case HangWork:
		if !w.hang(m) {
			return 0
		}
		return long
	case FullStore:
		if !noRoom(w) {
			w.filled = w.now
		}
		w.full = w.now + long
		return long
	default:
		w.inflictMore(f, m)
	}
	return 2 * short
}

func (w *world) inflictServer(f Fault, s *server, m *machine, short, long time.Duration) {
	switch {
	case f == KillServer && s.alive:
		s.crash()
		w.after(short, s.start)
	case f == PauseServer && s.alive:
		s.pause(2 * short)
	case f == CutStore:
		w.cuts[[2]int{w.serverNode(s.id), w.storeNode()}] = w.now + 2*short
		if w.chance(500) { // one cell reaches only the server that lost the store
			m.server = s.id
			w.cutOthers(s, m, 10*time.Second+long)
			w.pauseLater(m, 2*short)
		}
	}
}

func (w *world) inflictMachine(f Fault, m *machine, long time.Duration) {
	switch {
	case f == Reboot && m.up:
		m.reboot(long)
	case f == PauseAgent && m.alive && w.chance(300):
		m.pausing = w.between(time.Second, 6*time.Second)
	case f == PauseAgent && m.alive:
		m.pauseAgent(long)
	}
}

func (w *world) inflictNetwork(f Fault, s *server, m *machine, short, long time.Duration) {
	switch f {
	case CutLink:
		if w.chance(500) {
			w.cutLink(s, m, long)
			return
		}
		m.lag = w.now + 1500*time.Millisecond // stragglers arrive during the cut
		w.pauseLater(m, 12*time.Second)
		w.after(1500*time.Millisecond, func() {
			if !w.calm {
				w.cutLink(s, m, long)
			}
		})
	case CutCalls:
		m.cutOff = w.now + long
		if m.alive && w.chance(500) {
			m.cutOff += 15 * time.Second
			m.crash()
			w.after(short/4, m.startAgent)
			w.pauseLater(m, 7*time.Second)
		}
	case RoughNetwork:
		w.rough = w.now + long/2
	}
}

func (w *world) inflictMore(f Fault, m *machine) {
	switch f {
	case RestoreStore:
		if len(w.store.older) > 0 && w.chance(500) {
			w.store.back(w.store.older[w.rng.IntN(len(w.store.older))], true)
			w.check.reset(w.store)
			w.check.work.wentBack()
		}
	case MoveStore:
		if w.chance(300) {
			w.store.back(w.store.copy(), false)
		}
	case BreakProbe:
		m.broken = w.now + w.between(time.Second, 15*time.Second)
	case Deregister:
		if m.alive {
			m.on(m.leave)
		}
	case UnknownCommit:
		w.loseJob = true
		if w.chance(500) {
			w.cutOthers(nil, m, w.between(time.Second, 20*time.Second))
		}
	case Drain:
		w.drainOne(m.name)
	case CorruptRow:
		w.corrupt()
	case OtherFlags, DeleteJob, FailWork, ChangeService, ChangeTask:
	}
	if len(w.store.older) < 5 {
		w.store.older = append(w.store.older, w.store.copy())
	}
}

// cutLink cuts a machine from one server or all, in one or both directions.
func (w *world) cutLink(s *server, m *machine, d time.Duration) {
	for _, o := range w.servers {
		if o != s && w.chance(500) {
			continue
		}
		a, b := w.serverNode(o.id), w.machineNode(m.id)
		which := w.rng.IntN(3)
		if which != 0 {
			w.cuts[[2]int{a, b}] = w.now + d
		}
		if which != 1 {
			w.cuts[[2]int{b, a}] = w.now + d
		}
	}
}

// pauseLater pauses an agent some time within d, half of the times: then only its
// reaper keeps the deadline.
func (w *world) pauseLater(m *machine, d time.Duration) {
	if !w.chance(500) {
		return
	}
	w.after(w.between(0, d), func() {
		if m.alive && w.allowed(PauseAgent) && m.paused <= w.now {
			m.pauseAgent(w.between(5*time.Second, 25*time.Second))
		}
	})
}

// pauseAgain lets nothing but the answer of its heartbeat reach an agent that pauses for
// d, half of the times, and pauses it again when it has taken that.
func (w *world) pauseAgain(m *machine, d time.Duration) {
	if !w.allowed(CutLink) || !w.chance(500) {
		return
	}
	w.after(300*time.Millisecond, func() {
		if !w.calm {
			w.cutOthers(nil, m, d+20*time.Second)
		}
	})
	w.after(d+300*time.Millisecond, func() {
		if m.alive && w.allowed(PauseAgent) && m.paused <= w.now {
			m.pauseAgent(w.between(10*time.Second, 25*time.Second))
		}
	})
}

// cutOthers cuts a machine from every server but one.
func (w *world) cutOthers(s *server, m *machine, d time.Duration) {
	if w.cfg.Alone {
		return
	}
	for _, o := range w.servers {
		if o != s {
			a, b := w.serverNode(o.id), w.machineNode(m.id)
			w.cuts[[2]int{a, b}], w.cuts[[2]int{b, a}] = w.now+d, w.now+d
		}
	}
}

// twin starts or stops a second machine under the name of the first cell.
func (w *world) twin() {
	t := w.machines[w.cfg.Cells]
	switch {
	case t.alive:
		t.off = true
		t.crash()
	case t.up:
		t.off = false
		if w.machines[0].alive && w.chance(500) {
			w.machines[0].pauseAgent(w.between(time.Second, 30*time.Second))
		}
		t.startAgent()
	}
}

// calmDown ends all faults.
func (w *world) calmDown() {
	w.trace("CALM")
	w.calm = true
	clear(w.cuts)
	w.rough, w.full, w.loseJob = 0, 0, false
	if w.boards() {
		w.quiesce()
	}
	for _, s := range w.servers {
		if !s.alive {
			s.start()
		}
	}
	t := w.machines[w.cfg.Cells]
	if t.alive {
		t.off = true
		t.crash()
	}
	t.losePower() // it is switched off
	w.calmStuck()
	for _, m := range w.machines[:w.cfg.Cells] {
		m.broken, m.cutOff, m.lag, m.pausing = 0, 0, 0, 0
		m.off = false
	}
}

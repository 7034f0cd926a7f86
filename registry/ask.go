package registry

import (
	"cantina/worker"
)

// MayRun reports whether a batch task may run anywhere, and if not why.
func (m *machine) MayRun(q worker.Request) (worker.Hold, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.leader.MayRun(m.now(), q)
}

// Running returns the possibly running invocations of one batch task.
func (m *machine) Running(w worker.Work) []worker.RunView {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.leader.Running(w)
}

// Model returns everything that may be running.
func (m *machine) Model() []worker.RunView {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.leader.Model()
}

// Live returns how many invocations may be running.
func (m *machine) Live() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.leader.Live()
}

// Adopted counts the invocations that reports have brought into the model so far.
func (m *machine) Adopted() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.leader.Adopted()
}

// OnCell counts the batch tasks that may be running on a cell, those on their way to it too.
func (m *machine) OnCell(cell worker.CellName) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.leader.OnCell(cell)
}

// Idle reports that nothing of a job can be running any more.
func (m *machine) Idle(job string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.leader.Idle(job)
}

// MayStart reports whether a cell process may be given work of any kind.
func (m *machine) MayStart(cell, proc string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	h, ok := m.leader.MayReceive(worker.CellName(cell))
	return ok && h.Proc == worker.Proc(proc)
}

// MayLive returns the members of a cell that are not certainly dead, in order. joining is a process of the
// cell that may become a member; "" = none.
func (m *machine) MayLive(cell string) (members []string, joining string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	procs, joins := m.leader.MayLive(worker.CellName(cell))
	for _, p := range procs {
		members = append(members, string(p))
	}
	return members, string(joins)
}

// Alive returns the containers of services and tasks that a process has reported.
func (m *machine) Alive(proc string) []worker.Alive {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.leader.Alive(worker.Proc(proc))
}

// Receives returns why a cell may not get work now; an empty reason means that it may.
func (m *machine) Receives(cell worker.CellName) (worker.Proc, string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	h, ok := m.leader.MayReceive(cell)
	if ok {
		return h.Proc, ""
	}
	return h.Proc, h.Reason.String()
}

// Stale reports whether rows may be older than the cells' work. This is so for a store that went
// back, during the initial wait. If the cells' sets have ended that, it is so for as long as work
// without a row may live.
func (m *machine) Stale() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, stale := m.leader.Waits()
	return stale
}

// Waits reports that the initial wait is on.
func (m *machine) Waits() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	active, _ := m.leader.Waits()
	return active
}

// Wait describes the initial wait.
func (m *machine) Wait() worker.WaitView {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.leader.Wait(m.now())
}

// Session returns the process that holds a cell's name.
func (m *machine) Session(cell worker.CellName) (worker.SessionView, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.leader.Session(m.now(), cell)
}

// Process returns a process that is known, whether it holds its cell's name or not.
func (m *machine) Process(proc worker.Proc) (worker.SessionView, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.leader.Process(m.now(), proc)
}

// Sessions returns every cell process that is known.
func (m *machine) Sessions() []worker.SessionView {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.leader.Sessions(m.now())
}

// IsBack reports whether a process has reported its work in this term, and is HEALTHY.
func (m *machine) IsBack(proc worker.Proc) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.leader.IsBack(proc)
}

// IsDead reports that a process is certainly dead.
func (m *machine) IsDead(proc worker.Proc) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.leader.IsDead(proc)
}

// RefusedTerms is how many messages with an impossible term were refused in this term.
func (m *machine) RefusedTerms() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.leader.RefusedTerms()
}

// Members returns the ids of the processes that may be alive.
func (m *machine) Members() []string {
	var out []string
	for _, s := range m.Sessions() {
		if !s.Dead {
			out = append(out, string(s.Proc))
		}
	}
	return out
}

// late returns the cells whose heartbeat is late.
func (m *machine) late() []worker.CellName {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.leader.Late(m.now())
}

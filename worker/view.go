package worker

import (
	"cmp"
	"slices"
	"time"
)

// SessionView is one cell process as the leader sees it.
type SessionView struct {
	Cell      CellName
	Proc      Proc
	State     State
	Holder    bool // it holds the cell's name
	Member    bool // it has a row
	Reported  bool
	Eligible  bool // reported, and the row is durable
	Displaced bool
	Dead      bool // proven dead, statuses being committed
	// Blocked: UNHEALTHY only because the worker set does not permit it yet.
	Blocked bool
	// Unavailable: the probe failed three times in a row; Reason says why.
	Unavailable bool
	Reason      string
	Promise     time.Duration
	// Expiry is how long from now until it is certainly dead without credit; 0 = no bound.
	Expiry time.Duration
	Work   int // batch invocations held
	Unsure int // of them on the unsure list
}

// Sessions returns every process the leader knows, sorted by cell and process.
func (l *Leader) Sessions(now time.Duration) []SessionView {
	vs := make([]SessionView, 0, len(l.procs))
	for _, p := range l.procs {
		vs = append(vs, l.view(p, now))
	}
	slices.SortFunc(vs, func(a, b SessionView) int {
		return cmp.Or(cmp.Compare(a.Cell, b.Cell), cmp.Compare(a.Proc, b.Proc))
	})
	return vs
}

// Session returns the process that holds the cell's name.
func (l *Leader) Session(now time.Duration, cell CellName) (SessionView, bool) {
	p := l.holders[cell]
	if p == nil {
		return SessionView{}, false
	}
	return l.view(p, now), true
}

// Process returns a process that the leader knows, whether it holds its cell's name or not.
func (l *Leader) Process(now time.Duration, proc Proc) (SessionView, bool) {
	p := l.procs[proc]
	if p == nil {
		return SessionView{}, false
	}
	return l.view(p, now), true
}

// Holds reports that a process has its cell's name.
func (l *Leader) Holds(cell CellName, proc Proc) bool {
	p := l.holders[cell]
	return p != nil && p.row.Proc == proc
}

// MayLive returns the processes of a cell that are not certainly dead, in order.
func (l *Leader) MayLive(cell CellName) []Proc {
	var out []Proc
	for id, p := range l.procs {
		if p.row.Cell == cell && !p.dead {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}

// IsBack reports that a process has said in this term what it runs, and is HEALTHY.
func (l *Leader) IsBack(proc Proc) bool {
	p := l.procs[proc]
	return p != nil && p.reported && p.health.State == Healthy
}

// IsDead tells that a process is certainly dead: it is on no list, and the list
// is trusted. A row that names such a process is lost.
func (l *Leader) IsDead(proc Proc) bool {
	p := l.procs[proc]
	if p == nil {
		return l.gone[proc] != Welcome || !l.blind
	}
	return p.dead
}

// Alive names the containers of services and tasks that a process has reported, by instance
// and uid, as they were then.
func (l *Leader) Alive(proc Proc) []string {
	if p := l.procs[proc]; p != nil {
		return p.alive
	}
	return nil
}

func (l *Leader) view(p *process, now time.Duration) SessionView {
	v := SessionView{Cell: p.row.Cell, Proc: p.row.Proc, State: p.health.State, Holder: p.holds(l), Member: p.member,
		Reported: p.reported, Eligible: p.reported && p.durable, Displaced: p.displaced, Dead: p.dead,
		Blocked: p.blocked && p.health.State == Unhealthy, Unavailable: p.probe.out, Promise: p.row.Promise, Work: len(p.work), Unsure: len(p.unsure.runs)}
	if p.probe.out {
		v.Reason = p.probe.reason
	} else {
		v.Reason = l.why(p, now)
	}
	if at, ok := l.expiry(p); ok {
		v.Expiry = max(0, at-now)
	}
	return v
}

// RunView is one invocation of the model.
type RunView struct {
	Run    Run
	Cell   CellName
	Proc   Proc
	Sure   bool // the cell holds it, as far as known
	Ending bool // its end is being committed
	Kill   bool // it is to be killed
}

// Running returns what may be running of one work, in order of start.
func (l *Leader) Running(w Work) []RunView {
	var vs []RunView
	for _, e := range l.model.byWork[w] {
		vs = append(vs, l.runView(e))
	}
	return vs
}

// Model returns everything that may be running, sorted by invocation.
func (l *Leader) Model() []RunView {
	es := l.model.sorted()
	vs := make([]RunView, len(es))
	for i, e := range es {
		vs[i] = l.runView(e)
	}
	return vs
}

func (l *Leader) runView(e *entry) RunView {
	v := RunView{Run: e.run, Proc: e.proc, Sure: e.sure, Ending: e.ending, Kill: e.kill}
	if p := l.procs[e.proc]; p != nil {
		v.Cell = p.row.Cell
	}
	return v
}

// Live returns how many invocations may be running.
func (l *Leader) Live() int { return len(l.model.byRun) }

// OnCell counts the invocations that may be running on a cell, those on their way to it too.
func (l *Leader) OnCell(cell CellName) int {
	n := 0
	for _, e := range l.model.byRun {
		if p := l.procs[e.proc]; p != nil && p.row.Cell == cell {
			n++
		}
	}
	return n
}

// Adopted counts the invocations that reports have brought into the model so far: who
// decides by the whole of the model looks at it again when this has changed.
func (l *Leader) Adopted() int { return l.adopted }

// Idle reports that nothing of a job can be running: the initial wait is over and
// the model has no invocation of the name.
func (l *Leader) Idle(job string) bool {
	if l.wait {
		return false
	}
	for w, es := range l.model.byWork {
		if w.Job == job && len(es) > 0 {
			return false
		}
	}
	return true
}

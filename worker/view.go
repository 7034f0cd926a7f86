package worker

import (
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
	// Unavailable: the probe failed three times in a row; Reason has the cause.
	Unavailable bool
	Reason      string
	Promise     time.Duration
	// Expiry is how long from now until it is certainly dead without credit; 0 = no bound.
	Expiry time.Duration
	Work   int // batch invocations held
	Unsure int // of them on the unsure list
}

// IsDead reports whether a process is certainly dead: it is on no list, and the list is trusted. A
// row that names such a process is lost.
func (l *Leader) IsDead(proc Proc) bool {
	p := l.procs[proc]
	if p == nil {
		return l.gone[proc] != Welcome || !l.waiting.stale
	}
	return p.dead
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

// Running returns the possibly running invocations of one batch task, in order of start.
func (b *batch) Running(w Work) []RunView {
	var vs []RunView
	for _, e := range b.model.byWork[w] {
		vs = append(vs, b.runView(e))
	}
	return vs
}

// Model returns everything that may be running, sorted by invocation.
func (b *batch) Model() []RunView {
	es := b.model.sorted()
	vs := make([]RunView, len(es))
	for i, e := range es {
		vs[i] = b.runView(e)
	}
	return vs
}

func (b *batch) runView(e *entry) RunView {
	return RunView{Run: e.run, Cell: e.on.row.Cell, Proc: e.on.row.Proc, Sure: e.sure, Ending: e.ending, Kill: e.kill}
}

// Live returns how many invocations may be running.
func (b *batch) Live() int { return len(b.model.byRun) }

// OnCell counts the invocations that may be running on a cell, those on their way to it too.
func (b *batch) OnCell(cell CellName) int {
	n := 0
	for _, e := range b.model.byRun {
		if e.on.row.Cell == cell {
			n++
		}
	}
	return n
}

// Adopted counts the invocations that reports have added to the model so far: a caller whose
// decisions use the whole model reads it again when this has changed.
func (b *batch) Adopted() int { return b.adopted }

// Idle reports that nothing of a job can be running: the initial wait is over and
// the model has no invocation of the name.
func (l *Leader) Idle(job string) bool {
	if l.waiting.wait {
		return false
	}
	for w := range l.batch.model.byWork {
		if w.Job == job {
			return false
		}
	}
	return true
}

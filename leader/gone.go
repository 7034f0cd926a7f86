package leader

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"cantina/cell"
	"cantina/internal/text"
	"cantina/worker"
)

const (
	// maxLost bounds how many cells that are gone a term remembers, maxParting how many
	// processes that are silent or given up, and not certainly dead yet. The oldest are forgotten.
	maxLost    = 50
	maxParting = 1000
)

// Lost is a cell that is gone, with its fate and that of its work. (Diego dev notes, Evacuation.)
type Lost struct {
	Cell worker.CellName
	Proc worker.Proc
	// At is when that was certain, by the leader's wall clock.
	At time.Time
	// Left: it deregistered, with nothing on it.
	Left bool
	// Why and Work describe why it is gone, and what was done with its work.
	Why, Work string
	// State is its last report; zero if it sent none in this term.
	State cell.State
}

// silentProc is a process that is silent or was given up, and its work at that time. Once it is
// certainly dead, certain is set.
type silentProc struct {
	Lost
	certain   bool
	displaced bool   // another process had taken its name
	session   string // why its session ended
	by        string // the operator's declaration, if that was the reason
	// Its work: instances when it became silent or was given up, lost tasks and batch tasks.
	instances, tasks, batch int
}

// record returns the record of a process, which it makes when there is none. The lock is held.
func (l *Leader) record(name worker.CellName, proc worker.Proc) *silentProc {
	for i := len(l.silent) - 1; i >= 0; i-- {
		if l.silent[i].Proc == proc {
			return l.silent[i]
		}
	}
	d := &silentProc{Lost: Lost{Cell: name, Proc: proc, At: l.cfg.Clock.Wall()}}
	l.silent = append(l.silent, d)
	l.trim(func(d *silentProc) bool { return !d.certain }, maxParting)
	return d
}

// trim removes the oldest of the selected ones, down to most.
func (l *Leader) trim(meant func(*silentProc) bool, most int) {
	n := 0
	for _, d := range l.silent {
		if meant(d) {
			n++
		}
	}
	l.silent = slices.DeleteFunc(l.silent, func(d *silentProc) bool {
		if !meant(d) || n <= most {
			return false
		}
		n--
		return true
	})
}

// recordSession records the work of a process, including instances of services, when it became
// silent (then they are placed again) and when its session ended. The board does not know of that
// yet.
func (l *Leader) recordSession(e worker.SessionChanged) {
	silent := e.To == worker.MustDie || e.To == worker.Unhealthy && e.From == worker.Healthy
	instances := 0
	if silent {
		instances = l.Board.InstancesOn(string(e.Proc))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case e.To == worker.Healthy: // it is back
		l.silent = slices.DeleteFunc(l.silent, func(d *silentProc) bool { return d.Proc == e.Proc })
	case silent:
		d := l.record(e.Cell, e.Proc)
		d.session, d.displaced, d.instances, d.State = e.Reason, e.Displaced && !e.Succeeded, max(d.instances, instances), l.states[e.Cell]
	}
}

// recordForgotten records an operator's declaration that a process is dead.
func (l *Leader) recordForgotten(e worker.Audit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.record(e.Cell, e.Proc).by = e.Text
}

// countLost counts a batch task that ended with its process.
func (l *Leader) countLost(e worker.Ended) {
	if e.Kind != worker.Lost {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.record(e.Cell, e.Proc).batch++
}

// recordDeath records the end of a process for queries about its cell, unless another process has
// the cell's name.
func (l *Leader) recordDeath(e worker.Dead, tasks int) (Lost, bool) {
	s, held := l.Registry.Session(e.Cell)
	l.mu.Lock()
	defer l.mu.Unlock()
	d := l.record(e.Cell, e.Proc)
	others := held && s.Proc != e.Proc && !s.Dead
	l.silent = slices.DeleteFunc(l.silent, func(x *silentProc) bool {
		return x.Cell == e.Cell && (x != d && x.certain || x == d && others)
	})
	if others {
		return Lost{}, false
	}
	d.certain, d.tasks, d.At, d.Left = true, tasks, l.cfg.Clock.Wall(), e.Proof == worker.ProofDeregistered
	d.Why, d.Work = d.why(e.Proof), d.work()
	l.trim(func(d *silentProc) bool { return d.certain }, maxLost)
	return d.Lost, true
}

// taken forgets the cell that was gone: a process has its name.
func (l *Leader) taken(name worker.CellName, proc worker.Proc) {
	l.silent = slices.DeleteFunc(l.silent, func(d *silentProc) bool { return d.certain && d.Cell == name && d.Proc != proc })
}

func (d *silentProc) why(p worker.Proof) string {
	text := p.Words()
	if p == worker.ProofOperator && d.by != "" {
		text = d.by
	}
	if d.displaced {
		text = "another process had taken its name; " + text
	}
	return text
}

// work describes what was done with the work of the process.
func (d *silentProc) work() string {
	var out []string
	if d.instances > 0 {
		out = append(out, text.Count(d.instances, "instance")+" placed anew on other cells, as these have room")
	}
	if d.tasks > 0 {
		out = append(out, text.Count(d.tasks, "task")+" lost and not started again: record the outcome with cantina task resolve")
	}
	if d.batch > 0 {
		out = append(out, text.Count(d.batch, "batch task")+" lost, run again as the retries of the job allow")
	}
	if len(out) == 0 {
		return "nothing was left on it"
	}
	return strings.Join(out, "; ")
}

// Lost lists the cells that are gone and whose names are free, by name: the newest that this term
// has recorded, at most maxLost.
func (l *Leader) Lost() []Lost {
	l.mu.Lock()
	all := make([]silentProc, len(l.silent))
	for i, d := range l.silent {
		all[i] = *d
	}
	l.mu.Unlock()
	newest := map[worker.CellName]Lost{}
	for _, d := range all {
		switch _, known := newest[d.Cell]; {
		case d.certain:
			newest[d.Cell] = d.Lost
		case !known && l.Registry.IsDead(d.Proc): // it never had a row: its death is not reported
			d.Why, d.Work = d.session, "it was never given work"
			newest[d.Cell] = d.Lost
		}
	}
	var out []Lost
	for name, x := range newest {
		if s, held := l.Registry.Session(name); !held || s.Dead && s.Proc == x.Proc {
			out = append(out, x)
		}
	}
	slices.SortFunc(out, func(a, b Lost) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Cell, b.Cell)) })
	out = out[max(0, len(out)-maxLost):]
	slices.SortFunc(out, func(a, b Lost) int { return cmp.Compare(a.Cell, b.Cell) })
	return out
}

// LostCell returns the cell of a name when it is gone.
func (l *Leader) LostCell(name worker.CellName) (Lost, bool) {
	all := l.Lost()
	i := slices.IndexFunc(all, func(l Lost) bool { return l.Cell == name })
	if i < 0 {
		return Lost{}, false
	}
	return all[i], true
}

// Strike takes a cell that is gone off the list. It reports whether the process was on it.
func (l *Leader) Strike(proc worker.Proc) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.silent)
	l.silent = slices.DeleteFunc(l.silent, func(d *silentProc) bool { return d.certain && d.Proc == proc })
	return len(l.silent) < n
}

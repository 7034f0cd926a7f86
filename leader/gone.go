package leader

import (
	"cmp"
	"slices"
	"strings"
	"sync"
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
	// Why and Work describe the cause of its end, and the handling of its work.
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

// departures are the processes of a term that are silent, were given up, or are certainly dead.
type departures struct {
	wall func() time.Time

	mu  sync.Mutex
	all []*silentProc // in order
}

// record returns the record of a process, which it makes when there is none. The lock is held.
func (g *departures) record(name worker.CellName, proc worker.Proc) *silentProc {
	for i := len(g.all) - 1; i >= 0; i-- {
		if g.all[i].Proc == proc {
			return g.all[i]
		}
	}
	d := &silentProc{Lost: Lost{Cell: name, Proc: proc, At: g.wall()}}
	g.all = append(g.all, d)
	g.trim(func(d *silentProc) bool { return !d.certain }, maxParting)
	return d
}

// trim drops the oldest matching records until at most most remain.
func (g *departures) trim(meant func(*silentProc) bool, most int) {
	n := 0
	for _, d := range g.all {
		if meant(d) {
			n++
		}
	}
	g.all = slices.DeleteFunc(g.all, func(d *silentProc) bool {
		if !meant(d) || n <= most {
			return false
		}
		n--
		return true
	})
}

// note sets something in the record of a process.
func (g *departures) note(name worker.CellName, proc worker.Proc, set func(*silentProc)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	set(g.record(name, proc))
}

// dead records the end of a process for queries about its cell, unless another process has
// the cell's name.
func (g *departures) dead(e worker.Dead, tasks int, others bool) (Lost, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	d := g.record(e.Cell, e.Proc)
	g.all = slices.DeleteFunc(g.all, func(x *silentProc) bool {
		return x.Cell == e.Cell && (x != d && x.certain || x == d && others)
	})
	if others {
		return Lost{}, false
	}
	d.certain, d.tasks, d.At, d.Left = true, tasks, g.wall(), e.Proof == worker.ProofDeregistered
	d.Why, d.Work = d.why(e.Proof), d.work()
	g.trim(func(d *silentProc) bool { return d.certain }, maxLost)
	return d.Lost, true
}

// forget removes the selected records, and reports whether there were any.
func (g *departures) forget(is func(*silentProc) bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := len(g.all)
	g.all = slices.DeleteFunc(g.all, is)
	return len(g.all) < n
}

// records returns copies.
func (g *departures) records() []silentProc {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := make([]silentProc, len(g.all))
	for i, d := range g.all {
		out[i] = *d
	}
	return out
}

// recordSession records the work of a process, including instances of services, when it became
// silent (then they are placed again) and when its session ended. The board does not know of that
// yet.
func (l *Leader) recordSession(e worker.SessionChanged) {
	switch {
	case e.To == worker.Healthy: // it is back
		l.departures.forget(func(d *silentProc) bool { return d.Proc == e.Proc })
	case e.To == worker.MustDie || e.To == worker.Unhealthy && e.From == worker.Healthy:
		said, _ := l.State(e.Cell)
		instances := l.Board.InstancesOn(string(e.Proc))
		l.departures.note(e.Cell, e.Proc, func(d *silentProc) {
			d.session, d.displaced, d.State = e.Reason, e.Displaced && !e.Succeeded, said
			d.instances = max(d.instances, instances)
		})
	}
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
		out = append(out, text.Count(d.instances, "instance")+" placed on other cells, as these have room")
	}
	if d.tasks > 0 {
		out = append(out, text.Count(d.tasks, "task")+
			" lost and not started again: record the outcome with cantina task resolve")
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
	newest := map[worker.CellName]Lost{}
	for _, d := range l.departures.records() {
		switch _, known := newest[d.Cell]; {
		case d.certain:
			newest[d.Cell] = d.Lost
		case !known && l.Registry.IsDead(d.Proc): // it never had a row: its death is not reported
			d.Why, d.Work = d.session, "it never received work"
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
	return l.departures.forget(func(d *silentProc) bool { return d.certain && d.Proc == proc })
}

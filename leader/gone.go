package leader

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"cantina/cell"
	"cantina/worker"
)

const (
	// maxLost bounds how many cells that are gone a term remembers, maxParting how many
	// processes that are silent or given up, and not certainly dead yet. The oldest are forgotten.
	maxLost    = 50
	maxParting = 1000
)

// Lost is a cell that is gone: what became of it and of its work. (Diego dev notes, Evacuation.)
type Lost struct {
	Cell worker.CellName
	Proc worker.Proc
	// At is when that was certain, by the leader's wall clock.
	At time.Time
	// Left: it said farewell, with nothing on it.
	Left bool
	// Why and Work say in words why it is gone, and what was done with its work.
	Why, Work string
	// State is what it said of itself last; zero when it was not heard in this term.
	State cell.State
}

// departed is a process that is silent or was given up, and what it had then. Once it is certainly
// dead, certain is set.
type departed struct {
	Lost
	certain   bool
	displaced bool   // another process had taken its name
	session   string // why its session ended
	by        string // the operator's word, if that was it
	// What it had: instances when it fell silent or was given up, tasks and batch tasks that were lost.
	instances, tasks, batch int
}

// of returns the record of a process, which it makes when there is none. The lock is held.
func (o *Leader) of(name worker.CellName, proc worker.Proc) *departed {
	for i := len(o.departed) - 1; i >= 0; i-- {
		if o.departed[i].Proc == proc {
			return o.departed[i]
		}
	}
	d := &departed{Lost: Lost{Cell: name, Proc: proc, At: o.cfg.Clock.Wall()}}
	o.departed = append(o.departed, d)
	o.trim(func(d *departed) bool { return !d.certain }, maxParting)
	return d
}

// trim forgets the oldest of those that are meant, down to most.
func (o *Leader) trim(meant func(*departed) bool, most int) {
	n := 0
	for _, d := range o.departed {
		if meant(d) {
			n++
		}
	}
	o.departed = slices.DeleteFunc(o.departed, func(d *departed) bool {
		if !meant(d) || n <= most {
			return false
		}
		n--
		return true
	})
}

// keepSession keeps what a process had, instances of services among it, when it began to be
// silent, from when on they are placed anew, and when its session ended. The board has not
// been told of that yet.
func (o *Leader) keepSession(e worker.SessionChanged) {
	silent := e.To == worker.MustDie || e.To == worker.Unhealthy && e.From == worker.Healthy
	instances := 0
	if silent {
		instances = o.Board.InstancesOn(string(e.Proc))
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case e.To == worker.Healthy: // it is back
		o.departed = slices.DeleteFunc(o.departed, func(d *departed) bool { return d.Proc == e.Proc })
	case silent:
		d := o.of(e.Cell, e.Proc)
		d.session, d.displaced, d.instances, d.State = e.Reason, e.Displaced && !e.Succeeded, max(d.instances, instances), o.states[e.Cell]
	}
}

// forgotten keeps an operator's word that a process is dead.
func (o *Leader) forgotten(e worker.Audit) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.of(e.Cell, e.Proc).by = e.Text
}

// lostBatch counts a batch task that ended with its process.
func (o *Leader) lostBatch(e worker.Ended) {
	if e.Kind != worker.Lost {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.of(e.Cell, e.Proc).batch++
}

// died keeps the end of a process for who asks for its cell, unless another has the cell's name.
func (o *Leader) died(e worker.Dead, tasks int) (Lost, bool) {
	s, held := o.Registry.Session(e.Cell)
	o.mu.Lock()
	defer o.mu.Unlock()
	d := o.of(e.Cell, e.Proc)
	others := held && s.Proc != e.Proc && !s.Dead
	o.departed = slices.DeleteFunc(o.departed, func(x *departed) bool {
		return x.Cell == e.Cell && (x != d && x.certain || x == d && others)
	})
	if others {
		return Lost{}, false
	}
	d.certain, d.tasks, d.At, d.Left = true, tasks, o.cfg.Clock.Wall(), e.Proof == worker.ProofFarewell
	d.Why, d.Work = d.why(e.Proof), d.work()
	o.trim(func(d *departed) bool { return d.certain }, maxLost)
	return d.Lost, true
}

// taken forgets the cell that was gone: a process has its name.
func (o *Leader) taken(name worker.CellName, proc worker.Proc) {
	o.departed = slices.DeleteFunc(o.departed, func(d *departed) bool { return d.certain && d.Cell == name && d.Proc != proc })
}

func (d *departed) why(p worker.Proof) string {
	text := p.Words()
	if p == worker.ProofOperator && d.by != "" {
		text = d.by
	}
	if d.displaced {
		text = "another process had taken its name; " + text
	}
	return text
}

// work says what was done with what the process had.
func (d *departed) work() string {
	var out []string
	if d.instances > 0 {
		out = append(out, some(d.instances, "instance")+" placed anew on other cells, as these have room")
	}
	if d.tasks > 0 {
		out = append(out, some(d.tasks, "task")+" lost and not started again: cantina task resolve says what became of them")
	}
	if d.batch > 0 {
		out = append(out, some(d.batch, "batch task")+" lost, run again as the retries of the job allow")
	}
	if len(out) == 0 {
		return "nothing was left on it"
	}
	return strings.Join(out, "; ")
}

func some(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Lost lists the cells that are gone and whose names nobody has, by name: the newest that
// this term knows of, at most maxLost.
func (o *Leader) Lost() []Lost {
	o.mu.Lock()
	all := make([]departed, len(o.departed))
	for i, d := range o.departed {
		all[i] = *d
	}
	o.mu.Unlock()
	newest := map[worker.CellName]Lost{}
	for _, d := range all {
		switch _, known := newest[d.Cell]; {
		case d.certain:
			newest[d.Cell] = d.Lost
		case !known && o.Registry.IsDead(d.Proc): // it never had a row: nobody tells that it is dead
			d.Why, d.Work = d.session, "it was never given work"
			newest[d.Cell] = d.Lost
		}
	}
	var out []Lost
	for name, l := range newest {
		if s, held := o.Registry.Session(name); !held || s.Dead && s.Proc == l.Proc {
			out = append(out, l)
		}
	}
	slices.SortFunc(out, func(a, b Lost) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Cell, b.Cell)) })
	out = out[max(0, len(out)-maxLost):]
	slices.SortFunc(out, func(a, b Lost) int { return cmp.Compare(a.Cell, b.Cell) })
	return out
}

// LostCell returns the cell of a name when it is gone.
func (o *Leader) LostCell(name worker.CellName) (Lost, bool) {
	all := o.Lost()
	i := slices.IndexFunc(all, func(l Lost) bool { return l.Cell == name })
	if i < 0 {
		return Lost{}, false
	}
	return all[i], true
}

// Strike takes a cell that is gone off the list. It reports whether the process was on it.
func (o *Leader) Strike(proc worker.Proc) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := len(o.departed)
	o.departed = slices.DeleteFunc(o.departed, func(d *departed) bool { return d.certain && d.Proc == proc })
	return len(o.departed) < n
}

package cell

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"cantina/executor"
	"cantina/internal/text"
	"cantina/placement"
	"cantina/resource"
	"cantina/task"
)

// reporter makes the cell's report about itself: its capacity, the delays of its containers, and
// whether it takes work.
type reporter struct {
	cfg        *Config
	exec       Executor
	containers *containers
	drain      *evacuating
	leaving    *atomic.Bool // of the cell

	mu             sync.Mutex
	version        int64 // of the state sent to the leader
	lastSent       placement.State
	lastConditions []Condition
}

// conditions lists the containers that something holds up, the tasks and batch tasks that are being
// ended, and those that the leader's store does not know.
func (r *reporter) conditions(all []executor.Container) []Condition {
	var held, stopping []Condition
	for _, ct := range all {
		x, ok := r.condition(&ct)
		if !ok {
			continue
		}
		l := ct.Labels
		switch l[labelKind] {
		case kindLRP:
			x.Instance = l[labelInstance]
		case kindTask:
			x.Task, x.UID = l[labelTask], l[labelUID]
		default:
			w := workOf(l)
			x.Job, x.Node, x.UID = w.Job, w.Node, l[labelJobUID]
		}
		if x.Stopping {
			stopping = append(stopping, x)
		} else {
			held = append(held, x)
		}
	}
	for _, list := range [][]Condition{held, stopping} {
		slices.SortFunc(list, func(a, b Condition) int { // those that merely start come last
			return cmp.Or(cmp.Compare(min(1, len(a.Detail)), min(1, len(b.Detail))),
				cmp.Compare(a.What+a.Instance, b.What+b.Instance))
		})
	}
	held = append(held[:min(len(held), maxConditions)], r.remains()...)
	return slices.Concat(held, stopping[:min(len(stopping), maxStopping)])
}

// remains is the condition of a cell that cannot remove directories of earlier containers.
func (r *reporter) remains() []Condition {
	left := r.exec.Disk().Remains
	if len(left) == 0 {
		return nil
	}
	said := "cannot be removed, trying again: " + left[0]
	if more := len(left) - 1; more > 0 {
		said += fmt.Sprintf(", and %d more", more)
	}
	return []Condition{{What: text.CountAs(len(left), "directory of an earlier container",
		"directories of earlier containers"), Text: said}}
}

// condition is the condition of a container, without its identity; false = none.
func (r *reporter) condition(ct *executor.Container) (Condition, bool) {
	x := Condition{What: whatOf(ct.Labels), Text: heldUp(ct)}
	if x.Text != "" {
		_, x.Unknown = r.containers.unknown.get(ct.ID)
		return x, true
	}
	if x.Text, x.Unknown = r.containers.unknown.get(ct.ID); x.Unknown {
		return x, true
	}
	if kind := ct.Labels[labelKind]; (kind == kindTask || kind == kindBatch) && ends(ct) {
		asked, _ := r.containers.endReasons.get(ct.ID)
		if asked == reasonDrained {
			asked = task.ReasonEmptied
		}
		x.Stopping, x.StopBy, x.Text = true, ct.EndBy, cmp.Or(ct.EndWhy, asked, "stopped on request")
		return x, true
	}
	phase := r.containers.atWhat(ct)
	x.Text, x.Since, x.Limit, x.Detail = phase.What, phase.At, phase.Limit, phase.Detail
	return x, x.Text != ""
}

// state is the cell's present report about itself; its version grows when it changes.
func (r *reporter) state() State {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, all := r.cfg.Offer, r.exec.List()
	s.Cell, s.InstanceAddress, s.Capacity, s.Foreign = string(r.cfg.Name), r.cfg.Host, r.exec.Capacity(), r.foreign(all)
	drain := r.drain.now()
	s.Draining = drain.on
	s.Unavailable, s.Withdrawn = r.unavailable(all), r.exec.Withdrawn()
	now := r.conditions(all)
	if r.version == 0 || !sameState(s, r.lastSent) || !slices.Equal(now, r.lastConditions) {
		r.version++
		r.lastSent, r.lastConditions = s, now
	}
	s.Version = r.version
	return State{State: s, Address: r.cfg.Address, Build: r.cfg.Build, Isolation: r.exec.Isolation(),
		Conditions: now, Drain: r.drainState(drain)}
}

// foreign is the capacity used by containers that survived KILL or that the leader's store does
// not contain, and disk space used without a reservation.
func (r *reporter) foreign(all []executor.Container) resource.Amounts {
	sum := resource.Amounts{}
	for _, ct := range all {
		if _, unknown := r.containers.unknown.get(ct.ID); unknown || ct.Stuck != nil {
			sum = sum.Add(ct.Resources)
		}
	}
	if mb := r.exec.Disk().ForeignMB; mb > 0 {
		sum = sum.Add(resource.Amounts{resource.DiskMB: mb})
	}
	return sum
}

// unavailable is why the cell takes no work although it is alive: a process that
// cannot be killed makes it unclean, one that leaves waits for its work to end, and where
// nothing can be written nothing can run.
func (r *reporter) unavailable(all []executor.Container) string {
	for _, ct := range all {
		if ct.Stuck != nil {
			return "unclean: " + describe(&ct)
		}
	}
	if r.leaving.Load() {
		return leavingText
	}
	if fault := r.exec.Disk().Fault; fault != nil {
		return fault.Error()
	}
	return ""
}

// drainState is the cell's report of its drain.
func (r *reporter) drainState(e drainState) DrainState {
	s := DrainState{ID: e.id, Over: e.over, Timeout: r.cfg.DrainTimeout}
	switch {
	case e.over:
		s.Waits = e.waited
	case e.on:
		s.Waits = shorten(r.containers.live())
	}
	return s
}

package batch

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"cantina/fault"
	"cantina/placement"
	"cantina/resource"
)

// Errors of the board.
var (
	// ErrUnknownJob: no such job on this board.
	ErrUnknownJob = fault.New(fault.ErrNotFound, "unknown job")
	// ErrUnknownNode: the job has no such node.
	ErrUnknownNode = fault.New(fault.ErrNotFound, "unknown node")
	// ErrNotPicked: the batch task was not picked, or runs already.
	ErrNotPicked = errors.New("batch task was not picked")
	// ErrRunning: an invocation may be running.
	ErrRunning = errors.New("batch task is running")
)

// Board is one forest, the jobs over it and the statuses of their nodes. It is an
// owned value: not safe for concurrent use, unchanged on error.
type Board struct {
	f     *forest // the same for ever; its content changes
	terms terms
	jobs
	runs
	clock
	reservation
	derived
	orphans
	expiry
	watch func(job string) // see Watch
	turn  string           // the job that started last (round robin)
	dice  rand.PCG         // of the draws (randomized priority)
}

// NewBoard returns a board with only the instance node. It returns ErrNodes for a
// spec that cannot be.
func NewBoard(spec ForestSpec) (*Board, error) {
	if err := CheckForest(&spec); err != nil {
		return nil, err
	}
	b := &Board{f: newForest(spec), runs: runs{byKey: make(map[Key]*run)}, watch: func(string) {}}
	b.jobs = jobs{f: b.f, named: make(map[string]*job)}
	b.clock.jobs = &b.jobs
	b.reservation = reservation{f: b.f, jobs: &b.jobs, clock: &b.clock}
	b.derived = derived{f: b.f, jobs: &b.jobs, clock: &b.clock, reservation: &b.reservation}
	b.expiry = expiry{f: b.f, jobs: &b.jobs, runs: &b.runs}
	b.orphans = orphans{f: b.f, runs: &b.runs, clock: &b.clock}
	return b, b.f.plant(nil)
}

// Spec returns the spec of the forest.
func (b *Board) Spec() ForestSpec { return b.f.spec }

// Watch has f called at each change that may leave something to do for the owner of the board: start a task, end an
// orphan, note the time of a backoff. f gets the name of the job that changed, "" = any of them, and must not call
// the board.
func (b *Board) Watch(f func(job string)) { b.watch = f }

// Cells returns the order of cells for the tasks of the forest, and its weights.
func (b *Board) Cells() (placement.Order, map[string]int) { return b.f.spec.Cells, b.f.weights }

// SetNodes replaces the nodes. Statuses, running tasks and draws stay. On an error (ErrNodes) the
// old nodes stay.
func (b *Board) SetNodes(specs []NodeSpec) error {
	if err := b.f.plant(specs); err != nil {
		return err
	}
	b.reservation.kept, b.orphans.stale = nil, true
	b.placeAdopted()
	b.derived.refitAll()
	b.watch("")
	return nil
}

// Configure replaces levels, limits, order and policy. If the levels or the names of their
// resources changed, everything is rebuilt from names; nodes on removed levels are removed.
func (b *Board) Configure(spec ForestSpec) error {
	if err := CheckForest(&spec); err != nil {
		return err
	}
	fresh := newForest(spec)
	fresh.sown, fresh.visits = b.f.sown, b.f.visits
	var nodes []NodeSpec
	for _, n := range b.f.nodes {
		if fresh.level(n.Level) > 0 {
			nodes = append(nodes, n)
		}
	}
	if err := fresh.plant(nodes); err != nil { // the sources will give the nodes of the new levels
		if err := fresh.plant(nil); err != nil {
			return err
		}
	}
	old := *b.f
	*b.f, b.reservation.kept, b.orphans.stale = *fresh, nil, true
	for _, j := range b.jobs.order {
		records, level := j.records, j.level
		b.f.prepare(j)
		b.f.carry(j, records, old.names[level].list)
	}
	for _, key := range b.runs.runKeys("") {
		b.f.redraw(b.runs.byKey[key], &old)
	}
	b.jobs.rewire()
	b.derived.refitAll()
	b.watch("")
	return nil
}

// carry carries a job's statuses over to its present level, by the names that the nodes had.
func (f *forest) carry(j *job, records []record, names []string) {
	j.records = nil
	for i := range records {
		if records[i] != (record{}) {
			*j.record(f.node(j.level, names[i])) = records[i]
		}
	}
}

// redraw allocates a run's draws on a new forest, by names.
func (f *forest) redraw(r *run, old *forest) {
	if r.job != nil {
		r.node = f.node(r.job.level, r.key.Node)
	}
	var draws []draw
	for _, d := range r.draws {
		level := f.level(old.levels[d.level])
		if level < 0 {
			continue
		}
		nd := draw{level: level, node: f.node(level, old.names[d.level].list[d.node]),
			need: make([]int, len(f.resources[level]))}
		for i, x := range d.need {
			if k := slices.Index(f.resources[level], old.resources[d.level][i]); k >= 0 {
				nd.need[k] = x
			}
		}
		f.take(nd, 1)
		draws = append(draws, nd)
	}
	r.draws = draws
}

// Put adds a job or changes its configuration; statuses stay if the UID is the same, and are reset
// otherwise. Problems of the job make it invalid and are returned; they are no error.
func (b *Board) Put(spec Job) (problems []string) {
	defer b.watch(spec.Name)
	j := b.jobs.named[spec.Name]
	b.reservation.release(j)
	if j != nil && j.UID != spec.UID {
		b.Delete(spec.Name)
		j = nil
	}
	if j == nil {
		j = &job{Job: spec, gate: Gate{Shut: len(spec.After) > 0}}
		b.jobs.add(j)
		b.f.prepare(j)
		for _, key := range b.runs.runKeys(spec.Name) { // it runs already: a report came before its row
			if r := b.runs.byKey[key]; r.job == nil {
				r.job, r.node = j, b.f.node(j.level, key.Node)
				r.mark(j.record(r.node))
			}
		}
	} else {
		old := *j
		if j.Job = spec; !slices.Equal(old.After, spec.After) {
			j.gate = Gate{Shut: len(spec.After) > 0}
		}
		b.f.prepare(j)
		if j.level != old.level {
			b.f.carry(j, old.records, b.f.names[old.level].list)
			for _, key := range b.runs.runKeys(j.Name) {
				if r := b.runs.byKey[key]; r.job == j {
					r.node = b.f.node(j.level, r.key.Node)
				}
			}
		}
	}
	b.orphans.stale = true
	b.jobs.rewire()
	drawn := b.placeAdopted()
	b.derived.refit(j)
	for _, d := range drawn {
		b.jobs.drawn(d.level, d.node)
	}
	for _, w := range j.waiters {
		b.derived.recheck(w)
	}
	return slices.Concat(j.Errors, j.problems)
}

// Delete removes a job and its statuses. Running tasks are still accounted for until they end.
func (b *Board) Delete(name string) {
	j := b.jobs.named[name]
	if j == nil {
		return
	}
	b.watch(name)
	b.reservation.release(j)
	b.jobs.remove(j)
	for _, key := range b.runs.runKeys(name) {
		r := b.runs.byKey[key]
		if r.job = nil; r.inv.IsZero() {
			b.giveBack(r)
			b.runs.remove(r)
		}
	}
	b.jobs.rewire()
	for _, w := range j.waiters {
		b.derived.recheck(w)
	}
}

// prepare computes the values that depend on the job and the forest's levels.
func (f *forest) prepare(j *job) {
	j.problems, j.filters, j.hostAt, j.hosts = nil, make([]*matcher, len(f.levels)), -1, nil
	say := func(format string, args ...any) { j.problems = append(j.problems, fmt.Sprintf(format, args...)) }
	j.level = len(f.levels) - 1
	if j.Level != "" {
		if l := f.level(j.Level); l >= 0 {
			j.level = l
		} else {
			say("level_for_tasks: unknown level %q", j.Level)
		}
	}
	f.prepareNeeds(j, say)
	for _, level := range slices.Sorted(maps.Keys(j.Filters)) {
		m, err := j.Filters[level].compile(j.ShortName())
		switch l := f.level(level); {
		case err != nil:
			say("filters: level %q: %v", level, err)
		case l >= 0:
			j.filters[l] = m
		case level != LevelWorker:
			say("filters: unknown level %q", level)
		case len(m.tags) > 0:
			say("filters: level %q has no tags", level)
		default:
			j.hosts = &placement.Hosts{Key: fmt.Sprintf("%q %#v", j.Name, j.Filters[level]),
				Pass: func(host string) bool { return m.pass(host, nil) }}
		}
	}
	if j.HostLevel != "" {
		if j.hostAt = f.level(j.HostLevel); j.hostAt < 0 || j.hostAt > j.level {
			say("level_for_host_placement: %q is no level above the tasks", j.HostLevel)
			j.hostAt = -1
		}
	}
	if err := j.Backoff.Check(); err != nil {
		say("%v", err)
	}
	if !(math.Abs(j.Priority) <= maxPriority) {
		say("priority: %v is not between -%.0f and %.0f", j.Priority, maxPriority, maxPriority)
	}
	if slices.Contains(j.DependsOn, j.Name) {
		say("depends_on: the job depends on itself")
	}
	if slices.Contains(j.After, j.Name) {
		say("after: the job comes after itself")
	}
}

func (f *forest) prepareNeeds(j *job, say func(string, ...any)) {
	j.needs, j.cell = make([][]int, len(f.levels)), make(resource.Amounts)
	for i, level := range f.levels {
		j.needs[i] = make([]int, len(f.resources[i]))
		for k, name := range f.resources[i] {
			j.needs[i][k] = f.spec.Limits[level][name].Default
		}
	}
	for name, l := range f.spec.Limits[LevelWorker] {
		j.cell[name] = l.Default
	}
	for _, level := range slices.Sorted(maps.Keys(j.Resources)) {
		l := f.level(level)
		if l < 0 && level != LevelWorker {
			say("resources: unknown level %q", level)
			continue
		}
		for _, name := range j.Resources[level].Names() {
			n := j.Resources[level][name]
			switch {
			case n < 0:
				say("resources: level %q: %s is negative", level, name)
			case l < 0:
				j.cell[name] = n
			default:
				k := slices.Index(f.resources[l], name)
				if k < 0 {
					say("resources: level %q has no resource %q", level, name)
					continue
				}
				j.needs[l][k] = min(n, maxLimit)
			}
		}
	}
	j.takes = make([]resource.Amounts, len(f.levels))
	for l, need := range j.needs {
		j.takes[l] = f.amounts(l, need)
	}
}

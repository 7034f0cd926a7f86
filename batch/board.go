package batch

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cantina/fault"
	"cantina/fence"
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
	spec    ForestSpec
	nodes   []NodeSpec // as planted last
	f       *forest
	jobs    map[string]*job
	order   []*job // by name
	turn    string // the job that started last (round robin)
	terms   terms
	runs    map[Key]*run
	live    int // runs that have an invocation
	due     timers
	thin    int // length of due at which past and duplicate entries are dropped
	sown    int // how often the places were laid out
	now     int64
	began   int64 // the first time of Advance
	visits  int64
	kept    *keep           // room for a job that has waited too long
	touched map[string]bool // jobs, see Touched
	users   [][]*job        // per level: jobs whose tasks pass it
}

// job is one job as the board runs it.
type job struct {
	Job
	level    int
	needs    [][]int // per level, in the forest's order of resources
	cell     resource.Amounts
	hostAt   int // level of host placement, -1 = none
	filters  []*matcher
	problems []string // why it is invalid on this forest
	records  []record
	t        tournament
	waiters  []*job // jobs that depend on this one
	counts   [classes]int
	// blocked keeps the whole job from starting, shut single places (by their pinned or held cells),
	// until Unblock.
	blocked string
	shut    map[int32]string
	// starved is since when it has ready nodes and started none for lack of room on nodes (Unix
	// milliseconds); 0 = it is not starved.
	starved int64
}

// run is one batch task that may be running, or is picked to run.
type run struct {
	key   Key
	job   *job   // nil: its job left the board
	uid   string // of the job that started it; empty = not known
	node  int32
	place int32            // where it was picked; -1 = adopted
	sown  int              // of the board, when it was picked: later, place means nothing
	inv   fence.Invocation // zero: picked, not started
	draws []draw
	next  NextBackoff
	cell  string
	since int64 // Unix milliseconds
}

// NewBoard returns a board with only the instance node. It returns ErrNodes for a
// spec that cannot be.
func NewBoard(spec ForestSpec) (*Board, error) {
	if err := CheckForest(&spec); err != nil {
		return nil, err
	}
	b := &Board{spec: spec, jobs: make(map[string]*job), runs: make(map[Key]*run), f: newForest(&spec)}
	b.users = make([][]*job, len(b.f.levels))
	return b, b.f.plant(&spec, nil)
}

// Spec returns the spec of the forest.
func (b *Board) Spec() ForestSpec { return b.spec }

// Visits returns how many places all passes have looked at so far.
func (b *Board) Visits() int64 { return b.visits }

// SetNodes replaces the nodes. Statuses, running tasks and draws stay. On an error (ErrNodes) the
// old nodes stay.
func (b *Board) SetNodes(specs []NodeSpec) error {
	if err := b.f.plant(&b.spec, specs); err != nil {
		return err
	}
	b.nodes, b.kept = specs, nil
	b.sown++
	b.placeAdopted()
	b.refitAll()
	return nil
}

// Configure replaces levels, limits, order and policy. If the levels or the names of their
// resources changed, everything is rebuilt from names; nodes on removed levels are removed.
func (b *Board) Configure(spec ForestSpec) error {
	if err := CheckForest(&spec); err != nil {
		return err
	}
	fresh := newForest(&spec)
	var nodes []NodeSpec
	for _, n := range b.nodes {
		if fresh.level(n.Level) > 0 {
			nodes = append(nodes, n)
		}
	}
	if err := fresh.plant(&spec, nodes); err != nil {
		nodes = nil // the sources will give the nodes of the new levels
		if err := fresh.plant(&spec, nil); err != nil {
			return err
		}
	}
	old := b.f
	b.spec, b.f, b.nodes, b.kept = spec, fresh, nodes, nil
	b.sown++
	b.users = make([][]*job, len(fresh.levels))
	for _, j := range b.order {
		b.move(j, old)
	}
	for _, key := range b.runKeys("") {
		b.redraw(b.runs[key], old)
	}
	b.rewire()
	b.refitAll()
	return nil
}

// move carries a job's statuses over to a new forest, by name.
func (b *Board) move(j *job, old *forest) {
	records, level := j.records, j.level
	j.records = nil
	b.prepare(j)
	for i := range records {
		if records[i] != (record{}) {
			*b.record(j, b.f.node(j.level, old.names[level].list[i])) = records[i]
		}
	}
}

// redraw allocates a run's draws on a new forest, by names.
func (b *Board) redraw(r *run, old *forest) {
	if r.job != nil {
		r.node = b.f.node(r.job.level, r.key.Node)
	}
	var draws []draw
	for _, d := range r.draws {
		level := b.f.level(old.levels[d.level])
		if level < 0 {
			continue
		}
		nd := draw{level: level, node: b.f.node(level, old.names[d.level].list[d.node]), need: make([]int, len(b.f.resources[level]))}
		for i, x := range d.need {
			if k := slices.Index(b.f.resources[level], old.resources[d.level][i]); k >= 0 {
				nd.need[k] = x
			}
		}
		b.f.take(nd, 1)
		draws = append(draws, nd)
	}
	r.draws = draws
}

// Put adds a job or changes its configuration; statuses stay if the UID is the same, and are reset
// otherwise. Problems of the job make it invalid and are returned; they are no error.
func (b *Board) Put(spec Job) (problems []string) {
	j := b.jobs[spec.Name]
	if b.kept != nil && b.kept.job == j {
		b.unkeep()
	}
	if j != nil && j.UID != spec.UID {
		b.Delete(spec.Name)
		j = nil
	}
	if j == nil {
		j = &job{Job: spec}
		b.jobs[spec.Name] = j
		b.order = append(b.order, j)
		slices.SortFunc(b.order, func(x, y *job) int { return strings.Compare(x.Name, y.Name) })
		b.prepare(j)
		for _, key := range b.runKeys(spec.Name) { // it runs already: a report came before its row
			if r := b.runs[key]; r.job == nil {
				r.job, r.node = j, b.f.node(j.level, key.Node)
				r.mark(b.record(j, r.node))
			}
		}
	} else {
		old := *j
		j.Job = spec
		b.prepare(j)
		if j.level != old.level {
			b.relevel(j, &old)
		}
	}
	b.rewire()
	drawn := b.placeAdopted()
	b.refit(j)
	for _, d := range drawn {
		b.drawn(d.level, d.node)
	}
	for _, w := range j.waiters {
		b.recheck(w)
	}
	return slices.Concat(j.Errors, j.problems)
}

// relevel carries statuses over to another level of the same forest, by name.
func (b *Board) relevel(j *job, old *job) {
	j.records = nil
	for i := range old.records {
		if old.records[i] != (record{}) {
			*b.record(j, b.f.node(j.level, b.f.names[old.level].list[i])) = old.records[i]
		}
	}
	for _, key := range b.runKeys(j.Name) {
		if r := b.runs[key]; r.job == j {
			r.node = b.f.node(j.level, r.key.Node)
		}
	}
}

// runKeys returns the picked or running tasks, of one job or of all (empty), in order: the result
// must not depend on the map's order.
func (b *Board) runKeys(job string) []Key {
	var out []Key
	for k := range b.runs {
		if job == "" || k.Job == job {
			out = append(out, k)
		}
	}
	slices.SortFunc(out, Key.Compare)
	return out
}

// Delete removes a job and its statuses. Running tasks are still accounted for until they end.
func (b *Board) Delete(name string) {
	j := b.jobs[name]
	if j == nil {
		return
	}
	if b.kept != nil && b.kept.job == j {
		b.unkeep()
	}
	delete(b.jobs, name)
	b.order = slices.DeleteFunc(b.order, func(x *job) bool { return x == j })
	for _, key := range b.runKeys(name) {
		r := b.runs[key]
		if r.job = nil; r.inv.IsZero() {
			b.giveBack(r)
			delete(b.runs, key)
		}
	}
	b.rewire()
	for _, w := range j.waiters {
		b.recheck(w)
	}
}

// prepare computes the values that depend on the job and the forest's levels.
func (b *Board) prepare(j *job) {
	j.problems, j.filters, j.hostAt = nil, make([]*matcher, len(b.f.levels)), -1
	say := func(format string, args ...any) { j.problems = append(j.problems, fmt.Sprintf(format, args...)) }
	j.level = len(b.f.levels) - 1
	if j.Level != "" {
		if l := b.f.level(j.Level); l >= 0 {
			j.level = l
		} else {
			say("level_for_tasks: unknown level %q", j.Level)
		}
	}
	b.prepareNeeds(j, say)
	for _, level := range slices.Sorted(maps.Keys(j.Filters)) {
		m, err := j.Filters[level].compile(j.Name)
		switch l := b.f.level(level); {
		case err != nil:
			say("filters: level %q: %v", level, err)
		case l >= 0:
			j.filters[l] = m
		case level != LevelWorker:
			say("filters: unknown level %q", level)
		}
	}
	if j.HostLevel != "" {
		if j.hostAt = b.f.level(j.HostLevel); j.hostAt < 0 || j.hostAt > j.level {
			say("level_for_host_placement: %q is no level above the tasks", j.HostLevel)
			j.hostAt = -1
		}
	}
	if err := j.Backoff.Check(); err != nil {
		say("%v", err)
	}
	if slices.Contains(j.DependsOn, j.Name) {
		say("depends_on: the job depends on itself")
	}
}

func (b *Board) prepareNeeds(j *job, say func(string, ...any)) {
	j.needs, j.cell = make([][]int, len(b.f.levels)), make(resource.Amounts)
	for i, level := range b.f.levels {
		j.needs[i] = make([]int, len(b.f.resources[i]))
		for k, name := range b.f.resources[i] {
			j.needs[i][k] = b.spec.Limits[level][name].Default
		}
	}
	for name, l := range b.spec.Limits[LevelWorker] {
		j.cell[name] = l.Default
	}
	for _, level := range slices.Sorted(maps.Keys(j.Resources)) {
		l := b.f.level(level)
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
				k := slices.Index(b.f.resources[l], name)
				if k < 0 {
					say("resources: level %q has no resource %q", level, name)
					continue
				}
				j.needs[l][k] = min(n, maxLimit)
			}
		}
	}
}

// rewire connects dependencies and the levels that jobs pass.
func (b *Board) rewire() {
	for l := range b.users {
		b.users[l] = b.users[l][:0]
	}
	for _, j := range b.order {
		j.waiters = nil
		for l := 0; l <= j.level; l++ {
			b.users[l] = append(b.users[l], j)
		}
	}
	for _, j := range b.order {
		for _, name := range j.DependsOn {
			if d := b.jobs[name]; d != nil && !slices.Contains(d.waiters, j) {
				d.waiters = append(d.waiters, j)
			}
		}
	}
}

// Job returns a job and its problems on this forest.
func (b *Board) Job(name string) (Job, []string, bool) {
	j := b.jobs[name]
	if j == nil {
		return Job{}, nil, false
	}
	return j.Job, slices.Concat(j.Errors, j.problems), true
}

// Jobs returns the names of all jobs, sorted.
func (b *Board) Jobs() []string {
	out := make([]string, len(b.order))
	for i, j := range b.order {
		out[i] = j.Name
	}
	return out
}

// runnable reports whether a job may start anything.
func (b *Board) runnable(j *job) bool {
	return !b.spec.Disabled && j.CanRun() && len(j.problems) == 0
}

package batch

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"cantina/placement"
	"cantina/resource"
)

// jobs are the jobs over a forest, which of them pass a level, and which depend on each other.
type jobs struct {
	f     *forest
	named map[string]*job
	order []*job   // by name
	users [][]*job // per level: jobs whose tasks pass it
}

// job is one job as the board runs it.
type job struct {
	Job
	level    int
	needs    [][]int            // per level, in the forest's order of resources
	takes    []resource.Amounts // the same, above 0; shared by all starts
	cell     resource.Amounts
	hostAt   int // level of host placement, -1 = none
	filters  []*matcher
	hosts    *placement.Hosts // nil = all cells
	problems []string         // why it is invalid on this forest
	records  []record
	avoided  []bool // places that its filters avoid
	t        tournament
	waiters  []*job // jobs that depend on this one
	gate     Gate
	counts   [classes]int
	// blocked keeps the whole job from starting, shut single places (by their pinned or held cells),
	// until Unblock.
	blocked string
	shut    map[int32]string
	// starved is since when it has ready nodes and started none for lack of room on nodes (Unix
	// milliseconds); 0 = it is not starved.
	starved int64
}

func (js *jobs) add(j *job) {
	js.named[j.Name] = j
	js.order = append(js.order, j)
	slices.SortFunc(js.order, func(x, y *job) int { return strings.Compare(x.Name, y.Name) })
}

func (js *jobs) remove(j *job) {
	delete(js.named, j.Name)
	js.order = slices.DeleteFunc(js.order, func(x *job) bool { return x == j })
}

// rewire connects dependencies and the levels that jobs pass.
func (js *jobs) rewire() {
	if len(js.users) != len(js.f.levels) {
		js.users = make([][]*job, len(js.f.levels))
	}
	for l := range js.users {
		js.users[l] = js.users[l][:0]
	}
	for _, j := range js.order {
		j.waiters = nil
		for l := 0; l <= j.level; l++ {
			js.users[l] = append(js.users[l], j)
		}
	}
	for _, j := range js.order {
		for _, name := range j.DependsOn {
			if d := js.named[name]; d != nil && !slices.Contains(d.waiters, j) {
				d.waiters = append(d.waiters, j)
			}
		}
	}
}

// Job returns a job and its problems on this forest.
func (js *jobs) Job(name string) (Job, []string, bool) {
	j := js.named[name]
	if j == nil {
		return Job{}, nil, false
	}
	return j.Job, slices.Concat(j.Errors, j.problems), true
}

// Visits returns how many (job, place) pairs were visited so far: the cost of all decisions.
func (js *jobs) Visits() int64 { return js.f.visits }

// Jobs returns the names of all jobs, sorted.
func (js *jobs) Jobs() []string {
	out := make([]string, len(js.order))
	for i, j := range js.order {
		out[i] = j.Name
	}
	return out
}

// runnable reports whether a job may start anything.
func (js *jobs) runnable(j *job) bool {
	return !js.f.spec.Disabled && j.CanRun() && len(j.problems) == 0
}

func (js *jobs) lookup(k Key) (*job, int32, error) {
	j := js.named[k.Job]
	if j == nil {
		return nil, 0, fmt.Errorf("job %q: %w", k.Job, ErrUnknownJob)
	}
	n, ok := js.f.names[j.level].index[k.Node]
	if !ok {
		return nil, 0, fmt.Errorf("job %q, node %q: %w", k.Job, k.Node, ErrUnknownNode)
	}
	return j, n, nil
}

// Unblock clears all refusals: their reasons may have changed.
func (js *jobs) Unblock() {
	for _, j := range js.order {
		j.blocked = ""
		shut := j.shut
		j.shut = nil
		for _, p := range slices.Sorted(maps.Keys(shut)) {
			j.t.update(p)
		}
	}
}

// Blocked reports whether any refusal is in force.
func (js *jobs) Blocked() bool {
	return slices.ContainsFunc(js.order, func(j *job) bool { return j.blocked != "" || len(j.shut) > 0 })
}

// CellNeeds returns the amounts that one task of a job takes from its cell.
func (js *jobs) CellNeeds(name string) resource.Amounts {
	if j := js.named[name]; j != nil {
		return j.cell
	}
	return nil
}

// twin is the number that the node of a job has for a job that it depends on; false
// when that one has no node of the name.
func (js *jobs) twin(d, j *job, node int32) (at int32, ok bool) {
	if d.level == j.level {
		return node, int(node) < len(d.records)
	}
	at, ok = js.f.names[d.level].index[js.f.names[j.level].list[node]]
	return at, ok && int(at) < len(d.records)
}

// doneOn reports whether a job is done on the node of the same name.
func (js *jobs) doneOn(d, j *job, node int32) bool {
	at, ok := js.twin(d, j, node)
	return ok && d.records[at].bits&Done != 0 && !d.records[at].running
}

// hopeless reports whether a job will not be done on a node without a change: it failed there
// permanently, does not run there, is invalid, or depends on such a job, through any chain. It
// uses only statuses and flags, not counts.
func (js *jobs) hopeless(j *job, node int32) bool {
	return js.hopelessAt(j, node, &search{})
}

func (js *jobs) hopelessOn(d, j *job, node int32, s *search) bool {
	at, ok := js.twin(d, j, node)
	return !ok || js.hopelessAt(d, at, s)
}

func (js *jobs) hopelessAt(j *job, node int32, s *search) bool {
	x := &j.records[node]
	switch {
	case x.running, x.bits&Done != 0:
		return false
	case x.bits&Failed != 0, x.flags&(flagPlaced|flagAvoided) != flagPlaced, len(j.Errors)+len(j.problems) > 0,
		j.gate.Never:
		return true
	case len(j.DependsOn) == 0:
		return false
	}
	if onTheWay, seen := s.seen[j]; seen {
		return onTheWay // then it is a circle
	}
	if s.seen == nil {
		s.seen = make(map[*job]bool)
	}
	s.seen[j] = true
	for _, name := range j.DependsOn {
		if d := js.named[name]; d == nil || js.hopelessOn(d, j, node, s) {
			return true
		}
	}
	s.seen[j] = false
	return false
}

// redrawn updates the tournaments for which a draw (sign +1) or its return (-1) has changed whether its node has room.
func (js *jobs) redrawn(d draw, sign int) {
	for _, j := range js.users[d.level] {
		if js.f.turned(d, sign, j.needs[d.level]) {
			js.f.placesOf(d.level, d.node, j.t.update)
		}
	}
}

// drawn updates every tournament that passes a node after something was taken from
// it or given back.
func (js *jobs) drawn(level int, node int32) {
	for _, j := range js.users[level] {
		js.f.placesOf(level, node, j.t.update)
	}
}

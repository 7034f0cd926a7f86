package batch

import (
	"cmp"
	"maps"
	"slices"

	"cantina/fence"
)

// runs are the batch tasks that are picked or may be running.
type runs struct {
	byKey map[Key]*run
	live  int // those that have an invocation
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

// remove forgets a run.
func (rs *runs) remove(r *run) {
	delete(rs.byKey, r.key)
	if !r.inv.IsZero() {
		rs.live--
	}
}

// runKeys returns the picked or running tasks, of one job or of all (empty), in order: the result
// must not depend on the map's order.
func (rs *runs) runKeys(job string) []Key {
	var out []Key
	for k := range rs.byKey {
		if job == "" || k.Job == job {
			out = append(out, k)
		}
	}
	slices.SortFunc(out, Key.Compare)
	return out
}

// maxHolders is how many holders are named.
const maxHolders = 10

// holders returns the batch tasks that draw resource i from a node, those with the largest draw
// first, and how many of them must at least end for an amount.
func (rs *runs) holders(level int, node int32, i, amount int) (out []Key, ends int) {
	draws := make(map[Key]int)
	for k, r := range rs.byKey {
		for _, d := range r.draws {
			if d.level == level && d.node == node && d.need[i] > 0 {
				draws[k] += d.need[i]
			}
		}
	}
	out = slices.Collect(maps.Keys(draws))
	slices.SortFunc(out, func(a, c Key) int { return cmp.Or(cmp.Compare(draws[c], draws[a]), a.Compare(c)) })
	for _, k := range out {
		if amount <= 0 {
			break
		}
		amount -= draws[k]
		ends++
	}
	return out, ends
}

// Running returns the invocation that may be running, and its cell.
func (rs *runs) Running(k Key) (inv fence.Invocation, cell string, ok bool) {
	if r := rs.byKey[k]; r != nil && !r.inv.IsZero() {
		return r.inv, r.cell, true
	}
	return fence.Invocation{}, "", false
}

// Picked reports whether a batch task is picked and not started.
func (rs *runs) Picked(k Key) bool {
	r := rs.byKey[k]
	return r != nil && r.inv.IsZero()
}

// Live returns how many batch tasks may be running.
func (rs *runs) Live() int { return rs.live }

// Runs lists the possibly running tasks, in order of job and node; an empty job = all.
func (rs *runs) Runs(job string) []RunView {
	var out []RunView
	for k, r := range rs.byKey {
		if !r.inv.IsZero() && (job == "" || k.Job == job) {
			out = append(out, RunView{Key: k, Invocation: r.inv, Cell: r.cell, Since: r.since, Orphan: r.job == nil})
		}
	}
	slices.SortFunc(out, func(a, c RunView) int { return a.Key.Compare(c.Key) })
	return out
}

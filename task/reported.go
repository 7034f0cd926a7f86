package task

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"cantina/internal/multimap"
)

// Reported are the containers of tasks that cells have reported and no row has: the store went back,
// and has no row of their task. A task that is made under the name of one is that task. The owner of
// the board stores them, so that a later leader has them too.
type Reported struct {
	all     map[string]Found             // by guid
	runs    multimap.Map[string, string] // beginning of a guid, up to any dot → guids
	changed map[string]struct{}          // guids
}

// Add records a container. A later report of the same task replaces an earlier one.
func (r *Reported) Add(guid string, f Found) {
	if old, ok := r.all[guid]; !ok || old != f {
		r.Load(guid, f)
		r.changed[guid] = struct{}{}
	}
}

// Load is Add of a container that is stored.
func (r *Reported) Load(guid string, f Found) {
	if r.all == nil {
		r.all, r.runs, r.changed = map[string]Found{}, multimap.Map[string, string]{}, map[string]struct{}{}
	}
	r.all[guid] = f
	r.setRuns(guid, true)
}

// setRuns keeps runs.
func (r *Reported) setRuns(guid string, in bool) {
	for i, c := range guid {
		if c == '.' {
			r.runs.Set(guid[:i], guid, in)
		}
	}
}

// Get returns the container of a task.
func (r *Reported) Get(guid string) (Found, bool) {
	f, ok := r.all[guid]
	return f, ok
}

// Remove forgets the container of a task.
func (r *Reported) Remove(guid string) {
	if _, ok := r.all[guid]; ok {
		delete(r.all, guid)
		r.setRuns(guid, false)
		r.changed[guid] = struct{}{}
	}
}

// Settle forgets the containers whose task has a row. It is called after a load.
func (r *Reported) Settle(row func(guid string) *Task) {
	for guid, f := range r.all {
		if t := row(guid); t != nil && t.UID == f.UID {
			r.Remove(guid)
		}
	}
}

// Procs returns the processes that have the containers, in no order; some may be repeated.
func (r *Reported) Procs() (procs []string) {
	for _, f := range r.all {
		procs = append(procs, f.By.Proc)
	}
	return procs
}

// Changed returns the guids whose container changed since Stored, in order.
func (r *Reported) Changed() []string { return slices.Sorted(maps.Keys(r.changed)) }

// Stored begins a new list of changes.
func (r *Reported) Stored() { clear(r.changed) }

// Drop forgets the containers of a process that is certainly dead.
func (r *Reported) Drop(proc string) {
	for guid, f := range r.all {
		if f.By.Proc == proc {
			r.Remove(guid)
		}
	}
}

// Keep forgets the containers of a process that are not among guids, all of those that it has.
func (r *Reported) Keep(proc string, guids []string) {
	for guid, f := range r.all {
		if f.By.Proc == proc && !slices.Contains(guids, guid) {
			r.Remove(guid)
		}
	}
}

// AppliedBase returns the guid of the first run of a task of a spec file. Later runs have a dot and a
// number after it.
func AppliedBase(guid string) string {
	if i := strings.LastIndexByte(guid, '.'); i >= 0 {
		if _, err := strconv.ParseUint(guid[i+1:], 10, 32); err == nil {
			return guid[:i]
		}
	}
	return guid
}

// Applied returns the container of a run of a task of a spec file, by the guid of the first run. "" if
// there is none.
func (r *Reported) Applied(base string) (guid string) {
	if _, ok := r.all[base]; ok {
		return base
	}
	for g := range r.runs[base] {
		if AppliedBase(g) == base && (guid == "" || g < guid) {
			guid = g
		}
	}
	return guid
}

// Run returns the first of the tasks whose guid is prefix, a dot and more, and their number; "" if
// there is none. Except, and those of except, a dot and more, do not count.
func (r *Reported) Run(prefix, except string) (guid string, n int) {
	for g := range r.runs[prefix] {
		if g == except || strings.HasPrefix(g, except+".") {
			continue
		}
		if n++; guid == "" || g < guid {
			guid = g
		}
	}
	return guid, n
}

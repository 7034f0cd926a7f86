package lrp

import (
	"maps"
	"slices"
	"time"

	"cantina/internal/multimap"
)

// Reported are the containers of indices that run at most once, which cells have reported and no
// row names: rows of a store that went back may name others, or none. The owner of the board stores
// them, so that a later leader has them too.
type Reported struct {
	all     map[Key][]Identity
	changed map[Key]struct{}
}

// Get returns the containers of an index.
func (r *Reported) Get(k Key) []Identity { return r.all[k] }

// Set replaces the containers of an index; none forgets it. It is not a change to be stored.
func (r *Reported) Set(k Key, all []Identity) {
	if len(all) == 0 {
		delete(r.all, k)
		return
	}
	if r.all == nil {
		r.all = map[Key][]Identity{}
	}
	r.all[k] = all
}

// Add records a container that a process has reported, if no row of its index x names it.
func (r *Reported) Add(x Index, by Identity) {
	if owns(x, by) || slices.Contains(r.all[x.Key], by) {
		return
	}
	r.put(x.Key, append(without(r.all[x.Key], by.Same), by))
}

// Drop forgets the containers of a process that is certainly dead.
func (r *Reported) Drop(proc string) {
	for k, all := range r.all {
		r.put(k, without(all, func(o Identity) bool { return o.Proc == proc }))
	}
}

// Keep forgets the containers of a process that it does not have any more.
func (r *Reported) Keep(proc string, has func(k Key, instance string) bool) {
	for k, all := range r.all {
		r.put(k, without(all, func(o Identity) bool { return o.Proc == proc && !has(k, o.Instance) }))
	}
}

// Settle forgets the containers that a row of their index names. It is called after a load.
func (r *Reported) Settle(index func(Key) Index) {
	for k, all := range r.all {
		x := index(k)
		r.put(k, without(all, func(o Identity) bool { return owns(x, o) }))
	}
}

// Procs returns the processes that have the containers, in no order; some may be repeated.
func (r *Reported) Procs() (procs []string) {
	for _, all := range r.all {
		for _, o := range all {
			procs = append(procs, o.Proc)
		}
	}
	return procs
}

// Changed returns the indices whose containers changed since Stored, in order.
func (r *Reported) Changed() []Key {
	return slices.SortedFunc(maps.Keys(r.changed), Key.Compare)
}

// Stored begins a new list of changes.
func (r *Reported) Stored() { clear(r.changed) }

// put changes the containers of an index.
func (r *Reported) put(k Key, all []Identity) {
	if slices.Equal(r.all[k], all) {
		return
	}
	if r.Set(k, all); r.changed == nil {
		r.changed = map[Key]struct{}{}
	}
	r.changed[k] = struct{}{}
}

// without returns the others.
func without(all []Identity, gone func(Identity) bool) (out []Identity) {
	for _, o := range all {
		if !gone(o) {
			out = append(out, o)
		}
	}
	return out
}

// beside returns those of an index that its rows do not name.
func (r *Reported) beside(x Index) []Identity {
	return without(r.all[x.Key], func(o Identity) bool { return owns(x, o) })
}

// left forgets a container that had a row and has none any more: it is gone.
func (r *Reported) left(before, after Index) {
	if all := r.all[after.Key]; len(all) > 0 {
		r.put(after.Key, without(all, func(o Identity) bool { return owns(before, o) && !owns(after, o) }))
	}
}

// owns reports whether a row of the index names the instance.
func owns(x Index, by Identity) bool {
	return slices.ContainsFunc(x.Rows(), func(a *Actual) bool { return a.Is(by) })
}

// indexName is an index of a service in all its versions.
type indexName struct {
	service ServiceKey
	index   int
}

// holders are the versions of exclusive services that have an instance of an index.
type holders multimap.Map[indexName, Key]

// beside reports whether another version than that of k has an instance of the index.
func (h holders) beside(n indexName, k Key) bool {
	for o := range h[n] {
		if o != k {
			return true
		}
	}
	return false
}

// track keeps the rows of k: where a version has no instance any more, the others are looked at
// again.
func (h holders) track(b *Board, n indexName, k Key, add bool) {
	multimap.Map[indexName, Key](h).Set(n, k, add)
	s := b.services[n.service]
	if add || s == nil {
		return
	}
	for i := range s.Versions {
		if o := (Key{s.Versions[i].Process, n.index}); o != k && b.slot(o) != nil {
			b.slot(o).asked = time.Time{}
			b.dirtyKeys[o] = struct{}{}
		}
	}
}

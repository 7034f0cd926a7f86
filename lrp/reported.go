package lrp

import (
	"slices"
	"time"

	"cantina/internal/multimap"
)

// Reported are the containers of indices that run at most once, which cells have reported and no
// row names: rows of a store that went back may name others, or none. They are of this term; the
// next leader gets the reports of the cells again.
type Reported map[Key][]Identity

// Add records a container that a process has reported, if no row of its index x names it.
func (r Reported) Add(x Index, by Identity) {
	if !owns(x, by) {
		r[x.Key] = append(slices.DeleteFunc(r[x.Key], by.Same), by)
	}
}

// Drop forgets the containers of a process that is certainly dead.
func (r Reported) Drop(proc string) {
	for k, all := range r {
		r.put(k, slices.DeleteFunc(all, func(o Identity) bool { return o.Proc == proc }))
	}
}

func (r Reported) put(k Key, all []Identity) {
	if r[k] = all; len(all) == 0 {
		delete(r, k)
	}
}

// beside returns those of an index that its rows do not name.
func (r Reported) beside(x Index) []Identity {
	var out []Identity
	for _, o := range r[x.Key] {
		if !owns(x, o) {
			out = append(out, o)
		}
	}
	return out
}

// left forgets a container that had a row and has none any more: it is gone.
func (r Reported) left(before, after Index) {
	if all := r[after.Key]; len(all) > 0 {
		r.put(after.Key, slices.DeleteFunc(all, func(o Identity) bool { return owns(before, o) && !owns(after, o) }))
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

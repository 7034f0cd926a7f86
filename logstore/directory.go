package logstore

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// directory holds the segments: the list, their disk space, and the number of failed writes. Under
// its mutex nothing is written or called.
type directory struct {
	path   string
	log    *slog.Logger
	total  atomic.Int64 // bytes on disk
	faults atomic.Int64 // failed writes
	fresh  atomic.Bool  // one since Store.Faulted was called

	mu       sync.RWMutex
	segments []*segment // by id
	own      map[key][]*segment
	nextID   uint64
}

// create makes a segment: shared when owner is nil.
func (d *directory) create(owner *Source) (*segment, error) {
	d.mu.Lock()
	id := d.nextID
	d.nextID++
	d.mu.Unlock()
	g, err := createSegment(d.path, id, owner)
	if err != nil {
		return nil, fmt.Errorf("create output segment %x: %w", id, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	// In the order of the ids, also when two were made at once.
	i, _ := slices.BinarySearchFunc(d.segments, g.id, func(a *segment, id uint64) int { return cmp.Compare(a.id, id) })
	d.segments = slices.Insert(d.segments, i, g)
	if owner != nil {
		d.own[owner.key()] = append(d.own[owner.key()], g)
	}
	d.total.Add(g.size)
	return g, nil
}

// seal ends a segment; its appender calls it, or the one that has made sure that there is none.
func (d *directory) seal(g *segment) {
	g.giveBack()
	if err := g.file.Close(); err != nil {
		d.troubled(err)
	}
	g.file = nil
	g.mu.Lock()
	empty := g.first == 0
	err := error(nil)
	if !empty {
		if err = g.writeIndex(); err == nil && !g.own {
			g.entries, g.order = nil, nil
		}
	}
	g.sealed = true
	index := g.index
	g.mu.Unlock()
	d.total.Add(index)
	if err != nil {
		d.troubled(err) // the index stays in memory; the next Open makes it from the data
	}
	if empty {
		d.remove(g)
	}
}

// remove removes a segment and its files.
func (d *directory) remove(g *segment) {
	d.mu.Lock()
	d.unlist(g)
	d.mu.Unlock()
	data, index := g.onDisk()
	d.total.Add(-data - index)
	d.unlink(g.path("log"))
	d.unlink(g.path("idx"))
}

// collected notes that only an index is left of g, and that of an older segment when the index
// includes that.
func (d *directory) collected(g *segment, now time.Time, old, folded *segment) {
	d.mu.Lock()
	defer d.mu.Unlock()
	g.mu.Lock()
	g.collected = now
	size := g.size
	if folded != nil {
		size -= folded.index - g.index
		g.entries, g.order, g.index = folded.entries, folded.order, folded.index
		g.first, g.minTime = folded.first, folded.minTime
	}
	g.mu.Unlock()
	if folded != nil {
		d.unlist(old)
		size += old.index
	}
	d.total.Add(-size)
}

// unlist removes g from the lists; d.mu is held.
func (d *directory) unlist(g *segment) {
	is := func(o *segment) bool { return o == g }
	d.segments = slices.DeleteFunc(slices.Clone(d.segments), is)
	if g.owner == nil {
		return
	}
	k := g.owner.key()
	if own := slices.DeleteFunc(slices.Clone(d.own[k]), is); len(own) > 0 {
		d.own[k] = own
	} else {
		delete(d.own, k)
	}
}

func (d *directory) unlink(path string) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		d.troubled(err)
	}
}

// troubled reports a write that failed: at once for the first, then sparsely.
func (d *directory) troubled(err error) {
	d.fresh.Store(true)
	if n := d.faults.Add(1); n&(n-1) == 0 {
		d.log.Warn("output write failed", "error", err, "failures", n)
	}
}

// all are the segments by their ids.
func (d *directory) all() []*segment {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return slices.Clone(d.segments)
}

// ofOwner are the segments that one source alone has, oldest first.
func (d *directory) ofOwner(k key) []*segment {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return slices.Clone(d.own[k])
}

// candidates are the segments that may hold wanted lines in (lo, hi].
func (d *directory) candidates(q *query, lo, hi Position) []candidate {
	d.mu.RLock()
	defer d.mu.RUnlock()
	picked := make([]candidate, 0, 16)
	for _, g := range d.segments {
		if c, ok := g.mayHold(q, lo, hi); ok {
			picked = append(picked, c)
		}
	}
	return picked
}

// connect computes data over several segments, once all are loaded. note is called with the
// sources of a segment that have not ended in it, and with its newest time.
func (d *directory) connect(note func(k key, g *segment, last time.Time)) {
	d.segments = slices.DeleteFunc(d.segments, func(g *segment) bool { return g.first == 0 })
	d.total.Store(0)
	for _, g := range d.segments {
		data, index := g.onDisk()
		d.total.Add(data + index)
		last := time.Unix(0, g.maxTime)
		if g.own {
			k := g.owner.key()
			d.own[k] = append(d.own[k], g)
			note(k, g, last)
		}
		for _, k := range g.unended {
			note(k, g, last)
		}
	}
	for _, own := range d.own {
		for i, g := range own {
			// A newer one includes it: the process died between writing that and removing this.
			includes := func(o *segment) bool { return !o.collected.IsZero() && o.first <= g.first }
			if !g.collected.IsZero() && slices.ContainsFunc(own[i+1:], includes) {
				d.remove(g)
			}
		}
	}
}

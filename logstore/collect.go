package logstore

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"time"
)

// maxCollectedIndex bounds what the indexes of removed data take on disk.
const maxCollectedIndex = 64 * mib

// onDisk is the size of the data, 0 when they were removed.
func (g *segment) onDisk() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.collected.IsZero() {
		return 0
	}
	return g.size
}

// collect removes the data of a sealed segment and keeps the index, so that
// readers can be told what is missing. What was collected before of the same
// source is folded in: a source has at most one collected index.
func (st *Store) collect(g *segment) {
	st.collectMu.Lock()
	defer st.collectMu.Unlock()
	if g.onlyIndex() {
		return
	}
	now := st.cfg.Clock.Wall()
	old, folded := st.fold(g)
	if err := os.Chtimes(g.path("idx"), now, now); err != nil && !errors.Is(err, fs.ErrNotExist) {
		st.troubled(err)
	}
	st.mu.Lock()
	g.mu.Lock()
	g.collected = now
	size := g.size
	if folded != nil {
		size -= folded.index - g.index
		g.entries, g.order, g.first, g.minTime, g.index = folded.entries, folded.order, folded.first, folded.minTime, folded.index
	}
	g.mu.Unlock()
	if folded != nil {
		st.unlist(old)
		size += old.index
	}
	st.mu.Unlock()
	st.total.Add(-size)
	if folded != nil {
		st.unlink(old.path("idx"))
	}
	st.unlink(g.path("log"))
}

func (st *Store) unlink(path string) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		st.troubled(err)
	}
}

// fold writes an index for g that includes the newest collected segment before it.
func (st *Store) fold(g *segment) (old, folded *segment) {
	if !g.own {
		return nil, nil
	}
	st.mu.RLock()
	for _, o := range st.own[g.owner.key()] {
		if o == g || !o.onlyIndex() {
			break
		}
		old = o
	}
	st.mu.RUnlock()
	if old == nil {
		return nil, nil
	}
	g.mu.Lock()
	e, was := *g.order[0], old.order[0]
	folded = &segment{id: g.id, own: true, owner: g.owner, dir: g.dir, size: g.size, first: was.first, last: g.last,
		minTime: min(was.minTime, g.minTime), maxTime: g.maxTime, marks: g.marks, sealed: true}
	g.mu.Unlock()
	e.seqStart, e.cumStart, e.first, e.minTime = was.seqStart, was.cumStart, was.first, min(was.minTime, e.minTime)
	folded.order = []*entry{&e}
	folded.entries = map[string][]*entry{e.source.ID: folded.order}
	if err := folded.writeIndex(); err != nil {
		st.troubled(err)
		return nil, nil
	}
	return old, folded
}

func (g *segment) onlyIndex() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.collected.IsZero()
}

// remove forgets a segment and what is left of it on disk.
func (st *Store) remove(g *segment) {
	st.mu.Lock()
	st.unlist(g)
	st.mu.Unlock()
	g.mu.Lock()
	size := g.index
	if g.collected.IsZero() {
		size += g.size
	}
	g.mu.Unlock()
	st.total.Add(-size)
	st.unlink(g.path("log"))
	st.unlink(g.path("idx"))
}

// unlist takes g out of the lists; st.mu is held.
func (st *Store) unlist(g *segment) {
	is := func(o *segment) bool { return o == g }
	st.segments = slices.DeleteFunc(slices.Clone(st.segments), is)
	if !g.own {
		return
	}
	k := g.owner.key()
	if own := slices.DeleteFunc(slices.Clone(st.own[k]), is); len(own) > 0 {
		st.own[k] = own
	} else {
		delete(st.own, k)
	}
}

// trim keeps one source below MaxContainer; s.mu is held.
func (st *Store) trim(s *source) {
	st.mu.RLock()
	own := slices.Clone(st.own[s.info.key()])
	st.mu.RUnlock()
	for _, g := range own {
		if s.owned+s.written <= st.cfg.MaxContainer || g == s.own {
			return
		}
		if size := g.onDisk(); size > 0 {
			st.collect(g)
			s.owned -= size
		}
	}
}

// shrink keeps the store below MaxTotal by collecting the oldest segments.
func (st *Store) shrink() {
	for st.total.Load() > st.cfg.MaxTotal {
		g := st.oldest()
		if g == nil && !st.sealSome() {
			return
		}
		if g != nil {
			st.collect(g)
		}
	}
}

// oldest is the sealed segment with data whose last line is oldest.
func (st *Store) oldest() *segment {
	st.mu.RLock()
	defer st.mu.RUnlock()
	var best candidate
	for _, g := range st.segments {
		g.mu.Lock()
		if g.sealed && g.collected.IsZero() && g.first != 0 && (best.segment == nil || g.last < best.to) {
			best = candidate{g, g.first, g.last}
		}
		g.mu.Unlock()
	}
	return best.segment
}

// sealSome seals active segments of idle sources, so that they can be collected;
// those that are being written to come to their end by themselves.
func (st *Store) sealSome() bool {
	st.mu.RLock()
	live := make([]*source, 0, len(st.live))
	for _, s := range st.live {
		live = append(live, s)
	}
	st.mu.RUnlock()
	done := false
	for _, s := range live {
		if !s.mu.TryLock() {
			continue
		}
		if s.own != nil && s.own.first != 0 && !s.chained() {
			st.seal(s.own)
			s.own, done = nil, true
		}
		s.mu.Unlock()
	}
	if g := st.takeShared(func(g *segment) bool { return g.first != 0 }); g != nil {
		st.seal(g)
		done = true
	}
	return done
}

// takeShared takes the active shared segment away when it is ready to be sealed.
func (st *Store) takeShared(ready func(*segment) bool) *segment {
	st.appendMu.Lock()
	defer st.appendMu.Unlock()
	g := st.shared
	if g == nil || !ready(g) {
		return nil
	}
	st.shared = nil
	return g
}

// Expire removes what RetainAge and RetainBytes no longer keep. Run calls it.
func (st *Store) Expire() {
	now := st.cfg.Clock.Wall()
	age := st.cfg.RetainAge
	if g := st.takeShared(func(g *segment) bool { return g.first != 0 && now.Sub(time.Unix(0, g.minTime)) > age/4 }); g != nil {
		st.seal(g)
	}
	gone := st.goneSegments(now.Add(-time.Minute))
	kept := int64(0)
	for i := len(gone) - 1; i >= 0; i-- { // newest first
		if kept += gone[i].size; kept > st.cfg.RetainBytes || now.Sub(gone[i].since) > age {
			st.collect(gone[i].g)
		}
	}
	st.forget(now)
}

// goneSegment is a segment none of whose sources is live any more.
type goneSegment struct {
	g     *segment
	since time.Time
	size  int64
}

// goneSegments lists them, the longest gone first. What is known of sources that
// ended before lately, and that no segment needs, is forgotten.
func (st *Store) goneSegments(lately time.Time) []goneSegment {
	st.mu.Lock()
	defer st.mu.Unlock()
	var gone []goneSegment
	needed := map[key]bool{}
	for _, g := range st.segments {
		g.mu.Lock()
		s := goneSegment{g, time.Unix(0, g.maxTime), g.size}
		ok := g.sealed && g.collected.IsZero()
		keys := g.unended
		if g.own {
			keys = []key{g.owner.key()}
		}
		g.mu.Unlock()
		for _, k := range keys {
			needed[k] = true
			if end := st.ends[k]; end.After(s.since) {
				s.since = end
			}
			ok = ok && st.live[k] == nil
		}
		if ok {
			gone = append(gone, s)
		}
	}
	for k, at := range st.ends {
		if !needed[k] && st.live[k] == nil && at.Before(lately) {
			delete(st.ends, k)
			delete(st.openAt, k)
		}
	}
	slices.SortStableFunc(gone, func(a, b goneSegment) int { return a.since.Compare(b.since) })
	return gone
}

// forget removes the indexes of what was collected long ago: from then on the
// store does not know that it ever had it.
func (st *Store) forget(now time.Time) {
	st.mu.RLock()
	var old []*segment
	for _, g := range st.segments {
		if g.onlyIndex() {
			old = append(old, g)
		}
	}
	live := func(g *segment) bool { return g.own && st.live[g.owner.key()] != nil }
	keep := make(map[*segment]bool)
	for _, g := range old {
		keep[g] = live(g)
	}
	st.mu.RUnlock()
	slices.SortFunc(old, func(a, b *segment) int { return a.gone().Compare(b.gone()) })
	size := int64(0)
	for i := len(old) - 1; i >= 0; i-- {
		g := old[i]
		if size += g.index; !keep[g] && (size > maxCollectedIndex || now.Sub(g.gone()) > st.cfg.RetainAge) {
			st.remove(g)
		}
	}
}

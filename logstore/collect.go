package logstore

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"
)

// maxCollectedIndex limits the disk space of the indexes of removed data.
const maxCollectedIndex = 64 * mib

// retention removes segments beyond the limits, one after the other, so that each removal sees the
// effect of the one before.
type retention struct {
	cfg     Config
	dir     *directory
	sources *sources
	shared  *sharedLog
	mu      sync.Mutex // held while a segment is removed
}

// collect removes the data of a sealed segment and keeps the index, so that readers get a record
// of the loss. Earlier losses of the same source are merged into it: a source has at most one
// collected index.
func (r *retention) collect(g *segment) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !g.gone().IsZero() {
		return
	}
	now := r.cfg.Clock.Wall()
	old, folded := r.fold(g)
	if err := os.Chtimes(g.path("idx"), now, now); err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.dir.troubled(err)
	}
	r.dir.collected(g, now, old, folded)
	if folded != nil {
		r.dir.unlink(old.path("idx"))
	}
	r.dir.unlink(g.path("log"))
}

// fold writes an index for g that includes the newest collected segment before it.
func (r *retention) fold(g *segment) (old, folded *segment) {
	if !g.own {
		return nil, nil
	}
	for _, o := range r.dir.ofOwner(g.owner.key()) {
		if o == g || o.gone().IsZero() {
			break
		}
		old = o
	}
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
		r.dir.troubled(err)
		return nil, nil
	}
	return old, folded
}

// trim keeps one source below MaxContainer; s.mu is held.
func (r *retention) trim(s *source) {
	for _, g := range r.dir.ofOwner(s.info.key()) {
		if s.owned+s.written <= r.cfg.MaxContainer || g == s.own {
			return
		}
		if size, _ := g.onDisk(); size > 0 {
			r.collect(g)
			s.owned -= size
		}
	}
}

// shrink keeps the store below MaxTotal by collecting the segments whose last line is oldest.
func (r *retention) shrink() {
	for r.dir.total.Load() > r.cfg.MaxTotal {
		var oldest candidate
		for _, g := range r.dir.all() {
			g.mu.Lock()
			if g.sealed && g.collected.IsZero() && g.first != 0 && (oldest.segment == nil || g.last < oldest.to) {
				oldest = candidate{g, g.first, g.last}
			}
			g.mu.Unlock()
		}
		if oldest.segment != nil {
			r.collect(oldest.segment)
		} else if !r.sealSome() {
			return
		}
	}
}

// sealSome seals active segments of idle sources, so that they can be collected; segments in use
// are sealed in the normal way.
func (r *retention) sealSome() bool {
	done := r.shared.seal(func(g *segment) bool { return g.first != 0 })
	for _, s := range r.sources.writing() {
		done = s.sealIdle() || done
	}
	return done
}

// expire removes data beyond RetainAge and RetainBytes.
func (r *retention) expire() {
	now := r.cfg.Clock.Wall()
	age := r.cfg.RetainAge
	r.shared.seal(func(g *segment) bool { return g.first != 0 && now.Sub(time.Unix(0, g.minTime)) > age/4 })
	gone := r.gone(now.Add(-time.Minute))
	kept := int64(0)
	for i := len(gone) - 1; i >= 0; i-- { // newest first
		if kept += gone[i].size; kept > r.cfg.RetainBytes || now.Sub(gone[i].since) > age {
			r.collect(gone[i].g)
		}
	}
	r.forget(now)
}

// goneSegment is a segment whose sources have all ended.
type goneSegment struct {
	g     *segment
	since time.Time
	size  int64
}

// gone lists them, the oldest end first. Data about sources that ended before the recent past, and
// that no segment needs, is removed.
func (r *retention) gone(lately time.Time) []goneSegment {
	var gone []goneSegment
	needed := map[key]bool{}
	for _, g := range r.dir.all() {
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
			ok = ok && !r.sources.isLive(k) // checked first: it may end now
			if end, _ := r.sources.ended(k); end.After(s.since) {
				s.since = end
			}
		}
		if ok {
			gone = append(gone, s)
		}
	}
	r.sources.forget(needed, lately)
	slices.SortStableFunc(gone, func(a, b goneSegment) int { return a.since.Compare(b.since) })
	return gone
}

// forget removes the indexes of data that was collected long ago: from then on the store has no
// record of it.
func (r *retention) forget(now time.Time) {
	old := slices.DeleteFunc(r.dir.all(), func(g *segment) bool { return g.gone().IsZero() })
	slices.SortFunc(old, func(a, b *segment) int { return b.gone().Compare(a.gone()) }) // newest first
	total := int64(0)
	for _, g := range old {
		_, index := g.onDisk()
		total += index
		if g.own && r.sources.isLive(g.owner.key()) {
			continue
		}
		if total > maxCollectedIndex || now.Sub(g.gone()) > r.cfg.RetainAge {
			r.dir.remove(g)
		}
	}
}

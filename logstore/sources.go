package logstore

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// sources has the live sources, and the places where recently ended ones continue.
type sources struct {
	mu   sync.RWMutex
	live map[key]*source
	ends map[key]time.Time // when sources that several segments hold had ended
	// openAt is where a source continues: its newest shared segment, if a dead process left it open
	// or it ended recently.
	openAt map[key]*segment
	owed   map[key]debt // by ended sources
	closed bool
}

// join counts a writer for the live source of info; if there is none fresh becomes it.
func (l *sources) join(info Source, fresh *source) (*source, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, ErrClosed
	}
	s := l.live[info.key()]
	if s == nil && fresh != nil {
		s = fresh
		l.live[info.key()] = s
	}
	if s != nil {
		s.writers++
	}
	return s, nil
}

// leave counts one writer of s less; true for the last one, which removes s from the live sources.
// Everything except the end mark has been written.
func (l *sources) leave(s *source, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.writers--
	if s.writers > 0 {
		return false
	}
	delete(l.live, s.info.key())
	if s.shares > 0 || s.owned > 0 {
		l.ends[s.info.key()] = now
	}
	if s.seg != nil && !s.seg.own {
		l.openAt[s.info.key()] = s.seg
	}
	return true
}

// found notes a source that a dead process had in g, with the time of its last line there.
func (l *sources) found(k key, g *segment, last time.Time) {
	if l.ends[k].Before(last) {
		l.ends[k] = last
	}
	if !g.own {
		l.openAt[k] = g
	}
}

// writing are the live sources.
func (l *sources) writing() []*source {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return slices.Collect(maps.Values(l.live))
}

func (l *sources) isLive(k key) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.live[k] != nil
}

// ended is when a source ended, and where it continues; zero if unknown.
func (l *sources) ended(k key) (time.Time, *segment) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.ends[k], l.openAt[k]
}

// idle reports whether no source that matches q is live.
func (l *sources) idle(q *query) (idle, closed bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for _, s := range l.live {
		if q.wants(s.info) {
			return false, l.closed
		}
	}
	return true, l.closed
}

// forget drops sources that ended before lately and that no segment needs.
func (l *sources) forget(needed map[key]bool, lately time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for k, at := range l.ends {
		if !needed[k] && l.live[k] == nil && at.Before(lately) {
			delete(l.ends, k)
			delete(l.openAt, k)
		}
	}
}

// debt is the unwritten records of a source on a full disk.
type debt struct {
	info *Source
	lost [streams]Gap
}

// owe keeps how much of an ended source is missing, which could not be written either.
func (l *sources) owe(info *Source, lost [streams]Gap) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.owed[info.key()] = debt{info, lost}
}

// takeOwed returns and clears the unwritten records.
func (l *sources) takeOwed() map[key]debt {
	l.mu.Lock()
	defer l.mu.Unlock()
	owed := l.owed
	l.owed = make(map[key]debt)
	return owed
}

// close refuses more writers; true the first time.
func (l *sources) close() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	was := l.closed
	l.closed = true
	return !was
}

package logstore

import "sync"

// sharedLog is where sources write that have no segment of their own.
type sharedLog struct {
	dir  *directory
	full int64 // size after which a segment is sealed

	// mu is held while a batch is written: the order in the file is the order of positions.
	mu  sync.Mutex
	seg *segment // nil = none yet
}

// ensure makes the segment if there is none.
func (l *sharedLog) ensure() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.openLocked(); err != nil {
		l.dir.troubled(err)
	}
}

func (l *sharedLog) openLocked() (err error) {
	if l.seg == nil {
		l.seg, err = l.dir.create(nil)
	}
	return err
}

// active is the segment that is being written; nil when there is none.
func (l *sharedLog) active() *segment {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seg
}

// put appends b, and seals the segment that has become full.
func (l *sharedLog) put(s *source, b batch) error {
	full, err := l.append(s, b)
	if full != nil {
		l.dir.seal(full)
	}
	return err
}

func (l *sharedLog) append(s *source, b batch) (full *segment, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b.kind == kindEnd && s.seg != l.seg {
		return nil, nil // not worth an entry in one more segment
	}
	if err := l.openLocked(); err != nil {
		return nil, err
	}
	if s.seg != l.seg {
		s.shares++
	}
	n, err := l.seg.append(s, b)
	if err != nil {
		return nil, err
	}
	s.written += n
	if l.seg.size >= l.full {
		next, err := l.dir.create(nil)
		if err != nil { // it continues here: its loss can still be reported
			l.dir.troubled(err)
			return nil, nil
		}
		full, l.seg = l.seg, next
	}
	return full, nil
}

// seal ends the segment, if there is one and it is ready.
func (l *sharedLog) seal(ready func(*segment) bool) bool {
	l.mu.Lock()
	g := l.seg
	ok := g != nil && ready(g)
	if ok {
		l.seg = nil
	}
	l.mu.Unlock()
	if ok {
		l.dir.seal(g)
	}
	return ok
}

package logstore

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Store is the log store of one cell. Make one with Open.
type Store struct {
	dir  string
	cfg  Config
	lock *os.File
	pos  clock

	// appendMu orders what goes into the shared segment; it is held while a batch
	// is written, because the order in the file is the order of positions.
	appendMu sync.Mutex
	// collectMu makes removals one at a time, so that each sees the one before.
	collectMu sync.Mutex
	shared    *segment // guarded by appendMu

	mu       sync.RWMutex
	segments []*segment // by id
	own      map[key][]*segment
	live     map[key]*source
	ends     map[key]time.Time // when sources that several segments hold had ended
	owed     map[key]debt      // by ended sources
	openAt   map[key]*segment  // where a source goes on: its newest shared segment, if a dead process left it open or it ended lately
	nextID   uint64
	closed   bool

	total     atomic.Int64 // bytes on disk
	faults    atomic.Int64 // failed writes
	fresh     atomic.Bool  // one since Faulted was called
	followers watchers
}

// maxShares is in how many shared segments a source may have lines before it
// gets its own: old shared segments are kept as long as one of their sources is
// not gone, so nobody may hold many of them.
const maxShares = 3

// Writer opens one stream of a source. The first Writer of a source makes it
// live; it ends when the last one is closed. A source that a dead process of the
// cell left open, or that ended within the last minute, goes on where it stopped;
// one that ended earlier may count its lines from 1 again. ErrClosed after Close.
func (st *Store) Writer(info Source, stream Stream) (*Writer, error) {
	if stream >= streams {
		return nil, fmt.Errorf("output writer of %s: no stream %d", info.ID, stream)
	}
	s, err := st.join(info, nil)
	if err == nil && s == nil {
		fresh := &source{st: st, info: &info, seq: 1, limit: newLimiter(info.Rate, st.cfg.Clock.Boot())}
		st.resume(fresh)
		s, err = st.join(info, fresh)
	}
	if err != nil {
		return nil, fmt.Errorf("output writer of %s: %w", info.ID, err)
	}
	return &Writer{s: s, stream: stream}, nil
}

// join counts a writer for the live source of info; if there is none fresh becomes it.
func (st *Store) join(info Source, fresh *source) (*source, error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.closed {
		return nil, ErrClosed
	}
	s := st.live[info.key()]
	if s == nil && fresh != nil {
		s = fresh
		st.live[info.key()] = s
	}
	if s != nil {
		s.writers++
	}
	return s, nil
}

// put appends a chunk of s and keeps to the limits.
func (st *Store) put(s *source, b batch) error {
	var err error
	if s.own == nil && st.promotes(s, b) {
		st.ensureShared() // the last words of those that find no room of their own go there
		if s.own, err = st.create(s.info); err != nil {
			return err
		}
	}
	if s.own != nil {
		err = st.putOwn(s, b)
	} else {
		err = st.putShared(s, b)
	}
	if err != nil {
		return err
	}
	if b.lines > 0 {
		st.followers.wake(s.info)
	}
	if s.owned+s.written > st.cfg.MaxContainer {
		st.trim(s)
	}
	if st.total.Load() > st.cfg.MaxTotal {
		st.shrink()
	}
	return nil
}

// ensureShared makes the shared segment if there is none.
func (st *Store) ensureShared() {
	st.appendMu.Lock()
	defer st.appendMu.Unlock()
	if st.shared == nil {
		var err error
		if st.shared, err = st.create(nil); err != nil {
			st.troubled(err)
		}
	}
}

func (st *Store) promotes(s *source, b batch) bool {
	if b.last {
		return false
	}
	if b.kind == kindFragment || s.written+int64(len(b.chunk)) > st.cfg.Promote {
		return true
	}
	if s.shares < maxShares { // the writer's own business
		return false
	}
	st.appendMu.Lock()
	defer st.appendMu.Unlock()
	return s.seg != st.shared
}

func (st *Store) putOwn(s *source, b batch) error {
	n, err := s.own.append(&st.pos, s, b)
	if err != nil {
		return err
	}
	s.owned += n
	st.total.Add(n)
	if s.own.size >= st.cfg.Own && b.kind != kindFragment && !s.chained() {
		next, err := st.create(s.info)
		if err != nil { // it goes on here
			st.troubled(err)
			return nil
		}
		st.seal(s.own)
		s.own = next
	}
	return nil
}

func (st *Store) putShared(s *source, b batch) error {
	full, err := st.appendShared(s, b)
	if full != nil {
		st.seal(full)
	}
	return err
}

// appendShared returns the shared segment when it has become full.
func (st *Store) appendShared(s *source, b batch) (full *segment, err error) {
	st.appendMu.Lock()
	defer st.appendMu.Unlock()
	if b.kind == kindEnd && s.seg != st.shared {
		return nil, nil // not worth an entry in one more segment
	}
	if st.shared == nil {
		if st.shared, err = st.create(nil); err != nil {
			return nil, err
		}
	}
	if s.seg != st.shared {
		s.shares++
	}
	n, err := st.shared.append(&st.pos, s, b)
	if err != nil {
		return nil, err
	}
	s.written += n
	st.total.Add(n)
	if st.shared.size >= st.cfg.Shared {
		next, err := st.create(nil)
		if err != nil { // it goes on here: what is missing can still be told
			st.troubled(err)
			return nil, nil
		}
		full, st.shared = st.shared, next
	}
	return full, nil
}

// create makes a segment: shared when owner is nil.
func (st *Store) create(owner *Source) (*segment, error) {
	st.mu.Lock()
	id := st.nextID
	st.nextID++
	st.mu.Unlock()
	g, err := createSegment(st.dir, id, owner)
	if err != nil {
		return nil, fmt.Errorf("create output segment %x: %w", id, err)
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	st.insert(g)
	if owner != nil {
		st.own[owner.key()] = append(st.own[owner.key()], g)
	}
	st.total.Add(g.size)
	return g, nil
}

// insert keeps segments in the order of their ids, also when two were made at once.
func (st *Store) insert(g *segment) {
	i, _ := slices.BinarySearchFunc(st.segments, g.id, func(a *segment, id uint64) int {
		if a.id < id {
			return -1
		}
		if a.id > id {
			return 1
		}
		return 0
	})
	st.segments = slices.Insert(st.segments, i, g)
}

// seal ends a segment; its appender calls it, or whoever has made sure that there is none.
func (st *Store) seal(g *segment) {
	g.giveBack()
	if err := g.file.Close(); err != nil {
		st.troubled(err)
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
	st.total.Add(index)
	if err != nil {
		st.troubled(err) // the index stays in memory; the next Open makes it from the data
	}
	if empty {
		st.remove(g)
	}
}

// leave counts one writer of s less; true for the last one, which takes s out of
// the live sources. Everything but the end mark has been written.
func (st *Store) leave(s *source) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	s.writers--
	if s.writers > 0 {
		return false
	}
	delete(st.live, s.info.key())
	if s.shares > 0 || s.owned > 0 {
		st.ends[s.info.key()] = st.cfg.Clock.Wall()
	}
	if s.seg != nil && !s.seg.own {
		st.openAt[s.info.key()] = s.seg
	}
	return true
}

// troubled reports a write that failed: at once for the first, then sparsely.
func (st *Store) troubled(err error) {
	st.fresh.Store(true)
	if n := st.faults.Add(1); n&(n-1) == 0 {
		st.cfg.Log.Warn("output write failed", "error", err, "failures", n)
	}
}

// owe keeps how much of an ended source is missing, which could not be written either.
func (st *Store) owe(info *Source, lost [streams]Gap) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.owed[info.key()] = debt{info, lost}
}

// debt is what is to be told of a source once there is room.
type debt struct {
	info *Source
	lost [streams]Gap
}

// TellOwed writes what is missing of sources that ended while nothing could be written. It is
// called when there is room again.
func (st *Store) TellOwed() {
	st.mu.Lock()
	owed := st.owed
	st.owed = make(map[key]debt)
	st.mu.Unlock()
	for _, d := range owed {
		w, err := st.Writer(*d.info, Event)
		if err != nil {
			return // the store is closed
		}
		w.s.mu.Lock()
		for i, g := range d.lost {
			w.s.lost[i].Bytes += g.Bytes
			w.s.lost[i].Lines += g.Lines
		}
		w.s.mu.Unlock()
		if err := w.Close(); err != nil {
			return
		}
	}
}

// Faulted reports whether a write has failed since it was last called.
func (st *Store) Faulted() bool { return st.fresh.Swap(false) }

// Run removes what is older than Config allows until ctx is done. The size
// limits hold without it.
func (st *Store) Run(ctx context.Context) error {
	tick := time.NewTicker(min(time.Minute, max(st.cfg.RetainAge/16, time.Second)))
	defer tick.Stop()
	for {
		st.Expire()
		st.TellOwed()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// Close seals what is active and lets go of the directory. Writers that are still
// open drop what they get; end them first. Close twice does nothing.
func (st *Store) Close() error {
	st.mu.Lock()
	if st.closed {
		st.mu.Unlock()
		return nil
	}
	st.closed = true
	live := make([]*source, 0, len(st.live))
	for _, s := range st.live {
		live = append(live, s)
	}
	st.mu.Unlock()
	for _, s := range live {
		s.shut()
	}
	st.appendMu.Lock()
	g := st.shared
	st.shared = nil
	st.appendMu.Unlock()
	if g != nil {
		st.seal(g)
	}
	st.followers.wakeAll()
	return st.lock.Close()
}

// shut writes out what a live source holds and refuses more.
func (s *source) shut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	pooled := s.borrow()
	s.cut()
	s.giveBack(pooled)
	if s.own != nil {
		s.st.seal(s.own)
		s.own = nil
	}
	s.refuse = true
}

// Usage is what the store takes on disk now, in bytes, and in how many segments.
func (st *Store) Usage() (size int64, segments int) {
	st.mu.RLock()
	defer st.mu.RUnlock()
	return st.total.Load(), len(st.segments)
}

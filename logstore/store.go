package logstore

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"
)

// Store is the log store of one cell. Make one with Open.
type Store struct {
	cfg       Config
	lock      *os.File
	pos       clock
	dir       directory
	sources   sources
	shared    sharedLog
	retention retention
	followers watchers
	limited   loss // by rate limits
	refused   loss // by the disk
}

// loss counts what was not stored.
type loss struct{ lines, bytes atomic.Int64 }

func (l *loss) add(bytes, lines int64) {
	l.bytes.Add(bytes)
	l.lines.Add(lines)
}

// Losses is output that was not stored since the store was opened.
type Losses struct {
	LimitedLines, LimitedBytes int64 // dropped by rate limits
	RefusedLines, RefusedBytes int64 // the disk did not take it
}

// Losses returns them.
func (st *Store) Losses() Losses {
	return Losses{st.limited.lines.Load(), st.limited.bytes.Load(), st.refused.lines.Load(), st.refused.bytes.Load()}
}

// Writer opens one stream of a source. The first Writer of a source makes it live; it ends when
// the last one is closed. A source that a dead process of the cell left open, or that ended within
// the last minute, continues where it stopped; one that ended earlier may count its lines from 1
// again. ErrClosed after Close.
func (st *Store) Writer(info Source, stream Stream) (*Writer, error) {
	if stream >= streams {
		return nil, fmt.Errorf("output writer of %s: no stream %d", info.ID, stream)
	}
	s, err := st.sources.join(info, nil)
	if err == nil && s == nil {
		fresh := &source{st: st, info: &info, seq: 1, limit: newLimiter(info.Rate, st.cfg.Clock.Boot())}
		st.resume(fresh)
		s, err = st.sources.join(info, fresh)
	}
	if err != nil {
		return nil, fmt.Errorf("output writer of %s: %w", info.ID, err)
	}
	return &Writer{s: s, stream: stream}, nil
}

// WriteOwed writes the loss records of sources that ended while nothing could be written. It is
// called when space is available again.
func (st *Store) WriteOwed() {
	for _, d := range st.sources.takeOwed() {
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
func (st *Store) Faulted() bool { return st.dir.fresh.Swap(false) }

// Run removes data older than Config permits until ctx is done. The size limits apply without it.
func (st *Store) Run(ctx context.Context) error {
	tick := time.NewTicker(min(time.Minute, max(st.cfg.RetainAge/16, time.Second)))
	defer tick.Stop()
	for {
		st.Expire()
		st.WriteOwed()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// Expire removes data beyond RetainAge and RetainBytes. Run calls it.
func (st *Store) Expire() { st.retention.expire() }

// Close seals active segments and releases the directory. Writers that are still open drop their
// input; end them first. A second Close does nothing.
func (st *Store) Close() error {
	if !st.sources.close() {
		return nil
	}
	for _, s := range st.sources.writing() {
		s.shut()
	}
	st.shared.seal(func(*segment) bool { return true })
	st.followers.wake(nil)
	return st.lock.Close()
}

// Usage is the store's present disk space, in bytes, and its number of segments.
func (st *Store) Usage() (size int64, segments int) {
	return st.dir.total.Load(), len(st.dir.all())
}

package logstore

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
)

// watchers wakes followers when a source that they want got a line.
type watchers struct {
	count atomic.Int32
	mu    sync.Mutex
	all   map[*watcher]bool
}

type watcher struct {
	q    *query
	wake chan struct{} // holds at most one: "something came since you last looked"
}

func (w *watchers) add(q *query) *watcher {
	n := &watcher{q, make(chan struct{}, 1)}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all == nil {
		w.all = map[*watcher]bool{}
	}
	w.all[n] = true
	w.count.Add(1)
	return n
}

func (w *watchers) remove(n *watcher) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.all, n)
	w.count.Add(-1)
}

// wake wakes the followers of s; nil = all.
func (w *watchers) wake(s *Source) {
	if w.count.Load() == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for n := range w.all {
		if s == nil || n.q.wants(s) {
			select {
			case n.wake <- struct{}{}:
			default:
			}
		}
	}
}

// Follow calls fn for every line that matches q, strictly after q.Cursor (empty = from the oldest
// on), and continues with new ones. It ends when ctx is done, fn fails, or the store is closed
// (ErrClosed). With q.UntilEnd it also ends (nil) when no matching source is live and all of their
// lines were delivered. No line is lost or delivered twice; lines that were removed before they
// could be read are reported as a Gap with exact counts. Limit and Backward are ignored. fn runs
// on the caller's goroutine.
func (st *Store) Follow(ctx context.Context, q Query, fn func(Line) error) error {
	return st.FollowPages(ctx, q, func(p Page) error {
		for _, l := range p.Lines {
			if err := fn(l); err != nil {
				return err
			}
		}
		return nil
	})
}

// FollowPages is Follow with all existing lines in one call; Page.Next is the cursor from which
// another follower continues. Pages without lines are not delivered.
func (st *Store) FollowPages(ctx context.Context, q Query, fn func(Page) error) error {
	plan, err := q.compile()
	if err != nil {
		return err
	}
	plan.backward, plan.limit, plan.seen = false, followLimit, map[key]mileage{}
	w := st.followers.add(plan)
	defer st.followers.remove(w)
	for most := 2 * fewSeen; ; {
		// Checked before reading: lines written before its end are then read.
		idle, closed := st.sources.idle(plan)
		page, err := st.page(ctx, plan)
		if err != nil {
			return err
		}
		if len(page.Lines) > 0 {
			if err := fn(page); err != nil {
				return err
			}
		}
		if plan.from = page.next; page.More {
			continue
		}
		if len(plan.seen) > most {
			plan.forgetSeen(&st.sources)
			most = 2 * max(fewSeen, len(plan.seen))
		}
		switch {
		case closed:
			return ErrClosed
		case idle && q.UntilEnd:
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.wake:
		}
	}
}

const (
	followLimit = 4096
	// fewSeen is of how many sources a follower may know how far it has read them, whether they
	// are still there or not.
	fewSeen = 32
)

// forgetSeen removes the read positions of a follower, which has read everything, for sources that
// have ended long ago: they have no further output.
func (q *query) forgetSeen(l *sources) {
	maps.DeleteFunc(q.seen, func(k key, _ mileage) bool {
		live := l.isLive(k) // checked first: it may end now
		end, at := l.ended(k)
		return !live && end.IsZero() && at == nil
	})
}

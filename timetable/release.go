package timetable

import (
	"fmt"

	"cantina/event"
	"cantina/fault"
	"cantina/schedule"
	"cantina/store"
)

// Release resolves a quarantined row of a schedule: restore stores value, which is read like a row
// of a load, otherwise the row is dropped. The schedule continues once both of its rows can be
// read: by its cursor, as after a time without a leader. done is called after the commit; if the
// value cannot be read nothing is changed.
//
// Dropping the definition removes the schedule. Dropping the state is an operator's statement that
// none of its work runs any more: the schedule starts again from now.
func (t *Timetable) Release(key string, restore bool, value []byte, done func(revision int64, err error)) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.unreadable.rows[key] {
		return fmt.Errorf("%s: %w", key, store.ErrNotQuarantined)
	}
	if !restore {
		t.cfg.Store.Drop(key, func(revision int64, err error) {
			t.released(store.Row{Key: key, Revision: revision}, err,
				done)
		})
		return nil
	}
	k, ok := keyOf(key)
	if !ok {
		return fmt.Errorf("restore %s: not the key of a schedule; drop it: %w", key, fault.ErrQuarantined)
	}
	p := *t.unreadable.schedules[k]
	r := store.Row{Key: key, Value: value}
	*p.of(key) = r
	if err := p.readable(r, k, t.cfg.Contents); err != nil {
		return fmt.Errorf("restore %s: %w (repair the row in the store first, or drop it): %w", key, err,
			fault.ErrQuarantined)
	}
	t.cfg.Store.Restore(key, value, func(revision int64, err error) {
		r.Revision = revision
		t.released(r, err, done)
	})
	return nil
}

// released takes a schedule back once its rows can be read, after the commit.
func (t *Timetable) released(r store.Row, err error, done func(revision int64, err error)) {
	if err == nil {
		if row := t.takeBack(r); row != nil {
			t.cfg.Hub.Publish(r.Revision, event.Event{Kind: event.Schedule, Domain: row.Domain, Subject: row.Key.String(),
				Schedule: row})
		}
		t.loop.Wake()
	}
	if done != nil {
		done(r.Revision, err)
	}
}

// takeBack returns the schedule that continues, if one does.
func (t *Timetable) takeBack(r store.Row) *schedule.Row {
	t.mu.Lock()
	defer t.mu.Unlock()
	u := &t.unreadable
	delete(u.rows, r.Key)
	k, ok := keyOf(r.Key)
	p := u.schedules[k]
	if !ok || p == nil {
		return nil
	}
	*p.of(r.Key) = r
	if r.Value == nil {
		*p.of(r.Key) = store.Row{} // dropped
	}
	if u.has(k) {
		return nil
	}
	delete(u.schedules, k)
	if !u.check(k, p) { // both can be read now, and are not of one schedule
		return nil
	}
	t.take(k, p)
	if row, ok := t.board.Get(k); ok {
		return &row
	}
	return nil
}

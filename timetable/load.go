package timetable

import (
	"fmt"
	"slices"
	"strings"

	"cantina/cron"
	"cantina/schedule"
	"cantina/store"
	"cantina/timetable/timetablepb"
)

func (t *Timetable) load(rows []store.Row) {
	type loaded struct {
		row      schedule.Row
		revision int64
	}
	found := map[schedule.Key]*loaded{}
	states := map[schedule.Key]store.Row{}
	for _, r := range rows {
		if !Owns(r.Key) {
			continue
		}
		k, ok := keyOf(r.Key)
		switch {
		case !ok:
			t.quarantine(r, k, fmt.Errorf("key %s: %w", r.Key, errRecord))
		case strings.HasPrefix(r.Key, statePrefix):
			states[k] = r
		default:
			row, err := t.decodeRow(r.Value, k)
			if err != nil {
				t.quarantine(r, k, err)
				continue
			}
			found[k] = &loaded{row, r.Revision}
		}
	}
	now := t.cfg.Clock.Wall()
	for k, l := range found {
		if r, ok := states[k]; ok {
			uid, s, err := decodeState(r.Value)
			if err != nil || uid != l.row.UID {
				// Without its cursor nothing is known of what it fired: it must not fire.
				if err == nil {
					err = fmt.Errorf("state of uid %s, not %s: %w", uid, l.row.UID, errRecord)
				}
				t.quarantine(r, k, err)
				continue
			}
			l.row.State, l.revision = schedule.Forgotten(s), max(l.revision, r.Revision)
		} else {
			l.row.State = schedule.New(now)
		}
		t.put(l.row)
		t.show(l.row, l.revision)
	}
}

// decodeRow reads the row of a schedule, without its state.
func (t *Timetable) decodeRow(value []byte, k schedule.Key) (schedule.Row, error) {
	var m timetablepb.Schedule
	if err := decode(value, kindSchedule, &m); err != nil {
		return schedule.Row{}, err
	}
	d, err := t.toDefinition(m.Definition)
	if err != nil {
		return schedule.Row{}, err
	}
	if m.Domain != k.Domain || m.Name != k.Name || m.Uid == "" {
		return schedule.Row{}, fmt.Errorf("schedule %s/%s in the row of %v: %w", m.Domain, m.Name, k, errRecord)
	}
	return schedule.Row{Key: k, UID: m.Uid, Created: fromMillis(m.Created), Edited: fromMillis(m.Edited), Definition: d}, nil
}

func (t *Timetable) quarantine(r store.Row, k schedule.Key, why error) {
	t.cfg.Store.Quarantine(store.Quarantine{Key: r.Key, Reason: why.Error(), Bytes: r.Value})
	t.cfg.Log.Warn("row quarantined", "key", r.Key, "error", why)
	t.bad[k] = true
}

// calendar reads the calendar of a schedule. The lock is held.
func (t *Timetable) calendar(r *schedule.Row) (cron.Schedule, error) {
	c := r.Definition.Calendar
	if have, ok := t.items[c]; ok {
		return have, nil
	}
	var s cron.Schedule
	if c.Zone != "" {
		loc, err := t.cfg.Zone(c.Zone)
		if err != nil {
			return s, err
		}
		s.Zone = loc
	}
	it, _, err := c.Item(r.Key, s.Zone, r.Created, t.cfg.Clock.Wall())
	if err != nil {
		return s, err
	}
	s.Item = it
	if c.Shared() && len(t.items) < maxItems {
		t.items[c] = s
	}
	return s, nil
}

// maxItems bounds the calendars that are kept to be shared.
const maxItems = 10_000

// put makes a row the newest. The lock is held.
func (t *Timetable) put(r schedule.Row) {
	c, err := t.calendar(&r)
	if err != nil {
		t.cfg.Log.Warn("calendar cannot be used", "schedule", r.Key.String(), "error", err)
	}
	t.board.Put(r, c, err)
}

// show makes a committed row what readers see. The lock is held.
func (t *Timetable) show(r schedule.Row, revision int64) {
	if _, ok := t.shown[r.Key]; !ok {
		t.order = nil
	}
	t.shown[r.Key] = shown{&r, revision}
}

// ZonesChanged reads the calendars of the named zones again.
func (t *Timetable) ZonesChanged(names []string) {
	t.mu.Lock()
	for c := range t.items {
		if slices.Contains(names, c.Zone) {
			delete(t.items, c)
		}
	}
	for _, k := range t.board.Keys() {
		if r, ok := t.board.Get(k); ok && slices.Contains(names, r.Definition.Zone) {
			t.put(r)
		}
	}
	t.mu.Unlock()
	t.ring()
}

package timetable

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"cantina/cron"
	"cantina/schedule"
	"cantina/store"
	"cantina/timetable/timetablepb"
)

// pair is the two rows of a schedule as they stand in the store; without a key they
// are not there.
type pair struct{ definition, state store.Row }

func (p *pair) of(key string) *store.Row {
	if strings.HasPrefix(key, statePrefix) {
		return &p.state
	}
	return &p.definition
}

func (t *Timetable) load(rows []store.Row) {
	found := map[schedule.Key]*pair{}
	for _, r := range rows {
		if !Owns(r.Key) {
			continue
		}
		k, ok := keyOf(r.Key)
		if !ok {
			t.quarantine(r, k, fmt.Errorf("key %s: %w", r.Key, errRecord))
			continue
		}
		if found[k] == nil {
			found[k] = &pair{}
		}
		*found[k].of(r.Key) = r
	}
	for _, k := range slices.SortedFunc(maps.Keys(found), schedule.Key.Compare) {
		p := found[k]
		if !t.check(k, p) {
			t.aside[k] = p
			continue
		}
		t.take(k, p)
	}
}

// check quarantines what cannot be read of a schedule's rows; true when it can be used.
func (t *Timetable) check(k schedule.Key, p *pair) bool {
	good := true
	for _, r := range []store.Row{p.definition, p.state} {
		if r.Key == "" {
			continue
		}
		if err := p.readable(r, k, t); err != nil {
			t.quarantine(r, k, err)
			good = false
		}
	}
	return good
}

// readable says why one row of a schedule cannot be used. A state is of one definition:
// without its cursor nothing is known of what it fired, so it must not fire.
func (p *pair) readable(r store.Row, k schedule.Key, t *Timetable) error {
	row, broken := decodeRow(t.cfg.Contents, p.definition.Value, k)
	if !strings.HasPrefix(r.Key, statePrefix) {
		return broken
	}
	uid, _, err := decodeState(r.Value)
	if err == nil && p.definition.Key != "" && broken == nil && uid != row.UID {
		err = fmt.Errorf("state of uid %s, not %s: %w", uid, row.UID, errRecord)
	}
	return err
}

// take makes rows that can be read the newest and what readers see. A state without a
// definition is a remnant: nothing is made of it.
func (t *Timetable) take(k schedule.Key, p *pair) {
	if p.definition.Key == "" {
		return
	}
	row, err := decodeRow(t.cfg.Contents, p.definition.Value, k)
	if err != nil {
		return // check has said so
	}
	revision := p.definition.Revision
	row.State = schedule.New(t.cfg.Clock.Wall())
	if p.state.Key != "" {
		if _, s, err := decodeState(p.state.Value); err == nil {
			now := t.cfg.Clock.Wall()
			row.State, revision = schedule.GoneOn(schedule.Forgotten(s), row.Definition, now), max(revision, p.state.Revision)
		}
	}
	t.put(row)
	t.show(row, revision)
}

// decodeRow reads the row of a schedule, without its state.
func decodeRow(c Contents, value []byte, k schedule.Key) (schedule.Row, error) {
	var m timetablepb.Schedule
	if err := decode(value, kindSchedule, &m); err != nil {
		return schedule.Row{}, err
	}
	d, err := toDefinition(c, m.Definition)
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
	t.bad[r.Key] = true
}

// isBad reports whether a row of a schedule is quarantined. The lock is held.
func (t *Timetable) isBad(k schedule.Key) bool { return t.bad[RowOf(k)] || t.bad[StateOf(k)] }

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
	t.loop.Wake()
}

package timetable

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"cantina/cron"
	"cantina/internal/run"
	"cantina/schedule"
	"cantina/store"
	"cantina/timetable/timetablepb"
)

// pair is the two rows of a schedule in the store; a row without a key is missing.
type pair struct{ definition, state store.Row }

func (p *pair) of(key string) *store.Row {
	if strings.HasPrefix(key, statePrefix) {
		return &p.state
	}
	return &p.definition
}

// unreadable are the rows that are quarantined, and the schedules that have one. The lock of the
// timetable is held.
type unreadable struct {
	store     Store
	contents  Contents
	log       *slog.Logger
	rows      map[string]bool
	schedules map[schedule.Key]*pair
}

func (u *unreadable) add(r store.Row, why error) {
	u.store.Quarantine(store.Quarantine{Key: r.Key, Reason: why.Error(), Bytes: r.Value})
	u.log.Warn("row quarantined", "key", r.Key, "error", why)
	u.rows[r.Key] = true
}

// has reports whether a row of a schedule is quarantined.
func (u *unreadable) has(k schedule.Key) bool { return u.rows[RowOf(k)] || u.rows[StateOf(k)] }

// check quarantines and keeps the rows of a schedule that cannot be read; true when all can.
func (u *unreadable) check(k schedule.Key, p *pair) bool {
	good := true
	for _, r := range []store.Row{p.definition, p.state} {
		if r.Key == "" {
			continue
		}
		if err := p.readable(r, k, u.contents); err != nil {
			u.add(r, err)
			u.schedules[k], good = p, false
		}
	}
	return good
}

func (t *Timetable) load(rows []store.Row) {
	found := map[schedule.Key]*pair{}
	for _, r := range rows {
		if !Owns(r.Key) {
			continue
		}
		k, ok := keyOf(r.Key)
		if !ok {
			t.unreadable.add(r, fmt.Errorf("key %s: %w", r.Key, errRecord))
			continue
		}
		if found[k] == nil {
			found[k] = &pair{}
		}
		*found[k].of(r.Key) = r
	}
	for _, k := range slices.SortedFunc(maps.Keys(found), schedule.Key.Compare) {
		if p := found[k]; t.unreadable.check(k, p) {
			t.take(k, p)
		}
	}
}

// readable returns why one row of a schedule cannot be used. A state belongs to one definition:
// without its cursor the fired times are unknown, so it must not fire.
func (p *pair) readable(r store.Row, k schedule.Key, c Contents) error {
	row, broken := decodeRow(c, p.definition.Value, k)
	if !strings.HasPrefix(r.Key, statePrefix) {
		return broken
	}
	uid, _, err := decodeState(r.Value)
	if err == nil && p.definition.Key != "" && broken == nil && uid != row.UID {
		err = fmt.Errorf("state of uid %s, not %s: %w", uid, row.UID, errRecord)
	}
	return err
}

// take makes readable rows the newest and visible. A state without a definition is a remnant: it
// is ignored.
func (t *Timetable) take(k schedule.Key, p *pair) {
	if p.definition.Key == "" {
		return
	}
	row, err := decodeRow(t.cfg.Contents, p.definition.Value, k)
	if err != nil {
		return // check has reported it
	}
	revision := p.definition.Revision
	row.State = schedule.New(t.cfg.Clock.Wall())
	if p.state.Key != "" {
		if _, s, err := decodeState(p.state.Value); err == nil {
			now := t.cfg.Clock.Wall()
			row.State = schedule.ResumeClock(schedule.Forgotten(s), row.Definition, now)
			revision = max(revision, p.state.Revision)
		}
	}
	t.put(row)
	t.shown.put(row, revision)
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
	return schedule.Row{Key: k, UID: m.Uid, Created: fromMillis(m.Created), Edited: fromMillis(m.Edited), Definition: d},
		nil
}

// calendars are those of schedules, shared where they are the same. The lock of the timetable is held.
type calendars struct {
	zone  func(name string) (*time.Location, error)
	clock run.Clock
	have  map[schedule.Calendar]cron.Schedule
}

// of reads the calendar of a schedule.
func (x *calendars) of(r *schedule.Row) (cron.Schedule, error) {
	c := r.Definition.Calendar
	if have, ok := x.have[c]; ok {
		return have, nil
	}
	var s cron.Schedule
	if c.Zone != "" {
		loc, err := x.zone(c.Zone)
		if err != nil {
			return s, err
		}
		s.Zone = loc
	}
	it, _, err := c.Item(r.Key, s.Zone, r.Created, x.clock.Wall())
	if err != nil {
		return s, err
	}
	s.Item = it
	if c.Shared() && len(x.have) < maxItems {
		x.have[c] = s
	}
	return s, nil
}

// maxItems bounds the calendars that are kept to be shared.
const maxItems = 10_000

// put makes a row the newest. The lock is held.
func (t *Timetable) put(r schedule.Row) {
	c, err := t.calendars.of(&r)
	if err != nil {
		t.cfg.Log.Warn("calendar cannot be used", "schedule", r.Key.String(), "error", err)
	}
	t.board.Put(r, c, err)
}

// ZonesChanged reads the calendars of the named zones again.
func (t *Timetable) ZonesChanged(names []string) {
	t.mu.Lock()
	maps.DeleteFunc(t.calendars.have, func(c schedule.Calendar,
		_ cron.Schedule) bool {
		return slices.Contains(names, c.Zone)
	})
	for _, k := range t.board.Keys() {
		if r, ok := t.board.Get(k); ok && slices.Contains(names, r.Definition.Zone) {
			t.put(r)
		}
	}
	t.mu.Unlock()
	t.loop.Wake()
}

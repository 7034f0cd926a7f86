package cron

import (
	"errors"
	"time"
)

// Schedule is an item in a zone: the value that a store-backed scheduler keeps
// for each schedule. All state is the cursor, the instant up to which
// everything has been decided, which the caller stores in the same transaction
// as its decisions. Comparing and copying it is cheap.
type Schedule struct {
	Item *Item
	Zone *time.Location // may be nil for an epoch item
}

// Due has the times between a cursor and now.
type Due struct {
	// Fire are logical times that are due, oldest first, at most the limit.
	Fire []Occurrence
	// Rest is how many more are due and not listed.
	Rest int64
	// Skipped are matches that the policies of the item leave out, for the
	// history; at most the limit, the newest are kept.
	Skipped []Occurrence
	// Next is the first logical time after now; zero when the schedule has none.
	Next time.Time
}

// Due lists the logical times in (cursor, now], the oldest first: the input of the misfire policy
// "all". A cursor at or after now, stored by a leader whose clock was ahead, gives nothing: time
// is never decided twice. It is ErrNoZone without a zone, ErrNeverMatches if the item cannot fire.
func (s Schedule) Due(cursor, now time.Time, limit int) (Due, error) {
	d, err := s.prepare(cursor, now)
	if err != nil {
		return d, err
	}
	at := cursor
	for len(d.Fire) < limit {
		if at, err = s.Item.Next(at, s.Zone); err != nil || at.After(now) {
			break
		}
		d.Fire = append(d.Fire, s.Item.Describe(at, s.Zone))
	}
	if n := len(d.Fire); n == limit {
		from := cursor
		if n > 0 {
			from = d.Fire[n-1].At
		}
		d.Rest = s.Item.Count(from, now, s.Zone)
	}
	d.Skipped = s.Skips(cursor, now, limit)
	return d, nil
}

// Latest lists the newest logical times in (cursor, now], at most limit, in
// order of time; Rest counts the older ones. With limit 1 it answers the
// misfire policy "once" in a few searches, however long the outage was.
func (s Schedule) Latest(cursor, now time.Time, limit int) (Due, error) {
	d, err := s.prepare(cursor, now)
	if err != nil {
		return d, err
	}
	until := now
	for len(d.Fire) < limit {
		at, ok := s.Item.Last(cursor, until, s.Zone)
		if !ok {
			break
		}
		d.Fire = append(d.Fire, s.Item.Describe(at, s.Zone))
		until = at.Add(-time.Second)
	}
	for i, j := 0, len(d.Fire)-1; i < j; i, j = i+1, j-1 {
		d.Fire[i], d.Fire[j] = d.Fire[j], d.Fire[i]
	}
	if len(d.Fire) == limit {
		d.Rest = s.Item.Count(cursor, until, s.Zone)
	}
	d.Skipped = s.Skips(cursor, now, limit)
	return d, nil
}

// prepare computes the times after now, and finds the errors.
func (s Schedule) prepare(cursor, now time.Time) (Due, error) {
	from := now
	if cursor.After(now) {
		from = cursor
	}
	next, err := s.Item.Next(from, s.Zone)
	if errors.Is(err, ErrNoMoreMatches) {
		err = nil
	}
	return Due{Next: next}, err
}

// Next gives the first logical time after t, zero when there is none.
func (s Schedule) Next(t time.Time) (time.Time, error) {
	next, err := s.Item.Next(t, s.Zone)
	if errors.Is(err, ErrNoMoreMatches) {
		return time.Time{}, nil
	}
	return next, err
}

// Once is Latest with limit 1 for the scheduler's main loop, without the
// history: the newest logical time in (cursor, now], how many older ones are
// passed over, and the first one after now. ok is false when nothing is due. It
// allocates nothing.
func (s Schedule) Once(cursor, now time.Time) (last time.Time, passed int64, next time.Time, ok bool, err error) {
	from := now
	if cursor.After(now) {
		from = cursor
	}
	if next, err = s.Next(from); err != nil {
		return last, 0, next, false, err
	}
	if last, ok = s.Item.Last(cursor, now, s.Zone); ok {
		passed = s.Item.Count(cursor, last, s.Zone) - 1
	}
	return last, passed, next, ok, nil
}

// NextSkip gives the first match in (cursor, until] that the policies of the item leave
// out; false when there is none.
func (s Schedule) NextSkip(cursor, until time.Time) (Occurrence, bool) {
	if o, _ := s.Item.firstSkip(cursor.Unix()+1, until.Unix(), s.Zone); o != nil {
		return *o, true
	}
	return Occurrence{}, false
}

// Skips lists the matches in (cursor, now] that the policies of the item leave
// out, with reasons; at most limit, the newest are kept, and of the last
// hundred days only.
func (s Schedule) Skips(cursor, now time.Time, limit int) []Occurrence {
	const history = 100 * daySecs
	var out []Occurrence
	if limit <= 0 {
		return nil
	}
	t := max(cursor.Unix()+1, now.Unix()-history)
	for {
		o, at := s.Item.firstSkip(t, now.Unix(), s.Zone)
		if o == nil {
			return out
		}
		if len(out) == limit {
			out = append(out[:0], out[1:]...)
		}
		out = append(out, *o)
		t = at + 1
	}
}

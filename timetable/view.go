package timetable

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"cantina/cron"
	"cantina/fault"
	"cantina/plan"
	"cantina/schedule"
)

// shown is a committed row.
type shown struct {
	row      *schedule.Row
	revision int64
}

// committed are the rows that readers see. The lock of the timetable is held.
type committed struct {
	rows  map[schedule.Key]shown
	order []schedule.Key // of rows; nil = to be made again
}

func (c *committed) put(r schedule.Row, revision int64) {
	if _, ok := c.rows[r.Key]; !ok {
		c.order = nil
	}
	c.rows[r.Key] = shown{&r, revision}
}

func (c *committed) delete(k schedule.Key) {
	delete(c.rows, k)
	c.order = nil
}

// after are the keys that follow one, in order.
func (c *committed) after(k schedule.Key) []schedule.Key {
	if c.order == nil {
		c.order = slices.SortedFunc(maps.Keys(c.rows), schedule.Key.Compare)
	}
	i, found := slices.BinarySearchFunc(c.order, k, schedule.Key.Compare)
	if found {
		i++
	}
	return c.order[i:]
}

func (t *Timetable) view(s shown) plan.Schedule {
	v := plan.Schedule{Row: *s.row, Revision: s.revision, Note: t.wall.note(s.row)}
	if !s.row.Definition.Elapsed() {
		v.Lead = s.row.State.Lead(t.cfg.Clock.Wall())
	}
	if at, ok := t.board.Next(s.row.Key); ok {
		v.Next = at
	}
	if c, err := t.board.Cron(s.row.Key); err != nil {
		v.Problem = err.Error()
	} else {
		v.Words = c.Item.WordsIn(c.Zone, t.cfg.Clock.Wall())
	}
	return v
}

// List lists committed schedules in order of domain and name, of one domain (empty =
// all), strictly after a key, at most limit. more: there are more.
func (t *Timetable) List(f plan.NameFilter, after schedule.Key, limit int) (out []plan.Schedule, more bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range t.shown.after(after) {
		if !f.Takes(k.Domain, k.Name) || !f.Labels.Selects(t.shown.rows[k].row.Definition.Labels()) {
			continue
		}
		if len(out) == limit {
			return out, true
		}
		out = append(out, t.view(t.shown.rows[k]))
	}
	return out, false
}

// Get returns one committed schedule: schedule.ErrNotFound, ErrQuarantined.
func (t *Timetable) Get(k schedule.Key) (plan.Schedule, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, ok := t.shown.rows[k]
	switch {
	case t.unreadable.has(k):
		return plan.Schedule{}, fmt.Errorf("schedule %v: %w", k, fault.ErrQuarantined)
	case !ok:
		return plan.Schedule{}, fmt.Errorf("schedule %v: %w", k, schedule.ErrNotFound)
	}
	return t.view(s), nil
}

// Len is how many schedules there are.
func (t *Timetable) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.shown.rows)
}

// Upcoming lists the next n logical times of a schedule, with marks, and the matches
// that its policies leave out.
func (t *Timetable) Upcoming(k schedule.Key, n int) ([]cron.Occurrence, error) {
	t.mu.Lock()
	c, err := t.board.Cron(k)
	row, _ := t.board.Get(k)
	t.mu.Unlock()
	if err != nil {
		return nil, fmt.Errorf("schedule %v: %w", k, err)
	}
	from := t.cfg.Clock.Wall()
	if row.State.Cursor.After(from) {
		from = row.State.Cursor
	}
	list, err := cron.Preview(c.Item, c.Zone, from.Truncate(time.Second).Add(time.Second), n)
	return slices.DeleteFunc(list, func(o cron.Occurrence) bool { return !row.State.Comes(o.At) }), err
}

// ListMissed lists logical times that did not fire and a person may want to fill in,
// oldest first, at most limit; rest counts the others.
func (t *Timetable) ListMissed(k schedule.Key, limit int) (out []plan.Missed, rest int, err error) {
	v, err := t.Get(k)
	if err != nil {
		return nil, 0, err
	}
	t.mu.Lock()
	c, err := t.board.Cron(k)
	t.mu.Unlock()
	if err != nil {
		return nil, 0, fmt.Errorf("schedule %v: %w", k, err)
	}
	for _, x := range v.State.Missed() {
		at := x.After
		for len(out) < limit {
			if at, err = c.Next(at); err != nil || at.IsZero() || at.After(x.Until) {
				break
			}
			out = append(out, plan.Missed{At: at.UTC(), Why: x.Why})
		}
		if len(out) == limit {
			rest += int(c.Item.Count(at, x.Until, c.Zone))
		}
	}
	return out, rest, nil
}

// reason is one without amounts.
func reason(code, text, change string) plan.Reason {
	return plan.Reason{Code: code, Text: text, Change: change}
}

// Explain returns why a schedule is in its state.
func (t *Timetable) Explain(k schedule.Key) (state string, fine bool, reasons []plan.Reason, err error) {
	v, err := t.Get(k)
	if err != nil {
		return "", false, nil, err
	}
	s := &v.State
	switch {
	case v.Problem != "":
		return "broken", false, []plan.Reason{reason("calendar", v.Problem,
			"apply it again with a calendar that can be used")}, nil
	case s.Paused:
		return s.Phase(), false, []plan.Reason{reason("paused", "paused", "cantina cron resume "+k.Name)}, nil
	case v.Next.IsZero():
		reasons = append(reasons, reason("never", "its calendar has no future times", ""))
	default:
		reasons = append(reasons, reason("next", "next firing at "+v.Next.UTC().Format(time.RFC3339), ""))
	}
	if x := v.Definition.Signal; x != nil {
		reasons = append(reasons, target(t.cfg.Signals, v.Domain, x))
	}
	state, fine = schedule.Waiting, true
	if v.Lead > 0 {
		state, fine = schedule.Behind, false
	}
	if clock := t.wall.reason(&v.Row); clock.Code != "" {
		reasons = append(reasons, clock)
	}
	if waits := pending(s); len(waits) > 0 {
		state, fine = s.Phase(), s.Phase() != schedule.Undecided
		reasons = append(reasons, waits...)
	}
	if n := len(s.History); n > 0 && s.History[n-1].Decision == schedule.Skipped {
		e := &s.History[n-1]
		if e.Why == schedule.WhyOverlap || e.Why == schedule.WhyFailed {
			state, fine = "skipping", false
		}
		change := ""
		if e.Why == schedule.WhyOverlap {
			change = "let it end, or use overlap: allow or replace"
		}
		reasons = append(reasons, reason("skipped", e.Times()+" was "+e.String(), change))
	}
	return state, fine, reasons, nil
}

// maxPending is how many of the logical times that are due Explain names.
const maxPending = 5

// pending returns why a due firing has not started.
func pending(s *schedule.State) (out []plan.Reason) {
	for i, f := range s.Pending {
		if i == maxPending {
			return append(out, reason(schedule.Undecided, fmt.Sprintf("%d more are due", len(s.Pending)-i), ""))
		}
		text, why := " is due and undecided: ", s.WhyWaits(f)
		if why == "" {
			why = "unknown whether an earlier run is still running"
		} else if f.Late {
			text = " was missed: "
		}
		out = append(out, reason(schedule.Undecided, f.At.Format(time.RFC3339)+text+why, ""))
	}
	return out
}

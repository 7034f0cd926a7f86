package apitest

import (
	"context"
	"fmt"
	"time"

	"cantina/cron"
	"cantina/event"
	"cantina/plan"
	"cantina/schedule"
)

// putSchedule stores a schedule that was applied; mu is held.
func (f *scheduleRows) putSchedule(k schedule.Key, d schedule.Definition) {
	row := schedule.Row{Key: k, UID: "u-" + k.Name, Created: f.now(), Edited: f.now(), Definition: &d,
		State: schedule.New(f.now())}
	f.setSchedule(row)
}

func (f *scheduleRows) setSchedule(row schedule.Row) {
	s := &plan.Schedule{Row: row, Revision: f.revision}
	if c, err := cronOf(&row); err != nil {
		s.Problem = err.Error()
	} else if next, err := c.Next(row.State.Cursor); err == nil && !row.State.Paused {
		s.Next, s.Words = next, c.Item.WordsIn(c.Zone, f.now())
	}
	f.schedules[row.Key.String()] = s
	f.publish(event.Event{Kind: event.Schedule, Domain: row.Domain, Subject: row.Key.String(), Schedule: &row})
}

func cronOf(row *schedule.Row) (cron.Schedule, error) {
	loc, err := time.LoadLocation(row.Definition.Zone)
	if err != nil {
		return cron.Schedule{}, err
	}
	it, _, err := row.Definition.Item(row.Key, loc, row.Created, row.Created)
	return cron.Schedule{Item: it, Zone: loc}, err
}

// ListSchedules implements api.Schedules.
func (f *scheduleRows) ListSchedules(q plan.NameFilter, r plan.Range) (plan.Page[plan.Schedule], error) {
	return page(f.commits, f.schedules, r, func(s *plan.Schedule) bool {
		return q.Takes(s.Domain, s.Name) && q.Labels.Selects(s.Definition.Labels())
	}), nil
}

// GetSchedule implements api.Schedules.
func (f *scheduleRows) GetSchedule(k schedule.Key) (plan.Schedule, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.schedules[k.String()]; s != nil {
		return *s, nil
	}
	return plan.Schedule{}, fmt.Errorf("schedule %v: %w", k, schedule.ErrNotFound)
}

// Upcoming implements api.Schedules.
func (f *scheduleRows) Upcoming(k schedule.Key, n int) ([]cron.Occurrence, error) {
	s, err := f.GetSchedule(k)
	if err != nil {
		return nil, err
	}
	c, err := cronOf(&s.Row)
	if err != nil {
		return nil, err
	}
	return cron.Preview(c.Item, c.Zone, s.State.Cursor.Add(time.Second), n)
}

// ListMissed implements api.Schedules: it returns the ends of the missed spans.
func (f *scheduleRows) ListMissed(k schedule.Key, limit int) ([]plan.Missed, int, error) {
	s, err := f.GetSchedule(k)
	var out []plan.Missed
	for _, x := range s.State.Missed() {
		if len(out) == limit {
			return out, 1, err
		}
		out = append(out, plan.Missed{At: x.Until, Why: x.Why})
	}
	return out, 0, err
}

// Outcome implements api.Schedules.
func (f *Fake) Outcome(run string) string {
	t, err := f.GetTask(run)
	if err != nil {
		return ""
	}
	return t.Outcome.String()
}

// step gives an event to a schedule, as the real leader does.
func (f *scheduleRows) step(k schedule.Key, e schedule.Event, w plan.Write) (was, is schedule.State, err error) {
	s, err := f.GetSchedule(k)
	if err != nil {
		return was, is, err
	}
	c, err := cronOf(&s.Row)
	if err != nil {
		return was, is, err
	}
	was = s.State
	is, err = once(f.commits, w, s.Revision, func() (schedule.State, error) {
		next, _, err := schedule.Step(was, e, schedule.Env{Now: f.now(), Key: k, Cron: c, Definition: s.Definition})
		if err == nil {
			row := s.Row
			row.State = next
			f.setSchedule(row)
		}
		return next, err
	})
	return was, is, err
}

// PauseSchedule implements api.ChangeSchedules.
func (f *scheduleRows) PauseSchedule(_ context.Context, k schedule.Key, paused bool, w plan.Write) error {
	var e schedule.Event = schedule.Resume{}
	if paused {
		e = schedule.Pause{}
	}
	_, _, err := f.step(k, e, w)
	return err
}

// RunSchedule implements api.ChangeSchedules.
func (f *scheduleRows) RunSchedule(_ context.Context, k schedule.Key, at time.Time, w plan.Write) (string, error) {
	_, is, err := f.step(k, schedule.Fire{At: at}, w)
	if n := len(is.History); err == nil && n > 0 {
		return is.History[n-1].ID, nil
	}
	return "", err
}

// Backfill implements api.ChangeSchedules.
func (f *scheduleRows) Backfill(_ context.Context, k schedule.Key, from, to time.Time, limit int, w plan.Write) (int,
	error) {
	was, is, err := f.step(k, schedule.Backfill{From: from, To: to, Max: limit}, w)
	return is.Fired - was.Fired + len(is.Pending) - len(was.Pending), err
}

// ResetSchedule implements api.ChangeSchedules.
func (f *scheduleRows) ResetSchedule(_ context.Context, k schedule.Key, w plan.Write) (time.Time, error) {
	was, is, err := f.step(k, schedule.Rewind{}, w)
	if err != nil || is.Equal(&was) {
		return time.Time{}, err
	}
	return was.Cursor, nil
}

// RemoveSchedule implements api.ChangeSchedules.
func (f *scheduleRows) RemoveSchedule(_ context.Context, k schedule.Key, w plan.Write) error {
	s, err := f.GetSchedule(k)
	if err != nil {
		return err
	}
	_, err = once(f.commits, w, s.Revision, func() (struct{}, error) {
		delete(f.schedules, k.String())
		f.publish(event.Event{Kind: event.Schedule, Domain: k.Domain, Subject: k.String(), Gone: true, Schedule: &s.Row})
		return struct{}{}, nil
	})
	return err
}

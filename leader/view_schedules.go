package leader

import (
	"context"
	"time"

	"cantina/api"
	"cantina/cron"
	"cantina/schedule"
	"cantina/timetable"
)

func toSchedule(v timetable.View) api.Schedule {
	return api.Schedule{Row: v.Row, Next: v.Next, Words: v.Words, Problem: v.Problem, Lead: v.Lead, Note: v.Note, Revision: v.Revision}
}

// ListSchedules implements api.Schedules.
func (v view) ListSchedules(domain string, r api.Range) (api.Listed[api.Schedule], error) {
	if err := v.fresh(); err != nil {
		return api.Listed[api.Schedule]{}, err
	}
	var after schedule.Key
	if r.After != "" {
		after = timetable.ParseKey(r.After)
	}
	list, more := v.Timetable.List(domain, after, r.Limit)
	out := api.Listed[api.Schedule]{Revision: v.hub.Newest().Revision}
	for _, s := range list {
		out.Items = append(out.Items, toSchedule(s))
	}
	if more {
		out.Next = list[len(list)-1].Key.String()
	}
	return out, nil
}

// GetSchedule implements api.Schedules.
func (v view) GetSchedule(k schedule.Key) (api.Schedule, error) {
	if err := v.fresh(); err != nil {
		return api.Schedule{}, err
	}
	s, err := v.Timetable.Get(k)
	if err != nil {
		return api.Schedule{}, err
	}
	return toSchedule(s), nil
}

// Upcoming implements api.Schedules.
func (v view) Upcoming(k schedule.Key, n int) ([]cron.Occurrence, error) {
	if err := v.fresh(); err != nil {
		return nil, err
	}
	return v.Timetable.Preview(k, n)
}

// ListMissed implements api.Schedules.
func (v view) ListMissed(k schedule.Key, limit int) (list []api.Missed, more int, err error) {
	if err := v.fresh(); err != nil {
		return nil, 0, err
	}
	got, more, err := v.Timetable.Missed(k, limit)
	for _, m := range got {
		list = append(list, api.Missed(m))
	}
	return list, more, err
}

// Outcome implements api.Schedules.
func (v view) Outcome(run string) string {
	t, err := v.Board.GetTask(run)
	if err != nil {
		return ""
	}
	if t.Ended() {
		return t.Outcome.String()
	}
	return t.State.String()
}

func toTimeWrite(w api.Write) timetable.Write {
	return timetable.Write{Key: w.Key, Expect: w.Expect, By: w.By}
}

// PauseSchedule implements api.Schedules.
func (v view) PauseSchedule(ctx context.Context, k schedule.Key, paused bool, w api.Write) error {
	return v.Timetable.Pause(ctx, k, paused, toTimeWrite(w))
}

// RunSchedule implements api.Schedules.
func (v view) RunSchedule(ctx context.Context, k schedule.Key, at time.Time, w api.Write) (string, error) {
	return v.Timetable.Fire(ctx, k, at, toTimeWrite(w))
}

// Backfill implements api.Schedules.
func (v view) Backfill(ctx context.Context, k schedule.Key, from, to time.Time, limit int, w api.Write) (int, error) {
	return v.Timetable.Backfill(ctx, k, from, to, limit, toTimeWrite(w))
}

// ResetSchedule implements api.Schedules.
func (v view) ResetSchedule(ctx context.Context, k schedule.Key, w api.Write) (time.Time, error) {
	return v.Timetable.Reset(ctx, k, toTimeWrite(w))
}

// RemoveSchedule implements api.Schedules.
func (v view) RemoveSchedule(ctx context.Context, k schedule.Key, w api.Write) error {
	return v.Timetable.Remove(ctx, k, toTimeWrite(w))
}

func (v view) explainSchedule(s api.Subject) (api.Explanation, error) {
	state, fine, reasons, err := v.Timetable.Explain(schedule.Key{Domain: s.Domain, Name: s.Name})
	if err != nil {
		return api.Explanation{}, err
	}
	out := api.Explanation{Subject: s, State: state, Wanted: "waiting", Fine: fine}
	for _, r := range reasons {
		out.Reasons = append(out.Reasons, api.Reason{Code: r.Code, Text: r.Text, Change: r.Change})
	}
	return out, nil
}

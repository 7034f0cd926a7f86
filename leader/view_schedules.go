package leader

import (
	"cantina/cron"
	"cantina/plan"
	"cantina/schedule"
	"cantina/timetable"
)

// ListSchedules implements api.Schedules.
func (v view) ListSchedules(domain string, r plan.Range) (plan.Page[plan.Schedule], error) {
	if err := v.fresh(); err != nil {
		return plan.Page[plan.Schedule]{}, err
	}
	var after schedule.Key
	if r.After != "" {
		after = timetable.ParseKey(r.After)
	}
	list, more := v.Timetable.List(domain, after, r.Limit)
	out := plan.Page[plan.Schedule]{Items: list, Revision: v.hub.Newest().Revision}
	if more {
		out.Next = list[len(list)-1].Key.String()
	}
	return out, nil
}

// GetSchedule implements api.Schedules.
func (v view) GetSchedule(k schedule.Key) (plan.Schedule, error) {
	if err := v.fresh(); err != nil {
		return plan.Schedule{}, err
	}
	return v.Timetable.Get(k)
}

// Upcoming implements api.Schedules.
func (v view) Upcoming(k schedule.Key, n int) ([]cron.Occurrence, error) {
	if err := v.fresh(); err != nil {
		return nil, err
	}
	return v.Timetable.Upcoming(k, n)
}

// ListMissed implements api.Schedules.
func (v view) ListMissed(k schedule.Key, limit int) (list []plan.Missed, more int, err error) {
	if err := v.fresh(); err != nil {
		return nil, 0, err
	}
	return v.Timetable.ListMissed(k, limit)
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

func (v view) explainSchedule(s plan.Subject) (plan.Explanation, error) {
	state, fine, reasons, err := v.Timetable.Explain(schedule.Key{Domain: s.Domain, Name: s.Name})
	if err != nil {
		return plan.Explanation{}, err
	}
	return plan.Explanation{Subject: s, State: state, Wanted: "waiting", Fine: fine, Reasons: reasons}, nil
}

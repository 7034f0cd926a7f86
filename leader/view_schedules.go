package leader

import (
	"errors"

	"cantina/cron"
	"cantina/plan"
	"cantina/schedule"
	"cantina/timetable"
)

// ListSchedules implements api.Schedules.
func (v scheduleView) ListSchedules(domain string, r plan.Range) (plan.Page[plan.Schedule], error) {
	if err := v.term.fresh(); err != nil {
		return plan.Page[plan.Schedule]{}, err
	}
	var after schedule.Key
	if r.After != "" {
		after = timetable.ParseKey(r.After)
	}
	list, more := v.Timetable.List(domain, after, r.Limit)
	out := plan.Page[plan.Schedule]{Items: list, Revision: v.term.hub.Newest().Revision}
	if more {
		out.Next = list[len(list)-1].Key.String()
	}
	return out, nil
}

// GetSchedule implements api.Schedules.
func (v scheduleView) GetSchedule(k schedule.Key) (plan.Schedule, error) {
	s, err := v.Timetable.Get(k)
	return s, errors.Join(v.term.fresh(), err)
}

// Upcoming implements api.Schedules.
func (v scheduleView) Upcoming(k schedule.Key, n int) ([]cron.Occurrence, error) {
	next, err := v.Timetable.Upcoming(k, n)
	return next, errors.Join(v.term.fresh(), err)
}

// ListMissed implements api.Schedules.
func (v scheduleView) ListMissed(k schedule.Key, limit int) (list []plan.Missed, more int, err error) {
	list, more, err = v.Timetable.ListMissed(k, limit)
	return list, more, errors.Join(v.term.fresh(), err)
}

// Outcome implements api.Schedules.
func (v scheduleView) Outcome(run string) string {
	t, err := v.term.Board.GetTask(run)
	if err != nil {
		return ""
	}
	if t.Ended() {
		return t.Outcome.String()
	}
	return t.State.String()
}

func (v explainView) explainSchedule(s plan.Subject) (plan.Explanation, error) {
	state, fine, reasons, err := v.Timetable.Explain(schedule.Key{Domain: s.Domain, Name: s.Name})
	if err != nil {
		return plan.Explanation{}, err
	}
	return plan.Explanation{Subject: s, State: state, Wanted: "waiting", Fine: fine, Reasons: reasons}, nil
}

package leader

import (
	"errors"
	"slices"

	"cantina/cron"
	"cantina/plan"
	"cantina/schedule"
	"cantina/task"
	"cantina/timetable"
)

// ListSchedules implements api.Schedules.
func (v scheduleView) ListSchedules(f plan.NameFilter, r plan.Range) (plan.Page[plan.Schedule], error) {
	if err := v.term.fresh(); err != nil {
		return plan.Page[plan.Schedule]{}, err
	}
	var after schedule.Key
	if r.After != "" {
		after = timetable.ParseKey(r.After)
	}
	list, more := v.Timetable.List(f, after, r.Limit)
	for i := range list {
		v.dropEnded(&list[i])
	}
	out := plan.Page[plan.Schedule]{Items: list, Revision: v.term.hub.Newest().Revision}
	if more {
		out.Next = list[len(list)-1].Key.String()
	}
	return out, nil
}

// GetSchedule implements api.Schedules.
func (v scheduleView) GetSchedule(k schedule.Key) (plan.Schedule, error) {
	s, err := v.Timetable.Get(k)
	v.dropEnded(&s)
	return s, errors.Join(v.term.fresh(), err)
}

// dropEnded leaves out the runs that have ended since the schedule was decided on last.
func (v scheduleView) dropEnded(s *plan.Schedule) {
	if s.Definition == nil || s.Definition.Task == nil {
		return
	}
	s.State.Live = slices.DeleteFunc(slices.Clone(s.State.Live), func(r schedule.Run) bool {
		t, err := v.term.Board.GetTask(r.ID)
		return hasEnded(t, err)
	})
}

// hasEnded reports whether nothing of a run is left, by the answer to a request for its task.
func hasEnded(t plan.Task, err error) bool {
	if err != nil {
		return errors.Is(err, task.ErrNotFound)
	}
	return !t.MayRun()
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

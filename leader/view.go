package leader

import (
	"context"
	"errors"

	"cantina/batch"
	"cantina/bbs"
	"cantina/plan"
	"cantina/store"
	"cantina/timetable"
)

// view is the API's view of a term: the calls that need more than one part, or information about
// cells. The owner of the rows answers the others.
type (
	view struct {
		applicationView
		boardView
		jobView
		scheduleView
		cellView
		operationView
		explainView
		logView
		stopView
		execView
	}
	applicationView struct{ *Term }
	// boardView shows services, instances and tasks.
	boardView struct {
		*bbs.BBS
		term *Term
	}
	jobView      struct{ *Term }
	scheduleView struct {
		*timetable.Timetable
		term *Term
	}
	cellView      struct{ *Term }
	operationView struct{ *Term }
	explainView   struct{ *Term }
	logView       struct{ *Term }
	stopView      struct{ *Term }
	execView      struct{ *Term }
)

func viewOf(t *Term) view {
	return view{applicationView{t}, boardView{t.Board, t}, jobView{t}, scheduleView{t.Timetable, t}, cellView{t},
		operationView{t}, explainView{t}, logView{t}, stopView{t}, execView{t}}
}

// fresh returns nil while it is certain that no other server leads.
func (t *Term) fresh() error {
	if !t.lease.LeaseHeld() {
		return store.ErrLeaseNotProven
	}
	return nil
}

// kept are the keys of jobs that schedules run: a prune leaves them alone.
func kept(a plan.Application) []string {
	var out []string
	for i := range a.Schedules {
		if a.Schedules[i].Definition.Job != nil {
			out = append(out, batch.FullName(a.Domain, a.Schedules[i].Name))
		}
	}
	return out
}

// Plan implements api.Applications.
func (v applicationView) Plan(_ context.Context, a plan.Application) (plan.Applied, error) {
	if err := v.fresh(); err != nil {
		return plan.Applied{}, err
	}
	a = a.InDomain()
	out, err := v.Board.Plan(a) // first: its revision may be older than the others' state, not newer
	changes, err2 := v.planOthers(a)
	if err := errors.Join(err, err2); err != nil {
		return plan.Applied{}, err
	}
	out.Changes = append(out.Changes, changes...)
	v.noteRoom(&out, a)
	return remarked(out, a), nil
}

// planOthers plans jobs and schedules.
func (v applicationView) planOthers(a plan.Application) ([]plan.Change, error) {
	jobs, err := v.Scheduler.Plan(a.Domain, a.Jobs, a.Prune, kept(a)...)
	times, err2 := v.Timetable.Plan(a.Domain, a.Schedules, a.Prune)
	return append(jobs, times...), errors.Join(err, err2)
}

// Apply implements api.Applications: services, tasks, jobs and schedules in one commit.
func (v applicationView) Apply(ctx context.Context, a plan.Application, w plan.Write) (plan.Applied, error) {
	a = a.InDomain()
	var changes []plan.Change
	asked := false
	out, err := v.Board.Apply(ctx, a, w, func() (part store.Part, err error) {
		asked = true
		part, changes, err = v.applyOthers(a)
		return part, err
	})
	if err != nil && !asked { // all that is wrong is returned at once
		_, others := v.planOthers(a)
		err = errors.Join(err, others)
	}
	if err != nil {
		return plan.Applied{}, err
	}
	out.Changes = append(out.Changes, changes...)
	return remarked(out, a), nil
}

// applyOthers prepares jobs and schedules; the board's lock is held.
func (v applicationView) applyOthers(a plan.Application) (store.Part, []plan.Change, error) {
	jobs, err := v.Scheduler.Apply(a.Domain, a.Jobs, a.Prune, kept(a)...)
	if err != nil {
		_, others := v.Timetable.Plan(a.Domain, a.Schedules, a.Prune)
		return store.Part{}, nil, errors.Join(err, others)
	}
	times, err := v.Timetable.Apply(a.Domain, a.Schedules, a.Prune)
	if err != nil {
		jobs.Undo()
		return store.Part{}, nil, err
	}
	return store.Part{Ops: append(jobs.Ops, times.Ops...), Undo: func() {
		times.Undo()
		jobs.Undo()
	}, Done: func(revision int64, err error) {
		jobs.Done(revision, err)
		times.Done(revision, err)
	}}, append(jobs.Lines, times.Lines...), nil
}

// remarked adds the remarks on the files and their calendars.
func remarked(out plan.Applied, a plan.Application) plan.Applied {
	out.Warnings = append(out.Warnings, a.Warnings...)
	for _, s := range a.Schedules {
		out.Warnings = append(out.Warnings, s.Warnings...)
	}
	return out
}

// each changes every item of a page.
func each[T any](p plan.Page[T], f func(T) T) plan.Page[T] {
	for i := range p.Items {
		p.Items[i] = f(p.Items[i])
	}
	return p
}

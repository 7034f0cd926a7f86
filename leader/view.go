package leader

import (
	"context"
	"errors"

	"cantina/api"
	"cantina/bbs"
	"cantina/scheduler"
	"cantina/store"
	"cantina/timetable"
)

// view is a term as the API sees it.
type view struct{ *Term }

func (v view) fresh() error {
	if !v.lease.LeaseHeld() {
		return store.ErrLeaseNotProven
	}
	return nil
}

func fromRange(r api.Range) bbs.Range { return bbs.Range{After: r.After, Limit: r.Limit} }

func toWrite(w api.Write) bbs.Write { return bbs.Write{Key: w.Key, Expect: w.Expect, By: w.By} }

func listed[A, B any](p bbs.Page[A], f func(A) B) api.Listed[B] {
	out := api.Listed[B]{Items: make([]B, len(p.Items)), Next: p.Next, Revision: p.Revision}
	for i, it := range p.Items {
		out.Items[i] = f(it)
	}
	return out
}

// wanted is what a spec file wants, split between its owners.
type wanted struct {
	board bbs.Application
	jobs  []scheduler.Wanted
	times []timetable.Wanted
}

// kept are the names of jobs that schedules run: a prune leaves them alone.
func (w *wanted) kept() []string {
	var out []string
	for i := range w.times {
		if w.times[i].Definition.Job != nil {
			out = append(out, w.times[i].Name)
		}
	}
	return out
}

func application(a api.Application) wanted {
	out := wanted{board: bbs.Application{Domain: a.Domain, TTL: a.TTL, Services: a.Services, Prune: a.Prune}}
	for _, t := range a.Tasks {
		out.board.Tasks = append(out.board.Tasks, bbs.NamedTask{Name: t.Name, Definition: t.Definition})
	}
	for _, j := range a.Jobs {
		j.Job.Domain = a.Domain
		out.jobs = append(out.jobs, scheduler.Wanted{Job: j.Job, Forest: j.Forest})
	}
	for _, s := range a.Schedules {
		if s.Definition.Job != nil {
			j := *s.Definition.Job
			j.Job.Domain = a.Domain
			s.Definition.Job = &j
		}
		out.times = append(out.times, timetable.Wanted{Name: s.Name, Definition: s.Definition})
	}
	return out
}

func applied(a bbs.Applied, lines []scheduler.Line, times []timetable.Line) api.Applied {
	out := api.Applied{Revision: a.Revision}
	for _, c := range a.Changes {
		x := api.Change{Kind: c.Kind, Name: c.Name, Verb: api.Verb(c.Verb), Note: c.Note}
		for _, f := range c.Fields {
			x.Fields = append(x.Fields, api.FieldChange(f))
		}
		out.Changes = append(out.Changes, x)
	}
	for _, l := range lines {
		x := api.Change{Kind: "job", Name: l.Name, Verb: api.Verb(l.Verb), Note: l.Note, Nodes: l.Nodes}
		for _, f := range l.Fields {
			x.Fields = append(x.Fields, api.FieldChange(f))
		}
		out.Changes = append(out.Changes, x)
	}
	for _, l := range times {
		x := api.Change{Kind: "schedule", Name: l.Name, Verb: api.Verb(l.Verb), Note: l.Note}
		for _, f := range l.Fields {
			x.Fields = append(x.Fields, api.FieldChange(f))
		}
		out.Changes = append(out.Changes, x)
	}
	return out
}

// Plan implements api.Applications.
func (v view) Plan(_ context.Context, a api.Application) (api.Applied, error) {
	if err := v.fresh(); err != nil {
		return api.Applied{}, err
	}
	w := application(a)
	got, err2 := v.Board.Plan(w.board) // first: its revision may be older than what the others see, not newer
	lines, err := v.Scheduler.Plan(a.Domain, w.jobs, a.Prune, w.kept()...)
	times, err3 := v.Timetable.Plan(a.Domain, w.times, a.Prune)
	if err := errors.Join(err2, err, err3); err != nil {
		return api.Applied{}, err
	}
	return remarked(applied(got, lines, times), a), nil
}

// remarked adds the remarks on calendars.
func remarked(out api.Applied, a api.Application) api.Applied {
	for _, s := range a.Schedules {
		out.Warnings = append(out.Warnings, s.Warnings...)
	}
	return out
}

// Apply implements api.Applications: services, tasks, jobs and schedules in one commit.
func (v view) Apply(ctx context.Context, a api.Application, w api.Write) (api.Applied, error) {
	all := application(a)
	if _, err := v.Board.Plan(all.board); err != nil {
		_, err2 := v.Scheduler.Plan(a.Domain, all.jobs, a.Prune, all.kept()...)
		_, err3 := v.Timetable.Plan(a.Domain, all.times, a.Prune)
		return api.Applied{}, errors.Join(err, err2, err3)
	}
	var lines []scheduler.Line
	var times []timetable.Line
	all.board.Extra = func() (bbs.Extra, error) {
		c, err := v.Scheduler.Apply(a.Domain, all.jobs, a.Prune, all.kept()...)
		if err != nil {
			return bbs.Extra{}, err
		}
		t, err := v.Timetable.Apply(a.Domain, all.times, a.Prune)
		if err != nil {
			c.Undo()
			return bbs.Extra{}, err
		}
		lines, times = c.Lines, t.Lines
		return bbs.Extra{Ops: append(c.Ops, t.Ops...), Undo: func() {
			t.Undo()
			c.Undo()
		}, Done: func(revision int64, err error) {
			c.Done(revision, err)
			t.Done(revision, err)
		}}, nil
	}
	got, err := v.Board.Apply(ctx, all.board, toWrite(w))
	if err != nil {
		return api.Applied{}, err
	}
	return remarked(applied(got, lines, times), a), nil
}

package leader

import (
	"context"

	"cantina/bbs"
	"cantina/internal/differ"
	"cantina/plan"
	"cantina/schedule"
	"cantina/scheduler"
	"cantina/store"
	"cantina/task"
	"cantina/timetable"
	"cantina/worker"
)

// jobRunner is the part of the scheduler that a timetable needs: scheduler.Scheduler.
type jobRunner interface {
	Renew(domain string, w plan.NamedJob) (*scheduler.Change, error)
	Running(name string, held bool) scheduler.Answer
	Job(name string) (plan.Job, error)
}

// sessionSource is the part of the registry that it needs: registry.Registry.
type sessionSource interface {
	IsBack(proc worker.Proc) bool
	Waits() bool
	Stale() bool
}

// ConnectTimetable connects a timetable to board, scheduler and registry.
func ConnectTimetable(c timetable.Config, b *bbs.BBS, jobs jobRunner, reg sessionSource) timetable.Config {
	c.Board, c.Jobs, c.Sessions, c.Contents, c.Differ = TimetableBoard(b), timetableJobs{jobs, reg},
		timetableSessions{reg}, TimetableContents{}, DiffFields
	return c
}

// DiffFields implements timetable.Config.Differ.
func DiffFields(was, is any) (out []plan.FieldChange) {
	for _, f := range differ.Fields("", was, is) {
		out = append(out, plan.FieldChange(f))
	}
	return out
}

// TimetableBoard lets a timetable decide on the board.
func TimetableBoard(b *bbs.BBS) timetable.Board { return timetableBoard{b} }

type timetableBoard struct{ *bbs.BBS }

type timetableRows struct{ *bbs.Decision }

// Add implements timetable.Rows.
func (r timetableRows) Add(ops []store.Op, done func(int64, error), undo func()) {
	r.Decision.Add(store.Part{Ops: ops, Done: done, Undo: undo})
}

// Decide implements timetable.Board.
func (b timetableBoard) Decide(fn func(timetable.Rows) error) error {
	return b.BBS.Decide(func(d *bbs.Decision) error { return fn(timetableRows{d}) })
}

// Write implements timetable.Board.
func (b timetableBoard) Write(ctx context.Context, w plan.Write, operation string, request []byte,
	fn func(timetable.Rows) ([]byte, error)) ([]byte, int64, error) {
	return b.WriteDecision(ctx, plan.Write{Key: w.Key, By: w.By}, operation, request,
		func(d *bbs.Decision) ([]byte, error) { return fn(timetableRows{d}) })
}

// timetableJobs lets a timetable rerun jobs.
type timetableJobs struct {
	jobRunner
	reg sessionSource
}

// Renew implements timetable.Jobs.
func (j timetableJobs) Renew(rows timetable.Rows, domain string, w *schedule.Job) error {
	c, err := j.jobRunner.Renew(domain, plan.NamedJob{Job: w.Job, Forest: w.Forest})
	if err != nil {
		return err
	}
	rows.Add(c.Ops, c.Done, c.Undo)
	return nil
}

// Runs implements timetable.Jobs.
func (j timetableJobs) Runs(k schedule.Key) schedule.Answer {
	switch j.Running(k.String(), j.reg.Waits()) {
	case scheduler.AnswerRunning:
		return schedule.Running
	case scheduler.AnswerUnknown:
		return schedule.Unknown
	case scheduler.AnswerEnded:
	}
	return schedule.Ended
}

// Outcome implements timetable.Jobs.
func (j timetableJobs) Outcome(k schedule.Key) string {
	x, err := j.Job(k.String())
	if err != nil || x.Removed {
		return "removed"
	}
	return x.Progress.State.String()
}

// timetableSessions returns the state of cell processes.
type timetableSessions struct{ sessionSource }

// Heard implements timetable.Sessions.
func (s timetableSessions) Heard(proc string) bool { return s.IsBack(worker.Proc(proc)) || !s.Waits() }

// TimetableContents encodes the work that schedules start: it implements timetable.Contents.
type TimetableContents struct{}

// TaskBytes implements timetable.Contents.
func (TimetableContents) TaskBytes(d *task.Definition) []byte { return bbs.EncodeDefinition(d) }

// Task implements timetable.Contents.
func (TimetableContents) Task(data []byte) (*task.Definition, error) {
	d, err := bbs.DecodeDefinition(data)
	return &d, err
}

// JobBytes implements timetable.Contents.
func (TimetableContents) JobBytes(j *schedule.Job) ([]byte, error) {
	return scheduler.EncodeWanted(&plan.NamedJob{Job: j.Job, Forest: j.Forest})
}

// Job implements timetable.Contents.
func (TimetableContents) Job(data []byte) (*schedule.Job, error) {
	w, err := scheduler.DecodeWanted(data)
	return &schedule.Job{Job: w.Job, Forest: w.Forest}, err
}

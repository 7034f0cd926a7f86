// Package timing connects the timetable of a term to the shells beside it: it decides on
// their board, runs jobs by their scheduler, and knows from their registry what may still
// run. It sends the signals of schedules.
package timing

import (
	"context"

	"cantina/bbs"
	"cantina/internal/differ"
	"cantina/schedule"
	"cantina/scheduler"
	"cantina/store"
	"cantina/task"
	"cantina/timetable"
	"cantina/worker"
)

// Scheduler is what a timetable needs of the scheduler: scheduler.Scheduler.
type Scheduler interface {
	Renew(domain string, w scheduler.Wanted) (*scheduler.Change, error)
	Running(name string, held bool) scheduler.Answer
	Foreign(name, domain string) (other string, yes bool)
}

// Registry is what it needs of the registry: registry.Registry.
type Registry interface {
	IsBack(proc worker.Proc) bool
	Waits() bool
}

// Connect fills in what a timetable needs of board, scheduler and registry.
func Connect(c timetable.Config, b *bbs.BBS, jobs Scheduler, reg Registry) timetable.Config {
	c.Board, c.Jobs, c.Sessions, c.Contents, c.Differ = Board(b), jobsOf{jobs, reg}, sessions{reg}, Contents{}, Differ
	return c
}

// Differ implements timetable.Config.Differ.
func Differ(was, is any) (out []timetable.FieldChange) {
	for _, f := range differ.Fields("", was, is) {
		out = append(out, timetable.FieldChange(f))
	}
	return out
}

// Board lets a timetable decide on the board.
func Board(b *bbs.BBS) timetable.Board { return board{b} }

type board struct{ *bbs.BBS }

type rows struct{ *bbs.Decision }

// Add implements timetable.Rows.
func (r rows) Add(ops []store.Op, done func(int64, error), undo func()) {
	r.Decision.Add(bbs.Extra{Ops: ops, Done: done, Undo: undo})
}

// Decide implements timetable.Board.
func (b board) Decide(fn func(timetable.Rows) error) error {
	return b.BBS.Decide(func(d *bbs.Decision) error { return fn(rows{d}) })
}

// Write implements timetable.Board.
func (b board) Write(ctx context.Context, w timetable.Write, operation string, request []byte, fn func(timetable.Rows) ([]byte, error)) ([]byte, int64, error) {
	return b.WriteDecision(ctx, bbs.Write{Key: w.Key, By: w.By}, operation, request, func(d *bbs.Decision) ([]byte, error) { return fn(rows{d}) })
}

// jobsOf lets a timetable run jobs anew.
type jobsOf struct {
	Scheduler
	reg Registry
}

// Renew implements timetable.Jobs.
func (j jobsOf) Renew(rows timetable.Rows, domain string, w *schedule.Job) error {
	c, err := j.Scheduler.Renew(domain, scheduler.Wanted{Job: w.Job, Forest: w.Forest})
	if err != nil {
		return err
	}
	rows.Add(c.Ops, c.Done, c.Undo)
	return nil
}

// Runs implements timetable.Jobs.
func (j jobsOf) Runs(name string) schedule.Answer {
	switch j.Running(name, j.reg.Waits()) {
	case scheduler.AnswerRunning:
		return schedule.Running
	case scheduler.AnswerUnknown:
		return schedule.Unknown
	case scheduler.AnswerEnded:
	}
	return schedule.Ended
}

// sessions answers what is known of cell processes.
type sessions struct{ Registry }

// Heard implements timetable.Sessions.
func (s sessions) Heard(proc string) bool { return s.IsBack(worker.Proc(proc)) || !s.Waits() }

// Contents encodes what schedules start: it implements timetable.Contents.
type Contents struct{}

// TaskBytes implements timetable.Contents.
func (Contents) TaskBytes(d *task.Definition) []byte { return bbs.EncodeDefinition(d) }

// Task implements timetable.Contents.
func (Contents) Task(data []byte) (*task.Definition, error) {
	d, err := bbs.DecodeDefinition(data)
	return &d, err
}

// JobBytes implements timetable.Contents.
func (Contents) JobBytes(j *schedule.Job) ([]byte, error) {
	return scheduler.EncodeWanted(&scheduler.Wanted{Job: j.Job, Forest: j.Forest})
}

// Job implements timetable.Contents.
func (Contents) Job(data []byte) (*schedule.Job, error) {
	w, err := scheduler.DecodeWanted(data)
	return &schedule.Job{Job: w.Job, Forest: w.Forest}, err
}

package node

import (
	"context"
	"time"

	"cantina/bbs"
	"cantina/schedule"
	"cantina/scheduler"
	"cantina/store"
	"cantina/task"
	"cantina/timetable"
	"cantina/worker"
)

// newTimes builds the timetable of a term; board and scheduler are there already.
func (t *term) newTimes(rows []store.Row) *timetable.Timetable {
	return timetable.New(timetable.Config{
		Store: t.reign, Board: timeBoard{t.board}, Jobs: timeJobs{t}, Sessions: timeSessions{t}, Signals: newTimeSignals(t), Contents: timeContents{}, Hub: t.hub, Clock: t.cfg.Clock, Log: t.log,
		Zone: t.cfg.zone, NewID: newID,
		Differ: func(was, is any) []timetable.FieldChange {
			var out []timetable.FieldChange
			for _, f := range bbs.Differ(was, is) {
				out = append(out, timetable.FieldChange(f))
			}
			return out
		},
	}, rows)
}

// zone finds a time zone.
func (c *ServerConfig) zone(name string) (*time.Location, error) {
	z, err := c.Zones.Load(name)
	return z.Location, err
}

// timeBoard lets the timetable decide on the board.
type timeBoard struct{ *bbs.BBS }

type timeRows struct{ *bbs.Decision }

// Add implements timetable.Rows.
func (r timeRows) Add(ops []store.Op, done func(int64, error), undo func()) {
	r.Decision.Add(bbs.Extra{Ops: ops, Done: done, Undo: undo})
}

// Decide implements timetable.Board.
func (b timeBoard) Decide(fn func(timetable.Rows) error) error {
	return b.BBS.Decide(func(d *bbs.Decision) error { return fn(timeRows{d}) })
}

// Write implements timetable.Board.
func (b timeBoard) Write(ctx context.Context, w timetable.Write, operation string, request []byte, fn func(timetable.Rows) ([]byte, error)) ([]byte, int64, error) {
	return b.WriteDecision(ctx, bbs.Write{Key: w.Key, By: w.By}, operation, request, func(d *bbs.Decision) ([]byte, error) { return fn(timeRows{d}) })
}

// timeJobs lets the timetable run jobs anew.
type timeJobs struct{ *term }

// Renew implements timetable.Jobs.
func (j timeJobs) Renew(rows timetable.Rows, domain string, w *schedule.Job) error {
	c, err := j.jobs.Renew(domain, scheduler.Wanted{Job: w.Job, Forest: w.Forest})
	if err != nil {
		return err
	}
	rows.Add(c.Ops, c.Done, c.Undo)
	return nil
}

// Runs implements timetable.Jobs.
func (j timeJobs) Runs(name string) schedule.Answer {
	switch j.jobs.Running(name, j.reg.Wait().Active) {
	case scheduler.AnswerRunning:
		return schedule.Running
	case scheduler.AnswerUnknown:
		return schedule.Unknown
	case scheduler.AnswerEnded:
	}
	return schedule.Ended
}

// Foreign implements timetable.Jobs.
func (j timeJobs) Foreign(name, domain string) (string, bool) { return j.jobs.Foreign(name, domain) }

// timeSessions answers what is known of cell processes.
type timeSessions struct{ *term }

// Heard implements timetable.Sessions.
func (s timeSessions) Heard(proc string) bool {
	return s.reg.IsBack(worker.Proc(proc)) || !s.reg.Waits()
}

// Dead implements timetable.Sessions.
func (s timeSessions) Dead(proc string) bool { return s.reg.IsDead(worker.Proc(proc)) }

// timeContents encodes what schedules start.
type timeContents struct{}

// TaskBytes implements timetable.Contents.
func (timeContents) TaskBytes(d *task.Definition) []byte { return bbs.EncodeDefinition(d) }

// Task implements timetable.Contents.
func (timeContents) Task(data []byte) (*task.Definition, error) {
	d, err := bbs.DecodeDefinition(data)
	return &d, err
}

// JobBytes implements timetable.Contents.
func (timeContents) JobBytes(j *schedule.Job) ([]byte, error) {
	return scheduler.EncodeWanted(&scheduler.Wanted{Job: j.Job, Forest: j.Forest})
}

// Job implements timetable.Contents.
func (timeContents) Job(data []byte) (*schedule.Job, error) {
	w, err := scheduler.DecodeWanted(data)
	return &schedule.Job{Job: w.Job, Forest: w.Forest}, err
}

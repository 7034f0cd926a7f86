package timetable

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"cantina/action"
	"cantina/event"
	"cantina/schedule"
	"cantina/store"
	"cantina/task"
)

// Limits of one transaction of firings: it fits an etcd with default settings; and of the number
// in progress, so that the writes of others do not wait for a million.
const (
	maxOps   = 96
	maxInAir = 8
	jobOps   = 2 // a job and its forest
)

// pass fires due schedules, as many as one transaction holds.
func (t *Timetable) pass(ctx context.Context) {
	if err := t.cfg.Store.Wait(ctx); err != nil {
		if ctx.Err() == nil {
			t.fail(err)
		}
		return
	}
	var step time.Duration
	err := t.cfg.Board.Decide(func(rows Rows) error {
		var now time.Time
		now, step = t.wall.look()
		return t.fire(rows, now, step)
	})
	t.reportStep(step)
	if err != nil && !errors.Is(err, store.ErrTooLarge) {
		t.fail(fmt.Errorf("decide schedules: %w", err))
	}
}

// due reports whether there is anything to decide now.
func (t *Timetable) due(now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.inAir >= maxInAir {
		return false
	}
	if at, ok := t.board.First(); ok && !at.After(now) {
		return true
	}
	return t.board.Undecided() > 0 && t.mayPoll()
}

// mayPoll reports whether undecided firings were not checked very recently. The lock is held.
func (t *Timetable) mayPoll() bool { return t.cfg.Clock.Boot()-t.polled >= pollGap }

// fire decides as much as one transaction holds.
func (t *Timetable) fire(rows Rows, now time.Time, step time.Duration) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if step != 0 {
		t.board.Stepped(step, now)
	}
	b := &batch{t: t, rows: rows, now: now}
	most := maxOps
	if t.single {
		most, t.single = 1, false
	}
	for len(b.ops)+b.others < most {
		k, ok := t.board.Due(now)
		if !ok {
			break
		}
		b.tick(k)
	}
	if len(b.ops)+b.others < most && t.mayPoll() {
		t.polled = t.cfg.Clock.Boot()
		for _, k := range t.board.Waiting() {
			if len(b.ops)+b.others >= most {
				t.polled -= pollGap // the rest right after
				break
			}
			b.tick(k)
		}
	}
	if len(b.ops) == 0 {
		return nil
	}
	t.inAir++
	b.submit(func() { t.inAir-- })
	return nil
}

// batch collects the changes of one transaction. The lock is held but in committed.
type batch struct {
	t      *Timetable
	rows   Rows
	now    time.Time
	ops    []store.Op
	others int // rows of others
	was    []schedule.Row
	is     []schedule.Row
	sends  []func() // signals, after the commit
}

// tick passes the time to one schedule.
func (b *batch) tick(k schedule.Key) {
	t := b.t
	row, _ := t.board.Get(k)
	if row.Definition.Job != nil && t.flying[k] > 0 {
		t.board.Again(k, b.now.Add(50*time.Millisecond)) // the state of its job is known after the commit
		return
	}
	_, err := b.step(k, schedule.Tick{})
	if err != nil {
		t.cfg.Log.Warn("schedule cannot be decided", "schedule", k.String(), "error", err)
		t.board.Again(k, b.now.Add(longest))
	}
}

// step passes an event to a schedule and adds the results to the transaction. A refusal becomes
// history if its time had come, and an error if a person requested it.
func (b *batch) step(k schedule.Key, e schedule.Event) (schedule.State, error) {
	t := b.t
	row, ok := t.board.Get(k)
	if !ok {
		return schedule.State{}, fmt.Errorf("schedule %v: %w", k, schedule.ErrNotFound)
	}
	env := b.env(&row)
	env.Earlier = func() []schedule.Run { return b.earlier(&row) }
	st, moves, err := t.board.Step(k, e, env)
	if err != nil {
		return st, err
	}
	for _, m := range moves {
		refused := b.move(&row, m)
		if refused == nil {
			continue
		}
		start, ok := m.(schedule.Start)
		if _, byHand := e.(schedule.Fire); byHand || !ok {
			return st, refused
		}
		env.Key, env.Definition = k, row.Definition
		if env.Cron, err = t.board.Cron(k); err != nil {
			return st, err
		}
		if st, _, err = schedule.Step(st, schedule.Refused{Firing: start.Firing, Text: refused.Error()}, env); err != nil {
			return st, err
		}
	}
	if st.Equal(&row.State) && !t.board.Unsaved(k) {
		t.board.Update(k, st) // back into the queue
		return st, nil
	}
	next := row
	next.State = st
	b.put(row, next)
	return st, nil
}

// earlier returns the runs of a removed schedule of the name that may still run: those of this one
// are in its state.
func (b *batch) earlier(row *schedule.Row) (out []schedule.Run) {
	if row.Definition.Task == nil {
		return nil
	}
	for _, guid := range b.rows.MayRun(row.Domain, row.Name) {
		at, ok := schedule.RunAt(row.Key, guid)
		r := schedule.Run{At: at, ID: guid}
		if ok && !row.State.Runs(guid) && b.runs(row, r) != schedule.Ended {
			out = append(out, r)
		}
	}
	return out
}

// one is a transaction of one step.
func (b *batch) one(k schedule.Key, e schedule.Event) (schedule.State, error) {
	st, err := b.step(k, e)
	if err == nil && len(b.ops) > 0 {
		b.submit(nil)
	}
	return st, err
}

// env is the input of a step about a schedule.
func (b *batch) env(row *schedule.Row) schedule.Env {
	return schedule.Env{Now: b.now, Runs: func(r schedule.Run) schedule.Answer { return b.runs(row, r) },
		Free:    b.rows.Free,
		Outcome: func(r schedule.Run) string { return b.outcome(row, r) },
		Other:   func(id string) (schedule.Answer, string, int) { return b.other(row, id) }}
}

// other answers for work of a schedule that is not among its runs, and counts it. While rows may be
// older than the work of the cells, a run that no row names may be reported yet.
func (b *batch) other(row *schedule.Row, id string) (a schedule.Answer, what string, n int) {
	switch {
	case row.Definition.Job != nil:
		return b.t.cfg.Jobs.Runs(row.Key), "job/" + row.Key.String(), 1
	case row.Definition.Task == nil:
		return schedule.Ended, "", 0
	case b.t.cfg.Sessions.Stale():
		return schedule.Unknown, id, 1
	}
	if guid, n := b.rows.Reported(row.Domain+"."+row.Name, id); n > 0 {
		return schedule.Running, guid, n
	}
	return schedule.Ended, "", 0
}

// put makes a state the newest and adds its row.
func (b *batch) put(was, is schedule.Row) {
	b.t.board.Update(is.Key, is.State)
	b.was, b.is = append(b.was, was), append(b.is, is)
	b.ops = append(b.ops, store.Op{Key: StateOf(is.Key), Value: encodeState(is.UID, &is.State)})
}

// runs answers for a run of a schedule.
func (b *batch) runs(row *schedule.Row, r schedule.Run) schedule.Answer {
	if row.Definition.Job != nil {
		return b.t.cfg.Jobs.Runs(row.Key)
	}
	x := b.rows.Task(r.ID)
	switch {
	case x == nil && !b.rows.Free(r.ID):
		return schedule.Unknown // its row cannot be read: an operator decides
	case x == nil:
		return schedule.Ended
	}
	return schedule.OfTask(x, b.rows.SinceEnd(x), b.t.cfg.Sessions.Heard(x.Holder.Proc), b.rows.Dead(x.Holder.Proc))
}

// outcome is how a run of a schedule ended.
func (b *batch) outcome(row *schedule.Row, r schedule.Run) string {
	if row.Definition.Job != nil {
		return b.t.cfg.Jobs.Outcome(row.Key)
	}
	if x := b.rows.Task(r.ID); x != nil {
		return x.Outcome.String()
	}
	return ""
}

// move makes one move of a decision.
func (b *batch) move(row *schedule.Row, m schedule.Move) error {
	switch m := m.(type) {
	case schedule.Start:
		return b.start(row, m)
	case schedule.End:
		b.others++
		return b.rows.Cancel(m.ID)
	}
	return fmt.Errorf("move %T: %w", m, schedule.ErrInvalid)
}

func (b *batch) start(row *schedule.Row, m schedule.Start) error {
	d := row.Definition
	switch {
	case b.t.oversize[row.Key]:
		delete(b.t.oversize, row.Key)
		return store.ErrTooLarge
	case d.Task != nil:
		def := *d.Task
		def.Workload.Env = withTime(def.Workload.Env, row, m.Firing)
		b.others++
		return b.rows.Desire(task.Task{GUID: m.ID, Domain: row.Domain, Name: row.Name, Definition: &def})
	case d.Job != nil:
		j := *d.Job
		j.Job.Workload.Env = withTime(j.Job.Workload.Env, row, m.Firing)
		b.others += jobOps
		return b.t.cfg.Jobs.Renew(b.rows, row.Domain, &j)
	case d.Signal != nil:
		b.sends = append(b.sends, b.t.send(Sending{row.Key, row.UID, m.Firing.At, *d.Signal}))
	}
	return nil
}

// The variables that a run gets.
const (
	envAt   = "CANTINA_SCHEDULED_AT" // the logical time, RFC 3339 in UTC
	envName = "CANTINA_SCHEDULE"     // domain/name
)

// withTime adds the data of its firing to a run.
func withTime(env []action.Variable, row *schedule.Row, f schedule.Firing) []action.Variable {
	out := slices.DeleteFunc(slices.Clone(env), func(v action.Variable) bool {
		return v.Name == envAt || v.Name == envName
	})
	return append(out, action.Variable{Name: envAt, Value: f.At.UTC().Format(time.RFC3339Nano)},
		action.Variable{Name: envName, Value: row.Key.String()})
}

// submit hands the collected changes over; ended is called once under the lock, after
// the commit or without one.
func (b *batch) submit(ended func()) {
	t := b.t
	for i := range b.is {
		t.flying[b.is[i].Key]++
	}
	b.rows.Add(b.ops, func(revision int64, err error) { b.committed(revision, err, ended) }, func() { b.undo(ended) })
}

// undo takes everything back: the transaction was not submitted.
func (b *batch) undo(ended func()) {
	t := b.t
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range slices.Backward(b.was) {
		t.board.Update(r.Key, r.State)
	}
	b.landed()
	t.single = true
	if len(b.is) == 1 {
		t.oversize[b.is[0].Key] = true // not even alone: it will be refused
	}
	if ended != nil {
		ended()
	}
}

// landed counts down the commits in progress. The lock is held.
func (b *batch) landed() {
	for _, r := range b.is {
		if b.t.flying[r.Key]--; b.t.flying[r.Key] <= 0 {
			delete(b.t.flying, r.Key)
		}
	}
}

// committed makes durable rows visible, publishes them, and then acts.
func (b *batch) committed(revision int64, err error, ended func()) {
	t := b.t
	if err != nil {
		t.fail(fmt.Errorf("commit: %w", err))
		return
	}
	t.mu.Lock()
	var events []event.Event
	for i := range b.is {
		r := b.is[i]
		t.shown.put(r, revision)
		events = append(events, scheduleEvent(&r, &b.was[i]))
		t.stats.Started += r.State.Fired - b.was[i].State.Fired
	}
	t.stats.Commits++
	b.landed()
	if ended != nil {
		ended()
	}
	t.mu.Unlock()
	t.cfg.Hub.Publish(revision, events...)
	for _, f := range b.sends {
		f()
	}
	t.loop.Wake()
}

// scheduleEvent is the event of a schedule after a commit, with a description.
func scheduleEvent(is, was *schedule.Row) event.Event {
	e := event.Event{Kind: event.Schedule, Domain: is.Domain, Subject: is.Key.String(), Schedule: is}
	h := is.State.History
	if n := len(h); n > 0 && (was == nil || len(was.State.History) == 0 ||
		was.State.History[len(was.State.History)-1] != h[n-1]) {
		e.Text = h[n-1].Times() + " " + h[n-1].String()
	}
	return e
}

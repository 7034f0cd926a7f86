package timetable

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"cantina/cron"
	"cantina/event"
	"cantina/fault"
	"cantina/plan"
	"cantina/schedule"
	"cantina/store"
)

// Change is rows that were made the newest and wait for their commit. The caller submits Ops and
// calls Done from the callback of that commit, or Undo if it is not submitted.
type Change struct {
	Lines []plan.Change
	store.Part
}

// edit is one schedule of an application, decided.
type edit struct {
	line plan.Change
	was  *schedule.Row // nil = created
	is   *schedule.Row // nil = removed
	cron cron.Schedule // of is
}

// Plan returns the changes that Apply would make.
func (t *Timetable) Plan(domain string, wanted []plan.NamedSchedule, prune plan.Prune) ([]plan.Change, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines, _, err := t.edits(domain, wanted, prune)
	return lines, err
}

// Apply makes the schedules of a domain as they are wanted. It is called under the
// board's lock, as part of its decision. A schedule that is new or changed never fires
// for the past. Errors, all at once: schedule.ErrInvalid, ErrQuarantined.
func (t *Timetable) Apply(domain string, wanted []plan.NamedSchedule, prune plan.Prune) (*Change, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines, edits, err := t.edits(domain, wanted, prune)
	if err != nil {
		return nil, err
	}
	c := &Change{Lines: lines}
	return c, t.make(c, edits)
}

// make makes edits the newest rows and adds the rows to store. The lock is held.
func (t *Timetable) make(c *Change, edits []edit) error {
	var done []edit
	for _, e := range edits {
		switch {
		case e.line.Verb == plan.VerbKeep:
			continue
		case e.is == nil:
			c.Ops = append(c.Ops, store.Op{Key: RowOf(e.was.Key)}, store.Op{Key: StateOf(e.was.Key)})
			t.board.Delete(e.was.Key)
		default:
			value, err := encodeRow(t.cfg.Contents, e.is)
			if err != nil {
				t.unmake(done)
				return err
			}
			c.Ops = append(c.Ops, store.Op{Key: RowOf(e.is.Key), Value: value},
				store.Op{Key: StateOf(e.is.Key), Value: encodeState(e.is.UID, &e.is.State)})
			t.board.Put(*e.is, e.cron, nil)
		}
		done = append(done, e)
	}
	c.Done = func(revision int64, err error) { t.made(done, revision, err) }
	c.Undo = func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.unmake(done)
	}
	return nil
}

// add adds one edit to a decision. The lock is held.
func (t *Timetable) add(rows Rows, e edit) error {
	c := &Change{}
	err := t.make(c, []edit{e})
	if err == nil {
		rows.Add(c.Ops, c.Done, c.Undo)
	}
	return err
}

// unmake restores the previous rows. The lock is held.
func (t *Timetable) unmake(edits []edit) {
	for _, e := range edits {
		if e.was == nil {
			t.board.Delete(e.is.Key)
		} else {
			t.put(*e.was)
		}
	}
}

// made shows committed edits.
func (t *Timetable) made(edits []edit, revision int64, err error) {
	if err != nil {
		t.fail(fmt.Errorf("commit: %w", err))
		return
	}
	var events []event.Event
	t.mu.Lock()
	for _, e := range edits {
		if e.is != nil {
			t.shown.put(*e.is, revision)
			events = append(events, scheduleEvent(e.is, e.was))
			continue
		}
		t.shown.delete(e.was.Key)
		events = append(events, event.Event{Kind: event.Schedule, Domain: e.was.Domain, Subject: e.was.Key.String(),
			Gone: true, Schedule: e.was})
	}
	t.mu.Unlock()
	t.cfg.Hub.Publish(revision, events...)
	t.loop.Wake()
}

// edits compares the wanted schedules with the newest rows. The lock is held.
func (t *Timetable) edits(domain string, wanted []plan.NamedSchedule, prune plan.Prune) (lines []plan.Change,
	out []edit, err error) {
	var errs []error
	named := map[string]bool{}
	for i := range wanted {
		w := &wanted[i]
		e, err := t.edit(schedule.Key{Domain: domain, Name: w.Name}, &w.Definition)
		if err == nil && named[w.Name] {
			err = fmt.Errorf("duplicate: %w", schedule.ErrInvalid)
		}
		named[w.Name] = true
		if err != nil {
			errs = append(errs, fmt.Errorf("schedule %s: %w", w.Name, err))
			continue
		}
		out = append(out, e)
	}
	for _, k := range t.board.Keys() {
		if !prune.On || k.Domain != domain || named[k.Name] {
			continue
		}
		if row, _ := t.board.Get(k); prune.Takes(row.Definition.Labels()) {
			out = append(out, edit{line: plan.Change{Kind: "schedule", Name: k.Name, Verb: plan.VerbRemove}, was: &row})
		}
	}
	if len(errs) > 0 {
		return nil, nil, errors.Join(errs...)
	}
	for _, e := range out {
		lines = append(lines, e.line)
	}
	return lines, out, nil
}

func (t *Timetable) edit(k schedule.Key, d *schedule.Definition) (edit, error) {
	e := edit{line: plan.Change{Kind: "schedule", Name: k.Name, Verb: plan.VerbCreate}}
	if t.unreadable.has(k) {
		return e, fault.ErrQuarantined
	}
	if err := d.Validate(); err != nil {
		return e, err
	}
	d, err := normalised(t.cfg.Contents, d)
	if err != nil {
		return e, err
	}
	now := t.cfg.Clock.Wall()
	was, known := t.board.Get(k)
	if known && same(t.cfg.Contents, was.Definition, d) {
		e.line.Verb = plan.VerbKeep
		if was.State.Paused {
			e.line.Note = "it stays paused; to resume: cantina cron resume " + k.String()
		}
		return e, nil
	}
	is := schedule.Row{Key: k, UID: t.cfg.NewID(), Created: now, Edited: now, Definition: d, State: schedule.New(now)}
	if known {
		is.UID, is.Created = was.UID, was.Created
	}
	c, err := t.calendars.of(&is)
	if err != nil {
		return e, fmt.Errorf("%w: %w", err, schedule.ErrInvalid)
	}
	e.is, e.cron = &is, c
	if next, err := c.Next(now); err == nil && !next.IsZero() {
		e.line.Note = "next " + next.Add(schedule.Offset(k, d.Jitter)).Format(time.RFC3339)
	} else {
		e.line.Note = "it never fires"
	}
	if !known {
		return e, nil
	}
	e.was, e.line.Verb = &was, plan.VerbUpdate
	e.line.Fields = t.cfg.Differ(*was.Definition, *d)
	is.State, _, err = schedule.Step(was.State, schedule.Edit{}, schedule.Env{Now: now, Key: k, Cron: c, Definition: d})
	return e, err
}

// RemoveSchedule deletes a schedule. Its runs continue.
func (t *Timetable) RemoveSchedule(ctx context.Context, k schedule.Key, w plan.Write) error {
	_, _, err := t.cfg.Board.Write(ctx, w, "schedule-remove", []byte(k.String()), func(rows Rows) ([]byte, error) {
		t.mu.Lock()
		defer t.mu.Unlock()
		row, err := t.changeable(k, w)
		if err != nil {
			return nil, err
		}
		rows.Redefine(k.Domain)
		return nil, t.add(rows, edit{line: plan.Change{Verb: plan.VerbRemove}, was: &row})
	})
	return err
}

// changeable returns the newest row that a person may change. The lock is held.
func (t *Timetable) changeable(k schedule.Key, w plan.Write) (schedule.Row, error) {
	row, ok := t.board.Get(k)
	switch {
	case t.unreadable.has(k):
		return row, fmt.Errorf("schedule %v: %w", k, fault.ErrQuarantined)
	case !ok:
		return row, fmt.Errorf("schedule %v: %w", k, schedule.ErrNotFound)
	case w.Expect != 0 && (t.flying[k] > 0 || t.shown.rows[k].revision != w.Expect):
		return row, fmt.Errorf("schedule %v has revision %d, not %d: %w", k, t.shown.rows[k].revision, w.Expect,
			fault.ErrRevision)
	}
	return row, nil
}

// change gives a person's event to a schedule; answer makes the answer from the states
// before and after.
func (t *Timetable) change(ctx context.Context, k schedule.Key, w plan.Write, operation string, request []byte,
	e schedule.Event, answer func(was, is *schedule.State) []byte) ([]byte, error) {
	out, _, err := t.cfg.Board.Write(ctx, w, operation, append([]byte(k.String()+"\x00"), request...),
		func(rows Rows) ([]byte, error) {
			t.mu.Lock()
			defer t.mu.Unlock()
			row, err := t.changeable(k, w)
			if err != nil {
				return nil, err
			}
			b := &batch{t: t, rows: rows, now: t.cfg.Clock.Wall()}
			st, err := b.one(k, e)
			if err != nil {
				return nil, fmt.Errorf("schedule %v: %w", k, err)
			}
			if row.State.Paused != st.Paused {
				rows.Redefine(k.Domain)
			}
			return answer(&row.State, &st), nil
		})
	return out, err
}

func none(*schedule.State, *schedule.State) []byte { return nil }

// PauseSchedule pauses or resumes a schedule. The time in between never counts as missed.
func (t *Timetable) PauseSchedule(ctx context.Context, k schedule.Key, paused bool, w plan.Write) error {
	var e schedule.Event = schedule.Resume{}
	if paused {
		e = schedule.Pause{}
	}
	_, err := t.change(ctx, k, w, "schedule-pause", fmt.Append(nil, paused), e, none)
	return err
}

// ResetSchedule is an operator's statement that the clock was wrong when times after now were
// decided: they are due again, except those that were started. It returns the earlier cursor; zero
// if there was nothing to set back.
func (t *Timetable) ResetSchedule(ctx context.Context, k schedule.Key, w plan.Write) (time.Time, error) {
	out, _, err := t.cfg.Board.Write(ctx, w, "schedule-reset", []byte(k.String()), func(rows Rows) ([]byte, error) {
		t.mu.Lock()
		defer t.mu.Unlock()
		row, err := t.changeable(k, w)
		if err != nil {
			return nil, err
		}
		is := row
		b := &batch{t: t, rows: rows, now: t.cfg.Clock.Wall()}
		if is.State, _, err = t.board.Step(k, schedule.Rewind{}, b.env(&row)); err != nil {
			return nil, fmt.Errorf("schedule %v: %w", k, err)
		}
		if is.State.Equal(&row.State) && !(is.Definition.Elapsed() && is.Created.After(b.now)) {
			return nil, nil
		}
		e := edit{line: plan.Change{Verb: plan.VerbUpdate}, was: &row, is: &is}
		if is.Definition.Elapsed() {
			is.Created = anchor(&row, b.now)
		}
		if e.cron, err = t.calendars.of(&is); err != nil {
			return nil, fmt.Errorf("schedule %v: %w: %w", k, err, schedule.ErrInvalid)
		}
		if err := t.add(rows, e); err != nil {
			return nil, err
		}
		return binary.AppendVarint(nil, row.State.Cursor.UnixMilli()), nil
	})
	if err != nil || len(out) == 0 {
		return time.Time{}, err
	}
	ms, _ := binary.Varint(out)
	return fromMillis(ms), nil
}

// anchor is the time from which "@every" counts again: now, or a second later if its logical times
// would be the same as before.
func anchor(r *schedule.Row, now time.Time) time.Time {
	now = now.Truncate(time.Second)
	d, err := time.ParseDuration(strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(r.Definition.Line), "@every")))
	if err == nil && d > time.Second && now.Sub(r.Created.Truncate(time.Second))%d == 0 {
		return now.Add(time.Second)
	}
	return now
}

// RunSchedule starts a run now, for the logical time at (zero = beside them). It returns the
// name of the run, empty when the run waits until an earlier one has ended (replace).
func (t *Timetable) RunSchedule(ctx context.Context, k schedule.Key, at time.Time, w plan.Write) (string, error) {
	id, err := t.change(ctx, k, w, "schedule-run", fmt.Append(nil, at.UTC()), schedule.Fire{At: at},
		func(was, is *schedule.State) []byte {
			if n := len(is.History); is.Fired > was.Fired && n > 0 {
				return []byte(is.History[n-1].ID)
			}
			return nil
		})
	return string(id), err
}

// Backfill has the logical times from … to that did not fire run, at most limit, one
// after the other as the overlap policy allows. It returns how many.
func (t *Timetable) Backfill(ctx context.Context, k schedule.Key, from, to time.Time, limit int, w plan.Write) (int,
	error) {
	n, err := t.change(ctx, k, w, "schedule-backfill", fmt.Append(nil, from.UTC(), to.UTC(), limit),
		schedule.Backfill{From: from, To: to, Max: limit},
		func(was, is *schedule.State) []byte {
			return binary.AppendVarint(nil, int64(is.Fired-was.Fired+len(is.Pending)-len(was.Pending)))
		})
	if err != nil {
		return 0, err
	}
	v, _ := binary.Varint(n)
	return int(v), nil
}

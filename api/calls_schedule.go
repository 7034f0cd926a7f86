package api

import (
	"cmp"
	"context"
	"time"

	"cantina/action"
	"cantina/cron"
	"cantina/internal/text"
	"cantina/plan"
	"cantina/schedule"
	"cantina/wire"
	pb "cantina/wire/cantinav1"
)

// Schedules reads and changes schedules. Errors beside those of package schedule:
// ErrNotFound.
type Schedules interface {
	ListSchedules(f plan.NameFilter, r plan.Range) (plan.Page[plan.Schedule], error)
	GetSchedule(k schedule.Key) (plan.Schedule, error)
	// Upcoming lists the next n logical times, with those that are left out.
	Upcoming(k schedule.Key, n int) ([]cron.Occurrence, error)
	// ListMissed lists at most limit logical times that did not fire; more counts the
	// others.
	ListMissed(k schedule.Key, limit int) (list []plan.Missed, more int, err error)
	// Outcome is the result of a run; empty if it is no longer known.
	Outcome(run string) string
	ChangeSchedules
}

// ChangeSchedules is the writing half of Schedules.
type ChangeSchedules interface {
	PauseSchedule(ctx context.Context, k schedule.Key, paused bool, w plan.Write) error
	// RunSchedule starts a run, of the logical time at (zero = beside the calendar). The
	// name of the run is empty when it waits for an earlier one to end.
	RunSchedule(ctx context.Context, k schedule.Key, at time.Time, w plan.Write) (string, error)
	Backfill(ctx context.Context, k schedule.Key, from, to time.Time, limit int, w plan.Write) (int, error)
	// ResetSchedule sets the cursor back to the clock. It returns where it was; zero when it
	// was not ahead.
	ResetSchedule(ctx context.Context, k schedule.Key, w plan.Write) (time.Time, error)
	RemoveSchedule(ctx context.Context, k schedule.Key, w plan.Write) error
}

func scheduleKey(domain, name string) (schedule.Key, error) {
	if domain == "" || name == "" {
		return schedule.Key{}, invalid("name", "domain and name are needed")
	}
	return schedule.Key{Domain: domain, Name: name}, nil
}

// ListSchedules lists schedules by domain and name.
func (c scheduleCalls) ListSchedules(_ context.Context,
	q *request[pb.ListSchedulesRequest]) (*response[pb.ListSchedulesResponse], error) {
	f, err := nameFilter(q.Msg)
	if err != nil {
		return nil, err
	}
	all, where, err := list(c.Server, q.Msg.Page, func(b *Backend, r plan.Range) (plan.Page[plan.Schedule], error) {
		return b.Schedules.ListSchedules(f, r)
	}, scheduleMessage)
	return answer(&pb.ListSchedulesResponse{Schedules: all, Listing: where}, err)
}

// GetSchedule returns a schedule with its history, and its coming firings.
func (c scheduleCalls) GetSchedule(_ context.Context,
	q *request[pb.GetScheduleRequest]) (*response[pb.GetScheduleResponse], error) {
	k, err := scheduleKey(q.Msg.Domain, q.Msg.Name)
	if err != nil {
		return nil, err
	}
	if q.Msg.Upcoming < 0 || q.Msg.Upcoming > MaxPage {
		return nil, invalid("upcoming", "must be from 0 to %d", MaxPage)
	}
	b, err := c.now()
	if err != nil {
		return nil, err
	}
	at := b.Events.Newest()
	m, err := oneSchedule(b, k)
	if err != nil {
		return nil, err
	}
	if q.Msg.Upcoming > 0 {
		next, err := b.Schedules.Upcoming(k, int(q.Msg.Upcoming))
		if err != nil {
			return nil, err
		}
		for _, o := range next {
			m.Upcoming = append(m.Upcoming, upcoming(o))
		}
	}
	return answer(&pb.GetScheduleResponse{Schedule: m, Position: at.String()}, nil)
}

// oneSchedule is a schedule with its history.
func oneSchedule(b *Backend, k schedule.Key) (*pb.Schedule, error) {
	s, err := b.Schedules.GetSchedule(k)
	if err != nil {
		return nil, err
	}
	m := scheduleMessage(&s)
	h := s.State.History
	newest := -1 // the newest run that was started
	for i := range h {
		if h[i].Decision == schedule.Started {
			newest = i
		}
	}
	for i := max(0, len(h)-schedule.MaxHistory); i < len(h); i++ {
		e := &h[i]
		x := &pb.ScheduleEntry{
			At: wire.FromTime(e.At), Count: int32(e.Count), What: e.Decision.String(), Text: text.Clean(e.String()),
			By: e.By.String(), Run: text.Clean(e.ID), Decided: wire.FromTime(e.When),
		}
		if !e.Until.Equal(e.At) {
			x.Until = wire.FromTime(e.Until)
		}
		switch {
		case e.Decision != schedule.Started:
		case s.Definition.Task != nil:
			x.Outcome = cmp.Or(b.Schedules.Outcome(e.ID), text.Clean(e.Text)) // a task's real end may come late
		case i == newest && s.Definition.Job != nil:
			x.Outcome = cmp.Or(outcomeOfJob(b, k), text.Clean(e.Text)) // it may have been retried
		default:
			x.Outcome = text.Clean(e.Text)
		}
		m.History = append(m.History, x)
	}
	return m, nil
}

// outcomeOfJob is how the job of a schedule fares. Each run is the same job renewed: so that is the
// outcome of the newest run alone; the history has those of earlier ones.
func outcomeOfJob(b *Backend, k schedule.Key) string {
	j, err := b.Jobs.GetJob(k.String())
	if err != nil || j.Removed || !j.NodesKnown {
		return ""
	}
	return j.Progress.State.String()
}

// ListMissed lists logical times that did not fire.
func (c scheduleCalls) ListMissed(_ context.Context,
	q *request[pb.ListMissedRequest]) (*response[pb.ListMissedResponse], error) {
	k, err := scheduleKey(q.Msg.Domain, q.Msg.Name)
	if err != nil {
		return nil, err
	}
	r, err := rangeOf(&pb.Page{Limit: q.Msg.Limit})
	if err != nil {
		return nil, err
	}
	b, err := c.now()
	if err != nil {
		return nil, err
	}
	l, more, err := b.Schedules.ListMissed(k, r.Limit)
	m := &pb.ListMissedResponse{More: int64(more)}
	for _, x := range l {
		m.Missed = append(m.Missed, &pb.Missed{At: wire.FromTime(x.At), Reason: x.Why.String()})
	}
	return answer(m, err)
}

// changeSchedule is the shape of the writing calls: it returns the schedule afterwards.
func (c scheduleCalls) changeSchedule(ctx context.Context, domain, name string, w *pb.Write,
	do func(b *Backend, k schedule.Key, w plan.Write) error) (out *pb.Schedule, err error) {
	k, err := scheduleKey(domain, name)
	if err != nil {
		return nil, err
	}
	err = write(ctx, c.Server, w, func(b *Backend, w plan.Write) error {
		if err := do(b, k, w); err != nil {
			return err
		}
		out, err = oneSchedule(b, k)
		return err
	})
	return out, err
}

// PauseSchedule pauses or resumes a schedule.
func (c scheduleCalls) PauseSchedule(ctx context.Context,
	q *request[pb.PauseScheduleRequest]) (*response[pb.PauseScheduleResponse], error) {
	s, err := c.changeSchedule(ctx, q.Msg.Domain, q.Msg.Name, q.Msg.Write,
		func(b *Backend, k schedule.Key, w plan.Write) error {
			return b.Schedules.PauseSchedule(ctx, k, q.Msg.Paused, w)
		})
	return answer(&pb.PauseScheduleResponse{Schedule: s}, err)
}

// RunSchedule starts a run by hand.
func (c scheduleCalls) RunSchedule(ctx context.Context,
	q *request[pb.RunScheduleRequest]) (*response[pb.RunScheduleResponse], error) {
	at, err := wire.ToTime(q.Msg.At)
	if err != nil {
		return nil, err
	}
	run := ""
	s, err := c.changeSchedule(ctx, q.Msg.Domain, q.Msg.Name, q.Msg.Write,
		func(b *Backend, k schedule.Key, w plan.Write) (err error) {
			run, err = b.Schedules.RunSchedule(ctx, k, at, w)
			return err
		})
	return answer(&pb.RunScheduleResponse{Run: run, Schedule: s}, err)
}

// BackfillSchedule runs logical times that did not fire.
func (c scheduleCalls) BackfillSchedule(ctx context.Context,
	q *request[pb.BackfillScheduleRequest]) (*response[pb.BackfillScheduleResponse], error) {
	from, err := wire.ToTime(q.Msg.From)
	if err != nil {
		return nil, err
	}
	to, err := wire.ToTime(q.Msg.To)
	if err != nil {
		return nil, err
	}
	n := 0
	s, err := c.changeSchedule(ctx, q.Msg.Domain, q.Msg.Name, q.Msg.Write,
		func(b *Backend, k schedule.Key, w plan.Write) (err error) {
			n, err = b.Schedules.Backfill(ctx, k, from, to, int(q.Msg.Max), w)
			return err
		})
	return answer(&pb.BackfillScheduleResponse{Queued: int32(n), Schedule: s}, err)
}

// ResetSchedule sets the cursor of a schedule back to the clock.
func (c scheduleCalls) ResetSchedule(ctx context.Context,
	q *request[pb.ResetScheduleRequest]) (*response[pb.ResetScheduleResponse], error) {
	var was time.Time
	s, err := c.changeSchedule(ctx, q.Msg.Domain, q.Msg.Name, q.Msg.Write,
		func(b *Backend, k schedule.Key, w plan.Write) (err error) {
			was, err = b.Schedules.ResetSchedule(ctx, k, w)
			return err
		})
	return answer(&pb.ResetScheduleResponse{Cursor: wire.FromTime(was), Schedule: s}, err)
}

// RemoveSchedule deletes a schedule; its runs continue.
func (c scheduleCalls) RemoveSchedule(ctx context.Context,
	q *request[pb.RemoveScheduleRequest]) (*response[pb.RemoveScheduleResponse], error) {
	k, err := scheduleKey(q.Msg.Domain, q.Msg.Name)
	if err != nil {
		return nil, err
	}
	err = write(ctx, c.Server, q.Msg.Write, func(b *Backend,
		w plan.Write) error {
		return b.Schedules.RemoveSchedule(ctx, k, w)
	})
	return answer(&pb.RemoveScheduleResponse{}, err)
}

// scheduleMessage puts a schedule on the wire, without its history.
func scheduleMessage(s *plan.Schedule) *pb.Schedule {
	d, st := s.Definition, &s.State
	m := &pb.Schedule{
		Domain: s.Domain, Name: s.Name, Uid: s.UID, Cron: text.Clean(d.Line + d.JSON), Timezone: text.Clean(d.Zone),
		Gap: d.Gap.String(), Fold: d.Fold.String(), Words: text.Clean(s.Words),
		State: scheduleState(s), Overlap: d.Overlap.String(), OverlapMax: int32(d.Max), Misfire: d.Misfire.String(),
		MisfireMax:      int32(d.MisfireMax),
		MisfireDeadline: wire.FromDuration(d.Deadline), Jitter: wire.FromDuration(d.Jitter), Next: wire.FromTime(s.Next),
		Cursor: wire.FromTime(st.Cursor),
		Fired:  int64(st.Fired), Skipped: int64(st.Skipped), Problem: text.Clean(s.Problem),
		Created: wire.FromTime(s.Created), Edited: wire.FromTime(s.Edited), Revision: s.Revision,
	}
	m.Starts, m.Note, m.Labels = d.Starts(), text.Clean(s.Note), text.CleanMap(d.Labels())
	if d.Signal != nil {
		m.Signal = &pb.ScheduleSignal{Service: text.Clean(d.Signal.Service), Signal: action.SignalName(d.Signal.Number)}
	}
	for _, f := range st.Pending {
		m.Pending = append(m.Pending, &pb.ScheduleFiring{At: wire.FromTime(f.At), By: f.By.String()})
	}
	for _, r := range st.Live {
		m.Live = append(m.Live, text.Clean(r.ID))
	}
	var last time.Time // a backfill arrives after newer ones
	for _, e := range st.History {
		if (e.Decision == schedule.Started || e.Decision == schedule.Sent) && e.At.After(last) {
			last = e.At
		}
	}
	m.Last = wire.FromTime(last)
	return m
}

func scheduleState(s *plan.Schedule) string {
	switch {
	case s.Problem != "":
		return "broken"
	case s.Lead > 0 && !s.State.Paused:
		return schedule.Behind
	}
	return s.State.Phase()
}

func upcoming(o cron.Occurrence) *pb.ScheduleTime {
	m := &pb.ScheduleTime{At: wire.FromTime(o.At.UTC()), Local: o.Label}
	if o.Mark != cron.MarkNone {
		m.Mark = o.Mark.String()
	}
	if o.Skip != cron.SkipNone {
		m.Skip = o.Skip.String()
	}
	return m
}

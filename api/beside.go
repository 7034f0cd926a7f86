package api

import (
	"cantina/event"
	"cantina/internal/text"
	"cantina/lrp"
	pb "cantina/wire/cantinav1"
	"cantina/worker"
)

// shownEvent is eventMessage with the row as a list shows it: parts that change without a commit
// are current. Committed parts are unchanged.
func shownEvent(b *Backend, e *event.Event, all bool) *pb.Event {
	m := eventMessage(e, all)
	switch {
	case e.Service != nil:
		besideService(b, e, m)
	case e.Instance != nil:
		besideInstance(b, e, m, all)
	case e.Task != nil:
		x := b.Tasks.TaskOf(e.Task, e.Revision)
		m.Task.UnconfirmedReason, m.Task.Ending = text.Clean(x.UnconfirmedReason), x.BeingEnded
	case e.Job != nil:
		besideJob(b, e, m)
	case e.Schedule != nil:
		besideSchedule(b, e, m)
	case e.Cell != nil:
		besideCell(b, e, m)
	}
	return m
}

func besideService(b *Backend, e *event.Event, m *pb.Event) {
	m.Service.Revision = e.Revision
	if now, err := b.Services.GetService(e.Service.Key); err == nil {
		m.Service.Running, m.Service.Routable, m.Service.Crashed = int32(now.Running), int32(now.Routable), int32(now.Crashed)
		m.Service.Stopping, m.Service.Unconfirmed = int32(now.Stopping), int32(now.Unconfirmed)
	}
}

func besideInstance(b *Backend, e *event.Event, m *pb.Event, all bool) {
	row := e.Instance
	if !all && e.Shown != nil {
		row = e.Shown
	}
	x := b.Services.InstanceOf(row, e.Revision)
	m.Instance.Version, m.Instance.Revision = int32(x.Version), x.Revision
	m.Instance.Orphan, m.Instance.Quarantined = x.Orphan, x.Quarantined
	if !m.Instance.Hidden && row.Presence != lrp.Suspect {
		m.Instance.UnconfirmedReason = text.Clean(x.UnconfirmedReason)
	}
}

// besideJob adds the definition's part of a job's row: events follow the commits of its
// statuses.
func besideJob(b *Backend, e *event.Event, m *pb.Event) {
	now, err := b.Jobs.GetJob(e.Job.Name)
	if err != nil || now.UID != e.Job.UID {
		return
	}
	now.Progress, now.Removed, now.NodesKnown = e.Job.Progress, e.Job.Removed, e.Job.NodesKnown
	m.Job = job(&now, false)
}

func besideSchedule(b *Backend, e *event.Event, m *pb.Event) {
	if now, err := b.Schedules.GetSchedule(e.Schedule.Key); err == nil && now.UID == e.Schedule.UID && !e.Gone {
		now.Row, now.Revision = *e.Schedule, e.Revision
		m.Schedule = scheduleMessage(&now)
	}
}

func besideCell(b *Backend, e *event.Event, m *pb.Event) {
	now, err := b.Cells.GetCell(e.Cell.Name)
	if err != nil || now.Proc != e.Cell.Proc {
		return
	}
	now.Session, now.Reason, now.Draining = e.Cell.Session, e.Cell.Reason, e.Cell.Draining
	if !e.Cell.Gone {
		now.Gone = nil
	}
	if e.Cell.Session == worker.MustDie {
		now.Eligible = false
	}
	unavailable := m.Cell.Unavailable
	m.Cell = cellMessage(&now)
	if unavailable != "" {
		m.Cell.Unavailable = unavailable
	}
}

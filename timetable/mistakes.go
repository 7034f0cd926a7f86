package timetable

import (
	"time"

	"cantina/schedule"
	"cantina/store"
)

// Mistakes are rules that a timetable breaks on purpose; a test of the architecture
// allows them in the simulator and in tests only.
type Mistakes struct {
	// CursorApart commits what a firing starts first, and the cursor in a transaction of
	// its own.
	CursorApart bool
	// WallBehindCursor makes a new leader take its wall clock for the cursor, also when it
	// is behind.
	WallBehindCursor bool
	// SignalBeforeCommit sends a signal before its firing is durable.
	SignalBeforeCommit bool
}

// loaded is a state as a new leader takes it over.
func (m Mistakes) loaded(s schedule.State, wall time.Time) schedule.State {
	if m.WallBehindCursor {
		s.Cursor = wall.Truncate(time.Second)
	}
	return schedule.Forgotten(s)
}

// apart submits the rows of schedules after the commit of what they start.
func (b *batch) apart(ops []store.Op, done func(int64, error), undo func()) {
	b.rows.Add(nil, func(_ int64, err error) {
		if err == nil {
			err = b.t.cfg.Board.Decide(func(rows Rows) error {
				rows.Add(ops, done, undo)
				return nil
			})
		}
		if err != nil {
			done(0, err)
		}
	}, undo)
}

package timetable

import (
	"fmt"

	"cantina/plan"
	"cantina/schedule"
)

// send returns a function that sends the signal of one firing, and records its result. It is
// called after the commit that decided the firing, once; it is never repeated if the leader or a
// call is lost.
func (t *Timetable) send(s Sending) func() {
	return func() {
		t.cfg.Signals.Signal(s, func(d schedule.Delivery) {
			err := t.cfg.Board.Decide(func(rows Rows) error {
				return t.delivered(rows, s.Key, s.UID, schedule.Delivered{At: s.At, Delivery: d})
			})
			if err != nil && t.isOver() == nil {
				t.cfg.Log.Warn("the history does not record the outcome of a signal", "schedule", s.Key.String(), "at", s.At,
					"signal", d.String(), "error", err)
			}
		})
	}
}

// delivered notes in the history how a signal fared, if its schedule is still there.
func (t *Timetable) delivered(rows Rows, k schedule.Key, uid string, e schedule.Delivered) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	row, ok := t.board.Get(k)
	if !ok || row.UID != uid {
		return nil
	}
	b := &batch{t: t, rows: rows, now: t.cfg.Clock.Wall()}
	_, err := b.one(k, e)
	return err
}

// target describes the present receivers of the signal of a schedule.
func target(signals Signals, domain string, s *schedule.Signal) plan.Reason {
	n, known := signals.Signalled(domain, s.Service)
	switch {
	case !known:
		return reason("target", fmt.Sprintf("sends %v, which does not exist", s), "apply the service, or name another one")
	case n == 0:
		return reason("target", fmt.Sprintf("sends %v, which has no running instances", s), "cantina explain service/"+
			s.Service)
	}
	return reason("target", fmt.Sprintf("sends %v, which has %d running instances", s, n), "")
}

package leader

import (
	"context"
	"errors"

	"cantina/internal/link"
	"cantina/lrp"
	"cantina/timetable"
	"cantina/worker"
)

// signal sends the signal of a schedule to one instance, once; its error is for the history.
func (t *Term) signal(ctx context.Context, s timetable.Sending, a *lrp.Actual) error {
	c := t.cells.Cell(worker.CellName(a.Cell))
	if c == nil {
		return errNoAddress
	}
	err := c.SignalInstance(ctx, t.Term(), worker.Proc(a.Proc), a.Key, a.Instance, s.Number)
	if err == nil {
		return nil
	}
	if words, ok := link.Refused(err); ok {
		return errors.New(words)
	}
	if link.NeverSent(err) {
		return errors.New("it cannot be reached")
	}
	return errors.New("it did not answer, and may have got it")
}

package task

import (
	"errors"
	"fmt"
)

// ErrBroken reports a row that no sequence of events can have made.
var ErrBroken = errors.New("row breaks an invariant")

// Check returns the first invariant that a row violates, wrapping ErrBroken: the required and
// permitted fields of each state, and a definition that would be refused.
func Check(t *Task) error {
	if msg := check(t); msg != "" {
		return fmt.Errorf("task %q: %s: %w", t.GUID, msg, ErrBroken)
	}
	return nil
}

func check(t *Task) string {
	switch {
	case t.GUID == "" || t.UID == "" || t.Domain == "" || t.Definition == nil:
		return "without guid, uid, domain or definition"
	case t.Created.IsZero() || t.Updated.IsZero():
		return "without the time of its making or of its state"
	case t.Ended() != (t.Outcome != Open):
		return fmt.Sprintf("%v with outcome %q", t.State, t.Outcome)
	case t.Ended() && t.FirstCompleted.IsZero():
		return "ended at no time"
	case t.State == Running && (t.Holder.Cell == "" || t.Holder.Proc == ""):
		return "RUNNING on no cell"
	case t.Resolution != Unresolved && t.Outcome != Lost && t.Outcome != Cancelled:
		return "resolved, but neither lost nor cancelled"
	case t.MayStillRun && t.Outcome != Lost && !t.Ending():
		return "may still run, but is neither lost nor ending"
	}
	if err := t.Definition.Validate(); err != nil {
		return err.Error()
	}
	return ""
}

package cell

import (
	"testing"
	"time"

	"cantina/executor"
)

// TestEndingContainersAreReported for tasks and batch tasks, with the cause and the time. Services are left out,
// because their rows have it, and so are ended containers.
func TestEndingContainersAreReported(t *testing.T) {
	by := time.Unix(1e9, 0)
	for name, c := range map[string]struct {
		ct   executor.Container
		kind string
		why  string // of the cell
		text string // empty = nothing is reported
	}{
		"on request": {executor.Container{Ending: true, EndBy: by}, kindBatch, "", "stopped on request"},
		"limit": {executor.Container{Ending: true, EndWhy: "time limit of 2s exceeded", EndBy: by}, kindTask, "",
			"time limit of 2s exceeded"},
		"leftovers": {executor.Container{Decided: true, EndWhy: "its program has ended", EndBy: by}, kindBatch, "",
			"its program has ended"},
		"drain":        {executor.Container{Ending: true, EndBy: by}, kindBatch, reasonDrained, "the cell is being drained"},
		"ended":        {executor.Container{Ending: true, EndBy: by, State: executor.Completed}, kindBatch, "", ""},
		"runs":         {executor.Container{State: executor.Running}, kindTask, "", ""},
		"service":      {executor.Container{Ending: true, EndBy: by}, kindLRP, "", ""},
		"does not die": {executor.Container{Ending: true, Stuck: &executor.Stuck{}}, kindTask, "", "STUCK_KILLING: "},
	} {
		inBubble(t, func(t *testing.T, w *world) {
			c.ct.ID, c.ct.Labels = "x", executor.Labels{labelKind: c.kind}
			if c.why != "" {
				w.cell.containers.endReasons.put("x", c.why)
			}
			got, ok := w.cell.report.condition(&c.ct)
			if ok != (c.text != "") || got.Text != c.text || got.Stopping != (ok && c.ct.Stuck == nil) || got.Stopping &&
				!got.StopBy.Equal(by) {
				t.Errorf("%s: %+v, %v", name, got, ok)
			}
		})
	}
}

// TestWordsOfAStop: a time of a kill that has passed is not promised.
func TestWordsOfAStop(t *testing.T) {
	now := time.Unix(1e9, 0)
	for want, by := range map[string]time.Time{
		"being stopped: why": {},
		"being stopped: why; killed at 2001-09-09T01:46:41Z at the latest":                          now.Add(time.Second),
		"being stopped: why; to be killed at 2001-09-09T01:46:39Z at the latest, and has not ended": now.Add(-time.Second),
	} {
		c := Condition{Stopping: true, Text: "why", StopBy: by}
		if got := c.Words(now); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

package cell

import (
	"testing"

	"cantina/executor"
	"cantina/worker"
)

// TestEveryContainerHasAnAttempt: logs --attempt finds the output of all kinds.
func TestEveryContainerHasAnAttempt(t *testing.T) {
	for want, l := range map[string]executor.Labels{
		"i1": lrpLabels(LRPWork{Instance: "i1"}),
		"1":  taskLabels(TaskWork{GUID: "g", UID: "u"}),
		"3":  batchLabels(worker.Run{}, &BatchWork{Attempt: "3"}),
	} {
		if got := l[executor.LabelAttempt]; got != want {
			t.Errorf("%s %v: attempt %q, want %s", l[labelKind], l, got, want)
		}
	}
}

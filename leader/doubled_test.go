package leader

import (
	"strings"
	"testing"

	"cantina/fence"
	"cantina/worker"
)

// TestDoubledWorkIsNamed: each run with its cell and invocation.
func TestDoubledWorkIsNamed(t *testing.T) {
	run := func(n int64) worker.Run {
		return worker.Run{Work: worker.Work{Job: "j", Node: "a"},
			Invocation: fence.Invocation{Term: fence.Term{Epoch: 1, Revision: 2}, Counter: n}}
	}
	one, two := worker.RunView{Run: run(3), Cell: "c1"}, worker.RunView{Run: run(4), Cell: "c2"}
	if got := doubledText([]worker.RunView{one, two}); !strings.HasSuffix(got,
		": on cell c1 as 1.2.3, on cell c2 as 1.2.4") || doubledText([]worker.RunView{one}) != "" {
		t.Errorf("%q", got)
	}
}

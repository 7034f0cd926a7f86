package leader

import (
	"log/slog"
	"strings"
	"testing"

	"cantina/fence"
	"cantina/worker"
)

// TestAuditsInTheLog: the ordinary end of the initial wait is no warning, everything else
// is one, and nothing empty is printed.
func TestAuditsInTheLog(t *testing.T) {
	for kind := worker.AuditDoubled; kind <= worker.AuditRefused; kind++ {
		run := worker.Run{Work: worker.Work{Job: "j", Node: "a"},
			Invocation: fence.Invocation{Term: fence.Term{Epoch: 1, Revision: 2}, Counter: 3}}
		for _, e := range []worker.Audit{{Kind: kind, Text: "why"}, {Kind: kind, Cell: "c", Proc: "p", Text: "why"},
			{Kind: kind, Cell: "c", Proc: "p", Run: run, Text: "why"}} {
			var out strings.Builder
			logAudit(slog.New(slog.NewTextHandler(&out, nil)), e)
			line := out.String()
			if strings.Contains(line, "level=WARN") != (kind != worker.AuditWaitEnded) || !strings.Contains(line, "text=why") {
				t.Errorf("kind %d: %s", kind, line)
			}
			if strings.Contains(line, `""`) || strings.Contains(line, "cell=c proc=p") != (e.Cell != "") {
				t.Errorf("kind %d: %s", kind, line)
			}
			if strings.Contains(line, "task=j/a invocation=1.2.3") != (e.Run == run) {
				t.Errorf("kind %d: %s", kind, line)
			}
		}
	}
}

// TestAuditsNameTheCellAndTheTask: status names the cell and the batch task.
func TestAuditsNameTheCellAndTheTask(t *testing.T) {
	run := func(n int64) worker.Run {
		return worker.Run{Work: worker.Work{Job: "j", Node: "a"},
			Invocation: fence.Invocation{Term: fence.Term{Epoch: 1, Revision: 2}, Counter: n}}
	}
	for want, e := range map[string]worker.Audit{
		"why":                      {Text: "why"},
		"cell c: why":              {Cell: "c", Proc: "p", Text: "why"},
		"cell c: j/a (1.2.3): why": {Cell: "c", Proc: "p", Run: run(3), Text: "why"},
	} {
		if got := auditText(e); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

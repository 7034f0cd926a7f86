package node

import (
	"log/slog"
	"strings"
	"testing"

	"cantina/worker"
)

// TestAuditsInTheLog: the ordinary end of the initial wait is no warning, everything else
// is one, and nothing empty is printed.
func TestAuditsInTheLog(t *testing.T) {
	for kind := worker.AuditDoubled; kind <= worker.AuditRefused; kind++ {
		for _, e := range []worker.Audit{{Kind: kind, Text: "why"}, {Kind: kind, Cell: "c", Proc: "p", Text: "why"}} {
			var out strings.Builder
			logAudit(slog.New(slog.NewTextHandler(&out, nil)), e)
			line := out.String()
			if strings.Contains(line, "level=WARN") != (kind != worker.AuditWaitEnded) || !strings.Contains(line, "text=why") {
				t.Errorf("kind %d: %s", kind, line)
			}
			if strings.Contains(line, `""`) || strings.Contains(line, "cell=c proc=p") != (e.Cell != "") {
				t.Errorf("kind %d: %s", kind, line)
			}
		}
	}
}

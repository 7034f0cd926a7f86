package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// TestIncompleteOutputIsReportedOnce: a follower that runs for months keeps few of the
// messages that it has printed.
func TestIncompleteOutputIsReportedOnce(t *testing.T) {
	var errs bytes.Buffer
	c := &cli{environment: environment{Err: &errs}}
	said := map[string]bool{}
	for range 3 {
		noteIncomplete(c, []string{"cell c1: no route", "cell c2: no route"}, said)
	}
	if got := errs.String(); got != "incomplete: cell c1: no route\nincomplete: cell c2: no route\n" {
		t.Errorf("printed %q", got)
	}
	for i := range 10 * maxSaid {
		noteIncomplete(c, []string{fmt.Sprintf("cell c1: port %d", i)}, said)
	}
	if n := strings.Count(errs.String(), "port"); n != 10*maxSaid {
		t.Errorf("%d messages printed, not %d", n, 10*maxSaid)
	}
	if len(said) > maxSaid {
		t.Errorf("%d messages kept", len(said))
	}
}

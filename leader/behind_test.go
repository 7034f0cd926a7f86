package leader

import (
	"slices"
	"testing"
)

func TestWhatIsBehind(t *testing.T) {
	for name, c := range map[string]struct {
		b    backlog
		want []string
	}{
		"nothing": {},
		"short":   {b: backlog{Untried: 99, InFlight: 99, Ready: 99, Uncommitted: 99, Undelivered: 99}},
		"an apply": {backlog{Untried: 1234567, InFlight: 2400}, []string{"1,234,567 instances and tasks are not placed yet",
			"2,400 instances and tasks are placed, and their cells have not confirmed them"}},
		"a slow store": {backlog{Uncommitted: 100, Undelivered: 1000}, []string{"100 changes wait for their commit",
			"1,000 changes are committed and wait for their effects"}},
		"cells": {backlog{Ready: 100, Silent: 1, Unread: 2}, []string{"100 cells wait for the call that carries their work",
			"1 cells did not respond to their last placement, which is repeated",
			"2 cells have sent messages that the leader has not read: it is late, and finds no cell silent meanwhile"}},
	} {
		if got := c.b.texts(); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

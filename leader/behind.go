package leader

import (
	"fmt"
	"strings"
)

// longQueue is the length from which status shows a queue: a shorter one is gone within a second.
const longQueue = 100

// backlog is the lengths of a leader's queues.
type backlog struct {
	// Untried waits for a round of the auction; InFlight is placed, and its cell has not confirmed it.
	Untried, InFlight int
	// Silent cells did not answer the last placement; Ready ones wait for a call.
	Silent, Ready int
	// Uncommitted changes wait for their commit, Undelivered ones for their effects.
	Uncommitted, Undelivered int
	// Unread cells have sent something that this leader has not handled, for longer than their heartbeats last.
	Unread int
}

func (t *Term) behind() []string {
	a := t.Auctioneer.Stats()
	b := backlog{Untried: a.Untried, InFlight: a.InFlight, Silent: a.Silent, Ready: a.Ready, Unread: t.Registry.Behind()}
	b.Uncommitted, b.Undelivered = t.lease.Queues()
	return b.texts()
}

// texts describes the queues that are long, and the cells that do not answer or are not heard.
func (b backlog) texts() []string {
	var out []string
	say := func(n, least int, text string) {
		if n >= least {
			out = append(out, thousands(n)+" "+text)
		}
	}
	say(b.Untried, longQueue, "instances and tasks are not placed yet")
	say(b.InFlight, longQueue, "instances and tasks are placed, and their cells have not confirmed them")
	say(b.Ready, longQueue, "cells wait for the call that carries their work")
	say(b.Silent, 1, "cells did not respond to their last placement, which is repeated")
	say(b.Uncommitted, longQueue, "changes wait for their commit")
	say(b.Undelivered, longQueue, "changes are committed and wait for their effects")
	say(b.Unread, 1, "cells have sent messages that the leader has not read: it is late, and finds no cell silent "+
		"meanwhile")
	return out
}

// thousands writes 2400 as 2,400.
func thousands(n int) string {
	s := fmt.Sprint(n)
	var parts []string
	for len(s) > 3 {
		parts = append([]string{s[len(s)-3:]}, parts...)
		s = s[:len(s)-3]
	}
	return strings.Join(append([]string{s}, parts...), ",")
}

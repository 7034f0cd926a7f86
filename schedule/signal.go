package schedule

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"cantina/action"
)

// Signal is what a schedule sends to the running instances of a service of its domain, at most
// once for each logical time: the firing becomes durable first, and is never sent again, with any
// result.
type Signal struct {
	Service string
	// Number of the signal on Linux.
	Number int
}

// String prints "HUP to service web".
func (s *Signal) String() string {
	return action.SignalName(s.Number) + " to service " + s.Service
}

// maxMissed is how many instances that were not reached the history names.
const maxMissed = 3

// Delivery is how a signal fared that was sent to each running instance of a service.
type Delivery struct {
	// Of is the number of running instances, Reached the number of cells that reported sending it.
	Of, Reached int
	// Missed is why the others were not, or may not have been reached, one each: "cell a: …".
	Missed []string
	// Problem is set if it was sent to no instance.
	Problem string
}

// String describes it, as the history shows it.
func (d *Delivery) String() string {
	switch {
	case d.Problem != "":
		return "not sent: " + d.Problem
	case d.Of == 0:
		return "not sent: no running instance"
	}
	out := fmt.Sprintf("sent to %d of %d", d.Reached, d.Of)
	if len(d.Missed) == 0 {
		return out
	}
	named := slices.Clone(d.Missed)
	slices.Sort(named)
	out += "; not reached: " + strings.Join(named[:min(len(named), maxMissed)], "; ")
	if rest := len(named) - maxMissed; rest > 0 {
		out += fmt.Sprintf("; and %d more", rest)
	}
	return out
}

// unknownOutcome is the history's text for a signal whose leader ended before it recorded the outcome.
const unknownOutcome = "sent at most once; the leader ended before it recorded the outcome"

// Forgotten returns the state as a new leader takes it over: missing results of its predecessor's
// signals stay unknown.
func Forgotten(s State) State {
	lost := func(e Entry) bool { return e.Decision == Sent && e.Text == "" }
	if !slices.ContainsFunc(s.History, lost) {
		return s
	}
	s.History = slices.Clone(s.History)
	for i := range s.History {
		if lost(s.History[i]) {
			s.History[i].Text = unknownOutcome
		}
	}
	return s
}

// delivered notes how a signal fared. A line that is not kept any more stays forgotten.
func (s *State) delivered(e Delivered) {
	for i := len(s.History) - 1; i >= 0; i-- {
		h := s.History[i]
		if h.Decision != Sent || !h.At.Equal(e.At) {
			continue
		}
		if h.Text == "" {
			s.History = slices.Clone(s.History)
			s.History[i].Text = e.Delivery.String()
		}
		return
	}
}

// lineOf returns the history's entry of the firing at a logical time.
func lineOf(h []Entry, at time.Time) (Entry, bool) {
	for _, e := range slices.Backward(h) {
		if e.Decision.fired() && e.At.Equal(at) {
			return e, true
		}
	}
	return Entry{}, false
}

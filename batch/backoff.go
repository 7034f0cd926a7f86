package batch

import (
	"errors"
	"fmt"
	"slices"
)

// ErrBackoff reports a backoff list that is none.
var ErrBackoff = errors.New("bad backoff list")

// noMoreSeconds is the pause that goes with "no more backoffs" (Bistro: a job
// with only "fail" that reports incomplete_backoff still waits).
const noMoreSeconds = 60

// defaultBackoff is the list of a job that has none (Bistro settings, backoff).
func defaultBackoff() Backoff {
	return Backoff{Seconds: []int{15, 30, 60, 300, 900, 3600, 7200, 21600, 86400}, Repeat: true}
}

// effective replaces the zero value by the default list.
func (b Backoff) effective() Backoff {
	if len(b.Seconds) == 0 && !b.Repeat && !b.Fail {
		return defaultBackoff()
	}
	return b
}

// Next returns the pause after current: the first value strictly greater; after the last one the
// last again or none. Progress is a duration, not a position in the list, so editing the list
// keeps jobs at a sensible place.
func (b Backoff) Next(current int) NextBackoff {
	b = b.effective()
	for _, s := range b.Seconds {
		if s > current {
			return NextBackoff{Seconds: s}
		}
	}
	if b.Repeat && len(b.Seconds) > 0 {
		return NextBackoff{Seconds: b.Seconds[len(b.Seconds)-1]}
	}
	return NextBackoff{Seconds: noMoreSeconds, NoMore: true}
}

// Check returns ErrBackoff unless the values are positive and strictly increasing.
func (b Backoff) Check() error {
	last := 0
	for i, s := range b.Seconds {
		if s <= last {
			return fmt.Errorf("backoff value %d (%d) is not greater than %d: %w", i, s, last, ErrBackoff)
		}
		last = s
	}
	if b.Repeat && len(b.Seconds) == 0 {
		return fmt.Errorf("backoff repeat with nothing before it: %w", ErrBackoff)
	}
	return nil
}

// List is the JSON form: the seconds, and repeat or fail at its end.
func (b Backoff) List() []any {
	b = b.effective()
	out := make([]any, 0, len(b.Seconds)+1)
	for _, s := range b.Seconds {
		out = append(out, s)
	}
	if b.Repeat {
		return append(out, "repeat")
	}
	return append(out, "fail")
}

// Equal reports whether two lists mean the same.
func (b Backoff) Equal(c Backoff) bool {
	b, c = b.effective(), c.effective()
	return b.Repeat == c.Repeat && slices.Equal(b.Seconds, c.Seconds)
}

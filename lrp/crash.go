package lrp

import (
	"fmt"
	"time"
)

// RestartMode selects the ends of an instance that are followed by a restart.
type RestartMode int

// The modes.
const (
	RestartAlways    RestartMode = iota // default
	RestartOnFailure                    // not after an exit with status 0
	RestartNever
)

// RestartPolicy is when a crashed instance starts again. Zero fields mean the defaults in the
// comments, which are Diego's. (Diego dev notes, Crashes.)
type RestartPolicy struct {
	Mode RestartMode
	// Immediate: crashes below this count restart at once; 0 = 3, -1 = none.
	Immediate int
	// Base is the first wait; it doubles with each crash; 0 = 30 s.
	Base time.Duration
	// Max is the longest wait; 0 = 16 min.
	Max time.Duration
	// GiveUp: above this count the instance is not restarted; 0 = 200, -1 = never give up.
	GiveUp int
	// ResetAfter: for an instance that was RUNNING this long the count restarts; 0 = 5 min.
	ResetAfter time.Duration
}

// Validate reports a field that can not be, wrapping ErrInvalid.
func (p RestartPolicy) Validate() error {
	if p.Immediate < -1 || p.GiveUp < -1 || p.Base < 0 || p.Max < 0 || p.ResetAfter < 0 {
		return fmt.Errorf("restart: must not be negative: %w", ErrInvalid)
	}
	if q := p.withDefaults(); q.Max < q.Base {
		return fmt.Errorf("restart: max %v is shorter than base %v: %w", q.Max, q.Base, ErrInvalid)
	}
	return nil
}

func (p RestartPolicy) withDefaults() RestartPolicy {
	set := func(v *int, def int) {
		if *v == 0 {
			*v = def
		}
	}
	dur := func(v *time.Duration, def time.Duration) {
		if *v == 0 {
			*v = def
		}
	}
	set(&p.Immediate, 3)
	set(&p.GiveUp, 200)
	dur(&p.Base, 30*time.Second)
	dur(&p.Max, max(16*time.Minute, p.Base))
	dur(&p.ResetAfter, 5*time.Minute)
	return p
}

// Wait returns how long a CRASHED instance waits after crash number count
// (counted after its increment, from 1), and whether it is ever restarted.
func (p RestartPolicy) Wait(count int) (time.Duration, bool) {
	q := p.withDefaults()
	switch {
	case q.Mode == RestartNever, q.GiveUp >= 0 && count > q.GiveUp:
		return 0, false
	case count < q.Immediate:
		return 0, true
	}
	wait := q.Base
	for n := max(q.Immediate, 1); n < count && wait < q.Max; n++ {
		wait *= 2
	}
	return min(wait, q.Max), true
}

// NextCount returns the crash count after one more crash of an instance in state
// s since the given time.
func (p RestartPolicy) NextCount(count int, s State, since, now time.Time) int {
	if s == Running && now.Sub(since) >= p.withDefaults().ResetAfter {
		return 1
	}
	return count + 1
}

// Package run has the parts that all long-lived parts of cantina share: the two clocks, a group of
// goroutines that start and stop together, and a queue that runs at most one operation per key.
//
// Any shell may use it; core packages may not (they get times as arguments).
package run

import (
	"time"

	"golang.org/x/sys/unix"
)

// Clock is the only source of time of a shell. Tests hand in their own: in a
// testing/synctest bubble both functions follow time.Now, a clock-step test
// shifts Wall alone.
type Clock struct {
	// Wall is the time of day, in UTC.
	Wall func() time.Time
	// Boot is the time since the machine started, counting suspension (CLOCK_BOOTTIME): deadlines are
	// measured with it.
	Boot func() time.Duration
}

// Steady returns a wall clock that now shows the time of Wall and cannot step: it advances with
// Boot. A leader uses one for its term.
func (c Clock) Steady() func() time.Time {
	wall, boot := c.Wall(), c.Boot()
	return func() time.Time { return wall.Add(c.Boot() - boot).UTC() }
}

// Kernel returns the clocks of this machine.
func Kernel() Clock {
	return Clock{
		Wall: func() time.Time { return time.Now().UTC().Round(0) },
		Boot: bootTime,
	}
}

func bootTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("the kernel has no CLOCK_BOOTTIME: " + err.Error())
	}
	return time.Duration(ts.Nano())
}

// Bubble returns clocks that follow time.Now, for use inside a
// testing/synctest bubble.
func Bubble() Clock {
	start := time.Now()
	return Clock{
		Wall: func() time.Time { return time.Now().UTC() },
		Boot: func() time.Duration { return time.Since(start) + time.Hour },
	}
}

// Package draw draws values for tests: events of long histories, and rows and messages that no
// correct program writes, among those that one may write. The same seed gives the same values.
package draw

import (
	"math/rand/v2"
	"time"
)

// One is one of several values, each as likely as the others. One that is given twice is twice as likely.
func One[T any](from interface{ IntN(n int) int }, values ...T) T {
	return values[from.IntN(len(values))]
}

// Source draws values around the time Now, which a test may change.
type Source struct {
	*rand.Rand
	Now time.Time
}

// From makes the source of a test: the same stream with another seed gives other values.
func From(seed, stream uint64, now time.Time) Source {
	return Source{rand.New(rand.NewPCG(seed, stream)), now}
}

// Flag is true one time in three.
func (s *Source) Flag() bool { return s.IntN(3) == 0 }

// Moment is Now, an hour before or after it, no time, or one far away.
func (s *Source) Moment() time.Time {
	return One(s, time.Time{}, time.Unix(0, 0), s.Now, s.Now.Add(-time.Hour), s.Now.Add(time.Hour), s.Now.Add(1<<62))
}

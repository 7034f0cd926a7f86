package sim

import (
	"time"
)

type planned struct {
	at  time.Duration
	seq int
	fn  func()
}

type queue []planned

func (q queue) Len() int { return len(q) }

func (q queue) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].seq < q[j].seq
}

func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

func (q *queue) Push(x any) { *q = append(*q, x.(planned)) }

func (q *queue) Pop() any {
	old := *q
	x := old[len(old)-1]
	old[len(old)-1] = planned{}
	*q = old[:len(old)-1]
	return x
}

// clock is one machine's CLOCK_BOOTTIME.
type clock struct {
	started time.Duration // true time of boot
	frozen  time.Duration
	perMill time.Duration // rate error in 1/1,000,000
}

func (c *clock) at(now time.Duration) time.Duration {
	d := now - c.started - c.frozen
	return d + d/1_000_000*c.perMill + time.Second
}

// until returns a time in which the clock certainly has not passed local time t yet, and which
// shrinks to nothing at repeated calls.
func (c *clock) until(now, t time.Duration) time.Duration {
	d := t - c.at(now)
	if d <= 0 {
		return 0
	}
	return d - d/100 + time.Microsecond
}

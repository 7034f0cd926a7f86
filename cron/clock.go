package cron

import "math/bits"

// clock is the set of times of day of an item, in seconds after midnight.
type clock struct {
	sec, min, hour uint64 // bits
	first          int64  // smallest time of day
	perHour, perMinute,
	perDay int64
}

func newClock(sec, min, hour Selector) clock {
	c := clock{sec: sec.mask(), min: min.mask(), hour: hour.mask()}
	c.first = hour.First()*3600 + min.First()*60 + sec.First()
	c.perMinute = int64(bits.OnesCount64(c.sec))
	c.perHour = c.perMinute * int64(bits.OnesCount64(c.min))
	c.perDay = c.perHour * int64(bits.OnesCount64(c.hour))
	return c
}

// next gives the first time of day at or after tod, which may be the end of the day; -1 when the day has no more.
func (c *clock) next(tod int64) int64 {
	h := int(tod / 3600)
	m := int(tod / 60 % 60)
	s := int(tod % 60)
	if c.hour>>uint(h)&1 == 1 {
		if c.min>>uint(m)&1 == 1 {
			if s = lowest(c.sec, s); s >= 0 {
				return int64(h*3600 + m*60 + s)
			}
		}
		if m = lowest(c.min, m+1); m >= 0 {
			return int64(h*3600+m*60) + c.first%60
		}
	}
	if h = lowest(c.hour, h+1); h >= 0 {
		return int64(h*3600) + c.first%3600
	}
	return -1
}

// countBelow is the number of chosen times of day before tod.
func (c *clock) countBelow(tod int64) int64 {
	h, m, s := uint(tod/3600), uint(tod/60%60), uint(tod%60)
	n := int64(bits.OnesCount64(c.hour&(1<<h-1))) * c.perHour
	if c.hour>>h&1 == 0 {
		return n
	}
	n += int64(bits.OnesCount64(c.min&(1<<m-1))) * c.perMinute
	if c.min>>m&1 == 0 {
		return n
	}
	return n + int64(bits.OnesCount64(c.sec&(1<<s-1)))
}

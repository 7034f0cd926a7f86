package logstore

import "time"

// limiter limits the bytes of one source per second. After more than a second's amount, every line
// is dropped for the next second, and then one gap reports the amount. (Diego executor, log rate
// limit.)
type limiter struct {
	rate    float64 // bytes per second; 0 = no bound
	tokens  float64
	at      time.Duration // boot time of tokens
	until   time.Duration // lines are dropped up to here
	dropped [streams]Gap
}

func newLimiter(rate int, now time.Duration) limiter {
	return limiter{rate: float64(rate), tokens: float64(rate), at: now}
}

// allow reports whether a line that begins now is kept; only with a rate.
func (l *limiter) allow(now time.Duration) bool {
	if now < l.until {
		return false
	}
	l.tokens = min(l.rate, l.tokens+(now-l.at).Seconds()*l.rate)
	l.at = now
	if l.tokens <= 0 {
		l.until = now + time.Second
		return false
	}
	return true
}

// charge takes n kept bytes; it may go below zero, because lines are never cut.
func (l *limiter) charge(n int) { l.tokens -= float64(n) }

func (l *limiter) drop(s Stream, bytes int, lineEnds bool) { addLoss(&l.dropped[s], bytes, lineEnds) }

func addLoss(g *Gap, bytes int, lineEnds bool) {
	g.Bytes += int64(bytes)
	if lineEnds {
		g.Lines++
	}
}

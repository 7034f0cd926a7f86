package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	pb "cantina/wire/cantinav1"
)

// redrawEvery is how often a progress line is drawn anew.
const redrawEvery = 500 * time.Millisecond

// rateOver is the time over which the rate is measured.
const rateOver = 30 * time.Second

// sample is how many batch tasks had ended at a time.
type sample struct {
	at    time.Time
	ended int32
}

// progressLine keeps one line at the bottom of a terminal. Other output goes through writers of
// over: the line is cleared before, and drawn again by the next tick.
type progressLine struct {
	mu      sync.Mutex
	term    io.Writer // the terminal
	width   func() int
	job     *pb.Job
	samples []sample
	shown   bool
	within  bool // the last output ended within a line
}

// update takes the newest state of the job.
func (p *progressLine) update(j *pb.Job) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.job = j
}

// busy reports whether the job runs.
func (p *progressLine) busy() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.job.GetCounts().GetRunning() > 0
}

// tick measures the rate and draws the line.
func (p *progressLine) tick(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.job == nil || p.within {
		return
	}
	p.samples = append(p.samples, sample{now, p.job.Counts.GetDone() + p.job.Counts.GetFailed()})
	for len(p.samples) > 2 && now.Sub(p.samples[1].at) >= rateOver {
		p.samples = p.samples[1:]
	}
	line := []rune(printable(progressText(p.job, p.samples)))
	if n := p.width() - 1; len(line) > n && n > 0 {
		line = line[:n]
	}
	_, _ = fmt.Fprintf(p.term, "\r\x1b[K%s", string(line))
	p.shown = true
}

// clear removes the line; the lock is held.
func (p *progressLine) clear() {
	if p.shown {
		_, _ = io.WriteString(p.term, "\r\x1b[K")
		p.shown = false
	}
}

// end removes the line.
func (p *progressLine) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
}

// run draws until done is closed.
func (p *progressLine) run(c *cli, done <-chan struct{}) {
	tick, stop := c.every(redrawEvery)
	defer stop()
	defer p.end()
	for {
		select {
		case <-done:
			return
		case <-tick:
			p.tick(c.Now())
		}
	}
}

// over returns a writer to the same terminal.
func (p *progressLine) over(w io.Writer) io.Writer { return &overLine{p, w} }

type overLine struct {
	p  *progressLine
	to io.Writer
}

// Write implements io.Writer.
func (o *overLine) Write(b []byte) (int, error) {
	o.p.mu.Lock()
	defer o.p.mu.Unlock()
	o.p.clear()
	n, err := o.to.Write(b)
	if n > 0 {
		o.p.within = b[n-1] != '\n'
	}
	return n, err
}

// progressText describes how far a job is: "count: 120 of 400 done, 3 failed, 8 running, 41.2/s, ETA 7s".
func progressText(j *pb.Job, samples []sample) string {
	n := j.Counts
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d of %d done", j.Name, n.GetDone(), n.GetTotal())
	if n.GetFailed() > 0 {
		fmt.Fprintf(&b, ", %d failed", n.GetFailed())
	}
	fmt.Fprintf(&b, ", %d running", n.GetRunning())
	if j.State != "running" && j.State != "waiting" && j.State != "" {
		fmt.Fprintf(&b, ", %s", j.State)
	}
	if len(samples) < 2 {
		return b.String()
	}
	first, last := samples[0], samples[len(samples)-1]
	seconds := last.at.Sub(first.at).Seconds()
	if seconds <= 0 || last.ended <= first.ended {
		return b.String()
	}
	rate := float64(last.ended-first.ended) / seconds
	fmt.Fprintf(&b, ", %s/s", rateText(rate))
	if left := n.GetTotal() - n.GetDone() - n.GetFailed(); left > 0 {
		fmt.Fprintf(&b, ", ETA %s", short(time.Duration(float64(left)/rate*float64(time.Second)).Round(time.Second)))
	}
	return b.String()
}

// rateText has three digits that count.
func rateText(r float64) string {
	switch {
	case r >= 100:
		return fmt.Sprintf("%.0f", r)
	case r >= 1:
		return fmt.Sprintf("%.1f", r)
	}
	return fmt.Sprintf("%.2f", r)
}

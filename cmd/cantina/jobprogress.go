package main

import (
	"sync"
	"time"

	pb "cantina/wire/cantinav1"
)

// progressEvery is how often the progress of a job is printed at most.
const progressEvery = 5 * time.Second

// jobProgress prints the progress of a job that is waited for.
type jobProgress struct {
	c *cli

	mu      sync.Mutex
	running bool
	printed time.Time // zero = the first look
	done    int32     // then
}

// busy reports whether batch tasks run: then it is no news that others have no room.
func (p *jobProgress) busy() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running
}

// see looks at the job, and prints its progress from time to time.
func (p *jobProgress) see(j *pb.Job) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, now := j.Counts, p.c.Now()
	p.running = n.GetRunning() > 0
	ended := n.GetDone() + n.GetFailed()
	switch past := now.Sub(p.printed); {
	case p.printed.IsZero():
	case past < progressEvery || ended == p.done || jobEnded(j.State):
		return
	default:
		p.c.notef("%s\n", printable(progressText(j, []sample{{p.printed, p.done}, {now, ended}})))
	}
	p.printed, p.done = now, ended
}

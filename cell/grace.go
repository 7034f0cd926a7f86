package cell

import (
	"context"
	"errors"
	"time"

	"cantina/executor"
	"cantina/fence"
	"cantina/worker"
)

// Shorten is a request of an operator: work that is to end is killed after a shorter grace.
type Shorten struct {
	Instances []string
	Tasks     []string // by their uids
	// Job and Node choose batch tasks; an empty node chooses all of the job.
	Job, Node string
	Grace     time.Duration
}

// ShortenGrace has work killed after a shorter grace, and returns how many containers it is.
// Instances and tasks are ended, for the leader wants them to end. Batch tasks must be ending
// already: the order to end one comes from their session.
func (c *Cell) ShortenGrace(_ context.Context, t fence.Term, proc worker.Proc, s Shorten) (int, error) {
	if err := c.session.heard(t, proc); err != nil {
		return 0, err
	}
	ids := append([]string(nil), s.Instances...)
	for _, uid := range s.Tasks {
		ids = append(ids, TaskContainer(uid))
	}
	if s.Job != "" {
		for _, ct := range c.exec.List() {
			w := workOf(ct.Labels)
			if ct.Labels[labelKind] == kindBatch && w.Job == s.Job && (s.Node == "" || w.Node == s.Node) && ends(&ct) {
				ids = append(ids, ct.ID)
			}
		}
	}
	n := 0
	for _, id := range ids {
		ct, ok := c.exec.Get(id)
		if !ok || ct.State == executor.Completed {
			continue
		}
		switch err := c.exec.ShortenGrace(id, s.Grace); {
		case err == nil:
			n++
		case !errors.Is(err, executor.ErrUnknown):
			return n, err
		}
	}
	return n, nil
}

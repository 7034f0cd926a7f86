package scheduler

import (
	"context"

	"cantina/batch"
)

// editChunk is how many statuses one step of a long edit looks at.
const editChunk = 2000

// Forgive lets failed batch tasks run again and ends backoffs. It returns how many
// it changed, after their commit; a long one is done in steps, each durable by
// itself. Errors as of Remove, batch.ErrUnknownNode as of Kill, ctx's, or those of
// the store.
func (s *Scheduler) Forgive(ctx context.Context, name string, f batch.NodeFilter) (int, error) {
	f.Classes = []batch.Class{batch.ClassFailed, batch.ClassBackoff}
	return s.edit(ctx, name, f, (*batch.Board).Forgive)
}

// Rerun forgets the statuses of batch tasks that have ended, so that they run
// again. Otherwise as Forgive.
func (s *Scheduler) Rerun(ctx context.Context, name string, f batch.NodeFilter) (int, error) {
	if len(f.Classes) == 0 {
		f.Classes = []batch.Class{batch.ClassDone, batch.ClassFailed, batch.ClassBackoff}
	}
	return s.edit(ctx, name, f, (*batch.Board).Reset)
}

// changer is batch.Board.Forgive or Reset.
type changer func(b *batch.Board, job string, nodes ...string) ([]batch.Update, error)

func (s *Scheduler) edit(ctx context.Context, name string, f batch.NodeFilter, change changer) (int, error) {
	total := 0
	f.Limit = editChunk
	for {
		if err := s.cfg.Store.Wait(ctx); err != nil {
			return total, err
		}
		step, err := s.editStep(name, f, change)
		if err != nil || step.last == "" {
			return total, err
		}
		f.After = step.last
		for range step.commits {
			select {
			case err := <-step.answered:
				if err != nil {
					return total, err
				}
			case <-ctx.Done():
				return total, ctx.Err()
			}
		}
		if total += step.changed; !step.more {
			return total, nil
		}
	}
}

// editing is one step of an edit: so many statuses in so many commits, up to a node.
type editing struct {
	commits, changed int
	last             string
	more             bool // there may be statuses behind it
	answered         chan error
}

// editStep submits one step.
func (s *Scheduler) editStep(name string, f batch.NodeFilter, change changer) (editing, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, j, err := s.changeable(name)
	if err != nil || j == nil { // a life on its way has no statuses
		return editing{}, err
	}
	if err := j.named(f); err != nil {
		return editing{}, err
	}
	views, err := j.forest.board.Nodes(name, f)
	if err != nil || len(views) == 0 {
		return editing{}, err
	}
	nodes := make([]string, len(views))
	for i := range views {
		nodes[i] = views[i].Node
	}
	updates, err := change(j.forest.board, name, nodes...)
	if err != nil {
		return editing{}, err
	}
	e := editing{changed: len(updates), last: nodes[len(nodes)-1], more: len(nodes) == editChunk, answered: make(chan error, len(updates))}
	for len(updates) > 0 && s.over == nil {
		var p packer
		c := &chunk{j: j, n: j.segs.next, tell: func(_ int64, err error) { e.answered <- err }}
		for len(updates) > 0 && !p.full() {
			u := updates[0]
			updates = updates[1:]
			u.Mark = c.n
			p.add(u.Key.Node, &u.Status, nil)
			c.edits = append(c.edits, u)
		}
		s.submit(c, &p, nil)
		e.commits++
	}
	return e, s.over
}

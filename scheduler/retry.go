package scheduler

import (
	"context"
	"slices"

	"cantina/batch"
)

// editChunk is how many statuses one step of a long edit looks at.
const editChunk = 2000

// Retry lets failed batch tasks run again and ends backoffs. It returns the number of changed
// ones, after their commit. A long change is done in steps, each durable on its own. Errors as of
// Remove, batch.ErrUnknownNode as of Kill, ctx's, or those of the store.
func (st *statuses) Retry(ctx context.Context, name string, f batch.NodeFilter) (int, error) {
	return st.RetryInSteps(name, f).run(ctx)
}

// Rerun resets the statuses of batch tasks that have ended, so that they run again. Otherwise as
// Retry.
func (st *statuses) Rerun(ctx context.Context, name string, f batch.NodeFilter) (int, error) {
	return st.RerunInSteps(name, f).run(ctx)
}

// Edit is a change of many statuses by a person, done in steps that are durable on their own.
type Edit struct {
	s       *statuses
	name    string
	filter  batch.NodeFilter
	change  changer
	changed int
}

// RetryInSteps is Retry in steps.
func (st *statuses) RetryInSteps(name string, f batch.NodeFilter) *Edit {
	f.Classes = []batch.Class{batch.ClassFailed, batch.ClassBackoff}
	return st.edit(name, f, (*batch.Board).Retry)
}

// RerunInSteps is Rerun in steps.
func (st *statuses) RerunInSteps(name string, f batch.NodeFilter) *Edit {
	if len(f.Classes) == 0 {
		f.Classes = []batch.Class{batch.ClassDone, batch.ClassFailed, batch.ClassBackoff}
	}
	return st.edit(name, f, (*batch.Board).Reset)
}

// changer is batch.Board.Retry or Reset.
type changer func(b *batch.Board, job string, nodes ...string) ([]batch.Update, error)

func (st *statuses) edit(name string, f batch.NodeFilter, change changer) *Edit {
	f.Limit = editChunk
	return &Edit{s: st, name: name, filter: f, change: change}
}

// run does all steps, one after the commit of the other.
func (e *Edit) run(ctx context.Context) (int, error) {
	answered := make(chan error, 1)
	for {
		if err := e.s.cfg.Store.Wait(ctx); err != nil {
			return e.changed, err
		}
		n, more, err := e.Step(func(err error) { answered <- err })
		if err != nil {
			return e.changed, err
		}
		if n > 0 {
			select {
			case err := <-answered:
				if err != nil {
					return e.changed, err
				}
			case <-ctx.Done():
				return e.changed, ctx.Err()
			}
		}
		if e.changed += n; !more {
			return e.changed, nil
		}
	}
}

// Step submits the next statuses, and returns their number; more: there may be others after them.
// done is called once, after their commit; not at all if there are none. Errors as of Retry.
func (e *Edit) Step(done func(error)) (changed int, more bool, err error) {
	s := e.s
	s.mu.Lock()
	defer s.mu.Unlock()
	_, j, err := s.changeable(e.name)
	if err != nil || j == nil { // a life on its way has no statuses
		return 0, false, err
	}
	if err := j.named(e.filter); err != nil {
		return 0, false, err
	}
	views, err := j.forest.board.Nodes(e.name, e.filter)
	if err != nil || len(views) == 0 {
		return 0, false, err
	}
	nodes := make([]string, len(views))
	for i := range views {
		nodes[i] = views[i].Node
	}
	updates, err := e.change(j.forest.board, e.name, nodes...)
	if err != nil {
		return 0, false, err
	}
	// The end of a run that is not on the board, because its cell reported it as ended, may be on its
	// way: it is left alone like running ones. The status on the board is older.
	updates = slices.DeleteFunc(updates, func(u batch.Update) bool { return s.ends[u.Key] != nil })
	if s.over != nil {
		return 0, false, s.over
	}
	s.submitEdits(j, updates, done)
	e.filter.After = nodes[len(nodes)-1]
	return len(updates), len(nodes) == editChunk, nil
}

// submitEdits packs updates into segments; done gets the first error, or the last commit. The lock
// is held.
func (st *statuses) submitEdits(j *job, updates []batch.Update, done func(error)) {
	var chunks []*chunk
	var packers []*packer
	for len(updates) > 0 {
		p := &packer{}
		c := &chunk{j: j}
		for len(updates) > 0 && !p.full() {
			u := updates[0]
			updates = updates[1:]
			p.add(u.Key.Node, &u.Status, nil)
			c.edits = append(c.edits, u)
		}
		chunks, packers = append(chunks, c), append(packers, p)
	}
	open := len(chunks)
	for i, c := range chunks {
		c.n = j.segs.next
		for k := range c.edits {
			c.edits[k].Mark = c.n
		}
		c.report = func(_ int64, err error) { // in the order of commits, never two at once
			switch open--; {
			case open < 0: // it already has an error
			case err != nil:
				open = 0
				done(err)
			case open == 0:
				done(nil)
			}
		}
		st.submit(c, packers[i], nil)
	}
}

package scheduler

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"cantina/batch"
	"cantina/fence"
	"cantina/plan"
	"cantina/worker"
)

func cmpText(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// view shows one job; the lock is held.
func (s *Scheduler) view(j *job) plan.Job {
	v := plan.Job{Progress: s.progress(j), Removed: j.row.deleted, Created: j.row.created, Revision: j.revision}
	v.Name, v.UID = j.row.name, j.row.uid
	if j.spec != nil {
		v.Job = *j.spec
	}
	if j.forest == nil {
		return v
	}
	v.Forest, v.NodesKnown, v.NodesError = j.forest.board.Spec(), j.known(), j.forest.problem
	if v.Progress.State.Ended() && j.latest > 0 {
		v.Ended = time.UnixMilli(j.latest).UTC()
	}
	return v
}

// known reports that a job's nodes were read in this term, or need not be.
func (j *job) known() bool { return j.forest != nil && (j.forest.planted || !j.forest.hasSources()) }

// labels returns those of a job; nil if its specification cannot be read.
func (j *job) labels() map[string]string {
	if j.spec == nil {
		return nil
	}
	return j.spec.Workload.Labels
}

// Jobs lists jobs in order of their keys, strictly after a key, at most limit (0 = all).
func (s *Scheduler) Jobs(f plan.NameFilter, after string, limit int) []plan.Job {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []plan.Job
	for _, j := range s.sorted() {
		if after != "" && j.row.name <= after || !f.Takes(batch.SplitName(j.row.name)) || !f.Labels.Selects(j.labels()) {
			continue
		}
		if limit > 0 && len(out) == limit {
			break
		}
		out = append(out, s.view(j))
	}
	return out
}

// Job returns one job, also one that is being removed. It returns
// batch.ErrUnknownJob.
func (s *Scheduler) Job(name string) (plan.Job, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.jobs[name]
	if j == nil {
		return plan.Job{}, fmt.Errorf("job %q: %w", name, batch.ErrUnknownJob)
	}
	return s.view(j), nil
}

// named returns batch.ErrUnknownNode if the filter names a node that the job does not have; the
// scheduler's lock is held.
func (j *job) named(f batch.NodeFilter) error {
	if f.Node == "" {
		return nil
	}
	return j.forest.board.HasNode(batch.Key{Job: j.row.name, Node: f.Node})
}

// JobNodes lists batch tasks of a job in order of node. It returns
// batch.ErrUnknownJob or ErrQuarantined.
func (s *Scheduler) JobNodes(name string, f batch.NodeFilter) ([]plan.JobNode, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j, err := s.live(name)
	if err != nil {
		return nil, err
	}
	nodes, err := j.forest.board.Nodes(name, f)
	if err != nil {
		return nil, err
	}
	out := make([]plan.JobNode, len(nodes))
	for i, n := range nodes {
		out[i] = s.nodeView(j, n)
	}
	return out, nil
}

// JobGroups counts the batch tasks of a job below each node of one level, as batch.Board.Groups. It returns
// batch.ErrUnknownJob, batch.ErrUnknownNode or ErrQuarantined.
func (s *Scheduler) JobGroups(name, below string) ([]batch.Group, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j, err := s.live(name)
	if err != nil {
		return nil, err
	}
	return j.forest.board.Groups(name, below)
}

func (s *Scheduler) nodeView(j *job, n batch.NodeView) plan.JobNode {
	n.Status.Reason = j.reasons[n.Node]
	return plan.JobNode{Job: j.row.name, NodeView: n, Path: j.forest.board.Path(batch.Key{Job: j.row.name, Node: n.Node})}
}

// Results lists batch tasks of a job that have a status, with their reports, read from the store;
// in order of node. Errors as of JobNodes, and those of the store.
func (s *Scheduler) Results(ctx context.Context, name string, f batch.NodeFilter) ([]plan.JobNode, error) {
	if len(f.Classes) == 0 {
		f.Classes = []batch.Class{batch.ClassDone, batch.ClassFailed, batch.ClassBackoff}
	}
	s.mu.Lock()
	marks, uid := make(map[string]uint32), ""
	if j := s.jobs[name]; j != nil {
		uid = j.row.uid
	}
	s.mu.Unlock()
	nodes, err := s.JobNodes(name, f)
	if err != nil {
		return nil, err
	}
	var numbers []uint32
	s.mu.Lock()
	if b := s.boardOf(batch.Key{Job: name}); b != nil {
		for i := range nodes {
			n := b.Mark(batch.Key{Job: name, Node: nodes[i].Node})
			marks[nodes[i].Node] = n
			numbers = append(numbers, n)
		}
	}
	s.mu.Unlock()
	slices.Sort(numbers)
	read, err := s.readSegments(ctx, uid, slices.Compact(numbers))
	if err != nil {
		return nil, err
	}
	for i := range nodes {
		x := read[marks[nodes[i].Node]][nodes[i].Node]
		nodes[i].Data = x.data
		if x.status.Reason != "" {
			nodes[i].Status.Reason = x.status.Reason
		}
	}
	return nodes, nil
}

// Explain returns why a batch task is in its state; an empty node means the job as a whole. It
// returns batch.ErrUnknownJob, batch.ErrUnknownNode or ErrQuarantined.
func (s *Scheduler) Explain(name, node string) ([]batch.Why, error) {
	s.mu.Lock()
	j, err := s.live(name)
	if err != nil {
		s.mu.Unlock()
		return nil, err
	}
	var why []batch.Why
	if f := j.forest; f.problem != "" || !f.listed() {
		why = append(why, batch.Why{Text: cmpText(f.problem, "its nodes are being listed")})
	}
	r := worker.Request{Work: worker.Work{Job: name, Node: node}, JobUID: j.row.uid}
	if j.forest.board.Draws(name) {
		r.Nodes = drawNames(j.spec.Forest)
	}
	ended := false
	if node == "" {
		ended = s.progress(j).State.Ended()
		more, err := j.forest.board.ExplainJob(name, func(n string) string { return j.reasons[n] }, s.nowMilli())
		if err != nil {
			s.mu.Unlock()
			return nil, err
		}
		if p := s.progress(j); p.Reason != "" && !slices.ContainsFunc(slices.Concat(why, more),
			func(w batch.Why) bool { return strings.Contains(w.Text, p.Reason) }) && p.State != batch.JobInvalid {
			why = append(why, batch.Why{Text: p.Reason})
		}
		why = append(why, more...)
	} else {
		more, err := j.forest.board.Explain(batch.Key{Job: name, Node: node}, j.reasons[node], s.nowMilli())
		if err != nil {
			s.mu.Unlock()
			return nil, err
		}
		why = append(why, more...)
	}
	s.mu.Unlock()
	if hold, ok := s.cfg.Registry.MayRun(r); !ok && !ended && hold.Reason != worker.HoldRunning {
		w := batch.Why{Text: hold.Reason.String(), Longest: max(hold.Longest, 0)}
		// The reason of the last pass is the same with less detail.
		why = append([]batch.Why{w}, slices.DeleteFunc(why, func(x batch.Why) bool { return x.Text == w.Text })...)
	}
	return why, nil
}

// Running answers whether a job has ended. held: the initial wait is on; then, that it
// is not known to have ended means nothing yet.
func (s *Scheduler) Running(name string, held bool) Answer {
	s.mu.Lock()
	row, j := s.newestRow(name), s.jobs[name]
	if row == nil {
		s.mu.Unlock()
		return AnswerEnded
	}
	if !row.deleted && (j == nil || j.row.uid != row.uid) { // it is to run when this is committed
		s.mu.Unlock()
		if held {
			return AnswerUnknown
		}
		return AnswerRunning
	}
	deleted, known := row.deleted, j != nil && j.forest != nil &&
		(j.forest.planted || !j.forest.hasSources() || j.forest.problem != "")
	ended := !deleted && j != nil && j.forest != nil && s.progress(j).State.Ended()
	s.mu.Unlock()
	switch {
	case deleted && s.cfg.Registry.Idle(name), ended && known:
		return AnswerEnded
	case deleted && !held:
		return AnswerRunning
	case !known:
		return AnswerUnknown
	}
	if held {
		return AnswerUnknown
	}
	return AnswerRunning
}

// LastApplied returns the invocation whose end was last applied to a batch task, and whether a
// process reported it. It is worker.Statuses.
func (s *Scheduler) LastApplied(w worker.Work) (inv fence.Invocation, real bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.jobs[w.Job]
	if j == nil || j.forest == nil {
		return fence.Invocation{}, false
	}
	st, err := j.forest.board.Status(batch.Key(w))
	if err != nil {
		return fence.Invocation{}, false
	}
	return st.Invocation, st.Bits&batch.Overwriteable == 0
}

// Names returns the names that had a row or a tombstone when the term began, for
// the initial wait.
func (s *Scheduler) Names() []worker.JobRow {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []worker.JobRow
	for _, j := range s.sorted() {
		out = append(out, worker.JobRow{Name: j.row.name, UID: j.row.uid})
	}
	return out
}

// HeldNodes returns the possible draws of those jobs' batch tasks, for the initial wait: one name
// for all nodes of a forest. Running work may come from an earlier definition, or from a removed
// job. So every forest with resources counts that any of them has, the forest of every tombstone,
// and those of earlier lives. An unreadable row does not name the draws of its job: then all nodes
// of all forests are held.
func (s *Scheduler) HeldNodes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	seen := map[string]bool{"": true}
	for _, j := range s.sorted() {
		if j.row.quarantined() {
			return []string{drawAny}
		}
		for _, name := range append([]string{j.row.spec.Forest}, j.row.former...) {
			f := s.forests[name]
			if seen[name] || !j.row.deleted && f != nil && !f.unread && !hasResources(f.board.Spec()) {
				continue
			}
			seen[name] = true
			out = append(out, drawName(name))
		}
	}
	return out
}

// Stats returns the counters.
func (s *Scheduler) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	stats := s.stats
	for _, f := range s.forests {
		stats.Visits += f.board.Visits()
	}
	return stats
}

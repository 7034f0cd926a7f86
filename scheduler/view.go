package scheduler

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"cantina/batch"
	"cantina/event"
	"cantina/fault"
	"cantina/plan"
	"cantina/worker"
)

// progress returns the counts of a job; the lock is held.
func (s *Scheduler) progress(j *job) batch.Progress {
	if j.forest == nil {
		return batch.Progress{State: batch.JobInvalid, Reason: "its row cannot be read"}
	}
	p, ok := j.forest.board.Progress(j.row.name)
	if !ok { // a tombstone
		p.Running = len(j.forest.board.Runs(j.row.name))
		return p
	}
	if !j.forest.planted && j.forest.hasSources() && p.State.Ended() {
		p.State, p.Reason = batch.JobWaiting, cmpText(j.forest.problem, "its nodes are being listed")
	}
	return p
}

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

// Jobs lists jobs in order of name, of one domain (empty = all), strictly after a
// name, at most limit (0 = all).
func (s *Scheduler) Jobs(domain, after string, limit int) []plan.Job {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []plan.Job
	for _, j := range s.sorted() {
		if after != "" && j.row.name <= after || domain != "" && (j.spec == nil || j.spec.Domain != domain) {
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

// live returns a job that is not deleted and can be read; the lock is held.
func (s *Scheduler) live(name string) (*job, error) {
	j := s.jobs[name]
	switch {
	case j == nil || j.row.deleted:
		return nil, fmt.Errorf("job %q: %w", name, batch.ErrUnknownJob)
	case j.forest == nil:
		return nil, fmt.Errorf("job %q: %w", name, fault.ErrQuarantined)
	}
	return j, nil
}

// named returns batch.ErrUnknownNode when the filter asks for one node by its name
// and the job has none of it; the scheduler's lock is held.
func (j *job) named(f batch.NodeFilter) error {
	if f.Node == "" {
		return nil
	}
	return j.forest.board.HasNode(batch.Key{Job: j.row.name, Node: f.Node})
}

// Pairs lists batch tasks of a job in order of node. It returns
// batch.ErrUnknownJob or ErrQuarantined.
func (s *Scheduler) Pairs(name string, f batch.NodeFilter) ([]plan.Pair, error) {
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
	out := make([]plan.Pair, len(nodes))
	for i, n := range nodes {
		out[i] = s.pairView(j, n)
	}
	return out, nil
}

func (s *Scheduler) pairView(j *job, n batch.NodeView) plan.Pair {
	n.Status.Reason = j.reasons[n.Node]
	return plan.Pair{Job: j.row.name, NodeView: n, Path: j.forest.board.Path(batch.Key{Job: j.row.name, Node: n.Node})}
}

// Results lists batch tasks of a job that have a status, with what they reported,
// read from the store; in order of node. Errors as of Pairs, and those of the
// store.
func (s *Scheduler) Results(ctx context.Context, name string, f batch.NodeFilter) ([]plan.Pair, error) {
	if len(f.Classes) == 0 {
		f.Classes = []batch.Class{batch.ClassDone, batch.ClassFailed, batch.ClassBackoff}
	}
	s.mu.Lock()
	marks, uid := make(map[string]uint32), ""
	if j := s.jobs[name]; j != nil {
		uid = j.row.uid
	}
	s.mu.Unlock()
	pairs, err := s.Pairs(name, f)
	if err != nil {
		return nil, err
	}
	var numbers []uint32
	s.mu.Lock()
	if b := s.boardOf(batch.Key{Job: name}); b != nil {
		for i := range pairs {
			n := b.Mark(batch.Key{Job: name, Node: pairs[i].Node})
			marks[pairs[i].Node] = n
			numbers = append(numbers, n)
		}
	}
	s.mu.Unlock()
	slices.Sort(numbers)
	read, err := s.readSegments(ctx, uid, slices.Compact(numbers))
	if err != nil {
		return nil, err
	}
	for i := range pairs {
		x := read[marks[pairs[i].Node]][pairs[i].Node]
		pairs[i].Data = x.data
		if x.status.Reason != "" {
			pairs[i].Status.Reason = x.status.Reason
		}
	}
	return pairs, nil
}

// Explain says why a batch task is as it is; an empty node asks about the job as a
// whole. It returns batch.ErrUnknownJob, batch.ErrUnknownNode or ErrQuarantined.
func (s *Scheduler) Explain(name, node string) ([]batch.Why, error) {
	s.mu.Lock()
	j, err := s.live(name)
	if err != nil {
		s.mu.Unlock()
		return nil, err
	}
	var why []batch.Why
	if f := j.forest; f.problem != "" || !f.planted && f.hasSources() {
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
		if p := s.progress(j); p.Reason != "" && !slices.ContainsFunc(slices.Concat(why, more), func(w batch.Why) bool { return strings.Contains(w.Text, p.Reason) }) && p.State != batch.JobInvalid {
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
		// What the last pass was told of it says the same with less.
		why = append([]batch.Why{w}, slices.DeleteFunc(why, func(x batch.Why) bool { return x.Text == w.Text })...)
	}
	return why, nil
}

// pairEvent shows a batch task after a commit; the lock is held.
func (s *Scheduler) pairEvent(j *job, node string) event.Event {
	e := event.Event{Kind: event.Pair, Subject: j.row.name + "/" + node}
	if j.spec != nil {
		e.Domain = j.spec.Domain
	}
	if j.forest == nil {
		return e
	}
	if nodes, err := j.forest.board.Nodes(j.row.name, batch.NodeFilter{Node: node, Classes: allClasses()}); err == nil && len(nodes) == 1 {
		nodes[0].Status.Reason = j.reasons[node]
		e.Pair = &event.PairState{Job: j.row.name, NodeView: nodes[0]}
	}
	return e
}

func allClasses() []batch.Class {
	return []batch.Class{
		batch.ClassAbsent, batch.ClassRunning, batch.ClassAvoided, batch.ClassDisabled, batch.ClassDone, batch.ClassFailed,
		batch.ClassBackoff, batch.ClassBlocked, batch.ClassStranded, batch.ClassReady,
	}
}

// dependants shows the jobs that look different for what others of the board did; the lock
// is held.
func (s *Scheduler) dependants(f *forest) (events []event.Event) {
	if f == nil {
		return nil
	}
	for _, name := range f.board.Touched() {
		if j := s.jobs[name]; j != nil && j.forest == f && j.spec != nil {
			events = append(events, s.jobEvent(j))
		}
	}
	return events
}

// jobEvent shows a job after a commit; the lock is held.
func (s *Scheduler) jobEvent(j *job) event.Event {
	p := s.progress(j)
	e := event.Event{Kind: event.Job, Subject: j.row.name, Gone: j.row.deleted, Job: &event.JobState{Name: j.row.name, UID: j.row.uid, Progress: p, Removed: j.row.deleted, NodesKnown: j.known()}}
	if j.spec != nil {
		e.Domain = j.spec.Domain
	}
	if p.State != j.state {
		e.Text = strings.TrimSuffix("job is "+p.State.String()+": "+p.Reason, ": ")
		j.state = p.State
	}
	return e
}

package scheduler

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"cantina/internal/text"
	"cantina/plan"
	"cantina/scheduler/schedulerpb"
	"cantina/store"
)

// Renew prepares that a job runs from the start, on every node once more: it is born
// again under its name, with what is wanted, and all that ran of the earlier one is
// ended first, node by node. Errors as of Apply.
func (s *Scheduler) Renew(domain string, w plan.NamedJob) (*Change, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.build(domain)
	b.renew = true
	b.forest(&w)
	b.want(&w)
	return b.finish()
}

// Answer says of a job whether it has ended, by what is known now.
type Answer int

// The answers.
const (
	AnswerEnded   Answer = iota // it has ended, or there is none
	AnswerRunning               // batch tasks of it run, or are to run
	AnswerUnknown               // its nodes were not read in this term, or not all cells have reported
)

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
	deleted, known := row.deleted, j != nil && j.forest != nil && (j.forest.planted || !j.forest.hasSources() || j.forest.problem != "")
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

// Foreign reports the domain of a job when the name belongs to another domain.
func (s *Scheduler) Foreign(name, domain string) (other string, yes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	row, _, err := s.changeable(name)
	if err != nil || row.spec.Domain == domain {
		return "", false
	}
	return row.spec.Domain, true
}

// EncodeWanted returns the bytes of a job for the record of another owner; the same job
// always gives the same bytes.
func EncodeWanted(w *plan.NamedJob) ([]byte, error) {
	forest, err := encodeForest(&w.Forest)
	if err != nil {
		return nil, err
	}
	_, _, payload, err := store.Decode(forest)
	if err != nil {
		return nil, err
	}
	m := &schedulerpb.Wanted{Name: text.Clean(w.Job.Name), Spec: fromJob(&w.Job), Forest: payload}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode job %q: %w", w.Job.Name, err)
	}
	return b, nil
}

// DecodeWanted is the inverse of EncodeWanted.
func DecodeWanted(data []byte) (plan.NamedJob, error) {
	var m schedulerpb.Wanted
	if err := proto.Unmarshal(data, &m); err != nil || m.Spec == nil {
		return plan.NamedJob{}, fmt.Errorf("job: %w", errRecord)
	}
	spec, err := toJob(m.Spec)
	if err != nil {
		return plan.NamedJob{}, err
	}
	spec.Name = m.Name
	forest, err := decodeForest(store.Encode(1, kindForest, m.Forest))
	if err != nil {
		return plan.NamedJob{}, err
	}
	return plan.NamedJob{Job: spec, Forest: *forest}, nil
}

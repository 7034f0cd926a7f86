package scheduler

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"cantina/internal/text"
	"cantina/plan"
	"cantina/scheduler/schedulerpb"
	"cantina/store"
)

// Renew prepares to run a job from the start, on every node once more: it is created again under
// its name, with the given definition, and all running tasks of the earlier one are ended first,
// node by node. Errors as of Apply.
func (ch *changing) Renew(domain string, w plan.NamedJob) (*Change, error) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	b := ch.build(domain)
	b.renew = true
	b.forest(&w)
	b.want(&w)
	return b.finish()
}

// Answer reports whether a job has ended, by present knowledge.
type Answer int

// The answers.
const (
	AnswerEnded   Answer = iota // it has ended, or there is none
	AnswerRunning               // batch tasks of it run, or are to run
	AnswerUnknown               // its nodes were not read in this term, or not all cells have reported
)

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

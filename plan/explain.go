package plan

import (
	"time"

	"cantina/batch"
)

// SubjectKind is a kind of resource that Explain accepts.
type SubjectKind string

// The kinds of subjects.
const (
	SubjectService  SubjectKind = "service"
	SubjectInstance SubjectKind = "instance"
	SubjectTask     SubjectKind = "task"
	SubjectJob      SubjectKind = "job"
	SubjectNode     SubjectKind = "node"
	SubjectCell     SubjectKind = "cell"
	SubjectSchedule SubjectKind = "schedule"
)

// Subject names one resource.
type Subject struct {
	Kind   SubjectKind
	Domain string
	Name   string // of the service, job, cell or schedule; guid of the task
	Index  int    // of the instance
	Node   string // of the batch task
}

// Job is the key of the job that a subject of kind job or node names.
func (s Subject) Job() string { return batch.FullName(s.Domain, s.Name) }

// Reason is one reason why something is not as wanted.
type Reason struct {
	Code string // stable: insufficient_resources, initial_wait, crash_backoff, …
	Text string // readable text
	// Need and Have are amounts of Resource; Holder has the rest.
	Resource   string
	Need, Have int
	Holder     string
	Level      string // of the node forest, or "cell"
	// Change describes the cheapest change that would help.
	Change string
	// Longest is how long it lasts at most; 0 = no bound known.
	Longest time.Duration
}

// Explanation answers "why is it in this state".
type Explanation struct {
	Subject Subject
	State   string // as it is
	Wanted  string // as it should be
	Fine    bool   // it is as wanted
	Reasons []Reason
}

// Add adds a reason without amounts; a negative longest counts as not known.
func (e *Explanation) Add(code, text, change string, longest time.Duration) {
	e.Reasons = append(e.Reasons, Reason{Code: code, Text: text, Change: change, Longest: max(longest, 0)})
}

// Package plan has the values that cross the API, the board, the scheduler and the timetable: the
// desired state of a domain in a spec file, the changes of an apply, the options of every call,
// and the results of reads. They are declared once, and make no decisions.
package plan

import (
	"slices"
	"time"

	"cantina/label"
	"cantina/lrp"
	"cantina/schedule"
	"cantina/task"
)

// Application is everything that one spec file wants of one domain.
type Application struct {
	Domain string
	// TTL is how long the domain stays fresh; 0 = forever.
	TTL time.Duration
	// Services have no process guid yet: the leader mints it.
	Services  []lrp.Desired
	Tasks     []NamedTask
	Jobs      []NamedJob
	Schedules []NamedSchedule
	// Prune removes resources of the domain that are not in the file.
	Prune Prune
	// Warnings are remarks on the files.
	Warnings []string
}

// Prune selects resources that an application removes. The zero value removes none.
type Prune struct {
	// On removes resources of the domain that are not in the file.
	On bool
	// Labels limits that to resources whose labels match.
	Labels label.Selector
}

// Takes reports whether a resource with these labels is removed if the file does not have it.
func (p Prune) Takes(labels map[string]string) bool { return p.On && p.Labels.Selects(labels) }

// NamedTask is one entry of a spec file's tasks.
type NamedTask struct {
	Name       string
	Definition task.Definition
}

// InDomain returns an application whose jobs, and those of its schedules, have the keys that they
// have in its domain.
func (a Application) InDomain() Application {
	a.Jobs, a.Schedules = slices.Clone(a.Jobs), slices.Clone(a.Schedules)
	for i := range a.Jobs {
		a.Jobs[i].Job, a.Jobs[i].Forest = a.Jobs[i].Job.In(a.Domain, a.Jobs[i].Forest)
	}
	for i := range a.Schedules {
		if job := a.Schedules[i].Definition.Job; job != nil {
			own := *job
			own.Job, own.Forest = own.Job.In(a.Domain, own.Forest)
			a.Schedules[i].Definition.Job = &own
		}
	}
	return a
}

// NamedJob is one entry of a spec file's jobs, or the job of a schedule. Forest has sources only
// when the job declares nodes; otherwise Job.Forest names the forest of another job.
type NamedJob = schedule.Job

// NamedSchedule is one entry of a spec file's schedules.
type NamedSchedule struct {
	Name       string
	Definition schedule.Definition
	// Warnings are remarks on its calendar.
	Warnings []string
}

// Verb is the change of one resource by an apply.
type Verb string

// The verbs of changes.
const (
	VerbKeep    Verb = "keep"    // nothing
	VerbCreate  Verb = "create"  // a service or job that was not there; a task runs
	VerbUpdate  Verb = "update"  // in place
	VerbReplace Verb = "replace" // a new version, or a new run of a task
	VerbRemove  Verb = "remove"
)

// Change is one line of a plan.
type Change struct {
	Kind string // service, task, job or schedule
	Name string
	Verb Verb
	// Fields that differ, for update and replace.
	Fields []FieldChange
	// Nodes is the number of batch tasks that the change affects; -1 = not known yet.
	Nodes int
	// Note is a warning or an explanation; may be empty.
	Note string
}

// AddNote adds a note to a change.
func (c *Change) AddNote(text string) {
	if c.Note != "" {
		c.Note += "; "
	}
	c.Note += text
}

// FieldChange is one field that differs. Old or New is empty when it was not set.
type FieldChange struct{ Path, Old, New string }

// Applied is the answer to Apply and Plan.
type Applied struct {
	// Revision of the domain: after the commit for Apply, now for Plan. It changes with every durable
	// change of the desired state of the domain, and never with the actual state.
	Revision int64
	Changes  []Change
	Warnings []string
}

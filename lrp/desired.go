package lrp

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"cantina/action"
	"cantina/fault"
)

// ServiceKey names a service: a name within a domain.
type ServiceKey struct{ Domain, Name string }

// String prints "domain/name".
func (k ServiceKey) String() string { return k.Domain + "/" + k.Name }

// Compare orders keys by domain, then name.
func (k ServiceKey) Compare(o ServiceKey) int {
	return cmp.Or(cmp.Compare(k.Domain, o.Domain), cmp.Compare(k.Name, o.Name))
}

// Strategy is how a new version takes the place of the old one and how a drained
// cell gives up an instance.
type Strategy int

// The strategies. An exclusive service, and one with a fixed port, is always StopFirst.
const (
	StartFirst Strategy = iota // default: the new instance runs before the old one stops
	StopFirst                  // the old instance has stopped before the new one starts
)

// OnPartition is a cell's action on an instance once its leader has given the cell up.
type OnPartition int

// The actions on an instance when the deadline of its cell passes.
const (
	PartitionKeep OnPartition = iota // default: it runs on and is harmonised later
	PartitionStop                    // it is ended by the deadline
)

// OnReturn is which copy of an instance stays when its silent cell is back after a replacement
// has taken its place.
type OnReturn int

// The copies.
const (
	ReturnOld OnReturn = iota // default: the one that was replaced, if it is healthy
	ReturnNew                 // the replacement
)

// Desired is one version of a service: its definition, apart from the indices that are wanted at
// present (see [Version]). Only the leader writes it, at apply. Instances, Routes, Annotation
// and PreemptPriority may change in place; any other change is a new version. (Diego dev notes, DesiredLRPs.)
// docs/design/lrp.md lists fields of the original that have no counterpart here, with the reason.
type Desired struct {
	// Process is the process guid: created by the leader, never reused.
	Process string
	Service ServiceKey
	// Instances is how many indices are wanted once the version is rolled out: 0..Instances-1.
	Instances int
	// Routes is opaque to the leader: router name to the router's own text.
	Routes map[string]string
	// Annotation is opaque text, at most 10 KiB.
	Annotation string

	Workload action.Workload
	// Stack is the kind of cell that can run the workload; empty = any.
	Stack string
	// PlacementTags must be offered by the cell, and contain all that the cell requires.
	PlacementTags []string
	// Labels must be carried by the cell with exactly these values.
	Labels map[string]string
	// Conditions on labels of the cell, as texts of label.Condition; all must hold.
	Conditions []string
	// Tolerations are taints of cells that the work accepts.
	Tolerations []string
	// Spread lists the labels over whose values the instances are spread, the most important first; then
	// over zones, and over cells.
	Spread []string
	// MaxPer bounds the instances of the version for each value of a label, or on each cell.
	MaxPer map[string]int
	// ApartFrom names services of the domain that never share a cell with this one.
	ApartFrom []string
	// PreemptPriority ranks work that waits for room, and work that may be ended for it: 1 to 100, 0 =
	// action.DefaultPriority. It may change in place.
	PreemptPriority int

	Strategy    Strategy
	Exclusive   bool // no second copy may ever run; implies StopFirst and PartitionStop
	OnPartition OnPartition
	// ReplaceAfter is how long an instance is waited for, from when its cell counts as silent,
	// before a replacement is placed; the wait ends when the cell is given up.
	ReplaceAfter time.Duration
	OnReturn     OnReturn
	Restart      RestartPolicy
	Rollout      RolloutPolicy
}

// FixedPort returns the name of the first port with a fixed number in the definition, or "": two
// instances with it cannot run on one machine.
func (d *Desired) FixedPort() string {
	for _, p := range d.Workload.Ports {
		if p.Fixed != 0 {
			return p.Name
		}
	}
	return ""
}

// Decided returns the definition as Apply stores it: one with a fixed port is
// StopFirst, because the new instance would find the port taken by the old one.
func (d Desired) Decided() Desired {
	if d.FixedPort() != "" {
		d.Strategy = StopFirst
	}
	return d
}

// Priority is the preempt_priority: 1 to 100.
func (d *Desired) Priority() int { return action.PriorityOf(d.PreemptPriority) }

// StopFirst reports whether an old instance must have ended before a new one starts.
func (d *Desired) StopFirst() bool { return d.Exclusive || d.Strategy == StopFirst }

// DeadlineBound reports whether instances end with their cell's credit.
func (d *Desired) DeadlineBound() bool { return d.Exclusive || d.OnPartition == PartitionStop }

// RolloutPolicy is how a new version replaces the old one. Zero fields mean the defaults in the
// comments.
type RolloutPolicy struct {
	// Batch is how many indices change at once; 0 = a quarter of the instances, at least 1.
	Batch int
	// Settle is how long an instance must have been RUNNING and routable to count as healthy; 0 = at
	// once if the workload has a check of any kind, else UncheckedSettle.
	Settle time.Duration
	// ProgressDeadline is how long a rollout may go without one more healthy
	// instance before it is taken back; 0 = 10 min.
	ProgressDeadline time.Duration
	// KeepFailed leaves a failed rollout as it is instead of returning to the last good version.
	KeepFailed bool
}

// UncheckedSettle is the settle time of a version without one and without checks: its instances
// are RUNNING as soon as their processes exist, even if those end at once.
const UncheckedSettle = time.Second

// settle returns how long an instance of d must have been RUNNING to count as healthy.
func (d *Desired) settle() time.Duration {
	w := &d.Workload
	if d.Rollout.Settle == 0 && w.Monitor == nil && len(w.Checks) == 0 && len(w.ReadinessChecks) == 0 {
		return UncheckedSettle
	}
	return d.Rollout.Settle
}

// Errors of definitions.
var (
	ErrInvalid      = fault.New(fault.ErrInvalid, "invalid definition")
	ErrNotUpdatable = fault.New(fault.ErrInvalid, "this field changes only with a new version")
)

// MaxAnnotation is the longest annotation in bytes. MaxRoutes bounds the routes in bytes, MaxInstances the
// instances of a service: the leader has a row for each.
const (
	MaxInstances  = 1_000_000
	MaxAnnotation = 10 << 10
	MaxRoutes     = 128 << 10
)

// Validate reports all that is wrong with d, joined, each wrapping ErrInvalid
// with the name of the field. (Diego BBS, Validation errors.)
func (d *Desired) Validate() error {
	var errs []error
	bad := func(field, problem string) {
		errs = append(errs, fmt.Errorf("%s: %s: %w", field, problem, ErrInvalid))
	}
	if !ValidName(d.Service.Domain) {
		bad("domain", NameRule)
	}
	if !ValidName(d.Service.Name) {
		bad("name", NameRule)
	}
	if d.Instances < 0 {
		bad("instances", "must not be negative")
	}
	if d.Instances > MaxInstances {
		bad("instances", fmt.Sprintf("at most %d", MaxInstances))
	}
	if len(d.Annotation) > MaxAnnotation {
		bad("annotation", "longer than 10 KiB")
	}
	size := 0
	for k, v := range d.Routes {
		size += len(k) + len(v)
	}
	if size > MaxRoutes {
		bad("routes", "more than 128 KiB in all")
	}
	if d.ReplaceAfter < 0 {
		bad("replace_after", "must not be negative")
	}
	if err := action.CheckPriority(d.PreemptPriority); err != nil {
		bad("preempt_priority", err.Error())
	}
	for field, err := range d.placementErrors() {
		bad(field, err.Error())
	}
	if a, b, twice := d.portTwice(); twice {
		bad("ports", fmt.Sprintf("%s and %s fix the same port", a, b))
	}
	if d.Rollout.Batch < 0 || d.Rollout.Settle < 0 || d.Rollout.ProgressDeadline < 0 {
		bad("rollout", "must not be negative")
	}
	if err := d.Restart.Validate(); err != nil {
		errs = append(errs, err)
	}
	if err := d.Workload.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("%w: %w", err, ErrInvalid))
	}
	return errors.Join(errs...)
}

// NameRule is the rule of ValidName in words.
const NameRule = "a name is 1 to 128 letters, digits, '-', '_' and '.', and begins with a letter, a digit or '_'"

// ValidName reports whether s may name a domain, a service, a task, a job, a schedule or a port. A
// name does not begin like a flag or a hidden file.
func ValidName(s string) bool {
	if s == "" || len(s) > 128 || s[0] == '-' || s[0] == '.' {
		return false
	}
	for _, c := range []byte(s) {
		ok := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.'
		if !ok {
			return false
		}
	}
	return true
}

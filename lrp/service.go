package lrp

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"
)

// Phase is the phase of a service's rollout.
type Phase int

// The phases.
const (
	Steady      Phase = iota // one version, nothing moves
	RollingOut               // the newest version is replacing the others
	RollingBack              // the newest version failed; the last good one is coming back
	// it failed and is left as it is (KeepFailed), or continues because there is no good version to return to
	RollFailed
)

// String prints the phase in small letters.
func (p Phase) String() string {
	switch p {
	case Steady:
		return "steady"
	case RollingOut:
		return "rolling out"
	case RollingBack:
		return "rolling back"
	case RollFailed:
		return "rollout failed"
	}
	return fmt.Sprintf("Phase(%d)", int(p))
}

// Version is one definition of a service and the range of its indices that is
// wanted at this moment: Low ≤ index < High.
type Version struct {
	Desired
	// Number counts the versions of the service from 1. Written by Apply and Restart.
	Number int
	// Low and High are written by Apply, Restart, Scale, Remove and Roll.
	Low, High int
	// Good is set once the version was rolled out whole and healthy. Written by Roll.
	Good bool
}

// Wants reports whether index i is wanted of this version now.
func (v *Version) Wants(i int) bool { return v.Low <= i && i < v.High }

// Service owns the versions of one service. The last one is the target: the last applied one, or
// the one that a rollback returns to.
type Service struct {
	Key      ServiceKey
	Versions []Version
	// Instances is how many are wanted: Apply, Scale.
	Instances int
	// Numbers is the highest version number ever given: Apply, Restart.
	Numbers int
	// Removed: undesired; the row goes when no instance is left: Remove.
	Removed bool
	// Phase, Progress (when the rollout last gained a healthy instance) and Healthy
	// (how many it had then) are written by Apply and Roll.
	Phase    Phase
	Progress time.Time
	Healthy  int
	// Failure is why the last rollout failed; empty when it did not: Roll, cleared by Apply.
	Failure string
	// FailedVersion is the number of the version that failed: Roll.
	FailedVersion int
	// Applied is when the newest version was made: Apply, Restart.
	Applied time.Time
}

// Target returns the version that is to run; nil when there is none.
func (s *Service) Target() *Version {
	if len(s.Versions) == 0 {
		return nil
	}
	return &s.Versions[len(s.Versions)-1]
}

// Labels returns the labels of the target; nil when there is none.
func (s *Service) Labels() map[string]string {
	if t := s.Target(); t != nil {
		return t.Workload.Labels
	}
	return nil
}

// has reports whether a process guid is that of one of the versions.
func (s *Service) has(process string) bool {
	return slices.ContainsFunc(s.Versions, func(v Version) bool { return v.Process == process })
}

func (s *Service) clone() *Service {
	c := *s
	c.Versions = slices.Clone(s.Versions)
	return &c
}

// Wanted returns the definition of the target with the number of instances that are wanted of
// the service.
func (s *Service) Wanted() *Desired {
	d := s.Target().Desired
	d.Instances = s.Instances
	return &d
}

// Apply returns the service as it is after d was applied at now: s itself if nothing differs; the
// same versions with new instances, routes, annotation, labels and priority if only these differ; otherwise with one
// more version, named process, that rolls out. s may be nil for a new service. d.Process is
// ignored. A newer version supersedes a rollout in progress. d.Decided() is stored.
func Apply(s *Service, d Desired, process string, now time.Time) (*Service, error) {
	if err := d.Validate(); err != nil {
		return s, fmt.Errorf("apply service %v: %w", d.Service, err)
	}
	d = d.Decided()
	if s == nil {
		s = &Service{Key: d.Service}
	}
	if t := s.Target(); t != nil && !s.Removed && SameWorkload(&t.Desired, &d) {
		return s.updated(d), nil
	}
	return s.replaced(d, process, now), nil
}

// Restart returns the service with every instance to be started afresh, by the rules of an
// update: one more version, named process, with the definition of the target. It is s itself
// when nothing is wanted of the service.
func (s *Service) Restart(process string, now time.Time) *Service {
	if s.Target() == nil || s.Removed || s.Instances == 0 {
		return s
	}
	return s.replaced(*s.Wanted(), process, now)
}

// replaced returns the service with one more version, which rolls out.
func (s *Service) replaced(d Desired, process string, now time.Time) *Service {
	c := s.clone()
	c.Removed, c.Instances, c.Failure, c.FailedVersion = false, d.Instances, "", 0
	c.Numbers++
	d.Process = process
	c.cap(d.Instances)
	v := Version{Desired: d, Number: c.Numbers}
	if len(c.Versions) == 0 {
		v.High = d.Instances // nothing to replace: all at once
	}
	c.Versions = append(c.Versions, v)
	c.Phase, c.Progress, c.Healthy, c.Applied = RollingOut, now, 0, now
	return c
}

// updated is Apply for changes that affect no instance.
func (s *Service) updated(d Desired) *Service {
	t := s.Target()
	if t.Annotation == d.Annotation && reflect.DeepEqual(t.Routes, d.Routes) && s.Instances == d.Instances &&
		maps.Equal(t.Workload.Labels, d.Workload.Labels) && t.PreemptPriority == d.PreemptPriority {
		return s
	}
	c := s.Scale(d.Instances)
	if c == s {
		c = s.clone()
	}
	t = c.Target()
	t.Annotation, t.Routes, t.Instances, t.Workload.Labels = d.Annotation, d.Routes, d.Instances, d.Workload.Labels
	t.PreemptPriority = d.PreemptPriority
	return c
}

// SameWorkload reports whether a and b differ at most in fields that may change in place:
// instances, routes, annotation, labels, preempt_priority (and the process guid). (Diego dev notes, DesiredLRPs.)
func SameWorkload(a, b *Desired) bool {
	x, y := *a, *b
	for _, d := range []*Desired{&x, &y} {
		d.Process, d.Instances, d.Routes, d.Annotation, d.Workload.Labels = "", 0, nil, "", nil
		d.PreemptPriority = 0
	}
	return reflect.DeepEqual(x, y)
}

// Scale returns the service with n instances wanted; s itself when that is so already.
func (s *Service) Scale(n int) *Service {
	if s.Instances == n && !s.Removed {
		return s
	}
	c := s.clone()
	c.Instances = n
	c.cap(n)
	if t := c.Target(); t != nil {
		t.Instances = n
		if c.Phase == Steady || len(c.Versions) == 1 { // nothing to replace: all at once
			t.High = n
		}
	}
	return c
}

// cap removes the indices from n on from every range.
func (s *Service) cap(n int) {
	for i := range s.Versions {
		v := &s.Versions[i]
		v.High = min(v.High, n)
		v.Low = min(v.Low, v.High)
	}
}

// Remove returns the service with nothing wanted any more; the row goes once no
// instance is left.
func (s *Service) Remove() *Service {
	c := s.clone()
	c.Removed, c.Instances, c.Phase = true, 0, Steady
	for i := range c.Versions {
		c.Versions[i].Low, c.Versions[i].High = 0, 0
	}
	return c
}

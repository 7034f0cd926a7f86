package lrp

import (
	"errors"
	"fmt"
)

// ErrBroken reports rows that no sequence of events can have made.
var ErrBroken = errors.New("rows break an invariant")

// Check returns the first invariant that the rows of an index violate, wrapping ErrBroken: the
// permitted fields of each state, and at most one evacuating or suspect copy beside the ordinary
// instance (I3). (Diego BBS, State invariants.)
func Check(x Index) error {
	for _, r := range []struct {
		row *Actual
		is  Presence
	}{{x.Ordinary, Ordinary}, {x.Evacuating, Evacuating}, {x.Suspect, Suspect}} {
		if r.row == nil {
			continue
		}
		if msg := checkRow(r.row, r.is, x.Key); msg != "" {
			return fmt.Errorf("%v %v row: %s: %w", x.Key, r.is, msg, ErrBroken)
		}
	}
	if msg := checkTogether(x); msg != "" {
		return fmt.Errorf("%v: %s: %w", x.Key, msg, ErrBroken)
	}
	return nil
}

func checkTogether(x Index) string {
	o := x.Ordinary
	switch {
	case x.Evacuating != nil && x.Suspect != nil:
		return "evacuating and suspect at once"
	case (x.Evacuating != nil || x.Suspect != nil) && o != nil && o.Exclusive:
		return "an exclusive instance with a copy"
	case o != nil && !o.NotBefore.IsZero() && x.Suspect == nil:
		return "waits for a copy that is not there"
	case x.Evacuating != nil && o.Serves():
		return "an evacuating copy beside an instance that serves"
	case x.Suspect != nil && o.Serves():
		return "a suspect copy beside an instance that serves"
	}
	return ""
}

func checkRow(a *Actual, is Presence, k Key) string {
	held := a.Instance != "" && a.Cell != ""
	switch {
	case a.Key != k:
		return "another index's key"
	case a.Presence != is:
		return "wrong presence"
	case a.Since.IsZero():
		return "no since"
	case is != Ordinary && a.State != Running:
		return "a copy that is not RUNNING"
	case a.PlacementError != "" && a.State != Unclaimed:
		return "a placement error outside UNCLAIMED"
	case (a.State == Claimed || a.State == Running) != held:
		return "instance and cell do not fit the state"
	case !a.NotBefore.IsZero() && a.State != Unclaimed:
		return "waits for a copy outside UNCLAIMED"
	case a.Replaces != Identity{} && (a.State != Running || is != Ordinary):
		return "took the place of another, and is not the ordinary one that runs"
	case a.Moving && is != Evacuating:
		return "moving, and no evacuating copy"
	case a.Retiring && !held:
		return "retiring without an instance"
	case a.Preempted != Preempted{} && !a.Retiring && a.State != Unclaimed:
		return "preempted and not being stopped"
	case a.Finished && a.State != Crashed:
		return "finished outside CRASHED"
	case a.State != Running && (a.Net.Address != "" || len(a.Net.Ports) > 0):
		return "an address outside RUNNING"
	}
	return ""
}

// CheckService returns the first property of a service that no sequence of changes can have made,
// wrapping ErrBroken: versions without a process or of another service, a range that is not within
// the instances, a definition that would be refused.
func CheckService(s *Service) error {
	if msg := checkService(s); msg != "" {
		return fmt.Errorf("service %v: %s: %w", s.Key, msg, ErrBroken)
	}
	return nil
}

func checkService(s *Service) string {
	if len(s.Versions) == 0 {
		return "no version"
	}
	if s.Instances > MaxInstances {
		return fmt.Sprintf("%d instances, at most %d", s.Instances, MaxInstances)
	}
	processes, numbers := map[string]bool{}, map[int]bool{}
	for i := range s.Versions {
		v := &s.Versions[i]
		switch {
		case v.Process == "" || processes[v.Process]:
			return "a version without a process of its own"
		case v.Number < 1 || v.Number > s.Numbers || numbers[v.Number]:
			return fmt.Sprintf("version number %d of %d", v.Number, s.Numbers)
		case v.Service != s.Key:
			return fmt.Sprintf("a version of service %v", v.Service)
		case v.Low < 0 || v.Low > v.High || v.High > s.Instances:
			return fmt.Sprintf("version %d wants the indices from %d to %d of %d", v.Number, v.Low, v.High, s.Instances)
		}
		processes[v.Process], numbers[v.Number] = true, true
		if err := v.Validate(); err != nil {
			return fmt.Sprintf("version %d: %v", v.Number, err)
		}
	}
	return ""
}

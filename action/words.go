package action

import (
	"fmt"
	"strconv"
)

// String prints the level as in a spec file.
func (i Isolation) String() string {
	switch i {
	case IsolationProcess:
		return "process"
	case IsolationNone:
		return "none"
	case IsolationNamespaces:
		return "namespaces"
	case IsolationRootfs:
		return "rootfs"
	}
	return fmt.Sprintf("Isolation(%d)", int(i))
}

// String prints the mode as in a spec file.
func (m KillMode) String() string {
	switch m {
	case KillTermWaitKill:
		return "term_wait_kill"
	case KillTerm:
		return "term"
	case KillNow:
		return "kill"
	}
	return fmt.Sprintf("KillMode(%d)", int(m))
}

// String prints the target as in a spec file.
func (t KillTarget) String() string {
	switch t {
	case TargetCgroup:
		return "cgroup"
	case TargetGroup:
		return "group"
	case TargetChild:
		return "child"
	}
	return fmt.Sprintf("KillTarget(%d)", int(t))
}

// String prints the fate as in a spec file.
func (r OnCellRestart) String() string {
	switch r {
	case RestartStop:
		return "stop"
	case RestartKeep:
		return "keep"
	}
	return fmt.Sprintf("OnCellRestart(%d)", int(r))
}

// sentinel is the meaning of a number with a special meaning: zero and below.
func sentinel(n int, zero, below string) string {
	switch {
	case n == 0:
		return zero
	case n < 0 && below != "":
		return below
	}
	return strconv.Itoa(n)
}

// FieldWord is the readable value of a field, if the number alone would mislead; empty = the
// number.
func (w Workload) FieldWord(field string) string {
	switch field {
	case "MaxPids":
		return sentinel(w.MaxPids, "unlimited", "")
	case "LogRate":
		return sentinel(w.LogRate, "unlimited", "")
	}
	return ""
}

// FieldWord is that of a run.
func (r Run) FieldWord(field string) string {
	if field == "OpenFiles" {
		return sentinel(r.OpenFiles, "the cell's default", "")
	}
	return ""
}

// FieldWord is that of a port.
func (p Port) FieldWord(field string) string {
	if field == "Fixed" {
		return sentinel(p.Fixed, "any", "")
	}
	return ""
}

// FieldWord is that of a termination.
func (t Termination) FieldWord(field string) string {
	switch field {
	case "Signal":
		return sentinel(t.Signal, "default (TERM)", "")
	case "ParentDeath":
		return sentinel(t.ParentDeath, "default", "none")
	}
	return ""
}

package lrp

import (
	"fmt"
	"strconv"
)

// String prints the strategy as in a spec file.
func (s Strategy) String() string {
	switch s {
	case StartFirst:
		return "start_first"
	case StopFirst:
		return "stop_first"
	}
	return fmt.Sprintf("Strategy(%d)", int(s))
}

// String prints the fate as in a spec file.
func (p OnPartition) String() string {
	switch p {
	case PartitionKeep:
		return "keep"
	case PartitionStop:
		return "stop"
	}
	return fmt.Sprintf("OnPartition(%d)", int(p))
}

// String prints the copy as in a spec file.
func (r OnReturn) String() string {
	switch r {
	case ReturnOld:
		return "old"
	case ReturnNew:
		return "new"
	}
	return fmt.Sprintf("OnReturn(%d)", int(r))
}

// String prints the mode as in a spec file.
func (m RestartMode) String() string {
	switch m {
	case RestartAlways:
		return "always"
	case RestartOnFailure:
		return "on_failure"
	case RestartNever:
		return "never"
	}
	return fmt.Sprintf("RestartMode(%d)", int(m))
}

// FieldWord is the value of a field as a spec file has it, where the number that is stored would
// mislead; empty = as it is.
func (p RestartPolicy) FieldWord(field string) string {
	switch {
	case field == "Immediate" && p.Immediate == 0:
		return "default (2)"
	case field == "Immediate": // a spec file counts restarts, the policy crashes
		return strconv.Itoa(max(p.Immediate-1, 0))
	case field != "GiveUp":
		return ""
	}
	return map[int]string{-1: "never", 0: "default (200)"}[p.GiveUp]
}

// FieldWord is that of a rollout.
func (p RolloutPolicy) FieldWord(field string) string {
	if field == "Batch" && p.Batch == 0 {
		return "default (a quarter)"
	}
	return ""
}

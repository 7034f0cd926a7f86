package executor

import (
	"syscall"
	"time"

	"cantina/action"
)

func stopSignal(t *action.Termination) syscall.Signal {
	if t.Signal == 0 {
		return syscall.SIGTERM
	}
	return syscall.Signal(t.Signal)
}

func grace(t *action.Termination) time.Duration {
	if t.Grace <= 0 {
		return action.DefaultGrace
	}
	return t.Grace
}

func leftoverGrace(t *action.Termination) time.Duration {
	if t.LeftoverGrace <= 0 {
		return action.DefaultLeftoverGrace
	}
	return t.LeftoverGrace
}

// graceWithin is the shorter of the workload's own grace and that of StopWithin.
func (c *container) graceWithin(own time.Duration) time.Duration {
	if within := time.Duration(c.within.Load()); within > 0 {
		return min(own, within)
	}
	return own
}

package sim

import (
	"fmt"
	"strings"
	"time"
)

// Op is a kind of message.
type Op int

// The messages.
const (
	OpBeat Op = iota
	OpBeatAnswer
	OpGetRunning
	OpReport
	OpRun
	OpRunAnswer
	OpProbe
	OpNotify
	OpNotifyAnswer
	OpKill
	OpSuicide
	OpStatus
	OpStatusAnswer
	OpCall
	// Of services and tasks.
	OpRows
	OpRowsAnswer
	OpClaim
	OpStart
	OpCrash
	OpRemove
	OpCellDrain
	OpLRPAnswer
	OpStartTask
	OpCompleteTask
	OpTaskAnswer
	OpPerform
	OpPerformAnswer
	OpStop
	OpDrain
	opCount
)

// batchOps is how many of the messages there are in runs without services and tasks.
const batchOps = OpRows

var opNames = [opCount]string{"heartbeat", "heartbeat answer", "getRunningTasks", "its answer", "runTask", "its answer",
	"probe",
	"notifyIfTasksNotRunning", "its answer", "killTask", "requestSuicide", "updateStatus", "its answer", "other calls",
	"rows", "their answer", "claim", "start", "crash", "remove", "evacuate, one of its kinds", "their answer",
	"start of a task", "end of a task, adoption", "their answer", "perform", "its answer",
	"stop work", "drain the cell"}

// String returns the message's name.
func (o Op) String() string { return opNames[o] }

// Coverage counts messages sent while a fault was active.
type Coverage struct {
	Count [opCount][faultCount]int
	// Mixed is set when services and tasks were among the work.
	Mixed bool
}

// size is how many messages and faults there are in the runs that were counted.
func (c *Coverage) size() (Op, Fault) {
	if c.Mixed {
		return opCount, faultCount
	}
	return batchOps, batchFaults
}

func (c *Coverage) add(o Op, w *world) {
	for f, until := range w.faults.active {
		if until > w.now {
			c.Count[o][f]++
		}
	}
}

// Merge adds another run's counts.
func (c *Coverage) Merge(d Coverage) {
	c.Mixed = c.Mixed || d.Mixed
	for o := range c.Count {
		for f := range c.Count[o] {
			c.Count[o][f] += d.Count[o][f]
		}
	}
}

// Missing returns the pairs that never occurred.
func (c *Coverage) Missing() []string {
	var ms []string
	ops, faults := c.size()
	for o := range ops {
		for f := range faults {
			if c.Count[o][f] == 0 {
				ms = append(ms, fmt.Sprintf("%v × %v", o, f))
			}
		}
	}
	return ms
}

// String prints the table (operation × fault).
func (c *Coverage) String() string {
	var b strings.Builder
	ops, faults := c.size()
	for o := range ops {
		fmt.Fprintf(&b, "%-26s", o)
		for _, n := range c.Count[o][:faults] {
			fmt.Fprintf(&b, " %7d", n)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

const killWait = time.Second

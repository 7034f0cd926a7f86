package schedule

import (
	"time"

	"cantina/task"
)

// Answer is whether a run may still run.
type Answer int

// The answers.
const (
	Ended   Answer = iota // certainly not
	Running               // it does, or may
	Unknown               // unknown yet: its cell has not reported to this leader
)

// OfTask answers for a task from its row (nil = none). over is for how long at least it has been
// over, by a clock that never steps; heard: the cell process that the row names has reported in
// this term; dead: it is certainly dead. A row is the truth once its cell has reported: the cell
// corrects it.
//
// A task that was cancelled is COMPLETED at once, while its container has its grace time: it runs
// until its cell reports that it is gone, or is certainly dead. Only a container that may outlive
// its cell (keep) may have its grace time then. A lost task may run for as long as its row shows
// that.
func OfTask(t *task.Task, over time.Duration, heard, dead bool) Answer {
	switch {
	case t == nil:
		return Ended
	case t.State == task.Pending:
		return Running
	case t.State == task.Running && !heard && !dead:
		return Unknown
	case t.State == task.Running:
		return Running
	case t.MayStillRun && t.Unresolved():
		return Running
	case t.Held(over, dead):
		return Running
	}
	return Ended
}

package task

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"cantina/action"
	"cantina/fault"
)

// State is the state of a task (Diego dev notes, Task States).
type State int

// The states. The zero value is the initial one.
const (
	Pending   State = iota // being placed
	Running                // on a cell
	Completed              // ended; see Outcome
	Resolving              // its end is being delivered or it is being deleted
)

// String prints PENDING, RUNNING, COMPLETED or RESOLVING.
func (s State) String() string {
	switch s {
	case Pending:
		return "PENDING"
	case Running:
		return "RUNNING"
	case Completed:
		return "COMPLETED"
	case Resolving:
		return "RESOLVING"
	}
	return fmt.Sprintf("State(%d)", int(s))
}

// Outcome is how a task ended.
type Outcome int

// The outcomes. Open until COMPLETED.
const (
	Open Outcome = iota
	Succeeded
	Failed
	Cancelled
	Lost // its progress is unknown: its cell is certainly dead or was given up, or did not record its end
)

// String prints the outcome in small letters; "" while open.
func (o Outcome) String() string {
	switch o {
	case Open:
		return ""
	case Succeeded:
		return "succeeded"
	case Failed:
		return "failed"
	case Cancelled:
		return "cancelled"
	case Lost:
		return "lost"
	}
	return fmt.Sprintf("Outcome(%d)", int(o))
}

// WhenFull is the handling of a task that no cell has room for.
type WhenFull int

// The choices.
const (
	WhenFullWait WhenFull = iota // default: PENDING until there is room or PendingTimeout
	WhenFullFail                 // the notes' rule: COMPLETED and failed at once
)

// OnLost is a cell's action on a task once its leader has given the cell up.
type OnLost int

// The choices.
const (
	LostEnd  OnLost = iota // default: ended by the deadline
	LostKeep               // continues; the row is marked "may still run"
)

// Resolution is a person's decision about a lost task.
type Resolution int

// The resolutions.
const (
	Unresolved Resolution = iota
	ResolvedDone
	ResolvedFailed
	ResolvedRerun // a new task was made of it
)

// String prints "", "done", "failed" or "rerun".
func (r Resolution) String() string {
	switch r {
	case Unresolved:
		return ""
	case ResolvedDone:
		return "done"
	case ResolvedFailed:
		return "failed"
	case ResolvedRerun:
		return "rerun"
	}
	return fmt.Sprintf("Resolution(%d)", int(r))
}

// Definition is the task's work and its environment. Written once, when the task is desired.
type Definition struct {
	Workload action.Workload
	// Stack, PlacementTags, Labels, Conditions and Tolerations are the conditions on cells, as in lrp.Desired.
	Stack         string
	PlacementTags []string
	Labels        map[string]string
	Conditions    []string
	Tolerations   []string
	// Annotation is opaque text, at most 10 KiB.
	Annotation string
	// CallbackURL gets a POST once the task is COMPLETED; empty = none.
	CallbackURL string
	WhenFull    WhenFull
	OnLost      OnLost
	// PendingTimeout ends a task that was not started in time; 0 = 30 min.
	PendingTimeout time.Duration
	// PreemptPriority ranks tasks and services that wait for room: 1 to 100, 0 = action.DefaultPriority.
	PreemptPriority int
}

// Priority is the preempt_priority: 1 to 100.
func (d *Definition) Priority() int { return action.PriorityOf(d.PreemptPriority) }

// DeadlineBound reports whether the task ends with its cell's credit.
func (d *Definition) DeadlineBound() bool { return d.OnLost == LostEnd }

// Holder is the cell process that runs a task.
type Holder struct {
	Cell string
	Proc string
}

// Result is how the container ended, as its cell reports it.
type Result struct {
	Failed bool
	// Cancelled: the container was ordered to stop.
	Cancelled bool
	// Ordered: the program was ended at a request, by anyone. Else it ended on its own, and later
	// requests change nothing.
	Ordered bool
	// Lost: the container has ended, and how its program ended was not recorded: it may have succeeded.
	Lost bool
	// Reason is why it failed.
	Reason string
	// Output is the result file, at most MaxResult bytes.
	Output   []byte
	ExitCode int
	Signal   int
	OOM      bool
	// OutputLost is how many bytes of output the disk of the cell refused.
	OutputLost int64
	// Started and Ended are by the cell's wall clock.
	Started, Ended time.Time
}

// Outcome returns the outcome that the result means.
func (r Result) Outcome() Outcome {
	switch {
	case r.Cancelled:
		return Cancelled
	case r.Lost:
		return Lost
	case r.Failed:
		return Failed
	}
	return Succeeded
}

// MaxResult is the largest result file in bytes; a larger one is an error of the task.
const MaxResult = 51200

// Callback is how far the delivery of a task's end has come. Written by the
// leader's callback loop.
type Callback struct {
	// Runs counts the runs of attempts.
	Runs int
	// Next is the earliest moment of the next attempt.
	Next time.Time
	// Error is the error of the last attempt.
	Error string
	// Delivered and Dead are the two ends: answered, or given up (a dead letter).
	Delivered bool
	Dead      bool
}

// Delivery names one verdict on one task: the subject of a callback.
type Delivery struct {
	GUID, UID string
	// Verdict counts the ends that the task was given.
	Verdict int
}

// ID is the same for every repetition of a delivery, and no other delivery has it: the
// uid, and for an end that replaces an earlier one (lost, and then the real one) the uid and its number.
func (d Delivery) ID() string {
	if d.Verdict <= 1 {
		return d.UID
	}
	return fmt.Sprintf("%s-%d", d.UID, d.Verdict)
}

// Task is one row. A value is never changed once stored; Step replaces it. All
// fields are written by the leader only; the comments name the events.
type Task struct {
	// GUID is the name among all domains; UID is minted at desire and makes a
	// re-used guid another task.
	GUID   string
	UID    string
	Domain string
	// Name is the task's name in a spec file; empty if it was not in one.
	Name       string
	Definition *Definition

	State   State
	Outcome Outcome
	// Holder is set in RUNNING, and kept afterwards as the place where it ran: Start, Adopt.
	Holder Holder
	// Reservation is the container for which Start was granted.
	Reservation string
	// Result is set when COMPLETED: Complete, Cancel, expiry, ProcDead.
	Result Result
	// MayStillRun marks a lost or cancelled task whose process is dead, and whose container was
	// permitted to continue: ProcDead.
	MayStillRun bool
	// Rejections counts Reject; Rejection is the last reason: Reject, cleared by Start.
	Rejections int
	Rejection  string

	// Created, Updated (last change of State) and FirstCompleted are by the leader's wall clock.
	Created, Updated, FirstCompleted time.Time

	// Verdict counts the ends that the task was given: a late real end that replaces "lost" is
	// another one. All that completes it.
	Verdict  int
	Callback Callback
	// Resolution is a person's decision about a lost task, Successor the guid of its rerun:
	// ResolveLost.
	Resolution Resolution
	Successor  string
}

// Unresolved reports whether the task is lost and no person has resolved it.
func (t *Task) Unresolved() bool { return t.Ended() && t.Outcome == Lost && t.Resolution == Unresolved }

// MayRun reports whether the task waits or runs, or whether something of it may be left.
func (t *Task) MayRun() bool { return !t.Ended() || t.Ending() || t.MayStillRun }

// Ending reports whether the task was cancelled while it ran and its cell has not reported yet
// that its container is gone.
func (t *Task) Ending() bool {
	return t.Ended() && t.Outcome == Cancelled && t.Holder.Cell != "" && t.Result.Ended.IsZero()
}

// Held reports whether the container of a cancelled task may still be there: over is for how long
// at least the task has been over, dead whether the process that the row names is certainly
// dead. Only a container that may outlive its cell (keep) may have its grace time then.
func (t *Task) Held(over time.Duration, dead bool) bool {
	switch {
	case !t.Ending():
		return false
	case !dead || t.MayStillRun:
		return true
	}
	w := &t.Definition.Workload
	e := w.Termination
	return (w.OnCellRestart.Survives() || t.Definition.OnLost == LostKeep) &&
		over < cmp.Or(e.Grace, action.DefaultGrace)+cmp.Or(e.LeftoverGrace, action.DefaultLeftoverGrace)+killWait
}

// ExitCode is the exit code of the program; -1 if there is none: the program has not ended, never ran or
// was ended by a signal, or its end is not known.
func (t *Task) ExitCode() int {
	if r := &t.Result; r.ExitCode != 0 || t.Outcome == Succeeded || !r.Started.IsZero() {
		return r.ExitCode
	}
	return -1
}

// killWait is the time that a cell needs beyond the grace times until a stopped container is gone.
const killWait = 10 * time.Second

// Delivery names the task's present verdict.
func (t *Task) Delivery() Delivery { return Delivery{t.GUID, t.UID, t.Verdict} }

// Ended reports whether the task is COMPLETED or RESOLVING.
func (t *Task) Ended() bool { return t.State == Completed || t.State == Resolving }

// Errors of Step. None of them changes the task.
var (
	ErrNotFound               = fault.New(fault.ErrNotFound, "the requested task could not be found")
	ErrExists                 = fault.New(fault.ErrExists, "the requested task already exists")
	ErrInvalid                = fault.New(fault.ErrInvalid, "invalid task")
	ErrInvalidStateTransition = fault.New(fault.ErrConflict, "invalid state transition")
	ErrRunningOnDifferentCell = errors.New("running on a different cell")
	// ErrOtherUID: the call is about an earlier or later task of the same guid.
	ErrOtherUID = fault.New(fault.ErrConflict, "another task has this guid now")
	// ErrNotEligible: the cell may not be given work now (safety.md, mayStart).
	ErrNotEligible = errors.New("cell may not receive work now")
	// ErrLostUnresolved: a lost task is kept until it is resolved.
	ErrLostUnresolved = errors.New("a lost task is kept until it is resolved")
	// ErrMayStillRun: the container of a lost task was permitted to continue.
	ErrMayStillRun = fault.New(fault.ErrConflict, "the task may still run")
	// ErrSameName: another task of the name may run, so a rerun is refused.
	ErrSameName = fault.New(fault.ErrConflict, "of the same name may run")
	// ErrEnding: a cancelled task is kept until its container is gone.
	ErrEnding = errors.New("a cancelled task is kept until its container is gone")
)

// MaxAnnotation is the longest annotation in bytes.
const MaxAnnotation = 10 << 10

// Texts of Result.Reason. (Diego dev notes, Tasks; Diego BBS, Task calls.)
const (
	ReasonCancelled   = "cancelled"
	ReasonNotStarted  = "not started within time limit"
	ReasonLost        = "cell disappeared before completion"
	ReasonNoContainer = "task container does not exist"
	ReasonForgotten   = "ended after the backup that the store was restored from: how is not known"
	ReasonRunFailed   = "failed to run container"
	ReasonDrain       = "timed out during cell evacuation"
	ReasonEmptied     = "the cell is being drained"
	ReasonResult      = "failed to fetch result"
)

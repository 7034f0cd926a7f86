package task

import "fmt"

// Container is the state of a task's container, as far as the table distinguishes states.
type Container int

// The states of a container.
const (
	NoContainer Container = iota // nor a reservation
	Reserved                     // RESERVED
	Live                         // INITIALIZING, CREATED or RUNNING
	Done                         // COMPLETED
	Unstarted                    // COMPLETED before it had a process: its reservation expired or was stopped
)

// String prints the state in the words of Diego's notes.
func (c Container) String() string {
	switch c {
	case NoContainer:
		return "No Container"
	case Reserved:
		return "RESERVED"
	case Live:
		return "INITIALIZING/CREATED/RUNNING"
	case Done:
		return "COMPLETED"
	case Unstarted:
		return "COMPLETED (never run)"
	}
	return fmt.Sprintf("Container(%d)", int(c))
}

// Call is a cell's request to the leader, by the event of the same name.
type Call int

// The calls.
const (
	NoCall Call = iota
	CallStart
	CallComplete
	CallMissing
	CallAdopt
	CallReject
)

// String prints the name of the event, or "-".
func (c Call) String() string {
	switch c {
	case NoCall:
		return "-"
	case CallStart:
		return "Start"
	case CallComplete:
		return "Complete"
	case CallMissing:
		return "Missing"
	case CallAdopt:
		return "Adopt"
	case CallReject:
		return "Reject"
	}
	return fmt.Sprintf("Call(%d)", int(c))
}

// Fate is a cell's action on its container after the call succeeded.
type Fate int

// The fates.
const (
	Leave           Fate = iota // do nothing with it
	RunContainer                // RESERVED: run it
	DeleteContainer             // stop and destroy it
	StopContainer               // stop it: Reason is how it failed, to be reported when it has ended
)

// String prints the fate.
func (f Fate) String() string {
	switch f {
	case Leave:
		return "leave"
	case RunContainer:
		return "run"
	case DeleteContainer:
		return "delete"
	case StopContainer:
		return "stop"
	}
	return fmt.Sprintf("Fate(%d)", int(f))
}

// Grade is how unexpected a row of the table is; Inconceivable ones are logged as errors.
type Grade int

// The grades of the notes.
const (
	Expected Grade = iota
	Conceivable
	Inconceivable
)

// Action is the table's instruction for a cell: first the call, and only if that succeeded the
// action on the container. Refused is the action if the leader's refusal is final (ErrNotFound,
// ErrInvalidStateTransition, ErrRunningOnDifferentCell, ErrOtherUID); ErrNotEligible and unknown
// outcomes are left to the next poll.
type Action struct {
	Call    Call
	Then    Fate
	Refused Fate
	Grade   Grade
	// Reason is, with StopContainer, the failure to report in place of the container's own
	// result once it has ended; with CallReject, why the cell does not start it.
	Reason string
	// Unknown: the store does not contain the running work; it is left alone until a person decides.
	Unknown bool
	// Why is the reason in the table.
	Why string
}

// View is a cell's data about one task: the row read first, the container second.
type View struct {
	Container Container
	Self      Holder
	// UID and Reservation are the container's.
	UID         string
	Reservation string
	// Row is nil when there is none.
	Row *Task
	// Quarantined: the row cannot be read. It counts as existing; the container is left alone.
	Quarantined bool
	// Older: the container was started for another store, or before this one was restored,
	// so that the store need not know it.
	Older bool
	// Earlier: the row names an earlier process of this directory, and each container of those that is
	// not gone is one of this process.
	Earlier bool
}

// columns is one block of the table: the action for each state of the row. Only
// ever written without field names, so that a missing row does not compile.
type columns struct {
	none, pending, runningSelf, runningOther, completedSelf, completedOther, resolvingSelf, resolvingOther Action
}

func (c *columns) at(row *Task, self bool) Action {
	pick := func(mine, other Action) Action {
		if self {
			return mine
		}
		return other
	}
	if row == nil {
		return c.none
	}
	switch row.State {
	case Pending:
		return c.pending
	case Running:
		return pick(c.runningSelf, c.runningOther)
	case Completed:
		return pick(c.completedSelf, c.completedOther)
	case Resolving:
		return pick(c.resolvingSelf, c.resolvingOther)
	}
	return Action{Grade: Inconceivable, Why: "unknown state of the row"}
}

// taskTable has one block for each state of the container; see columns.
type taskTable struct{ noContainer, reserved, live, done, unstarted columns }

func (t *taskTable) at(c Container) *columns {
	switch c {
	case NoContainer:
		return &t.noContainer
	case Reserved:
		return &t.reserved
	case Live:
		return &t.live
	case Done:
		return &t.done
	case Unstarted:
		return &t.unstarted
	}
	return &columns{}
}

// table is Diego's table "Harmonizing Tasks with Container State: Rep", row by row. The rows "No
// Container" that it leaves out name no cell, or another one. A container that ended before it had
// a process does not affect a task that is still PENDING.
func table() taskTable {
	nothing := Action{Grade: Expected, Why: "the row does not name this cell"}
	del := func(g Grade, why string) Action { return Action{Then: DeleteContainer, Grade: g, Why: why} }
	complete := func(g Grade, why string) Action {
		return Action{Call: CallComplete, Then: DeleteContainer, Refused: DeleteContainer, Grade: g, Why: why}
	}
	const noStart, elsewhere = "do not start this task", "it ended on another cell"
	return taskTable{
		columns{ // No Container
			nothing,
			nothing,
			Action{Call: CallMissing, Grade: Conceivable, Why: "row is RUNNING here, but there is no container"},
			nothing,
			Action{Grade: Expected, Why: "waiting to be resolved"},
			nothing,
			Action{Grade: Expected, Why: "being resolved"},
			nothing,
		},
		columns{ // RESERVED
			del(Conceivable, "cancelled"),
			Action{Call: CallStart, Then: RunContainer, Refused: DeleteContainer, Grade: Expected,
				Why: "reserved for this task: start, then run"},
			Action{Grade: Expected, Why: "about to be initialized"},
			del(Conceivable, noStart),
			del(Conceivable, noStart),
			del(Conceivable, noStart),
			del(Conceivable, noStart),
			del(Conceivable, noStart),
		},
		columns{ // INITIALIZING/CREATED/RUNNING
			del(Conceivable, "cancelled: stop it"),
			Action{Call: CallStart, Refused: DeleteContainer, Grade: Inconceivable,
				Why: "running without a start: report it to the leader"},
			Action{Grade: Expected, Why: "running, as in the row"},
			del(Inconceivable, "running elsewhere"),
			del(Conceivable, "completed, perhaps cancelled"),
			del(Inconceivable, elsewhere),
			del(Conceivable, "being resolved, perhaps cancelled"),
			del(Inconceivable, elsewhere),
		},
		columns{ // COMPLETED
			del(Conceivable, "cancelled"),
			complete(Inconceivable, "ended without a start"),
			complete(Expected, "report its end to the leader"),
			del(Inconceivable, "running elsewhere"),
			del(Conceivable, "already completed"),
			del(Inconceivable, elsewhere),
			del(Conceivable, "already completed, perhaps cancelled"),
			del(Inconceivable, elsewhere),
		},
		columns{ // COMPLETED (never run)
			del(Conceivable, "cancelled"),
			del(Conceivable, "failed before its start: the task is still pending and is placed again"),
			complete(Conceivable, "start was allowed, but it never ran"),
			del(Conceivable, "running elsewhere"),
			del(Conceivable, "already completed"),
			del(Conceivable, elsewhere),
			del(Conceivable, "already completed, perhaps cancelled"),
			del(Conceivable, elsewhere),
		},
	}
}

// actions is the table, built once.
var actions = table()

// Harmonise returns a cell's action on one task so that container and row agree. Beyond the table:
//
//   - A quarantined row leaves the container alone.
//   - A container of another uid belongs to a deleted task, unless the store is older than the container's work.
//     The end of such a container is reported.
//   - The reservation that was granted the start, without receiving the response, repeats the request.
//   - A container that outlived its cell process is reported as adopted.
//   - A reservation whose row was handed over from such a process is deleted, because the response to its start
//     went to that process.
//   - A task that was given up as lost may still deliver its real end.
func Harmonise(v View) Action {
	if v.Quarantined {
		return Action{Grade: Inconceivable, Why: "row is unreadable: leave the container alone"}
	}
	row := v.Row
	if row != nil && v.Container != NoContainer && row.UID != v.UID {
		row = nil
	}
	if row == nil && v.Older && v.Container == Live {
		return Action{Grade: Conceivable, Unknown: true,
			Why: "started before this store was created or restored, and not in the store"}
	}
	if row == nil && v.Older && v.ended() {
		return Action{Call: CallComplete, Then: DeleteContainer, Refused: DeleteContainer, Grade: Conceivable,
			Why: "not in the store, and ended: the leader need not wait for it any more"}
	}
	here := row != nil && row.Holder.Cell == v.Self.Cell
	if here && row.Holder != v.Self && row.State == Running {
		return v.ofPredecessor(row)
	}
	switch {
	case here && row.State == Running && v.Container == Reserved && row.Reservation == v.Reservation:
		return Action{Call: CallStart, Then: RunContainer, Refused: DeleteContainer, Grade: Conceivable,
			Why: "the answer to its start was lost: ask again, then run"}
	case here && row.State == Running && v.Container == Reserved && row.Reservation == "":
		return Action{Then: DeleteContainer, Grade: Conceivable,
			Why: "taken over from an earlier process of this cell; unknown whether it ran"}
	case here && row.Unresolved() && v.ended():
		return Action{Call: CallComplete, Then: DeleteContainer, Refused: DeleteContainer, Grade: Conceivable,
			Why: "given up as lost, but its end is known now"}
	case here && row.Ending() && v.ended():
		return Action{Call: CallComplete, Then: DeleteContainer, Refused: DeleteContainer, Grade: Expected,
			Why: "cancelled, and its end is known now"}
	case here && row.Ending() && v.Container == Live:
		return Action{Then: StopContainer, Reason: ReasonCancelled, Grade: Conceivable,
			Why: "cancelled: stop it, and report its end"}
	case here && row.Ending() && row.Holder == v.Self && v.Container == NoContainer:
		return Action{Call: CallMissing, Grade: Expected, Why: "cancelled, and its container is gone"}
	case here && row.MayStillRun && v.Container == NoContainer && v.Earlier:
		return Action{Call: CallMissing, Grade: Expected, Why: "marked as one that may still run, and its container is gone"}
	case here && row.Unresolved() && row.MayStillRun && v.Container == Live:
		return Action{Grade: Conceivable, Why: "given up as lost, but it is still running"}
	}
	return actions.at(v.Container).at(row, here)
}

// ended reports whether the container is COMPLETED.
func (v View) ended() bool { return v.Container == Done || v.Container == Unstarted }

// ofPredecessor is for a RUNNING row that names an earlier process of this cell.
func (v View) ofPredecessor(row *Task) Action {
	switch v.Container {
	case Live:
		return Action{Call: CallAdopt, Grade: Conceivable, Why: "taken over from an earlier process of this cell"}
	case Done, Unstarted:
		return actions.done.runningSelf
	case Reserved:
		return actions.reserved.runningOther
	default:
		return Action{Grade: Conceivable, Why: "only the leader decides whether the earlier process of this cell is dead"}
	}
}

// HarmoniseEvacuating is Harmonise on a draining cell: no task starts. Running ones may end on
// their own until the drain times out, then they are stopped, and have failed when they have
// ended: consumers of the end (a schedule that forbids overlap) must not treat work that may run
// as ended. (Diego dev notes, Tasks, Evacuation.)
func HarmoniseEvacuating(v View, timedOut bool) Action {
	a := Harmonise(v)
	switch {
	case v.Quarantined:
		return a
	case v.Container == Reserved && v.Row != nil && v.Row.State == Pending:
		return Action{Call: CallReject, Then: DeleteContainer, Refused: DeleteContainer, Grade: Expected,
			Reason: ReasonEmptied, Why: "cell is draining: another one may start it"}
	case timedOut && v.Container == Live && a.Then == Leave && v.Row != nil && v.Row.State == Running:
		return Action{Then: StopContainer, Grade: Expected, Reason: ReasonDrain, Why: "evacuation deadline exceeded"}
	}
	return a
}

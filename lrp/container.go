package lrp

import "fmt"

// Container is the state of the container of one instance, as far as the tables distinguish
// states. (Diego dev notes, Harmonizing ActualLRPs with Container State.)
type Container int

// The states of a container.
const (
	NoContainer       Container = iota // nor a reservation
	Reserved                           // RESERVED
	Starting                           // INITIALIZING or CREATED
	Up                                 // RUNNING
	CompletedCrashed                   // COMPLETED, not stopped
	CompletedShutdown                  // COMPLETED, stopped
)

// String prints the state in the words of Diego's notes.
func (c Container) String() string {
	switch c {
	case NoContainer:
		return "No Container"
	case Reserved:
		return "RESERVED"
	case Starting:
		return "INITIALIZING/CREATED"
	case Up:
		return "RUNNING"
	case CompletedCrashed:
		return "COMPLETED (crashed)"
	case CompletedShutdown:
		return "COMPLETED (shutdown)"
	}
	return fmt.Sprintf("Container(%d)", int(c))
}

// Call is a cell's request to the leader, by the event of the same name.
type Call int

// The calls.
const (
	NoCall Call = iota
	CallClaim
	CallStart
	CallCrash
	CallRemove
	CallEvacuate
	CallEvacuateClaimed
	CallEvacuateStopped
	CallEvacuateCrashed
	CallRemoveEvacuating
)

// String prints the name of the event, or "-".
func (c Call) String() string {
	switch c {
	case NoCall:
		return "-"
	case CallClaim:
		return "Claim"
	case CallStart:
		return "Start"
	case CallCrash:
		return "Crash"
	case CallRemove:
		return "Remove"
	case CallEvacuate:
		return "Evacuate"
	case CallEvacuateClaimed:
		return "EvacuateClaimed"
	case CallEvacuateStopped:
		return "EvacuateStopped"
	case CallEvacuateCrashed:
		return "EvacuateCrashed"
	case CallRemoveEvacuating:
		return "RemoveEvacuating"
	}
	return fmt.Sprintf("Call(%d)", int(c))
}

// Fate is a cell's action on its container, after the call succeeded.
type Fate int

// The fates.
const (
	Leave           Fate = iota // do nothing with it
	RunContainer                // RESERVED: run it
	StopContainer               // stop it gracefully; its end is handled as COMPLETED (shutdown)
	DeleteContainer             // stop and destroy it
)

// String prints the fate.
func (f Fate) String() string {
	switch f {
	case Leave:
		return "leave"
	case RunContainer:
		return "run"
	case StopContainer:
		return "stop"
	case DeleteContainer:
		return "delete"
	}
	return fmt.Sprintf("Fate(%d)", int(f))
}

// Grade is how unexpected a row of a table is; Inconceivable ones are logged as errors.
type Grade int

// The grades of the notes.
const (
	Expected Grade = iota
	Conceivable
	Inconceivable
)

// Action is the tables' instruction for a cell: first the call to the leader, and only if that
// succeeded the action on the container. A failed call is logged and left to the next poll.
// Refused is the action if the leader's refusal is final (one of the ErrCannotBe… errors or
// ErrNotFound); ErrNotEligible and unknown outcomes are left to the next poll.
type Action struct {
	Call    Call
	Then    Fate
	Refused Fate
	Grade   Grade
	// Why is the reason in the table.
	Why string
}

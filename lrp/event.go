package lrp

import (
	"errors"
	"time"

	"cantina/fault"
)

// Event is something that happened to an index. One struct for each kind.
type Event interface{ event() }

// Events of the leader itself: apply and convergence.
type (
	// Create makes the missing UNCLAIMED row of a wanted index and requests a placement.
	Create struct{}
	// Undesire: the index is no longer wanted, because of scale-down, removal of the service, or
	// convergence in a fresh domain.
	Undesire struct{}
	// Retire stops and restarts the instance. (Diego BBS, retire.)
	Retire struct{}
	// Preempt stops the instance of By, to give its room to For, which has a higher priority, and places
	// its index again.
	Preempt struct {
		By       Identity
		For      string // name of the other work
		Priority int    // its preempt_priority
	}
	// RestartCrashed: the wait of a CRASHED row is over.
	RestartCrashed struct{}
	// Resend repeats a request that may not have arrived: the placement of an UNCLAIMED row, the stop
	// of an unwanted or retiring one.
	Resend struct{}
	// Relocate: another cell is to run the instance of By, which runs until that one serves, or until
	// Until. (rebalance)
	Relocate struct {
		By    Identity
		Until time.Time
	}
	// ExpireEvacuating: the time of the EVACUATING row is over.
	ExpireEvacuating struct{}
)

// Events of the auctioneer.
type (
	// PlacementFailed is why no cell took the row. (Diego dev notes, Communicating Fullness.)
	PlacementFailed struct{ Reason string }
)

// Events of a cell's harmoniser. By is always the cell itself.
type (
	// Claim takes an UNCLAIMED row for the container that By has reserved.
	Claim struct{ By Identity }
	// Start: By's container runs; also changes of readiness and new ports.
	Start struct {
		By  Identity
		Net Net
		// Service and Exclusive are those of the container's labels: they make the row if there is
		// neither a row nor a definition.
		Service   ServiceKey
		Exclusive bool
	}
	// Crash: By's container ended without a stop. Clean means that the program exited with status 0.
	Crash struct {
		By     Identity
		Reason string
		Clean  bool
	}
	// Remove: By has no container for the row (any more).
	Remove struct{ By Identity }
	// Evacuate: By's container runs on a draining cell; Until is the latest end of the drain.
	// Repeated at each pass. Without Until, the cell is not drained, and the instance is being moved.
	Evacuate struct {
		By    Identity
		Net   Net
		Until time.Time
	}
	// EvacuateClaimed: the cell is being emptied and drops a container that was not RUNNING
	// yet, or was reserved and not claimed.
	EvacuateClaimed struct{ By Identity }
	// EvacuateStopped: the cell is draining and the container ended after a stop.
	EvacuateStopped struct{ By Identity }
	// EvacuateCrashed: the cell is being emptied and the container crashed.
	EvacuateCrashed struct {
		By     Identity
		Reason string
		Clean  bool
	}
	// RemoveEvacuating drops By's EVACUATING row.
	RemoveEvacuating struct{ By Identity }
)

// Events of the worker sessions (see safety.md: HEALTHY, UNHEALTHY, MUST_DIE, dead).
type (
	// CellHealthy: the session of Proc is HEALTHY (again).
	CellHealthy struct{ Cell, Proc string }
	// CellUnhealthy: a session that was HEALTHY in this term is UNHEALTHY.
	CellUnhealthy struct{ Cell, Proc string }
	// CellUnheard: a session that was not HEALTHY yet in this term has been silent for as long as makes
	// a HEALTHY one UNHEALTHY.
	CellUnheard struct{ Cell, Proc string }
	// CellMustDie: the leader has given the session up. Not yet dead.
	CellMustDie struct{ Cell, Proc string }
	// ProcDead: no deadline-bound container of Proc is alive or can start.
	ProcDead struct{ Proc string }
	// ProcMoved: the containers of From were adopted by its successor To.
	ProcMoved struct{ Cell, From, To string }
	// Found: By's process reports, at the start of its session, a container of an instance that runs
	// at most once. Stale: the rows may be older than the cells' work, and no process has reported
	// the instance in the row.
	Found struct {
		By      Identity
		Service ServiceKey
		Stale   bool
	}
)

func (Create) event()           {}
func (Undesire) event()         {}
func (Retire) event()           {}
func (Preempt) event()          {}
func (RestartCrashed) event()   {}
func (Resend) event()           {}
func (Relocate) event()         {}
func (ExpireEvacuating) event() {}
func (PlacementFailed) event()  {}
func (Claim) event()            {}
func (Start) event()            {}
func (Crash) event()            {}
func (Remove) event()           {}
func (Evacuate) event()         {}
func (EvacuateClaimed) event()  {}
func (EvacuateStopped) event()  {}
func (EvacuateCrashed) event()  {}
func (RemoveEvacuating) event() {}
func (CellHealthy) event()      {}
func (CellUnhealthy) event()    {}
func (CellUnheard) event()      {}
func (CellMustDie) event()      {}
func (ProcDead) event()         {}
func (ProcMoved) event()        {}
func (Found) event()            {}

// Effect is something to be done after the commit. Losing one is safe:
// convergence finds it again. All effects are comparable.
type Effect interface{ effect() }

type (
	// RequestAuction requests a placement from the auctioneer for Key's ordinary row.
	RequestAuction struct{ Key Key }
	// WithdrawAuction withdraws the request for a placement of Key.
	WithdrawAuction struct{ Key Key }
	// StopInstance orders the cell to stop one instance.
	StopInstance struct {
		Key Key
		Who Identity
	}
	// AttemptDropped reports to the auctioneer that an attempt to start an instance, which may count
	// as in flight, has ended without a row: its resources are free.
	AttemptDropped struct {
		Key      Key
		Instance string
	}
	// CrashNoted goes to the event stream: one crash was counted.
	CrashNoted struct {
		Key    Key
		Who    Identity
		Count  int
		Reason string
	}
	// PreemptionNoted goes to the event stream: an instance is being stopped for other work.
	PreemptionNoted struct {
		Key Key
		Who Identity
		For string
	}
)

func (RequestAuction) effect()  {}
func (WithdrawAuction) effect() {}
func (StopInstance) effect()    {}
func (AttemptDropped) effect()  {}
func (CrashNoted) effect()      {}
func (PreemptionNoted) effect() {}

// Errors of Step. None of them changes the index.
var (
	ErrNotFound          = fault.New(fault.ErrNotFound, "the requested row could not be found")
	ErrCannotBeClaimed   = errors.New("cannot claim actual LRP")
	ErrCannotBeStarted   = errors.New("cannot start actual LRP")
	ErrCannotBeCrashed   = errors.New("cannot crash actual LRP")
	ErrCannotBeFailed    = errors.New("cannot fail actual LRP")
	ErrCannotBeRemoved   = errors.New("cannot remove actual LRP")
	ErrCannotBeEvacuated = errors.New("cannot evacuate actual LRP")
	ErrCannotBeMoved     = errors.New("cannot move actual LRP")
	ErrCannotBePreempted = errors.New("cannot preempt actual LRP")
	// ErrNotEligible: the cell may not be given work now (safety.md, mayStart).
	ErrNotEligible = errors.New("cell may not receive work now")
	// ErrNotYet: the instance may not be stopped before another one is back.
	ErrNotYet = errors.New("not yet")
	// ErrNotProven: another process of the cell holds the exclusive row and is not proven dead.
	ErrNotProven = errors.New("the holder is not proven dead")
)

// Env is the input of Step besides the rows.
type Env struct {
	Now time.Time
	// Desired is the definition of the process; nil when there is none.
	Desired *Desired
	// Wanted reports whether the index is one that should run now.
	Wanted bool
	// Fresh reports whether the domain is fresh.
	Fresh bool
	// Eligible reports whether the cell process of a Claim may be given work:
	// session HEALTHY, reported, member row durable.
	Eligible bool
	// OthersRunning reports whether every other index of the service has a
	// row that serves and is not about to be stopped: the gate for draining a stop-first
	// service.
	OthersRunning bool
	// Reported are containers of an index that runs at most once, which cells have reported and no
	// row names. None is placed as long as one of them may be alive.
	Reported []Identity
	// Beside: an instance of another version of an exclusive service has the same index, and may run.
	// None is placed beside it.
	Beside bool
}

// keepsOrphan reports whether the row has no definition and must be kept all the
// same, because its domain is not fresh.
func (e Env) keepsOrphan() bool { return e.Desired == nil && !e.Fresh }

func (e Env) restart() RestartPolicy {
	if e.Desired == nil {
		return RestartPolicy{}
	}
	return e.Desired.Restart
}

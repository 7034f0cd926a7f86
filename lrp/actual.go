package lrp

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"cantina/action"
)

// State is the state of one actual LRP (Diego dev notes, ActualLRPs).
type State int

// The states. The zero value is the initial one.
const (
	Unclaimed State = iota // being placed
	Claimed                // assigned to a cell, being started
	Running                // runs and, when Routable, is ready for traffic
	Crashed                // waits for its restart; on no cell
)

// String prints the state as in the notes: UNCLAIMED, CLAIMED, RUNNING, CRASHED.
func (s State) String() string {
	switch s {
	case Unclaimed:
		return "UNCLAIMED"
	case Claimed:
		return "CLAIMED"
	case Running:
		return "RUNNING"
	case Crashed:
		return "CRASHED"
	}
	return fmt.Sprintf("State(%d)", int(s))
}

// Presence distinguishes the rows of one index.
type Presence int

// The presences.
const (
	Ordinary   Presence = iota
	Evacuating          // a copy on a cell that is being emptied; always RUNNING
	Suspect             // was RUNNING when its cell fell silent; stays routable until replaced
)

// String prints ORDINARY, EVACUATING or SUSPECT.
func (p Presence) String() string {
	switch p {
	case Ordinary:
		return "ORDINARY"
	case Evacuating:
		return "EVACUATING"
	case Suspect:
		return "SUSPECT"
	}
	return fmt.Sprintf("Presence(%d)", int(p))
}

// Key names one index of one process.
type Key struct {
	Process string
	Index   int
}

// String prints "process/index".
func (k Key) String() string { return fmt.Sprintf("%s/%d", k.Process, k.Index) }

// Compare orders keys by process, then index.
func (k Key) Compare(o Key) int {
	return cmp.Or(cmp.Compare(k.Process, o.Process), cmp.Compare(k.Index, o.Index))
}

// Identity is the holder of an instance: (instance id, cell name), Diego's α, and the process of
// the cell, which may be certainly dead.
type Identity struct {
	Instance string // instance id, minted by the auction
	Cell     string // cell name
	Proc     string // process id of the cell
}

// Same reports whether i and o are the same instance on the same cell, in any process of the cell.
func (i Identity) Same(o Identity) bool { return i.Instance == o.Instance && i.Cell == o.Cell }

// Net is how a running instance is reached.
type Net struct {
	Address string
	Ports   []action.Mapping
	// Routable is false while a readiness check fails.
	Routable bool
	Zone     string
	// Stopping: its cell is ending it, for any reason; it is not routable then. It is killed at
	// StopBy at the latest; zero = unknown.
	Stopping bool
	StopBy   time.Time
}

// Equal reports whether n and o are the same.
func (n Net) Equal(o Net) bool {
	return n.Address == o.Address && n.Routable == o.Routable && n.Zone == o.Zone && slices.Equal(n.Ports, o.Ports) &&
		n.Stopping == o.Stopping && n.StopBy.Equal(o.StopBy)
}

// LastCrash is how, where and when an instance of an index crashed last.
type LastCrash struct {
	Reason string
	Cell   string
	At     time.Time
}

// Preempted is the end of an instance for other work. The zero value means none.
type Preempted struct {
	By       string // name of the other work: "default/web/0", "task x"
	Priority int    // its preempt_priority
	Cell     string // of the instance
	At       time.Time
}

// Actual is one row: one instance, wanted or running, of one index. A value is never changed once
// it is in an Index; Step replaces it. Only the leader writes its fields, in Step; the comments
// name the events.
type Actual struct {
	Key      Key
	Service  ServiceKey
	Presence Presence // Evacuate, CellUnhealthy, CellHealthy
	State    State
	// Identity is set in CLAIMED and RUNNING only: Claim, Start, Evacuate.
	Identity
	// Net is set in RUNNING only: Start, Evacuate.
	Net Net
	// Exclusive is copied from the definition at Create or Start, so that the row
	// keeps its meaning when the definition is gone.
	Exclusive bool

	CrashCount  int    // Crash
	CrashReason string // Crash; at most 1024 bytes; cleared by Start
	// LastCrash outlives the instance: Crash; it is kept over moves and starts, until a requested
	// restart.
	LastCrash LastCrash
	// PlacementError is why no cell took it: PlacementFailed; cleared on leaving UNCLAIMED.
	PlacementError string
	// Since is when State last changed, and nothing else: readiness, routes or a
	// failed placement do not move it. Wall clock of the leader.
	Since time.Time
	// NotBefore is the time before which no placement is requested for an UNCLAIMED row, while its
	// SUSPECT copy is waited for: CellUnhealthy; cleared when that is gone.
	NotBefore time.Time
	// Replaces is the SUSPECT instance that this RUNNING one replaced, and that stays when its cell
	// is back (ReturnOld): Start; moved by ProcMoved, cleared when its cell is given up.
	Replaces Identity
	// Expires bounds an EVACUATING row: set and refreshed by Evacuate.
	Expires time.Time
	// Moving marks an EVACUATING row whose cell is not drained: the instance runs until another one serves
	// elsewhere, or until Expires, when it is the ordinary one again. Set by Relocate, ended by Evacuate of
	// a drain.
	Moving bool
	// Retiring is the stored intent to have this instance stopped: Retire, Preempt,
	// Undesire, Evacuate of a stop-first service. It ends with the instance.
	Retiring bool
	// Preempted is why the instance is stopped, or why the UNCLAIMED row has none: Preempt. It ends when
	// the index is claimed again.
	Preempted Preempted
	// Unheard marks a RUNNING row whose cell has not contacted the leader of this term in time, or
	// was given up: the address may be dead, and gets no traffic. Set by CellUnheard and CellMustDie,
	// ends with CellHealthy, or with a report of the cell about the instance.
	Unheard bool
	// Finished marks a CRASHED row that is never restarted because its program
	// exited with status 0 under RestartOnFailure: Crash.
	Finished bool
}

// OnProc reports whether a cell process holds this row.
func (a *Actual) OnProc(proc string) bool {
	return a != nil && a.Proc == proc && (a.State == Claimed || a.State == Running)
}

// Serves reports whether the row is RUNNING in Diego's full sense: it runs and is ready for
// traffic. A row whose readiness check fails, whose cell is silent, or that is being stopped,
// replaces no other.
func (a *Actual) Serves() bool {
	return a != nil && a.State == Running && a.Net.Routable && !a.Unheard && !a.Stopping()
}

// Stopping reports whether the instance is being stopped: by the leader, or by its cell on its
// own. For any cause, it gets no traffic, and it is not as desired.
func (a *Actual) Stopping() bool {
	return a != nil && (a.State == Claimed || a.State == Running) && (a.Retiring || a.Net.Stopping)
}

// covers reports whether the ordinary row a has taken the place of the copy c of its
// index: it serves, or it runs and c does not serve either.
func (a *Actual) covers(c *Actual) bool {
	return a.Serves() || a != nil && a.State == Running && !c.Serves()
}

// replaced reports whether the row replaced who, which stays when its cell is back.
func (a *Actual) replaced(who Identity) bool {
	return a != nil && a.State == Running && a.Replaces.Instance != "" && a.Replaces.Same(who) && !a.Same(who)
}

// Is reports whether the row is held by who.
func (a *Actual) Is(who Identity) bool {
	return a != nil && (a.State == Claimed || a.State == Running) && a.Same(who)
}

// Index is the unit of the machine and of a transaction: all rows of one index.
// The zero rows mean "no row".
type Index struct {
	Key        Key
	Ordinary   *Actual
	Evacuating *Actual
	Suspect    *Actual
}

// Empty reports whether no row is left.
func (x Index) Empty() bool { return x.Ordinary == nil && x.Evacuating == nil && x.Suspect == nil }

// Rows returns the rows there are: ordinary, evacuating, suspect.
func (x Index) Rows() []*Actual {
	out := make([]*Actual, 0, 3)
	for _, a := range []*Actual{x.Ordinary, x.Evacuating, x.Suspect} {
		if a != nil {
			out = append(out, a)
		}
	}
	return out
}

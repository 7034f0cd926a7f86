package task

import "time"

// Event is something that happened to a task. One struct for each kind.
type Event interface{ event() }

// Events of a cell. UID must be the row's.
type (
	// Start asks for PENDING → RUNNING on By before the container Reservation runs.
	// The same reservation asking again gets the same answer.
	Start struct {
		UID         string
		By          Holder
		Reservation string
	}
	// Complete says how the container ended.
	Complete struct {
		UID    string
		By     Holder
		Result Result
	}
	// Adopt says that By's predecessor From has handed the task's container over.
	Adopt struct {
		UID  string
		From string
		By   Holder
	}
)

// Reject says that the task could not be placed or its container not be made.
// Never means that no cell could ever hold it. Sent by the auctioneer and by cells.
type Reject struct {
	UID    string
	Reason string
	Never  bool
	// By is set when a cell rejects a task that it had started: only its holder may.
	By Holder
}

// Events of clients.
type (
	// Cancel ends a PENDING or RUNNING task.
	Cancel struct{}
	// Resolve begins the deletion of a COMPLETED task.
	Resolve struct{}
	// Delete removes a RESOLVING task.
	Delete struct{}
	// Settle is a person's word on a lost task. Successor is the guid of the new
	// task when As is ResolvedRerun.
	Settle struct {
		As        Resolution
		Successor string
	}
)

// Events of the leader: sessions, convergence, callbacks.
type (
	// ProcDead: no deadline-bound container of Proc is alive or can start.
	ProcDead struct{ Proc string }
	// ExpirePending: it was not started in time.
	ExpirePending struct{}
	// Kick asks again for a place for a PENDING task, or for the end of a cancelled one's container.
	Kick struct{}
	// KickCallback begins (again) to deliver the end of a COMPLETED task.
	KickCallback struct{}
	// CallbackDone is what came of an attempt. Retry is when to try again; zero = never.
	CallbackDone struct {
		Delivered bool
		Error     string
		Retry     time.Time
	}
	// Demote turns a RESOLVING task that got stuck back into COMPLETED.
	Demote struct{}
	// Prune removes a COMPLETED task whose retention is over.
	Prune struct{}
)

func (Start) event()         {}
func (Complete) event()      {}
func (Adopt) event()         {}
func (Reject) event()        {}
func (Cancel) event()        {}
func (Resolve) event()       {}
func (Delete) event()        {}
func (Settle) event()        {}
func (ProcDead) event()      {}
func (ExpirePending) event() {}
func (Kick) event()          {}
func (KickCallback) event()  {}
func (CallbackDone) event()  {}
func (Demote) event()        {}
func (Prune) event()         {}

// Effect is something to be done after the commit. Losing one is safe:
// convergence finds it again. All effects are comparable.
type Effect interface{ effect() }

type (
	// RequestAuction asks the auctioneer for a place.
	RequestAuction struct{ GUID, UID string }
	// WithdrawAuction tells the auctioneer that no place is needed any more.
	WithdrawAuction struct{ GUID, UID string }
	// CancelContainer tells the cell to end the container of the task.
	CancelContainer struct {
		GUID, UID string
		Holder    Holder
	}
	// CallBack starts one attempt to deliver the end of the task.
	CallBack struct{ GUID, UID string }
)

func (RequestAuction) effect()  {}
func (WithdrawAuction) effect() {}
func (CancelContainer) effect() {}
func (CallBack) effect()        {}

// Env is what Step has to know beside the row.
type Env struct {
	Now time.Time
	// Eligible reports whether the cell process of a Start may be given work.
	Eligible bool
	Policy   Policy
}

// Policy holds the leader's settings for tasks. Zero fields mean the defaults in
// the comments.
type Policy struct {
	// Retention keeps a COMPLETED task; 0 = 24 h, -1 = the notes' two minutes.
	Retention time.Duration
	// KeepPerDomain is how many ended tasks a domain keeps; 0 = 10,000.
	KeepPerDomain int
	// Kick is how long a PENDING task waits before its place is asked for again,
	// and a COMPLETED one before its callback is; 0 = 30 s.
	Kick time.Duration
	// StuckResolving demotes a RESOLVING task; 0 = 30 s.
	StuckResolving time.Duration
}

package task

import "time"

// Event is something that happened to a task. One struct for each kind.
type Event interface{ event() }

// Events of a cell. UID must be the row's.
type (
	// Start requests PENDING → RUNNING on By before the container Reservation runs. A repeated
	// request of the same reservation gets the same answer.
	Start struct {
		UID         string
		By          Holder
		Reservation string
		// Live: the container already runs, and the row does not have that: the store went back. It may
		// continue although By may get no work now.
		Live bool
	}
	// Complete is how the container ended.
	Complete struct {
		UID    string
		By     Holder
		Result Result
	}
	// Missing: By, which the row names, has no container for the task. Of a task that is marked as one
	// that may still run, By is a later process on the directory of that one.
	Missing struct {
		UID string
		By  Holder
	}
	// Adopt: By's predecessor From has handed the task's container over: of a running task, or of a
	// cancelled one whose container has not ended.
	Adopt struct {
		UID  string
		From string
		By   Holder
	}
	// Found: By's process reports a container of the task at the start of its session. A restored
	// store has the task as PENDING, perhaps made again under another uid; or the task is marked as
	// one that may still run. Bound: the container ends
	// when its cell has had no leader for too long.
	Found struct {
		UID   string
		By    Holder
		Bound bool
	}
)

// Reject: the task could not be placed or its container not be made. Never means that no cell
// could ever hold it. Sent by the auctioneer and by cells.
type Reject struct {
	UID    string
	Reason string
	Never  bool
	// Carried: one cell refused it, and it is in the auction's next batch. That does not mean that
	// there is no room, and nothing is counted. If a cell sends it, it gives up its reservation:
	// another placement is requested.
	Carried bool
	// By is set when a cell rejects a task that it had started: only its holder may.
	By Holder
}

// Events of clients.
type (
	// Cancel ends a PENDING or RUNNING task, and a lost one that may still run.
	Cancel struct{}
	// Resolve begins the deletion of a COMPLETED task.
	Resolve struct{}
	// Delete removes a RESOLVING task.
	Delete struct{}
	// ResolveLost is a person's decision about a lost task, or a cancelled one that may still run.
	// Successor is the guid of the new task if As is ResolvedRerun. Accept is needed if the task may
	// still run.
	ResolveLost struct {
		As        Resolution
		Successor string
		Accept    bool
	}
)

// Events of the leader: sessions, convergence, callbacks.
type (
	// ProcDead: no deadline-bound container of Proc is alive or can start.
	ProcDead struct{ Proc string }
	// ExpirePending: it was not started in time.
	ExpirePending struct{}
	// Kick repeats the request for a placement of a PENDING task.
	Kick struct{}
	// KickCallback begins (again) to deliver the end of a COMPLETED task.
	KickCallback struct{}
	// CallbackDone is the result of a run of attempts to deliver one verdict.
	CallbackDone struct {
		UID       string
		Verdict   int
		Delivered bool
		Error     string
	}
	// Demote turns a RESOLVING task whose end is not being delivered back into COMPLETED.
	Demote struct{}
	// Prune removes a COMPLETED task whose retention is over.
	Prune struct{}
)

func (Start) event()         {}
func (Complete) event()      {}
func (Adopt) event()         {}
func (Found) event()         {}
func (Missing) event()       {}
func (Reject) event()        {}
func (Cancel) event()        {}
func (Resolve) event()       {}
func (Delete) event()        {}
func (ResolveLost) event()   {}
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
	// RequestAuction requests a placement from the auctioneer.
	RequestAuction struct{ GUID, UID string }
	// WithdrawAuction withdraws the request for a placement.
	WithdrawAuction struct{ GUID, UID string }
	// AttemptDropped reports to the auctioneer that a cell has given up its reservation for the task
	// before the start.
	AttemptDropped struct{ GUID, UID string }
	// CancelContainer orders the cell to end the container of the task.
	CancelContainer struct {
		GUID, UID string
		Holder    Holder
	}
	// CallBack starts one attempt to deliver the end of the task.
	CallBack struct{ GUID, UID string }
)

func (RequestAuction) effect()  {}
func (WithdrawAuction) effect() {}
func (AttemptDropped) effect()  {}
func (CancelContainer) effect() {}
func (CallBack) effect()        {}

// Env is the input of Step besides the row.
type Env struct {
	Now time.Time
	// Eligible reports whether the cell process of a Start may be given work.
	Eligible bool
	// Over is for how long at least the task of a Delete has been over, HolderDead whether the
	// process that its row names is certainly dead.
	Over       time.Duration
	HolderDead bool
	// Older: the row of a Missing may be older than the work of the cells. The task may have ended, and
	// its cell may have reported that, since the row was stored.
	Older  bool
	Policy Policy
}

// Policy holds the leader's settings for tasks. Zero fields mean the defaults in
// the comments.
type Policy struct {
	// Retention keeps a COMPLETED task; 0 = 24 h, -1 = the notes' two minutes.
	Retention time.Duration
	// KeepPerDomain is how many ended tasks a domain keeps; 0 = 10,000.
	KeepPerDomain int
	// Kick is how long a PENDING task waits before its placement is requested again, and a COMPLETED
	// one before its callback is; 0 = 30 s.
	Kick time.Duration
	// StuckResolving demotes a RESOLVING task; 0 = 30 s.
	StuckResolving time.Duration
	// CallbackRuns is after how many runs of attempts a callback is a dead letter; 0 = 10.
	CallbackRuns int
	// Rejections is how often cells may fail to make its container; the next one fails the task; 0 = 3.
	Rejections int
}

// seedRetention is the notes' retention of completed tasks.
const seedRetention = 2 * time.Minute

// WithDefaults returns p with every zero field replaced by its default.
func (p Policy) WithDefaults() Policy {
	dur := func(v *time.Duration, def time.Duration) {
		if *v == 0 {
			*v = def
		}
	}
	num := func(v *int, def int) {
		if *v == 0 {
			*v = def
		}
	}
	dur(&p.Retention, 24*time.Hour)
	dur(&p.Kick, 30*time.Second)
	dur(&p.StuckResolving, 30*time.Second)
	num(&p.KeepPerDomain, 10000)
	num(&p.CallbackRuns, 10)
	num(&p.Rejections, 3)
	return p
}

// seed reports whether tasks are kept by Diego's rule: deleted once delivered, and two minutes
// after their end in any case.
func (p Policy) seed() bool { return p.Retention < 0 }

// KeptFor returns how long an ended task is kept.
func (p Policy) KeptFor() time.Duration {
	if p.seed() {
		return seedRetention
	}
	return p.Retention
}

package worker

import (
	"time"

	"cantina/fence"
	"cantina/workerset"
)

// Protocol is the version of the worker protocol spoken by this code. Both ends
// compare for equality (Bistro: the checker runs on both sides).
const Protocol = 1

// Heartbeat is the call by which a cell associates with a leader and keeps its session alive
// (Bistro worker protocol, "processHeartbeat").
//
// Failure: the cell sends another heartbeat, to another server, within a second. Partial failure
// (received, response lost): the leader's view is fresher than the cell's, so the cell gives up
// first. Delay: the cell counts credit from the sending time of the heartbeat, so a late response
// grants less, never more; of a response to an older heartbeat than the newest answered one, only
// the term is used. Replay: harmless, the leader counts receipt, the cell counts sending.
// Identity: the call names cell and process; a process that does not hold its cell's name is
// refused.
type Heartbeat struct {
	Protocol int
	// Cluster is the one the cell belongs to; empty before its first join.
	Cluster fence.Cluster
	Term    fence.Term // highest term the cell has seen
	Cell    CellName
	Proc    Proc
	// DirID is the id of the data directory whose lock the process holds; Started counts the sessions
	// begun on it, so that the later of two processes of one directory is known. Boot is the boot id
	// of the machine.
	DirID   string
	Started int64
	Boot    string
	// Beat counts the heartbeats of this process from 1.
	Beat int64
	// Epoch is that of the last leader that gave this process credit; 0 = none yet.
	Epoch int64
	// SetID is the newest worker set the cell was given, by this leader or an earlier one.
	SetID workerset.ID
	// HasWork: the process holds deadline-bound work (batch tasks, tasks with
	// on_lost end, exclusive services).
	HasWork bool
	// Promise is the dies-within that the reaper's deadline was last set by.
	Promise time.Duration
	// Period is the cell's own heartbeat period.
	Period time.Duration
	// Predecessor is the process before this one on the directory, if known. PredecessorsGone: every
	// container of earlier processes of the directory is gone or is among this process's own as
	// adopted.
	Predecessor      Proc
	PredecessorsGone bool
	// Deregister: the process is empty and will never take work again.
	Deregister bool
	// Returns: the process ends, and leaves work behind that the next one of its directory takes
	// over. Its session lapses by time, as that of one which was killed.
	Returns bool
}

// Verdict is the leader's decision on a heartbeat.
type Verdict int

// The verdicts.
const (
	// Welcome: the session continues; the response has its state.
	Welcome Verdict = iota
	// Refused: wrong protocol version or an outdated process; no state in the answer.
	Refused
	// Die: end deadline-bound work, begin a new session, keep free work.
	Die
	// DieAll: end everything and exit (the displaced holder of a cell name, or the
	// rejected newcomer).
	DieAll
	// Foreign: the cell belongs to another cluster. Nothing else of the answer counts.
	Foreign
	// Adopt: as Foreign, and an operator of the answering cluster has decided that the
	// cell joins it.
	Adopt
)

// String returns the lower case name.
func (v Verdict) String() string {
	switch v {
	case Welcome:
		return "welcome"
	case Refused:
		return "refused"
	case Die:
		return "die"
	case DieAll:
		return "die-all"
	case Foreign:
		return "foreign"
	case Adopt:
		return "adopt"
	}
	return "unknown verdict"
}

// HeartbeatAnswer answers one Heartbeat.
type HeartbeatAnswer struct {
	Protocol int
	Cluster  fence.Cluster // of the leader
	Term     fence.Term
	Proc     Proc // the addressee
	Beat     int64
	Verdict  Verdict
	Reason   string // why not Welcome
	State    State  // of the session, as the leader sees it
	Reported bool   // the leader has this process's list of running tasks
	Eligible bool   // the member row is durable: the process may take work
	// Credit: deadline-bound work may live until Promise after the heartbeat was SENT.
	Credit  bool
	Promise time.Duration // dies-within; 0 = no deadline (leader and cell are one process)
	// Resolved is the highest counter of this term such that no RunTask with it or a
	// lower one can still be wanted by the leader from this process.
	Resolved int64
	Timeouts Timeouts
	// SetID is the list, or with the other witness the worker set, which the process shows from now
	// on; zero: it continues with its present one.
	SetID workerset.ID
}

// possible reports whether a welcome has timeouts that can work, so that no response makes a cell
// spin or lets work live forever.
func (a *HeartbeatAnswer) possible() bool {
	return a.Verdict != Welcome || a.Timeouts.Validate() == nil && a.Promise >= 0 && a.Promise <= a.Timeouts.MaxDiesWithin
}

// ReportRequest requests a cell process's whole running work (Bistro getRunningTasks). The cell
// raises its term, becomes NEW and takes the snapshot in one step. Failure and partial failure:
// repeated each check interval while the session is NEW. Delay and replay: a report of another
// term or process, or a second one, is ignored. Identity: Proc must be the receiver's.
type ReportRequest struct {
	Term fence.Term
	Proc Proc
}

// Held is one batch invocation that a cell process still answers for.
type Held struct {
	Run
	// Ended: the process has ended and its status is not acknowledged yet.
	Ended bool
	// Adopted: taken over from a predecessor on the same directory.
	Adopted bool
}

// Report answers ReportRequest. Held is sorted by invocation. It contains ended invocations whose
// status is not acknowledged, and no probe.
type Report struct {
	Term             fence.Term // the cell's, after the request
	Proc             Proc
	Predecessor      Proc
	PredecessorsGone bool
	Held             []Held
	// Alive are the containers of services and tasks that the process has and that have not ended,
	// sorted by id. Work that it took over from a predecessor is included, and does not die with
	// that one.
	Alive []Alive
}

// Alive is one container of a service or a task that has not ended.
type Alive struct {
	ID string // the instance, or the uid of the task
	// Task is the guid of a task.
	Task string
	// Bound: it ends when its cell has had no leader for too long.
	Bound bool
	// Older: it was started for another store, or before this one was restored, so that the store
	// need not know it.
	Older bool
	// Process, Index, Domain and Service are those of an instance that runs at most once; empty for
	// other instances.
	Process         string
	Index           int
	Domain, Service string
}

// RunTask starts one invocation, or probes the cell (Bistro runTask; the probe is its
// healthcheck).
//
// Failure: a refusal by the cell means "certainly not started", except for Stale, which proves
// nothing. Partial failure: an unknown outcome puts the invocation on the unsure list, the leader
// asks with Notify; it never sends a RunTask twice. Delay: a RunTask that arrives after a later
// Notify carries too low a Seq and is refused. Replay: a held invocation answers OK, a seen one
// Stale. Identity: Term and Proc must be the cell's own.
type RunTask struct {
	Term fence.Term
	Proc Proc
	Run
	Seq int64 // the leader's notify sequence number for this process
	// Probe > 0 makes this a healthcheck with that number instead of a task; Beat is the newest
	// heartbeat that the leader had from the process when it sent the probe.
	Probe int64
	Beat  int64
}

// RunResult is the result of one RunTask for the leader.
type RunResult int

// The results of a RunTask.
const (
	// RunUnknown: no answer, or an error that does not prove anything.
	RunUnknown RunResult = iota
	// RunOK: started, or held already; its end will certainly be reported.
	RunOK
	// RunNeverSent: no connection; the request never left.
	RunNeverSent
	// RunRefused: the cell refused and will refuse every copy.
	RunRefused
	// RunStale: the counter is resolved or was seen before. Proves nothing.
	RunStale
)

// String returns the lower case name.
func (r RunResult) String() string {
	switch r {
	case RunUnknown:
		return "unknown"
	case RunOK:
		return "ok"
	case RunNeverSent:
		return "never sent"
	case RunRefused:
		return "refused"
	case RunStale:
		return "stale_invocation"
	}
	return "RunResult?"
}

// RunAnswer answers a RunTask.
type RunAnswer struct {
	Term   fence.Term
	Proc   Proc
	Run    Run
	Result RunResult
	Reason string
}

// Notify is notifyIfTasksNotRunning: the cell reports "was not running" for each
// of Runs that it does not hold. Seq must be higher than any the cell has seen
// in this term. Failure and partial failure: sent again with a higher Seq and
// growing pauses until it succeeds. Delay and replay: a lower or equal Seq is
// refused. Identity: Term and Proc must be the cell's own.
type Notify struct {
	Term fence.Term
	Proc Proc
	Seq  int64
	Runs []Run
}

// NotifyAnswer answers a Notify. OK = the sequence number was taken.
type NotifyAnswer struct {
	Term fence.Term
	Proc Proc
	Seq  int64
	OK   bool
}

// KillTask ends one invocation on a cell (Bistro killTask). It changes no state at either end; the
// end arrives as a status.
//
// Failure: the leader repeats it each 5 s while the invocation is in the model, and to the process
// that has adopted it; the intent is stored, so that the next leader does the same. Partial
// failure (done, response lost): the repetition finds the container ending, or ended. Delay and
// replay: harmless, an invocation is unique and never started again. A kill that arrives before
// its task is answered "not held" and repeated. Identity: Term and Proc must be the cell's own.
type KillTask struct {
	Term fence.Term
	Proc Proc
	Run  Run
}

// Suicide is requestSuicide: Die, or DieAll. The cell acts as on the verdict of the same name.
//
// Failure: it has no response; the same verdict is the response to each later heartbeat, and a
// cell that receives neither gives up by its own deadline. Partial failure: the same, once. Delay
// and replay: harmless, Proc must be the receiver's and a process id is never used twice.
// Identity: Proc as above, and Term must not be lower than the cell's.
type Suicide struct {
	Term fence.Term
	Proc Proc
	All  bool
}

// StatusKind is the subject of a StatusItem.
type StatusKind int

// The kinds of a status item.
const (
	// StatusEnded: the invocation ended; Status has the scheduler's bytes.
	StatusEnded StatusKind = iota
	// StatusNotRunning answers a Notify.
	StatusNotRunning
	// StatusProbe answers a probe.
	StatusProbe
)

// StatusItem is one line of an UpdateStatus.
type StatusItem struct {
	Kind   StatusKind
	Run    Run    // Ended, NotRunning
	Status string // Ended: bytes for the scheduler, opaque here
	Probe  int64  // Probe: its number
	OK     bool   // Probe: it succeeded
	Reason string // Probe: why not
}

// UpdateStatus is updateStatus (Bistro worker protocol): ended invocations and "was not running",
// batched; or results of probes, which need no commit and are sent separately.
//
// Failure: each item is repeated until acknowledged. Partial failure (applied, acknowledgement
// lost): the repetition finds the invocation as the last applied one of its row and is
// acknowledged without being counted. Delay: harmless. Replay: as partial failure. Identity: the
// item must match work, invocation and process in the leader's model; the response for a session
// that has not reported is "retry".
type UpdateStatus struct {
	Cluster fence.Cluster
	Term    fence.Term
	Cell    CellName
	Proc    Proc
	Items   []StatusItem
}

// StatusAnswer answers one item of an UpdateStatus. For an ended invocation OK follows only after
// the status is durable; until then there is no response.
type StatusAnswer struct {
	Term fence.Term
	Proc Proc
	Kind StatusKind
	Run  Run
	// Probe is the number of the probe.
	Probe int64
	// OK: the cell may forget the item; otherwise it sends it again later.
	OK bool
}

package worker

import (
	"time"

	"cantina/fence"
)

// CellEvent is an input of Cell.Step.
type CellEvent interface{ cellEvent() }

// CellTick is the passage of time; it has an effect only when Cell.Due has come.
type CellTick struct{}

// BeatAnswered is the answer to a heartbeat.
type BeatAnswered struct{ Answer HeartbeatAnswer }

// BeatFailed: a heartbeat got no response (of this leader).
type BeatFailed struct{ Beat int64 }

// LinkBroken: the connection to the leader broke; send a heartbeat at once.
type LinkBroken struct{}

// StateChanged: the cell's data in its heartbeats has changed, and the leader waits for it; send a
// heartbeat at once.
type StateChanged struct{}

// ReportAsked is a GetRunningTasks call; the effect AnswerReport answers it.
type ReportAsked struct{ Call ReportRequest }

// RunAsked is a RunTask call; AnswerRun answers it.
type RunAsked struct{ Call RunTask }

// NotifyAsked is a NotifyIfTasksNotRunning call; AnswerNotify answers it.
type NotifyAsked struct{ Call Notify }

// KillAsked is a KillTask call; AnswerKill answers it.
type KillAsked struct{ Call KillTask }

// SuicideAsked is a RequestSuicide call.
type SuicideAsked struct{ Call Suicide }

// StatusAnswered is the answer to one item of an UpdateStatus.
type StatusAnswered struct{ Answer StatusAnswer }

// StatusFailed: an UpdateStatus got no response for its unanswered items; they are due again.
type StatusFailed struct{}

// WorkEnded is the executor's report that the process tree of an invocation is gone; Status has
// the bytes for the scheduler.
type WorkEnded struct {
	Run    Run
	Status string
}

// EndsCollected are the ends that the shell found when the cell was Overdue. A repeated one
// changes nothing.
type EndsCollected struct{ Ends []WorkEnded }

// ProbeEnded is the result of a probe.
type ProbeEnded struct {
	Probe  int64
	OK     bool
	Reason string
}

// BoundCount is the number of deadline-bound containers besides batch tasks that the process holds
// (tasks with on_lost end, exclusive services, services with on_partition stop). Lasting is how
// many of these and of its batch tasks continue when the process ends: there is no deregistration
// while they may, and waiting for them has no effect. Kept counts those that are not
// deadline-bound, and outlive it too.
type BoundCount struct{ Containers, Lasting, Kept int }

// PredecessorsCleared: every container of an earlier process of the directory is gone or adopted
// by this one.
type PredecessorsCleared struct{}

// SessionBegun gives the cell the identity of its next session, after NewSession:
// a fresh random id and the next number of the directory, both durable in it.
type SessionBegun struct {
	Proc    Proc
	Started int64
}

// CallHeard is the term of any other call or answer of a leader (Perform,
// StopWork, a NotLeader answer): a higher one raises the cell's before the
// call is looked at.
type CallHeard struct{ Term fence.Term }

// Addressed is the identity in any call of a leader, before the rest of the call is read;
// Cell.Cluster then returns whether it is the cell's own.
type Addressed struct {
	Cluster fence.Cluster
	Proc    Proc
}

// LeaveAsked is an orderly shutdown: when the cell is empty it deregisters.
type LeaveAsked struct{}

func (CellTick) cellEvent()            {}
func (BeatAnswered) cellEvent()        {}
func (BeatFailed) cellEvent()          {}
func (LinkBroken) cellEvent()          {}
func (StateChanged) cellEvent()        {}
func (ReportAsked) cellEvent()         {}
func (RunAsked) cellEvent()            {}
func (NotifyAsked) cellEvent()         {}
func (KillAsked) cellEvent()           {}
func (SuicideAsked) cellEvent()        {}
func (StatusAnswered) cellEvent()      {}
func (StatusFailed) cellEvent()        {}
func (WorkEnded) cellEvent()           {}
func (EndsCollected) cellEvent()       {}
func (ProbeEnded) cellEvent()          {}
func (BoundCount) cellEvent()          {}
func (PredecessorsCleared) cellEvent() {}
func (SessionBegun) cellEvent()        {}
func (CallHeard) cellEvent()           {}
func (Addressed) cellEvent()           {}
func (LeaveAsked) cellEvent()          {}

// CellEffect is something the cell's shell does. They are performed in order.
type CellEffect interface{ cellEffect() }

// SendBeat sends a heartbeat to the leader, or the next server of the list.
type SendBeat struct{ Beat Heartbeat }

// SendStatus calls UpdateStatus.
type SendStatus struct{ Update UpdateStatus }

// AnswerReport answers ReportAsked.
type AnswerReport struct{ Report Report }

// AnswerRun answers RunAsked.
type AnswerRun struct{ Answer RunAnswer }

// AnswerNotify answers NotifyAsked.
type AnswerNotify struct{ Answer NotifyAnswer }

// AnswerKill answers KillAsked; Found false = the invocation is not held.
type AnswerKill struct {
	Run   Run
	Found bool
}

// Launch starts the container of an invocation. Its end is reported as WorkEnded, also if it could
// not start.
type Launch struct{ Run Run }

// StopWork ends the container of one invocation gracefully.
type StopWork struct{ Run Run }

// StartProbe makes and removes a real container; ProbeEnded answers it.
type StartProbe struct{ Probe int64 }

// SetDeadline gives the reaper the time (CLOCK_BOOTTIME) at which it ends every deadline-bound
// container with SIGKILL: the promise less the kill wait, counted from the sending time of the
// credited heartbeat. 0 = no deadline.
type SetDeadline struct{ At time.Duration }

// EndBound ends all deadline-bound work: SIGTERM, and SIGKILL after the shorter of the work's own grace and Grace.
// Free work stays.
type EndBound struct {
	Grace  time.Duration
	Reason string
}

// EndAll ends everything and exits.
type EndAll struct{ Reason string }

// NewSession requests the identity of the next session from the shell; SessionBegun answers it.
type NewSession struct{}

// CellChanged reports its session's state to the cell's own log and harmoniser.
type CellChanged struct {
	From, To State
	Reason   string
}

// ForeignHeard reports to the cell's log that a leader of another cluster answered.
type ForeignHeard struct {
	Cluster fence.Cluster
	Reason  string
}

// TermRefused reports to the cell's log that a leader's term is impossible, and was not adopted.
type TermRefused struct{ Term fence.Term }

// Exit: the process may end. Its deregistration was acknowledged, or all its work outlives it.
type Exit struct{}

func (SendBeat) cellEffect()     {}
func (SendStatus) cellEffect()   {}
func (AnswerReport) cellEffect() {}
func (AnswerRun) cellEffect()    {}
func (AnswerNotify) cellEffect() {}
func (AnswerKill) cellEffect()   {}
func (Launch) cellEffect()       {}
func (StopWork) cellEffect()     {}
func (StartProbe) cellEffect()   {}
func (SetDeadline) cellEffect()  {}
func (EndBound) cellEffect()     {}
func (EndAll) cellEffect()       {}
func (NewSession) cellEffect()   {}
func (CellChanged) cellEffect()  {}
func (Exit) cellEffect()         {}
func (ForeignHeard) cellEffect() {}
func (TermRefused) cellEffect()  {}

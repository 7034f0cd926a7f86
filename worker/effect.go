package worker

import (
	"time"

	"cantina/fence"
)

// Effect is an action of the leader's shell, after a commit if it NeedsCommit. Losing one is safe:
// the next tick, heartbeat or report requests it again.
type Effect interface{ effect() }

// AnswerBeat answers the heartbeat (Proc, Beat) that Answer names.
type AnswerBeat struct{ Answer HeartbeatAnswer }

// AnswerStatus answers one item of an UpdateStatus of Answer.Proc.
type AnswerStatus struct{ Answer StatusAnswer }

// SendReportRequest calls GetRunningTasks of a cell process.
type SendReportRequest struct {
	Cell CellName
	Call ReportRequest
}

// SendRun calls RunTasks with one item; the shell batches neighbours and adds the scheduler's data
// for the invocation.
type SendRun struct {
	Cell CellName
	Call RunTask
}

// SendNotify calls NotifyIfTasksNotRunning.
type SendNotify struct {
	Cell CellName
	Call Notify
}

// SendKill calls KillTask.
type SendKill struct {
	Cell CellName
	Call KillTask
}

// SendSuicide calls RequestSuicide.
type SendSuicide struct {
	Cell CellName
	Call Suicide
}

// SessionChanged reports a session's new state to the board, the auctioneer and the status page.
// WasHealthy: the session has been HEALTHY in this term; a change HEALTHY → UNHEALTHY makes the
// cell's RUNNING services suspect; MUST_DIE removes its rows from the cell. Displaced: another
// process took the cell's name. Succeeded: it was a later process of the same boot on the same
// directory, which may have adopted work that survives the restart of a cell; Dead follows when it
// has reported.
type SessionChanged struct {
	Cell       CellName
	Proc       Proc
	From, To   State
	WasHealthy bool
	Displaced  bool
	Succeeded  bool
	Reason     string
}

// Unheard reports to the board that a process has not been HEALTHY in this term and is silent. The
// silence has lasted for the time after which a HEALTHY one becomes UNHEALTHY. Its RUNNING
// services become suspect, and get no traffic. It is emitted once; HEALTHY ends it.
type Unheard struct {
	Cell   CellName
	Proc   Proc
	Reason string
}

// Availability: a cell's probe failed three times in a row (then it gets no new work of any kind),
// or succeeds again.
type Availability struct {
	Cell        CellName
	Proc        Proc
	Unavailable bool
	Reason      string
}

// Eligible: a process may get work from now on, according to the member list: its list of running
// tasks is known and its row durable.
type Eligible struct {
	Cell CellName
	Proc Proc
}

// Proof is why a process is certainly dead.
type Proof int

// The proofs of death (docs/design/safety.md, Members).
const (
	// ProofDeregistered: it reported that it is empty and takes no work.
	ProofDeregistered Proof = iota
	// ProofExpiry: its promise passed without credit.
	ProofExpiry
	// ProofSuccessor: a later holder of its directory's lock has shown its containers gone or adopted.
	ProofSuccessor
	// ProofBoot: a later holder of its directory's lock runs under another boot id.
	ProofBoot
	// ProofOperator: an operator's audited declaration.
	ProofOperator
)

// String returns the text for the status page.
func (p Proof) String() string {
	switch p {
	case ProofDeregistered:
		return "deregister"
	case ProofExpiry:
		return "expiry"
	case ProofSuccessor:
		return "successor on its directory"
	case ProofBoot:
		return "machine rebooted"
	case ProofOperator:
		return "operator's word"
	}
	return "unknown proof"
}

// Words describes why the process is certainly dead.
func (p Proof) Words() string {
	switch p {
	case ProofDeregistered:
		return "deregistered"
	case ProofExpiry:
		return "it was silent for longer than its work may live"
	case ProofSuccessor:
		return "a later process of it has shown that the work is gone"
	case ProofBoot:
		return "its machine has started anew"
	case ProofOperator:
		return "an operator declared it dead"
	}
	return p.String()
}

// Dead: a process is certainly dead; none of its deadline-bound work is alive or can start. The
// board ends its tasks as lost and releases its exclusive services. For batch tasks Ended effects
// come first, in the same Output; the member row is deleted when their statuses are durable.
type Dead struct {
	Cell  CellName
	Proc  Proc
	Proof Proof
	// Successor is the process that had the cell's name when the death was found; empty = none. Another
	// may have it when the effect is released. If the proof is a later process of the directory, it is
	// one of that directory.
	Successor Proc
}

// Synthetic distinguishes an end that no process reported from a reported one.
type Synthetic int

// The kinds of an end.
const (
	// Real: the cell reported it; Status has its bytes.
	Real Synthetic = iota
	// NeverStarted: the invocation certainly did not start and cannot any more.
	NeverStarted
	// Lost: the process that had it is certainly dead.
	Lost
)

// String returns the lower case words.
func (s Synthetic) String() string {
	switch s {
	case Real:
		return "real"
	case NeverStarted:
		return "never started"
	case Lost:
		return "lost"
	}
	return "unknown end"
}

// Ended passes an ended invocation to the batch scheduler, before it is acknowledged to the cell.
// The scheduler commits the status row (or decides that none is needed, or that it replaces a
// synthetic one) and then calls StatusCommitted; until then the work counts as running.
type Ended struct {
	Run    Run
	Cell   CellName
	Proc   Proc
	Kind   Synthetic
	Status string // Real: the cell's bytes
	Reason string // synthetic: why
}

// StartsChanged reports to the scheduler and the board that MayStart may now permit more: the wait
// ended, a cell became healthy or eligible, a process died.
type StartsChanged struct{}

// AuditKind names an audited event.
type AuditKind int

// The audited events.
const (
	// AuditDoubled: two invocations of one work were reported, or work was started
	// while the list had gone back unnoticed: it may have run twice.
	AuditDoubled AuditKind = iota
	// AuditStale: the member list is older than a cell's copy.
	AuditStale
	// AuditWaitEnded: the initial wait ended.
	AuditWaitEnded
	// AuditWaitForced: an operator ended the initial wait, or set its length.
	AuditWaitForced
	// AuditForgotten: an operator declared a process dead.
	AuditForgotten
	// AuditRefused: remote input that no correct peer sends was refused.
	AuditRefused
	// AuditTerm: messages with a term that cannot be were refused.
	AuditTerm
	// AuditAdopted: an operator lets a cell of another cluster join.
	AuditAdopted
)

// Audit is an event for the audit log and the status page.
type Audit struct {
	Kind AuditKind
	Cell CellName
	Proc Proc
	Run  Run
	Text string
}

// EndTerm: a higher term was received, the leader is deposed. The shell ends the term; the Leader
// accepts no further event.
type EndTerm struct{ Higher fence.Term }

// NeedsCommit reports whether an effect may leave only after the commit of its Output and of all
// before it. Responses and requests that rest on durable rows alone, and promise nothing else,
// need none: they must not wait for a slow or full store, because a cell without a response ends
// its work. Eligible, Promise and SetID of a welcome come from durable rows; its state and its
// Resolved mark are not stored. DIE, DIE-ALL and Adopt wait: they may rest on rows that are being
// committed. (docs/decisions/0525-what-needs-no-write-goes-on.md)
func NeedsCommit(e Effect) bool {
	switch e := e.(type) {
	case AnswerBeat:
		return e.Answer.Verdict != Welcome && e.Answer.Verdict != Refused && e.Answer.Verdict != Foreign
	case AnswerStatus:
		return e.Answer.OK && e.Answer.Kind != StatusProbe
	case SendRun:
		return e.Call.Probe == 0
	case SendReportRequest:
		return false
	}
	return true
}

func (AnswerBeat) effect()        {}
func (AnswerStatus) effect()      {}
func (SendReportRequest) effect() {}
func (SendRun) effect()           {}
func (SendNotify) effect()        {}
func (SendKill) effect()          {}
func (SendSuicide) effect()       {}
func (SessionChanged) effect()    {}
func (Unheard) effect()           {}
func (Availability) effect()      {}
func (Eligible) effect()          {}
func (Dead) effect()              {}
func (Ended) effect()             {}
func (StartsChanged) effect()     {}
func (Audit) effect()             {}
func (EndTerm) effect()           {}

// Hold is why a piece of work may not start now, for Explain and the status page.
type Hold struct {
	Reason HoldReason
	// Cell, Proc: the process that it waits for, or where it runs.
	Cell CellName
	Proc Proc
	// Invocation is the one that may still run.
	Invocation fence.Invocation
	// Waiting is how many processes the initial wait waits for.
	Waiting int
	// Longest is how long it lasts at most from now; 0 = unknown or no bound.
	Longest time.Duration
}

// HoldReason is why.
type HoldReason int

// The reasons.
const (
	// HoldNone: it may start.
	HoldNone HoldReason = iota
	// HoldNoSession: no process has a session under the cell's name.
	HoldNoSession
	// HoldNotHealthy: the cell's session is not HEALTHY.
	HoldNotHealthy
	// HoldNotReported: the cell has not reported its running work.
	HoldNotReported
	// HoldNotMember: the cell's member row is not durable yet.
	HoldNotMember
	// HoldUnavailable: the cell's probe fails.
	HoldUnavailable
	// HoldRunning: an invocation of the work may still run.
	HoldRunning
	// HoldWait: the initial wait; a process without contact in this term may run it.
	HoldWait
	// HoldNode: the initial wait: the work draws on a node that held work may use.
	HoldNode
	// HoldConsensus: the worker set does not permit the cell its first work yet.
	HoldConsensus
	// HoldDeposed: the term is over.
	HoldDeposed
	// HoldVetoed: the requester withdrew the start.
	HoldVetoed
)

// String returns the text for the status page.
func (r HoldReason) String() string {
	switch r {
	case HoldNone:
		return "may start"
	case HoldNoSession:
		return "no cell of this name reports"
	case HoldNotHealthy:
		return "cell is not healthy"
	case HoldNotReported:
		return "cell has not reported what it runs"
	case HoldNotMember:
		return "cell's member row is not durable yet"
	case HoldUnavailable:
		return "cell's probe fails"
	case HoldRunning:
		return "an earlier invocation may still run"
	case HoldWait:
		return "initial wait: a cell that has not reported yet may run it"
	case HoldNode:
		return "initial wait: draws on a node that held work may use"
	case HoldConsensus:
		return "worker set not agreed yet"
	case HoldVetoed:
		return "taken back"
	case HoldDeposed:
		return "no longer the leader"
	}
	return "unknown"
}

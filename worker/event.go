package worker

import (
	"cantina/fence"
)

// Event is an input of Leader.Step.
type Event interface{ event() }

// Tick is the passage of time, once each check interval. LeaseHeld: the shell has proof of the
// lease now. Policy timers stop without it, safety timers do not. Behind are those cells of Late
// from which something has arrived that the leader has not handled: it is late, they are not silent.
type Tick struct {
	LeaseHeld bool
	Behind    []CellName
}

// BeatReceived is a heartbeat. LeaseHeld was read after it was received; without it there is no credit.
type BeatReceived struct {
	Beat      Heartbeat
	LeaseHeld bool
}

// ReportReceived is the answer to a ReportRequest.
type ReportReceived struct{ Report Report }

// StatusReceived is an UpdateStatus call.
type StatusReceived struct{ Update UpdateStatus }

// RunAnswered is the result of a RunTask, made by the shell if there was no response.
type RunAnswered struct{ Answer RunAnswer }

// NotifyAnswered is the result of a Notify (OK false if there was no response).
type NotifyAnswered struct{ Answer NotifyAnswer }

// TermHeard is a term seen in any other call or answer of a cell process of this cluster.
type TermHeard struct {
	Cell CellName
	Proc Proc
	Term fence.Term
}

// AdoptWanted is an operator's `cells adopt`: a cell of another cluster may join this one.
type AdoptWanted struct {
	Cell CellName
	By   string
}

// Committed: the Output of that number, and all before it, are durable.
type Committed struct{ Seq int64 }

// StatusCommitted is the scheduler's report that the end of Run that it got in an Ended effect of
// the same Kind is durable (or needs no row): the work may start again and, for a real end, the
// cell is acknowledged.
type StatusCommitted struct {
	Run  Run
	Kind Synthetic
}

// KillWanted is the scheduler's stored intent to end an invocation.
type KillWanted struct{ Run Run }

// EndWait is an operator's `leader end-wait --accept-double-starts`.
type EndWait struct{ By string }

// Forget is an operator's `cells forget P`.
type Forget struct {
	Proc Proc
	By   string
}

func (Tick) event()            {}
func (BeatReceived) event()    {}
func (ReportReceived) event()  {}
func (StatusReceived) event()  {}
func (RunAnswered) event()     {}
func (NotifyAnswered) event()  {}
func (TermHeard) event()       {}
func (AdoptWanted) event()     {}
func (Committed) event()       {}
func (StatusCommitted) event() {}
func (KillWanted) event()      {}
func (EndWait) event()         {}
func (Forget) event()          {}

// Statuses is how Leader looks up the ends that the scheduler has applied. It answers from the
// scheduler's newest rows, without blocking.
type Statuses interface {
	// LastApplied returns the invocation whose end was last applied to the status row of the work;
	// real is false for a synthetic end. Zero if there is none.
	LastApplied(Work) (inv fence.Invocation, real bool)
	// KillStored reports a stored intent to kill the invocation.
	KillStored(Run) bool
}

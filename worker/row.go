package worker

import (
	"time"

	"cantina/workerset"
)

// Member is one row of the member list, the second witness: a cell process that
// may hold deadline-bound work. Durable before the first answer that lets the
// process take work; deleted only when the process is certainly dead.
type Member struct {
	Proc    Proc
	Cell    CellName
	DirID   string
	Started int64
	Boot    string
	// Promise is dies-within: the longest promise in force to the process. Raised
	// here before a longer one is sent, lowered after the shorter one was
	// acknowledged. Waits use it, not the flags of a new leader.
	Promise time.Duration
	// Displaced: another process holds the cell's name now.
	Displaced bool
}

// Possible reports a row that can be computed with: no leader writes another one, and a wait by the
// promise of another one could be over at once.
func (m Member) Possible() bool { return m.Promise >= 0 && m.Promise <= longestDuration }

// Row is one change of the store, part of the one transition of an Output.
type Row interface{ row() }

// PutMember writes member/<proc>.
type PutMember struct{ Member Member }

// DeleteMember deletes member/<proc>.
type DeleteMember struct{ Proc Proc }

// PutList writes listver: the version and hash of the member list.
type PutList struct{ ID workerset.ID }

// PutAlone writes alone: only leaders that are one process with their only cell have led the cluster.
type PutAlone struct{}

// ClearRestored sets head.restored = false (store.Leadership.ClearRestored).
type ClearRestored struct{}

func (PutMember) row()     {}
func (DeleteMember) row()  {}
func (PutList) row()       {}
func (PutAlone) row()      {}
func (ClearRestored) row() {}

// Output is the result of one step of the leader. Effects that need no commit (NeedsCommit) are
// performed at once. Rows are committed in one transition, then the other Effects are performed in
// order, then Committed{Seq} is passed in. Outputs are submitted in the order they were returned;
// one without rows is a barrier that queues behind the commits before it. One that has only
// effects of the first kind is not submitted. An Output whose Seq is 0 is empty and needs no
// action.
type Output struct {
	Seq     int64
	Rows    []Row
	Effects []Effect
}

// Split parts the effects into those that leave at once and those that wait for the commit, each in
// order. commit is false when there is nothing to submit.
func (o Output) Split() (atOnce, after []Effect, commit bool) {
	for _, e := range o.Effects {
		if NeedsCommit(e) {
			after = append(after, e)
		} else {
			atOnce = append(atOnce, e)
		}
	}
	return atOnce, after, len(o.Rows) > 0 || len(after) > 0
}

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

// Output is what one step of the leader wants done: Rows are committed in one
// transition, then the Effects are performed in order, then Committed{Seq} is
// handed in. Outputs are submitted in the order they were returned; one without
// rows is a barrier that queues behind the commits before it. An Output whose
// Seq is 0 is empty and needs nothing.
type Output struct {
	Seq     int64
	Rows    []Row
	Effects []Effect
}

package lrp

// columns is one block of the table: the action for each state of the ordinary
// row. It is only ever written without field names, so that a missing row of the
// table does not compile.
type columns struct {
	none, unclaimed, claimedSelf, claimedOther, runningSelf, runningOther, crashed Action
}

func (c *columns) at(r relation) Action {
	switch r {
	case relNone:
		return c.none
	case relUnclaimed:
		return c.unclaimed
	case relClaimedSelf:
		return c.claimedSelf
	case relClaimedOther:
		return c.claimedOther
	case relRunningSelf:
		return c.runningSelf
	case relRunningOther:
		return c.runningOther
	case relCrashed:
		return c.crashed
	}
	return Action{Grade: Inconceivable, Why: "unknown state of the row"}
}

// lrpTable has one block for each state of the container; see columns.
type lrpTable struct {
	noContainer, reserved, starting, up, crashed, shutdown columns
}

func (t *lrpTable) at(c Container) *columns {
	switch c {
	case NoContainer:
		return &t.noContainer
	case Reserved:
		return &t.reserved
	case Starting:
		return &t.starting
	case Up:
		return &t.up
	case CompletedCrashed:
		return &t.crashed
	case CompletedShutdown:
		return &t.shutdown
	}
	return &columns{}
}

// table is the notes' table "Harmonizing ActualLRPs with Container State: Rep",
// row by row. The rows "No Container" that the notes leave out name no cell, or
// another one: there is nothing to do.
func table() lrpTable {
	nothing := Action{Grade: Expected, Why: "the row does not name this cell"}
	del := func(why string) Action { return Action{Then: DeleteContainer, Grade: Conceivable, Why: why} }
	return lrpTable{
		columns{ // No Container
			nothing,
			nothing,
			Action{Call: CallRemove, Grade: Conceivable,
				Why: "no container for the claimed row: the leader decides whether it is still wanted"},
			nothing,
			Action{Call: CallRemove, Grade: Conceivable,
				Why: "no container for the running row: the leader decides whether it is still wanted"},
			nothing,
			nothing,
		},
		columns{ // RESERVED
			del("no longer desired"),
			Action{Call: CallClaim, Then: RunContainer, Refused: DeleteContainer, Grade: Expected,
				Why: "reserved for this row: claim, then run"},
			Action{Then: RunContainer, Grade: Conceivable, Why: "already claimed: make sure that it runs"},
			del("another cell is further ahead"),
			Action{Call: CallClaim, Then: RunContainer, Refused: DeleteContainer, Grade: Inconceivable,
				Why: "row is RUNNING before the start: correct it and run"},
			del("another cell is further ahead"),
			del("row is CRASHED: do not run this one"),
		},
		columns{ // INITIALIZING/CREATED
			del("no longer desired"),
			Action{Call: CallClaim, Refused: DeleteContainer, Grade: Inconceivable,
				Why: "started without a claim: correct the row"},
			Action{Grade: Expected, Why: "starting, as in the row"},
			del("starting elsewhere"),
			Action{Call: CallClaim, Refused: DeleteContainer, Grade: Inconceivable,
				Why: "row is RUNNING, but the instance is starting: correct the row"},
			del("running elsewhere"),
			del("started by mistake: another cell will take it over"),
		},
		columns{ // RUNNING
			Action{Call: CallStart, Refused: StopContainer, Grade: Conceivable,
				Why: "running without a row: report it to the leader"},
			Action{Call: CallStart, Refused: StopContainer, Grade: Conceivable, Why: "running here: no start elsewhere needed"},
			Action{Call: CallStart, Refused: StopContainer, Grade: Expected, Why: "running now; remove the evacuating row"},
			Action{Call: CallStart, Refused: StopContainer, Grade: Conceivable, Why: "running here: no start elsewhere needed"},
			Action{Grade: Expected, Why: "running, as in the row"},
			del("running elsewhere"),
			Action{Call: CallStart, Refused: StopContainer, Grade: Conceivable, Why: "running: not crashed, no restart needed"},
		},
		columns{ // COMPLETED (crashed)
			Action{Call: CallCrash, Then: DeleteContainer, Refused: DeleteContainer, Grade: Conceivable,
				Why: "crashed without a row: report it to the leader"},
			del("to be placed elsewhere"),
			Action{Call: CallCrash, Then: DeleteContainer, Refused: DeleteContainer, Grade: Expected,
				Why: "crashed here while starting"},
			del("starting elsewhere"),
			Action{Call: CallCrash, Then: DeleteContainer, Refused: DeleteContainer, Grade: Expected,
				Why: "crashed here while running"},
			del("running elsewhere"),
			del("crash already recorded"),
		},
		columns{ // COMPLETED (shutdown)
			del("stopped on request"),
			del("nothing to do"),
			Action{Call: CallRemove, Then: DeleteContainer, Refused: DeleteContainer, Grade: Conceivable,
				Why: "stopped on request: clean up the row"},
			del("starting elsewhere"),
			Action{Call: CallRemove, Then: DeleteContainer, Refused: DeleteContainer, Grade: Expected,
				Why: "stopped on request: clean up the row"},
			del("running elsewhere"),
			del("nothing to do"),
		},
	}
}

// actions is the table, built once.
var actions = table()

// Harmonise returns a cell's action on one instance so that its container and the rows agree.
// Beyond the table: a quarantined row leaves the container alone; a retiring instance is stopped,
// except if an older store does not contain it; a running instance is reported again if the row
// does not have its process, ports or readiness yet.
func Harmonise(v View) Action {
	if v.Quarantined {
		return Action{Grade: Inconceivable, Why: "row is unreadable: leave the container alone"}
	}
	mine := v.mine()
	alive := v.Container == Reserved || v.Container == Starting || v.Container == Up
	switch {
	case v.Container == NoContainer && mine != nil:
		return Action{Call: CallRemove, Grade: Conceivable,
			Why: "no container for the row: the leader decides whether it is still wanted"}
	case alive && mine != nil && mine.Retiring && !v.ending():
		return Action{Then: StopContainer, Grade: Expected, Why: "to be stopped"}
	case v.ending():
		return v.harmoniseEnding(mine)
	case (v.Container == CompletedShutdown || v.Container == CompletedCrashed) && mine != nil &&
		mine.Presence == Evacuating:
		return Action{Call: CallRemove, Then: DeleteContainer, Refused: DeleteContainer, Grade: Conceivable,
			Why: "it has ended, and the cell is not emptied any more: clean up the row"}
	case v.Container == Up && v.Rows.Ordinary.replaced(v.Self) && v.ready():
		return Action{Call: CallStart, Refused: StopContainer, Grade: Conceivable,
			Why: "replaced while its cell was silent; the cell is back, and it stays"}
	}
	if v.Container == Up && mine != nil && mine.Moving {
		a := HarmoniseEvacuating(v)
		if a.Call == CallEvacuate && !v.outdated(mine) {
			a.Call = NoCall
		}
		return a
	}
	if v.Older && v.Container == Starting && v.Rows.Empty() {
		return Action{Grade: Conceivable,
			Why: "started before this store was created or restored: report to the leader once it runs"}
	}
	a := actions.at(v.Container).at(relate(v.Rows, v.Self))
	if v.Older && v.Container == Up && v.Rows.Empty() {
		a.Refused = Leave // its removal was not decided
	}
	if v.Container == Up && a.Call == NoCall && a.Then == Leave && v.outdated(mine) {
		return Action{Call: CallStart, Grade: Expected, Why: "process, ports or readiness have changed"}
	}
	return a
}

// ending reports whether the running container is being ended, for any reason.
func (v View) ending() bool { return v.Container == Up && v.Net != nil && v.Net.Stopping }

// harmoniseEnding handles a running container that is being ended: its own row shows that, and it
// replaces no other.
func (v View) harmoniseEnding(mine *Actual) Action {
	if v.outdated(mine) {
		return Action{Call: CallStart, Grade: Expected, Why: "it is being ended: nothing is routed to it"}
	}
	return Action{Grade: Expected, Why: "it is being ended"}
}

func (v View) outdated(row *Actual) bool {
	return row != nil && (row.Proc != v.Self.Proc || v.Net != nil && (row.Unheard || !v.Net.Equal(row.Net)))
}

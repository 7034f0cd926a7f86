package lrp

// columns is one block of the table: the action for each state of the ordinary
// row. It is only ever written without field names, so that a missing row of the
// table does not compile.
type columns struct {
	none, unclaimed, claimedSelf, claimedOther, runningSelf, runningOther, crashed Action
}

func (c columns) at(r relation) Action {
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

func (t lrpTable) at(c Container) columns {
	switch c {
	case NoContainer:
		return t.noContainer
	case Reserved:
		return t.reserved
	case Starting:
		return t.starting
	case Up:
		return t.up
	case CompletedCrashed:
		return t.crashed
	case CompletedShutdown:
		return t.shutdown
	}
	return columns{}
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
			Action{Call: CallRemove, Grade: Conceivable, Why: "no container for the claimed row: the leader decides whether it is still wanted"},
			nothing,
			Action{Call: CallRemove, Grade: Conceivable, Why: "no container for the running row: the leader decides whether it is still wanted"},
			nothing,
			nothing,
		},
		columns{ // RESERVED
			del("not desired any more"),
			Action{Call: CallClaim, Then: RunContainer, Refused: DeleteContainer, Grade: Expected, Why: "reserved for this row: claim it, then run"},
			Action{Then: RunContainer, Grade: Conceivable, Why: "claimed already: make sure that it runs"},
			del("another cell got farther"),
			Action{Call: CallClaim, Then: RunContainer, Refused: DeleteContainer, Grade: Inconceivable, Why: "row says running before it ran: correct it and run"},
			del("another cell got farther"),
			del("the row is crashed: do not run this one"),
		},
		columns{ // INITIALIZING/CREATED
			del("not desired any more"),
			Action{Call: CallClaim, Refused: DeleteContainer, Grade: Inconceivable, Why: "started without a claim: correct the row"},
			Action{Grade: Expected, Why: "starting, as the row says"},
			del("being started elsewhere"),
			Action{Call: CallClaim, Refused: DeleteContainer, Grade: Inconceivable, Why: "row says running, but it only starts: correct it"},
			del("running elsewhere"),
			del("started wrongly: another cell will take it up later"),
		},
		columns{ // RUNNING
			Action{Call: CallStart, Refused: StopContainer, Grade: Conceivable, Why: "running without a row: tell the leader (a purged store must not end services)"},
			Action{Call: CallStart, Refused: StopContainer, Grade: Conceivable, Why: "running here: need not be started elsewhere"},
			Action{Call: CallStart, Refused: StopContainer, Grade: Expected, Why: "it runs now; the evacuating row goes"},
			Action{Call: CallStart, Refused: StopContainer, Grade: Conceivable, Why: "running here: need not be started elsewhere"},
			Action{Grade: Expected, Why: "running, as the row says"},
			del("running elsewhere"),
			Action{Call: CallStart, Refused: StopContainer, Grade: Conceivable, Why: "it runs: not crashed, need not be restarted"},
		},
		columns{ // COMPLETED (crashed)
			Action{Call: CallCrash, Then: DeleteContainer, Refused: DeleteContainer, Grade: Conceivable, Why: "crashed without a row: tell the leader what is known"},
			del("will be placed elsewhere"),
			Action{Call: CallCrash, Then: DeleteContainer, Refused: DeleteContainer, Grade: Expected, Why: "crashed here while starting"},
			del("being started elsewhere"),
			Action{Call: CallCrash, Then: DeleteContainer, Refused: DeleteContainer, Grade: Expected, Why: "crashed here while running"},
			del("running elsewhere"),
			del("the crash has been noted"),
		},
		columns{ // COMPLETED (shutdown)
			del("was told to stop"),
			del("nothing to be done"),
			Action{Call: CallRemove, Then: DeleteContainer, Refused: DeleteContainer, Grade: Conceivable, Why: "was told to stop: clean up the row"},
			del("being started elsewhere"),
			Action{Call: CallRemove, Then: DeleteContainer, Refused: DeleteContainer, Grade: Expected, Why: "was told to stop: clean up the row"},
			del("running elsewhere"),
			del("nothing to do"),
		},
	}
}

// Harmonise says what a cell does with one instance so that its container and the
// rows agree. Beside the table: a quarantined row leaves the container alone, an
// instance that is to be retired is stopped, one of which a younger store knows nothing is
// not, and a running instance whose process,
// ports or readiness the row does not know yet is reported again.
func Harmonise(v View) Action {
	if v.Quarantined {
		return Action{Grade: Inconceivable, Why: "its row cannot be read: leave the container alone"}
	}
	mine := v.mine()
	alive := v.Container == Reserved || v.Container == Starting || v.Container == Up
	switch {
	case v.Container == NoContainer && mine != nil:
		return Action{Call: CallRemove, Grade: Conceivable, Why: "no container for the row: the leader decides whether it is still wanted"}
	case alive && mine != nil && mine.Retiring && !v.ending():
		return Action{Then: StopContainer, Grade: Expected, Why: "it is to be stopped"}
	case v.ending():
		return v.harmoniseEnding(mine)
	case (v.Container == CompletedShutdown || v.Container == CompletedCrashed) && mine != nil && mine.Presence == Evacuating:
		return Action{Call: CallRemove, Then: DeleteContainer, Refused: DeleteContainer, Grade: Conceivable, Why: "it has ended, and the cell is not emptied any more: clean up the row"}
	case v.Container == Up && v.Rows.Ordinary.replaced(v.Self) && v.ready():
		return Action{Call: CallStart, Refused: StopContainer, Grade: Conceivable, Why: "replaced while its cell was silent: it is back, and stays"}
	}
	if v.Older && v.Container == Starting && v.Rows.Empty() {
		return Action{Grade: Conceivable, Why: "started before this store was made or restored: the leader hears of it when it runs"}
	}
	a := table().at(v.Container).at(relate(v.Rows, v.Self))
	if v.Older && v.Container == Up && v.Rows.Empty() {
		a.Refused = Leave // nobody has decided that it is not wanted
	}
	if v.Container == Up && a.Call == NoCall && a.Then == Leave && v.outdated(mine) {
		return Action{Call: CallStart, Grade: Expected, Why: "process, ports or readiness have changed"}
	}
	return a
}

// ending reports whether the running container is being ended, for whatever reason.
func (v View) ending() bool { return v.Container == Up && v.Net != nil && v.Net.Stopping }

// harmoniseEnding is for a running container that is being ended: its own row says so, and it takes
// no place.
func (v View) harmoniseEnding(mine *Actual) Action {
	if mine != nil && v.outdated(mine) {
		return Action{Call: CallStart, Grade: Expected, Why: "it is being ended: nothing is routed to it"}
	}
	return Action{Grade: Expected, Why: "it is being ended"}
}

func (v View) outdated(row *Actual) bool {
	return row != nil && (row.Proc != v.Self.Proc || v.Net != nil && (row.Unheard || !v.Net.Equal(row.Net)))
}

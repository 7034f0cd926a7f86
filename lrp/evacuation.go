package lrp

// evacRule is one row of the evacuation table: the write, and the cell's action on the container.
type evacRule struct {
	setEvacuating    bool // CREATE or Update /e: RUNNING-α
	unclaim          bool // Update /i: UNCLAIMED
	deleteEvacuating bool // Delete /e
	Then             Fate
	Grade            Grade
	Why              string
}

// copies is one block of the evacuation table: one rule for each state of the
// EVACUATING row (-, RUNNING-α, RUNNING-β). Only ever written without field names.
type copies struct{ none, self, other evacRule }

func (c copies) at(r copyRelation) evacRule {
	switch r {
	case copySelf:
		return c.self
	case copyOther:
		return c.other
	default:
		return c.none
	}
}

// evacTable has one block for each state of the ordinary row; see copies.
type evacTable struct {
	unclaimed, unclaimedError, claimedSelf, claimedOther, runningSelf, runningOther, crashed, none copies
}

// evacuationTable is the notes' table "Harmonizing during evacuation, When the
// container is in the Running state", row by row.
func evacuationTable() evacTable {
	waiting := func(g Grade, why string) evacRule { return evacRule{Grade: g, Why: why} }
	del := func(why string) evacRule { return evacRule{Then: DeleteContainer, Grade: Conceivable, Why: why} }
	cleanup := func(g Grade, why string) evacRule {
		return evacRule{deleteEvacuating: true, Then: DeleteContainer, Grade: g, Why: why}
	}
	const stays = "no cell accepted it; placement is retried"
	const evacuatedTwice = "another cell ran our instance and is draining too"
	return evacTable{
		copies{ // UNCLAIMED
			evacRule{setEvacuating: true, Grade: Inconceivable, Why: "keep traffic on the running instance"},
			waiting(Expected, "waiting for placement on another cell"),
			del(evacuatedTwice),
		},
		copies{ // UNCLAIMED with a placement error
			waiting(Inconceivable, stays),
			waiting(Conceivable, stays),
			del(evacuatedTwice),
		},
		copies{ // CLAIMED-α
			evacRule{setEvacuating: true, unclaim: true, Grade: Conceivable,
				Why: "it is running, but the row does not show it yet"},
			evacRule{unclaim: true, Grade: Conceivable, Why: "the row was not unclaimed yet"},
			evacRule{setEvacuating: true, unclaim: true, Grade: Conceivable,
				Why: "taken over from a draining cell, and this one is draining too"},
		},
		copies{ // CLAIMED-ω
			evacRule{setEvacuating: true, Grade: Inconceivable, Why: "keep traffic on the running instance"},
			waiting(Expected, "another cell is starting it"),
			del(evacuatedTwice),
		},
		copies{ // RUNNING-α
			evacRule{setEvacuating: true, unclaim: true, Grade: Expected, Why: "first step of an evacuation"},
			evacRule{unclaim: true, Grade: Conceivable, Why: "the row was not unclaimed yet"},
			evacRule{setEvacuating: true, unclaim: true, Grade: Conceivable,
				Why: "taken over from a draining cell, and this one is draining too"},
		},
		copies{ // RUNNING-ω
			del("running elsewhere; the evacuating row is gone"),
			cleanup(Expected, "evacuated: clean up"),
			del(evacuatedTwice),
		},
		copies{ // CRASHED
			del("it ran elsewhere, and the evacuating row was lost"),
			cleanup(Expected, "evacuated, and the new instance crashed: clean up"),
			del(evacuatedTwice + ", then crashed"),
		},
		copies{ // no ordinary row
			del("no longer wanted, and the evacuating row was lost"),
			cleanup(Expected, "scaled down during the evacuation: clean up"),
			del("another cell was drained, then the service was scaled down"),
		},
	}
}

func (t evacTable) at(x Index, self Identity) copies {
	a := x.Ordinary
	switch {
	case a == nil:
		return t.none
	case a.PlacementError != "":
		return t.unclaimedError
	case a.State == Unclaimed:
		return t.unclaimed
	case a.State == Crashed:
		return t.crashed
	case a.State == Claimed && a.Is(self):
		return t.claimedSelf
	case a.Is(self):
		return t.runningSelf
	case !a.covers(x.Evacuating):
		return t.claimedOther // claimed, or it runs and is not ready for traffic: still being started
	}
	return t.runningOther
}

// startsBeside reports whether self has the ordinary row and runs, but is not ready for traffic,
// beside the serving copy of another: it replaces none.
func startsBeside(x Index, self Identity, ready bool) bool {
	return !ready && x.Ordinary.Is(self) && (x.Suspect.Serves() || x.Evacuating.Serves() && !x.Evacuating.Is(self))
}

func evacuationRule(x Index, self Identity) evacRule {
	return evacuationTable().at(x, self).at(relateCopy(x, self))
}

// HarmoniseEvacuating returns a draining cell's action on one instance. Evacuating rows are
// refreshed at each pass. (Diego dev notes, Harmonizing during evacuation.)
func HarmoniseEvacuating(v View) Action {
	mine := v.mine()
	if v.Quarantined || v.Container == NoContainer {
		return Harmonise(v)
	}
	switch v.Container {
	case Up:
		return v.evacuateUp(mine)
	case CompletedShutdown:
		return completed(CallEvacuateStopped, mine, "stopped")
	case CompletedCrashed:
		if mine == nil && v.Rows.Ordinary == nil {
			return Action{Call: CallEvacuateCrashed, Then: DeleteContainer, Refused: DeleteContainer, Grade: Conceivable,
				Why: "crashed without a row: report the crash"}
		}
		return completed(CallEvacuateCrashed, mine, "crashed")
	default:
		if mine != nil && mine.Exclusive {
			return Action{Then: DeleteContainer, Grade: Expected,
				Why: "cell is draining; the row is removed once the container is gone"}
		}
		if o := v.Rows.Ordinary; o != nil && o.State == Unclaimed {
			return Action{Call: CallEvacuateClaimed, Then: DeleteContainer, Refused: DeleteContainer, Grade: Expected,
				Why: "cell is draining before the instance was claimed: request another placement"}
		}
		return completed(CallEvacuateClaimed, mine, "cell is draining, and the instance is not running yet")
	}
}

// completed drops the container, after call if the cell holds a row.
func completed(call Call, mine *Actual, why string) Action {
	if mine == nil {
		call = NoCall
	}
	return Action{Call: call, Then: DeleteContainer, Refused: DeleteContainer, Grade: Expected, Why: why}
}

// evacuateUp is the table for a RUNNING container.
func (v View) evacuateUp(mine *Actual) Action {
	if mine != nil && mine.Retiring && !v.ending() {
		return Action{Then: StopContainer, Grade: Expected, Why: "to be stopped"}
	}
	if v.ending() && (mine == nil || mine.Retiring || mine.Exclusive) {
		return v.harmoniseEnding(mine)
	}
	if startsBeside(v.Rows, v.Self, v.ready()) {
		return Action{Call: CallEvacuateClaimed, Then: DeleteContainer, Refused: Leave, Grade: Expected,
			Why: "cell is draining, and the instance to replace still serves"}
	}
	if o := v.Rows.Ordinary; o != nil && o.Exclusive && !o.Is(v.Self) {
		return Action{Then: DeleteContainer, Grade: Inconceivable, Why: "the exclusive row does not name this instance"}
	}
	r := evacuationRule(v.Rows, v.Self)
	a := Action{Then: r.Then, Refused: Leave, Grade: r.Grade, Why: r.Why}
	switch {
	case r.setEvacuating:
		a.Call = CallEvacuate
	case r.deleteEvacuating:
		a.Call, a.Refused = CallRemoveEvacuating, DeleteContainer
	case v.Rows.Evacuating.Is(v.Self):
		a.Call = CallEvacuate // refresh its expiry
	}
	return a
}

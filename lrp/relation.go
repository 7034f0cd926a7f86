package lrp

// relation is the relation of an ordinary row to a cell's container α: the columns of the tables.
// ω is any other pair of instance and cell.
type relation int

const (
	relNone relation = iota // no row
	relUnclaimed
	relClaimedSelf
	relClaimedOther
	relRunningSelf
	relRunningOther
	relCrashed
)

// relate returns the relation of the ordinary row to self. A SUSPECT row of self counts as its
// ordinary one: self still holds that row.
func relate(x Index, self Identity) relation {
	a := x.Ordinary
	if x.Suspect.Is(self) {
		a = x.Suspect
	}
	switch {
	case a == nil:
		return relNone
	case a.State == Unclaimed:
		return relUnclaimed
	case a.State == Crashed:
		return relCrashed
	case a.State == Claimed && a.Is(self):
		return relClaimedSelf
	case a.State == Claimed:
		return relClaimedOther
	case a.Is(self):
		return relRunningSelf
	case x.Evacuating.Is(self) && !a.covers(x.Evacuating):
		return relClaimedOther // the replacement of self is still being started
	}
	return relRunningOther
}

// copyRelation is the relation of an EVACUATING row to a cell's container.
type copyRelation int

const (
	copyNone copyRelation = iota
	copySelf
	copyOther
)

func relateCopy(x Index, self Identity) copyRelation {
	switch {
	case x.Evacuating == nil:
		return copyNone
	case x.Evacuating.Is(self):
		return copySelf
	}
	return copyOther
}

// View is a cell's data about one of its instances: rows read first, the container second.
type View struct {
	Container Container
	// Self is the container's identity; without a container, that of the row.
	Self Identity
	// Net is how the running container is reached; nil when that is not known.
	Net  *Net
	Rows Index
	// Quarantined: the row cannot be read. It counts as existing; the container is left alone.
	Quarantined bool
	// Older: the container was started for another store, or before this one was restored,
	// so that the store need not know it.
	Older bool
}

// ready reports whether the running container is ready for traffic, according to the row if the
// cell does not report it.
func (v View) ready() bool {
	if v.Net != nil {
		return v.Net.Routable
	}
	mine := v.mine()
	return mine == nil || mine.State != Running || mine.Serves()
}

// mine returns the row that Self holds, or nil.
func (v View) mine() *Actual {
	for _, a := range []*Actual{v.Rows.Ordinary, v.Rows.Suspect, v.Rows.Evacuating} {
		if a.Is(v.Self) {
			return a
		}
	}
	return nil
}

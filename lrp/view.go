package lrp

// Resolved returns the one row that readers see: ps, API and events. It is the
// instance, or the evacuating row when there is no instance or it is UNCLAIMED or
// CLAIMED; the instance is the ordinary row, or the suspect one when that runs and
// the ordinary does not. Nil when there is no row. (Diego dev notes, The BBS's
// Role during Evacuation; Diego BBS, Group resolution.)
func (x Index) Resolved() *Actual {
	inst := x.Ordinary
	if s := x.Suspect; s != nil && s.State == Running && (inst == nil || inst.State != Running) || inst == nil {
		inst = x.Suspect
	}
	switch {
	case inst == nil:
		return x.Evacuating
	case x.Evacuating == nil || inst.State == Running || inst.State == Crashed:
		return inst
	}
	return x.Evacuating
}

// ChangeKind is what happened to one row.
type ChangeKind int

// The kinds.
const (
	RowCreated ChangeKind = iota
	RowChanged
	RowRemoved
)

// Change is one row event of an index. Before is nil for RowCreated, After for RowRemoved.
type Change struct {
	Kind          ChangeKind
	Before, After *Actual
}

// Changes lists how the rows of an index changed, in an order that never leaves a
// reader of the stream without a running instance while one runs: first the rows
// that are RUNNING now, then the others, removals last. A row that loses its
// instance is another row: created, then removed. (Diego BBS, Instance-event semantics.)
func Changes(before, after Index) []Change {
	old := before.Rows()
	var first, then, last []Change
	for _, a := range after.Rows() {
		b := takeMatch(&old, a)
		c := Change{Kind: RowChanged, Before: b, After: a}
		switch {
		case b == a:
			continue
		case b == nil:
			c.Kind = RowCreated
		}
		if a.State == Running {
			first = append(first, c)
		} else {
			then = append(then, c)
		}
	}
	for _, b := range old {
		last = append(last, Change{Kind: RowRemoved, Before: b})
	}
	return append(append(first, then...), last...)
}

// takeMatch takes out of old the row that a continues, or returns nil.
func takeMatch(old *[]*Actual, a *Actual) *Actual {
	for i, b := range *old {
		if continues(b, a) {
			*old = append(append([]*Actual(nil), (*old)[:i]...), (*old)[i+1:]...)
			return b
		}
	}
	return nil
}

// continues reports whether a is what became of row b.
func continues(b, a *Actual) bool {
	held := func(r *Actual) bool { return r.Instance != "" }
	switch {
	case held(b) && held(a):
		return b.Same(a.Identity)
	case b.Presence != Ordinary || a.Presence != Ordinary:
		return false
	case held(b): // its instance is gone: CRASHED keeps the row, UNCLAIMED is a new one
		return a.State == Crashed
	case held(a):
		return true
	}
	return b.State == a.State || b.State == Unclaimed
}

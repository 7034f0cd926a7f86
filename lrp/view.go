package lrp

import "slices"

// Resolved returns the one row that readers see: ps, API and events. It is the instance, or the
// evacuating row if there is no instance or it is UNCLAIMED, CLAIMED or does not serve yet. The
// instance is the ordinary row, or the suspect one that the ordinary has not replaced yet. Nil if
// there is no row. (Diego dev notes, The BBS's Role during Evacuation; Diego BBS, Group
// resolution.)
func (x Index) Resolved() *Actual {
	inst := x.Ordinary
	if x.Suspect != nil && !inst.covers(x.Suspect) {
		inst = x.Suspect
	}
	switch {
	case inst == nil:
		return x.Evacuating
	case x.Evacuating == nil || inst.covers(x.Evacuating) || inst.State == Crashed:
		return inst
	}
	return x.Evacuating
}

// ChangeKind is the kind of change of one row.
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
	// Hidden: After is not the row that readers see of the index (see Resolved).
	Hidden bool
	// Turn is set on at most one change of a step: with it readers see Shown of the
	// index, or nothing any more when that is nil.
	Turn  bool
	Shown *Actual
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
	all := append(append(first, then...), last...)
	turn(all, before.Resolved(), after.Resolved())
	return all
}

// turn marks the changes for readers: they saw was, and see is. A row that did not change itself
// is shown with the first change, its end with the last one.
func turn(all []Change, was, is *Actual) {
	at := 0
	for i := range all {
		all[i].Hidden = all[i].After != nil && all[i].After != is
		if all[i].After == is {
			at = i
		}
	}
	if was != is && len(all) > 0 {
		all[at].Turn, all[at].Shown = true, is
	}
}

// takeMatch removes from old the row that a continues, or returns nil. The row of the same
// instance comes first, in any presence: a suspect that is ordinary again is no other instance,
// and its removal is not published.
func takeMatch(old *[]*Actual, a *Actual) *Actual {
	i := slices.IndexFunc(*old, func(b *Actual) bool { return a.Instance != "" && b.Same(a.Identity) })
	if i < 0 {
		i = slices.IndexFunc(*old, func(b *Actual) bool { return continues(b, a) })
	}
	if i < 0 {
		return nil
	}
	b := (*old)[i]
	*old = slices.Concat((*old)[:i], (*old)[i+1:])
	return b
}

// continues reports whether a, of another instance or of none, continues row b.
func continues(b, a *Actual) bool {
	held := func(r *Actual) bool { return r.Instance != "" }
	switch {
	case b.Presence != Ordinary || a.Presence != Ordinary:
		return false
	case held(b): // its instance is gone: CRASHED keeps the row, UNCLAIMED is a new one
		return a.State == Crashed
	case held(a):
		return true
	}
	return b.State == a.State || b.State == Unclaimed
}

package lrp

// preempt stops a serving instance for work of higher priority. One that may have no second copy, or has a copy
// already, is never stopped for that.
func preempt(m *machine, e Preempt) error {
	o, d := m.x.Ordinary, m.env.Desired
	switch {
	case !o.Is(e.By) || !o.Serves() || !m.env.Wanted || m.x.Evacuating != nil || m.x.Suspect != nil || d == nil,
		m.stopFirst(),
		d.Priority() >= e.Priority:
		return ErrCannotBePreempted
	}
	m.markRetiring()
	m.x.Ordinary.Preempted = Preempted{By: e.For, Priority: e.Priority, Cell: o.Cell, At: m.env.Now}
	m.do(PreemptionNoted{Key: m.x.Key, Who: o.Identity, For: e.For})
	return nil
}

// keepPreempted keeps the reason why the instance of a was stopped on the row that waits for a place.
func keepPreempted(m *machine, a *Actual) {
	if o := m.x.Ordinary; o != nil && o.State == Unclaimed && a.Preempted != (Preempted{}) {
		b := *o
		b.Preempted = a.Preempted
		m.x.Ordinary = &b
	}
}

package lrp

// evacuate makes the writes of Diego's table for a RUNNING container of a draining cell, decided
// on the newest rows.
func (m *machine) evacuate(e Evacuate) error {
	o := m.x.Ordinary
	if o.Is(e.By) && m.stopFirst() {
		return m.evacuateStopFirst(e)
	}
	if m.exclusive() || startsBeside(m.x, e.By, e.Net.Routable) {
		return ErrCannotBeEvacuated // it may have no copy, or need not
	}
	rule := evacuationRule(m.x, e.By)
	if !rule.setEvacuating && !m.x.Evacuating.Is(e.By) {
		return ErrCannotBeEvacuated
	}
	if rule.Then == DeleteContainer {
		return ErrCannotBeEvacuated
	}
	old := m.x.Evacuating
	var service ServiceKey
	since := m.env.Now
	for _, a := range []*Actual{m.x.Ordinary, m.x.Suspect, old} {
		if a == nil {
			continue
		}
		service = a.Service
		if a.Is(e.By) && a.State == Running {
			since = a.Since
		}
	}
	m.x.Evacuating = &Actual{Key: m.x.Key, Service: service, Presence: Evacuating, State: Running, Identity: e.By,
		Net: e.Net, Since: since, Expires: e.Until}
	if s := m.x.Suspect; s != nil { // e.By itself, or the one that e.By has replaced
		m.x.Suspect = nil
		if !s.Is(e.By) {
			m.stop(s)
		}
	}
	if rule.unclaim {
		m.unclaim()
	}
	return nil
}

// exclusive reports whether no second copy may run, according to the row or the definition (a row
// may have been made while the definition could not be read).
func (m *machine) exclusive() bool {
	return m.x.Ordinary != nil && m.x.Ordinary.Exclusive || m.env.Desired != nil && m.env.Desired.Exclusive
}

func (m *machine) stopFirst() bool {
	return m.exclusive() || m.env.Desired != nil && m.env.Desired.StopFirst()
}

// evacuateStopFirst stops an instance that may have no second copy, one index at
// a time; its row stays until the cell has stopped it.
func (m *machine) evacuateStopFirst(e Evacuate) error {
	if e.Net.Stopping && m.x.Ordinary.State == Running { // its time is over, and the cell ends it
		m.x.Ordinary = refreshed(m.x.Ordinary, Start{By: e.By, Net: e.Net})
		return nil
	}
	if !e.Net.Stopping && !m.x.Ordinary.Retiring && !m.env.OthersRunning {
		return ErrNotYet
	}
	m.x.Ordinary = refreshed(m.x.Ordinary, Start{By: e.By, Net: m.x.Ordinary.Net})
	m.markRetiring()
	return nil
}

// evacuateClaimed gives up an instance that was not RUNNING yet. An exclusive one is destroyed
// first and removed afterwards. For one that was not claimed, another placement is requested.
func (m *machine) evacuateClaimed(by Identity) error {
	gone := m.dropCopies(by)
	switch o := m.x.Ordinary; {
	case o.Is(by) && m.exclusive():
		return ErrCannotBeEvacuated
	case o.Is(by):
		m.unclaim()
	case o != nil && o.State == Unclaimed && m.env.Wanted:
		m.do(AttemptDropped{Key: m.x.Key, Instance: by.Instance})
		m.do(RequestAuction{Key: m.x.Key})
	case !gone:
		return ErrNotFound
	}
	return nil
}

func (m *machine) evacuateStopped(by Identity) error { return m.remove(by) }

func (m *machine) removeEvacuating(by Identity) error {
	switch {
	case !m.x.Evacuating.Is(by):
		return ErrNotFound
	case m.x.Ordinary == nil && m.env.Wanted:
		return ErrNotYet // the ordinary row is about to be made
	}
	m.x.Evacuating = nil
	return nil
}

package lrp

import "time"

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
	moving := e.Until.IsZero()
	if moving {
		if !old.Is(e.By) || !old.Moving {
			return ErrCannotBeEvacuated // it stays
		}
		e.Until = old.Expires
	}
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
		Net: e.Net, Since: since, Expires: e.Until, Moving: moving}
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

// MoveAfter is how long an instance runs before it may be moved. It is longer than a call of a cell can be on its way:
// a late call of an earlier instance of the index would end both copies.
const MoveAfter = 30 * time.Second

// MayMove reports whether the row's instance has run long enough to be moved.
func (a *Actual) MayMove(now time.Time) bool { return now.Sub(a.Since) >= MoveAfter }

// relocate gives a serving instance a second place: it is the EVACUATING copy of a row that is placed
// again. One that may have no copy is not moved.
func (m *machine) relocate(e Relocate) error {
	o := m.x.Ordinary
	if !o.Is(e.By) || !o.MayMove(m.env.Now) ||
		!o.Serves() || !m.env.Wanted || m.x.Evacuating != nil || m.x.Suspect != nil || m.stopFirst() {
		return ErrCannotBeMoved
	}
	m.x.Evacuating = &Actual{Key: m.x.Key, Service: o.Service, Presence: Evacuating, State: Running,
		Identity: o.Identity, Net: o.Net, Since: o.Since, Expires: e.Until, Moving: true}
	m.unclaim()
	return nil
}

// arriving reports whether an instance is moved, and another cell starts it: the move goes on, however long the
// start takes.
func (x Index) arriving() bool {
	o := x.Ordinary
	return x.Evacuating != nil && x.Evacuating.Moving && o != nil && (o.State == Claimed || o.State == Running)
}

// stay ends a move whose time is over and which no cell has begun, or whose new instance has crashed too often to be
// started at once: the copy is the ordinary instance again.
func (m *machine) stay(e *Actual) {
	o := m.x.Ordinary
	if o.State == Unclaimed {
		m.do(WithdrawAuction{Key: m.x.Key})
	}
	a := m.on(e.Identity, Running, o)
	a.Net, a.Retiring = e.Net, e.Retiring
	m.x.Ordinary = a
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

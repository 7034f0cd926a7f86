package lrp

import "slices"

// cellHealthy turns proc's SUSPECT row back into the ordinary one and withdraws
// the replacement.
func (m *machine) cellHealthy(proc string) {
	s := m.x.Suspect
	if !s.OnProc(proc) {
		return
	}
	m.x.Suspect = nil
	switch o := m.x.Ordinary; {
	case o == nil:
	case o.covers(s) && !m.oldStays(s): // came first after all
		m.stop(s)
		return
	case o.State == Claimed || o.State == Running:
		m.stop(o)
	case o.State == Unclaimed:
		m.do(WithdrawAuction{Key: m.x.Key})
	}
	b := *s
	b.Presence = Ordinary
	m.x.Ordinary = &b
}

// mark sets on the RUNNING rows of a process whether its cell is in contact.
func (m *machine) mark(proc string, unheard bool) {
	for _, row := range []**Actual{&m.x.Ordinary, &m.x.Evacuating, &m.x.Suspect} {
		a := *row
		if !a.OnProc(proc) || a.State != Running || a.Unheard == unheard {
			continue
		}
		b := *a
		b.Unheard = unheard
		*row = &b
	}
}

// cellUnhealthy makes proc's RUNNING row suspect and requests a replacement. An exclusive row
// stays: no instance replaces it before it is certainly dead.
func (m *machine) cellUnhealthy(proc string) {
	o := m.x.Ordinary
	if !o.OnProc(proc) || m.exclusive() {
		return
	}
	if o.State == Running && m.x.Suspect == nil && m.x.Evacuating == nil {
		if !m.env.Wanted || o.Retiring {
			return // it is on its way out
		}
		b := *o
		b.Presence, b.Replaces = Suspect, Identity{}
		m.x.Suspect = &b
		m.unclaim()
		m.wait()
		return
	}
	m.unclaim()
}

// wait delays the request for a placement of a row that a SUSPECT copy left until the wait for
// that copy is over.
func (m *machine) wait() {
	d, o := m.env.Desired, m.x.Ordinary
	if d == nil || d.ReplaceAfter == 0 {
		return
	}
	b := *o
	b.NotBefore = m.env.Now.Add(d.ReplaceAfter)
	m.x.Ordinary = &b
	m.effects = slices.DeleteFunc(m.effects, func(e Effect) bool { return e == RequestAuction{Key: m.x.Key} })
}

// oldStays reports whether the SUSPECT instance s is the one that stays when its cell is back.
func (m *machine) oldStays(s *Actual) bool {
	d := m.env.Desired
	return d != nil && d.OnReturn == ReturnOld && s.Net.Routable
}

// leaveProc takes the rows off proc: all but exclusive ones at MUST_DIE, these too
// once it is certainly dead.
func (m *machine) leaveProc(proc string, dead bool) {
	if m.x.Suspect.OnProc(proc) {
		m.x.Suspect = nil
	}
	if m.x.Evacuating.OnProc(proc) {
		m.x.Evacuating = nil
	}
	if o := m.x.Ordinary; o != nil && o.Replaces.Proc == proc && proc != "" {
		// the one it replaced is not waited for any more
		b := *o
		b.Replaces = Identity{}
		m.x.Ordinary = &b
	}
	if o := m.x.Ordinary; o.OnProc(proc) && (dead || !m.exclusive()) {
		m.unclaim()
	}
}

// procMoved hands the rows of a process to its successor on the same cell.
func (m *machine) procMoved(e ProcMoved) {
	for _, row := range []**Actual{&m.x.Ordinary, &m.x.Evacuating, &m.x.Suspect} {
		if a := *row; a.OnProc(e.From) && a.Cell == e.Cell {
			*row = movedTo(a, e.To)
		}
	}
	if o := m.x.Ordinary; o != nil && o.Replaces.Proc == e.From && o.Replaces.Cell == e.Cell {
		b := *o
		b.Replaces.Proc = e.To
		m.x.Ordinary = &b
	}
}

// found gives the index to the instance that By's process reports, if no other has it. In rows that
// may be older than the report, another may be named that had ended before this one started: two
// never run, so the one that is reported has the index. Its harmoniser confirms the row.
func (m *machine) found(e Found) {
	a := m.x.Ordinary
	switch {
	case a.Is(e.By) || m.x.Suspect.Is(e.By) || m.x.Evacuating.Is(e.By):
		return
	case a != nil && (a.State == Claimed || a.State == Running) && !e.Stale:
		return // its cell ends it
	}
	m.x.Evacuating, m.x.Suspect = nil, nil
	if m.assign(e.By, a); m.x.Ordinary.Service == (ServiceKey{}) {
		m.x.Ordinary.Service = e.Service
	}
}

package lrp

import (
	"fmt"
	"time"
)

// maxText bounds crash reasons and placement errors in bytes.
const maxText = 1024

// Step returns the next Index and its effects, or an error and the unchanged Index. Obsolete
// events of the leader change nothing and are no error. Effects are in the order in which they
// should be performed.
func Step(x Index, e Event, env Env) (Index, []Effect, error) {
	m := &machine{x: x, env: env}
	if err := m.step(e); err != nil {
		return x, nil, fmt.Errorf("%T of %v: %w", e, x.Key, err)
	}
	m.askAgain(x)
	return m.x, m.effects, nil
}

// askAgain repeats the request for a placement of an UNCLAIMED row when a copy beside it is gone:
// its cell may take it now.
func (m *machine) askAgain(before Index) {
	a, was := m.x.Ordinary, before.Ordinary
	fewer := before.Evacuating != nil && m.x.Evacuating == nil || before.Suspect != nil && m.x.Suspect == nil
	if !fewer || was == nil || was.State != Unclaimed || a != was {
		return
	}
	if !a.NotBefore.IsZero() { // the copy that it waited for is gone
		b := *a
		b.NotBefore = time.Time{}
		m.x.Ordinary = &b
	}
	if m.env.Wanted {
		m.do(RequestAuction{Key: m.x.Key})
	}
}

// machine is the working copy of one Step.
type machine struct {
	x       Index
	env     Env
	effects []Effect
}

func (m *machine) step(e Event) error {
	switch e := e.(type) {
	case Create:
		m.create()
	case Undesire:
		m.undesire()
	case Retire:
		return m.retire()
	case Preempt:
		return preempt(m, e)
	case RestartCrashed:
		m.restartCrashed()
	case Resend:
		m.resend()
	case Relocate:
		return m.relocate(e)
	case ExpireEvacuating:
		m.expireEvacuating()
	case PlacementFailed:
		return m.placementFailed(e.Reason)
	case Claim:
		return m.claim(e.By)
	case Start:
		return m.start(e)
	case Crash:
		return m.crash(e)
	case Remove:
		return m.remove(e.By)
	default:
		return m.stepCell(e)
	}
	return nil
}

// stepCell handles events of whole cells: drains and sessions.
func (m *machine) stepCell(e Event) error {
	switch e := e.(type) {
	case Evacuate:
		return m.evacuate(e)
	case EvacuateClaimed:
		return m.evacuateClaimed(e.By)
	case EvacuateStopped:
		return m.evacuateStopped(e.By)
	case EvacuateCrashed:
		return m.crash(Crash(e))
	case RemoveEvacuating:
		return m.removeEvacuating(e.By)
	case CellHealthy:
		m.mark(e.Proc, false)
		m.cellHealthy(e.Proc)
	case CellUnhealthy:
		m.cellUnhealthy(e.Proc)
	case CellUnheard:
		if !m.exclusive() { // no other can take its place
			m.mark(e.Proc, true)
		}
		m.cellUnhealthy(e.Proc)
	case CellMustDie:
		m.leaveProc(e.Proc, false)
		m.mark(e.Proc, true)
	case ProcDead:
		m.leaveProc(e.Proc, true)
	case ProcMoved:
		m.procMoved(e)
	case Found:
		m.found(e)
	default:
		return fmt.Errorf("unknown event %T", e)
	}
	return nil
}

func (m *machine) do(e Effect) { m.effects = append(m.effects, e) }

func (m *machine) stop(a *Actual) { m.do(StopInstance{Key: m.x.Key, Who: a.Identity}) }

// fresh returns a new UNCLAIMED ordinary row.
func (m *machine) fresh() *Actual {
	a := &Actual{Key: m.x.Key, State: Unclaimed, Since: m.env.Now}
	if d := m.env.Desired; d != nil {
		a.Service, a.Exclusive = d.Service, d.Exclusive
	}
	return a
}

// place puts an UNCLAIMED row in the ordinary row's place and requests a placement. The row keeps
// the crash count and reason of old, if any. A container that a cell has reported gets the row
// instead; the cell removes the row when the container is gone.
func (m *machine) place(old *Actual) {
	if all := m.env.Reported; len(all) > 0 {
		m.assign(all[0], old)
		return
	}
	a := m.fresh()
	if old != nil {
		a.CrashCount, a.CrashReason, a.LastCrash, a.Service, a.Exclusive = old.CrashCount, old.CrashReason, old.LastCrash,
			old.Service, old.Exclusive
	}
	m.x.Ordinary = a
	m.request()
}

// assign gives the ordinary row, which was old, to a container that a cell has reported.
func (m *machine) assign(by Identity, old *Actual) {
	if old != nil && old.State == Unclaimed {
		m.do(WithdrawAuction{Key: m.x.Key})
	}
	m.x.Ordinary = m.on(by, Claimed, old)
	m.x.Ordinary.Exclusive = true
}

// heldByOther is why an index of an exclusive service is not placed.
const heldByOther = "another version of this exclusive service may still run the index"

// request requests a placement of the UNCLAIMED row, or stores why not.
func (m *machine) request() {
	if !m.env.Beside {
		m.do(RequestAuction{Key: m.x.Key})
		return
	}
	if b := *m.x.Ordinary; b.PlacementError != heldByOther {
		b.PlacementError = heldByOther
		m.x.Ordinary = &b
	}
}

// unclaim takes the ordinary row off its cell: to be placed again when it is
// wanted, kept in sight when it is an orphan of a domain that is not fresh, gone
// otherwise.
func (m *machine) unclaim() {
	old := m.x.Ordinary
	switch {
	case m.env.Wanted:
		m.place(old)
	case m.env.keepsOrphan():
		a := m.fresh()
		a.CrashCount, a.CrashReason, a.LastCrash, a.Service, a.Exclusive = old.CrashCount, old.CrashReason, old.LastCrash,
			old.Service, old.Exclusive
		a.PlacementError = "no definition of this process"
		m.x.Ordinary = a
	default:
		m.x.Ordinary = nil
	}
}

func (m *machine) create() {
	if m.env.Desired == nil || !m.env.Wanted || m.x.Ordinary != nil || m.exclusive() && !m.x.Empty() {
		return
	}
	m.place(nil)
}

func (m *machine) undesire() {
	if m.env.Wanted {
		return
	}
	if s := m.x.Suspect; s != nil {
		m.x.Suspect = nil
		m.stop(s)
	}
	if e := m.x.Evacuating; e != nil { // its cell removes the row
		if m.stop(e); !e.Retiring {
			b := *e
			b.Retiring = true
			m.x.Evacuating = &b
		}
	}
	a := m.x.Ordinary
	switch {
	case a == nil:
	case a.State == Claimed || a.State == Running:
		m.markRetiring()
	default:
		m.dropOrdinary()
	}
}

// dropOrdinary deletes an ordinary row that is on no cell.
func (m *machine) dropOrdinary() {
	if m.x.Ordinary.State == Unclaimed {
		m.do(WithdrawAuction{Key: m.x.Key})
	}
	m.x.Ordinary = nil
}

// markRetiring stores the intent to stop the ordinary instance and sends it.
func (m *machine) markRetiring() {
	a := *m.x.Ordinary
	a.Retiring = true
	if !m.x.Ordinary.Retiring {
		m.x.Ordinary = &a
	}
	m.stop(&a)
}

func (m *machine) retire() error {
	a := m.x.Ordinary
	switch {
	case a == nil:
		return ErrNotFound
	case a.State == Claimed || a.State == Running:
		m.markRetiring()
	case m.env.Wanted:
		m.place(nil)
	default:
		m.dropOrdinary()
	}
	return nil
}

func (m *machine) restartCrashed() {
	a := m.x.Ordinary
	if a == nil || a.State != Crashed || a.Finished || !m.env.Wanted {
		return
	}
	if wait, ok := m.env.restart().Wait(a.CrashCount); ok && m.env.Now.Sub(a.Since) >= wait {
		m.place(a)
	}
}

func (m *machine) resend() {
	a := m.x.Ordinary
	switch {
	case a == nil:
	case a.State == Unclaimed && m.env.Wanted && len(m.env.Reported) > 0:
		m.place(a)
	case a.State == Unclaimed && m.env.Wanted:
		if !m.env.Now.Before(a.NotBefore) {
			m.request()
		}
	case a.Retiring:
		m.stop(a)
	}
}

func (m *machine) expireEvacuating() {
	e := m.x.Evacuating
	if e == nil || m.env.Now.Before(e.Expires) || m.x.arriving() {
		return
	}
	m.x.Evacuating = nil
	if e.Moving && m.x.Ordinary != nil {
		m.stay(e)
	}
}

func (m *machine) placementFailed(reason string) error {
	a := m.x.Ordinary
	if a == nil || a.State != Unclaimed {
		return ErrCannotBeFailed
	}
	if reason = Cut(reason); reason != a.PlacementError {
		b := *a
		b.PlacementError = reason
		m.x.Ordinary = &b
	}
	return nil
}

func (m *machine) claim(by Identity) error {
	a := m.x.Ordinary
	switch {
	case m.x.Suspect.Is(by):
		return nil
	case a == nil:
		return ErrNotFound
	case a.Is(by) && a.State == Claimed:
		m.x.Ordinary = movedTo(a, by.Proc)
		return nil
	case a.Is(by): // RUNNING: the cell knows better
	case a.State != Unclaimed, m.env.Desired == nil, !m.env.Wanted, m.x.Evacuating.Is(by):
		// a late call about a RUNNING one
		return ErrCannotBeClaimed
	case len(m.env.Reported) > 0, m.env.Beside:
		return ErrCannotBeClaimed
	case !m.env.Eligible:
		return ErrNotEligible
	}
	m.x.Ordinary = m.on(by, Claimed, a)
	return nil
}

// on returns the ordinary row as by holds it in state s; old gives the crash count.
func (m *machine) on(by Identity, s State, old *Actual) *Actual {
	a := m.fresh()
	a.State, a.Identity = s, by
	if old != nil {
		a.CrashCount, a.LastCrash, a.Service, a.Exclusive = old.CrashCount, old.LastCrash, old.Service, old.Exclusive
		if a.Retiring = old.Retiring && old.Is(by); a.Retiring {
			a.Preempted = old.Preempted
		}
		if s == Claimed {
			a.CrashReason = old.CrashReason
		}
	}
	return a
}

// movedTo returns a with the process that holds it now; a itself when that is the same.
func movedTo(a *Actual, proc string) *Actual {
	if a.Proc == proc {
		return a
	}
	b := *a
	b.Proc = proc
	return &b
}

func (m *machine) start(e Start) error {
	a := m.x.Ordinary
	switch {
	case m.x.Suspect.Is(e.By):
		m.x.Suspect = refreshed(m.x.Suspect, e)
		return nil
	case e.Net.Stopping && m.x.Evacuating.Is(e.By):
		m.x.Evacuating = refreshed(m.x.Evacuating, e)
		return nil
	case e.Net.Stopping && !a.Is(e.By):
		return ErrCannotBeStarted // an ending instance replaces none
	case a.Is(e.By) && a.State == Running:
		m.x.Ordinary = refreshed(a, e)
		m.replaced(e.By)
		return nil
	case a == nil:
		// Rows may have been lost; running containers are the truth.
		a = &Actual{Key: m.x.Key, Service: e.Service, Exclusive: e.Exclusive}
		if d := m.env.Desired; d != nil {
			a.Service, a.Exclusive = d.Service, d.Exclusive
		}
	case a.replaced(e.By) && e.Net.Routable:
		if !m.env.Eligible {
			return ErrNotEligible // its cell may fall silent again
		}
		m.stop(a)
	case a.State == Running && !m.mayTakeBack(e.By):
		return ErrCannotBeStarted
	case (a.State == Claimed || a.State == Running) && !a.Is(e.By):
		if m.exclusive() {
			return ErrCannotBeStarted
		}
		m.stop(a)
	case a.State == Unclaimed:
		m.do(WithdrawAuction{Key: m.x.Key})
	}
	m.x.Ordinary = m.on(e.By, Running, a)
	m.x.Ordinary.Net = e.Net
	m.replaced(e.By)
	return nil
}

// mayTakeBack reports whether by, which has the EVACUATING copy and whose cell is no longer
// draining, may be the ordinary instance again: its replacement does not serve yet.
func (m *machine) mayTakeBack(by Identity) bool {
	return m.x.Evacuating.Is(by) && !m.x.Ordinary.covers(m.x.Evacuating)
}

// refreshed returns a with the ports, readiness and process of e; a itself when
// nothing differs. Since stays.
func refreshed(a *Actual, e Start) *Actual {
	if a.Proc == e.By.Proc && a.Net.Equal(e.Net) && !a.Unheard {
		return a
	}
	b := *a
	b.Proc, b.Net, b.Unheard = e.By.Proc, e.Net, false
	return &b
}

// replaced removes the rows that the running instance by has taken the place of.
// While it does not serve, one that does stays: traffic always has an instance.
func (m *machine) replaced(by Identity) {
	o := m.x.Ordinary
	if e := m.x.Evacuating; e != nil && (e.Is(by) || o.covers(e)) {
		m.x.Evacuating = nil
		if !e.Is(by) {
			m.stop(e)
		}
	}
	if s := m.x.Suspect; s != nil && o.covers(s) {
		m.x.Suspect = nil
		if !m.oldStays(s) {
			m.stop(s)
			return
		}
		b := *o
		b.Replaces = s.Identity
		m.x.Ordinary = &b
	}
}

func (m *machine) crash(e Crash) error {
	gone := m.dropCopies(e.By)
	a := m.x.Ordinary
	switch {
	case a.Is(e.By):
	case gone && (a != nil || m.env.Desired == nil || !m.env.Wanted):
		return nil
	case a != nil:
		return ErrCannotBeCrashed
	case m.env.Desired == nil || !m.env.Wanted:
		return ErrNotFound
	default:
		// The row was lost; the cell knows that the instance crashed.
		a = m.fresh()
	}
	m.crashDance(a, e)
	return nil
}

// crashDance is the notes' RepCrashDance for the ordinary row a.
func (m *machine) crashDance(a *Actual, e Crash) {
	policy := m.env.restart()
	b := m.fresh()
	b.Service, b.Exclusive = a.Service, a.Exclusive
	b.CrashCount = policy.NextCount(a.CrashCount, a.State, a.Since, m.env.Now)
	b.CrashReason = Cut(e.Reason)
	b.LastCrash = LastCrash{Reason: b.CrashReason, Cell: e.By.Cell, At: m.env.Now}
	m.do(CrashNoted{Key: m.x.Key, Who: e.By, Count: b.CrashCount, Reason: b.CrashReason})
	wait, again := policy.Wait(b.CrashCount)
	switch {
	case !m.env.Wanted && !m.env.keepsOrphan():
		m.x.Ordinary = nil
		return
	case m.env.Wanted && a.Retiring:
		m.place(nil) // it was to be started afresh anyhow
		keepPreempted(m, a)
		return
	case e.Clean && policy.Mode == RestartOnFailure:
		b.Finished = true
	case again && wait == 0 && m.env.Wanted:
		m.place(b)
		return
	}
	b.State = Crashed
	m.x.Ordinary = b
	if c := m.x.Evacuating; c != nil && c.Moving { // the old instance is not given up for one that does not start
		m.x.Evacuating = nil
		m.stay(c)
	}
}

// dropCopies removes by's EVACUATING and SUSPECT rows and reports whether there was one.
func (m *machine) dropCopies(by Identity) bool {
	gone := false
	if m.x.Evacuating.Is(by) {
		m.x.Evacuating, gone = nil, true
	}
	if m.x.Suspect.Is(by) {
		m.x.Suspect, gone = nil, true
	}
	return gone
}

// remove takes by's rows away. Whether the index is still wanted is decided in the
// same step: a reader never sees a wanted index without an ordinary row, which a
// cell being emptied would take for a scale-down.
func (m *machine) remove(by Identity) error {
	a := m.x.Ordinary
	if a.Is(by) && m.exclusive() && a.Proc != by.Proc {
		return ErrNotProven
	}
	gone := m.dropCopies(by)
	if a.Is(by) {
		m.x.Ordinary, gone = nil, true
		if m.env.Wanted {
			m.place(nil)
			keepPreempted(m, a)
			if !a.Retiring { // it moves
				m.x.Ordinary.LastCrash = a.LastCrash
			}
		}
	}
	if !gone {
		return ErrNotFound
	}
	return nil
}

// Cut shortens a reason to 1024 bytes; a shortened one ends in "(truncated)".
func Cut(s string) string {
	const mark = "(truncated)"
	if len(s) <= maxText {
		return s
	}
	n := maxText - len(mark)
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:n] + mark
}

// RestartAt returns when a CRASHED row is due for its restart, and whether it ever is.
func (p RestartPolicy) RestartAt(a *Actual) (time.Time, bool) {
	wait, ok := p.Wait(a.CrashCount)
	if a.State != Crashed || a.Finished || !ok {
		return time.Time{}, false
	}
	return a.Since.Add(wait), true
}

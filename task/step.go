package task

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"cantina/action"
	"cantina/label"
)

// defaultPendingTimeout ends a task that no cell took.
const defaultPendingTimeout = 30 * time.Minute

// pendingTimeout returns how long the task may stay PENDING.
func (d *Definition) pendingTimeout() time.Duration {
	if d.PendingTimeout == 0 {
		return defaultPendingTimeout
	}
	return d.PendingTimeout
}

// Validate reports all that is wrong with the definition, each wrapping ErrInvalid.
func (d *Definition) Validate() error {
	var errs []error
	bad := func(field, problem string) {
		errs = append(errs, fmt.Errorf("%s: %s: %w", field, problem, ErrInvalid))
	}
	if len(d.Annotation) > MaxAnnotation {
		bad("annotation", "longer than 10 KiB")
	}
	if _, err := label.ParseAll(d.Conditions); err != nil {
		bad("cell_match", err.Error())
	}
	if err := action.CheckPriority(d.PreemptPriority); err != nil {
		bad("preempt_priority", err.Error())
	}
	if d.PendingTimeout < 0 {
		bad("pending_timeout", "must not be negative")
	}
	if u := d.CallbackURL; u != "" && !strings.HasPrefix(u, "http://") && !strings.HasPrefix(u, "https://") {
		bad("callback", "must be an http or https URL")
	}
	if err := d.Workload.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("%w: %w", err, ErrInvalid))
	}
	return errors.Join(errs...)
}

// Desire returns a new PENDING task. t must carry GUID, UID, Domain and Definition;
// the rest is set.
func Desire(t Task, now time.Time) (*Task, []Effect, error) {
	if t.GUID == "" || t.UID == "" || t.Domain == "" || t.Definition == nil {
		return nil, nil, fmt.Errorf("desire task %q: guid, uid, domain and definition are needed: %w", t.GUID, ErrInvalid)
	}
	if err := t.Definition.Validate(); err != nil {
		return nil, nil, fmt.Errorf("desire task %q: %w", t.GUID, err)
	}
	n := &Task{GUID: t.GUID, UID: t.UID, Domain: t.Domain, Name: t.Name, Definition: t.Definition, Created: now,
		Updated: now}
	return n, []Effect{RequestAuction{n.GUID, n.UID}}, nil
}

// Step returns the next row and its effects, or an error and the unchanged row. A nil row
// afterwards means that the task is deleted. Obsolete events of the leader change nothing and are
// no error.
func Step(t *Task, e Event, env Env) (*Task, []Effect, error) {
	if t == nil {
		return nil, nil, fmt.Errorf("%T: %w", e, ErrNotFound)
	}
	env.Policy = env.Policy.WithDefaults()
	n := *t
	m := &machine{t: &n, env: env}
	if err := m.step(e); err != nil {
		return t, nil, fmt.Errorf("%T of task %s: %w", e, t.GUID, err)
	}
	switch {
	case m.deleted:
		return nil, m.effects, nil
	case !m.changed:
		return t, m.effects, nil
	}
	return &n, m.effects, nil
}

// machine is the working copy of one Step.
type machine struct {
	t       *Task
	env     Env
	effects []Effect
	changed bool
	deleted bool
}

func (m *machine) do(e Effect) { m.effects = append(m.effects, e) }

// to moves the task to state s.
func (m *machine) to(s State) {
	m.changed = true
	m.t.State, m.t.Updated = s, m.env.Now
}

func (m *machine) step(e Event) error {
	switch e := e.(type) {
	case Start:
		return m.start(e)
	case Complete:
		return m.complete(e)
	case Missing:
		return m.missing(e)
	case Adopt:
		return m.adopt(e)
	case Found:
		m.found(e)
	case Reject:
		return m.reject(e)
	case Cancel:
		return m.cancel()
	case Resolve:
		return m.resolve()
	case Delete:
		return m.delete()
	case ResolveLost:
		return m.resolveLost(e)
	case ProcDead:
		m.procDead(e.Proc)
	default:
		return m.stepLeader(e)
	}
	return nil
}

// stepLeader handles convergence and callbacks.
func (m *machine) stepLeader(e Event) error {
	switch e := e.(type) {
	case ExpirePending:
		m.expirePending()
	case Kick:
		if m.t.State == Pending {
			m.do(RequestAuction{m.t.GUID, m.t.UID})
		}
	case KickCallback:
		m.kickCallback()
	case CallbackDone:
		return m.callbackDone(e)
	case Demote:
		if m.t.State == Resolving && m.env.Now.Sub(m.t.Updated) >= m.env.Policy.StuckResolving {
			m.to(Completed)
		}
	case Prune:
		m.deleted = m.t.prunable()
	default:
		return fmt.Errorf("unknown event %T", e)
	}
	return nil
}

func (m *machine) uid(uid string) error {
	if uid != m.t.UID {
		return ErrOtherUID
	}
	return nil
}

// end completes the task.
func (m *machine) end(o Outcome, r Result) {
	if m.t.State == Pending {
		m.do(WithdrawAuction{m.t.GUID, m.t.UID})
	}
	m.to(Completed)
	m.t.Outcome, m.t.Result, m.t.FirstCompleted = o, r, m.env.Now
	m.t.Verdict++
	m.t.MayStillRun, m.t.Callback = false, Callback{}
}

func (m *machine) start(e Start) error {
	if err := m.uid(e.UID); err != nil {
		return err
	}
	switch {
	case e.Reservation != "" && m.t.State == Running && m.t.Holder == e.By && m.t.Reservation == e.Reservation:
		return nil // the same reservation repeats its request: the response was lost
	case m.t.State != Pending:
		return ErrInvalidStateTransition
	case !m.env.Eligible && !e.Live:
		return ErrNotEligible
	}
	m.to(Running)
	m.t.Holder, m.t.Reservation, m.t.Rejection = e.By, e.Reservation, ""
	return nil
}

func (m *machine) complete(e Complete) error {
	if err := m.uid(e.UID); err != nil {
		return err
	}
	late := m.t.Unresolved()
	switch {
	case m.t.Ending() && m.t.Holder.Cell == e.By.Cell && e.Result.Ordered:
		m.gone(e.Result)
		return nil
	case m.t.Ending() && m.t.Holder.Cell == e.By.Cell: // it had ended before it was cancelled
	case m.t.State == Pending:
		m.t.Holder = e.By
	case m.t.State != Running && (!late || m.t.Result.Lost): // after Lost its cell does not know more
		return ErrInvalidStateTransition
	case m.t.Holder.Cell != e.By.Cell:
		return fmt.Errorf("running on cell %s, not %s: %w", m.t.Holder.Cell, e.By.Cell, ErrRunningOnDifferentCell)
	}
	if len(e.Result.Output) > MaxResult {
		e.Result = Result{Failed: true, Reason: ReasonResult, ExitCode: e.Result.ExitCode, Started: e.Result.Started,
			Ended: e.Result.Ended}
	}
	m.end(e.Result.Outcome(), e.Result)
	return nil
}

// missing ends a task whose holder has no container for it. Another process of the same cell does
// not prove that, unless the death of the holder was decided and the task is marked as one that may
// still run: then a later process of its directory reports it. If the row is of a store that
// went back, the end of the task is not known.
func (m *machine) missing(e Missing) error {
	if err := m.uid(e.UID); err != nil {
		return err
	}
	switch {
	case m.t.Ending() && (m.t.Holder == e.By || m.t.MayStillRun && m.t.Holder.Cell == e.By.Cell):
		m.gone(Result{})
		return nil
	case m.t.Unresolved() && m.t.MayStillRun && m.t.Holder.Cell == e.By.Cell:
		m.changed, m.t.MayStillRun = true, false
		return nil
	case m.t.State != Running:
		return ErrInvalidStateTransition
	case m.t.Holder != e.By:
		return ErrRunningOnDifferentCell
	}
	if m.env.Older {
		m.end(Lost, Result{Failed: true, Reason: ReasonForgotten})
		return nil
	}
	m.end(Failed, Result{Failed: true, Reason: ReasonNoContainer})
	return nil
}

// gone notes that the container of a cancelled task has ended; it stays cancelled.
func (m *machine) gone(r Result) {
	m.changed, m.t.MayStillRun = true, false
	x := &m.t.Result
	x.ExitCode, x.Signal, x.OOM, x.OutputLost, x.Started, x.Ended = r.ExitCode, r.Signal, r.OOM, r.OutputLost, r.Started,
		r.Ended
	if x.Ended.IsZero() {
		x.Ended = m.env.Now
	}
}

func (m *machine) adopt(e Adopt) error {
	if err := m.uid(e.UID); err != nil {
		return err
	}
	switch {
	case m.t.State != Running && !m.t.Ending() || m.t.Holder == e.By:
		return nil
	case m.t.Holder.Cell != e.By.Cell || m.t.Holder.Proc != e.From:
		return ErrRunningOnDifferentCell
	}
	m.changed = true
	m.t.Holder, m.t.Reservation = e.By, "" // an adopted task has been started
	return nil
}

// found lets a PENDING task be the one whose container is there. A restored store may have it under
// another uid, since it was made again, with another on_lost. The container keeps its own. A lost
// task whose container continued is RUNNING again: the loss is taken back. That of a cancelled one is
// ended.
func (m *machine) found(e Found) {
	switch {
	case m.t.State == Pending:
		m.do(WithdrawAuction{m.t.GUID, m.t.UID})
	case !m.t.MayStillRun || m.t.UID != e.UID || m.t.Holder.Cell != e.By.Cell:
		return
	case m.t.Ending():
		m.changed, m.t.Holder, m.t.MayStillRun = true, e.By, false
		m.do(CancelContainer{m.t.GUID, m.t.UID, e.By})
		return
	default: // lost
		m.t.Outcome, m.t.Result, m.t.FirstCompleted = Open, Result{}, time.Time{}
		m.t.MayStillRun, m.t.Callback = false, Callback{}
	}
	m.to(Running)
	m.t.UID, m.t.Holder, m.t.Reservation, m.t.Rejection = e.UID, e.By, "", ""
	if d := *m.t.Definition; d.DeadlineBound() != e.Bound {
		if d.OnLost = LostKeep; e.Bound {
			d.OnLost = LostEnd
		}
		m.t.Definition = &d
	}
}

func (m *machine) reject(e Reject) error {
	if err := m.uid(e.UID); err != nil {
		return err
	}
	placement := e.By == Holder{}
	switch {
	case m.t.State == Running && !placement && m.t.Holder != e.By:
		return ErrRunningOnDifferentCell
	case m.t.State == Pending, m.t.State == Running && !placement:
	default:
		return ErrInvalidStateTransition
	}
	if e.Reason == "" {
		e.Reason = "refused without a reason"
	}
	full := placement && !e.Carried && m.t.Definition.WhenFull == WhenFullFail
	if e.Never || full || !placement && !e.Carried && m.t.Rejections >= m.env.Policy.Rejections {
		m.end(Failed, Result{Failed: true, Reason: e.Reason})
		m.t.Rejection = e.Reason
		return nil
	}
	switch {
	case !placement && e.Carried && m.t.State == Pending:
		m.do(AttemptDropped{m.t.GUID, m.t.UID})
		m.do(RequestAuction{m.t.GUID, m.t.UID})
	case !placement:
		m.changed = true
		m.t.Rejections++
	}
	if m.t.Rejection != e.Reason {
		m.changed = true
		m.t.Rejection = e.Reason
	}
	if m.t.State == Running {
		m.to(Pending)
		m.t.Holder, m.t.Reservation = Holder{}, ""
	}
	return nil
}

// cancel ends a task. The container of a lost one that may still run is ended when its cell returns.
func (m *machine) cancel() error {
	switch {
	case m.t.State == Pending:
	case m.t.State == Running:
		m.do(CancelContainer{m.t.GUID, m.t.UID, m.t.Holder})
	case m.t.Unresolved() && m.t.MayStillRun:
		m.end(Cancelled, Result{Failed: true, Cancelled: true, Reason: ReasonCancelled})
		m.t.MayStillRun = true
		return nil
	default:
		return ErrInvalidStateTransition
	}
	m.end(Cancelled, Result{Failed: true, Cancelled: true, Reason: ReasonCancelled})
	return nil
}

func (m *machine) resolve() error {
	switch {
	case m.t.State != Completed:
		return ErrInvalidStateTransition
	case m.t.Unresolved():
		return ErrLostUnresolved
	}
	m.to(Resolving)
	return nil
}

func (m *machine) delete() error {
	switch {
	case m.t.State != Resolving:
		return ErrInvalidStateTransition
	case m.t.Unresolved():
		return ErrLostUnresolved
	case m.t.Held(m.env.Over, m.env.HolderDead):
		return fmt.Errorf("on cell %s: %w", m.t.Holder.Cell, ErrEnding)
	}
	m.deleted = true
	return nil
}

func (m *machine) resolveLost(e ResolveLost) error {
	switch {
	case !m.t.Unresolved() && !m.t.MayStillRun || e.As == Unresolved:
		return ErrInvalidStateTransition
	case m.t.MayStillRun && !e.Accept:
		return fmt.Errorf("on cell %s: %w", m.t.Holder.Cell, ErrMayStillRun)
	case e.As == ResolvedRerun && (e.Successor == "" || e.Successor == m.t.GUID):
		return fmt.Errorf("a rerun needs a guid of its own: %w", ErrInvalid)
	}
	m.changed = true
	if m.t.Ending() {
		m.gone(Result{})
	}
	m.t.Resolution, m.t.MayStillRun = e.As, false
	if e.As == ResolvedRerun {
		m.t.Successor = e.Successor
	}
	return nil
}

// procDead gives a task up as lost. A cancelled one stays cancelled; its container, if it may outlive
// the process for an unknown time, may still run until its cell returns.
func (m *machine) procDead(proc string) {
	if m.t.Holder.Proc != proc || m.t.State != Running && !m.t.Ending() {
		return
	}
	may := m.t.Definition.OnLost == LostKeep
	switch {
	case m.t.State == Running:
		m.end(Lost, Result{Failed: true, Reason: ReasonLost})
	case m.t.MayStillRun == may:
		return
	}
	m.changed, m.t.MayStillRun = true, may
}

func (m *machine) expirePending() {
	if m.t.State != Pending || m.env.Now.Sub(m.t.Created) < m.t.Definition.pendingTimeout() {
		return
	}
	reason := ReasonNotStarted
	if m.t.Rejection != "" {
		reason += ": " + m.t.Rejection
	}
	m.end(Failed, Result{Failed: true, Reason: reason})
}

// callbackDue reports whether the end still has to be delivered, and from when on.
func (t *Task) callbackDue() (time.Time, bool) {
	if t.State != Completed || t.Definition.CallbackURL == "" || t.Callback.Delivered || t.Callback.Dead {
		return time.Time{}, false
	}
	return t.Callback.Next, true
}

func (m *machine) kickCallback() {
	if at, due := m.t.callbackDue(); due && !m.env.Now.Before(at) {
		m.to(Resolving)
		m.do(CallBack{m.t.GUID, m.t.UID})
	}
}

func (m *machine) callbackDone(e CallbackDone) error {
	if err := m.uid(e.UID); err != nil {
		return err
	}
	if m.t.State != Resolving || m.t.Definition.CallbackURL == "" || e.Verdict != m.t.Verdict {
		return nil // a late answer, or one about an end that was replaced
	}
	c := &m.t.Callback
	c.Runs++
	c.Error = e.Error
	m.to(Completed)
	switch {
	case e.Delivered:
		c.Delivered, c.Dead, c.Error = true, false, ""
		m.deleted = m.env.Policy.seed() && !m.t.Unresolved()
	case c.Runs >= m.env.Policy.CallbackRuns:
		c.Dead = true
	default:
		c.Next = m.env.Now.Add(min(m.env.Policy.Kick<<min(c.Runs-1, 10), time.Hour))
	}
	return nil
}

// prunable reports whether the row may go once its retention is over.
func (t *Task) prunable() bool { return t.State == Completed && !t.Unresolved() }

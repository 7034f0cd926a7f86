package bbs

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"cantina/internal/text"
	"cantina/lrp"
	"cantina/placement"
	"cantina/plan"
	"cantina/task"
)

// ExplainInstance explains one index of the version of a service that is to run,
// or of an older one when only that has it. ErrServiceNotFound, lrp.ErrNotFound.
func (q *queries) ExplainInstance(k lrp.ServiceKey, index int) (plan.Explanation, error) {
	now := q.now()
	v := q.view
	v.mu.RLock()
	defer v.mu.RUnlock()
	s, ok := v.services[k]
	if !ok || s.row.Target() == nil {
		return plan.Explanation{}, fmt.Errorf("service %v: %w", k, ErrServiceNotFound)
	}
	return q.explainIndex(s.row, index, now)
}

// explainIndex explains one index of a service; the view's lock is held.
func (q *queries) explainIndex(s *lrp.Service, index int, now time.Time) (plan.Explanation, error) {
	v, version := q.view, s.Target()
	for i := range s.Versions {
		if s.Versions[i].Wants(index) {
			version = &s.Versions[i]
		}
	}
	key := lrp.Key{Process: version.Process, Index: index}
	x, exists := v.indices[key]
	e := plan.Explanation{State: "no row", Wanted: "gone"}
	if version.Wants(index) {
		e.Wanted = lrp.Running.String()
	}
	if v.badRows[IndexRow(key)] {
		e.Add("quarantined", "its row cannot be read; it counts as existing, and nothing changes it",
			"cantina store quarantine restore "+IndexRow(key)+", or drop", 0)
		return e, nil
	}
	if !exists && !version.Wants(index) {
		for _, i := range v.instancesOf(s.Key) { // of an earlier service of the name
			if i.key.Index == index {
				old := cmp.Or(v.processes[i.key.Process].version, &lrp.Version{})
				q.explainRows(&e, v.indices[i.key].row, old, now)
				return e, nil
			}
		}
		return e, fmt.Errorf("service %v index %d: %w", s.Key, index, lrp.ErrNotFound)
	}
	q.explainRows(&e, x.row, version, now)
	return e, nil
}

// explainRows adds the content of the rows of an index.
func (q *queries) explainRows(e *plan.Explanation, x lrp.Index, version *lrp.Version, now time.Time) {
	a := x.Resolved()
	if a == nil {
		e.Add("starting", "its row is being created", "", 0)
		return
	}
	e.State = a.State.String()
	switch {
	case a.Stopping():
		e.State = Stopping
	case a.Presence != lrp.Ordinary:
		e.State += " (" + a.Presence.String() + ")"
	case a.State == lrp.Running && !a.Net.Routable:
		e.State += ", not ready"
	case a.Unheard:
		e.State += ", not confirmed"
	case a.State == lrp.Running && crashesOn(a, version, now):
		e.State += ", crashing again and again"
	case a.Finished && version.Wants(a.Key.Index):
		e.State, e.Wanted, e.Fine = "finished", "finished", true
	default:
		e.Fine = e.State == e.Wanted
	}
	if s := x.Suspect; s != nil && !s.Stopping() {
		text := "cell %s is silent; the instance stays in use until a replacement runs, the cell returns, or the cell is lost"
		if s.Unheard {
			text = "cell %s has not reported to this leader; nothing is routed to it until the cell returns, a " +
				"replacement runs, or the cell is lost"
		}
		e.Add("suspect", fmt.Sprintf(text, s.Cell), "", 0)
	}
	if c := x.Evacuating; c != nil && !c.Stopping() {
		reason, text := "evacuating", "cell %s is draining; the instance stays in use until a replacement runs"
		if c.Moving {
			reason = "moving"
			text = "being moved from cell %s by a rebalance; the instance stays in use until a replacement runs"
		}
		e.Add(reason, fmt.Sprintf(text, c.Cell), "", c.Expires.Sub(now))
	}
	if o := x.Ordinary; o != nil {
		explainOrdinary(e, o, version, now)
	}
	if a.Stopping() {
		explainStopping(e, a, version, now)
	}
}

// Stopping is the state of an instance that is being stopped, for any reason.
const Stopping = "stopping"

// explainStopping returns why an instance is being stopped, and its maximum remaining time.
func explainStopping(e *plan.Explanation, a *lrp.Actual, version *lrp.Version, now time.Time) {
	why, code, change := "it is not wanted any more", "stopping", ""
	switch p := a.Preempted; {
	case p.By != "" && version.Wants(a.Key.Index):
		why = fmt.Sprintf("its room is given to %s, which has preempt_priority %d", p.By, p.Priority)
		code, change = codePreempted, roomForPreempted
	case !a.Retiring && a.Presence == lrp.Evacuating:
		why = "the cell is being emptied, and the time for that is over"
	case !a.Retiring:
		why = "its cell ends it"
	case version.Wants(a.Key.Index):
		why = "it is started afresh afterwards"
	}
	text := fmt.Sprintf("cell %s is stopping it: %s", a.Cell, why)
	if a.Net.StopBy.IsZero() {
		e.Add(code, text, change, 0)
		return
	}
	at := a.Net.StopBy.Format(time.RFC3339)
	if now.After(a.Net.StopBy) {
		e.Add(code, text+"; it was to be killed at "+at+" at the latest, and has not ended", change, 0)
		return
	}
	e.Add(code, text+"; it is killed at "+at+" at the latest", change, a.Net.StopBy.Sub(now))
}

// loops is how many crashes in a row make a restart loop.
const loops = 3

// crashesOn reports whether an instance runs between two crashes of a restart loop.
func crashesOn(a *lrp.Actual, version *lrp.Version, now time.Time) bool {
	return a.CrashCount >= loops && version.Restart.NextCount(a.CrashCount, a.State, a.Since, now) > a.CrashCount
}

// placementCode is the code of a reason for which there is no place.
func placementCode(text string) string { return cmp.Or(placement.CodeOf(text), "placement") }

// codePreempted is the code of the reason that an instance is stopped, or was, for other work.
const codePreempted = "preempted"

// roomForPreempted is a change that lets a preempted instance run.
const roomForPreempted = "start a cell, or raise the preempt_priority of the service"

func explainOrdinary(e *plan.Explanation, o *lrp.Actual, version *lrp.Version, now time.Time) {
	switch {
	case o.State == lrp.Unclaimed && now.Before(o.NotBefore):
		e.Add("replace_after", "no replacement before "+o.NotBefore.Format(time.RFC3339)+
			" (replace_after), unless the cell is lost", "", o.NotBefore.Sub(now))
	case o.State == lrp.Unclaimed && o.PlacementError != "":
		e.Add(placementCode(o.PlacementError), o.PlacementError, "", 0)
	case o.State == lrp.Unclaimed:
		e.Add("placing", "waiting for placement since "+o.Since.Format(time.RFC3339), "", 0)
	case o.Stopping(): // see explainStopping
	case o.State == lrp.Claimed:
		e.Add("starting", fmt.Sprintf("starting on cell %s since %s", o.Cell, o.Since.Format(time.RFC3339)), "", 0)
	case o.Unheard:
		e.Add("unheard", "cell "+o.Cell+" does not report, and nothing is routed to it", "", 0)
	case o.State == lrp.Running && !o.Net.Routable:
		e.Add("not_ready", "running on cell "+o.Cell+", but its readiness check fails", "", 0)
	case o.State == lrp.Crashed:
		explainCrash(e, o, version, now)
	}
	if p := o.Preempted; p.By != "" && o.State == lrp.Unclaimed {
		e.Add(codePreempted, fmt.Sprintf("stopped on cell %s at %s: its room was given to %s, which has preempt_priority %d",
			p.Cell, p.At.Format(time.RFC3339), p.By, p.Priority), roomForPreempted, 0)
	}
	if o.State != lrp.Crashed && (o.CrashCount > 0 || !o.LastCrash.At.IsZero()) {
		e.Add("crashes", crashes(o, version), "", 0)
	}
}

// crashes describes their number, and how, where and when the last one was, on any cell.
func crashes(o *lrp.Actual, version *lrp.Version) string {
	text := fmt.Sprintf("crashed %d times", o.CrashCount)
	switch o.CrashCount {
	case 0:
		text = "crashed before"
	case 1:
		text = "crashed once"
	}
	if c := o.LastCrash; !c.At.IsZero() {
		text += fmt.Sprintf(", last on cell %s at %s: %s", c.Cell, c.At.Format(time.RFC3339), c.Reason)
	}
	wait, again := version.Restart.Wait(o.CrashCount + 1)
	switch {
	case o.CrashCount == 0:
	case !again:
		text += "; it is not restarted after the next crash"
	case wait == 0:
		text += "; it is restarted at once"
	default:
		text += fmt.Sprintf("; after the next crash it waits %v", wait)
	}
	return text
}

func explainCrash(e *plan.Explanation, o *lrp.Actual, version *lrp.Version, now time.Time) {
	at, ever := version.Restart.RestartAt(o)
	again := fmt.Sprintf("cantina restart %s/%d", o.Service.Name, o.Key.Index)
	switch {
	case o.Finished:
		e.Add("finished", "exited with status 0; restart mode is on-failure", again, 0)
	case !ever:
		e.Add("given_up", fmt.Sprintf("crashed %d times; no more restarts, last: %s", o.CrashCount, o.CrashReason), again, 0)
	default:
		e.Add("crash_backoff", fmt.Sprintf("crash %d: %s; restarts in %v", o.CrashCount, o.CrashReason,
			max(at.Sub(now), 0).Round(time.Second)), "", at.Sub(now))
	}
}

// namedInstances is how many instances ExplainService names.
const namedInstances = 5

// explainInstances adds the reasons of the instances that are not as wanted, of the
// first few by name, and returns how many have finished; the view's lock is held.
func (q *queries) explainInstances(e *plan.Explanation, s *lrp.Service, now time.Time) (finished int) {
	bad := 0
	for i := range s.Instances {
		x, err := q.explainIndex(s, i, now)
		if err != nil || x.Fine {
			if x.Fine && x.State != lrp.Running.String() {
				finished++
			}
			continue
		}
		if bad++; bad > namedInstances {
			continue
		}
		name := fmt.Sprintf("%s/%d: ", s.Key.Name, i)
		for _, r := range x.Reasons {
			r.Text = name + r.Text
			e.Reasons = append(e.Reasons, r)
		}
		if len(x.Reasons) == 0 {
			e.Add("instance", name+x.State, "", 0)
		}
	}
	if more := bad - namedInstances; more > 0 {
		e.Add("instances", fmt.Sprintf("%d more instances are not in the desired state", more), "", 0)
	}
	return finished
}

// explainLeaving adds unwanted instances of a service that are being stopped: of the indices
// above, of older versions, of a removed service. The view's lock is held.
func (q *queries) explainLeaving(e *plan.Explanation, k lrp.ServiceKey, now time.Time) {
	shown, more := 0, 0
	for _, i := range q.view.instancesOf(k) {
		key := i.key
		p, a := q.view.processes[key.Process], q.view.indices[key].row.Resolved()
		if p.version == nil || p.version.Wants(key.Index) || !a.Stopping() {
			continue
		}
		if shown++; shown > namedInstances {
			more++
			continue
		}
		var one plan.Explanation
		explainStopping(&one, a, p.version, now)
		for _, r := range one.Reasons {
			e.Add(r.Code, fmt.Sprintf("%s/%d of version %d: %s", k.Name, key.Index, p.version.Number, r.Text), r.Change,
				r.Longest)
		}
	}
	if more > 0 {
		e.Add("instances", fmt.Sprintf("%d more instances are being stopped", more), "", 0)
	}
}

// looping reports whether an instance is in a restart loop.
func looping(e *plan.Explanation) bool {
	return slices.ContainsFunc(e.Reasons, func(r plan.Reason) bool { return r.Code == "crashes" })
}

// ExplainService explains a service as a whole, and its first instances that are not
// as wanted.
func (q *queries) ExplainService(k lrp.ServiceKey) (plan.Explanation, error) {
	now := q.now()
	s, err := q.GetService(k)
	if err != nil {
		return plan.Explanation{}, err
	}
	e := plan.Explanation{State: fmt.Sprintf("%d of %d running", s.Running, s.Instances),
		Wanted: fmt.Sprintf("%d running, %s", s.Instances, lrp.Steady)}
	if s.Instances == 0 && s.Running == 0 {
		e.State, e.Wanted = "scaled to 0", "scaled to 0"
	}
	if s.Stopping > 0 {
		e.State += fmt.Sprintf(", %d stopping", s.Stopping)
	}
	if s.Routable != s.Running {
		e.State += fmt.Sprintf(", %d ready", s.Routable)
	}
	if s.Removed {
		e.Wanted = "gone"
		e.Add("removing", "its last instances are stopping", "", 0)
	}
	if s.Failure != "" {
		e.Add("rollout_failed", s.Failure, "fix the version and apply it again", 0)
	}
	if t := s.Target(); s.Phase == lrp.RollingOut && t != nil {
		e.Add("rolling_out", fmt.Sprintf("version %d: %d of %d healthy", t.Number, s.Healthy, s.Instances), "", 0)
	}
	finished := 0
	q.view.mu.RLock()
	defer q.view.mu.RUnlock()
	if row := q.view.services[k].row; row != nil && row.Target() != nil && !row.Removed {
		if n := q.explainInstances(&e, row, now); n > 0 {
			e.State += fmt.Sprintf(", %d finished", n)
			finished = n
		}
	}
	q.explainLeaving(&e, k, now)
	back := s.Failure != "" && s.Phase == lrp.Steady && s.Target() != nil
	if back {
		e.State += fmt.Sprintf(", rolled back to version %d", s.Target().Number)
		e.Wanted = fmt.Sprintf("%d running, version %d", s.Instances, s.FailedVersion)
	} else if s.Instances > 0 || s.Phase != lrp.Steady {
		e.State += ", " + s.Phase.String()
	}
	e.Fine = s.Running+finished == s.Instances && s.Routable == s.Running && s.Stopping == 0 && s.Phase == lrp.Steady &&
		!s.Removed && !back && !looping(&e)
	if !e.Fine && len(e.Reasons) == 0 {
		e.Add("phase", "it is "+s.Phase.String(), "", 0)
	}
	if d, known := q.view.domains[k.Domain]; known && !d.until.IsZero() && !now.Before(d.until) {
		if n := q.view.keptOf(k); n > 0 {
			e.Add("stale_domain", fmt.Sprintf("domain %s is not fresh, so %s not wanted", k.Domain,
				text.CountAs(n, "instance stays that is", "instances stay that are")), "apply it again", 0)
		}
	}
	return e, nil
}

// keptOf counts the instances of a service that are not wanted and are not being stopped; the lock is held.
func (v *view) keptOf(k lrp.ServiceKey) int {
	n := 0
	for _, i := range v.instancesOf(k) {
		key := i.key
		p := v.processes[key.Process]
		if a := v.indices[key].row.Resolved(); (p.version == nil || !p.version.Wants(key.Index)) && a != nil &&
			a.State != lrp.Crashed && !a.Stopping() {
			n++
		}
	}
	return n
}

// ExplainTask explains one task.
func (q *queries) ExplainTask(guid string) (plan.Explanation, error) {
	row, err := q.GetTask(guid)
	if err != nil {
		return plan.Explanation{}, err
	}
	return explainTask(row, q.now()), nil
}

func explainTask(row plan.Task, now time.Time) plan.Explanation {
	e := plan.Explanation{State: row.State.String()}
	if row.Outcome != task.Open {
		e.State += ", " + row.Outcome.String()
	}
	switch {
	case !row.Ended():
		e.Wanted, e.Fine = task.Running.String(), row.State == task.Running
	case row.Outcome == task.Failed, row.Unresolved():
		e.Wanted = task.Succeeded.String()
	case row.Ending() && row.MayStillRun:
		e.Wanted, e.State = e.State, e.State+", being ended"
		e.Add("lost", "cell "+row.Holder.Cell+" has not reported since it was declared dead: the container may still run "+
			"there, and is ended when the cell is back", "if it is certainly gone: cantina task resolve "+row.GUID+
			" --as failed --accept-double-starts", 0)
	case row.Ending():
		e.Wanted, e.State = e.State, e.State+", being ended"
		e.Add("ending", "cell "+row.Holder.Cell+
			" has not reported that its container is gone; until then the task cannot be removed", "", 0)
	default:
		e.Wanted, e.Fine = "ended", true
	}
	switch {
	case row.State == task.Pending:
		explainPending(&e, row.Task, now)
	case row.State == task.Running:
		e.Add("running", fmt.Sprintf("running on cell %s since %s", row.Holder.Cell, row.Updated.Format(time.RFC3339)), "", 0)
	case row.Unresolved():
		text := row.Result.Reason + " on cell " + row.Holder.Cell
		hint := "cantina task resolve " + row.GUID + " --as done|failed|rerun"
		if row.MayStillRun {
			text += "; it may still run there, and is RUNNING again when the cell reports it"
			hint = "if it is certainly gone: " + hint + " --accept-double-starts"
		}
		e.Add("lost", text, hint, 0)
	case row.Result.Reason != "":
		e.Add("ended", row.Result.Reason, "", 0)
	}
	if c := row.Callback; c.Dead {
		if e.Fine {
			e.Wanted, e.State, e.Fine = e.State, e.State+", not delivered", false
		}
		e.Add("dead_letter", "its callback could not be delivered: "+c.Error, "", 0)
	} else if c.Runs > 0 && !c.Delivered {
		e.Add("callback", fmt.Sprintf("its callback is not delivered yet (%d attempts): %s", c.Runs, c.Error), "",
			c.Next.Sub(now))
	}
	return e
}

func explainPending(e *plan.Explanation, t *task.Task, now time.Time) {
	timeout := t.Definition.PendingTimeout
	if timeout == 0 {
		timeout = 30 * time.Minute
	}
	left := t.Created.Add(timeout).Sub(now)
	if t.Rejection != "" {
		e.Add(placementCode(t.Rejection), t.Rejection, "", left)
		return
	}
	e.Add("placing", "waiting for placement since "+t.Created.Format(time.RFC3339), "", left)
}

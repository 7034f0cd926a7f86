package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"cantina/api"
	"cantina/batch"
	"cantina/bbs"
	"cantina/lrp"
	"cantina/resource"
	"cantina/scheduler"
	"cantina/store"
	"cantina/task"
	"cantina/timetable"
	"cantina/wire"
	pb "cantina/wire/cantinav1"
	"cantina/worker"
)

// view is a term as the API sees it.
type view struct{ *term }

func (v view) fresh() error {
	if !v.reign.LeaseHeld() {
		return store.ErrLeaseNotProven
	}
	return nil
}

func fromRange(r api.Range) bbs.Range { return bbs.Range{After: r.After, Limit: r.Limit} }

func toWrite(w api.Write) bbs.Write { return bbs.Write{Key: w.Key, Expect: w.Expect, By: w.By} }

func listed[A, B any](p bbs.Page[A], f func(A) B) api.Listed[B] {
	out := api.Listed[B]{Items: make([]B, len(p.Items)), Next: p.Next, Revision: p.Revision}
	for i, it := range p.Items {
		out.Items[i] = f(it)
	}
	return out
}

// wanted is what a spec file wants, split between its owners.
type wanted struct {
	board bbs.Application
	jobs  []scheduler.Wanted
	times []timetable.Wanted
}

// kept are the names of jobs that schedules run: a prune leaves them alone.
func (w *wanted) kept() []string {
	var out []string
	for i := range w.times {
		if w.times[i].Definition.Job != nil {
			out = append(out, w.times[i].Name)
		}
	}
	return out
}

func application(a api.Application) wanted {
	out := wanted{board: bbs.Application{Domain: a.Domain, TTL: a.TTL, Services: a.Services, Prune: a.Prune}}
	for _, t := range a.Tasks {
		out.board.Tasks = append(out.board.Tasks, bbs.NamedTask{Name: t.Name, Definition: t.Definition})
	}
	for _, j := range a.Jobs {
		j.Job.Domain = a.Domain
		out.jobs = append(out.jobs, scheduler.Wanted{Job: j.Job, Forest: j.Forest})
	}
	for _, s := range a.Schedules {
		if s.Definition.Job != nil {
			j := *s.Definition.Job
			j.Job.Domain = a.Domain
			s.Definition.Job = &j
		}
		out.times = append(out.times, timetable.Wanted{Name: s.Name, Definition: s.Definition})
	}
	return out
}

func applied(a bbs.Applied, lines []scheduler.Line, times []timetable.Line) api.Applied {
	out := api.Applied{Revision: a.Revision}
	for _, c := range a.Changes {
		x := api.Change{Kind: c.Kind, Name: c.Name, Verb: api.Verb(c.Verb), Note: c.Note}
		for _, f := range c.Fields {
			x.Fields = append(x.Fields, api.FieldChange(f))
		}
		out.Changes = append(out.Changes, x)
	}
	for _, l := range lines {
		x := api.Change{Kind: "job", Name: l.Name, Verb: api.Verb(l.Verb), Note: l.Note, Nodes: l.Nodes}
		for _, f := range l.Fields {
			x.Fields = append(x.Fields, api.FieldChange(f))
		}
		out.Changes = append(out.Changes, x)
	}
	for _, l := range times {
		x := api.Change{Kind: "schedule", Name: l.Name, Verb: api.Verb(l.Verb), Note: l.Note}
		for _, f := range l.Fields {
			x.Fields = append(x.Fields, api.FieldChange(f))
		}
		out.Changes = append(out.Changes, x)
	}
	return out
}

// Plan implements api.Applications.
func (v view) Plan(_ context.Context, a api.Application) (api.Applied, error) {
	w := application(a)
	got, err2 := v.board.Plan(w.board) // first: its revision may be older than what the others see, not newer
	lines, err := v.jobs.Plan(a.Domain, w.jobs, a.Prune, w.kept()...)
	times, err3 := v.times.Plan(a.Domain, w.times, a.Prune)
	if err := errors.Join(err2, err, err3); err != nil {
		return api.Applied{}, err
	}
	return remarked(applied(got, lines, times), a), nil
}

// remarked adds the remarks on calendars.
func remarked(out api.Applied, a api.Application) api.Applied {
	for _, s := range a.Schedules {
		out.Warnings = append(out.Warnings, s.Warnings...)
	}
	return out
}

// Apply implements api.Applications: services, tasks, jobs and schedules in one commit.
func (v view) Apply(ctx context.Context, a api.Application, w api.Write) (api.Applied, error) {
	all := application(a)
	if _, err := v.board.Plan(all.board); err != nil {
		_, err2 := v.jobs.Plan(a.Domain, all.jobs, a.Prune, all.kept()...)
		_, err3 := v.times.Plan(a.Domain, all.times, a.Prune)
		return api.Applied{}, errors.Join(err, err2, err3)
	}
	var lines []scheduler.Line
	var times []timetable.Line
	all.board.Extra = func() (bbs.Extra, error) {
		c, err := v.jobs.Apply(a.Domain, all.jobs, a.Prune, all.kept()...)
		if err != nil {
			return bbs.Extra{}, err
		}
		t, err := v.times.Apply(a.Domain, all.times, a.Prune)
		if err != nil {
			return bbs.Extra{}, err
		}
		lines, times = c.Lines, t.Lines
		return bbs.Extra{Ops: append(c.Ops, t.Ops...), Undo: t.Undo, Done: func(revision int64, err error) {
			c.Done(revision, err)
			t.Done(revision, err)
		}}, nil
	}
	got, err := v.board.Apply(ctx, all.board, toWrite(w))
	if err != nil {
		return api.Applied{}, err
	}
	return remarked(applied(got, lines, times), a), nil
}

func toService(s bbs.Service) api.Service {
	return api.Service{Service: s.Service, Running: s.Running, Routable: s.Routable, Crashed: s.Crashed, Revision: s.Revision}
}

// ListServices implements api.Services.
func (v view) ListServices(domain string, r api.Range) (api.Listed[api.Service], error) {
	if err := v.fresh(); err != nil {
		return api.Listed[api.Service]{}, err
	}
	p, err := v.board.ListServices(domain, fromRange(r))
	return listed(p, toService), err
}

// GetService implements api.Services.
func (v view) GetService(k lrp.ServiceKey) (api.Service, error) {
	s, err := v.board.GetService(k)
	return toService(s), errors.Join(v.fresh(), err)
}

// ListInstances implements api.Services.
func (v view) ListInstances(f api.InstanceFilter, r api.Range) (api.Listed[api.Instance], error) {
	if err := v.fresh(); err != nil {
		return api.Listed[api.Instance]{}, err
	}
	p, err := v.board.ListInstances(bbs.InstanceFilter(f), fromRange(r))
	return listed(p, func(i bbs.Instance) api.Instance { return api.Instance(i) }), err
}

// ScaleService implements api.Services.
func (v view) ScaleService(ctx context.Context, k lrp.ServiceKey, instances int, w api.Write) (api.Service, error) {
	s, err := v.board.ScaleService(ctx, k, instances, toWrite(w))
	return toService(s), err
}

// RemoveService implements api.Services.
func (v view) RemoveService(ctx context.Context, k lrp.ServiceKey, w api.Write) (api.Service, error) {
	s, err := v.board.RemoveService(ctx, k, toWrite(w))
	return toService(s), err
}

// RetireInstances implements api.Services.
func (v view) RetireInstances(ctx context.Context, k lrp.ServiceKey, indices []int, w api.Write) (int, error) {
	return v.board.RetireInstances(ctx, k, indices, toWrite(w))
}

func toTask(t bbs.Task) api.Task { return api.Task(t) }

// ListTasks implements api.Tasks.
func (v view) ListTasks(f api.TaskFilter, r api.Range) (api.Listed[api.Task], error) {
	if err := v.fresh(); err != nil {
		return api.Listed[api.Task]{}, err
	}
	p, err := v.board.ListTasks(bbs.TaskFilter(f), fromRange(r))
	return listed(p, toTask), err
}

// GetTask implements api.Tasks.
func (v view) GetTask(guid string) (api.Task, error) {
	if err := v.fresh(); err != nil {
		return api.Task{}, err
	}
	t, err := v.board.GetTask(guid)
	return toTask(t), err
}

// DesireTask implements api.Tasks.
func (v view) DesireTask(ctx context.Context, n api.NewTask, w api.Write) (api.Task, error) {
	t, err := v.board.DesireTask(ctx, bbs.NewTask(n), toWrite(w))
	return toTask(t), err
}

// CancelTask implements api.Tasks.
func (v view) CancelTask(ctx context.Context, guid string, w api.Write) (api.Task, error) {
	t, err := v.board.CancelTask(ctx, guid, toWrite(w))
	return toTask(t), err
}

// DeleteTask implements api.Tasks.
func (v view) DeleteTask(ctx context.Context, guid string, w api.Write) error {
	return v.board.DeleteTask(ctx, guid, toWrite(w))
}

// SettleTask implements api.Tasks.
func (v view) SettleTask(ctx context.Context, guid string, as task.Resolution, w api.Write) (api.Task, error) {
	t, err := v.board.SettleTask(ctx, guid, as, toWrite(w))
	return toTask(t), err
}

// ListJobs implements api.Jobs.
func (v view) ListJobs(domain string, r api.Range) (api.Listed[api.Job], error) {
	if err := v.fresh(); err != nil {
		return api.Listed[api.Job]{}, err
	}
	all := v.jobs.Jobs(domain, r.After, r.Limit+1)
	out := api.Listed[api.Job]{}
	for i, j := range all {
		if i == r.Limit {
			out.Next = all[i-1].Name
			break
		}
		out.Items = append(out.Items, api.Job(j))
	}
	return out, nil
}

// GetJob implements api.Jobs.
func (v view) GetJob(name string) (api.Job, error) {
	j, err := v.jobs.Job(name)
	return api.Job(j), errors.Join(v.fresh(), err)
}

func nodeFilter(f api.PairFilter, r api.Range) batch.NodeFilter {
	n := batch.NodeFilter{Classes: f.Classes, Node: f.Node, Below: f.Below, After: r.After}
	if r.Limit > 0 {
		n.Limit = r.Limit + 1
	}
	return n
}

func pairs(all []scheduler.PairView, limit int) api.Listed[api.Pair] {
	out := api.Listed[api.Pair]{}
	for i, p := range all {
		if i == limit {
			out.Next = all[i-1].Node
			break
		}
		out.Items = append(out.Items, api.Pair(p))
	}
	return out
}

// ListPairs implements api.Jobs.
func (v view) ListPairs(f api.PairFilter, r api.Range) (api.Listed[api.Pair], error) {
	if err := v.fresh(); err != nil {
		return api.Listed[api.Pair]{}, err
	}
	all, err := v.jobs.Pairs(f.Job, nodeFilter(f, r))
	return pairs(all, r.Limit), err
}

// ListResults implements api.Jobs.
func (v view) ListResults(ctx context.Context, f api.PairFilter, r api.Range) (api.Listed[api.Pair], error) {
	all, err := v.jobs.Results(ctx, f.Job, nodeFilter(f, r))
	return pairs(all, r.Limit), err
}

// change commits a change of one job, once for the caller's key, and returns how
// many batch tasks it touches.
func (v view) change(ctx context.Context, w api.Write, operation string, f api.PairFilter, prepare func(*bbs.Decision) (*scheduler.Change, error)) (int, error) {
	answer, _, err := v.board.WriteDecision(ctx, toWrite(w), operation, request(f), func(d *bbs.Decision) ([]byte, error) {
		j, err := v.jobs.Job(f.Job)
		if err != nil {
			return nil, err
		}
		c, err := prepare(d)
		if err != nil {
			return nil, err
		}
		if err := d.Expect(scheduler.JobRow(f.Job), j.Revision, w.Expect); err != nil {
			return nil, err
		}
		d.Add(bbs.Extra{Ops: c.Ops, Done: c.Done})
		n := 0
		for _, l := range c.Lines {
			n += max(l.Nodes, 0)
		}
		return strconv.AppendInt(nil, int64(n), 10), nil
	})
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(answer))
}

// define is change for what a domain desires of a job: it moves the domain's revision.
func (v view) define(ctx context.Context, w api.Write, operation, name string, prepare func() (*scheduler.Change, error)) error {
	_, err := v.change(ctx, w, operation, api.PairFilter{Job: name}, func(d *bbs.Decision) (*scheduler.Change, error) {
		j, err := v.jobs.Job(name)
		if err != nil {
			return nil, err
		}
		c, err := prepare()
		if err == nil && len(c.Ops) > 0 {
			d.Redefine(j.Domain)
		}
		return c, err
	})
	return err
}

// request is what a call with a filter asks, to tell a repeated one from another.
func request(f api.PairFilter) []byte {
	return fmt.Appendf(nil, "%q %v %q %q", f.Job, f.Classes, f.Node, f.Below)
}

// RemoveJob implements api.Jobs.
func (v view) RemoveJob(ctx context.Context, name string, w api.Write) error {
	return v.define(ctx, w, "remove job", name, func() (*scheduler.Change, error) { return v.jobs.Remove(name) })
}

// PauseJob implements api.Jobs.
func (v view) PauseJob(ctx context.Context, name string, paused bool, w api.Write) (api.Job, error) {
	operation := "pause job"
	if !paused {
		operation = "resume job"
	}
	if err := v.define(ctx, w, operation, name, func() (*scheduler.Change, error) { return v.jobs.Pause(name, paused) }); err != nil {
		return api.Job{}, err
	}
	return v.GetJob(name)
}

// ForgiveJob implements api.Jobs. It may take several commits, each of which can be
// repeated; the key is kept with the answer when all are done.
func (v view) ForgiveJob(ctx context.Context, f api.PairFilter, w api.Write) (int, error) {
	const operation = "forgive job"
	answer, ok, err := v.board.Answered(ctx, toWrite(w), operation, request(f))
	if err != nil {
		return 0, err
	}
	if ok {
		return strconv.Atoi(string(answer))
	}
	if w.Expect != 0 { // before anything is done
		if _, err := v.change(ctx, api.Write{Expect: w.Expect, By: w.By}, operation, f, nothing); err != nil {
			return 0, err
		}
	}
	n, err := v.jobs.Forgive(ctx, f.Job, nodeFilter(f, api.Range{}))
	if err != nil || w.Key == "" {
		return n, err
	}
	return v.change(ctx, api.Write{Key: w.Key, By: w.By}, operation, f, func(*bbs.Decision) (*scheduler.Change, error) {
		return &scheduler.Change{Lines: []scheduler.Line{{Name: f.Job, Nodes: n}}}, nil
	})
}

func nothing(*bbs.Decision) (*scheduler.Change, error) { return &scheduler.Change{}, nil }

// KillPairs implements api.Jobs.
func (v view) KillPairs(ctx context.Context, f api.PairFilter, w api.Write) (int, error) {
	return v.change(ctx, w, "kill pairs", f, func(*bbs.Decision) (*scheduler.Change, error) { return v.jobs.Kill(f.Job, nodeFilter(f, api.Range{})) })
}

// cellNow describes the cell whose name a session holds.
func (v view) cellNow(s *worker.SessionView, free resource.Amounts) api.Cell {
	v.mu.Lock()
	st, since := v.states[s.Cell], v.changed[s.Cell]
	v.mu.Unlock()
	c := api.Cell{Name: s.Cell, Proc: s.Proc, Address: st.Address, Zone: st.Zone, Host: st.Host, Session: s.State, Since: since, Reason: s.Reason,
		Reported: s.Reported, Eligible: s.Eligible, DeadIn: s.Expiry, Evacuating: st.Evacuating, Capacity: st.Capacity,
		Free: free, Batch: s.Work, Labels: st.Labels, Taints: st.Taints, Tags: slices.Concat(st.RequiredTags, st.OptionalTags),
		Isolation: st.Isolation, Build: st.Build, Unavailable: st.State.Unavailable}
	if s.Unavailable {
		c.Unavailable = s.Reason
	}
	c.LRPs, c.Tasks = v.board.OnCell(string(s.Cell))
	c.Drain = v.drainOf(s.Cell)
	c.Evacuating = c.Evacuating || c.Drain != nil
	return c
}

// free is what each cell has left, by the one ledger.
func (v view) free() map[string]resource.Amounts {
	free := map[string]resource.Amounts{}
	for _, c := range v.house.Cells() {
		free[c.Name] = c.Capacity.Sub(c.Used).Sub(c.Foreign)
	}
	return free
}

// ListCells implements api.Cells.
func (v view) ListCells(r api.Range) (api.Listed[api.Cell], error) {
	if err := v.fresh(); err != nil {
		return api.Listed[api.Cell]{}, err
	}
	out := api.Listed[api.Cell]{}
	free := v.free()
	for _, s := range v.reg.Sessions() {
		if !s.Holder || string(s.Cell) <= r.After && r.After != "" {
			continue
		}
		if len(out.Items) == r.Limit {
			out.Next = string(out.Items[len(out.Items)-1].Name)
			break
		}
		out.Items = append(out.Items, v.cellNow(&s, free[string(s.Cell)]))
	}
	return out, nil
}

// GetCell implements api.Cells.
func (v view) GetCell(name worker.CellName) (api.Cell, error) {
	s, ok := v.reg.Session(name)
	if !ok {
		return api.Cell{}, fmt.Errorf("cell %s: %w", name, worker.ErrUnknownProcess)
	}
	return v.cellNow(&s, v.free()[string(name)]), v.fresh()
}

// ForgetCell implements api.Cells.
func (v view) ForgetCell(_ context.Context, proc worker.Proc, w api.Write) error {
	return v.reg.Forget(proc, w.By)
}

// Status implements api.Operation.
func (v view) Status() (api.Status, error) {
	n := v.board.Count()
	w := v.reg.Wait()
	s := api.Status{Cluster: v.cfg.Cluster, Leader: v.cfg.Name, Term: v.Term(), Build: v.cfg.Build, Since: v.since, Revision: v.hub.Newest().Revision,
		Waiting: w.Active, Longest: w.Longest, Quarantined: len(v.reign.Quarantined()), Counts: map[string]int{
			"services": n.Services, "instances": n.Desired, "running": n.Running, "crashed": n.Crashed, "unclaimed": n.Unclaimed,
			"suspect": n.Suspect, "evacuating": n.Evacuating, "tasks_pending": n.Pending, "tasks_running": n.TasksRunning, "tasks_lost": n.Lost, "dead_letters": n.DeadLetters,
			"orphans": n.Orphans, "rows_pruned": n.Pruned,
			"batch_running": v.reg.Live()}}
	for _, f := range w.For {
		s.For = append(s.For, fmt.Sprintf("%s (process %s, at most %s)", f.Cell, f.Proc, f.Longest.Round(time.Second)))
	}
	for _, d := range v.board.ListDomains() {
		s.Domains = append(s.Domains, api.Domain{Name: d.Name, Fresh: d.Fresh, Expires: d.Expires})
	}
	all := v.jobs.Jobs("", "", 0)
	s.Counts["jobs"], s.Counts["schedules"] = len(all), v.times.Len()
	for _, x := range v.reg.Sessions() {
		if x.Holder {
			s.Counts["cells"]++
			if x.State == worker.Healthy {
				s.Counts["cells_healthy"]++
			}
		}
	}
	for _, d := range v.drains.all() {
		s.Warnings = append(s.Warnings, fmt.Sprintf("cell %s is drained: %s", d.Cell, d.Reason))
	}
	v.held(&s, all)
	rollouts, more := v.board.Rollouts(maxHeld)
	for _, r := range rollouts {
		s.Rollouts = append(s.Rollouts, api.Rollout(r))
	}
	s.RolloutsMore = more
	if n.Orphans > 0 {
		s.Warnings = append(s.Warnings, fmt.Sprintf("%d instances belong to no service and are kept: cantina ps --orphans lists them, applying their domain afresh stops them", n.Orphans))
	}
	v.mu.Lock()
	s.Warnings = append(s.Warnings, v.audits...)
	v.mu.Unlock()
	return s, v.fresh()
}

// maxHeld bounds how much held work, and how many rollouts, a status lists.
const maxHeld = 50

// held lists the jobs that the initial wait holds.
func (v view) held(s *api.Status, all []scheduler.JobView) {
	if !s.Waiting {
		return
	}
	for _, j := range all {
		if j.Progress.State.Ended() || j.Removed {
			continue
		}
		h, ok := v.reg.MayRun(worker.Request{Work: worker.Work{Job: j.Name}, JobUID: j.UID})
		if ok {
			continue
		}
		if len(s.Held) == maxHeld {
			s.HeldMore++
			continue
		}
		s.Held = append(s.Held, api.Held{What: "job " + j.Name, Reason: h.Reason.String(), Cell: string(h.Cell), Proc: string(h.Proc), Longest: h.Longest})
	}
}

// EndWait implements api.Operation.
func (v view) EndWait(_ context.Context, w api.Write) error { return v.reg.EndWait(w.By) }

// ListQuarantine implements api.Operation.
func (v view) ListQuarantine(r api.Range) (api.Listed[api.Quarantined], error) {
	out := api.Listed[api.Quarantined]{}
	for _, q := range v.reign.Quarantined() {
		if q.Key <= r.After && r.After != "" {
			continue
		}
		if len(out.Items) == r.Limit {
			out.Next = out.Items[len(out.Items)-1].Key
			break
		}
		out.Items = append(out.Items, api.Quarantined{Key: q.Key, Reason: q.Reason, Bytes: q.Bytes})
	}
	return out, v.fresh()
}

// ReleaseQuarantined implements api.Operation.
func (v view) ReleaseQuarantined(ctx context.Context, key string, restore bool, _ api.Write) error {
	drained := cellOfDrain(key)
	release := v.board.Release
	switch {
	case timetable.Owns(key):
		release = v.times.Release
	case drained != "":
		if d := v.drains.of(drained); d == nil || !d.Quarantined {
			return fmt.Errorf("%s: %w", key, store.ErrNotQuarantined)
		}
		if !restore {
			return v.dropDrain(ctx, drained)
		}
	case !bbs.Owns(key):
		return fmt.Errorf("quarantined row %s: only rows of services, instances, tasks, domains, schedules and drains can be released while a leader runs: %w", key, api.ErrConflict)
	}
	var value []byte
	if restore { // as it stands now: somebody may have repaired it
		row, ok, err := v.reign.Get(ctx, key)
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("quarantined row %s is not in the store any more: drop it: %w", key, api.ErrConflict)
		}
		if value = row.Value; drained != "" {
			return v.restoreDrain(ctx, drained, row)
		}
	}
	done := make(chan error, 1)
	if err := release(key, restore, value, func(_ int64, err error) { done <- err }); err != nil {
		return err
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Explain implements api.Explainer.
func (v view) Explain(_ context.Context, s api.Subject) (api.Explanation, error) {
	switch s.Kind {
	case api.SubjectService:
		e, err := v.board.ExplainService(lrp.ServiceKey{Domain: s.Domain, Name: s.Name})
		return explained(s, e), err
	case api.SubjectInstance:
		e, err := v.board.ExplainInstance(lrp.ServiceKey{Domain: s.Domain, Name: s.Name}, s.Index)
		return explained(s, e), err
	case api.SubjectTask:
		e, err := v.board.ExplainTask(s.Name)
		return explained(s, e), err
	case api.SubjectJob, api.SubjectPair:
		return v.explainJob(s)
	case api.SubjectCell:
		return v.explainCell(s)
	case api.SubjectSchedule:
		return v.explainSchedule(s)
	}
	return api.Explanation{}, fmt.Errorf("subject %q: %w", s.Kind, api.ErrInvalid)
}

func explained(s api.Subject, e bbs.Explanation) api.Explanation {
	out := api.Explanation{Subject: s, State: e.State, Wanted: e.Wanted, Fine: e.Fine}
	for _, r := range e.Reasons {
		out.Reasons = append(out.Reasons, api.Reason{Code: r.Code, Text: r.Text, Change: r.Change, Longest: r.Longest})
	}
	return out
}

func (v view) explainJob(s api.Subject) (api.Explanation, error) {
	j, err := v.jobs.Job(s.Name)
	if err != nil {
		return api.Explanation{}, err
	}
	if j.Removed {
		return api.Explanation{Subject: s, State: "removed", Wanted: "removed", Fine: true, Reasons: []api.Reason{{Code: "batch",
			Text: fmt.Sprintf("it was removed; it is listed until the last of its batch tasks is certainly over: %d are known to run", j.Progress.Running)}}}, nil
	}
	why, err := v.jobs.Explain(s.Name, s.Node)
	if err != nil {
		return api.Explanation{}, err
	}
	out := api.Explanation{Subject: s, State: j.Progress.State.String(), Wanted: batch.JobDone.String(), Fine: j.Progress.State == batch.JobDone}
	if s.Node != "" {
		p, err := v.jobs.Pairs(s.Name, batch.NodeFilter{Node: s.Node, Limit: 1})
		if err != nil {
			return api.Explanation{}, err
		}
		out.State, out.Fine = batch.ClassAbsent.String(), false
		for _, x := range p {
			out.State, out.Fine = x.Class.String(), x.Class == batch.ClassDone || x.Class == batch.ClassRunning
		}
	}
	for _, w := range why {
		r := api.Reason{Code: "batch", Text: w.Text, Change: w.Change, Longest: w.Longest, Level: w.Level, Resource: w.Short.Name, Need: w.Short.Need, Have: w.Short.Have}
		for i, h := range w.Holders {
			if i > 0 {
				r.Holder += ", "
			}
			r.Holder += h.Job + "/" + h.Node
		}
		out.Reasons = append(out.Reasons, r)
	}
	return out, nil
}

func (v view) explainCell(s api.Subject) (api.Explanation, error) {
	c, err := v.GetCell(worker.CellName(s.Name))
	if err != nil {
		return api.Explanation{}, err
	}
	out := api.Explanation{Subject: s, State: c.Session.String(), Wanted: worker.Healthy.String(), Fine: c.Session == worker.Healthy && c.Unavailable == "" && !c.Evacuating}
	add := func(code, text string) {
		out.Reasons = append(out.Reasons, api.Reason{Code: code, Text: text, Longest: c.DeadIn})
	}
	if c.Session != worker.Healthy {
		add("session", c.Reason)
	}
	if c.Unavailable != "" {
		add("unavailable", c.Unavailable)
	}
	switch {
	case c.Drain != nil:
		out.State += drainState(c.Drain)
		out.Reasons = append(out.Reasons, api.Reason{Code: "evacuating", Text: explainDrain(c.Drain),
			Change: "cantina undrain " + s.Name + " lets it take work again"})
		if left := c.Drain.Until.Sub(v.cfg.Clock.Wall()); left > 0 && c.Drain.Ended.IsZero() {
			out.Reasons[len(out.Reasons)-1].Longest = left
		}
	case c.Evacuating:
		add("evacuating", "its drain was taken back, and it has not heard of it yet")
	}
	return out, nil
}

// Holders implements api.Logs: every cell that can be reached may have output.
func (v view) Holders(*pb.LogQuery) []string {
	var out []string
	for _, s := range v.reg.Sessions() {
		if s.Holder && v.cells.Cell(s.Cell) != nil {
			out = append(out, string(s.Cell))
		}
	}
	return out
}

func (v view) callee(name string) *pb.Callee {
	proc, _ := v.reg.Receives(worker.CellName(name))
	return wire.FromCallee(v.Term(), proc)
}

// ReadLogs implements api.Logs.
func (v view) ReadLogs(ctx context.Context, name string, m *pb.ReadLogsRequest) (*pb.ReadLogsResponse, error) {
	c := v.cells.Cell(worker.CellName(name))
	if c == nil {
		return nil, fmt.Errorf("cell %s: %w", name, api.ErrUnreachable)
	}
	m.To = v.callee(name)
	got, err := c.ReadLogs(ctx, m)
	return got, unreachable(name, err)
}

// FollowLogs implements api.Logs.
func (v view) FollowLogs(ctx context.Context, name string, m *pb.FollowLogsRequest, each func(*pb.FollowLogsResponse) error) error {
	c := v.cells.Cell(worker.CellName(name))
	if c == nil {
		return fmt.Errorf("cell %s: %w", name, api.ErrUnreachable)
	}
	m.To = v.callee(name)
	return unreachable(name, c.FollowLogs(ctx, m, each))
}

// unreachable marks an error of the way to a cell.
func unreachable(name string, err error) error {
	if err == nil || !strings.Contains(err.Error(), "unavailable") {
		return err
	}
	return fmt.Errorf("cell %s: %w: %w", name, api.ErrUnreachable, err)
}

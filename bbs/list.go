package bbs

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"cantina/fault"
	"cantina/internal/run"
	"cantina/lrp"
	"cantina/plan"
	"cantina/task"
)

// defaultPage is the size of a page when none is asked for.
const defaultPage = 100

// page walks sorted keys from after on and collects what pick takes.
func page[K, T any](keys []K, start, limit int, name func(K) string, pick func(K) (T, bool)) (out []T, next string) {
	if limit <= 0 {
		limit = defaultPage
	}
	for i := start; i < len(keys); i++ {
		item, ok := pick(keys[i])
		if !ok {
			continue
		}
		if len(out) == limit {
			return out, name(keys[i-1])
		}
		out = append(out, item)
	}
	return out, ""
}

// queries answers readers from the committed rows.
type queries struct {
	view   *view
	now    func() time.Time
	clock  run.Clock
	policy task.Policy
}

// ListServices lists the services of a domain, or of all.
func (q *queries) ListServices(domain string, r plan.Range) (plan.Page[plan.Service], error) {
	v := q.view
	keys := v.servicesInOrder()
	v.mu.RLock()
	defer v.mu.RUnlock()
	after := lrp.ServiceKey{}
	after.Domain, after.Name, _ = strings.Cut(r.After, "/")
	start := sort.Search(len(keys), func(i int) bool { return r.After == "" || keys[i].Compare(after) > 0 })
	items, next := page(keys, start, r.Limit, lrp.ServiceKey.String, func(k lrp.ServiceKey) (plan.Service, bool) {
		s, ok := v.services[k]
		if !ok || domain != "" && k.Domain != domain {
			return plan.Service{}, false
		}
		return v.count(s), true
	})
	return plan.Page[plan.Service]{Items: items, Next: next, Revision: v.revision}, nil
}

// GetService returns one service, or ErrServiceNotFound.
func (q *queries) GetService(k lrp.ServiceKey) (plan.Service, error) {
	v := q.view
	v.mu.RLock()
	defer v.mu.RUnlock()
	s, ok := v.services[k]
	switch {
	case v.badRows[ServiceRow(k)]:
		return plan.Service{}, fmt.Errorf("service %v: %w", k, fault.ErrQuarantined)
	case !ok:
		return plan.Service{}, fmt.Errorf("service %v: %w", k, ErrServiceNotFound)
	}
	return v.count(s), nil
}

// count adds what runs of a service.
func (v *view) count(s serviceView) plan.Service {
	out := plan.Service{Service: *s.row, Revision: s.revision}
	for k := range v.byService[s.row.Key] {
		a := v.indices[k].row.Resolved()
		if a != nil && a.Proc != "" {
			if out.On == nil {
				out.On = map[string]int{}
			}
			out.On[a.Proc]++
		}
		switch {
		case a == nil:
		case a.Stopping():
			out.Stopping++
		case a.State == lrp.Running:
			out.Running++
			if a.Serves() {
				out.Routable++
			}
		case a.State == lrp.Crashed:
			out.Crashed++
		}
	}
	return out
}

// ListInstances lists indices by service, index and version.
func (q *queries) ListInstances(f plan.InstanceFilter, r plan.Range) (plan.Page[plan.Instance], error) {
	v := q.view
	var keys []instanceKey
	if f.Service != "" && f.Domain != "" {
		keys = v.instancesOf(lrp.ServiceKey{Domain: f.Domain, Name: f.Service})
	} else {
		keys = v.instancesInOrder()
	}
	start := 0
	if r.After != "" {
		after, ok := parseInstanceKey(r.After)
		if !ok {
			return plan.Page[plan.Instance]{}, fmt.Errorf("page after %q: %w", r.After, fault.ErrInvalid)
		}
		start, _ = slices.BinarySearchFunc(keys, after, instanceKey.compare)
		if start < len(keys) && keys[start] == after {
			start++
		}
	}
	v.mu.RLock()
	defer v.mu.RUnlock()
	items, next := page(keys, start, r.Limit, instanceKey.String, func(k instanceKey) (plan.Instance, bool) { return v.instance(k, f) })
	return plan.Page[plan.Instance]{Items: items, Next: next, Revision: v.revision}, nil
}

func (v *view) instance(k instanceKey, f plan.InstanceFilter) (plan.Instance, bool) {
	x, ok := v.indices[k.key]
	if !ok {
		return plan.Instance{}, false
	}
	a := x.row.Resolved()
	onCell := func(row *lrp.Actual) bool { return row.Cell == f.Cell }
	switch {
	case f.Domain != "" && k.service.Domain != f.Domain,
		f.Service != "" && k.service.Name != f.Service,
		f.Cell != "" && !slices.ContainsFunc(x.row.Rows(), onCell),
		f.Orphans && !v.orphan(x.row),
		len(f.States) > 0 && !slices.Contains(f.States, a.State):
		return plan.Instance{}, false
	}
	i := plan.Instance{Actual: *a, Rows: x.row, Revision: x.revision, Quarantined: v.isBadIndex(k.key), Orphan: v.orphan(x.row)}
	if p, ok := v.processes[k.key.Process]; ok {
		i.Version, i.Wanted = p.version.Number, p.version.Wants(k.key.Index)
	}
	return i, true
}

// InstanceOf returns a row that was committed at a revision with what a list says beside
// it; whether it has an owner only while it is the newest.
func (q *queries) InstanceOf(a *lrp.Actual, revision int64) (i plan.Instance, newest bool) {
	v := q.view
	v.mu.RLock()
	defer v.mu.RUnlock()
	i = plan.Instance{Actual: *a, Revision: revision}
	if p, ok := v.processes[a.Key.Process]; ok {
		i.Version, i.Wanted = p.version.Number, p.version.Wants(a.Key.Index)
	}
	x, ok := v.indices[a.Key]
	if newest = ok && x.revision == revision; newest {
		i.Rows, i.Orphan, i.Quarantined = x.row, v.orphan(x.row), v.isBadIndex(a.Key)
	}
	return i, newest
}

// ListTasks lists tasks by guid.
func (q *queries) ListTasks(f plan.TaskFilter, r plan.Range) (plan.Page[plan.Task], error) {
	v := q.view
	keys := v.tasksInOrder()
	v.mu.RLock()
	defer v.mu.RUnlock()
	start := sort.Search(len(keys), func(i int) bool { return r.After == "" || keys[i] > r.After })
	items, next := page(keys, start, r.Limit, func(s string) string { return s }, func(guid string) (plan.Task, bool) {
		t, ok := v.tasks[guid]
		if !ok {
			return plan.Task{}, false
		}
		row := t.row
		match := (f.Domain == "" || row.Domain == f.Domain) && (f.Name == "" || row.Name == f.Name) && (f.Cell == "" || row.Holder.Cell == f.Cell) &&
			(len(f.States) == 0 || slices.Contains(f.States, row.State)) && (len(f.Outcomes) == 0 || slices.Contains(f.Outcomes, row.Outcome))
		return plan.Task{Task: row, Revision: t.revision}, match
	})
	return plan.Page[plan.Task]{Items: items, Next: next, Revision: v.revision}, nil
}

// GetTask returns one task, task.ErrNotFound, or ErrCollected for one that was there.
func (q *queries) GetTask(guid string) (plan.Task, error) {
	q.view.mu.RLock()
	t, ok := q.view.tasks[guid]
	bad := q.view.badRows[TaskRow(guid)]
	q.view.mu.RUnlock()
	switch {
	case bad:
		return plan.Task{}, fmt.Errorf("task %s: %w", guid, fault.ErrQuarantined)
	case !ok:
		return plan.Task{}, q.gone(guid)
	}
	return plan.Task{Task: t.row, Revision: t.revision}, nil
}

// Rollouts lists at most limit services that are being rolled out or taken back, or
// whose last rollout failed, in order, and counts the others.
func (q *queries) Rollouts(limit int) (list []plan.Rollout, more int) {
	v := q.view
	keys := v.servicesInOrder()
	v.mu.RLock()
	defer v.mu.RUnlock()
	for _, k := range keys {
		s := v.services[k].row
		if s == nil || s.Removed || s.Phase == lrp.Steady && s.Failure == "" {
			continue
		}
		if len(list) == limit {
			more++
			continue
		}
		list = append(list, plan.Rollout{Key: k, Phase: s.Phase, Version: s.Target().Number, Healthy: s.Healthy, Instances: s.Instances,
			Failure: s.Failure, Progress: s.Progress})
	}
	return list, more
}

// ListDomains lists all domains that were ever made fresh, in order.
func (q *queries) ListDomains() []plan.Domain {
	now := q.now()
	q.view.mu.RLock()
	defer q.view.mu.RUnlock()
	out := make([]plan.Domain, 0, len(q.view.domains))
	for n, d := range q.view.domains {
		out = append(out, plan.Domain{Name: n, Fresh: d.until.IsZero() || now.Before(d.until), Expires: d.until, Revision: d.revision})
	}
	slices.SortFunc(out, func(x, y plan.Domain) int { return strings.Compare(x.Name, y.Name) })
	return out
}

// Counts are figures for status and metrics, of committed rows.
type Counts struct {
	Services                                    int
	Unclaimed, Claimed, Running, Crashed        int // ordinary rows
	Suspect, Evacuating                         int
	Desired                                     int // instances wanted
	Pending, TasksRunning, Completed, Resolving int
	Lost                                        int // unresolved lost tasks
	DeadLetters                                 int
	Quarantined                                 int
	Orphans                                     int // indices with rows that no service owns
	Pruned                                      int // unreadable rows that were dropped because nobody can need them
	Broken                                      int // events refused because they broke an invariant
}

// Count walks all committed rows.
func (b *BBS) Count() Counts {
	b.mu.Lock()
	c := Counts{Broken: b.broken, Pruned: b.loader.pruned}
	b.mu.Unlock()
	v := b.rows.view
	v.mu.RLock()
	defer v.mu.RUnlock()
	c.Services, c.Quarantined = len(v.services), len(v.badRows)
	for _, s := range v.services {
		c.Desired += s.row.Instances
	}
	for _, x := range v.indices {
		c.addIndex(x.row)
		if v.orphan(x.row) {
			c.Orphans++
		}
	}
	for _, t := range v.tasks {
		c.addTask(t.row)
	}
	return c
}

func (c *Counts) addIndex(x lrp.Index) {
	if x.Suspect != nil {
		c.Suspect++
	}
	if x.Evacuating != nil {
		c.Evacuating++
	}
	if x.Ordinary == nil {
		return
	}
	switch x.Ordinary.State {
	case lrp.Unclaimed:
		c.Unclaimed++
	case lrp.Claimed:
		c.Claimed++
	case lrp.Running:
		c.Running++
	case lrp.Crashed:
		c.Crashed++
	}
}

func (c *Counts) addTask(t *task.Task) {
	switch t.State {
	case task.Pending:
		c.Pending++
	case task.Running:
		c.TasksRunning++
	case task.Completed:
		c.Completed++
	case task.Resolving:
		c.Resolving++
	}
	if t.Unresolved() {
		c.Lost++
	}
	if t.Callback.Dead {
		c.DeadLetters++
	}
}

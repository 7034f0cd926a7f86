package bbs

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/google/btree"

	"cantina/fault"
	"cantina/internal/run"
	"cantina/lrp"
	"cantina/plan"
	"cantina/task"
)

// defaultPage is the default size of a page.
const defaultPage = 100

// page walks sorted keys after the given one, all of them if it is nil, and collects those that
// pick accepts; more is false after the last key.
func page[K, T any](keys *btree.BTreeG[K], from K, after *K, limit int, name func(K) string,
	pick func(K) (item T, ok, more bool)) (out []T, next string) {
	if limit <= 0 {
		limit = defaultPage
	}
	if after != nil {
		from = *after
	}
	var last K
	skip := after != nil
	keys.AscendGreaterOrEqual(from, func(k K) bool {
		if skip {
			skip = false
			if name(k) == name(from) {
				return true
			}
		}
		item, ok, more := pick(k)
		switch {
		case !more:
			return false
		case ok && len(out) == limit:
			next = name(last)
			return false
		case ok:
			out = append(out, item)
		}
		last = k
		return true
	})
	return out, next
}

// queries answers readers from the committed rows.
type queries struct {
	view   *view
	now    func() time.Time
	clock  run.Clock
	policy task.Policy
}

// ListServices lists services by domain and name.
func (q *queries) ListServices(f plan.NameFilter, r plan.Range) (plan.Page[plan.Service], error) {
	v := q.view
	v.mu.RLock()
	defer v.mu.RUnlock()
	var after *lrp.ServiceKey
	if r.After != "" {
		after = &lrp.ServiceKey{}
		after.Domain, after.Name, _ = strings.Cut(r.After, "/")
	}
	from := lrp.ServiceKey{Domain: f.Domain}
	items, next := page(v.serviceOrder, from, after, r.Limit, lrp.ServiceKey.String,
		func(k lrp.ServiceKey) (plan.Service, bool, bool) {
			if !f.Takes(k.Domain, k.Name) {
				return plan.Service{}, false, f.Domain == "" || k.Domain <= f.Domain
			}
			s := v.services[k]
			if !f.Labels.Selects(s.row.Labels()) {
				return plan.Service{}, false, true
			}
			return v.count(s), true, true
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

// count adds the running instances of a service.
func (v *view) count(s serviceView) plan.Service {
	out := plan.Service{Service: *s.row, Revision: s.revision}
	if c := v.byService[s.row.Key]; c != nil {
		out.Stopping, out.Running, out.Routable, out.Crashed = c.stopping, c.running, c.routable, c.crashed
		if len(c.on) > 0 {
			out.On = maps.Clone(c.on)
		}
	}
	return out
}

// ListInstances lists indices by service, index and version.
func (q *queries) ListInstances(f plan.InstanceFilter, r plan.Range) (plan.Page[plan.Instance], error) {
	v := q.view
	var after *instanceKey
	if r.After != "" {
		k, ok := parseInstanceKey(r.After)
		if !ok {
			return plan.Page[plan.Instance]{}, fmt.Errorf("page after %q: %w", r.After, fault.ErrInvalid)
		}
		after = &k
	}
	from := instanceKey{service: lrp.ServiceKey{Domain: f.Domain}, key: lrp.Key{Index: math.MinInt}}
	if f.Domain != "" {
		from.service.Name = f.Service
	}
	v.mu.RLock()
	defer v.mu.RUnlock()
	keys := v.indexOrder
	if f.Cell != "" { // it has few
		keys = btree.NewG(treeDegree, func(a, b instanceKey) bool { return a.compare(b) < 0 })
		for k := range v.byCell[f.Cell] {
			keys.ReplaceOrInsert(instanceKey{serviceOf(v.indices[k].row), k})
		}
	}
	items, next := page(keys, from, after, r.Limit, instanceKey.String, func(k instanceKey) (plan.Instance, bool, bool) {
		past := f.Domain != "" && (k.service.Domain > f.Domain || k.service.Domain == f.Domain && f.Service != "" &&
			k.service.Name > f.Service)
		if past {
			return plan.Instance{}, false, false
		}
		i, ok := v.instance(k, f)
		return i, ok, true
	})
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
		len(f.Labels) > 0 && !f.Labels.Selects(v.labels(k.service)),
		len(f.States) > 0 && !slices.Contains(f.States, a.State):
		return plan.Instance{}, false
	}
	i := plan.Instance{Actual: *a, Rows: x.row, Revision: x.revision, Quarantined: v.isBadIndex(k.key),
		Orphan: v.orphan(x.row)}
	if p, ok := v.processes[k.key.Process]; ok {
		i.Version, i.Wanted = p.version.Number, p.version.Wants(k.key.Index)
	}
	return i, true
}

// labels returns those of a service; nil if it is unknown.
func (v *view) labels(k lrp.ServiceKey) map[string]string {
	if s, ok := v.services[k]; ok {
		return s.row.Labels()
	}
	return nil
}

// InstanceOf returns a row that was committed at a revision as a list shows it; it has an owner
// only while it is the newest.
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
	v.mu.RLock()
	defer v.mu.RUnlock()
	var after *string
	if r.After != "" {
		after = &r.After
	}
	items, next := page(v.taskOrder, "", after, r.Limit, func(s string) string { return s },
		func(guid string) (plan.Task, bool, bool) {
			t := v.tasks[guid]
			row := t.row
			match := (f.Domain == "" || row.Domain == f.Domain) && (f.Name == "" || row.Name == f.Name) &&
				(f.Cell == "" || row.Holder.Cell == f.Cell) &&
				(len(f.States) == 0 || slices.Contains(f.States, row.State)) &&
				(len(f.Outcomes) == 0 || slices.Contains(f.Outcomes, row.Outcome)) &&
				(len(f.Labels) == 0 || row.Definition != nil && f.Labels.Selects(row.Definition.Workload.Labels))
			return plan.Task{Task: row, Revision: t.revision}, match, true
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

// Rollouts lists at most limit services that are rolling out or rolled back, or whose last rollout
// failed, in order, and counts the others.
func (q *queries) Rollouts(limit int) (list []plan.Rollout, more int) {
	v := q.view
	v.mu.RLock()
	defer v.mu.RUnlock()
	v.serviceOrder.Ascend(func(k lrp.ServiceKey) bool {
		s := v.services[k].row
		if s.Removed || s.Phase == lrp.Steady && s.Failure == "" {
			return true
		}
		if len(list) == limit {
			more++
			return true
		}
		list = append(list, plan.Rollout{Key: k, Phase: s.Phase, Version: s.Target().Number, Healthy: s.Healthy,
			Instances: s.Instances,
			Failure:   s.Failure, Progress: s.Progress})
		return true
	})
	return list, more
}

// ListDomains lists all domains that were ever made fresh, in order.
func (q *queries) ListDomains() []plan.Domain {
	now := q.now()
	q.view.mu.RLock()
	defer q.view.mu.RUnlock()
	out := make([]plan.Domain, 0, len(q.view.domains))
	for n, d := range q.view.domains {
		out = append(out, plan.Domain{Name: n, Fresh: d.until.IsZero() ||
			now.Before(d.until), Expires: d.until, Revision: d.revision})
	}
	slices.SortFunc(out, func(x, y plan.Domain) int { return strings.Compare(x.Name, y.Name) })
	return out
}

// Counts are figures for status and metrics, of committed rows.
type Counts struct {
	Services                                    int
	Unclaimed, Claimed, Running, Crashed        int // ordinary rows
	Suspect, Evacuating, Moving                 int // evacuating ones include those that are moved
	Desired                                     int // instances wanted
	Pending, TasksRunning, Completed, Resolving int
	Lost                                        int // unresolved lost tasks
	DeadLetters                                 int
	Quarantined                                 int
	Orphans                                     int // indices with rows that no service owns
	Pruned                                      int // unreadable rows that were dropped because they are no longer needed
	Broken                                      int // events refused because they broke an invariant
}

// Count returns the figures; they are kept with each row that changes.
func (b *BBS) Count() Counts {
	b.mu.Lock()
	broken, pruned := b.broken, b.loader.pruned
	b.mu.Unlock()
	v := b.rows.view
	v.mu.RLock()
	defer v.mu.RUnlock()
	c := v.counts
	c.Broken, c.Pruned, c.Services, c.Quarantined = broken, pruned, len(v.services), len(v.badRows)
	for p := range v.unowned {
		c.Orphans += v.rowsOf[p]
	}
	if len(v.badRows) > 0 { // rows whose service is unreadable may have an owner
		for k, x := range v.indices {
			if _, no := v.unowned[k.Process]; no && !v.orphan(x.row) {
				c.Orphans--
			}
		}
	}
	return c
}

func (c *Counts) addIndex(x lrp.Index, n int) {
	if x.Suspect != nil {
		c.Suspect += n
	}
	if x.Evacuating != nil {
		c.Evacuating += n
		if x.Evacuating.Moving {
			c.Moving += n
		}
	}
	if x.Ordinary == nil {
		return
	}
	switch x.Ordinary.State {
	case lrp.Unclaimed:
		c.Unclaimed += n
	case lrp.Claimed:
		c.Claimed += n
	case lrp.Running:
		c.Running += n
	case lrp.Crashed:
		c.Crashed += n
	}
}

func (c *Counts) addTask(t *task.Task, n int) {
	switch t.State {
	case task.Pending:
		c.Pending += n
	case task.Running:
		c.TasksRunning += n
	case task.Completed:
		c.Completed += n
	case task.Resolving:
		c.Resolving += n
	}
	if t.Unresolved() {
		c.Lost += n
	}
	if t.Callback.Dead {
		c.DeadLetters += n
	}
}

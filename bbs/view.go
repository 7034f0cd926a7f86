package bbs

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/btree"

	"cantina/internal/multimap"
	"cantina/lrp"
	"cantina/task"
)

// view has the rows for readers: only committed ones. The store's callbacks write it, in order.
type view struct {
	mu       sync.RWMutex
	revision int64

	services  map[lrp.ServiceKey]serviceView
	processes map[string]processView
	indices   map[lrp.Key]indexView
	byService map[lrp.ServiceKey]*tally
	byCell    multimap.Map[string, lrp.Key] // cell name → indices with a row on it
	tasks     map[string]taskView
	taskCells multimap.Map[string, string] // cell name → tasks that name it
	domains   map[string]domainView
	badRows   map[string]bool // quarantined row keys

	// The keys in order, for lists.
	serviceOrder *btree.BTreeG[lrp.ServiceKey]
	indexOrder   *btree.BTreeG[instanceKey]
	taskOrder    *btree.BTreeG[string]

	counts  Counts              // of the contents of services, indices and tasks
	rowsOf  map[string]int      // process → how many indices have rows
	unowned map[string]struct{} // processes with rows that no service owns

	// collected are guids whose rows are deleted, newest last.
	collected     map[string]time.Time
	collectedAges []string
	keep          int // how many at least
}

type serviceView struct {
	row      *lrp.Service
	revision int64
}

type processView struct {
	service lrp.ServiceKey
	version *lrp.Version
}

type indexView struct {
	row      lrp.Index
	revision int64
}

type taskView struct {
	row      *task.Task
	revision int64
}

type domainView struct {
	until    time.Time
	revision int64
}

func newView(revision int64, keep int) *view {
	return &view{
		revision: revision, keep: cmp.Or(keep, defaultCollected), services: map[lrp.ServiceKey]serviceView{},
		processes: map[string]processView{}, indices: map[lrp.Key]indexView{},
		byService: map[lrp.ServiceKey]*tally{}, byCell: multimap.Map[string, lrp.Key]{}, tasks: map[string]taskView{},
		taskCells: multimap.Map[string, string]{}, domains: map[string]domainView{}, badRows: map[string]bool{},
		collected:    map[string]time.Time{},
		serviceOrder: btree.NewG(treeDegree, func(a, b lrp.ServiceKey) bool { return a.Compare(b) < 0 }),
		indexOrder:   btree.NewG(treeDegree, func(a, b instanceKey) bool { return a.compare(b) < 0 }),
		taskOrder:    btree.NewG(treeDegree, func(a, b string) bool { return a < b }),
		rowsOf:       map[string]int{}, unowned: map[string]struct{}{},
	}
}

// treeDegree is how wide the nodes of the sorted keys are.
const treeDegree = 32

// tally counts the visible instances of a service (lrp.Index.Resolved).
type tally struct {
	indices                              int
	on                                   map[string]int // cell process → instances
	stopping, running, routable, crashed int
}

// count adds an index to the tally, or takes it out.
func (c *tally) count(x lrp.Index, n int) {
	c.indices += n
	a := x.Resolved()
	if a == nil {
		return
	}
	if a.Proc != "" {
		if c.on[a.Proc] += n; c.on[a.Proc] == 0 {
			delete(c.on, a.Proc)
		}
	}
	switch {
	case a.Stopping():
		c.stopping += n
	case a.State == lrp.Running:
		c.running += n
		if a.Serves() {
			c.routable += n
		}
	case a.State == lrp.Crashed:
		c.crashed += n
	}
}

func (v *view) putService(k lrp.ServiceKey, s *lrp.Service, revision int64) {
	if old, known := v.services[k]; known {
		v.counts.Desired -= old.row.Instances
		for i := range old.row.Versions {
			v.own(old.row.Versions[i].Process, nil)
		}
	}
	if s == nil {
		delete(v.services, k)
		v.serviceOrder.Delete(k)
		return
	}
	v.counts.Desired += s.Instances
	v.services[k] = serviceView{s, revision}
	v.serviceOrder.ReplaceOrInsert(k)
	for i := range s.Versions {
		v.own(s.Versions[i].Process, &processView{k, &s.Versions[i]})
	}
}

// own gives a process its definition, nil for none.
func (v *view) own(process string, p *processView) {
	if p != nil {
		v.processes[process] = *p
	} else {
		delete(v.processes, process)
	}
	if p == nil && v.rowsOf[process] > 0 {
		v.unowned[process] = struct{}{}
	} else {
		delete(v.unowned, process)
	}
}

// serviceOf returns the service of an index, according to its rows.
func serviceOf(x lrp.Index) lrp.ServiceKey {
	for _, a := range x.Rows() {
		return a.Service
	}
	return lrp.ServiceKey{}
}

// orphan reports whether no service owns the rows of an index. If a service cannot be read, its
// index may have an owner.
func (v *view) orphan(x lrp.Index) bool {
	_, owned := v.processes[x.Key.Process]
	return !owned && !v.badRows[ServiceRow(serviceOf(x))]
}

func (v *view) putIndex(x lrp.Index, revision int64) {
	old, known := v.indices[x.Key]
	if known {
		v.link(old.row, -1)
	}
	if x.Empty() {
		delete(v.indices, x.Key)
	} else {
		v.indices[x.Key] = indexView{x, revision}
		v.link(x, 1)
	}
	was, is := instanceKey{serviceOf(old.row), x.Key}, instanceKey{serviceOf(x), x.Key}
	if known && (x.Empty() || was != is) {
		v.indexOrder.Delete(was)
	}
	if !x.Empty() && (!known || was != is) {
		v.indexOrder.ReplaceOrInsert(is)
	}
}

// link adds an index to the counts and to the lookup by service, process and cell (n = 1), or
// removes it (n = -1).
func (v *view) link(x lrp.Index, n int) {
	k := serviceOf(x)
	c := v.byService[k]
	if c == nil {
		c = &tally{on: map[string]int{}}
		v.byService[k] = c
	}
	if c.count(x, n); c.indices == 0 {
		delete(v.byService, k)
	}
	v.counts.addIndex(x, n)
	p := x.Key.Process
	_, owned := v.processes[p]
	if v.rowsOf[p] += n; v.rowsOf[p] == 0 {
		delete(v.rowsOf, p)
		delete(v.unowned, p)
	} else if !owned {
		v.unowned[p] = struct{}{}
	}
	for _, a := range x.Rows() {
		if a.Cell != "" {
			v.byCell.Set(a.Cell, x.Key, n > 0)
		}
	}
}

func (v *view) putTask(guid string, t *task.Task, revision int64) {
	old, known := v.tasks[guid]
	if known && old.row.Holder.Cell != "" {
		v.taskCells.Set(old.row.Holder.Cell, guid, false)
	}
	if known {
		v.counts.addTask(old.row, -1)
	}
	if t == nil {
		delete(v.tasks, guid)
		v.taskOrder.Delete(guid)
		v.collect(guid, old.row)
		return
	}
	v.counts.addTask(t, 1)
	v.tasks[guid] = taskView{t, revision}
	v.taskOrder.ReplaceOrInsert(guid)
	delete(v.collected, guid)
	if t.Holder.Cell != "" {
		v.taskCells.Set(t.Holder.Cell, guid, true)
	}
}

// defaultCollected is the default of Config.Collected.
const defaultCollected = 10_000

// collect remembers the guid of a deleted row; at most twice as many as configured.
func (v *view) collect(guid string, old *task.Task) {
	if old == nil {
		return
	}
	if _, known := v.collected[guid]; !known {
		v.collectedAges = append(v.collectedAges, guid)
	}
	v.collected[guid] = old.FirstCompleted
	if len(v.collectedAges) > 2*v.keep { // in blocks, so that it costs little each time
		for _, g := range v.collectedAges[:v.keep] {
			delete(v.collected, g)
		}
		v.collectedAges = slices.Clone(v.collectedAges[v.keep:])
	}
}

// want returns the auctioneer's request for an UNCLAIMED index.
func (v *view) want(k lrp.Key) (LRPWant, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	p, known := v.processes[k.Process]
	x := v.indices[k].row
	if !known || x.Ordinary == nil || x.Ordinary.State != lrp.Unclaimed {
		return LRPWant{}, false
	}
	w := LRPWant{Key: k, Desired: &p.version.Desired}
	for _, a := range []*lrp.Actual{x.Suspect, x.Evacuating} {
		if a != nil {
			w.Avoid = append(w.Avoid, a.Cell)
		}
	}
	return w, true
}

// notBefore is the time before which no placement is requested for the ordinary row of an index.
func (v *view) notBefore(k lrp.Key) time.Time {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if o := v.indices[k].row.Ordinary; o != nil {
		return o.NotBefore
	}
	return time.Time{}
}

func (v *view) task(guid string) *task.Task {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.tasks[guid].row
}

func (v *view) domain(name string) domainView {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.domains[name]
}

func (v *view) serviceRevision(k lrp.ServiceKey) int64 {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.services[k].revision
}

func (v *view) taskRevision(guid string) int64 {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.tasks[guid].revision
}

// instanceKey orders instances by service, index and version: during a rollout those of one index
// are adjacent.
type instanceKey struct {
	service lrp.ServiceKey
	key     lrp.Key
}

// String is the key from which pages continue.
func (k instanceKey) String() string {
	return fmt.Sprintf("%s/%s/%s/%010d", k.service.Domain, k.service.Name, k.key.Process, k.key.Index)
}

func (k instanceKey) compare(o instanceKey) int {
	return cmp.Or(k.service.Compare(o.service), cmp.Compare(k.key.Index, o.key.Index),
		cmp.Compare(k.key.Process, o.key.Process))
}

// parseInstanceKey is the inverse of String; ok is false for anything else.
func parseInstanceKey(s string) (k instanceKey, ok bool) {
	parts := strings.Split(s, "/")
	if len(parts) != 4 {
		return k, false
	}
	k.service, k.key.Process = lrp.ServiceKey{Domain: parts[0], Name: parts[1]}, parts[2]
	_, err := fmt.Sscanf(parts[3], "%d", &k.key.Index)
	return k, err == nil
}

// instancesOf lists the instances of one service in order; the caller holds the lock.
func (v *view) instancesOf(k lrp.ServiceKey) (out []instanceKey) {
	v.indexOrder.AscendGreaterOrEqual(instanceKey{service: k, key: lrp.Key{Index: math.MinInt}}, func(i instanceKey) bool {
		if i.service != k {
			return false
		}
		out = append(out, i)
		return true
	})
	return out
}

// keysInOrder lists the keys of all instances and tasks in order.
func (v *view) keysInOrder() (instances []instanceKey, tasks []string) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	v.indexOrder.Ascend(func(k instanceKey) bool {
		instances = append(instances, k)
		return true
	})
	v.taskOrder.Ascend(func(g string) bool {
		tasks = append(tasks, g)
		return true
	})
	return instances, tasks
}

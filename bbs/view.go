package bbs

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"cantina/lrp"
	"cantina/task"
)

// view is what readers see: committed rows only. It is written by the store's
// callbacks, in order.
type view struct {
	mu       sync.RWMutex
	revision int64

	services  map[lrp.ServiceKey]serviceView
	processes map[string]processView
	indices   map[lrp.Key]indexView
	byService map[lrp.ServiceKey]map[lrp.Key]struct{}
	byCell    map[string]map[lrp.Key]struct{} // cell name → indices with a row on it
	tasks     map[string]taskView
	taskCells map[string]map[string]struct{} // cell name → tasks that name it
	domains   map[string]domainView
	badRows   map[string]bool // quarantined row keys

	// Sorted keys for lists; nil = to be made again.
	serviceOrder []lrp.ServiceKey
	indexOrder   []instanceKey
	taskOrder    []string

	// collected are guids whose rows are gone, newest last.
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
		revision: revision, keep: cmp.Or(keep, defaultCollected), services: map[lrp.ServiceKey]serviceView{}, processes: map[string]processView{}, indices: map[lrp.Key]indexView{},
		byService: map[lrp.ServiceKey]map[lrp.Key]struct{}{}, byCell: map[string]map[lrp.Key]struct{}{}, tasks: map[string]taskView{},
		taskCells: map[string]map[string]struct{}{}, domains: map[string]domainView{}, badRows: map[string]bool{}, collected: map[string]time.Time{},
	}
}

func (v *view) putService(k lrp.ServiceKey, s *lrp.Service, revision int64) {
	old, known := v.services[k]
	if known {
		for i := range old.row.Versions {
			delete(v.processes, old.row.Versions[i].Process)
		}
	}
	if known != (s != nil) {
		v.serviceOrder = nil
	}
	if s == nil {
		delete(v.services, k)
		return
	}
	v.services[k] = serviceView{s, revision}
	for i := range s.Versions {
		v.processes[s.Versions[i].Process] = processView{k, &s.Versions[i]}
	}
}

// serviceOf returns the service that an index belongs to, as its rows say.
func serviceOf(x lrp.Index) lrp.ServiceKey {
	for _, a := range x.Rows() {
		return a.Service
	}
	return lrp.ServiceKey{}
}

// orphan reports whether no service owns the rows of an index. One whose service
// cannot be read may have an owner.
func (v *view) orphan(x lrp.Index) bool {
	_, owned := v.processes[x.Key.Process]
	return !owned && !v.badRows[ServiceRow(serviceOf(x))]
}

func (v *view) putIndex(x lrp.Index, revision int64) {
	old, known := v.indices[x.Key]
	if known {
		v.link(old.row, false)
	}
	if known == x.Empty() {
		v.indexOrder = nil
	}
	if x.Empty() {
		delete(v.indices, x.Key)
		return
	}
	v.indices[x.Key] = indexView{x, revision}
	v.link(x, true)
}

// link keeps byService and byCell for the rows of x.
func (v *view) link(x lrp.Index, add bool) {
	set(v.byService, serviceOf(x), x.Key, add)
	for _, a := range x.Rows() {
		if a.Cell != "" {
			set(v.byCell, a.Cell, x.Key, add)
		}
	}
}

func set[K, V comparable](m map[K]map[V]struct{}, k K, v V, add bool) {
	s := m[k]
	switch {
	case add && s == nil:
		m[k] = map[V]struct{}{v: {}}
	case add:
		s[v] = struct{}{}
	default:
		if delete(s, v); len(s) == 0 {
			delete(m, k)
		}
	}
}

func (v *view) putTask(guid string, t *task.Task, revision int64) {
	old, known := v.tasks[guid]
	if known && old.row.Holder.Cell != "" {
		set(v.taskCells, old.row.Holder.Cell, guid, false)
	}
	if known != (t != nil) {
		v.taskOrder = nil
	}
	if t == nil {
		delete(v.tasks, guid)
		v.collect(guid, old.row)
		return
	}
	v.tasks[guid] = taskView{t, revision}
	delete(v.collected, guid)
	if t.Holder.Cell != "" {
		set(v.taskCells, t.Holder.Cell, guid, true)
	}
}

// defaultCollected is Config.Collected when nothing else is asked for.
const defaultCollected = 10_000

// collect remembers the guid of a row that is gone; at most twice as many as are asked for.
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

// want returns what the auctioneer has to know of an index that is UNCLAIMED.
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

// notBefore is until when no place is asked for the ordinary row of an index.
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

// instanceKey orders instances by service, index and version: during a rollout those of
// one index stand together.
type instanceKey struct {
	service lrp.ServiceKey
	key     lrp.Key
}

// String is the key that pages go on from.
func (k instanceKey) String() string {
	return fmt.Sprintf("%s/%s/%s/%010d", k.service.Domain, k.service.Name, k.key.Process, k.key.Index)
}

func (k instanceKey) compare(o instanceKey) int {
	return cmp.Or(k.service.Compare(o.service), cmp.Compare(k.key.Index, o.key.Index), cmp.Compare(k.key.Process, o.key.Process))
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

// ordered returns a sorted list of keys that is kept until one is added or removed.
// The caller holds the lock for reading; the list is made under the lock for writing.
func ordered[K any](v *view, list *[]K, build func() []K) []K {
	v.mu.RLock()
	have := *list
	v.mu.RUnlock()
	if have != nil {
		return have
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if *list == nil {
		*list = build()
	}
	return *list
}

func (v *view) servicesInOrder() []lrp.ServiceKey {
	return ordered(v, &v.serviceOrder, func() []lrp.ServiceKey {
		out := make([]lrp.ServiceKey, 0, len(v.services))
		for k := range v.services {
			out = append(out, k)
		}
		slices.SortFunc(out, lrp.ServiceKey.Compare)
		return out
	})
}

func (v *view) instancesInOrder() []instanceKey {
	return ordered(v, &v.indexOrder, func() []instanceKey {
		out := make([]instanceKey, 0, len(v.indices))
		for k, x := range v.indices {
			out = append(out, instanceKey{serviceOf(x.row), k})
		}
		slices.SortFunc(out, instanceKey.compare)
		return out
	})
}

// instancesOf is instancesInOrder for one service.
func (v *view) instancesOf(k lrp.ServiceKey) []instanceKey {
	v.mu.RLock()
	defer v.mu.RUnlock()
	out := make([]instanceKey, 0, len(v.byService[k]))
	for key := range v.byService[k] {
		out = append(out, instanceKey{k, key})
	}
	slices.SortFunc(out, instanceKey.compare)
	return out
}

func (v *view) tasksInOrder() []string {
	return ordered(v, &v.taskOrder, func() []string {
		out := make([]string, 0, len(v.tasks))
		for g := range v.tasks {
			out = append(out, g)
		}
		slices.Sort(out)
		return out
	})
}

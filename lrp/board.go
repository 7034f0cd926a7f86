package lrp

import (
	"slices"
	"time"

	"cantina/internal/agenda"
	"cantina/internal/dead"
	"cantina/internal/multimap"
)

// Board holds all services and indices of a leader and knows which of them convergence must check:
// the newest rows, indexed by process, by cell process, and by due time. It is an owned value,
// changed in place by one goroutine; it decides only with Step, Roll and the rules in converge.go.
// It never changes services and rows that were put in.
type Board struct {
	Reported Reported

	exclusive holders // indices of exclusive services that have an instance

	policy   ConvergePolicy
	services map[ServiceKey]*Service
	procs    processes
	byProc   multimap.Map[string, Key] // cell process id → indices with a row on it
	domains  map[string]time.Time      // fresh until; zero = forever
	badKeys  map[Key]bool              // quarantined indices
	badSvcs  map[ServiceKey]bool       // quarantined services
	dead     dead.Set                  // cell processes that are certainly dead
	heard    map[string]time.Time      // cell process → since when its session is HEALTHY in this term

	dirtyKeys map[Key]struct{}
	dirtySvcs map[ServiceKey]struct{} // to be rolled
	svcDue    map[ServiceKey]time.Time
	due       agenda.Agenda[dueItem]
	indices   int
	looks     int // how many rows were looked at so far
}

// ConvergePolicy holds the leader's settings. Zero fields mean the defaults in the comments.
type ConvergePolicy struct {
	// Resend is how long a request may stay without effect before it is repeated; 0 = 30 s.
	Resend time.Duration
	// Starting describes an instance that takes long to start, such as its latest failed check; "" =
	// nothing is known. It has no effects and does not wait. Nil = not called.
	Starting func(a *Actual) string
}

func (p ConvergePolicy) resend() time.Duration {
	if p.Resend == 0 {
		return 30 * time.Second
	}
	return p.Resend
}

// NewBoard returns an empty board.
func NewBoard(p ConvergePolicy) *Board {
	return &Board{
		policy: p, services: map[ServiceKey]*Service{}, procs: processes{},
		byProc: multimap.Map[string, Key]{}, domains: map[string]time.Time{},
		badKeys: map[Key]bool{}, badSvcs: map[ServiceKey]bool{}, heard: map[string]time.Time{},
		exclusive: holders{},
		dirtyKeys: map[Key]struct{}{}, dirtySvcs: map[ServiceKey]struct{}{},
		svcDue: map[ServiceKey]time.Time{},
	}
}

// Service returns a service, or nil.
func (b *Board) Service(k ServiceKey) *Service { return b.services[k] }

// Services returns the keys of all services in order.
func (b *Board) Services() []ServiceKey {
	keys := make([]ServiceKey, 0, len(b.services))
	for k := range b.services {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, ServiceKey.Compare)
	return keys
}

// PutService stores a service, new or changed. The value belongs to the board. The cost grows with the indices that
// are wanted now and were not, or the other way round.
func (b *Board) PutService(s *Service) {
	if old := b.services[s.Key]; old != nil {
		for i := range old.Versions {
			if guid := old.Versions[i].Process; !s.has(guid) {
				b.define(guid, s.Key, nil)
			}
		}
	}
	b.services[s.Key] = s
	for i := range s.Versions {
		b.define(s.Versions[i].Process, s.Key, &s.Versions[i])
	}
	b.dirtySvcs[s.Key] = struct{}{}
}

// DeleteService forgets a service. Rows that are left are orphans.
func (b *Board) DeleteService(k ServiceKey) {
	if old := b.services[k]; old != nil {
		for i := range old.Versions {
			b.define(old.Versions[i].Process, k, nil)
		}
		delete(b.services, k)
		delete(b.svcDue, k)
	}
}

// define gives a process its definition, nil for none; indices whose row may have to change are
// checked again.
func (b *Board) define(guid string, k ServiceKey, v *Version) {
	p := b.process(guid)
	if v != nil {
		p.service = k
	}
	for _, i := range p.define(v) {
		b.looks++
		b.dirtyKeys[Key{guid, i}] = struct{}{}
	}
	if v == nil && len(p.rows) == 0 {
		delete(b.procs, guid)
	}
}

func (b *Board) process(guid string) *process {
	p := b.procs[guid]
	if p == nil {
		p = &process{rows: map[int]*slot{}}
		b.procs[guid] = p
	}
	return p
}

// Index returns the rows of an index; without rows, an empty one.
func (b *Board) Index(k Key) Index {
	if p := b.procs[k.Process]; p != nil {
		if s := p.rows[k.Index]; s != nil {
			return s.index
		}
	}
	return Index{Key: k}
}

// PutIndex stores the rows of an index; an empty one is forgotten.
func (b *Board) PutIndex(x Index) {
	p, i := b.process(x.Key.Process), x.Key.Index
	if old := p.rows[i]; old != nil {
		b.track(old.index, false)
		p.count(i, old.index, false)
	}
	if len(b.Reported.all) > 0 {
		b.Reported.left(b.Index(x.Key), x)
	}
	p.healthy.touch(i)
	b.dirtyKeys[x.Key] = struct{}{}
	if svc, rolling := b.rollingService(p); rolling {
		b.dirtySvcs[svc] = struct{}{}
	}
	if x.Empty() {
		b.forget(p, x.Key)
		return
	}
	s, isNew := p.row(i)
	if isNew {
		b.indices++
	}
	if a := x.Ordinary; p.version == nil && a != nil {
		p.service = a.Service
	}
	if !sameRequest(s.index.Ordinary, x.Ordinary) {
		s.asked = time.Time{}
	}
	s.loaded = s.loaded && s.index.Ordinary == x.Ordinary
	s.index = x
	p.count(i, x, true)
	b.track(x, true)
}

// LoadIndex is PutIndex for a row of an earlier term: it is unknown which of its requests arrived,
// so the next pass repeats them.
func (b *Board) LoadIndex(x Index) {
	b.PutIndex(x)
	if s := b.slot(x.Key); s != nil {
		s.asked, s.loaded = time.Unix(0, 0), true
	}
}

// Heard records that the session of a cell process is HEALTHY in this term: it can report the
// state of its instances.
func (b *Board) Heard(proc string, now time.Time) {
	b.dead.Delete(proc) // it was treated as dead because no list named it
	if _, known := b.heard[proc]; known {
		return
	}
	b.heard[proc] = now
	for k := range b.byProc[proc] {
		b.dirtySvcs[b.procs[k.Process].service] = struct{}{}
	}
}

// sameRequest reports whether rows a and b wait for the same event.
func sameRequest(a, b *Actual) bool {
	return a != nil && b != nil && a.Retiring == b.Retiring && a.Since.Equal(b.Since)
}

func (b *Board) forget(p *process, k Key) {
	if p.rows[k.Index] != nil {
		delete(p.rows, k.Index)
		b.indices--
	}
	if p.version == nil && len(p.rows) == 0 {
		delete(b.procs, k.Process)
	}
}

func (b *Board) rollingService(p *process) (ServiceKey, bool) {
	s := b.services[p.service]
	return p.service, s != nil && (s.Phase != Steady || s.Removed || len(s.Versions) > 1)
}

// track keeps byProc for the rows of x.
func (b *Board) track(x Index, add bool) {
	for _, a := range [...]*Actual{x.Ordinary, x.Evacuating, x.Suspect} {
		if a != nil {
			b.trackProc(a.Proc, x.Key, add)
			b.trackProc(a.Replaces.Proc, x.Key, add)
		}
	}
	if o := x.Ordinary; o != nil && o.Exclusive && (o.State == Claimed || o.State == Running) {
		b.exclusive.track(b, indexName{o.Service, x.Key.Index}, x.Key, add)
	}
}

func (b *Board) trackProc(proc string, k Key, add bool) {
	if proc != "" {
		b.byProc.Set(proc, k, add)
	}
}

// OnProc returns the indices that have a row on a cell process, or one that replaces such a row,
// in order.
func (b *Board) OnProc(proc string) []Key { return sorted(b.byProc[proc]) }

// Procs returns the cell processes that rows name, in order.
func (b *Board) Procs() []string {
	out := make([]string, 0, len(b.byProc))
	for p := range b.byProc {
		out = append(out, p)
	}
	slices.Sort(out)
	return out
}

// SetDomain makes a domain fresh until the given time; zero = forever. If its freshness does not
// change, none of its rows was left alone.
func (b *Board) SetDomain(domain string, until time.Time) {
	old, known := b.domains[domain]
	b.domains[domain] = until
	if known && (old.IsZero() || old.Equal(until)) {
		return
	}
	for guid, p := range b.procs {
		if p.service.Domain == domain {
			for i := range p.rows {
				b.dirtyKeys[Key{guid, i}] = struct{}{}
			}
		}
	}
}

// Fresh reports whether a domain is fresh.
func (b *Board) Fresh(domain string, now time.Time) bool {
	until, known := b.domains[domain]
	return known && (until.IsZero() || now.Before(until))
}

// Domains returns the domains that were set and until when they are fresh.
func (b *Board) Domains() map[string]time.Time { return b.domains }

// QuarantineIndex records that the row of an index cannot be read: it counts as existing, and no
// instance is started or stopped for it.
func (b *Board) QuarantineIndex(k Key, bad bool) {
	setOrDelete(b.badKeys, k, bad)
	b.dirtyKeys[k] = struct{}{}
	if p := b.procs[k.Process]; p != nil {
		b.dirtySvcs[p.service] = struct{}{}
	}
}

// QuarantineService records that the row of a service cannot be read: its rows are no orphans, and
// no instance is started or stopped for it.
func (b *Board) QuarantineService(k ServiceKey, bad bool) {
	setOrDelete(b.badSvcs, k, bad)
	for guid, p := range b.procs {
		if p.service == k {
			for i := range p.rows {
				b.dirtyKeys[Key{guid, i}] = struct{}{}
			}
		}
	}
}

// Quarantined reports whether nothing may be done for an index.
func (b *Board) Quarantined(k Key) bool {
	p := b.procs[k.Process]
	return b.badKeys[k] || p != nil && b.badSvcs[p.service]
}

func setOrDelete[K comparable](m map[K]bool, k K, on bool) {
	if on {
		m[k] = true
	} else {
		delete(m, k)
	}
}

// ProcDied records that a cell process is certainly dead, with all containers that it has reported:
// convergence takes every row off it, also such as appear later.
func (b *Board) ProcDied(proc string) {
	b.Reported.Drop(proc)
	b.dead.Add(proc, func(p string) bool { return len(b.byProc[p]) > 0 })
	delete(b.heard, proc)
	for k := range b.byProc[proc] {
		b.dirtyKeys[k] = struct{}{}
		b.procs[k.Process].healthy.touch(k.Index)
	}
}

// Env returns the input of Step about an index.
func (b *Board) Env(k Key, now time.Time) Env {
	env := Env{Now: now}
	p := b.procs[k.Process]
	if p == nil {
		return env
	}
	env.Fresh = b.Fresh(p.service.Domain, now)
	if len(b.Reported.all) > 0 {
		env.Reported = b.Reported.beside(b.Index(k))
	}
	if p.version != nil {
		env.Desired, env.Wanted = &p.version.Desired, p.version.Wants(k.Index)
		env.OthersRunning = b.othersRunning(p, k.Index)
		env.Beside = env.Desired.Exclusive && b.exclusive.beside(indexName{p.service, k.Index}, k)
	}
	return env
}

// othersRunning counts over all versions of the service: while a stop-first rollout takes an
// index from one version to the next, neither wants it, and it is down all the same.
func (b *Board) othersRunning(p *process, index int) bool {
	s := b.services[p.service]
	running, ranges := 0, 0
	for i := range s.Versions {
		v := &s.Versions[i]
		ranges += v.High - v.Low
		running += b.procs.of(v).running
	}
	others := max(ranges, s.Instances)
	if index < s.Instances {
		others--
	}
	if x := p.rows[index]; x != nil && p.version.Wants(index) && x.index.Ordinary.Serves() {
		running--
	}
	return running >= others
}

// Orphans returns the indices that have rows but no definition, in order.
func (b *Board) Orphans() []Key {
	set := map[Key]struct{}{}
	for guid, p := range b.procs {
		if p.version == nil && !b.badSvcs[p.service] {
			for i := range p.rows {
				set[Key{guid, i}] = struct{}{}
			}
		}
	}
	return sorted(set)
}

// Keys returns all indices that have rows, in order.
func (b *Board) Keys() []Key {
	out := make([]Key, 0, b.indices)
	for guid, p := range b.procs {
		for i := range p.rows {
			out = append(out, Key{guid, i})
		}
	}
	slices.SortFunc(out, Key.Compare)
	return out
}

func sorted(set map[Key]struct{}) []Key {
	out := make([]Key, 0, len(set))
	for k := range set {
		out = append(out, k)
	}
	slices.SortFunc(out, Key.Compare)
	return out
}

// dueItem is the time at which an index or a service must be checked.
type dueItem struct {
	key     Key        // of an index, when Process is set
	service ServiceKey // otherwise
}

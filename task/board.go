package task

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"
	"time"

	"cantina/internal/agenda"
	"cantina/internal/dead"
	"cantina/internal/multimap"
)

// Board holds all tasks of a leader and knows which of them convergence must check. It is an owned
// value, changed in place by one goroutine. It never changes tasks that were put in.
type Board struct {
	Reported Reported

	policy  Policy
	tasks   map[string]*slot             // by guid
	byProc  multimap.Map[string, string] // cell process id → guids RUNNING on it, or being ended
	runs    multimap.Map[named, string]  // guids that may run
	bad     map[string]bool              // quarantined guids
	dead    dead.Set                     // cell processes that are certainly dead
	ended   map[string]*endedHeap        // domain → ended tasks, oldest first
	endings map[string]int               // domain → number of ended tasks
	dirty   map[string]struct{}
	due     agenda.Agenda[string] // guids
}

// named is the name in a spec file: that of a task, or of a schedule with its runs.
type named struct{ domain, name string }

type slot struct {
	task  *Task
	due   time.Time
	asked time.Time // when a placement was last requested
	// sending: the delivery of its end is in progress here, and ends with CallbackDone.
	sending bool
	// loaded is when this board loaded a task that another leader has cancelled, whose wall clock may
	// differ from this one's. Zero for all others.
	loaded time.Time
	// older: the row is as it was before the store was restored or moved.
	older bool
}

// NewBoard returns an empty board.
func NewBoard(p Policy) *Board {
	return &Board{
		policy: p.WithDefaults(), tasks: map[string]*slot{}, byProc: multimap.Map[string, string]{},
		runs: multimap.Map[named, string]{},
		bad:  map[string]bool{}, ended: map[string]*endedHeap{}, endings: map[string]int{}, dirty: map[string]struct{}{},
	}
}

// Policy returns the policy with its defaults.
func (b *Board) Policy() Policy { return b.policy }

// Get returns the task of a guid, or nil.
func (b *Board) Get(guid string) *Task {
	if s := b.tasks[guid]; s != nil {
		return s.task
	}
	return nil
}

// Len returns how many tasks there are.
func (b *Board) Len() int { return len(b.tasks) }

// Put stores a task, new or changed.
func (b *Board) Put(t *Task) {
	s := b.tasks[t.GUID]
	if s == nil {
		s = &slot{}
		b.tasks[t.GUID] = s
	} else {
		b.track(s.task, false)
	}
	if s.task == nil || s.task.State != t.State || s.task.UID != t.UID {
		s.asked = time.Time{}
	}
	if s.task == nil || t.State != Resolving || s.task.Delivery() != t.Delivery() {
		s.sending = false
	}
	if s.task == nil || s.task.UID != t.UID {
		s.loaded = time.Time{}
	}
	if t.Ended() && (s.task == nil || !s.task.Ended() || s.task.UID != t.UID ||
		!s.task.FirstCompleted.Equal(t.FirstCompleted)) {
		b.pushEnded(t)
	}
	s.task, s.older = t, false
	b.track(t, true)
	b.dirty[t.GUID] = struct{}{}
}

// pushEnded adds a task to the ended ones of its domain, and removes deleted ones if they are more
// than half.
func (b *Board) pushEnded(t *Task) {
	h := b.ended[t.Domain]
	if h == nil {
		h = &endedHeap{}
		b.ended[t.Domain] = h
	}
	heap.Push(h, endedItem{at: t.FirstCompleted, guid: t.GUID, uid: t.UID})
	if h.Len() > 2*b.endings[t.Domain]+64 {
		*h = slices.DeleteFunc(*h, func(i endedItem) bool { return i.guid != t.GUID && !b.isEnded(i) })
		heap.Init(h)
	}
}

// isEnded reports whether the item is still valid.
func (b *Board) isEnded(i endedItem) bool {
	t := b.Get(i.guid)
	return t != nil && t.UID == i.uid && t.Ended() && t.FirstCompleted.Equal(i.at)
}

// Load is Put for a row of an earlier term: it is unknown whether its request arrived, so the next
// pass repeats it. older: it was written before the store was restored or moved.
func (b *Board) Load(t *Task, now time.Time, older bool) {
	b.Put(t)
	s := b.tasks[t.GUID]
	s.asked, s.older = time.Unix(0, 0), older
	if t.Ending() {
		s.loaded = now
	}
}

// Older reports whether a row is as it was before the store was restored or moved.
func (b *Board) Older(guid string) bool {
	s := b.tasks[guid]
	return s != nil && s.older
}

// Sending sets whether the delivery of a task's end is in progress: a RESOLVING task is not
// demoted meanwhile. A call about an older verdict changes nothing.
func (b *Board) Sending(d Delivery, on bool) {
	if s := b.tasks[d.GUID]; s != nil && s.task.State == Resolving && s.task.Delivery() == d {
		s.sending = on
		b.dirty[d.GUID] = struct{}{}
	}
}

// SinceEnd is for how long at least a task has been over, by the time that really passed: of one
// that was cancelled under an earlier leader, since this board has its row.
func (b *Board) SinceEnd(t *Task, now time.Time) time.Duration {
	at := t.FirstCompleted
	if s := b.tasks[t.GUID]; s != nil && s.task.UID == t.UID && !s.loaded.IsZero() {
		at = s.loaded
	}
	return max(0, now.Sub(at))
}

// Delete forgets a task.
func (b *Board) Delete(guid string) {
	if s := b.tasks[guid]; s != nil {
		b.track(s.task, false)
		delete(b.tasks, guid)
		if d := s.task.Domain; b.endings[d] == 0 {
			delete(b.endings, d)
			delete(b.ended, d)
		}
	}
}

func (b *Board) track(t *Task, add bool) {
	if t.State == Running || t.Ending() {
		b.byProc.Set(t.Holder.Proc, t.GUID, add)
	}
	if t.Name != "" && t.MayRun() {
		b.runs.Set(named{t.Domain, t.Name}, t.GUID, add)
	}
	if !t.Ended() {
		return
	}
	if !add {
		b.endings[t.Domain]--
		return
	}
	b.endings[t.Domain]++
}

// MayRun returns the guids of a name in a domain that may run or wait to run, in order.
func (b *Board) MayRun(domain, name string) []string { return keys(b.runs[named{domain, name}]) }

// OnProc returns the guids RUNNING on a cell process, or being ended there, in order.
func (b *Board) OnProc(proc string) []string { return keys(b.byProc[proc]) }

// Procs returns the cell processes that RUNNING tasks name, or that are to end some, in order.
func (b *Board) Procs() []string {
	out := make([]string, 0, len(b.byProc))
	for p := range b.byProc {
		out = append(out, p)
	}
	slices.Sort(out)
	return out
}

// GUIDs returns all guids in order.
func (b *Board) GUIDs() []string {
	out := make([]string, 0, len(b.tasks))
	for g := range b.tasks {
		out = append(out, g)
	}
	slices.Sort(out)
	return out
}

func keys(set map[string]struct{}) []string {
	out := make([]string, 0, len(set))
	for g := range set {
		out = append(out, g)
	}
	slices.Sort(out)
	return out
}

// Quarantine records that the row of a guid cannot be read: it counts as existing.
func (b *Board) Quarantine(guid string, bad bool) {
	if bad {
		b.bad[guid] = true
	} else {
		delete(b.bad, guid)
	}
	b.dirty[guid] = struct{}{}
}

// Quarantined reports whether the row of a guid cannot be read.
func (b *Board) Quarantined(guid string) bool { return b.bad[guid] }

// ProcDied records that a cell process is certainly dead, with all containers that it has reported.
func (b *Board) ProcDied(proc string) {
	b.Reported.Drop(proc)
	b.dead.Add(proc, func(p string) bool { return len(b.byProc[p]) > 0 })
	for g := range b.byProc[proc] {
		b.dirty[g] = struct{}{}
	}
}

// Dead reports whether a cell process is certainly dead.
func (b *Board) Dead(proc string) bool { return b.dead.Has(proc) }

// Heard records that the session of a cell process is HEALTHY: it lives, even if no list has named
// it.
func (b *Board) Heard(proc string) { b.dead.Delete(proc) }

// Move is one action of convergence: the event for the task, to be passed to Step.
type Move struct {
	GUID  string
	Event Event
}

// Converge checks tasks that have changed since the last pass or have become due, and returns the
// needed moves, in order of guid. It remembers the repeated requests: a second pass at the same
// time returns nothing. (Diego dev notes, Tasks, Maintaining Consistency: its five duties are the
// cases of check.)
func (b *Board) Converge(now time.Time) []Move {
	b.due.Thin(len(b.tasks), func(guid string, at time.Time) bool {
		return b.tasks[guid] != nil && b.tasks[guid].due.Equal(at)
	})
	for {
		guid, at, ok := b.due.Take(now)
		if !ok {
			break
		}
		if s := b.tasks[guid]; s != nil && s.due.Equal(at) {
			s.due = time.Time{}
			b.dirty[guid] = struct{}{}
		}
	}
	var out []Move
	over := map[string]struct{}{}
	for g := range b.dirty {
		s := b.tasks[g]
		if s == nil || b.bad[g] {
			continue
		}
		if e := b.check(s, now); e != nil {
			out = append(out, Move{g, e})
		}
		if d := s.task.Domain; b.endings[d] > b.policy.KeepPerDomain {
			over[d] = struct{}{}
		}
	}
	if len(b.dirty) > 64 {
		b.dirty = map[string]struct{}{} // clearing a map costs as much as its largest content
	}
	clear(b.dirty)
	for d := range over {
		out = b.pruneOldest(d, now, out)
	}
	slices.SortFunc(out, func(x, y Move) int { return cmp.Compare(x.GUID, y.GUID) })
	return slices.CompactFunc(out, func(x, y Move) bool { return x.GUID == y.GUID })
}

// ConvergeAll is Converge over everything there is.
func (b *Board) ConvergeAll(now time.Time) []Move {
	for g := range b.tasks {
		b.dirty[g] = struct{}{}
	}
	return b.Converge(now)
}

// NextDue returns the earliest moment at which a pass may find something although
// nothing changed; false when there is none.
func (b *Board) NextDue() (time.Time, bool) { return b.due.Next() }

// check returns the event that a task needs now, or nil, and plans its next look.
func (b *Board) check(s *slot, now time.Time) Event {
	t := s.task
	switch t.State {
	case Running:
		if b.dead.Has(t.Holder.Proc) {
			return ProcDead{t.Holder.Proc}
		}
	case Pending:
		return b.checkPending(s, now)
	case Resolving:
		if s.sending {
			return nil
		}
		at := t.Updated.Add(b.policy.StuckResolving)
		if !now.Before(at) {
			return Demote{}
		}
		b.plan(s, at)
	case Completed:
		return b.checkCompleted(s, now)
	}
	return nil
}

func (b *Board) checkPending(s *slot, now time.Time) Event {
	t := s.task
	end := t.Created.Add(t.Definition.pendingTimeout())
	if !now.Before(end) {
		return ExpirePending{}
	}
	b.plan(s, end)
	if s.asked.IsZero() {
		s.asked = now // just requested by the event that caused it
	}
	at := s.asked.Add(b.policy.Kick)
	if now.Before(at) {
		b.plan(s, at)
		return nil
	}
	s.asked = now
	b.plan(s, now.Add(b.policy.Kick))
	return Kick{}
}

func (b *Board) checkCompleted(s *slot, now time.Time) Event {
	t := s.task
	end := t.FirstCompleted.Add(b.policy.KeptFor())
	at, calls := t.callbackDue()
	switch {
	case b.mayGo(t, now) && !now.Before(end) && (!calls || b.policy.seed()):
		return Prune{}
	case calls && !now.Before(at):
		return KickCallback{}
	case calls:
		b.plan(s, at)
	}
	if b.mayGo(t, now) {
		b.plan(s, end)
	}
	return nil
}

// mayGo reports whether an ended task may be deleted: not one whose container may still exist,
// because consumers of its end need the row.
func (b *Board) mayGo(t *Task, now time.Time) bool {
	return t.prunable() && !b.BeingEnded(t, now)
}

// MayRerun returns nil if the task may be started once more as a new task: it has ended, and no process
// of it or of another task of its name is left. A lost one is resolved first.
func (b *Board) MayRerun(t *Task, now time.Time) error {
	switch {
	case !t.Ended():
		return ErrInvalidStateTransition
	case t.Unresolved():
		return ErrLostUnresolved
	case b.BeingEnded(t, now):
		return fmt.Errorf("on cell %s: %w", t.Holder.Cell, ErrEnding)
	}
	return b.RunsAlone(t, now)
}

// BeingEnded reports whether the container of a cancelled task may still be there: its end is not known.
func (b *Board) BeingEnded(t *Task, now time.Time) bool {
	return t.Held(b.SinceEnd(t, now), b.dead.Has(t.Holder.Proc))
}

// RunsAlone returns ErrSameName if another task of the name of t may run. Tasks without a name do not
// exclude each other.
func (b *Board) RunsAlone(t *Task, now time.Time) error {
	for _, guid := range b.MayRun(t.Domain, t.Name) {
		if o := b.Get(guid); guid != t.GUID && (!o.Ended() || o.MayStillRun || b.BeingEnded(o, now)) {
			return fmt.Errorf("not rerun while task %s %w", guid, ErrSameName)
		}
	}
	return nil
}

// pruneOldest adds moves for the oldest ended tasks of a domain that keeps too
// many. Lost tasks that wait for a person are passed over.
func (b *Board) pruneOldest(domain string, now time.Time, out []Move) []Move {
	h := b.ended[domain]
	surplus := b.endings[domain] - b.policy.KeepPerDomain
	var kept []endedItem
	for surplus > 0 && h.Len() > 0 {
		item := heap.Pop(h).(endedItem)
		if !b.isEnded(item) || len(kept) > 0 && kept[len(kept)-1] == item {
			continue // an older life of the guid, or entered twice
		}
		kept = append(kept, item)
		t := b.Get(item.guid)
		if _, calls := t.callbackDue(); b.mayGo(t, now) && !calls {
			out = append(out, Move{item.guid, Prune{}})
			surplus--
		}
	}
	for _, item := range kept {
		heap.Push(h, item)
	}
	return out
}

// plan has the task looked at again at the given moment, or earlier.
func (b *Board) plan(s *slot, at time.Time) {
	if !s.due.IsZero() && !at.Before(s.due) {
		return
	}
	s.due = at
	b.due.Plan(at, s.task.GUID)
}

// endedItem is an ended task, as old as its first completion.
type endedItem struct {
	at   time.Time
	guid string
	uid  string
}

type endedHeap []endedItem

func (h endedHeap) Len() int { return len(h) }
func (h endedHeap) Less(i, j int) bool {
	if !h[i].at.Equal(h[j].at) {
		return h[i].at.Before(h[j].at)
	}
	return h[i].guid < h[j].guid
}
func (h endedHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push is for container/heap.
func (h *endedHeap) Push(x any) { *h = append(*h, x.(endedItem)) }

// Pop is for container/heap.
func (h *endedHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	old[len(old)-1] = endedItem{} // its data is deleted with it
	*h = old[:len(old)-1]
	return x
}

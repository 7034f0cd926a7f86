package scheduler

import (
	"container/heap"
	"maps"
	"slices"
	"strings"
	"time"
)

// agenda is what the next pass looks at: forests and jobs that have changed, and forests whose time has come. So
// the cost of a pass does not depend on how many forests and jobs there are. It is guarded by the lock of newest.
type agenda struct {
	awake  map[*forest]bool // changed since the last pass
	looked []*forest        // those of the present pass, in order of name
	times  appointments     // when forests are looked at even without a change
	// untidy are jobs with rows to be deleted or merged. tombs are all deleted ones that have a row left: they are
	// looked at regularly, because their running work may end without an event.
	untidy, tombs map[*job]bool
	tombsAt       time.Duration // when they were looked at last
	running       int           // tasks that run according to the boards, as counted last
}

func newAgenda() agenda {
	return agenda{awake: make(map[*forest]bool), untidy: make(map[*job]bool), tombs: make(map[*job]bool)}
}

func byName(x, y *forest) int { return strings.Compare(x.name, y.name) }

// add takes a new forest. Each change of its board wakes it.
func (s *newest) add(name string, f *forest) {
	f.name = name
	s.forests[name] = f
	f.board.Watch(func(job string) {
		s.stir(f)
		if f.turned = f.turned || job == ""; job != "" {
			s.gates.turned(job)
		}
	})
	s.stir(f)
}

// leave takes a forest away whose tasks have all ended.
func (s *newest) leave(f *forest) {
	delete(s.forests, f.name)
	delete(s.awake, f)
	delete(s.refused, f)
	s.times.cancel(f)
	s.running -= f.running
	f.awake = true // never again
}

// stir has the next pass look at a forest.
func (a *agenda) stir(f *forest) {
	if !f.awake {
		f.awake = true
		a.awake[f] = true
	}
}

// count returns how many tasks run according to all boards. A board whose number has changed is awake.
func (a *agenda) count() int {
	for f := range a.awake {
		n := f.board.Live()
		a.running, f.running = a.running+n-f.running, n
	}
	return a.running
}

// tend has the next pass look at a job if rows of it are to be deleted or merged.
func (s *newest) tend(j *job) {
	if j.row.deleted {
		s.tombs[j] = true
	}
	if j.row.deleted || len(j.segs.dead) >= 2*maxDead || j.written >= s.cfg.MergeAt {
		s.untidy[j] = true
	}
}

// gather takes the forests that a pass looks at, and the tombstones if their time has come. The lock is held.
func (s *newest) gather() {
	now := s.cfg.Clock.Boot()
	for len(s.times) > 0 && s.times[0].lookAt <= now {
		s.stir(heap.Pop(&s.times).(*forest))
	}
	s.looked = nil
	s.stats.Looked += s.rouse()
	if now-s.tombsAt >= tidyEvery {
		s.tombsAt = now
		maps.Copy(s.untidy, s.tombs)
	}
}

// rouse adds the forests that have changed to those that the pass looks at. It returns their number.
func (a *agenda) rouse() int {
	n := len(a.awake)
	for f := range a.awake {
		f.awake = false
		a.looked = append(a.looked, f)
	}
	clear(a.awake)
	slices.SortFunc(a.looked, byName)
	a.looked = slices.Compact(a.looked)
	return n
}

// postpone puts the looked-at forests back: the pass did nothing.
func (a *agenda) postpone() {
	for _, f := range a.looked {
		a.stir(f)
	}
}

// settle makes the next appointment of each forest that was looked at. The lock is held.
func (s *newest) settle() {
	now, boot := s.nowMilli(), s.cfg.Clock.Boot()
	for _, f := range s.looked {
		if s.forests[f.name] == f {
			s.appoint(f, now, boot)
		}
	}
}

// appoint sets when a forest is looked at next, if nothing changes before.
func (a *agenda) appoint(f *forest, now int64, boot time.Duration) {
	var next time.Duration
	ok := false
	consider := func(at time.Duration) {
		if !ok || at < next {
			next, ok = at, true
		}
	}
	if at, due := f.board.NextDue(); due {
		consider(boot + time.Duration(at-now)*time.Millisecond)
	}
	if at, due := f.board.NextOrphan(); due && f.judged() {
		consider(boot + time.Duration(at-now)*time.Millisecond)
	}
	if !f.gone && !f.reading && f.hasSources() {
		consider(f.readAt)
	}
	if f.judged() {
		consider(f.forgetAt)
	}
	a.times.cancel(f)
	if f.lookAt = next; ok {
		heap.Push(&a.times, f)
	}
}

// appointments are a heap of forests by the time at which they are looked at.
type appointments []*forest

// cancel takes a forest out, if it has an appointment.
func (a *appointments) cancel(f *forest) {
	if f.at < len(*a) && (*a)[f.at] == f {
		heap.Remove(a, f.at)
	}
}

func (a appointments) Len() int           { return len(a) }
func (a appointments) Less(i, k int) bool { return a[i].lookAt < a[k].lookAt }

func (a appointments) Swap(i, k int) {
	a[i], a[k] = a[k], a[i]
	a[i].at, a[k].at = i, k
}

// Push is for package heap.
func (a *appointments) Push(x any) {
	f := x.(*forest)
	f.at = len(*a)
	*a = append(*a, f)
}

// Pop is for package heap.
func (a *appointments) Pop() any {
	last := len(*a) - 1
	f := (*a)[last]
	(*a)[last] = nil
	*a = (*a)[:last]
	return f
}

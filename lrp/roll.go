package lrp

import (
	"fmt"
	"slices"
	"time"
)

// Instances is the data about the instances of a service that Roll needs.
type Instances interface {
	// Unhealthy returns the first index below high of a process that has not been RUNNING and
	// routable for the settle time, or high; if only time is missing, at is when it will be.
	Unhealthy(process string, high int, settle time.Duration, now time.Time) (i int, at time.Time)
	// Exists reports whether index i of a process has rows.
	Exists(process string, i int) bool
	// Top returns the index after the highest one of a process that has rows.
	Top(process string) int
	// Cause returns why index i of a process does not run, as far as its row has it:
	// how it crashed last, or why no cell took it; empty = unknown.
	Cause(process string, i int) string
}

// batch returns how many of n indices change at once.
func (p RolloutPolicy) batch(n int) int {
	if p.Batch > 0 {
		return p.Batch
	}
	return max(1, n/4)
}

func (p RolloutPolicy) deadline() time.Duration {
	if p.ProgressDeadline == 0 {
		return 10 * time.Minute
	}
	return p.ProgressDeadline
}

// Roll returns the next value of a service whose rollout is in progress, or s itself if nothing
// changes. It also returns the next time at which time alone can change it (zero = none). The
// target grows index by index, a batch ahead of the prefix of its healthy instances. The versions
// that it replaces shrink from below: after that prefix when starting first, a batch ahead of it
// when stopping first. Ranges only move forward, so a flapping instance brings nothing back. All
// inputs of its decisions are in the service and in the rows: a new leader continues where the old
// one stopped.
func (s *Service) Roll(in Instances, now time.Time) (*Service, time.Time) {
	if s.Phase == Steady || len(s.Versions) == 0 {
		return s, time.Time{}
	}
	if s.Phase == RollFailed && s.Target().Rollout.KeepFailed && len(s.Versions) > 1 {
		return s, time.Time{} // left as it is
	}
	r := roll{s: s.clone(), in: in, now: now}
	r.step()
	if sameRollout(s, r.s) {
		return s, r.next
	}
	return r.s, r.next
}

// Resumed returns the service as a new leader takes it over: the deadline of an earlier term's
// rollout starts again, because its progress was not observed without a leader.
func (s *Service) Resumed(now time.Time) *Service {
	if s.Phase != RollingOut {
		return s
	}
	c := *s
	c.Progress = now
	return &c
}

func sameRollout(a, b *Service) bool {
	same := func(x, y Version) bool {
		return x.Process == y.Process && x.Low == y.Low && x.High == y.High && x.Good == y.Good
	}
	return a.Phase == b.Phase && a.Healthy == b.Healthy && a.Failure == b.Failure &&
		slices.EqualFunc(a.Versions, b.Versions, same)
}

type roll struct {
	s    *Service
	in   Instances
	now  time.Time
	next time.Time
}

func (r *roll) wake(at time.Time) {
	if r.next.IsZero() || at.Before(r.next) {
		r.next = at
	}
}

func (r *roll) step() {
	t := r.s.Target()
	r.cutSuperseded()
	prefix := r.prefix(t)
	if r.s.Phase == RollingBack {
		r.goBack(t, prefix)
	} else {
		r.advance(t, prefix)
	}
	r.forget()
	t = r.s.Target()
	if prefix > r.s.Healthy {
		r.s.Healthy, r.s.Progress = prefix, r.now
	}
	if prefix >= r.s.Instances {
		r.finish(t)
		return
	}
	if r.s.Phase == RollingOut {
		if at := r.s.Progress.Add(t.Rollout.deadline()); r.now.Before(at) {
			r.wake(at)
		} else {
			r.fail(t)
		}
	}
}

// prefix counts the healthy instances of the target from index 0.
func (r *roll) prefix(t *Version) int {
	if t.Low > 0 {
		return 0
	}
	i, at := r.in.Unhealthy(t.Process, t.High, t.settle(), r.now)
	if !at.IsZero() {
		r.wake(at)
	}
	return i
}

// cutSuperseded stops instances of a superseded version that have not replaced an older one: at
// most two versions want one index.
func (r *roll) cutSuperseded() {
	old := r.s.Versions[:len(r.s.Versions)-1]
	for i := 1; i < len(old); i++ {
		for j := range i {
			if o := &old[j]; o.Low < o.High {
				old[i].High = max(old[i].Low, min(old[i].High, o.Low))
			}
		}
	}
}

// forget drops superseded versions that want nothing and have no row, except the last good one,
// which is the target after a failed rollout. So a service that is repeatedly updated or restarted
// without becoming healthy does not grow.
func (r *roll) forget() {
	last, good := len(r.s.Versions)-1, r.s.lastGood()
	left := r.s.Versions[:0]
	for i := range r.s.Versions {
		if v := &r.s.Versions[i]; i == last || i == good || v.Low < v.High || r.in.Top(v.Process) > 0 {
			left = append(left, *v)
		}
	}
	r.s.Versions = left
}

// lastGood is the last version before the target that was good, or the target when there is none.
func (s *Service) lastGood() int {
	good := len(s.Versions) - 1
	for i := range good {
		if s.Versions[i].Good {
			good = i
		}
	}
	return good
}

// stopFirst reports whether an index of t must not start before the older one is gone.
func (r *roll) stopFirst() bool {
	if r.s.Target().StopFirst() {
		return true
	}
	for i := range r.s.Versions {
		if r.s.Versions[i].Exclusive {
			return true
		}
	}
	return false
}

// advance moves the ranges of a rollout.
func (r *roll) advance(t *Version, prefix int) {
	n := r.s.Instances
	ahead := min(n, prefix+t.Rollout.batch(n))
	if r.olderWanted() == 0 && !r.stopFirst() {
		ahead = n
	}
	if !r.stopFirst() {
		r.shrink(prefix)
		t.High = max(min(t.High, n), ahead)
		return
	}
	r.shrink(ahead)
	free := min(t.High, n)
	for free < ahead && !r.olderExists(free) {
		free++
	}
	t.High = free
}

// shrink has the older versions give up the indices below low.
func (r *roll) shrink(low int) {
	for i := range r.s.Versions[:len(r.s.Versions)-1] {
		v := &r.s.Versions[i]
		v.High = min(v.High, r.s.Instances)
		v.Low = min(max(v.Low, low), v.High)
		v.High = max(v.High, v.Low)
	}
}

// olderWanted counts the indices that older versions still want.
func (r *roll) olderWanted() int {
	n := 0
	for _, v := range r.s.Versions[:len(r.s.Versions)-1] {
		n += v.High - v.Low
	}
	return n
}

func (r *roll) olderExists(index int) bool {
	for _, v := range r.s.Versions[:len(r.s.Versions)-1] {
		if r.in.Exists(v.Process, index) {
			return true
		}
	}
	return false
}

// goBack moves the ranges of a rollback: the good version comes back whole, the failed one is
// removed index by index, or first with stop-first.
func (r *roll) goBack(t *Version, prefix int) {
	n := r.s.Instances
	if !r.stopFirst() {
		t.Low, t.High = 0, n
		r.shrink(prefix)
		return
	}
	r.shrink(n)
	low := 0
	for _, v := range r.s.Versions[:len(r.s.Versions)-1] {
		low = max(low, r.in.Top(v.Process))
	}
	t.Low, t.High = min(low, n), n
}

// fail ends a rollout that made no progress: back to the last good version, if any.
func (r *roll) fail(t *Version) {
	s := r.s
	s.Failure = fmt.Sprintf("version %d: no progress for %v: %d of %d instances healthy", t.Number, t.Rollout.deadline(),
		s.Healthy, s.Instances)
	for i := t.Low; i < t.High; i++ {
		if cause := r.in.Cause(t.Process, i); cause != "" {
			s.Failure += fmt.Sprintf("; %s/%d: %s", s.Key.Name, i, cause)
			break
		}
	}
	s.FailedVersion = t.Number
	good := s.lastGood()
	g := s.Versions[good]
	if g.Number == t.Number || t.Rollout.KeepFailed {
		s.Phase = RollFailed
		return
	}
	t.High = max(t.Low, min(t.High, g.Low)) // additional instances are stopped at once
	s.Versions = append(slices.Delete(s.Versions, good, good+1), g)
	s.Phase, s.Healthy, s.Progress = RollingBack, 0, r.now
	r.next = r.now
}

// finish ends a rollout, or a rollback, that is whole and healthy. Older versions
// stay until their last row is gone.
func (r *roll) finish(t *Version) {
	t.Good = true
	if t.Number == r.s.FailedVersion {
		r.s.Failure, r.s.FailedVersion = "", 0 // it got well after all
	}
	t.Low, t.High = 0, r.s.Instances
	r.shrink(r.s.Instances)
	left := r.s.Versions[:0]
	for i := range r.s.Versions {
		v := &r.s.Versions[i]
		if i == len(r.s.Versions)-1 || r.in.Top(v.Process) > 0 {
			if i < len(r.s.Versions)-1 {
				v.Low, v.High = 0, 0
			}
			left = append(left, *v)
		}
	}
	r.s.Versions = left
	if len(left) == 1 {
		r.s.Phase = Steady
	}
}

// roll runs Roll for a service of the board and plans its next look. gone means
// that a removed service has no instance left.
func (b *Board) roll(s *Service, now time.Time) (next *Service, gone bool) {
	k := s.Key
	if b.badSvcs[k] {
		return nil, false
	}
	if s.Removed {
		for i := range s.Versions {
			if b.Top(s.Versions[i].Process) > 0 {
				return nil, false
			}
		}
		return nil, true
	}
	n, at := s.Roll(b, now)
	if !at.IsZero() && !b.svcDue[k].Equal(at) {
		b.svcDue[k] = at
		b.due.Plan(at, dueItem{service: k})
	}
	if n == s {
		return nil, false
	}
	return n, false
}

// Unhealthy implements Instances.
func (b *Board) Unhealthy(process string, high int, settle time.Duration, now time.Time) (int, time.Time) {
	p := b.procs[process]
	if p == nil {
		return 0, time.Time{}
	}
	return p.healthy.first(high, func(i int) (bool, time.Time) { return b.Healthy(process, i, settle, now) })
}

// Healthy reports whether index i of a process has been RUNNING and routable for the settle time;
// if only time is missing, at is when it will be. An instance of an earlier term may have ended
// without a leader: its time counts from when its cell can report it, and is never zero.
func (b *Board) Healthy(process string, i int, settle time.Duration, now time.Time) (bool, time.Time) {
	b.looks++
	s := b.slot(Key{process, i})
	if s == nil {
		return false, time.Time{}
	}
	a := s.index.Ordinary
	if !a.Serves() {
		if a = s.index.Suspect; !a.Serves() {
			return false, time.Time{}
		}
	}
	at := a.Since.Add(settle)
	if s.loaded {
		heard, known := b.heard[a.Proc]
		if !known {
			return false, time.Time{}
		}
		if settled := heard.Add(max(settle, UncheckedSettle)); settled.After(at) {
			at = settled
		}
	}
	if now.Before(at) {
		return false, at
	}
	return true, time.Time{}
}

// Cause implements Instances.
func (b *Board) Cause(process string, i int) string {
	a := b.Index(Key{process, i}).Ordinary
	switch {
	case a == nil || a.State == Running:
		return ""
	case a.CrashReason != "":
		return "crashed: " + a.CrashReason
	case a.State == Claimed && b.policy.Starting != nil:
		return b.policy.Starting(a)
	}
	return a.PlacementError
}

// Exists implements Instances.
func (b *Board) Exists(process string, i int) bool {
	k := Key{process, i}
	return !b.Index(k).Empty() || b.badKeys[k]
}

// Top implements Instances.
func (b *Board) Top(process string) int {
	top := 0
	if p := b.procs[process]; p != nil {
		top = p.top()
	}
	for k := range b.badKeys { // an unreadable one may run
		if k.Process == process {
			top = max(top, k.Index+1)
		}
	}
	return top
}

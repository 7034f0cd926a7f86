package lrp

import (
	"slices"
	"time"
)

// Move is one action of convergence: the event for the index, to be passed to Step.
type Move struct {
	Key   Key
	Event Event
}

// Outcome of one pass: moves in order of key, and services whose ranges must change, in order of
// key.
type Outcome struct {
	Moves    []Move
	Services []*Service // new values, not yet stored
	// Gone are removed services without instances: their rows can be deleted.
	Gone []ServiceKey
}

// Empty reports whether there is nothing to do.
func (o Outcome) Empty() bool { return len(o.Moves) == 0 && len(o.Services) == 0 && len(o.Gone) == 0 }

// Converge checks rows that have changed since the last pass or have become due, and returns the
// needed moves. It performs none of them, but remembers which requests it repeated and when: a
// second pass at the same time, after the moves were made or if there were none, returns nothing.
// The cost grows with the changes, not with the number of rows. (Diego dev notes, Harmonizing
// DesiredLRPs with ActualLRPs: Convergence. Its five duties are the cases of check and missing.)
func (b *Board) Converge(now time.Time) Outcome { return b.converge(now, false) }

// ConvergeAll is Converge over everything there is.
func (b *Board) ConvergeAll(now time.Time) Outcome { return b.converge(now, true) }

func (b *Board) converge(now time.Time, all bool) Outcome {
	b.popDue(now)
	var out Outcome
	if all {
		for k, s := range b.services {
			b.missing(s)
			b.dirtySvcs[k] = struct{}{}
		}
	}
	for k := range b.dirtySvcs {
		s := b.services[k]
		if s == nil {
			continue
		}
		switch s, gone := b.roll(s, now); {
		case gone:
			out.Gone = append(out.Gone, k)
		case s != nil:
			out.Services = append(out.Services, s)
		}
	}
	b.dirtySvcs = emptied(b.dirtySvcs)
	look := func(k Key, p *process, s *slot) {
		b.looks++
		if e := b.check(k, p, s, now); e != nil {
			out.Moves = append(out.Moves, Move{k, e})
		}
	}
	if all {
		for guid, p := range b.procs {
			for i, s := range p.rows {
				look(Key{guid, i}, p, s)
				delete(b.dirtyKeys, Key{guid, i})
			}
		}
	}
	for k := range b.dirtyKeys {
		if p := b.procs[k.Process]; p != nil {
			look(k, p, p.rows[k.Index])
		}
	}
	b.dirtyKeys = emptied(b.dirtyKeys)
	slices.SortFunc(out.Moves, func(x, y Move) int { return x.Key.Compare(y.Key) })
	slices.SortFunc(out.Services, func(x, y *Service) int { return x.Key.Compare(y.Key) })
	slices.SortFunc(out.Gone, ServiceKey.Compare)
	return out
}

// popDue marks the due rows.
func (b *Board) popDue(now time.Time) {
	b.due.Thin(b.indices+len(b.services), func(item dueItem, at time.Time) bool {
		if item.key.Process == "" {
			return b.svcDue[item.service].Equal(at)
		}
		s := b.slot(item.key)
		return s != nil && s.due.Equal(at)
	})
	for {
		item, at, ok := b.due.Take(now)
		if !ok {
			return
		}
		if item.key.Process == "" {
			b.dirtySvcs[item.service] = struct{}{}
			if b.svcDue[item.service].Equal(at) {
				delete(b.svcDue, item.service)
			}
		} else if s := b.slot(item.key); s != nil && s.due.Equal(at) {
			s.due = time.Time{}
			b.dirtyKeys[item.key] = struct{}{}
		}
	}
}

// emptied returns an empty map: the old one, or a new one if that has grown so large that clearing
// it would cost more than the present changes.
func emptied[K comparable](m map[K]struct{}) map[K]struct{} {
	if len(m) > 64 {
		return map[K]struct{}{}
	}
	clear(m)
	return m
}

// NextDue returns the earliest moment at which a pass may find something although
// nothing changed; false when there is none.
func (b *Board) NextDue() (time.Time, bool) { return b.due.Next() }

func (b *Board) slot(k Key) *slot {
	if p := b.procs[k.Process]; p != nil {
		return p.rows[k.Index]
	}
	return nil
}

// missing marks the wanted indices of a service that have no row: it compares sets of indices,
// not counts. Those that have rows are marked when these or the ranges change.
func (b *Board) missing(s *Service) {
	for i := range s.Versions {
		v := &s.Versions[i]
		p := b.procs.of(v)
		p.healthy = front{}
		for n := v.Low; v.Wants(n); n++ {
			if p.rows[n] == nil {
				b.dirtyKeys[Key{v.Process, n}] = struct{}{}
			}
		}
	}
}

// check returns the event that an index needs now, or nil, and plans its next look.
func (b *Board) check(k Key, p *process, s *slot, now time.Time) Event {
	if len(b.badKeys)+len(b.badSvcs) > 0 && b.Quarantined(k) {
		return nil
	}
	wanted := p.version != nil && p.version.Wants(k.Index)
	if s == nil {
		if wanted {
			return Create{}
		}
		return nil
	}
	x := s.index
	if e := b.reap(x); e != nil {
		return e
	}
	if e := x.Evacuating; e != nil {
		switch over := !now.Before(e.Expires); {
		case over && !x.arriving():
			return ExpireEvacuating{}
		case !over:
			b.plan(s, e.Expires)
		}
	}
	if x.Ordinary == nil && wanted {
		return Create{}
	}
	if !wanted && unwantedEvent(x) && b.Fresh(p.service.Domain, now) {
		return Undesire{}
	}
	return b.checkState(s, p, wanted, now)
}

// unwantedEvent reports whether an unwanted index has something left to stop or
// delete. Evacuating rows are the business of their cells.
func unwantedEvent(x Index) bool {
	o := x.Ordinary
	return x.Suspect != nil || o != nil && !o.Retiring
}

// reap is the first duty: rows on cell processes that are certainly dead.
func (b *Board) reap(x Index) Event {
	for _, a := range [...]*Actual{x.Ordinary, x.Evacuating, x.Suspect} {
		if a == nil {
			continue
		}
		for _, proc := range [...]string{a.Proc, a.Replaces.Proc} {
			if proc != "" && b.dead.Has(proc) {
				return ProcDead{Proc: proc}
			}
		}
	}
	return nil
}

// checkState is the fourth and fifth duty: crashed instances whose wait is over, and requests
// without effect.
func (b *Board) checkState(s *slot, p *process, wanted bool, now time.Time) Event {
	a := s.index.Ordinary
	switch {
	case a == nil:
		return nil
	case a.State == Crashed && wanted:
		at, ever := p.version.Restart.RestartAt(a)
		if !ever {
			return nil
		}
		if !now.Before(at) {
			return RestartCrashed{}
		}
		b.plan(s, at)
	case a.State == Unclaimed && wanted, a.Retiring:
		again, at := s.ask(now, b.policy.resend())
		b.plan(s, at)
		if again {
			return Resend{}
		}
	}
	return nil
}

// ask reports whether the request for a placement or a stop must be repeated: the last one had no
// effect, or the wait for the copy beside an UNCLAIMED row is over. at is the time of the next
// request.
func (s *slot) ask(now time.Time, resend time.Duration) (again bool, at time.Time) {
	a := s.index.Ordinary
	at = a.NotBefore
	if !s.asked.Before(at) {
		if s.asked.IsZero() {
			s.asked = a.Since
			if a.Retiring || a.Since.After(now) {
				s.asked = now // just requested by the event that caused it
			}
		}
		at = s.asked.Add(resend)
	}
	if now.Before(at) {
		return false, at
	}
	s.asked = now
	return true, now.Add(resend)
}

// plan has the slot looked at again at the given moment, or earlier.
func (b *Board) plan(s *slot, at time.Time) {
	if !s.due.IsZero() && !at.Before(s.due) {
		return
	}
	s.due = at
	b.due.Plan(at, dueItem{key: s.index.Key})
}

// Surplus returns an Undesire for every index of a service that has rows and is not wanted: apply,
// scale, rm and rollouts stop these at once, also if the domain is not fresh. A service that was
// removed from the board has none.
func (b *Board) Surplus(k ServiceKey) []Move {
	s := b.services[k]
	if s == nil {
		return nil
	}
	var out []Move
	for i := range s.Versions {
		v := &s.Versions[i]
		for n := range b.procs.of(v).surplus {
			if key := (Key{v.Process, n}); !b.Quarantined(key) {
				out = append(out, Move{key, Undesire{}})
			}
		}
	}
	slices.SortFunc(out, func(x, y Move) int { return x.Key.Compare(y.Key) })
	return out
}

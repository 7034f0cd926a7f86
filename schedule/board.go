package schedule

import (
	"slices"
	"time"

	"cantina/cron"
)

// Board holds all schedules and knows which fall due. Its methods are deterministic
// and change nothing when they fail.
type Board struct {
	byKey map[Key]*slot
	slots []*slot // by number
	free  []int   // numbers
	queue Queue
	// waiting are those with something undecided, or with runs to be watched.
	waiting map[int]struct{}
	recent  *slot // the last result: most look-ups are repeated several times
}

// slot is one schedule with its calendar as it was read.
type slot struct {
	row    Row
	cron   cron.Schedule
	broken error // its calendar cannot be used
	n      int
	offset time.Duration
	// unsaved: its state was changed by Stepped, and no row has it yet.
	unsaved bool
}

// NewBoard returns an empty board.
func NewBoard() *Board { return &Board{byKey: map[Key]*slot{}, waiting: map[int]struct{}{}} }

// find returns the slot of a schedule, or nil.
func (b *Board) find(k Key) *slot {
	if s := b.recent; s != nil && s.row.Key == k {
		return s
	}
	if s := b.byKey[k]; s != nil {
		b.recent = s
		return s
	}
	return nil
}

// Len is how many schedules there are.
func (b *Board) Len() int { return len(b.byKey) }

// Get returns the row of a schedule; false when there is none.
func (b *Board) Get(k Key) (Row, bool) {
	if s := b.find(k); s != nil {
		return s.row, true
	}
	return Row{}, false
}

// Cron returns the calendar of a schedule as it was read, or why it cannot be used;
// ErrNotFound without one.
func (b *Board) Cron(k Key) (cron.Schedule, error) {
	s := b.find(k)
	if s == nil {
		return cron.Schedule{}, ErrNotFound
	}
	return s.cron, s.broken
}

// Keys returns all keys in order.
func (b *Board) Keys() []Key {
	out := make([]Key, 0, len(b.byKey))
	for k := range b.byKey {
		out = append(out, k)
	}
	slices.SortFunc(out, Key.Compare)
	return out
}

// Put stores a schedule with its calendar as it was read; broken is why it could not
// be: then it never fires.
func (b *Board) Put(row Row, c cron.Schedule, broken error) {
	s := b.byKey[row.Key]
	if s == nil {
		s = &slot{n: len(b.slots)}
		if k := len(b.free); k > 0 {
			s.n = b.free[k-1]
			b.free = b.free[:k-1]
			b.slots[s.n] = s
		} else {
			b.slots = append(b.slots, s)
		}
		b.byKey[row.Key] = s
	}
	s.row, s.cron, s.broken, s.offset = row, c, broken, Offset(row.Key, row.Definition.Jitter)
	b.plan(s)
}

// Update stores the next state of a schedule.
func (b *Board) Update(k Key, st State) {
	if s := b.find(k); s != nil {
		s.row.State, s.unsaved = st, false
		b.plan(s)
	}
}

// Stepped reports that the wall clock was set: schedules that count elapsed time continue by their
// own clock, and are due at now, so that their state becomes durable.
func (b *Board) Stepped(by time.Duration, now time.Time) {
	for _, s := range b.slots { // in order: schedules due at one time give the same result
		if s != nil && s.row.Definition.Elapsed() && s.broken == nil {
			s.row.State.Skew -= by
			s.unsaved = true
			b.queue.Set(s.n, now.UnixNano())
		}
	}
}

// Unsaved reports whether the state of a schedule has changed since Update without a step.
func (b *Board) Unsaved(k Key) bool {
	s := b.find(k)
	return s != nil && s.unsaved
}

// Delete forgets a schedule.
func (b *Board) Delete(k Key) {
	s := b.find(k)
	if s == nil {
		return
	}
	b.recent = nil
	delete(b.byKey, k)
	delete(b.waiting, s.n)
	b.queue.Remove(s.n)
	b.slots[s.n] = nil
	b.free = append(b.free, s.n)
}

// plan enters when the schedule is to be looked at.
func (b *Board) plan(s *slot) {
	if len(s.row.State.Pending) > 0 {
		b.waiting[s.n] = struct{}{}
	} else if len(b.waiting) > 0 {
		delete(b.waiting, s.n)
	}
	if at, ok := s.look(); ok {
		b.queue.Set(s.n, at.UnixNano())
		return
	}
	b.queue.Remove(s.n)
}

// next is when its next logical time falls due.
func (s *slot) next() (time.Time, bool) {
	if s.broken != nil || s.row.State.Paused {
		return time.Time{}, false
	}
	at, _ := s.cron.Next(s.row.State.Cursor) // zero beside an error
	for c := s.row.State.done(at); c != nil; c = s.row.State.done(at) {
		at, _ = s.cron.Next(c.Until)
	}
	if at.IsZero() {
		return time.Time{}, false
	}
	return at.Add(s.offset - s.row.State.Skew), true
}

// look returns when the schedule must be examined next: its next logical time, or an earlier one that the
// policies of its calendar leave out.
func (s *slot) look() (time.Time, bool) {
	at, ok := s.next()
	if !ok {
		return at, false
	}
	if upto := at.Add(-s.offset); borders(s.cron, s.row.State.Cursor, upto) {
		if o, ok := s.cron.NextSkip(s.row.State.Cursor, upto); ok {
			at = o.At.Add(s.offset)
		}
	}
	return at, true
}

// Next returns when a schedule fires next by time, after its cursor; false when it
// does not.
func (b *Board) Next(k Key) (time.Time, bool) {
	s := b.find(k)
	if s == nil {
		return time.Time{}, false
	}
	return s.next()
}

// First returns when the first schedule falls due; false when none does.
func (b *Board) First() (time.Time, bool) {
	_, at, ok := b.queue.First()
	return time.Unix(0, at), ok
}

// Due removes a schedule that is due at now from the queue and returns its key; ok is false if
// none is. The caller puts it back with Put, Update or Again.
func (b *Board) Due(now time.Time) (k Key, ok bool) {
	n, at, ok := b.queue.First()
	if !ok || at > now.UnixNano() {
		return Key{}, false
	}
	b.queue.Remove(n)
	b.recent = b.slots[n]
	return b.recent.row.Key, true
}

// Again puts a schedule back into the queue, to be looked at again at the given
// moment.
func (b *Board) Again(k Key, at time.Time) {
	if s := b.find(k); s != nil {
		b.queue.Set(s.n, at.UnixNano())
	}
}

// Undecided is how many schedules have something undecided.
func (b *Board) Undecided() int { return len(b.waiting) }

// Waiting returns the keys of the schedules with something undecided, in order.
func (b *Board) Waiting() []Key {
	out := make([]Key, 0, len(b.waiting))
	for n := range b.waiting {
		out = append(out, b.slots[n].row.Key)
	}
	slices.SortFunc(out, Key.Compare)
	return out
}

// Step gives an event to a schedule and returns its next state and the moves; the
// board keeps the old state until Update. Errors are those of Step, ErrNotFound, and
// why its calendar cannot be used.
func (b *Board) Step(k Key, e Event, env Env) (State, []Move, error) {
	s := b.find(k)
	switch {
	case s == nil:
		return State{}, nil, ErrNotFound
	case s.broken != nil:
		return s.row.State, nil, s.broken
	}
	env.Key, env.Cron, env.Definition = k, s.cron, s.row.Definition
	return Step(s.row.State, e, env)
}

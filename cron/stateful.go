package cron

import (
	"fmt"
	"iter"
	"time"
)

// Clocks are the two clocks of stateful cron and, optionally, its zone, as
// callbacks (Bistro cron notes, "Basic requirements for stateful cron").
type Clocks struct {
	// System is the wall clock.
	System func() time.Time
	// Monotonic never steps. It should continue to count while the machine is suspended; otherwise a
	// suspension looks like a step of the wall clock, and is treated in the same way.
	Monotonic func() time.Duration
	// Zone gives the current zone of the machine; nil if the zone changes only
	// by SetZone.
	Zone func() *time.Location
}

// StatefulOptions configure a Stateful.
type StatefulOptions struct {
	// Zone to begin with, when Clocks.Zone is nil.
	Zone *time.Location
	// MaxShift replaces the item's setting when positive.
	MaxShift time.Duration
	// Tick is how often Poll is going to be called: an event that is later than
	// that is labelled LabelSkipped. Zero means a minute.
	Tick time.Duration
	// Resume continues from the State of an earlier process.
	Resume *State
}

// State is the whole memory of a Stateful, to be stored across restarts. Times are Unix seconds;
// each is stored with its local label at that time.
type State struct {
	Seen     Reached `json:"seen"`     // everything up to here has been decided
	High     Reached `json:"high"`     // firing continues after this one
	Furthest Reached `json:"furthest"` // the furthest ever reached
	Offset   int64   `json:"offset"`   // of the zone at Seen, east of UTC
}

// Reached is an instant and the last label that was decided when it came.
type Reached struct {
	At    int64 `json:"at"`
	Label int64 `json:"label"`
}

// Label is the relation of an event to the disruptions.
type Label uint8

// The labels of events (Bistro cron notes, "A design modification").
const (
	LabelDue          Label = iota // on time, within one tick
	LabelSkipped                   // time passed it before it could fire
	LabelAlreadyFired              // time went back; it has had its chance before
)

// String gives "due", "skipped" or "already fired".
func (l Label) String() string { return [...]string{"due", "skipped", "already fired"}[l] }

// Event is one event of stateful cron.
type Event struct {
	At    time.Time // when it was to fire
	Label Label
	// Shift is how far it missed its time: for a skipped event the time that
	// has passed since, for one already fired how far time went back.
	Shift time.Duration
	// Fire is the decision of the item's policy: true for events that are due, for skipped ones with
	// a shift of at most max_shift_seconds_for_unskip_and_do_not_repeat, and for those already fired
	// with a longer shift.
	Fire bool
}

// Finding is the result of one Poll about the clocks.
type Finding struct {
	System    time.Time     // the wall clock
	Elapsed   time.Duration // elapsed time since the last Poll, by the monotonic clock
	Step      time.Duration // by how much the wall clock was moved against it
	ZoneShift time.Duration // by how much local time was moved by a change of the zone
	Net       time.Duration // how far the item's time moved: the sum of the three
	TooOld    int64         // events that were missed by more than the maximum shift; they do not fire
	Forgot    bool          // time went back by more than the maximum shift: events fire again
}

// Stateful returns the events of an item as time passes, through steps of the system clock,
// changes of the zone, suspension and restarts (Bistro cron notes, "Stateful cron design"). It is
// pure: call Poll regularly (each minute, or each second for items that fire so often), then range
// over Due or Events. It is not safe for concurrent use; cron/runner is.
//
// Only the net movement of the item's time counts, where Bistro's notes treat the causes
// separately: an hour of suspension during which the clock is set back an hour changes nothing.
// Forward, events up to the maximum shift old are fired, older ones dropped. Backward, no event
// fires until time has returned to its earlier value; but if that is further away than the maximum
// shift, the past is discarded and events fire again. The furthest point is remembered over
// several small steps, so the result does not depend on how often Poll is called. A change of zone
// keeps local time: decided up to 14:00 in the old zone is decided up to 14:00 in the new one. In
// a repeated hour the item's fold policy determines which of its labels are decided.
type Stateful struct {
	item     *Item
	clocks   Clocks
	zone     *time.Location
	maxShift int64 // seconds
	tick     int64 // seconds
	state    State

	// Of the last Poll: its clocks, until where events are due, and how far
	// back the marks were when time last went back.
	system            time.Time
	monotonic         time.Duration
	offset            int64
	target            int64
	backHigh, backFar int64
}

// epochShift is the maximum shift of an epoch item that sets none: a minute, or its period if
// longer, so that the newest missed event fires and steps of a few seconds change nothing; a day
// for listed instants, which have no successor to replace them.
func (it *Item) epochShift() int64 {
	if it.epoch.values != nil {
		return daySecs
	}
	return max(60, it.epoch.period)
}

// NewStateful begins at the present moment, or where the resumed state ends.
// The setting max_shift_seconds_for_unskip_and_do_not_repeat is mandatory, in
// the item or the options, unless the item counts epoch seconds.
func NewStateful(item *Item, clocks Clocks, o StatefulOptions) (*Stateful, error) {
	s := &Stateful{item: item, clocks: clocks, zone: o.Zone, maxShift: item.maxShift, tick: int64(o.Tick / time.Second)}
	switch {
	case o.MaxShift > 0:
		s.maxShift = int64(o.MaxShift / time.Second)
	case item.hasMaxShift:
	case item.TimezoneDependent():
		return nil,
			syntax(keyMaxShift,
				"missing").hint("say up to how many seconds of delay an event still fires, and within how many seconds it must " +
				"not fire twice")
	default:
		s.maxShift = item.epochShift()
	}
	if s.tick == 0 {
		s.tick = 60
	}
	if err := s.readZone(); err != nil {
		return nil, err
	}
	s.system, s.monotonic = clocks.System(), clocks.Monotonic()
	if o.Resume != nil {
		s.state = *o.Resume
		s.system = time.Unix(s.state.Seen.At, 0)
		s.monotonic -= clocks.System().Sub(s.system) // as if the clock had not been touched
		s.backHigh, s.backFar = s.state.High.At-s.state.Seen.At, s.state.Furthest.At-s.state.Seen.At
	} else {
		here := s.mark(s.system.Unix())
		s.state = State{here, here, here, s.offsetAt(here.At)}
	}
	s.offset = s.state.Offset
	s.target = s.state.Seen.At
	return s, nil
}

// TimezoneDependent is false for epoch items, which ignore every zone.
func (s *Stateful) TimezoneDependent() bool { return s.item.TimezoneDependent() }

// State returns the data to store for a restart. It is valid at any time.
func (s *Stateful) State() State {
	out := s.state
	out.Offset = s.offsetAt(out.Seen.At)
	return out
}

// SetZone changes the zone; the next Poll notices. With Clocks.Zone it has no
// effect.
func (s *Stateful) SetZone(loc *time.Location) { s.zone = loc }

func (s *Stateful) readZone() error {
	if s.clocks.Zone != nil {
		s.zone = s.clocks.Zone()
	}
	if s.zone == nil && s.item.TimezoneDependent() {
		return ErrNoZone
	}
	return nil
}

// offsetAt is the offset of the current zone, always 0 for an epoch item.
func (s *Stateful) offsetAt(t int64) int64 {
	if !s.item.TimezoneDependent() {
		return 0
	}
	_, off := time.Unix(t, 0).In(s.zone).Zone()
	return int64(off)
}

func (s *Stateful) mark(t int64) Reached {
	if !s.item.TimezoneDependent() {
		return Reached{t, t}
	}
	return Reached{t, s.item.decided(s.zone, t)}
}

// Poll reads the clocks and the zone, and adds the events that have become due. The error is
// ErrNoZone, or an error of the item's searches.
func (s *Stateful) Poll() (Finding, error) {
	if err := s.readZone(); err != nil {
		return Finding{}, err
	}
	system, monotonic := s.clocks.System(), s.clocks.Monotonic()
	r := Finding{System: system, Elapsed: monotonic - s.monotonic}
	r.Step = system.Sub(s.system) - r.Elapsed
	// The zone may be queried only for now and the past; so the offset that the last instant had then
	// is compared with its present one.
	r.ZoneShift = time.Duration(s.offsetAt(s.system.Unix())-s.offset) * time.Second
	r.Net = r.Elapsed + r.Step + r.ZoneShift
	s.system, s.monotonic, s.target = system, monotonic, system.Unix()
	s.offset = s.offsetAt(s.target)

	st := &s.state
	for _, m := range []*Reached{&st.Seen, &st.High, &st.Furthest} {
		*m = s.translate(*m)
	}
	// Marks in the two passes of a fold may change places in another zone.
	if st.High.At < st.Seen.At {
		st.High = st.Seen
	}
	if st.Furthest.At < st.High.At {
		st.Furthest = st.High
	}
	if s.target < st.Seen.At {
		st.Seen = s.mark(s.target)
		s.backHigh, s.backFar = st.High.At-s.target, st.Furthest.At-s.target
	}
	if st.High.At-s.target > s.maxShift {
		st.High, r.Forgot = st.Seen, true
	}
	if oldest, from := s.target-s.maxShift, max(st.Seen.At, st.High.At)+1; from < oldest {
		r.TooOld = s.item.count(from, oldest, s.zone)
	}
	_, err := s.item.first(s.target, s.zone)
	if err != nil && !isEnd(err) {
		return r, fmt.Errorf("poll: %w", err)
	}
	return r, nil
}

// Next gives the first event that will fire after the time of the last Poll if
// nothing disturbs the clocks: until when the caller may sleep. The error is
// ErrNoMoreMatches when nothing will.
func (s *Stateful) Next() (time.Time, error) {
	return s.item.at(max(s.target, s.state.High.At)+1, s.zone)
}

// MaxShift is the setting in force.
func (s *Stateful) MaxShift() time.Duration { return time.Duration(s.maxShift) * time.Second }

// translate finds the place of a mark after a change of the zone: the instant
// at which clocks show its local time now.
func (s *Stateful) translate(m Reached) Reached {
	if s.mark(m.At) == m {
		return m
	}
	at := Instants(time.Unix(m.Label, 0).UTC(), s.zone)
	switch {
	case len(at) == 0: // in a gap: its border
		for sp := spanAt(s.zone, m.Label-near); ; sp = sp.after(s.zone) {
			if next := sp.after(s.zone); gap(sp, next).has(m.Label) {
				return s.mark(sp.end)
			}
		}
	case s.item.fold == FoldLast:
		m.At = at[len(at)-1].Unix()
	default:
		m.At = at[0].Unix()
	}
	return m
}

// Due yields the events that are to fire, oldest first. An event counts as done
// once it has been yielded; a loop that breaks off leaves the rest for the next
// range or Poll.
func (s *Stateful) Due() iter.Seq[Event] {
	return func(yield func(Event) bool) {
		st := &s.state
		if from := max(st.High.At, s.target-s.maxShift-1); from > st.Seen.At {
			s.advance(min(from, s.target)) // all later ones fire
		}
		s.each(yield)
	}
}

// Events yields every event with its label, also those that the policy does not
// fire. It walks through all that were missed: after a step of a year that may
// be very many, which Due does not do.
func (s *Stateful) Events() iter.Seq[Event] {
	return s.each
}

func (s *Stateful) each(yield func(Event) bool) {
	for s.state.Seen.At < s.target {
		x, err := s.item.first(s.state.Seen.At+1, s.zone)
		if err != nil || x > s.target {
			s.advance(s.target)
			return
		}
		e := s.classify(x)
		s.advance(x)
		if !yield(e) {
			return
		}
	}
}

func (s *Stateful) advance(t int64) {
	st := &s.state
	st.Seen = s.mark(t)
	if t > st.High.At {
		st.High = st.Seen
	}
	if t > st.Furthest.At {
		st.Furthest = st.Seen
	}
}

// classify labels the event at x, before the marks move over it.
func (s *Stateful) classify(x int64) Event {
	loc := s.zone
	if !s.item.TimezoneDependent() {
		loc = time.UTC
	}
	e := Event{At: time.Unix(x, 0).In(loc)}
	late := s.target - x
	switch {
	case x <= s.state.High.At:
		e.Label, e.Shift = LabelAlreadyFired, time.Duration(s.backHigh)*time.Second
		return e
	case x <= s.state.Furthest.At:
		e.Label, e.Shift = LabelAlreadyFired, time.Duration(s.backFar)*time.Second
	case late > s.tick:
		e.Label, e.Shift = LabelSkipped, time.Duration(late)*time.Second
	}
	e.Fire = late <= s.maxShift
	return e
}

package schedule

import (
	"fmt"
	"slices"
	"time"
)

// Cause is why something fires.
type Cause uint8

// The causes.
const (
	ByTime     Cause = iota // its time has come
	ByHand                  // cron run
	ByBackfill              // cron backfill
)

// String prints time, hand or backfill.
func (c Cause) String() string { return [...]string{"time", "hand", "backfill"}[c] }

// Firing is one logical time that fires, or is to be decided.
type Firing struct {
	At time.Time
	By Cause
	// Late: it was missed, or had to wait: it does not count as on time any more.
	Late bool
}

// Run is a run of a firing that may still be running.
type Run struct {
	At time.Time
	ID string
	// Ending: it was ordered to end, to be replaced.
	Ending bool
	// Late: it was started to catch up, after its time.
	Late bool
}

// Why is the reason for which a logical time did not fire.
type Why uint8

// The reasons.
const (
	WhyNone      Why = iota
	WhyBefore        // before the schedule was created, or changed
	WhyMisfire       // missed; a newer logical time was due
	WhyLate          // missed; older than the deadline
	WhyMany          // missed; more than misfire_max newer ones were due
	WhyOverlap       // an earlier run still ran
	WhyReplaced      // a newer logical time came before it was decided
	WhyOvertaken     // overlap replace: a newer run was first
	WhyPaused        // the schedule was paused
	WhyEdited        // the schedule was changed before it was decided
	WhyRepeated      // policy: the other pass of a repeated hour fires
	WhyGap           // policy: its local time does not exist
	WhyFailed        // its start was refused; see Entry.Text
)

// String describes it, as the history shows it.
func (w Why) String() string {
	return [...]string{
		"", "before the schedule was created or changed", "missed: a newer time was due", "missed: older than the deadline",
		"missed: more than misfire_max newer times were due",
		"an earlier run was still running", "a newer time came before it could be decided", "overtaken by a newer run",
		"paused", "the schedule was changed before it could be decided",
		"repeated hour: the other pass fires", "the clock jumps over it", "could not be started",
	}[w]
}

// missed reports whether a person may want to fill it in: cron missed lists it.
func (w Why) missed() bool {
	return w == WhyMisfire || w == WhyLate || w == WhyMany || w == WhyOverlap || w == WhyReplaced || w == WhyOvertaken ||
		w == WhyFailed
}

// Decision is the outcome of a logical time.
type Decision uint8

// The ends.
const (
	Started Decision = iota
	Skipped
	Sent  // a signal, at most once
	Reset // not a firing: a person set the cursor back to the clock
)

// String prints started, skipped or sent.
func (d Decision) String() string { return [...]string{"started", "skipped", "sent", "reset"}[d] }

// fired reports whether something was started or sent.
func (d Decision) fired() bool { return d == Started || d == Sent }

// Entry is one line of a history: one logical time, or several in a row that were
// skipped for the same reason.
type Entry struct {
	Decision Decision
	Why      Why
	By       Cause
	// At is the logical time, Until the last one of Count in a row.
	At, Until time.Time
	Count     int
	// When it was decided.
	When time.Time
	// ID is the started run, or the run that blocked it.
	ID string
	// Text is the refusal, with WhyFailed; how the signal fared, with Sent, and how the run ended, with
	// Started: empty until that is known.
	Text string
}

// Times prints the logical time, or of several in a row the last, since when, and how many
// there are: "2026-03-01T02:00:05Z (6 since 2026-03-01T02:00:00Z)".
func (e *Entry) Times() string {
	at := e.At.UTC().Format(time.RFC3339)
	if e.Count <= 1 || e.Until.IsZero() {
		return at
	}
	return fmt.Sprintf("%s (%d since %s)", e.Until.UTC().Format(time.RFC3339), e.Count, at)
}

// String describes it, without the times.
func (e *Entry) String() string {
	switch {
	case e.Decision == Reset:
		return "reset: " + e.Text
	case e.Decision == Sent:
		text := e.Text
		if text == "" {
			text = "being sent"
		}
		if e.By != ByTime {
			text += ", by " + e.By.String()
		}
		return "signal " + text
	case e.Decision == Started && e.By != ByTime:
		return fmt.Sprintf("started %s, by %s", e.ID, e.By)
	case e.Decision == Started:
		return "started " + e.ID
	case e.Text != "":
		return "skipped: " + e.Why.String() + ": " + e.Text
	case e.ID != "":
		return "skipped: " + e.Why.String() + ": " + e.ID
	}
	return "skipped: " + e.Why.String()
}

// Span is a stretch of time whose logical times did not fire: those after After (zero = since
// ever) and up to Until.
type Span struct {
	After, Until time.Time
	// Count is how many there were; 0 when they were not counted.
	Count int
	Why   Why
}

// Limits of a schedule's records.
const (
	MaxHistory = 20
	MaxSpans   = 40
	maxAhead   = 40
)

// State is all that changes about a schedule but for its definition. Values are never
// changed in place; Step makes new ones.
type State struct {
	// Cursor: every logical time up to it is decided, or is in Pending. It never goes back except at
	// an operator's request (Rewind).
	Cursor time.Time
	// Done are spans after the cursor in which logical times were decided before it went
	// back: they never fire again. In order, apart.
	Done []Span
	// Skew is how far the clock that counts elapsed time is ahead of the wall clock; only
	// of a calendar that does (Calendar.Elapsed).
	Skew   time.Duration
	Paused bool
	// Pending are due and undecided, in the order in which they are decided: requests by people, then
	// firings by time, the oldest first, then backfills.
	Pending []Firing
	// Line is how many of the times that become due may still wait after missed ones, so that
	// catching up ends.
	Backlog int
	// Ahead are logical times after the cursor that were fired by hand.
	Ahead []time.Time
	// Live are runs that may still run.
	Live []Run
	// Open are the spans in which nothing fired, oldest first.
	Open []Span
	// History, newest last.
	History []Entry
	// Fired and Skipped count logical times since the creation.
	Fired, Skipped int
}

// Runs reports whether a run is one of those that may still run.
func (s *State) Runs(id string) bool {
	return slices.ContainsFunc(s.Live, func(r Run) bool { return r.ID == id })
}

// ended records in the history how a run ended.
func (s *State) ended(id, outcome string) {
	for i, h := range slices.Backward(s.History) {
		if h.Decision == Started && h.ID == id {
			if outcome != "" {
				s.History = slices.Clone(s.History)
				s.History[i].Text = outcome
			}
			return
		}
	}
}

// New returns the state of a schedule that is created now: it never fires for the
// past.
func New(now time.Time) State {
	now = now.Truncate(time.Second)
	return State{Cursor: now, Open: []Span{{Until: now, Why: WhyBefore}}}
}

// Missed returns the spans that a person may want to fill in.
func (s *State) Missed() []Span {
	var out []Span
	for _, x := range s.Open {
		if x.Why.missed() {
			out = append(out, x)
		}
	}
	return out
}

// Equal reports whether two states are equal.
func (s *State) Equal(o *State) bool {
	return s.Cursor.Equal(o.Cursor) && s.Paused == o.Paused && s.Backlog == o.Backlog && s.Skew == o.Skew &&
		slices.Equal(s.Done, o.Done) && s.Fired == o.Fired && s.Skipped == o.Skipped && slices.Equal(s.Pending, o.Pending) &&
		slices.Equal(s.Live, o.Live) && slices.Equal(s.Ahead, o.Ahead) && slices.Equal(s.Open, o.Open) &&
		slices.Equal(s.History, o.History)
}

// The phases of a schedule with a valid calendar.
const (
	Paused     = "paused"
	Undecided  = "undecided"
	CatchingUp = "catching up"
	Waiting    = "waiting"
	// Behind: all up to a time after the wall clock's is decided (Lead).
	Behind = "clock behind"
)

// Phase is the phase of a schedule in a word: it waits for its next time, runs missed ones, does
// not know yet whether it may start a run, or is paused.
func (s *State) Phase() string {
	switch {
	case s.Paused:
		return Paused
	case len(s.Pending) == 0:
		return Waiting
	case s.Pending[0].Late && s.catchesUp():
		return CatchingUp
	}
	return Undecided
}

// catchesUp reports whether all that may still run was started late.
func (s *State) catchesUp() bool {
	return len(s.Live) > 0 && !slices.ContainsFunc(s.Live, func(r Run) bool { return !r.Late })
}

// WhyWaits is why a pending firing has not started; empty if it is unknown whether an earlier run
// still runs.
func (s *State) WhyWaits(f Firing) string {
	switch {
	case f.By == ByBackfill:
		return "a backfill runs one after the other"
	case len(s.Live) > 0 && s.Live[0].Ending:
		return "it replaces " + s.Live[0].ID + ", which is being ended"
	case f.Late && s.catchesUp():
		return "missed times run in order, and " + s.Live[0].ID + " still runs"
	}
	return ""
}

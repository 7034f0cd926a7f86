package schedule

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"cantina/batch"
	"cantina/cron"
	"cantina/fault"
	"cantina/lrp"
	"cantina/task"
)

// Errors of this package.
var (
	// ErrInvalid: a definition, or a request, that cannot be.
	ErrInvalid = fault.New(fault.ErrInvalid, "invalid schedule")
	// ErrNotFound: there is no schedule of that name.
	ErrNotFound = fault.New(fault.ErrNotFound, "no such schedule")
	// ErrOverlap: an earlier run may still run, and the schedule forbids a second.
	ErrOverlap = fault.New(fault.ErrConflict, "an earlier run may still be running")
	// ErrFired: the logical time is already decided, or is older than the records.
	ErrFired = fault.New(fault.ErrConflict, "this logical time was decided already")
	// ErrNoTime: the schedule does not fire at the requested time.
	ErrNoTime = fault.New(fault.ErrInvalid, "the schedule does not fire at this time")
)

// Key names a schedule.
type Key struct{ Domain, Name string }

// String prints "domain/name".
func (k Key) String() string { return k.Domain + "/" + k.Name }

// Compare orders by domain, then name.
func (k Key) Compare(o Key) int {
	return cmp.Or(cmp.Compare(k.Domain, o.Domain), cmp.Compare(k.Name, o.Name))
}

// Overlap is the action of a firing while an earlier run may still run.
type Overlap int

// The choices.
const (
	OverlapForbid  Overlap = iota // default: it is skipped
	OverlapAllow                  // it starts, while fewer than Policy.Max run
	OverlapReplace                // the earlier run is ended first
)

// String prints forbid, allow or replace.
func (o Overlap) String() string { return [...]string{"forbid", "allow", "replace"}[o] }

// Misfire is the handling of logical times that passed without a decision: no leader, a suspended
// machine.
type Misfire int

// The choices.
const (
	MisfireOnce Misfire = iota // default: the newest runs, the others are passed over
	MisfireSkip                // times older than the deadline are skipped
	MisfireAll                 // all run, at most Policy.MisfireMax of them
)

// String prints once, skip or all.
func (m Misfire) String() string { return [...]string{"once", "skip", "all"}[m] }

// Calendar is when a schedule fires. Exactly one of Line and JSON is set.
type Calendar struct {
	// Line is a crontab line; JSON an object with the keys of the Bistro cron notes.
	Line, JSON string
	// Zone is an IANA name or a POSIX string; may be empty only for a calendar that does not depend
	// on a zone.
	Zone string
	// Gap and Fold are chosen for a line that depends on a zone; JSON has its own.
	Gap  cron.Gap
	Fold cron.Fold
}

// Policy is the handling of the firings of a schedule.
type Policy struct {
	Overlap Overlap
	// Max is how many runs there may be with OverlapAllow.
	Max     int
	Misfire Misfire
	// MisfireMax is how many missed times run at most with MisfireAll; 0 = 100.
	MisfireMax int
	// Deadline is how old a logical time may be to run at all; 0 = no bound, but one
	// minute with MisfireSkip.
	Deadline time.Duration
	// Jitter delays every firing by the same part of it, derived from the name.
	Jitter time.Duration
}

// defaultSkip is the deadline of MisfireSkip: longer than any sleep of the shell.
const defaultSkip = time.Minute

// defaultMissed is the bound of MisfireAll.
const defaultMissed = 100

func (p *Policy) deadline() time.Duration {
	if p.Deadline == 0 && p.Misfire == MisfireSkip {
		return defaultSkip
	}
	return p.Deadline
}

func (p *Policy) missedMax() int {
	if p.MisfireMax == 0 {
		return defaultMissed
	}
	return p.MisfireMax
}

// Job is a job that a schedule runs again at each firing.
type Job struct {
	Job    batch.Job
	Forest batch.ForestSpec
}

// Definition is a schedule as its owner wants it. Exactly one of Task, Job and Signal
// is set. A value is never changed once stored.
type Definition struct {
	Calendar
	Policy
	Task   *task.Definition
	Job    *Job
	Signal *Signal
}

// Starts is the kind of work of a firing, in one word: task, job or signal.
func (d *Definition) Starts() string {
	switch {
	case d.Job != nil:
		return "job"
	case d.Signal != nil:
		return "signal"
	}
	return "task"
}

// Labels returns the labels of the task or job that it starts; nil for a signal.
func (d *Definition) Labels() map[string]string {
	switch {
	case d.Job != nil:
		return d.Job.Job.Workload.Labels
	case d.Task != nil:
		return d.Task.Workload.Labels
	}
	return nil
}

// Guarded reports whether its work cannot run twice even without the decisions here: a job runs
// once per node, and a signal has no run.
func (d *Definition) Guarded() bool { return d.Task == nil }

// MaxBackfill is the maximum number of logical times of one backfill.
const MaxBackfill = 1000

// Validate returns all that is wrong with the definition but for its calendar, which
// Calendar.Item reads.
func (d *Definition) Validate() error {
	var errs []error
	fail := func(ok bool, text string) {
		if !ok {
			errs = append(errs, fmt.Errorf("%s: %w", text, ErrInvalid))
		}
	}
	kinds := 0
	for _, set := range []bool{d.Task != nil, d.Job != nil, d.Signal != nil} {
		if set {
			kinds++
		}
	}
	fail(kinds == 1, "exactly one of task, job and signal is needed")
	fail((d.Line == "") != (d.JSON == ""), "exactly one of a crontab line and an object is needed")
	fail(d.Overlap != OverlapAllow || d.Max > 0, "overlap allow needs overlap_max")
	fail(d.Overlap == OverlapAllow || d.Max == 0, "overlap_max belongs to overlap allow")
	fail(d.Job == nil || d.Overlap != OverlapAllow,
		"two rounds of one job cannot run at once, since it runs at most once on each node: overlap is forbid or replace, "+
			"or start a task")
	fail(d.Misfire == MisfireAll || d.MisfireMax == 0, "misfire_max belongs to misfire all")
	fail(d.Max <= 1000 && d.MisfireMax >= 0 && d.MisfireMax <= 1000, "overlap_max and misfire_max are at most 1000")
	fail(d.Deadline >= 0 && d.Jitter >= 0, "durations must not be negative")
	if s := d.Signal; s != nil {
		fail(lrp.ValidName(s.Service), "signal needs the name of a service")
		fail(s.Number >= 1 && s.Number <= 64, "signal needs a signal from 1 to 64")
		fail(d.Overlap == OverlapForbid, "overlap belongs to tasks and jobs: of a signal nothing runs on")
		fail(d.Misfire != MisfireAll, "missed signals are sent at most once: use misfire once or skip")
	}
	if d.Task != nil {
		errs = append(errs, d.Task.Validate())
	}
	return errors.Join(errs...)
}

// Item reads the calendar for a schedule that was created at born: "@every" counts
// from there, H spreads by the key. Warnings are remarks on an accepted one. Errors
// are those of package cron.
func (c *Calendar) Item(k Key, loc *time.Location, born, now time.Time) (*cron.Item, []cron.Warning, error) {
	if c.Line != "" {
		return cron.ParseLine(c.Line, cron.LineOptions{Name: k.String(), Zone: loc, Gap: c.Gap, Fold: c.Fold, Now: now,
			Anchor: born})
	}
	it, err := cron.ParseJSON([]byte(c.JSON))
	if err != nil {
		return nil, nil, err
	}
	if it.TimezoneDependent() && loc == nil {
		return nil, nil, cron.ErrNoZone
	}
	return it, nil, nil
}

// Elapsed reports whether the calendar counts the time that passes, by a clock that is not
// set: "@every 90s".
func (c *Calendar) Elapsed() bool { return strings.HasPrefix(strings.TrimSpace(c.Line), "@every") }

// Shared reports whether the item of the calendar depends on nothing but the calendar:
// schedules of one calendar can share it.
func (c *Calendar) Shared() bool { return !strings.ContainsAny(c.Line, "H@") }

// Row is a schedule.
type Row struct {
	Key
	// UID is minted at creation and makes a re-used name another schedule.
	UID     string
	Created time.Time
	// Edited is when the definition changed last.
	Edited     time.Time
	Definition *Definition
	State      State
}

// Offset is how long after its logical time a schedule fires: the part of its jitter
// that its name chooses, in whole seconds.
func Offset(k Key, jitter time.Duration) time.Duration {
	return time.Duration(hash(k.String())%uint64(jitter/time.Second+1)) * time.Second
}

// hash is FNV-1a with a final mix, so that names that differ at their end spread.
func hash(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	return h ^ h>>33
}

// RunAt returns the logical time in the name of a run; false if it is none of this schedule.
func RunAt(k Key, id string) (at time.Time, ok bool) {
	stamp, ok := strings.CutPrefix(id, k.Domain+"."+k.Name+".")
	if stamp, _, _ = strings.Cut(stamp, "Z"); !ok {
		return time.Time{}, false
	}
	at, _ = time.Parse("20060102T150405", stamp) // and any fraction; zero, of which id is no name, where it is none
	return at, strings.HasPrefix(id, RunID(k, at, 0))
}

// RunID is the name of a firing's run: the guid of its task. Tries beyond the first add a number,
// for a name whose task of an earlier schedule is still kept.
func RunID(k Key, at time.Time, try int) string {
	stamp := at.UTC().Format("20060102T150405Z")
	if ms := at.Nanosecond() / 1e6; ms != 0 {
		stamp = fmt.Sprintf("%s.%03dZ", strings.TrimSuffix(stamp, "Z"), ms)
	}
	id := k.Domain + "." + k.Name + "." + stamp
	if try > 0 {
		id = fmt.Sprintf("%s.%d", id, try+1)
	}
	return id
}

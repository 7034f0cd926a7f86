package timetable

import (
	"fmt"
	"sync"
	"time"

	"cantina/event"
	"cantina/internal/run"
	"cantina/plan"
	"cantina/schedule"
)

// Step is one step of the wall clock against the clock that counts the time since the
// machine started.
type Step struct {
	// At is the time of the wall clock after it.
	At time.Time
	By time.Duration
}

// leastStep is the least difference that counts as a step: corrections by NTP that slew the
// clock stay below it between two looks.
const leastStep = time.Second

// maxSteps is how many steps of a term are remembered.
const maxSteps = 8

// clocks are the two clocks as they were looked at last.
type clocks struct {
	wall time.Time
	boot time.Duration
}

// wallClock watches the wall clock of a term for steps.
type wallClock struct {
	run.Clock

	mu    sync.Mutex
	last  clocks
	steps []Step // in this term, the newest last
}

// readClocks reads both clocks at one moment: a process that is stopped between the two
// readings reads again.
func readClocks(c run.Clock) (out clocks) {
	for range 5 {
		before := c.Boot()
		out.wall, out.boot = c.Wall(), c.Boot()
		if out.boot-before < leastStep/20 {
			break
		}
	}
	return out
}

// step is by how much the wall clock was set between two looks; 0 when it was not.
func (c clocks) step(now clocks) time.Duration {
	d := now.wall.Sub(c.wall) - (now.boot - c.boot)
	if c.wall.IsZero() || d.Abs() < leastStep {
		return 0
	}
	return d.Round(time.Millisecond)
}

// mayStep reports whether the wall clock was set since the last check. It is called each time the
// loop wakes, at least every 30 s.
func (w *wallClock) mayStep() bool {
	now := readClocks(w.Clock)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last.step(now) != 0 {
		return true
	}
	w.last = now
	return false
}

// look reads the clocks, and returns by how much the wall clock was set.
func (w *wallClock) look() (now time.Time, by time.Duration) {
	c := readClocks(w.Clock)
	w.mu.Lock()
	defer w.mu.Unlock()
	if by = w.last.step(c); by != 0 {
		w.steps = append(w.steps, Step{c.wall, by})
		w.steps = w.steps[max(0, len(w.steps)-maxSteps):]
	}
	w.last = c
	return c.wall, by
}

// reportStep makes a step of the wall clock known.
func (t *Timetable) reportStep(by time.Duration) {
	if by == 0 {
		return
	}
	text := "the wall clock of the leader was set " + schedule.SetBy(by)
	t.cfg.Log.Warn("the wall clock was set", "by", by, "schedules", t.Len())
	t.cfg.Hub.Publish(0, event.Event{Kind: event.Note, Subject: "clock", Text: text})
}

// stepText returns when the clock was last set by more than the tolerance; empty if it was not
// within a day.
func (w *wallClock) stepText(now time.Time) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(w.steps)
	if n == 0 || now.Sub(w.steps[n-1].At).Abs() > 24*time.Hour {
		return ""
	}
	s := w.steps[n-1]
	return fmt.Sprintf("the wall clock of the leader was set %s at %s", schedule.SetBy(s.By),
		s.At.UTC().Format(time.RFC3339))
}

// reason is the effect of the clocks on a schedule; its code is empty if there is none.
func (w *wallClock) reason(r *schedule.Row) plan.Reason {
	now := w.Wall()
	step, s := w.stepText(now), &r.State
	since := ""
	if step != "" {
		since = "; " + step
	}
	switch lead := s.Lead(now); {
	case r.Definition.Elapsed() && s.Skew.Abs() >= leastStep:
		return reason("clock", fmt.Sprintf("counts elapsed time and continues: its logical times are %s the wall clock%s",
			apart(s.Skew), since), "")
	case r.Definition.Elapsed() || s.Paused:
	case lead > 0:
		return reason("clock", fmt.Sprintf("the wall clock is %s, but all times up to %s are decided: nothing fires for %v%s",
			now.UTC().Format(time.RFC3339), s.Cursor.Format(time.RFC3339), lead, since),
			"wait; if the clock was wrong before and is right now: cantina cron reset "+r.Name)
	case step != "":
		return reason("clock", step, "")
	}
	return plan.Reason{}
}

// apart prints how far one clock is from another.
func apart(d time.Duration) string {
	if d < 0 {
		return fmt.Sprintf("%v behind", (-d).Round(time.Second))
	}
	return fmt.Sprintf("%v ahead of", d.Round(time.Second))
}

// note is reason in a few words, for lists.
func (w *wallClock) note(r *schedule.Row) string {
	now := w.Wall()
	switch lead := r.State.Lead(now); {
	case r.Definition.Elapsed() && r.State.Skew.Abs() >= leastStep:
		return "its clock is " + apart(r.State.Skew) + " the wall clock"
	case lead > 0 && !r.Definition.Elapsed() && !r.State.Paused:
		return fmt.Sprintf("the wall clock is %v behind the decided times; see cron reset", lead)
	}
	return w.stepText(now)
}

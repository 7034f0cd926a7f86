package schedule_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"cantina/cron"
	"cantina/internal/draw"
	"cantina/internal/history"
	"cantina/schedule"
	"cantina/task"
)

// generator prints the decisions of a board of schedules in a random history.
type generator struct {
	t    *testing.T
	rng  *rand.Rand
	out  strings.Builder
	b    *schedule.Board
	now  time.Time
	keys []schedule.Key
	runs map[string]schedule.Answer
	job  schedule.Answer
	bare bool // no answers: all has ended
}

// TestHistories compares the decisions of schedules of all policies with a stored text.
func TestHistories(t *testing.T) {
	book := history.Open(t, "testdata/histories.txt")
	for n := range 60 {
		w := &generator{t: t, rng: rand.New(rand.NewPCG(uint64(n), 7)), b: schedule.NewBoard(),
			runs: map[string]schedule.Answer{}}
		w.now = draw.One(w.rng, time.Date(2026, 3, 28, 22, 0, 1, 0, time.UTC),
			time.Date(2026, 10, 24, 21, 59, 59, 0, time.UTC), time.Date(2026, 6, 1, 0, 0, 0, 250e6, time.UTC))
		w.job = schedule.Ended
		for i := range 1 + n%3 {
			w.create(fmt.Sprint("s", i))
		}
		for range 80 {
			w.something()
		}
		book.Check(t, fmt.Sprintf("schedules-%02d", n), w.out.String())
	}
	for n := range 60 {
		book.Check(t, fmt.Sprintf("resets-%02d", n), resets(t, n))
	}
	book.Close(t)
}

// resets is a history of schedules whose clock is often wrong: it is set ahead by hours, and decided times are set
// back. Persons request past and future times.
func resets(t *testing.T, n int) string {
	w := &generator{t: t, rng: rand.New(rand.NewPCG(uint64(n), 13)), b: schedule.NewBoard(),
		runs: map[string]schedule.Answer{}, job: schedule.Ended}
	w.now = draw.One(w.rng, time.Date(2026, 3, 28, 23, 30, 0, 0, time.UTC),
		time.Date(2026, 10, 24, 22, 30, 1, 0, time.UTC), time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC))
	k := schedule.Key{Domain: "d", Name: "s"}
	define := func() *schedule.Definition {
		for {
			d := w.definition()
			d.Line, d.Zone = draw.One(w.rng, "*/10 * * * *", "*/20 * * * *", "0 * * * *", "30 1,2,3 * * *", "@every 10m"),
				draw.One(w.rng, "UTC", "Europe/Berlin", "Europe/Berlin")
			if w.rng.IntN(8) == 0 { // some times, and no more after the last
				d.Line, d.JSON = "", fmt.Sprintf(`{"epoch":%d}`, w.now.Add(draw.One(w.rng, time.Minute, time.Hour)).Unix())
			}
			if d.Validate() == nil {
				return d
			}
		}
	}
	w.keys = []schedule.Key{k}
	w.put(schedule.Row{Key: k, Created: w.now, Definition: define(), State: schedule.New(w.now)})
	for range 70 {
		row, _ := w.b.Get(k)
		switch w.rng.IntN(16) {
		case 0, 1:
			w.now = w.now.Add(draw.One(w.rng, time.Hour, 3*time.Hour, 90*time.Minute, 10*time.Minute))
		case 2:
			w.now = w.now.Add(-draw.One(w.rng, time.Hour, 2*time.Hour, 20*time.Minute, time.Second))
		case 3, 4:
			w.step(k, schedule.Rewind{})
		case 5, 6:
			w.step(k, schedule.Fire{At: w.logical(row)})
		case 7:
			w.step(k, schedule.Fire{})
		case 8:
			w.step(k, schedule.Backfill{From: w.now.Add(-draw.One(w.rng, time.Hour, 24*time.Hour)),
				To: w.now.Add(draw.One(w.rng, 0, time.Hour)), Max: draw.One(w.rng, 1, 2, 5, 1000)})
		case 9:
			w.step(k, draw.One[schedule.Event](w.rng, schedule.Pause{}, schedule.Resume{}, schedule.Resume{}))
		case 10:
			if w.rng.IntN(4) == 0 {
				row.Definition, row.Edited = define(), w.now
				w.put(row)
				w.step(k, schedule.Edit{})
			}
		case 11:
			w.job = draw.One(w.rng, schedule.Ended, schedule.Running, schedule.Unknown)
			w.bare = w.rng.IntN(8) == 0
		case 12:
			if at, ok := w.b.Next(k); ok && at.After(w.now) {
				w.now = at.Add(draw.One(w.rng, -1, 0, 0, 0, 2*time.Second, 3*time.Second))
			}
		default:
			for _, r := range row.State.Live {
				w.runs[r.ID] = draw.One(w.rng, schedule.Ended, schedule.Running, schedule.Unknown)
			}
		}
		w.due()
	}
	return w.out.String()
}

func (w *generator) printf(format string, args ...any) { fmt.Fprintf(&w.out, format+"\n", args...) }

// definition draws one of those that are valid.
func (w *generator) definition() *schedule.Definition {
	for {
		d := &schedule.Definition{
			Calendar: schedule.Calendar{
				Line: draw.One(w.rng, "*/7 * * * *", "* * * * *", "30 2 * * *", "0,30 * * * *", "*/20 30 * * * *", "15 1-4 * * *",
					"@every 90s", "@every 7m", "H/10 * * * *"),
				Zone: draw.One(w.rng, "UTC", "Europe/Berlin", "America/New_York"), Gap: draw.One(w.rng, cron.GapRun, cron.GapSkip),
				Fold: draw.One(w.rng, cron.FoldFirst, cron.FoldLast, cron.FoldBoth),
			},
			Policy: schedule.Policy{
				Overlap: draw.One(w.rng, schedule.OverlapForbid, schedule.OverlapForbid, schedule.OverlapAllow,
					schedule.OverlapReplace), Max: draw.One(w.rng, 0, 1, 2, 3),
				Misfire:    draw.One(w.rng, schedule.MisfireOnce, schedule.MisfireSkip, schedule.MisfireAll, schedule.MisfireAll),
				MisfireMax: draw.One(w.rng, 0, 0, 1, 3),
				Deadline:   draw.One(w.rng, 0, 0, 10*time.Minute, 2*time.Hour),
				Jitter:     draw.One(w.rng, 0, 0, 500*time.Millisecond, 90*time.Second),
			},
		}
		switch w.rng.IntN(5) {
		case 0:
			d.Job = &schedule.Job{}
		case 1:
			d.Signal = &schedule.Signal{Service: "web", Number: 1}
		default:
			d.Task = &task.Definition{}
		}
		if d.Validate() == nil {
			return d
		}
	}
}

func (w *generator) create(name string) {
	k, d := schedule.Key{Domain: "d", Name: name}, w.definition()
	w.keys = append(w.keys, k)
	w.put(schedule.Row{Key: k, Created: w.now, Definition: d, State: schedule.New(w.now)})
}

func (w *generator) put(row schedule.Row) {
	loc, err := time.LoadLocation(row.Definition.Zone)
	if err != nil {
		w.t.Fatal(err)
	}
	it, warnings, err := row.Definition.Item(row.Key, loc, row.Created, w.now)
	if err != nil {
		w.t.Fatal(err)
	}
	d := row.Definition
	w.printf("%s is %+v %+v, starts %s, guarded %v, elapsed %v, shared %v, %d warnings, offset %v",
		row.Key, d.Calendar, d.Policy, d.Starts(), d.Guarded(), d.Elapsed(), d.Shared(), len(warnings),
		schedule.Offset(row.Key, d.Jitter))
	w.b.Put(row, cron.Schedule{Item: it, Zone: loc}, nil)
}

// something happens.
func (w *generator) something() {
	k := draw.One(w.rng, w.keys...)
	row, ok := w.b.Get(k)
	if !ok {
		w.create(k.Name)
		w.keys = w.keys[:len(w.keys)-1]
		return
	}
	at, comes := w.b.Next(k)
	switch w.rng.IntN(40) {
	case 0, 1, 2, 3, 4, 5, 6, 7: // to a bound
		if comes {
			w.now = at.Add(draw.One(w.rng, 0, 0, 0, -1, time.Second, 2*time.Second, 3*time.Second, time.Minute, time.Minute+1,
				10*time.Minute, 10*time.Minute+time.Second))
		}
	case 8, 9, 10, 11, 12:
		w.now = w.now.Add(draw.One(w.rng, time.Second, 29*time.Second, time.Minute, 7*time.Minute, time.Hour, 5*time.Hour,
			26*time.Hour))
	case 13:
		by := -draw.One(w.rng, time.Second, 2*time.Second, 3*time.Second, 10*time.Minute, 3*time.Hour)
		w.now = w.now.Add(by)
		w.b.Stepped(by, w.now)
		w.printf("the clock was set %s", schedule.SetBy(by))
	case 14:
		w.step(k, draw.One[schedule.Event](w.rng, schedule.Pause{}, schedule.Resume{}))
	case 15, 16, 17:
		w.step(k, schedule.Resume{})
	case 18, 19:
		w.step(k, schedule.Fire{})
	case 20, 21, 22, 23:
		w.step(k, schedule.Fire{At: w.logical(row)})
	case 24, 25:
		to := w.now.Add(draw.One(w.rng, 0, 0, -time.Hour))
		w.step(k, schedule.Backfill{From: w.now.Add(-draw.One(w.rng, 0, time.Hour, 24*time.Hour, 24*time.Hour)), To: to,
			Max: draw.One(w.rng, 0, 1, 2, 3, 5, 1000, 1001)})
	case 26:
		w.step(k, schedule.Rewind{})
	case 27:
		w.edit(row)
	case 28:
		w.step(k, schedule.Delivered{At: w.logical(row),
			Delivery: schedule.Delivery{Of: 3, Reached: 1, Missed: []string{"b", "a"}}})
	case 29:
		w.b.Update(k, schedule.Forgotten(schedule.ResumeClock(row.State, row.Definition, w.now)))
	case 30:
		if w.rng.IntN(4) == 0 {
			w.b.Delete(k)
			w.b.Delete(k)
			w.printf("deleted %s, %d left", k, w.b.Len())
		}
	case 31:
		w.job = draw.One(w.rng, schedule.Ended, schedule.Running, schedule.Unknown)
	case 32:
		w.bare = w.rng.IntN(6) == 0
	default:
		for _, r := range row.State.Live {
			w.runs[r.ID] = draw.One(w.rng, schedule.Ended, schedule.Ended, schedule.Running, schedule.Unknown)
		}
	}
	w.due()
}

// logical is a time of the schedule, mostly: one that is known, or near now.
func (w *generator) logical(row schedule.Row) time.Time {
	s := row.State
	var known []time.Time
	for _, e := range s.History {
		known = append(known, e.At)
	}
	for _, f := range s.Pending {
		known = append(known, f.At)
	}
	for _, x := range s.Open {
		known = append(known, x.Until, x.After.Add(time.Second))
	}
	c, err := w.b.Cron(row.Key)
	if err != nil {
		w.t.Fatal(err)
	}
	near, err := c.Next(w.now.Add(draw.One(w.rng, -24*time.Hour, -time.Hour, -10*time.Minute, -1, 0, time.Hour)))
	if err != nil {
		w.t.Fatal(err)
	}
	return draw.One(w.rng, append(known, near, near, near, near)...)
}

func (w *generator) edit(row schedule.Row) {
	row.Definition, row.Edited = w.definition(), w.now
	w.put(row)
	w.step(row.Key, schedule.Edit{})
}

func (w *generator) env(k schedule.Key) schedule.Env {
	env := schedule.Env{Now: w.now, Free: func(id string) bool {
		return !strings.HasSuffix(id, "00Z") ||
			len(w.runs)%5 > 0
	}}
	if !w.bare {
		env.Runs = func(r schedule.Run) schedule.Answer {
			if a, ok := w.runs[r.ID]; ok {
				return a
			}
			return schedule.Running
		}
		if row, ok := w.b.Get(k); ok && row.Definition.Job != nil {
			env.Other = func(string) (schedule.Answer, string, int) { return w.job, "job/" + k.Name, 1 }
		}
	}
	return env
}

func (w *generator) step(k schedule.Key, e schedule.Event) {
	s, moves, err := w.b.Step(k, e, w.env(k))
	if err != nil {
		w.printf("%s %+v: %v", k, e, err)
		return
	}
	for _, m := range moves {
		if x, ok := m.(schedule.Start); ok && w.rng.IntN(12) == 0 {
			env := w.env(k)
			row, _ := w.b.Get(k)
			env.Key, env.Definition = k, row.Definition
			env.Cron, _ = w.b.Cron(k)
			if s, _, err = schedule.Step(s, schedule.Refused{Firing: x.Firing, Text: "full"}, env); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	w.b.Update(k, s)
	w.printf("%s %T%+v at %s: %+v", k, e, e, w.now.Format(time.RFC3339Nano), moves)
	w.report(k)
}

// due lets all that is due tick.
func (w *generator) due() {
	for {
		k, ok := w.b.Due(w.now)
		if !ok {
			break
		}
		w.printf("%s is due, unsaved %v", k, w.b.Unsaved(k))
		if w.rng.IntN(9) == 0 {
			w.b.Again(k, w.now.Add(time.Second))
			continue
		}
		w.step(k, schedule.Tick{})
	}
	for _, k := range w.b.Waiting() {
		w.step(k, schedule.Tick{})
	}
	first, ok := w.b.First()
	if !ok {
		first = time.Time{}
	}
	w.printf("first %v %v, %d undecided of %v", first.UTC(), ok, w.b.Undecided(), w.b.Keys())
}

// report prints all that readers see of a schedule.
func (w *generator) report(k schedule.Key) {
	row, _ := w.b.Get(k)
	s := &row.State
	at, ok := w.b.Next(k)
	w.printf("  %s cursor %v skew %v lead %v next %v %v line %d fired %d skipped %d", s.Phase(), s.Cursor, s.Skew,
		s.Lead(w.now), at.UTC(), ok, s.Backlog, s.Fired, s.Skipped)
	for _, f := range s.Pending[:min(len(s.Pending), 3)] {
		w.printf("  pending %v %s %v: %s", f.At.Unix(), f.By, f.Late, s.WhyWaits(f))
	}
	for _, r := range s.Live {
		w.printf("  live %v %s %v %v", r.At.Unix(), r.ID, r.Ending, r.Late)
	}
	for _, x := range s.Open[max(len(s.Open)-4, 0):] {
		w.printf("  open %v %v %d %s", x.After.Unix(), x.Until.Unix(), x.Count, x.Why)
	}
	for _, x := range s.Done {
		w.printf("  done %v %v %d", x.After.Unix(), x.Until.Unix(), x.Count)
	}
	w.printf("  %d pending, %d open, %d missed, ahead %v, comes %v, %d lines", len(s.Pending), len(s.Open),
		len(s.Missed()), s.Ahead, s.Comes(at), len(s.History))
	for _, e := range s.History[max(len(s.History)-3, 0):] {
		w.printf("  %s %s by %s: %s %v", e.Decision, e.Times(), e.By, &e, e.When.UnixNano())
	}
}

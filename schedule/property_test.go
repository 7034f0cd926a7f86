package schedule

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"cantina/cron"
	"cantina/task"
)

// world is one schedule through many leaders. A leader's decision is durable only at its commit: a crash between
// the two loses state and starts together.
type world struct {
	t       *rapid.T
	key     Key
	def     *Definition
	cron    cron.Schedule
	now     time.Time
	durable State
	stored  wants // durable
	newest  State
	flight  []flight // decided, not yet durable, in order

	runs    map[string]*truth
	fired   map[int64]Cause // logical time in nanoseconds → why, durable ones only
	held    bool            // the leader does not know the runs yet
	edited  time.Time       // earlier times belong to an earlier calendar
	last    time.Time       // the last start by time, durable ones only
	dropped time.Time       // open spans up to here were forgotten, or are another definition's
}

// wants is a definition with its calendar: an edit and the state after it are one commit.
type wants struct {
	def  *Definition
	cron cron.Schedule
}

type flight struct {
	s     State
	moves []Move
	now   time.Time
	wants wants
}

// truth is the real state of the runs.
type truth struct{ running, ending bool }

// theJob stands among the runs for the one job of a schedule, for any trigger.
const theJob = "the job"

func lines() []string {
	return []string{"* * * * *", "*/7 * * * *", "0 * * * *", "30 2 * * *", "15 1-4 * * *", "0 9 * * 1", "*/20 30 * * * *",
		"@every 7m"}
}

func newWorld(t *rapid.T) *world {
	zone := rapid.SampledFrom([]string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"}).Draw(t, "zone")
	loc, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	p := Policy{
		Overlap:  rapid.SampledFrom([]Overlap{OverlapForbid, OverlapAllow, OverlapReplace}).Draw(t, "overlap"),
		Misfire:  rapid.SampledFrom([]Misfire{MisfireOnce, MisfireSkip, MisfireAll}).Draw(t, "misfire"),
		Deadline: rapid.SampledFrom([]time.Duration{0, 0, 10 * time.Minute, 5 * time.Hour}).Draw(t, "deadline"),
		Jitter:   rapid.SampledFrom([]time.Duration{0, 0, 90 * time.Second}).Draw(t, "jitter"),
	}
	if p.Overlap == OverlapAllow {
		p.Max = rapid.IntRange(1, 3).Draw(t, "max")
	}
	if p.Misfire == MisfireAll {
		p.MisfireMax = rapid.IntRange(0, 5).Draw(t, "misfire_max")
	}
	// Around the clock changes of the four zones in spring and autumn.
	day := rapid.SampledFrom([]string{"2026-03-07", "2026-03-28", "2026-04-04", "2026-10-03", "2026-10-24",
		"2026-10-31"}).Draw(t, "day")
	born, err := time.Parse(time.DateOnly, day)
	if err != nil {
		t.Fatal(err)
	}
	c := Calendar{Line: rapid.SampledFrom(lines()).Draw(t, "line"), Zone: zone,
		Gap:  rapid.SampledFrom([]cron.Gap{cron.GapRun, cron.GapSkip}).Draw(t, "gap"),
		Fold: rapid.SampledFrom([]cron.Fold{cron.FoldFirst, cron.FoldLast, cron.FoldBoth}).Draw(t, "fold")}
	w := &world{t: t, key: Key{"d", "n"}, now: born, durable: New(born), runs: map[string]*truth{},
		fired: map[int64]Cause{}, def: &Definition{Calendar: c, Policy: p, Task: &task.Definition{}}}
	it, _, err := c.Item(w.key, loc, born, born)
	if err != nil {
		t.Fatal(err)
	}
	if w.def.Overlap != OverlapAllow && rapid.Bool().Draw(t, "job") {
		w.def.Task, w.def.Job = nil, &Job{}
	}
	w.cron, w.newest = cron.Schedule{Item: it, Zone: loc}, w.durable
	w.stored = wants{w.def, w.cron}
	return w
}

// answer is this leader's knowledge of a run: one that is not durable yet counts as pending in the board.
func (w *world) answer(r Run) Answer {
	if w.def.Job != nil {
		r.ID = theJob
	}
	x := w.runs[r.ID]
	for _, f := range w.flight {
		if slices.ContainsFunc(f.moves, func(m Move) bool {
			s, ok := m.(Start)
			return ok && (s.ID == r.ID || r.ID == theJob)
		}) {
			return Running
		}
	}
	switch {
	case x == nil || !x.running:
		return Ended
	case w.held:
		return Unknown
	}
	return Running
}

func (w *world) step(e Event) {
	next, moves, err := Step(w.newest, e, Env{Now: w.now, Key: w.key, Cron: w.cron, Definition: w.def, Runs: w.answer,
		Other: func(string) (Answer, string, int) { return w.answer(Run{}), "job/" + w.key.Name, 1 }})
	if err != nil {
		if !next.Equal(&w.newest) {
			w.t.Fatalf("%T failed with %v and changed the state", e, err)
		}
		return
	}
	if _, back := e.(Rewind); !back && next.Cursor.Before(w.newest.Cursor) {
		w.t.Fatalf("%T: the cursor went back from %v to %v", e, w.newest.Cursor, next.Cursor)
	}
	w.check(&next, moves)
	w.newest = next
	w.flight = append(w.flight, flight{next, moves, w.now, wants{w.def, w.cron}})
}

// check judges the decisions of one step.
func (w *world) check(s *State, moves []Move) {
	live := 0
	for _, r := range s.Live {
		if w.answer(r) != Ended {
			live++
		}
	}
	if w.def.Job != nil {
		live = 0
		if w.answer(Run{}) != Ended {
			live = 1 // also one that the schedule does not know
		}
	}
	starts := 0
	for _, m := range moves {
		st, ok := m.(Start)
		if !ok {
			continue
		}
		starts++
		if st.Firing.By == ByTime && w.newest.Paused {
			w.t.Fatalf("%v fired while paused", st)
		}
		if st.Firing.At.Nanosecond() == 0 {
			if n, err := w.cron.Next(st.Firing.At.Add(-time.Second)); err != nil || !n.Equal(st.Firing.At) {
				w.t.Fatalf("%v is no logical time", st.Firing.At)
			}
		}
		if d := w.def.deadline(); d > 0 && st.Firing.By == ByTime && w.now.Sub(st.Firing.At) > d+w.def.Jitter+time.Second {
			w.t.Fatalf("%v fired %v late, deadline %v", st.Firing.At, w.now.Sub(st.Firing.At), d)
		}
	}
	most := 1
	if w.def.Overlap == OverlapAllow {
		most = w.def.Max
	}
	if starts > 1 && w.def.Job != nil {
		w.t.Fatalf("a job is born %d times in one step", starts)
	}
	// a job ends its own earlier run, also one started in this step
	replaces := w.def.Job != nil && w.def.Overlap == OverlapReplace
	if starts > 0 && live+starts > most && !replaces {
		w.t.Fatalf("%d started while %d may run, at most %d", starts, live, most)
	}
	if n := len(s.History); n > 2*MaxHistory || len(s.Open) > MaxSpans {
		w.t.Fatalf("%d lines of history, %d spans", n, len(s.Open))
	}
}

// commit makes the oldest decision durable and performs it.
func (w *world) commit() {
	f := w.flight[0]
	w.flight = w.flight[1:]
	if f.s.Cursor.Before(w.durable.Cursor) { // a reset by an operator
		w.last = earlier(w.last, f.s.Cursor)
	}
	w.durable, w.stored = f.s, f.wants
	if len(f.s.Open) == MaxSpans { // older ones may have been forgotten
		w.dropped = f.s.Open[0].After
	}
	for _, m := range f.moves {
		switch m := m.(type) {
		case Start:
			at := m.Firing.At.UnixNano()
			if was, twice := w.fired[at]; twice {
				w.t.Fatalf("%v fired twice: by %v and by %v", m.Firing.At, was, m.Firing.By)
			}
			w.fired[at] = m.Firing.By
			if m.Firing.By == ByTime {
				if !m.Firing.At.After(w.last) {
					w.t.Fatalf("%v starts by time after %v", m.Firing.At, w.last)
				}
				w.last = m.Firing.At
			}
			if w.runs[m.ID] != nil {
				w.t.Fatalf("name %s given twice", m.ID)
			}
			w.runs[m.ID] = &truth{running: f.wants.def.Job == nil}
			if f.wants.def.Job != nil {
				w.runs[theJob] = &truth{running: true}
			}
		case End:
			if x := w.runs[m.ID]; x != nil {
				x.ending = true
			}
		}
	}
}

// account checks that every logical time since the creation is in one place exactly:
// fired, undecided, or open to be filled in.
func (w *world) account() {
	s := &w.durable
	var from time.Time
	if len(s.Open) > 0 { // none when all that is known was after a cursor that went back
		from = s.Open[0].After
	}
	if w.dropped.After(from) {
		from = w.dropped
	}
	from = later(from, w.edited)
	if from.IsZero() {
		from = s.Open[0].Until.Add(-48 * time.Hour)
	}
	n := 0
	for at, err := w.cron.Next(from); !at.IsZero() && !at.After(s.Cursor) && n < 20000; at, err = w.cron.Next(at) {
		if err != nil {
			w.t.Fatal(err)
		}
		n++
		_, fired := w.fired[at.UnixNano()]
		places := 0
		if fired {
			places++
		}
		if slices.ContainsFunc(s.Pending, func(f Firing) bool { return f.At.Equal(at) }) {
			places++
		}
		for _, x := range s.Open {
			if x.After.Before(at) && !at.After(x.Until) {
				places++
			}
		}
		if places != 1 {
			w.t.Fatalf("%v is in %d places; fired %v, state %s", at, places, fired, dump(s))
		}
	}
}

func dump(s *State) string {
	out := fmt.Sprintf("cursor %v, pending %v, ahead %v, live %v", s.Cursor, s.Pending, s.Ahead, s.Live)
	for _, x := range s.Open {
		out += fmt.Sprintf("\n  (%v, %v] %d %v", x.After, x.Until, x.Count, x.Why)
	}
	return out
}

// TestEachLogicalTimeFollowsItsPolicy is I12 over crashes, leader changes, clock steps, pauses, edits, and manual
// requests. The long form draws 30,000 runs.
func TestEachLogicalTimeFollowsItsPolicy(t *testing.T) {
	if os.Getenv("CANTINA_SOAK") == "1" {
		was := flag.Lookup("rapid.checks").Value.String()
		if err := flag.Set("rapid.checks", "30000"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := flag.Set("rapid.checks", was); err != nil {
				t.Error(err)
			}
		})
	}
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		steps := []time.Duration{time.Second, 29 * time.Second, time.Minute, 7 * time.Minute, time.Hour, 5 * time.Hour,
			26 * time.Hour}
		for range rapid.IntRange(5, 60).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"time", "time", "time", "back", "tick", "tick", "tick", "commit", "commit",
				"crash", "held", "end", "end", "pause", "edit", "hand", "backfill", "others", "rewind"}).Draw(t, "what") {
			case "time":
				w.now = w.now.Add(rapid.SampledFrom(steps).Draw(t, "forward"))
				w.step(Tick{})
			case "back":
				w.now = w.now.Add(-rapid.SampledFrom(steps).Draw(t, "back"))
			case "tick":
				w.step(Tick{})
			case "commit":
				for len(w.flight) > 0 {
					w.commit()
				}
				w.account()
			case "crash": // some of what was decided became durable, the rest never can
				for range rapid.IntRange(0, len(w.flight)).Draw(t, "durable") {
					w.commit()
				}
				w.flight, w.newest, w.held = nil, w.durable, true
				w.def, w.cron = w.stored.def, w.stored.cron
				w.account()
			case "held":
				w.held = !w.held
			case "end":
				w.end()
			case "pause":
				var e Event = Pause{}
				if w.newest.Paused {
					e = Resume{}
				}
				w.step(e)
			case "edit":
				w.edit()
			case "hand":
				at := w.now.Add(rapid.SampledFrom([]time.Duration{-24 * time.Hour, -time.Hour, -time.Minute, 0, time.Hour}).Draw(t,
					"at"))
				if n, err := w.cron.Next(at); err == nil && rapid.Bool().Draw(t, "exact") {
					at = n
				}
				if rapid.IntRange(0, 3).Draw(t, "beside") == 0 {
					at = time.Time{}
				}
				w.step(Fire{At: at})
			case "rewind":
				if !w.def.Elapsed() { // its logical times are others after that: see timetable
					w.step(Rewind{})
				}
			case "others":
				if w.def.Job != nil {
					w.runs[theJob] = &truth{running: true}
				}
			case "backfill":
				w.step(Backfill{From: w.now.Add(-24 * time.Hour), To: w.now, Max: rapid.IntRange(1, 6).Draw(t, "max")})
			}
		}
		w.resolve()
	})
}

// edit gives the schedule another calendar: firings of the earlier one stay fired.
func (w *world) edit() {
	c := w.def.Calendar
	c.Line = rapid.SampledFrom(lines()).Draw(w.t, "other line")
	it, _, err := c.Item(w.key, w.cron.Zone, w.now, w.now)
	if err != nil {
		w.t.Fatal(err)
	}
	def := *w.def
	def.Calendar = c
	before := len(w.flight)
	was := wants{w.def, w.cron}
	w.def, w.cron.Item = &def, it
	w.step(Edit{})
	if len(w.flight) == before {
		w.def, w.cron = was.def, was.cron
	}
	for _, s := range []*State{&w.newest, &w.durable} {
		w.edited = later(w.edited, s.Cursor)
		for _, c := range s.Done { // times of another calendar there never fire either
			w.edited = later(w.edited, c.Until)
		}
	}
}

// end ends some run.
func (w *world) end() {
	var ids []string
	for id, x := range w.runs {
		if x.running {
			ids = append(ids, id)
		}
	}
	if len(ids) > 0 {
		slices.Sort(ids)
		w.runs[rapid.SampledFrom(ids).Draw(w.t, "run")].running = false
	}
}

// resolve is I14: when the faults stop and runs end, nothing stays undecided.
func (w *world) resolve() {
	w.held = false
	if w.newest.Paused {
		w.step(Resume{})
	}
	w.now = w.now.Add(48 * time.Hour)
	for range 200 {
		w.step(Tick{})
		for len(w.flight) > 0 {
			w.commit()
		}
		for _, x := range w.runs {
			x.running = false
		}
	}
	w.account()
	if len(w.newest.Pending) > 0 {
		w.t.Fatalf("still undecided: %s", dump(&w.newest))
	}
}

package timetable_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cantina/action"
	"cantina/bbs"
	"cantina/cron"
	"cantina/event"
	"cantina/fault"
	"cantina/internal/run"
	"cantina/leader"
	"cantina/lrp"
	"cantina/plan"
	"cantina/schedule"
	"cantina/store"
	"cantina/store/mem"
	"cantina/task"
	"cantina/timetable"
	"cantina/wire"
	"cantina/worker"
)

// rig is a timetable on a real board and the memory store. It has a clock that is moved by hand, a fake scheduler
// and one fake cell.
type rig struct {
	t          *testing.T
	backend    *mem.Backend
	bubble     run.Clock // of the store: it stands still
	leadership *store.Leadership
	board      *bbs.BBS
	times      *timetable.Timetable
	tasks      task.Policy
	events     int      // that the hub keeps; 0 = its default
	notes      []string // events without a change of a row
	stop       func()

	mu     sync.Mutex
	wall   time.Time
	boot   time.Duration
	ids    int
	wants  []bbs.TaskWant
	starts []string // logical times of the cell's work, with the schedule
	keep   bool     // started tasks run on
	stale  bool
	heard  bool
	dead   bool           // the cell's process
	alive  []worker.Alive // uids of the tasks whose containers are with its successor
	jobs   map[string]schedule.Answer
	renews []string
	zones  map[string]*time.Location
	// signals are the sent ones; reports[i] reports the result of the i-th.
	signals []string
	reports []func(schedule.Delivery)
}

// began is the wall clock at the begin of each test.
func began() time.Time { return time.Date(2026, 3, 2, 0, 30, 0, 0, time.UTC) }

func inBubble(t *testing.T, fn func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, backend: mem.New(mem.Config{}), bubble: run.Bubble(), wall: began(), boot: time.Hour, heard: true,
			jobs: map[string]schedule.Answer{}, zones: map[string]*time.Location{}}
		r.elect()
		defer func() { r.stop() }()
		fn(t, r)
	})
}

func (r *rig) clock() run.Clock {
	return run.Clock{
		Wall: func() time.Time { r.mu.Lock(); defer r.mu.Unlock(); return r.wall },
		Boot: func() time.Duration { r.mu.Lock(); defer r.mu.Unlock(); return r.boot },
	}
}

// elect begins a term on the state of the store.
func (r *rig) elect() {
	r.t.Helper()
	s, err := store.New(r.backend, store.Config{Clock: r.bubble, NewCluster: true})
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	leadership, err := s.Campaign(ctx, store.Candidate{ID: "s"})
	if err != nil {
		r.t.Fatal(err)
	}
	hub := event.New(r.events, leadership.Revision(), r.clock().Wall)
	rows := bbs.RollForwardOthers(leadership, leadership.Rows())
	log := slog.New(slog.DiscardHandler)
	r.board = bbs.New(bbs.Config{Store: leadership, Auctioneer: r, Cells: r, Sessions: r, Hub: hub, Callbacks: r,
		Clock: r.clock(), Log: log, NewID: r.newID, Tasks: r.tasks}, rows, leadership.Revision(), r.members())
	r.times = timetable.New(timetable.Config{
		Store: leadership, Board: leader.TimetableBoard(r.board), Jobs: r, Sessions: r, Signals: r,
		Contents: leader.TimetableContents{}, Hub: tap{hub, r}, Clock: r.clock(), Log: log, Zone: r.zone, NewID: r.newID,
		Differ: leader.DiffFields,
	}, rows)
	r.leadership = leadership
	_, pending := r.board.Pending()
	r.Request(nil, pending)
	ended := make(chan error, 2)
	go func() { ended <- r.board.Run(ctx) }()
	go func() { ended <- r.times.Run(ctx) }()
	r.stop = func() {
		cancel()
		for range 2 {
			if err := <-ended; err != nil && !errors.Is(err, fault.ErrTermOver) && !errors.Is(err, fault.ErrTermOver) &&
				!errors.Is(err, context.Canceled) {
				r.t.Errorf("run: %v", err)
			}
		}
		_ = leadership.Resign(context.Background())
	}
	synctest.Wait()
}

// members is the list of cell processes.
func (r *rig) members() []string {
	if r.dead {
		return []string{"q"}
	}
	return []string{"p"}
}

// tap keeps the notes that pass.
type tap struct {
	*event.Hub
	r *rig
}

func (t tap) Publish(revision int64, events ...event.Event) {
	t.r.mu.Lock()
	for _, e := range events {
		if e.Kind == event.Note {
			t.r.notes = append(t.r.notes, e.Subject+": "+e.Text)
		}
	}
	t.r.mu.Unlock()
	t.Hub.Publish(revision, events...)
}

// depose ends the term in which some commits may be under way, and begins the next.
func (r *rig) depose() {
	r.stop()
	r.elect()
}

// to moves the clocks to an instant and lets everything happen.
func (r *rig) to(at time.Time) {
	r.t.Helper()
	r.mu.Lock()
	if at.After(r.wall) {
		r.boot += at.Sub(r.wall)
	}
	r.wall = at
	r.mu.Unlock()
	r.times.Changed()
	r.serve()
}

// set sets the wall clock alone, and waits for the effects.
func (r *rig) set(by time.Duration) *rig {
	r.t.Helper()
	r.mu.Lock()
	r.wall = r.wall.Add(by)
	r.mu.Unlock()
	r.times.Changed()
	r.serve()
	return r
}

// at moves the clocks to a time of the first day.
func (r *rig) at(clock string) *rig {
	r.t.Helper()
	at, err := time.Parse("2006-01-02T15:04:05", "2026-03-02T"+clock)
	if err != nil {
		r.t.Fatal(err)
	}
	r.to(at)
	return r
}

// started compares the starts since the last call.
func (r *rig) started(want ...string) *rig {
	r.t.Helper()
	got := r.take()
	if !slices.Equal(got, want) {
		r.t.Fatalf("started %q, want %q", got, want)
	}
	return r
}

func (r *rig) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.starts
	r.starts = nil
	slices.Sort(out)
	return out
}

// serve is the cell: it runs the given work, and ends it unless r.keep is set.
func (r *rig) serve() {
	r.t.Helper()
	for range 1000 {
		synctest.Wait()
		r.mu.Lock()
		wants := r.wants
		r.wants = nil
		r.mu.Unlock()
		if len(wants) == 0 {
			return
		}
		by := task.Holder{Cell: "c", Proc: "p"}
		for _, w := range wants {
			if r.event(w.GUID, task.Start{UID: w.UID, By: by, Reservation: w.UID}) != nil {
				continue
			}
			r.mu.Lock()
			r.starts = append(r.starts, logical(w))
			r.mu.Unlock()
			if !r.keep {
				r.end(w.GUID, w.UID)
			}
		}
	}
	r.t.Fatal("does not come to rest")
}

func (r *rig) end(guid, uid string) {
	r.t.Helper()
	if err := r.event(guid, task.Complete{UID: uid, By: task.Holder{Cell: "c", Proc: "p"}}); err != nil {
		r.t.Fatal(err)
	}
	r.times.Changed()
}

// endAll ends every task that runs.
func (r *rig) endAll() *rig {
	r.t.Helper()
	p, err := r.board.ListTasks(plan.TaskFilter{States: []task.State{task.Running}}, plan.Range{Limit: 1000})
	if err != nil {
		r.t.Fatal(err)
	}
	for _, x := range p.Items {
		r.end(x.GUID, x.UID)
	}
	return r
}

func (r *rig) event(guid string, e task.Event) error {
	answers, err := r.board.TaskEvents(r.t.Context(), []wire.TaskCall{{GUID: guid, Event: e}})
	if err != nil {
		return err
	}
	return answers[0]
}

// logical returns the variables of the firing in the environment of a task.
func logical(w bbs.TaskWant) string {
	at, name := "", ""
	for _, v := range w.Definition.Workload.Env {
		switch v.Name {
		case "CANTINA_SCHEDULED_AT":
			at = v.Value
		case "CANTINA_SCHEDULE":
			name = v.Value
		}
	}
	return name + " " + at
}

// hourly is a schedule of a task.
func hourly(change func(*schedule.Definition)) schedule.Definition {
	d := schedule.Definition{
		Calendar: schedule.Calendar{Line: "0 * * * *", Zone: "UTC", Gap: cron.GapRun, Fold: cron.FoldFirst},
		Task:     &task.Definition{Workload: action.Workload{Action: action.Action{Run: &action.Run{Path: "/bin/true"}}}},
	}
	if change != nil {
		change(&d)
	}
	return d
}

// apply brings the schedules of domain d to the desired state, and returns the verbs.
func (r *rig) apply(prune bool, wanted ...plan.NamedSchedule) string {
	r.t.Helper()
	var lines []plan.Change
	_, err := r.board.Apply(r.t.Context(), plan.Application{Domain: "d", Prune: plan.Prune{On: prune}}, plan.Write{},
		func() (store.Part, error) {
			c, err := r.times.Apply("d", wanted, plan.Prune{On: prune})
			if err != nil {
				return store.Part{}, err
			}
			lines = c.Lines
			return c.Part, nil
		})
	if err != nil {
		r.t.Fatal(err)
	}
	r.serve()
	var out []string
	for _, l := range lines {
		out = append(out, string(l.Verb)+" "+l.Name)
	}
	return strings.Join(out, ", ")
}

func (r *rig) zone(name string) (*time.Location, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if z := r.zones[name]; z != nil {
		return z, nil
	}
	return time.LoadLocation(name)
}

func (r *rig) newID() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ids++
	return fmt.Sprintf("%032x", r.ids)
}

// Request implements bbs.Auctioneer.
func (r *rig) Request(_ []bbs.LRPWant, tasks []bbs.TaskWant) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wants = append(r.wants, tasks...)
}

// Withdraw implements bbs.Auctioneer.
func (r *rig) Withdraw([]lrp.Key, []bbs.TaskID) {}

// StopInstance implements bbs.Cells.
func (r *rig) StopInstance(lrp.Key, lrp.Identity) {}

// CancelTask implements bbs.Cells.
func (r *rig) CancelTask(task.Holder, string, string) {}

// Send implements bbs.Callbacks.
func (r *rig) Send(*task.Task) bool { return true }

// MayStart implements bbs.Sessions.
func (r *rig) MayStart(string, string) bool { return true }

// Stale implements bbs.Sessions.
func (r *rig) Stale() bool { r.mu.Lock(); defer r.mu.Unlock(); return r.stale }

// MayLive implements bbs.Sessions: nothing runs.
func (r *rig) MayLive(string) ([]string, string) { return nil, "" }
func (r *rig) Alive(string) []worker.Alive       { return r.alive }

// Heard implements timetable.Sessions.
func (r *rig) Heard(string) bool { r.mu.Lock(); defer r.mu.Unlock(); return r.heard }

// die reports to the board that the cell's process is certainly dead; successor may be empty.
func (r *rig) die(successor string) *rig {
	r.t.Helper()
	r.dead = true
	r.board.ProcDead("c", "p", successor)
	r.serve()
	return r
}

// Signal implements timetable.Signals.
func (r *rig) Signal(s timetable.Sending, report func(schedule.Delivery)) {
	if v, err := r.times.Get(s.Key); err != nil || len(v.State.History) == 0 ||
		v.State.History[len(v.State.History)-1].Decision != schedule.Sent {
		r.t.Errorf("a signal was sent before its commit: %+v, %v", v.State.History, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.signals = append(r.signals, s.Key.Domain+": "+s.String())
	r.reports = append(r.reports, report)
}

// Signalled implements timetable.Signals.
func (r *rig) Signalled(string, string) (int, bool) { return 2, true }

// Renew implements timetable.Jobs.
func (r *rig) Renew(rows timetable.Rows, _ string, j *schedule.Job) error {
	name := j.Job.Name
	r.jobs[name] = schedule.Running
	rows.Add([]store.Op{{Key: "job/" + name, Value: []byte("x")}}, func(int64, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.renews = append(r.renews, name)
	}, nil)
	return nil
}

// Runs implements timetable.Jobs.
func (r *rig) Outcome(schedule.Key) string { return "done" }

func (r *rig) Runs(k schedule.Key) schedule.Answer { return r.jobs[k.Name] }

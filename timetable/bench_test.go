package timetable_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"cantina/action"
	"cantina/bbs"
	"cantina/cron"
	"cantina/event"
	"cantina/internal/run"
	"cantina/leader"
	"cantina/lrp"
	"cantina/plan"
	"cantina/schedule"
	"cantina/store"
	"cantina/store/datadir"
	"cantina/store/etcd"
	"cantina/task"
	"cantina/timetable"
	"cantina/worker"
)

// world has all parts around a timetable on an embedded etcd that a benchmark does not measure: no cell takes the
// started work.
type world struct {
	mu   sync.Mutex
	wall time.Time
	ids  int
}

// Request does nothing.
func (*world) Request([]bbs.LRPWant, []bbs.TaskWant) {}

// Withdraw does nothing.
func (*world) Withdraw([]lrp.Key, []bbs.TaskID) {}

// StopInstance does nothing.
func (*world) StopInstance(lrp.Key, lrp.Identity) {}

// CancelTask does nothing.
func (*world) CancelTask(task.Holder, string, string) {}

// MayStart refuses.
func (*world) MayStart(string, string) bool { return false }

// Stale is false.
func (*world) Stale() bool { return false }

// MayLive implements bbs.Sessions: nothing runs.
func (*world) MayLive(string) ([]string, string) { return nil, "" }
func (*world) Alive(string) []worker.Alive       { return nil }

// Send does nothing.
func (*world) Send(*task.Task) bool { return true }

// Heard returns true.
func (*world) Heard(string) bool { return true }

// Dead is false.
func (*world) Dead(string) bool { return false }

// Renew is not used.
func (*world) Renew(timetable.Rows, string, *schedule.Job) error {
	return schedule.ErrInvalid
}

// Runs is not used.
func (*world) Runs(schedule.Key) schedule.Answer { return schedule.Ended }
func (*world) Outcome(schedule.Key) string       { return "done" }

func (w *world) id() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ids++
	return fmt.Sprintf("%032x", w.ids)
}

func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.wall
}

func (w *world) set(at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wall = at
}

// BenchmarkDurable fires schedules that are all due at once, each a task of its own, on
// an embedded etcd; another client writes all the time. Reported: firings per second
// and how long the other's writes took.
func BenchmarkDurable(b *testing.B) {
	const schedules = 20_000
	log := slog.New(slog.DiscardHandler)
	dir, err := datadir.Open(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	m, err := etcd.Start(ctx, dir, etcd.MemberConfig{Log: log})
	if err != nil {
		b.Fatal(err)
	}
	var loops sync.WaitGroup
	loops.Go(func() { _ = m.Run(ctx) })
	st, err := store.New(m.Backend(), store.Config{Clock: run.Kernel(), NewCluster: true, Memory: dir})
	if err != nil {
		b.Fatal(err)
	}
	leadership, err := st.Campaign(ctx, store.Candidate{ID: "s"})
	if err != nil {
		b.Fatal(err)
	}
	born := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	w := &world{wall: born}
	clock := run.Clock{Wall: w.now, Boot: run.Kernel().Boot}
	hub := event.New(0, leadership.Revision(), w.now)
	bb := bbs.New(bbs.Config{Store: leadership, Auctioneer: w, Cells: w, Sessions: w, Hub: hub, Callbacks: w, Clock: clock,
		Log: log, NewID: w.id}, nil, 0, nil)
	times := timetable.New(timetable.Config{
		Store: leadership, Board: leader.TimetableBoard(bb), Jobs: w, Sessions: w, Contents: leader.TimetableContents{},
		Hub: hub, Clock: clock, Log: log, NewID: w.id,
		Zone: time.LoadLocation, Differ: func(any, any) []plan.FieldChange { return nil },
	}, nil)
	def := schedule.Definition{
		Calendar: schedule.Calendar{Line: "0 * * * *", Zone: "UTC", Gap: cron.GapSkip, Fold: cron.FoldBoth},
		Policy:   schedule.Policy{Overlap: schedule.OverlapAllow, Max: 1000},
		Task: &task.Definition{Workload: action.Workload{Action: action.Action{Run: &action.Run{Path: "/bin/true",
			Args: []string{"-x", "report"}}}}},
	}
	for i := 0; i < schedules; i += 40 {
		var wanted []plan.NamedSchedule
		for n := i; n < i+40; n++ {
			wanted = append(wanted, plan.NamedSchedule{Name: fmt.Sprintf("s%06d", n), Definition: def})
		}
		if err := leader.TimetableBoard(bb).Decide(func(r timetable.Rows) error {
			c, err := times.Apply("d", wanted, plan.Prune{})
			if err == nil {
				r.Add(c.Ops, c.Done, c.Undo)
			}
			return err
		}); err != nil {
			b.Fatal(err)
		}
	}
	commit(b, leadership)
	loops.Go(func() { _ = bb.Run(ctx) })
	loops.Go(func() { _ = times.Run(ctx) })
	var took []time.Duration
	b.ResetTimer()
	for hour := 1; b.Loop(); hour++ {
		w.set(born.Add(time.Duration(hour) * time.Hour))
		times.Changed()
		for times.Stats().Started < hour*schedules {
			start := time.Now()
			commit(b, leadership)
			took = append(took, time.Since(start))
		}
	}
	b.ReportMetric(float64(b.N)*schedules/b.Elapsed().Seconds(), "firings/s")
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*99/100].Milliseconds()), "other-p99-ms")
	b.ReportMetric(float64(len(took)), "others")
	_ = leadership.Resign(context.Background())
	cancel()
	loops.Wait()
	_ = m.Close()
}

// commit writes one row and waits for it.
func commit(b *testing.B, r *store.Leadership) {
	done := make(chan error, 1)
	r.Submit(store.Transition{Ops: []store.Op{{Key: "other/row", Value: make([]byte, 300)}}},
		func(_ int64, err error) { done <- err })
	if err := <-done; err != nil {
		b.Fatal(err)
	}
}

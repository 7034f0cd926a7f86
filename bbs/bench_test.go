package bbs

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"

	"cantina/event"
	"cantina/internal/run"
	"cantina/lrp"
	"cantina/plan"
	"cantina/store"
	"cantina/store/mem"
	"cantina/task"
	"cantina/wire"
	"cantina/worker"
)

// idle is an auctioneer, cells, sessions and callbacks that do nothing.
type idle struct{}

// Request does nothing.
func (idle) Request([]LRPWant, []TaskWant) {}

// Withdraw does nothing.
func (idle) Withdraw([]lrp.Key, []TaskID) {}

// StopInstance does nothing.
func (idle) StopInstance(lrp.Key, lrp.Identity) {}

// CancelTask does nothing.
func (idle) CancelTask(task.Holder, string, string) {}

// MayStart is true.
func (idle) MayStart(string, string) bool { return true }

// Stale is false.
func (idle) MayLive(string) ([]string, string) { return nil, "" }
func (idle) Alive(string) []worker.Alive       { return nil }
func (idle) Stale() bool                       { return false }

// Send does nothing.
func (idle) Send(*task.Task) bool { return true }

// BenchmarkTasks measures the cost of the board alone: desire, start and complete of tasks by 16 callers on the
// memory store.
func BenchmarkTasks(b *testing.B) {
	clock := run.Kernel()
	s, err := store.New(mem.New(mem.Config{}), store.Config{Clock: clock, NewCluster: true})
	if err != nil {
		b.Fatal(err)
	}
	ctx := context.Background()
	leadership, err := s.Campaign(ctx, store.Candidate{ID: "s"})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = leadership.Resign(ctx) }()
	var ids atomic.Int64
	board := New(Config{
		Store: leadership, Auctioneer: idle{}, Cells: idle{}, Sessions: idle{},
		Hub: event.New(0, leadership.Revision(), clock.Wall), Callbacks: idle{}, Clock: clock,
		Log: slog.New(slog.DiscardHandler), NewID: func() string { return fmt.Sprintf("%032x", ids.Add(1)) },
	}, leadership.Rows(), leadership.Revision(), nil)
	def := task.Definition{Workload: runs("/bin/true")}
	by := task.Holder{Cell: "a", Proc: "a1"}
	var left atomic.Int64
	left.Store(int64(b.N))
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				row, err := board.DesireTask(ctx, plan.NewTask{Domain: "d", Definition: def}, plan.Write{})
				if err != nil {
					b.Error(err)
					return
				}
				for _, e := range []task.Event{task.Start{UID: row.UID, By: by, Reservation: "r"},
					task.Complete{UID: row.UID, By: by}} {
					if answers, err := board.TaskEvents(ctx, []wire.TaskCall{{GUID: row.GUID, Event: e}}); err != nil ||
						answers[0] != nil {
						b.Error(err, answers)
						return
					}
				}
			}
		})
	}
	wg.Wait()
}

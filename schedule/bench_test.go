package schedule

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"cantina/cron"
	"cantina/task"
)

// many fills a board with n schedules that fire once a day, at 1,440 different times,
// all created at born.
func many(tb testing.TB, n int, born time.Time) *Board {
	tb.Helper()
	loc, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		tb.Fatal(err)
	}
	var items []cron.Schedule
	for m := range 1440 {
		c := Calendar{Line: fmt.Sprintf("%d %d * * *", m%60, m/60), Gap: cron.GapRun, Fold: cron.FoldFirst}
		it, _, err := c.Item(Key{}, loc, born, born)
		if err != nil {
			tb.Fatal(err)
		}
		items = append(items, cron.Schedule{Item: it, Zone: loc})
	}
	b := NewBoard()
	def := &Definition{Calendar: Calendar{Line: "x"}, Task: &task.Definition{}}
	for i := range n {
		row := Row{Key: Key{"default", fmt.Sprintf("s%07d", i)}, UID: "u", Definition: def, State: New(born)}
		b.Put(row, items[i%len(items)], nil)
	}
	return b
}

// decideAll decides everything that is due.
func decideAll(tb testing.TB, b *Board, now time.Time) (started int) {
	for {
		k, ok := b.Due(now)
		if !ok {
			return started
		}
		st, moves, err := b.Step(k, Tick{}, Env{Now: now})
		if err != nil {
			tb.Fatal(err)
		}
		b.Update(k, st)
		started += len(moves)
	}
}

// spent returns the processor time of this process: the reliable figure on a shared machine.
func spent(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// processor reports the processor time of one operation.
func processor(b *testing.B, before time.Duration) {
	b.ReportMetric(float64((spent(b)-before).Microseconds())/1000/float64(b.N), "cpu-ms/op")
}

// BenchmarkDue10k decides 10,000 firings that are due among a million schedules.
func BenchmarkDue10k(b *testing.B) {
	born := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	board := many(b, 1_000_000, born)
	now := born
	b.ResetTimer()
	n, before := 0, spent(b)
	for b.Loop() {
		now = now.Add(15 * time.Minute) // 15 of 1,440 times: about 10,400
		n += decideAll(b, board, now)
	}
	processor(b, before)
	b.ReportMetric(float64(n)/float64(b.N), "fired/op")
}

// BenchmarkAllDueOnce decides a million schedules that all missed a week.
func BenchmarkAllDueOnce(b *testing.B) {
	born := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	board := many(b, 1_000_000, born)
	now := born
	before := spent(b)
	for b.Loop() {
		now = now.AddDate(0, 0, 7)
		if n := decideAll(b, board, now); n != 1_000_000 {
			b.Fatal(n)
		}
	}
	processor(b, before)
}

// BenchmarkIdle checks whether anything is due among a million schedules, as the shell does at each wake-up.
func BenchmarkIdle(b *testing.B) {
	now := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	board := many(b, 1_000_000, now)
	for b.Loop() {
		if _, ok := board.Due(now); ok {
			b.Fatal("due")
		}
		if at, ok := board.First(); !ok || !at.After(now) {
			b.Fatal(at)
		}
	}
}

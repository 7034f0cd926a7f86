package sim

import (
	"container/heap"
	"testing"
	"time"

	"cantina/worker"
)

// until runs the world until a condition holds, or the limit.
func (w *world) until(limit time.Duration, ok func() bool) bool {
	for w.failed == nil && len(w.q) > 0 && w.q[0].at <= limit {
		if ok() {
			return true
		}
		e := heap.Pop(&w.q).(planned)
		w.now = e.at
		w.res.Steps++
		e.fn()
	}
	return false
}

// whole: there is a leader, it waits for no cell, and every cell may get work.
func (w *world) whole() bool {
	r := w.leading()
	if r == nil || r.leader.Wait(r.s.local()).Active {
		return false
	}
	for _, m := range w.machines[:w.cfg.Cells] {
		if _, ok := r.leader.MayReceive(m.name); !ok {
			return false
		}
	}
	return true
}

// TestLeaderChangeIsQuick: with healthy cells, work may start again within 2 s of the election, ten times in a row.
// Nothing is restarted, lost or run twice.
func TestLeaderChangeIsQuick(t *testing.T) {
	w := newWorld(Config{Seed: 5, Faults: []Fault{}, Servers: 3}.withDefaults())
	w.calm = true
	if !w.until(20*time.Second, func() bool { return w.now > 10*time.Second && w.whole() }) {
		t.Fatalf("no start: %v", w.failed)
	}
	var worst time.Duration
	for range 10 {
		s := w.leading().s
		s.crash()
		w.after(5*time.Second, s.start)
		if !w.until(w.now+30*time.Second, func() bool { return w.leading() != nil }) {
			t.Fatal("there is no leader")
		}
		elected := w.now
		if !w.until(w.now+30*time.Second, w.whole) {
			t.Fatalf("not whole again: %v", w.failed)
		}
		worst = max(worst, w.now-elected)
		w.until(w.now+7*time.Second, func() bool { return false })
	}
	if w.failed != nil || w.res.Lost != 0 || w.res.Launches == 0 || worst > 2*time.Second {
		t.Fatalf("worst %v, %+v, %v", worst, w.res, w.failed)
	}
	for _, m := range w.machines[:w.cfg.Cells] {
		if m.agent.State() != worker.Healthy || m.identity.Started != 1 {
			t.Fatalf("%s began %d sessions", m.name, m.identity.Started)
		}
	}
	t.Logf("whole again %v after the election at worst", worst)
}

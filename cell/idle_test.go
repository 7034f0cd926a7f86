package cell

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"cantina/worker"
)

// ticking counts the ticks of a session's machine, and those that did nothing.
type ticking struct {
	Machine
	all, idle int
}

// Step implements Machine.
func (m *ticking) Step(now time.Duration, e worker.CellEvent) []worker.CellEffect {
	before := m.State()
	effects := m.Machine.Step(now, e)
	if _, ok := e.(worker.CellTick); ok {
		m.all++
		if len(effects) == 0 && m.State() == before {
			m.idle++
		}
	}
	return effects
}

// TestAnIdleCellSleeps: nothing but its heartbeats wakes a cell that has nothing to do, and they
// write no identity.
func TestAnIdleCellSleeps(t *testing.T) {
	m := &ticking{}
	count := func(l *leader) {
		s := l.cell.session
		m.Machine, s.machine = s.machine, m
	}
	inBubbleOf(t, count, func(t *testing.T, w *world) {
		file := func() os.FileInfo {
			info, err := os.Stat(filepath.Join(w.cell.cfg.Dir, identityFile))
			if err != nil {
				t.Fatal(err)
			}
			return info
		}
		s := w.cell.session
		s.mu.Lock()
		before, idle := m.all, m.idle
		s.mu.Unlock()
		old := file()
		<-time.After(10 * time.Minute)
		synctest.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		if n, beats := m.all-before, int(10*time.Minute/worker.DefaultTimeouts().Heartbeat); n < beats-1 || n > beats+1 ||
			m.idle > idle {
			t.Errorf("%d ticks for %d heartbeats, %d of them did nothing", n, beats, m.idle-idle)
		}
		if !os.SameFile(old, file()) {
			t.Error("the identity was written again")
		}
	})
}

// TestAProbeWaitsForNoWork: rows and containers that wait for a late leader take all places, and a
// probe and a broken line are handled all the same.
func TestAProbeWaitsForNoWork(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		hang := make(chan struct{})
		for i := range 200 {
			w.cell.queue.Push(fmt.Sprint("row ", i), func(context.Context) { <-hang })
		}
		synctest.Wait()
		probes := func() (n int) {
			w.leader.mu.Lock()
			defer w.leader.mu.Unlock()
			for _, s := range w.leader.statuses {
				if s.Kind == worker.StatusProbe {
					n++
				}
			}
			return n
		}
		before := probes()
		w.cell.LinkBroken() // a heartbeat is sent, and the leader answers it with a probe
		synctest.Wait()
		if n := probes() - before; n != 1 {
			t.Errorf("%d probes are answered", n)
		}
		close(hang)
	})
}

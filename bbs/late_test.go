package bbs

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"cantina/internal/run"
	"cantina/lrp"
	"cantina/store"
	"cantina/wire"
)

// counted counts the questions to the registry.
type counted struct {
	*rig
	asked int
}

// MayStart implements Sessions.
func (c *counted) MayStart(cell, proc string) bool {
	c.asked++
	return c.rig.MayStart(cell, proc)
}

// TestACallAsksTheRegistryOnce: a call of a cell with many events asks once whether its process may start work, and
// leaves its place while it waits for the commit.
func TestACallAsksTheRegistryOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.depose()
		sessions := &counted{rig: r}
		r.elect(func(c *Config) { c.Sessions = sessions })
		r.apply([]lrp.Desired{web(100, "1")}, nil)
		synctest.Wait()
		wants, _, _ := r.take()
		var calls []wire.LRPCall
		for i, w := range wants {
			calls = append(calls, wire.LRPCall{Key: w.Key,
				Event: lrp.Claim{By: lrp.Identity{Instance: fmt.Sprint("i", i), Cell: "a", Proc: "a1"}}})
		}
		sessions.asked = 0
		left := 0
		answers, err := r.b.LRPEvents(run.WithPlace(t.Context(), func() { left++ }), calls)
		if err != nil || len(answers) != 100 {
			t.Fatalf("%d answers, %v", len(answers), err)
		}
		for i, err := range answers {
			if err != nil {
				t.Errorf("claim %d: %v", i, err)
			}
		}
		if sessions.asked != 1 || left != 1 {
			t.Errorf("asked %d times, left its place %d times; want 1 and 1", sessions.asked, left)
		}
	})
}

// TestCommitsDoNotWaitForDecisions: a commit gets its readers and its waiting calls while another decision is being
// made.
func TestCommitsDoNotWaitForDecisions(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.apply([]lrp.Desired{web(1, "1")}, nil)
		synctest.Wait()
		wants, _, _ := r.take()
		k := r.b.newTicket()
		err := r.b.changeLocked(func(c *tx) error {
			return c.step(wants[0].Key, lrp.Claim{By: lrp.Identity{Instance: "i", Cell: "a", Proc: "a1"}})
		}, k.done)
		if err != nil {
			t.Fatal(err)
		}
		r.b.mu.Lock()
		_, err = k.wait(context.WithoutCancel(t.Context()))
		x := r.b.rows.view.indices[wants[0].Key].row
		r.b.mu.Unlock()
		if err != nil || x.Ordinary == nil || x.Ordinary.State != lrp.Claimed {
			t.Errorf("%v, %+v", err, x.Ordinary)
		}
	})
}

// submits counts transitions.
type submits struct {
	Store
	n int
}

// Submit implements Store.
func (s *submits) Submit(t store.Transition, done func(int64, error)) {
	s.n++
	s.Store.Submit(t, done)
}

// TestRefusalsOfARoundAreOneChange: the reasons of many instances that found no place are few changes.
func TestRefusalsOfARoundAreOneChange(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		const n = 1200
		r.apply([]lrp.Desired{web(n, "1")}, nil)
		synctest.Wait()
		wants, _, _ := r.take()
		var all []Unplaced
		for _, w := range wants {
			all = append(all, Unplaced{w.Key, "full"})
		}
		changes := 0
		r.b.cfg.Watch.Index = func(_ lrp.Index, _ lrp.Event, _ lrp.Env, _ lrp.Index, err error) {
			if err == nil {
				changes++
			}
		}
		submitted := &submits{Store: r.leadership}
		r.b.rows.cfg.Store = submitted
		r.b.PlacementFailed(all...)
		synctest.Wait()
		if most := n/chunkOps + 2*n/unplacedAtOnce; changes != n || submitted.n > most {
			t.Errorf("%d instances have a reason, in %d transitions; want %d in %d at most", changes, submitted.n, n, most)
		}
		if r.b.rows.view.indices[wants[n-1].Key].row.Ordinary.PlacementError != "full" {
			t.Error("the last has no reason")
		}
	})
}

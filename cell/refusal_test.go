package cell

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cantina/action"
	"cantina/resource"
)

// TestARefusalSaysWhetherItIsOfTheCell: what a full, drained or silent cell refuses is
// placed on another one at once.
func TestARefusalSaysWhetherItIsOfTheCell(t *testing.T) {
	for name, c := range map[string]struct {
		before func(*world)
		mb     int
		reason string
	}{
		"full": {func(*world) {}, 200, "insufficient"},
		"drained": {func(w *world) {
			if err := w.cell.Evacuate(context.Background(), w.leader.term, w.proc(), Evacuation{ID: "d1", Deadline: time.Hour}); err != nil {
				w.t.Fatal(err)
			}
		}, 10, "drained"},
		"silent": {func(w *world) {
			w.leader.mu.Lock()
			w.leader.silent = true
			w.leader.mu.Unlock()
			time.Sleep(30 * time.Second)
		}, 10, "its session is UNHEALTHY"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				c.before(w)
				synctest.Wait()
				got := w.perform(Work{LRPs: []LRPWork{{Key: w.desire(), Instance: "i1", Workload: heavy(c.mb)}},
					Tasks: []TaskWork{{GUID: "t", UID: "u1", Workload: heavy(c.mb)}}})
				if len(got) != 2 || got[0].ID != "i1" || got[1].ID != "u1" {
					t.Fatalf("%+v", got)
				}
				for _, r := range got {
					if !r.Cell || !strings.Contains(r.Reason, c.reason) {
						t.Errorf("%+v", r)
					}
				}
				w.leader.mu.Lock()
				w.leader.silent = false
				w.leader.mu.Unlock()
			})
		})
	}
}

func heavy(mb int) *action.Workload {
	w := sleeper("forever")
	w.Resources = resource.Amounts{resource.MemoryMB: mb}
	return w
}

package leader

import (
	"context"
	"testing"

	"cantina/fence"
	"cantina/internal/link"
	"cantina/placement"
)

// TestWorkThatNeverReachedItsCellIsPlacedAgain: if a cell accepts no connection, or its address is
// unknown, the work is returned as refused; only work that may have arrived is left to
// convergence.
func TestWorkThatNeverReachedItsCellIsPlacedAgain(t *testing.T) {
	cells := link.NewDirectory(link.Security{})
	defer cells.Close()
	cells.SetAddress("gone", "unix:"+t.TempDir()+"/nobody")
	m := newPlacementAdapter(placementConfig{Term: fence.Term{Epoch: 1, Revision: 2}, Cells: directory{cells}})
	items := []placement.Item{{ID: "lrp/a", Hold: "h1"}, {ID: "lrp/b", Hold: "h2"}}
	for _, name := range []string{"gone", "unknown"} {
		got, err := m.Perform(context.Background(), name, "p", items)
		if err != nil || len(got) != 2 || got[0].Hold != "h1" || got[1].Hold != "h2" || !got[0].Full {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

package leader

import (
	"maps"
	"slices"
	"sync"

	"cantina/placement"
	"cantina/task"
)

// earlyItems are items that would have ended before the cells had joined, and their holds.
type earlyItems struct {
	mu    sync.Mutex
	holds map[string]string
}

// maySayNo reports whether an item may fail because no cell could hold it, or because none has
// room for one that does not wait. Before the cells have joined it is kept for Recheck instead.
func (p *PlacementAdapter) maySayNo(it placement.Item) bool {
	if p.cfg.Joined() {
		return true
	}
	p.early.mu.Lock()
	defer p.early.mu.Unlock()
	p.early.holds[it.ID] = it.Hold
	return false
}

// Recheck fails items that would have failed before the cells had joined, and still have no place.
// It is called whenever a cell's session or capacity has changed.
func (p *PlacementAdapter) Recheck() {
	p.early.mu.Lock()
	none := len(p.early.holds) == 0
	p.early.mu.Unlock()
	if none || !p.cfg.Joined() {
		return
	}
	p.early.mu.Lock()
	early := p.early.holds
	p.early.holds = map[string]string{}
	p.early.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(early)) {
		if _, why, waits := p.auctioneer.Explain(id); waits && why != nil && (why.Never || p.fails(id)) {
			p.Waiting([]placement.Refused{{Item: placement.Item{ID: id, Hold: early[id]}, Refusal: why}})
		}
	}
}

// fails reports whether an item is a task that does not wait for room.
func (p *PlacementAdapter) fails(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	w, ok := p.tasks[id]
	return ok && w.Definition.WhenFull == task.WhenFullFail
}

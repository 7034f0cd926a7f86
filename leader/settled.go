package leader

import (
	"maps"
	"slices"

	"cantina/placement"
	"cantina/task"
)

// maySayNo says whether an item may end because no cell could hold it, or none has room for one
// that does not wait. Before the cells have settled it is remembered instead, for Recheck.
func (m *PlacementAdapter) maySayNo(it placement.Item) bool {
	if m.cfg.Settled() {
		return true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.early[it.ID] = it.Hold
	return false
}

// Recheck ends what would have ended before the cells had settled, and still has no place. It is called whenever a cell's session or offer has changed.
func (m *PlacementAdapter) Recheck() {
	m.mu.Lock()
	none := len(m.early) == 0
	m.mu.Unlock()
	if none || !m.cfg.Settled() {
		return
	}
	m.mu.Lock()
	early := m.early
	m.early = map[string]string{}
	m.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(early)) {
		if _, why, waits := m.house.Explain(id); waits && why != nil && (why.Never || m.fails(id)) {
			m.Waiting([]placement.Refused{{Item: placement.Item{ID: id, Hold: early[id]}, Refusal: why}})
		}
	}
}

// fails reports whether an item is a task that does not wait for room.
func (m *PlacementAdapter) fails(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	w, ok := m.tasks[id]
	return ok && w.Definition.WhenFull == task.WhenFullFail
}

package market

import (
	"maps"
	"slices"

	"cantina/placement"
)

// maySayNever says whether an item may end because no cell could hold it. Before the
// cells have settled it is remembered instead, for Recheck.
func (m *Market) maySayNever(it placement.Item) bool {
	if m.cfg.Settled() {
		return true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.early[it.ID] = it.Hold
	return false
}

// Recheck ends what was found too large for every cell before the cells had settled,
// and still is. It is called whenever a cell's session or offer has changed.
func (m *Market) Recheck() {
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
		if _, why, waits := m.house.Explain(id); waits && why != nil && why.Never {
			m.Waiting([]placement.Refused{{Item: placement.Item{ID: id, Hold: early[id]}, Refusal: why}})
		}
	}
}

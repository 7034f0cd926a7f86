package node

import (
	"maps"
	"slices"
	"time"

	"cantina/placement"
)

// joinGrace is how long a term leaves to cells that were never members to join,
// before work is called too large for every cell.
const joinGrace = 5 * time.Second

// settled says that the cells have had their time to join: the initial wait is over,
// every member has reported, and joinGrace has passed since the term began.
func (t *term) settled() bool {
	if t.reg == nil || t.cfg.Clock.Boot()-t.began < joinGrace || t.reg.Wait().Active {
		return false
	}
	for _, s := range t.reg.Sessions() {
		if s.Member && !s.Reported && !s.Dead && !s.Displaced {
			return false
		}
	}
	return true
}

// maySayNever says whether an item may end because no cell could hold it. Before the
// cells have settled it is remembered instead, for recheck.
func (m *market) maySayNever(item string) bool {
	if m.settled() {
		return true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.early[item] = true
	return false
}

// recheck ends what was found too large for every cell before the cells had settled,
// and still is.
func (m *market) recheck() {
	m.mu.Lock()
	none := len(m.early) == 0
	m.mu.Unlock()
	if none || !m.settled() {
		return
	}
	m.mu.Lock()
	items := slices.Sorted(maps.Keys(m.early))
	clear(m.early)
	m.mu.Unlock()
	for _, id := range items {
		if _, why, waits := m.house.Explain(id); waits && why != nil && why.Never {
			m.Waiting([]placement.Refused{{Item: placement.Item{ID: id}, Refusal: why}})
		}
	}
}

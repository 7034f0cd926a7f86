package bbs

import (
	"sync"

	"cantina/lrp"
)

// HeldByWait is why tasks and exclusive instances are not placed while rows may be older than the
// cells' work.
const HeldByWait = "initial wait: the store is new, restored or moved, and a cell that has not reported yet may run it"

// held is the work whose placement is not requested yet: no cell could start it, and a reservation
// would only use resources. Its lock comes after those of the board and of the sessions.
type held struct {
	mu    sync.Mutex
	lrps  map[lrp.Key]bool
	tasks map[TaskID]bool
}

// back keeps the work that must wait, reports it, and returns the rest. stale is called under the
// lock: kept work is there when the end of the wait is reported.
func (h *held) back(stale func() bool, lrps []LRPWant, tasks []TaskWant, report func([]lrp.Key, []TaskID)) ([]LRPWant,
	[]TaskWant) {
	h.mu.Lock()
	if !stale() {
		h.mu.Unlock()
		return lrps, tasks
	}
	var free []LRPWant
	var keys []lrp.Key
	var ids []TaskID
	for _, w := range lrps {
		if !w.Desired.Exclusive {
			free = append(free, w)
			continue
		}
		h.lrps[w.Key] = true
		keys = append(keys, w.Key)
	}
	for _, w := range tasks {
		id := TaskID{w.GUID, w.UID}
		h.tasks[id] = true
		ids = append(ids, id)
	}
	h.mu.Unlock()
	if len(keys)+len(ids) > 0 {
		report(keys, ids)
	}
	return free, nil
}

// only returns the items of all that are in the set.
func only[T any, K comparable](all []T, set map[K]bool, key func(T) K) []T {
	var out []T
	for _, x := range all {
		if set[key(x)] {
			out = append(out, x)
		}
	}
	return out
}

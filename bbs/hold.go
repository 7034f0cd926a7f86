package bbs

import (
	"sync"

	"cantina/lrp"
)

// HeldByWait is why tasks and exclusive instances get no place while rows may be older than
// what cells run.
const HeldByWait = "initial wait: the store is new, restored or moved, and a cell that has not reported yet may run it"

// held is the work for which no place is asked for yet: no cell would be allowed to start it, and
// a reservation there would only take room. It comes after the locks of the board and of
// the sessions.
type held struct {
	mu    sync.Mutex
	lrps  map[lrp.Key]bool
	tasks map[TaskID]bool
}

// back keeps what has to wait, tells of it, and returns the rest. blind is asked under the lock:
// what it keeps is there when the end of the wait is told.
func (h *held) back(stale func() bool, lrps []LRPWant, tasks []TaskWant, tell func([]lrp.Key, []TaskID)) ([]LRPWant, []TaskWant) {
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
		tell(keys, ids)
	}
	return free, nil
}

// only returns what of all is in the set.
func only[T any, K comparable](all []T, set map[K]bool, key func(T) K) []T {
	var out []T
	for _, x := range all {
		if set[key(x)] {
			out = append(out, x)
		}
	}
	return out
}

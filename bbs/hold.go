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

// request asks for places, but for what has to wait until the rows are believed: that stays
// UNCLAIMED or PENDING, and says why.
func (b *BBS) request(lrps []LRPWant, tasks []TaskWant) {
	lrps, tasks = b.held.back(b.cfg.Sessions.Blind, lrps, tasks, b.sayHeld)
	if len(lrps)+len(tasks) > 0 {
		b.cfg.Auctioneer.Request(lrps, tasks)
	}
}

// back keeps what has to wait, tells of it, and returns the rest. blind is asked under the lock:
// what it keeps is there when the end of the wait is told.
func (h *held) back(blind func() bool, lrps []LRPWant, tasks []TaskWant, tell func([]lrp.Key, []TaskID)) ([]LRPWant, []TaskWant) {
	h.mu.Lock()
	if !blind() {
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

// sayHeld writes the reason into the rows.
func (b *BBS) sayHeld(lrps []lrp.Key, tasks []TaskID) {
	b.refuse(lrps, tasks, HeldByWait)
}

// StartsChanged tells that more may start: the initial wait is over, or a cell may be given work.
func (b *BBS) StartsChanged() {
	h := &b.held
	h.mu.Lock()
	if len(h.lrps)+len(h.tasks) == 0 || b.cfg.Sessions.Blind() {
		h.mu.Unlock()
		return
	}
	keys, ids := h.lrps, h.tasks
	h.lrps, h.tasks = map[lrp.Key]bool{}, map[TaskID]bool{}
	h.mu.Unlock()
	lrps, tasks := b.Pending()
	b.request(only(lrps, keys, func(w LRPWant) lrp.Key { return w.Key }), only(tasks, ids, func(w TaskWant) TaskID { return TaskID{w.GUID, w.UID} }))
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

// RequestPending asks for a place for everything that waits for one, at the beginning of a term.
func (b *BBS) RequestPending() { b.request(b.Pending()) }

package bbs

import (
	"slices"

	"cantina/lrp"
	"cantina/task"
)

// effects performs the effects of a durable change, and receives their results: requests for
// placement, calls to cells, and deliveries of ends.
type effects struct {
	*rows
	held held // work without a request for placement yet
}

// Unplaced is an instance that no cell took, and why.
type Unplaced struct {
	Key    lrp.Key
	Reason string
}

// unplacedAtOnce is how many are recorded in one change at most: the others wait for its decision.
const unplacedAtOnce = 500

// PlacementFailed records why no cell took some instances, many in one change.
func (ef *effects) PlacementFailed(all ...Unplaced) {
	for some := range slices.Chunk(all, unplacedAtOnce) {
		ef.quiet(func(t *tx) error {
			for _, x := range some {
				if err := t.step(x.Key, lrp.PlacementFailed{Reason: x.Reason}); err != nil {
					ef.cfg.Log.Debug("event arrived too late", "error", err)
				}
			}
			return nil
		})
	}
}

// TaskRejected records why no cell took a task; never means that no cell ever could.
func (ef *effects) TaskRejected(guid, uid, reason string, never bool) {
	ef.quiet(func(t *tx) error { return t.stepTask(guid, task.Reject{UID: uid, Reason: reason, Never: never}) })
}

// TaskRefused records why the chosen cell refused a task; the auction continues with it. (Diego
// dev notes, Task Lifecycle.)
func (ef *effects) TaskRefused(guid, uid, reason string) {
	ef.quiet(func(t *tx) error {
		return t.stepTask(guid, task.Reject{UID: uid, Reason: reason, Carried: true})
	})
}

// send passes the end of a task to the deliverer. Until the result arrives the task is not
// demoted.
func (ef *effects) send(t *task.Task) {
	if t.State != task.Resolving {
		return // the end was replaced, or the task deleted, in the same commit
	}
	ef.sending(t.Delivery(), true)
	if !ef.cfg.Callbacks.Send(t) {
		ef.sending(t.Delivery(), false)
	}
}

func (ef *effects) sending(d task.Delivery, on bool) {
	ef.mu.Lock()
	defer ef.mu.Unlock()
	ef.tasks.Sending(d, on)
}

// Delivers reports whether a verdict on a task is still to be delivered: it is the newest, and
// the task RESOLVING.
func (ef *effects) Delivers(d task.Delivery) bool {
	row := ef.view.task(d.GUID)
	return row != nil && row.State == task.Resolving && row.Delivery() == d
}

// CallbackDone handles the result of a run of attempts to deliver the end of a task.
func (ef *effects) CallbackDone(d task.Delivery, delivered bool, problem string) {
	ef.quiet(func(t *tx) error {
		return t.stepTask(d.GUID, task.CallbackDone{UID: d.UID, Verdict: d.Verdict, Delivered: delivered, Error: problem})
	})
}

// refuse records for many items, in one change, why they cannot be placed.
func (ef *effects) refuse(lrps []lrp.Key, tasks []TaskID, reason string) {
	ef.quiet(func(t *tx) error {
		for _, k := range lrps {
			if err := t.step(k, lrp.PlacementFailed{Reason: reason}); err != nil {
				ef.cfg.Log.Debug("event arrived too late", "error", err)
			}
		}
		for _, id := range tasks {
			if err := t.stepTask(id.GUID, task.Reject{UID: id.UID, Reason: reason, Carried: true}); err != nil {
				ef.cfg.Log.Debug("event arrived too late", "error", err)
			}
		}
		return nil
	})
}

// Pending returns everything that waits for a place.
func (ef *effects) Pending() ([]LRPWant, []TaskWant) {
	v := ef.view
	var lrps []LRPWant
	now := ef.cfg.Clock.Wall()
	instances, guids := v.keysInOrder()
	for _, k := range instances {
		if w, ok := v.want(k.key); ok && !now.Before(v.notBefore(k.key)) {
			lrps = append(lrps, w)
		}
	}
	var tasks []TaskWant
	for _, g := range guids {
		if t := v.task(g); t != nil && t.State == task.Pending {
			tasks = append(tasks, TaskWant{GUID: t.GUID, UID: t.UID, Domain: t.Domain, Definition: t.Definition})
		}
	}
	return lrps, tasks
}

// request requests placements, except for work that must wait until the rows are trusted: that
// stays UNCLAIMED or PENDING, with the reason.
func (ef *effects) request(lrps []LRPWant, tasks []TaskWant) {
	lrps, tasks = ef.held.back(ef.cfg.Sessions.Stale, lrps, tasks, ef.sayHeld)
	if len(lrps)+len(tasks) > 0 {
		ef.cfg.Auctioneer.Request(lrps, tasks)
	}
}

// sayHeld writes the reason into the rows.
func (ef *effects) sayHeld(lrps []lrp.Key, tasks []TaskID) {
	ef.refuse(lrps, tasks, HeldByWait)
}

// StartsChanged: more work may start. The initial wait is over, or a cell may get work.
func (ef *effects) StartsChanged() {
	h := &ef.held
	h.mu.Lock()
	if len(h.lrps)+len(h.tasks) == 0 || ef.cfg.Sessions.Stale() {
		h.mu.Unlock()
		return
	}
	keys, ids := h.lrps, h.tasks
	h.lrps, h.tasks = map[lrp.Key]bool{}, map[TaskID]bool{}
	h.mu.Unlock()
	lrps, tasks := ef.Pending()
	ef.request(only(lrps, keys, func(w LRPWant) lrp.Key { return w.Key }),
		only(tasks, ids, func(w TaskWant) TaskID { return TaskID{w.GUID, w.UID} }))
}

// RequestPending requests a placement for all waiting work, at the beginning of a term.
func (ef *effects) RequestPending() { ef.request(ef.Pending()) }

// act performs the effects of a durable change.
func (ef *effects) act(t *tx) {
	var lrps []LRPWant
	var tasks []TaskWant
	var noLRPs []lrp.Key
	var noTasks []TaskID
	dropped, again := t.dropped()
	for _, e := range t.lrpEffects {
		switch e := e.(type) {
		case lrp.RequestAuction:
			if w, ok := ef.view.want(e.Key); ok {
				w.Dropped = dropped[e.Key]
				lrps = append(lrps, w)
			}
		case lrp.WithdrawAuction:
			noLRPs = append(noLRPs, e.Key)
		case lrp.StopInstance:
			ef.cfg.Cells.StopInstance(e.Key, e.Who)
		case lrp.AttemptDropped: // goes with the request for another place
		case lrp.CrashNoted, lrp.PreemptionNoted: // went out as an event
		}
	}
	for _, e := range t.taskEffects {
		switch e := e.(type) {
		case task.RequestAuction:
			if row := ef.view.task(e.GUID); row != nil && row.UID == e.UID && row.State == task.Pending {
				tasks = append(tasks, TaskWant{GUID: row.GUID, UID: row.UID, Domain: row.Domain, Definition: row.Definition,
					Dropped: again[TaskID{e.GUID, e.UID}]})
			}
		case task.WithdrawAuction:
			noTasks = append(noTasks, TaskID{e.GUID, e.UID})
		case task.AttemptDropped: // goes with the request for another place
		case task.CancelContainer:
			ef.cfg.Cells.CancelTask(e.Holder, e.GUID, e.UID)
		case task.CallBack:
			if row := ef.view.task(e.GUID); row != nil && row.UID == e.UID {
				ef.send(row)
			}
		}
	}
	if len(noLRPs)+len(noTasks) > 0 {
		ef.cfg.Auctioneer.Withdraw(noLRPs, noTasks)
	}
	if len(lrps)+len(tasks) > 0 {
		ef.request(lrps, tasks)
	}
}

package registry

import (
	"context"
	"maps"
	"slices"

	"cantina/batch"
	"cantina/worker"
)

// runBatch is how many runTasks go in one call at most.
const runBatch = 500

// queueKey identifies items that may be sent in one call: the same process, and the same notify
// sequence number.
type queueKey struct {
	cell worker.CellName
	proc worker.Proc
	seq  int64
}

// runQueue is the runTasks of one key: one call at a time, later items are collected for the next.
type runQueue struct{ waiting []worker.RunTask }

// queueRun adds one runTask to its queue. The lock is held.
func (r *Registry) queueRun(e worker.SendRun) {
	key := queueKey{e.Cell, e.Call.Proc, e.Call.Seq}
	if r.over != nil {
		return
	}
	if l := r.runQueues[key]; l != nil {
		l.waiting = append(l.waiting, e.Call)
		return
	}
	l := &runQueue{waiting: []worker.RunTask{e.Call}}
	r.runQueues[key] = l
	r.spawn(func() { r.drainQueue(r.ctx, key, l) })
}

// drainQueue makes calls until nothing waits.
func (r *Registry) drainQueue(ctx context.Context, key queueKey, l *runQueue) {
	for {
		r.mu.Lock()
		n := min(len(l.waiting), runBatch)
		calls := l.waiting[:n:n]
		l.waiting = l.waiting[n:]
		payloads := make([]*batch.Payload, n)
		for i, c := range calls {
			payloads[i] = r.payloads[c.Invocation]
			delete(r.payloads, c.Invocation)
		}
		if n == 0 {
			delete(r.runQueues, key)
		}
		r.mu.Unlock()
		if n == 0 {
			return
		}
		r.runTasks(ctx, key.cell, calls, payloads)
	}
}

func (r *Registry) runTasks(ctx context.Context, cell worker.CellName, calls []worker.RunTask, payloads []*batch.Payload) {
	got, err := r.cfg.Cells.RunTasks(ctx, cell, calls, payloads)
	result := worker.RunUnknown
	if err != nil {
		r.debug("RunTasks", cell, err)
		if r.cfg.Cells.NeverSent(err) {
			result = worker.RunNeverSent
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	next := 0
	for _, c := range calls {
		if c.Probe > 0 {
			continue
		}
		a := worker.RunAnswer{Term: c.Term, Proc: c.Proc, Run: c.Run, Result: result}
		if err != nil {
			a.Reason = err.Error()
		} else if next < len(got) {
			a = got[next]
		}
		next++
		if r.stepLocked(worker.RunAnswered{Answer: a}) != nil {
			return // the term is over: no other error is possible
		}
	}
}

// killKey names the process whose kills are sent in one call.
type killKey struct {
	cell worker.CellName
	proc worker.Proc
}

// queueKill adds one killTask to those that wait for its process: one call at a time, later ones
// are collected for the next, each run once. Ending a large job must not use a connection for each
// of its tasks.
func (r *Registry) queueKill(e worker.SendKill) {
	key := killKey{e.Cell, e.Call.Proc}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over != nil {
		return
	}
	if waiting := r.kills[key]; waiting != nil {
		waiting[e.Call.Run] = e.Call
		return
	}
	r.kills[key] = map[worker.Run]worker.KillTask{e.Call.Run: e.Call}
	r.spawn(func() { r.runKills(r.ctx, key) })
}

// runKills makes calls until nothing waits.
func (r *Registry) runKills(ctx context.Context, key killKey) {
	for {
		r.mu.Lock()
		waiting := r.kills[key]
		if len(waiting) == 0 {
			delete(r.kills, key)
			r.mu.Unlock()
			return
		}
		r.kills[key] = map[worker.Run]worker.KillTask{}
		r.mu.Unlock()
		calls := slices.SortedFunc(maps.Values(waiting), func(a, b worker.KillTask) int { return a.Run.Compare(b.Run) })
		for part := range slices.Chunk(calls, runBatch) {
			r.debug("KillTask", key.cell, r.cfg.Cells.KillTask(ctx, key.cell, part))
		}
	}
}

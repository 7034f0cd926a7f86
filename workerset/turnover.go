package workerset

import "slices"

// turnover is the queue of newcomers (Bistro worker-set consensus, "Future: dealing with high
// worker turnover"). When limit newcomers have joined since the cells last agreed, further ones
// wait outside the set: they take no work and count in no consensus. Losses are never queued, so
// the set inside can only shrink until it agrees; then the queue is admitted as one batch, and
// others wait until that batch agrees. Time to agreement is at most cells × one agreement.
type turnover struct {
	limit int
	joins int // since the last agreement
	queue []string
}

func (t *turnover) full() bool { return t.limit > 0 && t.joins >= t.limit }

func (t *turnover) waits(proc string) bool { return slices.Contains(t.queue, proc) }

func (t *turnover) enqueue(proc string) { t.queue = append(t.queue, proc) }

func (t *turnover) dequeue(proc string) bool {
	n := len(t.queue)
	t.queue = slices.DeleteFunc(t.queue, func(q string) bool { return q == proc })
	return len(t.queue) < n
}

// Queued is the number of newcomers that wait outside the set.
func (t *Tracker) Queued() int { return len(t.queue) }

// admitTurnover records the permitted cells and, if all are, admits the queue.
func (t *Tracker) admitTurnover() {
	all := true
	for proc, m := range t.members {
		if m.dead {
			continue
		}
		m.permitted = m.permitted || t.Permits(proc)
		all = all && m.permitted
	}
	if !all {
		return
	}
	t.joins = 0
	queue := t.queue
	t.queue = nil
	for _, n := range queue {
		t.join(n)
	}
	if len(queue) > 0 {
		t.joins = max(t.joins, t.limit)
	}
}

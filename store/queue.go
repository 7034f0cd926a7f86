package store

import (
	"fmt"
	"time"
)

// Room that one write and one transaction take beside keys and values. Estimates
// on the large side, checked against etcd by a test.
const (
	opOverhead  = 48
	txnOverhead = 4096
)

// item is one queued transition.
type item struct {
	ops      []Op
	done     func(int64, error)
	bytes    int
	at       time.Duration // of its submission, if that is measured
	clear    bool          // take away the Restored mark
	resolves bool          // an operator's answer to a quarantined row
	err      error         // refused: only waits for its turn
}

// batch is the content of one transaction.
type batch struct {
	items []item
	ops   []Op // coalesced: one per key, the last wins, in order of first mention
	bytes int
	clear bool
}

// empty reports whether the batch needs no transaction.
func (b batch) empty() bool { return len(b.ops) == 0 && !b.clear }

// weigh returns the estimated size of the transition's writes, and ErrTooLarge or
// ErrBadKey when no transaction can hold them.
func weigh(t Transition, l Limits) (int, error) {
	bytes := 0
	keys := len(t.Ops)
	if keys > l.Ops {
		keys = distinct(t.Ops)
	}
	for _, op := range t.Ops {
		if op.Key == "" {
			return 0, fmt.Errorf("transition of %d rows: %w", len(t.Ops), ErrBadKey)
		}
		bytes += len(op.Key) + len(op.Value) + opOverhead
	}
	if keys > l.Ops {
		return bytes, fmt.Errorf("transition of %d rows, limit %d: %w", keys, l.Ops, ErrTooLarge)
	}
	if bytes > l.Bytes {
		return bytes, fmt.Errorf("transition of %d bytes, limit %d: %w", bytes, l.Bytes, ErrTooLarge)
	}
	return bytes, nil
}

func distinct(ops []Op) int {
	seen := make(map[string]struct{}, len(ops))
	for _, op := range ops {
		seen[op.Key] = struct{}{}
	}
	return len(seen)
}

// queue holds the waiting transitions in order of submission.
type queue struct {
	items []item
	first int // items before it are taken
	live  int // waiting items that are not refused
}

func (q *queue) len() int { return len(q.items) - q.first }

func (q *queue) push(i item) {
	if q.first > 1024 && q.first > len(q.items)/2 {
		q.items = append(q.items[:0], q.items[q.first:]...)
		clear(q.items[len(q.items):cap(q.items)])
		q.first = 0
	}
	q.items = append(q.items, i)
	q.count(i, 1)
}

func (q *queue) count(i item, by int) {
	if i.err == nil {
		q.live += by
	}
}

// cut takes the longest run of whole transitions that fits the limits, at least
// one when there is any.
func (q *queue) cut(l Limits) batch {
	var b batch
	at := make(map[string]int)
	n := 0
	for _, i := range q.items[q.first:] {
		fresh := 0
		for _, op := range i.ops {
			if _, ok := at[op.Key]; !ok {
				fresh++
			}
		}
		if n > 0 && (len(b.ops)+fresh > l.Ops || b.bytes+i.bytes > l.Bytes) {
			break
		}
		n++
		q.count(i, -1)
		b.add(i, at)
	}
	b.items = append([]item(nil), q.items[q.first:q.first+n]...)
	clear(q.items[q.first : q.first+n])
	q.first += n
	if q.first == len(q.items) {
		q.items, q.first = q.items[:0], 0
	}
	return b
}

// add coalesces one transition into the batch; at maps a key to its place in ops.
func (b *batch) add(i item, at map[string]int) {
	b.clear = b.clear || i.clear
	for _, op := range i.ops {
		size := len(op.Key) + len(op.Value) + opOverhead
		if k, ok := at[op.Key]; ok {
			b.bytes -= len(b.ops[k].Key) + len(b.ops[k].Value) + opOverhead
			b.ops[k] = op
		} else {
			at[op.Key] = len(b.ops)
			b.ops = append(b.ops, op)
		}
		b.bytes += size
	}
}

// putBack returns a cut batch to the front of the queue.
func (q *queue) putBack(b batch) {
	q.items = append(append(make([]item, 0, len(b.items)+q.len()), b.items...), q.items[q.first:]...)
	q.first = 0
	for _, i := range b.items {
		q.count(i, 1)
	}
}

package store

import (
	"fmt"
	"slices"
	"strings"
)

// Quarantine is a row that its owner could not decode. It stays in the store as it
// is and counts as existing for its key: nothing is started, nothing deleted for
// it, until an operator drops or restores it.
type Quarantine struct {
	Key    string
	Reason string
	Bytes  []byte
}

// quarantined is a registered row; answered when an operator's answer to it waits
// for its commit.
type quarantined struct {
	Quarantine
	answered bool
}

// Quarantine registers a row of the load that its owner cannot use. From then on,
// Submit refuses every transition that touches it (ErrQuarantined).
func (r *Leadership) Quarantine(q Quarantine) {
	r.mu.Lock()
	r.quarantine[q.Key] = quarantined{Quarantine: q}
	r.mu.Unlock()
	r.store.cfg.Log.Warn("row quarantined", "key", q.Key, "reason", q.Reason, "bytes", len(q.Bytes))
}

// IsQuarantined reports whether the row of a key is quarantined in this term.
func (r *Leadership) IsQuarantined(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.quarantine[key]
	return ok
}

// Quarantined lists the quarantined rows, by key.
func (r *Leadership) Quarantined() []Quarantine {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]Quarantine, 0, len(r.quarantine))
	for _, q := range r.quarantine {
		list = append(list, q.Quarantine)
	}
	slices.SortFunc(list, func(a, b Quarantine) int { return strings.Compare(a.Key, b.Key) })
	return list
}

func (r *Leadership) touchesQuarantine(ops []Op) error {
	for _, op := range ops {
		if _, ok := r.quarantine[op.Key]; ok {
			return fmt.Errorf("write %s: %w", op.Key, ErrQuarantined)
		}
	}
	return nil
}

// Drop deletes a quarantined row permanently: an operator's decision that it is not wanted. done
// is called as by Submit, after the row has left the registry; ErrNotQuarantined if there is no
// such row.
func (r *Leadership) Drop(key string, done func(revision int64, err error)) {
	r.resolve(Op{Key: key}, done)
}

// Restore puts value in place of a quarantined row: the row itself when nil (a
// newer version can read it), else an operator's repair. The caller has decoded it
// before, and loads it in done, which is called as by Submit after the row has
// left the registry; ErrNotQuarantined when there is no such row.
func (r *Leadership) Restore(key string, value []byte, done func(revision int64, err error)) {
	if value == nil {
		r.mu.Lock()
		value = append([]byte{}, r.quarantine[key].Bytes...)
		r.mu.Unlock()
	}
	r.resolve(Op{Key: key, Value: value}, done)
}

// resolve commits the one write to a quarantined row that is allowed.
func (r *Leadership) resolve(op Op, done func(int64, error)) {
	i := item{ops: []Op{op}, resolves: true, done: func(revision int64, err error) {
		r.resolved(op.Key, err)
		if done != nil {
			done(revision, err)
		}
	}}
	i.bytes, i.err = weigh(Transition{Ops: i.ops}, r.limits)
	r.mu.Lock()
	q, ok := r.quarantine[op.Key]
	if ok && !q.answered {
		q.answered = true
		r.quarantine[op.Key] = q
	} else {
		i.err, i.done = fmt.Errorf("resolve %s: %w", op.Key, ErrNotQuarantined), done
	}
	r.mu.Unlock()
	r.submit(i)
}

func (r *Leadership) resolved(key string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		delete(r.quarantine, key)
		return
	}
	q := r.quarantine[key]
	q.answered = false
	r.quarantine[key] = q
}

package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	disk "cantina/store"
)

// errTermOver is the result of a waiting commit if the term ends first.
var errTermOver = errors.New("the term is over")

// termStore is the store of one term, as store.Leadership is to the shells: their submissions
// become durable in order, together with those of the members' list.
type termStore struct{ r *leadership }

// Submit queues a transition. done gets its revision after the commit and before the effects that
// follow it, or an error if the term ends before; nothing if the process dies.
func (t termStore) Submit(x disk.Transition, done func(revision int64, err error)) {
	for _, o := range x.Ops {
		if t.r.bad[o.Key] != nil {
			t.r.put(item{refused: fmt.Errorf("write %s: %w", o.Key, disk.ErrQuarantined), landed: done})
			return
		}
	}
	t.write(x, done)
}

func (t termStore) write(x disk.Transition, done func(revision int64, err error)) {
	r := t.r
	r.put(item{ops: r.opsOf(x.Ops), landed: done, alone: r.tight})
}

// Fits refuses a change of more than one row while the caller requests it: then a manifest is
// written.
func (t termStore) Fits(x disk.Transition) error {
	if t.r.tight && len(x.Ops) > 1 {
		return disk.ErrTooLarge
	}
	return nil
}

// ClearRestored takes the mark of a restored store away.
func (t termStore) ClearRestored(done func(revision int64, err error)) {
	t.r.put(item{ops: []op{{restoredKey{}, nil}}, landed: done})
}

// LeaseHeld reports that no other server can lead.
func (t termStore) LeaseHeld() bool { return t.r.leaseHeld() }

// NoRoom reports that the store is full, as store.Leadership does.
func (t termStore) NoRoom() error {
	if refuses(t.r.s.w) {
		return disk.ErrFull
	}
	return nil
}

// Wait applies no back pressure.
func (t termStore) Wait(context.Context) error { return nil }

// WriteManifest writes the steps of a manifest one by one, its marker last.
func (t termStore) WriteManifest(m disk.Manifest, done func(revision int64, err error)) {
	all := m.Transitions()
	for _, x := range all[:len(all)-1] {
		t.Submit(x, nil)
	}
	t.Submit(all[len(all)-1], done)
}

// Quarantine sets a row aside: nothing writes it until it is dropped or restored.
func (t termStore) Quarantine(q disk.Quarantine) {
	t.r.s.w.trace("  store: %s is quarantined: %s", q.Key, q.Reason)
	t.r.bad[q.Key] = &aside{Quarantine: q}
	delete(t.r.newest, q.Key)
}

// Quarantined lists the quarantined rows.
func (t termStore) Quarantined() []disk.Quarantine {
	var out []disk.Quarantine
	for _, key := range slices.Sorted(maps.Keys(t.r.bad)) {
		out = append(out, t.r.bad[key].Quarantine)
	}
	return out
}

// Drop deletes a quarantined row.
func (t termStore) Drop(key string, done func(revision int64, err error)) {
	t.resolve(disk.Op{Key: key}, done)
}

// Restore puts value in its place; nil: the row as it was.
func (t termStore) Restore(key string, value []byte, done func(revision int64, err error)) {
	if value == nil {
		value = slices.Clone(t.r.bad[key].Bytes)
	}
	t.resolve(disk.Op{Key: key, Value: value}, done)
}

func (t termStore) resolve(o disk.Op, done func(revision int64, err error)) {
	q := t.r.bad[o.Key]
	if q == nil || q.answered {
		t.r.put(item{refused: disk.ErrNotQuarantined, landed: done})
		return
	}
	q.answered = true
	t.write(disk.Transition{Ops: []disk.Op{o}}, func(revision int64, err error) {
		if err == nil {
			delete(t.r.bad, o.Key)
		}
		if done != nil {
			done(revision, err)
		}
	})
}

// Get reads one committed row.
func (t termStore) Get(_ context.Context, key string) (disk.Row, bool, error) {
	if t.r.s.storeCut() || !t.r.leaseHeld() {
		return disk.Row{}, false, disk.ErrLeaseNotProven
	}
	row, ok := t.r.s.w.store.get(key)
	return row, ok, nil
}

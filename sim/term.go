package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"cantina/bbs"
	"cantina/internal/run"
	"cantina/leader"
	"cantina/registry"
	"cantina/scheduler"
	disk "cantina/store"
	"cantina/task"
	"cantina/timetable"
)

// saved is a row that a shell has encoded. Its key in the storage is the text that the
// shell gave it. It is never changed after its commit.
type saved struct {
	value    []byte
	revision int64         // of its commit
	row      any           // content of the value, for the checks; nil if not needed
	sound    []byte        // the value before it was corrupted; nil = it is as it was written
	at       time.Duration // true time when it was decided
}

// aside is a row that a term has quarantined.
type aside struct {
	disk.Quarantine
	answered bool // an operator's answer is on its way
}

// decode reads a row of any shell.
func decode(x disk.Row) (any, error) {
	if r, ok, err := scheduler.ReadRow(x.Key, x.Value); ok {
		return r, err
	}
	if r, ok, err := timetable.ReadRow(leader.TimetableContents{}, x.Key, x.Value); ok {
		return r, err
	}
	if r, err := registry.Decode(x); r != nil || err != nil {
		return r, err
	}
	return bbs.Decode(x)
}

// open decodes a value of a shell.
func (w *world) open(key string, value []byte) *saved {
	row, err := decode(disk.Row{Key: key, Value: value})
	if err != nil {
		w.fail("I8", "a row is written that nobody can read: %v", err)
	}
	return &saved{value: value, row: row, at: w.now}
}

// sameAs has a row that is written once more, as it was, decided when it was.
func (x *saved) sameAs(val any) {
	was, ok := val.(*saved)
	if !ok {
		return
	}
	before, _ := was.row.(*task.Task)
	if t, ok := x.row.(*task.Task); ok && before != nil && before.UID == t.UID && before.Updated.Equal(t.Updated) {
		x.at = was.at
	}
}

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

// get returns a row that a shell has written.
func (s *storage) get(key string) (disk.Row, bool) {
	if x, ok := s.rows[key].(*saved); ok {
		return disk.Row{Key: key, Value: x.value, Revision: x.revision}, true
	}
	return disk.Row{}, false
}

// rowsOf returns the rows that shells have written under a prefix, in order: the load of a term
// begins with them.
func (s *storage) rowsOf(prefix string) []disk.Row {
	var out []disk.Row
	for _, key := range s.texts() {
		if strings.HasPrefix(key, prefix) && !strings.HasPrefix(key, disk.DataPrefix) {
			row, _ := s.get(key)
			out = append(out, row)
		}
	}
	return out
}

// texts lists the keys of the rows that shells have written.
func (s *storage) texts() []string {
	var out []string
	for k := range s.rows {
		if text, ok := k.(string); ok {
			out = append(out, text)
		}
	}
	slices.Sort(out)
	return out
}

// setWall sets the wall clock of a server that begins a term: it is wrong by less than a second.
// From then on it runs as the machine's own clock does, and steps when there are schedules.
func (s *server) setWall() {
	s.wall = epoch().Add(s.w.now + s.w.between(-time.Second, time.Second) - s.local())
}

// kernel is the clocks of a server as its shells read them.
func (s *server) kernel() run.Clock {
	return run.Clock{Wall: func() time.Time { return s.wall.Add(s.local() + s.w.plans.off(s.id)) }, Boot: s.local}
}

package leader

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"cantina/bbs"
	"cantina/fault"
	"cantina/plan"
	"cantina/registry"
	"cantina/store"
	"cantina/worker"
)

// ErrDrainUnreadable: the row of the cell's drain cannot be read; undrain takes it back.
var ErrDrainUnreadable = fault.New(fault.ErrConflict, "its drain cannot be read")

// DrainStore is the part of the won term that the drains need: store.Leadership.
type DrainStore interface {
	Quarantine(q store.Quarantine)
	Quarantined() []store.Quarantine
	Drop(key string, done func(revision int64, err error))
	Restore(key string, value []byte, done func(revision int64, err error))
}

// DrainOrder is an order to a cell: to drain, or (Undo) to stop draining. ID is the drain in
// either case.
type DrainOrder struct {
	ID, Reason string
	Deadline   time.Duration
	StopBatch  bool
	Undo       bool
}

// DrainReport is a cell's report of its drain in a heartbeat: its id, whether its deadline has
// ended the rest, and a description of the remaining work.
type DrainReport struct {
	Draining bool
	ID       string
	Over     bool
	Waits    []string
}

// Drains has the drains of one term: an operator's stored intent to drain a cell, the orders to
// the cell, and the end. It has them as submitted, for the next decision, and as committed, for
// everything else. Values in the maps are never changed. Its methods are safe for concurrent use.
// (Diego dev notes, Evacuation.)
//
//	Drain, Undrain ──► committed with the board's rows ──► placement, call to the cell
//	heartbeat ──► call to the cell if it follows another drain ──► ended when no work is left
type Drains struct {
	leader *Leader

	mu                sync.Mutex
	newest, committed map[worker.CellName]*registry.Drain
	said              map[worker.CellName]DrainReport
}

// newDrains reads the drains of a load. One that cannot be read is quarantined. Until l has its
// board they only answer.
func newDrains(l *Leader, rows []store.Row) *Drains {
	all := registry.Drains(rows, l.cfg.Store.Quarantined())
	for _, r := range rows {
		if d := all[DrainedCell(r.Key)]; d != nil && d.Until.IsZero() && !d.Quarantined {
			l.cfg.Store.Quarantine(store.Quarantine{Key: r.Key, Reason: d.Reason, Bytes: r.Value})
			d.Quarantined = true
		}
	}
	return &Drains{leader: l, newest: all, committed: maps.Clone(all), said: map[worker.CellName]DrainReport{}}
}

// DrainedCell returns the cell of a drain's row; empty for any other row.
func DrainedCell(key string) worker.CellName {
	name, ok := strings.CutPrefix(key, registry.DrainRow(""))
	if !ok {
		return ""
	}
	return worker.CellName(name)
}

// Of returns the committed drain of a cell, or nil.
func (k *Drains) Of(name worker.CellName) *registry.Drain {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.committed[name]
}

// Submitted returns the newest drain of a cell, which may be on its way to the store.
func (k *Drains) Submitted(name worker.CellName) *registry.Drain {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.newest[name]
}

// All lists the committed drains by the name of their cell.
func (k *Drains) All() []*registry.Drain {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := slices.Collect(maps.Values(k.committed))
	slices.SortFunc(out, func(a, b *registry.Drain) int { return strings.Compare(string(a.Cell), string(b.Cell)) })
	return out
}

func (k *Drains) submit(name worker.CellName, next *registry.Drain) {
	k.mu.Lock()
	defer k.mu.Unlock()
	setDrain(k.newest, name, next)
}

// withdraw takes back a drain that was submitted and not committed.
func (k *Drains) withdraw(name worker.CellName, next, was *registry.Drain) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.newest[name] == next {
		setDrain(k.newest, name, was)
	}
}

// show publishes next to readers, with its revision, and returns the previous value.
func (k *Drains) show(name worker.CellName, next *registry.Drain, revision int64) (before *registry.Drain) {
	k.mu.Lock()
	defer k.mu.Unlock()
	before = k.committed[name]
	shown := next
	if next != nil {
		c := *next
		c.Revision = revision
		shown = &c
	}
	setDrain(k.committed, name, shown)
	if k.newest[name] == next {
		setDrain(k.newest, name, shown)
	}
	return before
}

func setDrain(m map[worker.CellName]*registry.Drain, name worker.CellName, d *registry.Drain) {
	if d == nil {
		delete(m, name)
		return
	}
	m[name] = d
}

// DecideDrain returns the new drain of a cell (nil = none) and the event for it; was itself if
// nothing changes.
type DecideDrain func(was *registry.Drain) (next *registry.Drain, text string, err error)

// Change decides on the newest drain of a cell and commits, once for w's key. It returns
// after the commit.
func (k *Drains) Change(ctx context.Context, w plan.Write, operation string, request []byte, name worker.CellName,
	decide DecideDrain) error {
	_, _, err := k.leader.Board.WriteDecision(ctx, w, operation, request, func(d *bbs.Decision) ([]byte, error) {
		was := k.Submitted(name)
		if w.Expect != 0 && (was == nil || was.Revision != w.Expect) {
			return nil, fmt.Errorf("the drain of cell %s: %w", name, fault.ErrRevision)
		}
		next, text, err := decide(was)
		if err != nil || next == was {
			return nil, err
		}
		op := store.Op{Key: registry.DrainRow(name)}
		if next != nil {
			op = registry.DrainOp(next)
		}
		k.submit(name, next)
		undo := func() { k.withdraw(name, next, was) }
		d.Add(store.Part{Ops: []store.Op{op}, Undo: undo, Done: func(revision int64, err error) {
			if err != nil {
				undo()
				return
			}
			k.changed(name, next, revision, text)
		}})
		return nil, nil
	})
	return err
}

// changed acts on a committed change: placement at once, the cell by a call.
func (k *Drains) changed(name worker.CellName, next *registry.Drain, revision int64, text string) {
	before := k.show(name, next, revision)
	k.leader.drainChanged(name, next, revision, text)
	if next == nil && before != nil {
		k.order(name, DrainOrder{ID: before.ID(), Undo: true}) // also to a cell that has not received or reported it yet
		return
	}
	k.send(name)
}

// send sends the cell its present order, if its last report differs. A lost call is repeated after
// the next heartbeat; so a new process of the cell, and a new leader, need nothing else.
func (k *Drains) send(name worker.CellName) {
	k.mu.Lock()
	said, d := k.said[name], k.committed[name]
	k.mu.Unlock()
	switch {
	case d == nil && said.Draining:
		k.order(name, DrainOrder{ID: said.ID, Undo: true})
	case d != nil && !d.Until.IsZero() && (!said.Draining || said.ID != d.ID()):
		k.order(name, DrainOrder{ID: d.ID(), Reason: d.Reason, Deadline: d.Left(k.leader.cfg.Clock.Wall()),
			StopBatch: d.StopBatch})
	}
}

// order calls the process that has the cell's name, if any.
func (k *Drains) order(name worker.CellName, o DrainOrder) {
	if s, ok := k.leader.Registry.Session(name); ok {
		k.leader.orderDrain(name, s.Proc, o)
	}
}

// Forget removes the reports of a cell that is gone.
func (k *Drains) Forget(name worker.CellName) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.said, name)
}

// Heard handles the drain report in a heartbeat of a cell that holds its name: the cell gets
// unknown orders, and its drain may have ended.
func (k *Drains) Heard(name worker.CellName, said DrainReport) {
	k.mu.Lock()
	k.said[name] = said
	d := k.committed[name]
	k.mu.Unlock()
	k.send(name)
	if d == nil || !d.Ended.IsZero() || !said.Draining || said.ID != d.ID() {
		return
	}
	lrps, tasks := k.leader.Board.OnCell(string(name))
	if !said.Over && len(said.Waits)+lrps+tasks+k.leader.Registry.OnCell(name) > 0 {
		return
	}
	k.leader.cfg.Go(func(ctx context.Context) {
		err := k.Change(ctx, plan.Write{}, "", nil, name, func(was *registry.Drain) (*registry.Drain, string, error) {
			if was == nil || was.ID() != d.ID() || !was.Ended.IsZero() {
				return was, "", nil
			}
			next := *was
			next.Ended, next.Waited = k.leader.cfg.Clock.Wall(), said.Waits
			return &next, drainEnded(&next), nil
		})
		if err != nil {
			k.leader.log.Debug("end of a drain", "cell", string(name), "error", err) // the next heartbeat tries again
		}
	})
}

// drainEnded describes how a drain ended.
func drainEnded(d *registry.Drain) string {
	if len(d.Waited) == 0 {
		return "drained: no work is left"
	}
	return "the deadline of the drain ended the remaining work: " + strings.Join(d.Waited, ", ")
}

// DrainRequest requests a drain. A zero deadline means the default.
type DrainRequest struct {
	Reason    string
	Deadline  time.Duration
	StopBatch bool
}

// Drain stores a new drain of a cell, in place of an earlier one; normal is its duration if the
// request has none. It returns after the commit: bbs.ErrRevision, bbs.ErrKeyReused, ErrUnreadable.
func (k *Drains) Drain(ctx context.Context, name worker.CellName, n DrainRequest, normal time.Duration,
	w plan.Write) error {
	deadline := cmp.Or(n.Deadline, normal)
	return k.Change(ctx, w, "drain", fmt.Appendf(nil, "%q %v", name, n), name,
		func(was *registry.Drain) (*registry.Drain, string, error) {
			if was != nil && was.Quarantined {
				return nil, "", fmt.Errorf("cell %s: %s: %w", name, was.Reason, ErrDrainUnreadable)
			}
			now := k.leader.cfg.Clock.Wall().Round(0)
			d := &registry.Drain{Cell: name, Reason: n.Reason, By: w.By, Since: now, Until: now.Add(deadline),
				StopBatch: n.StopBatch}
			return d, fmt.Sprintf("drains until %s at the latest: %s", d.Until.UTC().Format(time.RFC3339), n.Reason), nil
		})
}

// Undrain deletes the drain of a cell, if there is one. It returns after the commit, as Drain
// does. Drop deletes a drain with an unreadable row.
func (k *Drains) Undrain(ctx context.Context, name worker.CellName, w plan.Write) error {
	return k.Change(ctx, w, "undrain", []byte(name), name, func(*registry.Drain) (*registry.Drain, string, error) {
		return nil, "takes work again", nil
	})
}

// Drop deletes a quarantined drain; done gets the outcome.
func (k *Drains) Drop(name worker.CellName, done func(err error)) {
	k.leader.cfg.Store.Drop(registry.DrainRow(name), func(revision int64, err error) {
		if err == nil {
			k.submit(name, nil)
			k.changed(name, nil, revision, "takes work again")
		}
		done(err)
	})
}

// Restore restores a quarantined drain whose row has been repaired; done gets the outcome.
// ErrUnreadable if it still cannot be read.
func (k *Drains) Restore(name worker.CellName, row store.Row, done func(err error)) error {
	d := registry.Drains([]store.Row{row}, nil)[name]
	if d == nil || d.Until.IsZero() {
		return fmt.Errorf("restore %s: %w (repair the row in the store first, or undrain the cell)", row.Key,
			ErrDrainUnreadable)
	}
	k.leader.cfg.Store.Restore(row.Key, row.Value, func(revision int64, err error) {
		if err == nil {
			k.submit(name, d)
			k.changed(name, d, revision, "is drained: "+d.Reason)
		}
		done(err)
	})
	return nil
}

package node

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"cantina/api"
	"cantina/bbs"
	"cantina/cell"
	"cantina/event"
	"cantina/registry"
	"cantina/store"
	"cantina/worker"
)

// drains are the stored drains of a term: as submitted, for the next decision, and
// as committed, for everything else. What the maps hold is never changed.
type drains struct {
	mu                sync.Mutex
	newest, committed map[worker.CellName]*registry.Drain
}

// quarantine is where rows go that cannot be read.
type quarantine interface {
	Quarantine(q store.Quarantine)
	Quarantined() []store.Quarantine
}

// newDrains reads the drains of a load. One that cannot be read is quarantined.
func newDrains(q quarantine, rows []store.Row) *drains {
	all := registry.Drains(rows, q.Quarantined())
	for _, r := range rows {
		if d := all[cellOfDrain(r.Key)]; d != nil && d.Until.IsZero() && !d.Quarantined {
			q.Quarantine(store.Quarantine{Key: r.Key, Reason: d.Reason, Bytes: r.Value})
			d.Quarantined = true
		}
	}
	return &drains{newest: all, committed: maps.Clone(all)}
}

// cellOfDrain is the cell whose drain a row is; empty for any other row.
func cellOfDrain(key string) worker.CellName {
	name, ok := strings.CutPrefix(key, registry.DrainRow(""))
	if !ok {
		return ""
	}
	return worker.CellName(name)
}

// of returns the committed drain of a cell, or nil.
func (d *drains) of(name worker.CellName) *registry.Drain {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.committed[name]
}

func (d *drains) submitted(name worker.CellName) *registry.Drain {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.newest[name]
}

func (d *drains) submit(name worker.CellName, next *registry.Drain) {
	d.mu.Lock()
	defer d.mu.Unlock()
	set(d.newest, name, next)
}

// withdraw takes back a drain that was submitted and not committed.
func (d *drains) withdraw(name worker.CellName, next, was *registry.Drain) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.newest[name] == next {
		set(d.newest, name, was)
	}
}

// commit shows next to readers, with its revision.
func (d *drains) commit(name worker.CellName, next *registry.Drain, revision int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	shown := next
	if next != nil {
		c := *next
		c.Revision = revision
		shown = &c
	}
	set(d.committed, name, shown)
	if d.newest[name] == next {
		set(d.newest, name, shown)
	}
}

func set(m map[worker.CellName]*registry.Drain, name worker.CellName, d *registry.Drain) {
	if d == nil {
		delete(m, name)
		return
	}
	m[name] = d
}

// all lists the committed drains by the name of their cell.
func (d *drains) all() []*registry.Drain {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := slices.Collect(maps.Values(d.committed))
	slices.SortFunc(out, func(a, b *registry.Drain) int { return strings.Compare(string(a.Cell), string(b.Cell)) })
	return out
}

// decideDrain returns what a cell's drain is to be (nil = none) and what to say of
// it; was itself when nothing changes.
type decideDrain func(was *registry.Drain) (next *registry.Drain, text string, err error)

// changeDrain decides on the newest drain of a cell and commits, once for w's key.
func (t *term) changeDrain(ctx context.Context, w bbs.Write, operation string, request []byte, name worker.CellName, decide decideDrain) error {
	_, _, err := t.board.WriteDecision(ctx, w, operation, request, func(d *bbs.Decision) ([]byte, error) {
		was := t.drains.submitted(name)
		if w.Expect != 0 && (was == nil || was.Revision != w.Expect) {
			return nil, fmt.Errorf("the drain of cell %s: %w", name, bbs.ErrRevision)
		}
		next, text, err := decide(was)
		if err != nil || next == was {
			return nil, err
		}
		op := store.Op{Key: registry.DrainRow(name)}
		if next != nil {
			op = registry.DrainOp(next)
		}
		t.drains.submit(name, next)
		undo := func() { t.drains.withdraw(name, next, was) }
		d.Add(bbs.Extra{Ops: []store.Op{op}, Undo: undo, Done: func(revision int64, err error) {
			if err != nil {
				undo()
				return
			}
			t.drainChanged(name, next, revision, text)
		}})
		return nil, nil
	})
	return err
}

// drainChanged acts on a committed change: placement at once, the cell by a call.
func (t *term) drainChanged(name worker.CellName, next *registry.Drain, revision int64, text string) {
	t.drains.commit(name, next, revision)
	t.admit(name)
	state := event.CellState{Name: name, Term: t.Term(), Evacuating: next != nil}
	if s, ok := t.reg.Session(name); ok {
		state.Proc, state.Session, state.Reason = s.Proc, s.State, s.Reason
	}
	t.log.Info("drain", "cell", string(name), "text", text)
	t.hub.Publish(revision, event.Event{Kind: event.Cell, Subject: string(name), Text: text, Cell: &state})
	t.tellDrain(name)
}

// tellDrain tells the cell what holds, when the state it sent last says otherwise.
// A lost call is made again after the next heartbeat; so a new process of the cell,
// and a new leader, need nothing else.
func (t *term) tellDrain(name worker.CellName) {
	t.mu.Lock()
	st := t.states[name]
	t.mu.Unlock()
	s, ok := t.reg.Session(name)
	to := t.cells.Cell(name)
	if !ok || to == nil {
		return
	}
	d := t.drains.of(name)
	var e cell.Evacuation
	switch {
	case d == nil && st.Evacuating:
		e.Undo = true
	case d != nil && !d.Until.IsZero() && (!st.Evacuating || st.Evacuation.ID != d.ID()):
		e = cell.Evacuation{ID: d.ID(), Reason: d.Reason, Deadline: d.Left(t.cfg.Clock.Wall()), StopBatch: d.StopBatch}
	default:
		return
	}
	t.call(func(ctx context.Context) {
		if err := to.Evacuate(ctx, t.Term(), s.Proc, e); err != nil {
			t.log.Debug("call failed", "call", "Evacuate", "cell", string(name), "error", err)
		}
	})
}

// drainBeat takes what a cell says of its drain: whether it has ended.
func (t *term) drainBeat(name worker.CellName, s cell.State) {
	t.tellDrain(name)
	d := t.drains.of(name)
	if d == nil || !d.Ended.IsZero() || !s.Evacuating || s.Evacuation.ID != d.ID() {
		return
	}
	lrps, tasks := t.board.OnCell(string(name))
	if !s.Evacuation.Over && len(s.Evacuation.Waits)+lrps+tasks > 0 {
		return
	}
	t.call(func(ctx context.Context) {
		err := t.changeDrain(ctx, bbs.Write{}, "", nil, name, func(was *registry.Drain) (*registry.Drain, string, error) {
			if was == nil || was.ID() != d.ID() || !was.Ended.IsZero() {
				return was, "", nil
			}
			next := *was
			next.Ended, next.Waited = t.cfg.Clock.Wall(), s.Evacuation.Waits
			return &next, ended(&next), nil
		})
		if err != nil {
			t.log.Debug("end of a drain", "cell", string(name), "error", err) // the next heartbeat tries again
		}
	})
}

// ended says how a drain ended.
func ended(d *registry.Drain) string {
	if len(d.Waited) == 0 {
		return "drained: nothing is left"
	}
	return "the drain's deadline ended what was left; it waited for " + strings.Join(d.Waited, ", ")
}

// drainOf is a cell's drain as the API shows it.
func (t *term) drainOf(name worker.CellName) *api.Drain {
	d := t.drains.of(name)
	if d == nil {
		return nil
	}
	out := &api.Drain{Reason: d.Reason, By: d.By, Since: d.Since, Until: d.Until, StopBatch: d.StopBatch, Ended: d.Ended, Waits: d.Waited}
	t.mu.Lock()
	defer t.mu.Unlock()
	if st := t.states[name]; d.Ended.IsZero() && st.Evacuation.ID == d.ID() {
		out.Waits = st.Evacuation.Waits
	}
	return out
}

// defaultDrain is how long a drain takes when neither operator nor cell says.
const defaultDrain = 10 * time.Minute

// DrainCell implements api.Cells.
func (v view) DrainCell(ctx context.Context, name worker.CellName, n api.NewDrain, w api.Write) (api.Cell, error) {
	if _, err := v.GetCell(name); err != nil {
		return api.Cell{}, err
	}
	deadline := n.Deadline
	if deadline == 0 {
		v.mu.Lock()
		deadline = v.states[name].Evacuation.Timeout
		v.mu.Unlock()
	}
	if deadline <= 0 {
		deadline = defaultDrain
	}
	err := v.changeDrain(ctx, toWrite(w), "drain", fmt.Appendf(nil, "%q %v", name, n), name, func(was *registry.Drain) (*registry.Drain, string, error) {
		if was != nil && was.Quarantined {
			return nil, "", fmt.Errorf("cell %s: %s: %w", name, was.Reason, api.ErrConflict)
		}
		now := v.cfg.Clock.Wall().Round(0)
		d := &registry.Drain{Cell: name, Reason: n.Reason, By: w.By, Since: now, Until: now.Add(deadline), StopBatch: n.StopBatch}
		return d, fmt.Sprintf("is drained, until %s at most: %s", d.Until.UTC().Format(time.RFC3339), n.Reason), nil
	})
	if err != nil {
		return api.Cell{}, err
	}
	return v.GetCell(name)
}

// UndrainCell implements api.Cells.
func (v view) UndrainCell(ctx context.Context, name worker.CellName, w api.Write) (api.Cell, error) {
	was := v.drains.of(name)
	if was != nil && was.Quarantined {
		if err := v.dropDrain(ctx, name); err != nil {
			return api.Cell{}, err
		}
		return v.undrained(name, true)
	}
	err := v.changeDrain(ctx, toWrite(w), "undrain", []byte(name), name, func(*registry.Drain) (*registry.Drain, string, error) {
		return nil, "takes work again", nil
	})
	if err != nil {
		return api.Cell{}, err
	}
	return v.undrained(name, was != nil)
}

// undrained is the cell whose drain was taken back; drained says that it had one: then
// it need not be here.
func (v view) undrained(name worker.CellName, drained bool) (api.Cell, error) {
	if _, here := v.reg.Session(name); !here && drained {
		return api.Cell{Name: name}, nil
	}
	return v.GetCell(name)
}

// dropDrain deletes a quarantined drain.
func (v view) dropDrain(ctx context.Context, name worker.CellName) error {
	done := make(chan error, 1)
	v.reign.Drop(registry.DrainRow(name), func(revision int64, err error) {
		if err == nil {
			v.drains.submit(name, nil)
			v.drainChanged(name, nil, revision, "takes work again")
		}
		done <- err
	})
	return outcome(ctx, done)
}

// restoreDrain takes a quarantined drain back into service that somebody has mended.
func (v view) restoreDrain(ctx context.Context, name worker.CellName, row store.Row) error {
	d := registry.Drains([]store.Row{row}, nil)[name]
	if d == nil || d.Until.IsZero() {
		return fmt.Errorf("restore %s: it still cannot be read (repair the row in the store first, or undrain the cell): %w", row.Key, api.ErrConflict)
	}
	done := make(chan error, 1)
	v.reign.Restore(row.Key, row.Value, func(revision int64, err error) {
		if err == nil {
			v.drains.submit(name, d)
			v.drainChanged(name, d, revision, "is drained: "+d.Reason)
		}
		done <- err
	})
	return outcome(ctx, done)
}

// explainDrain says in words that a cell is drained, and how far that is.
// drainState says, after the state of a session, how far a drain has come.
func drainState(d *api.Drain) string {
	if d.Ended.IsZero() {
		return ", being drained"
	}
	return ", drained"
}

func explainDrain(d *api.Drain) string {
	text := "it is drained"
	if d.By != "" {
		text += " by " + d.By
	}
	text += ": " + d.Reason
	switch {
	case !d.Ended.IsZero() && len(d.Waits) == 0:
		return text + "; nothing is left"
	case !d.Ended.IsZero():
		return text + "; its deadline ended " + strings.Join(d.Waits, ", ")
	case len(d.Waits) > 0:
		return text + "; it waits for " + strings.Join(d.Waits, ", ")
	}
	return text
}

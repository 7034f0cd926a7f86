package registry

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"cantina/internal/text"
	"cantina/registry/registrypb"
	"cantina/store"
	"cantina/wire"
	"cantina/worker"
)

// Drain is an operator's stored intent to drain a cell. It applies to any process with the cell's
// name, under every leader, until it is deleted. (Diego dev notes, Evacuation.)
type Drain struct {
	Cell   worker.CellName
	Reason string // never empty, but for a row that cannot be read
	By     string
	Since  time.Time
	// Until is when remaining work is ended, by the leader's wall clock. Zero if the row is
	// unreadable: then the cell gets no new work, and nothing else is done.
	Until     time.Time
	StopBatch bool
	// Ended is when no work was left, or the deadline ended the rest; Waited describes that rest.
	Ended  time.Time
	Waited []string
	// Quarantined: the store itself cannot read the row.
	Quarantined bool
	// Revision is that of the newest write; 0 before its commit.
	Revision int64
}

// ID names one drain to the cell: each new one of the same cell has another.
func (d *Drain) ID() string { return strconv.FormatInt(d.Since.UnixNano(), 36) }

// Left is how long it may still take, at least a millisecond: the cell takes zero
// for its own setting.
func (d *Drain) Left(now time.Time) time.Duration { return max(d.Until.Sub(now), time.Millisecond) }

// DrainRow is the key of a cell's drain.
func DrainRow(cell worker.CellName) string { return drainPrefix + string(cell) }

// DrainOp is the write of a drain. Its user, reason and remaining work (a node of a job may be any
// bytes) are converted to valid text.
func DrainOp(d *Drain) store.Op {
	waited := make([]string, len(d.Waited))
	for i, w := range d.Waited {
		waited[i] = text.Clean(w)
	}
	return store.Op{Key: DrainRow(d.Cell), Value: encode(kindDrain,
		&registrypb.Drain{Cell: string(d.Cell), Reason: text.Clean(d.Reason), By: text.Clean(d.By),
			Since: wire.FromTime(d.Since), Until: wire.FromTime(d.Until), StopBatch: d.StopBatch, Ended: wire.FromTime(d.Ended),
			Waited: waited})}
}

// Drains reads the drains among the rows of a load, and the quarantined keys. One
// that cannot be read counts as existing: its cell gets no new work.
func Drains(rows []store.Row, quarantined []store.Quarantine) map[worker.CellName]*Drain {
	all := map[worker.CellName]*Drain{}
	for _, q := range quarantined {
		if cell, ok := strings.CutPrefix(q.Key, drainPrefix); ok {
			d := unreadable(worker.CellName(cell), q.Reason)
			d.Quarantined = true
			all[d.Cell] = d
		}
	}
	for _, r := range rows {
		cell, ok := strings.CutPrefix(r.Key, drainPrefix)
		if !ok {
			continue
		}
		d, err := drainOf(r)
		if err != nil {
			d = unreadable(worker.CellName(cell), err.Error())
		}
		d.Revision = r.Revision
		all[d.Cell] = d
	}
	return all
}

func unreadable(cell worker.CellName, problem string) *Drain {
	return &Drain{Cell: cell, Reason: "its drain cannot be read (" + problem + "); to remove it: cantina undrain"}
}

func drainOf(r store.Row) (*Drain, error) {
	m := &registrypb.Drain{}
	if err := store.Open(r.Value, kindDrain, m); err != nil {
		return nil, err
	}
	if DrainRow(worker.CellName(m.GetCell())) != r.Key {
		return nil, fmt.Errorf("names cell %q: %w", m.GetCell(), store.ErrCorrupt)
	}
	since, err1 := wire.ToTime(m.GetSince())
	until, err2 := wire.ToTime(m.GetUntil())
	ended, err3 := wire.ToTime(m.GetEnded())
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	return &Drain{Cell: worker.CellName(m.GetCell()), Reason: m.GetReason(), By: m.GetBy(), Since: since, Until: until,
		StopBatch: m.GetStopBatch(), Ended: ended, Waited: m.GetWaited()}, nil
}

package leader

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"cantina/cell"
	"cantina/event"
	"cantina/fence"
	"cantina/worker"
)

// ForeignCell is a cell of another cluster that calls this one: it was given the address of a
// wrong server, or the server was started on a wrong store. It is refused, and its state does not
// change.
type ForeignCell struct {
	Cell    worker.CellName
	Proc    worker.Proc
	Address string
	Cluster fence.Cluster
	At      time.Time // of its last call
	Since   time.Time
	// Adopting: an operator has decided that it joins, and the order was sent.
	Adopting bool
}

// maxForeign bounds how many are remembered, foreignFor for how long one that is silent is.
const (
	maxForeign = 1000
	foreignFor = time.Minute
)

// checkCluster refuses a caller of another cluster.
func (l *Leader) checkCluster(cluster fence.Cluster, name worker.CellName) error {
	if cluster == l.cfg.Cluster {
		return nil
	}
	l.mu.Lock()
	address := cmp.Or(l.foreign[name].Address, l.states[name].Address)
	l.mu.Unlock()
	return &cell.Foreign{Cell: name, Address: address, Cluster: cluster, Other: l.cfg.Cluster}
}

// noteForeign records a cell of another cluster, and publishes a change.
func (l *Leader) noteForeign(b worker.Heartbeat, s cell.State, v worker.Verdict) {
	now := l.cfg.Clock.Wall()
	l.mu.Lock()
	old, known := l.foreign[b.Cell]
	f := ForeignCell{Cell: b.Cell, Proc: b.Proc, Address: s.Address, Cluster: b.Cluster, At: now, Since: now,
		Adopting: v == worker.Adopt}
	if known = known && old.Cluster == f.Cluster && now.Sub(old.At) < foreignFor; known {
		f.Since = old.Since
	}
	if _, there := l.foreign[b.Cell]; there || len(l.foreign) < maxForeign {
		l.foreign[b.Cell] = f
	}
	l.mu.Unlock()
	if known && old.Adopting == f.Adopting {
		return
	}
	text := (&cell.Foreign{Cell: f.Cell, Address: f.Address, Cluster: f.Cluster, Other: l.cfg.Cluster}).Error()
	l.log.Warn("a cell of another cluster calls: it is refused, and nothing on it changes", "cell", string(f.Cell),
		"address", f.Address,
		"cluster", string(f.Cluster), "own", string(l.cfg.Cluster), "adopting", f.Adopting)
	l.cfg.Hub.Publish(0, event.Event{Kind: event.Note, Subject: string(f.Cell), Text: text})
}

// ForeignCells lists the cells of other clusters with a recent heartbeat, by name.
func (l *Leader) ForeignCells() []ForeignCell {
	now := l.cfg.Clock.Wall()
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.foreign, func(_ worker.CellName, f ForeignCell) bool { return now.Sub(f.At) >= foreignFor })
	return slices.SortedFunc(maps.Values(l.foreign), func(a, b ForeignCell) int { return cmp.Compare(a.Cell, b.Cell) })
}

// ForeignCell returns the cell of another cluster of that name.
func (l *Leader) ForeignCell(name worker.CellName) (ForeignCell, bool) {
	all := l.ForeignCells()
	i := slices.IndexFunc(all, func(f ForeignCell) bool { return f.Cell == name })
	if i < 0 {
		return ForeignCell{}, false
	}
	return all[i], true
}

// Adopt makes a cell of another cluster join this one at its next heartbeat.
// worker.ErrUnknownProcess if there is no recent heartbeat from one.
func (l *Leader) Adopt(name worker.CellName, by string) error {
	if _, ok := l.ForeignCell(name); !ok {
		return fmt.Errorf("cell %s: no recent heartbeat from a cell of this name in another cluster: %w", name,
			worker.ErrUnknownProcess)
	}
	return l.Registry.Adopt(name, by)
}

// Discard ends work on a cell that the store does not contain, and returns a description of the
// ended work. worker.ErrUnknownProcess if no process has the cell's name.
func (l *Leader) Discard(ctx context.Context, name worker.CellName, by string) ([]string, error) {
	s, ok := l.Registry.Session(name)
	if !ok {
		return nil, fmt.Errorf("cell %s: %w", name, worker.ErrUnknownProcess)
	}
	said, _ := l.State(name)
	var ended []string
	for _, c := range said.Conditions {
		if !c.Unknown || c.Task == "" {
			continue
		}
		if err := l.cfg.Cells.StopWork(ctx, name, l.cfg.Term, s.Proc, cell.Stops{Tasks: []string{c.UID}}); err != nil {
			return ended, fmt.Errorf("cell %s: %s: %w", name, c.What, err)
		}
		l.log.Info("ending work that is not in the store", "cell", string(name), "work", c.What, "by", by)
		ended = append(ended, c.What)
	}
	return ended, nil
}

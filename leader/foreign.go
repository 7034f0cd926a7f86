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
// wrong server, or the server was started on a wrong store. It is refused, and nothing of it
// changes.
type ForeignCell struct {
	Cell    worker.CellName
	Proc    worker.Proc
	Address string
	Cluster fence.Cluster
	At      time.Time // of its last call
	Since   time.Time
	// Adopting: an operator has decided that it joins, and it has been told.
	Adopting bool
}

// maxForeign bounds how many are remembered, foreignFor for how long one that is silent is.
const (
	maxForeign = 1000
	foreignFor = time.Minute
)

// ours refuses a caller of another cluster.
func (o *Leader) ours(cluster fence.Cluster, name worker.CellName) error {
	if cluster == o.cfg.Cluster {
		return nil
	}
	o.mu.Lock()
	address := cmp.Or(o.foreign[name].Address, o.states[name].Address)
	o.mu.Unlock()
	return &cell.Foreign{Cell: name, Address: address, Cluster: cluster, Other: o.cfg.Cluster}
}

// stranger notes a cell of another cluster, and tells of it when it is news.
func (o *Leader) stranger(b worker.Heartbeat, s cell.State, v worker.Verdict) {
	now := o.cfg.Clock.Wall()
	o.mu.Lock()
	old, known := o.foreign[b.Cell]
	f := ForeignCell{Cell: b.Cell, Proc: b.Proc, Address: s.Address, Cluster: b.Cluster, At: now, Since: now, Adopting: v == worker.Adopt}
	if known = known && old.Cluster == f.Cluster && now.Sub(old.At) < foreignFor; known {
		f.Since = old.Since
	}
	if _, there := o.foreign[b.Cell]; there || len(o.foreign) < maxForeign {
		o.foreign[b.Cell] = f
	}
	o.mu.Unlock()
	if known && old.Adopting == f.Adopting {
		return
	}
	text := (&cell.Foreign{Cell: f.Cell, Address: f.Address, Cluster: f.Cluster, Other: o.cfg.Cluster}).Error()
	o.log.Warn("a cell of another cluster calls: it is refused, and nothing on it changes", "cell", string(f.Cell), "address", f.Address,
		"cluster", string(f.Cluster), "own", string(o.cfg.Cluster), "adopting", f.Adopting)
	o.cfg.Hub.Publish(0, event.Event{Kind: event.Note, Subject: string(f.Cell), Text: text})
}

// Foreigners lists the cells of other clusters that have called lately, by name.
func (o *Leader) Foreigners() []ForeignCell {
	now := o.cfg.Clock.Wall()
	o.mu.Lock()
	defer o.mu.Unlock()
	maps.DeleteFunc(o.foreign, func(_ worker.CellName, f ForeignCell) bool { return now.Sub(f.At) >= foreignFor })
	return slices.SortedFunc(maps.Values(o.foreign), func(a, b ForeignCell) int { return cmp.Compare(a.Cell, b.Cell) })
}

// Foreigner returns the cell of another cluster of that name.
func (o *Leader) Foreigner(name worker.CellName) (ForeignCell, bool) {
	all := o.Foreigners()
	i := slices.IndexFunc(all, func(f ForeignCell) bool { return f.Cell == name })
	if i < 0 {
		return ForeignCell{}, false
	}
	return all[i], true
}

// Adopt has a cell of another cluster join this one, when it beats next.
// worker.ErrUnknownProcess when none of that name has called lately.
func (o *Leader) Adopt(name worker.CellName, by string) error {
	if _, ok := o.Foreigner(name); !ok {
		return fmt.Errorf("no cell %s of another cluster has called lately: %w", name, worker.ErrUnknownProcess)
	}
	return o.Registry.Adopt(name, by)
}

// Discard ends what runs on a cell and the store does not know, and returns what was told to
// end, in words. worker.ErrUnknownProcess when no process has the cell's name.
func (o *Leader) Discard(ctx context.Context, name worker.CellName, by string) ([]string, error) {
	s, ok := o.Registry.Session(name)
	if !ok {
		return nil, fmt.Errorf("cell %s: %w", name, worker.ErrUnknownProcess)
	}
	said, _ := o.State(name)
	var ended []string
	for _, c := range said.Conditions {
		if !c.Unknown || c.UID == "" {
			continue
		}
		if err := o.cfg.Cells.CancelTask(ctx, name, o.cfg.Term, s.Proc, c.UID); err != nil {
			return ended, fmt.Errorf("cell %s: %s: %w", name, c.What, err)
		}
		o.log.Info("work that the store does not know is told to end", "cell", string(name), "work", c.What, "by", by)
		ended = append(ended, c.What)
	}
	return ended, nil
}

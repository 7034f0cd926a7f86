package leader

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"cantina/api"
	"cantina/label"
	"cantina/placement"
	"cantina/plan"
	"cantina/resource"
	"cantina/worker"
)

// cellNow describes the cell whose name a session holds.
func (v cellView) cellNow(s *worker.SessionView, free resource.Amounts) api.Cell {
	st, since := v.State(s.Cell)
	c := api.Cell{Name: s.Cell, Proc: s.Proc, Address: st.Address, Zone: st.Zone, Host: st.Host, Session: s.State,
		Since: since, Reason: s.Reason,
		Reported: s.Reported, Eligible: s.Eligible, DeadIn: s.Expiry, Draining: st.Draining, Capacity: st.Capacity,
		Free: free, Batch: s.Work, Labels: st.Labels, Taints: st.Taints,
		Tags:      slices.Concat(st.RequiredTags, st.OptionalTags),
		Isolation: st.Isolation, Volumes: st.Volumes, Build: st.Build, Unavailable: st.State.Unavailable}
	if s.Unavailable {
		c.Unavailable = s.Reason
	}
	c.LRPs, c.Tasks = v.Board.OnProc(string(s.Cell), string(s.Proc))
	c.Drain = v.drainOf(s.Cell)
	c.Draining = c.Draining || c.Drain != nil
	c.Unknown = v.reported().unknownOn(s.Cell)
	return c
}

// free is the free capacity of each cell in the ledger.
func (v cellView) free() map[string]resource.Amounts {
	free := map[string]resource.Amounts{}
	for _, c := range v.Auctioneer.Cells() {
		free[c.Name] = left(&c)
	}
	return free
}

func left(c *placement.CellView) resource.Amounts { return c.Capacity.Sub(c.Used).Sub(c.Foreign) }

// goneMark is before the name of a cell that is gone in the cursor of a page: no name of a
// cell is behind it.
const goneMark = "~"

// gone describes a cell whose name is free.
func (v cellView) gone(l *Lost) api.Cell {
	st := &l.State
	return api.Cell{Name: l.Cell, Proc: l.Proc, Address: st.Address, Zone: st.Zone, Host: st.Host, Session: worker.MustDie,
		Since: l.At, Reason: l.Why,
		Labels: st.Labels, Taints: st.Taints, Tags: slices.Concat(st.RequiredTags, st.OptionalTags), Isolation: st.Isolation,
		Build: st.Build, Drain: v.drainOf(l.Cell),
		Gone: &api.Gone{At: l.At, Left: l.Left, Why: l.Why, Work: l.Work}}
}

// foreignMark is before the name of a cell of another cluster in the cursor of a page.
const foreignMark = "}"

func isLost(lost []Lost, name worker.CellName) bool {
	return slices.ContainsFunc(lost, func(l Lost) bool { return l.Cell == name })
}

// cursorOf is the position of the list after a cell.
func cursorOf(c *api.Cell) string {
	if c.Cluster != "" {
		return foreignMark + string(c.Name)
	}
	if c.Gone != nil {
		return goneMark + string(c.Name)
	}
	return string(c.Name)
}

// ListCells implements api.Cells.
func (v cellView) ListCells(r plan.Range, labels label.Selector, all bool) (plan.Page[api.Cell], error) {
	if err := v.fresh(); err != nil {
		return plan.Page[api.Cell]{}, err
	}
	out := plan.Page[api.Cell]{}
	add := func(position string, describe func() api.Cell) bool {
		switch {
		case position <= r.After && r.After != "":
		case len(out.Items) == r.Limit:
			out.Next = cursorOf(&out.Items[len(out.Items)-1])
			return false
		default:
			if c := describe(); labels.Selects(c.Labels) {
				out.Items = append(out.Items, c)
			}
		}
		return true
	}
	free, lost := v.free(), v.Lost()
	for _, s := range v.Registry.Sessions() {
		if !s.Holder || s.Dead && isLost(lost, s.Cell) {
			continue
		}
		if !add(string(s.Cell), func() api.Cell { return v.cellNow(&s, free[string(s.Cell)]) }) {
			return out, nil
		}
	}
	for _, f := range v.ForeignCells() {
		if !add(foreignMark+string(f.Cell), func() api.Cell { return foreigner(f) }) {
			return out, nil
		}
	}
	for _, l := range lost {
		if all && !add(goneMark+string(l.Cell), func() api.Cell { return v.gone(&l) }) {
			break
		}
	}
	return out, nil
}

// GetCell implements api.Cells.
func (v cellView) GetCell(name worker.CellName) (api.Cell, error) {
	if l, ok := v.LostCell(name); ok {
		return v.gone(&l), v.fresh()
	}
	return v.present(name)
}

// present is GetCell for operations that need a cell that is not gone.
func (v cellView) present(name worker.CellName) (api.Cell, error) {
	s, ok := v.Registry.Session(name)
	if f, foreign := v.ForeignCell(name); foreign && !ok {
		return foreigner(f), v.fresh()
	}
	if !ok {
		return api.Cell{}, fmt.Errorf("cell %s: %w", name, worker.ErrUnknownProcess)
	}
	var free resource.Amounts
	if c, ok := v.Auctioneer.Cell(string(name)); ok {
		free = left(&c)
	}
	return v.cellNow(&s, free), v.fresh()
}

// AdoptCell implements api.Cells.
func (v cellView) AdoptCell(_ context.Context, name worker.CellName, w plan.Write) error {
	return v.Adopt(name, w.By)
}

// DiscardUnknown implements api.Cells.
func (v cellView) DiscardUnknown(ctx context.Context, name worker.CellName, w plan.Write) ([]string, error) {
	return v.Discard(ctx, name, w.By)
}

// foreigner describes a cell of another cluster.
func foreigner(f ForeignCell) api.Cell {
	reason := fmt.Sprintf("it belongs to cluster %s and is refused: nothing on it changes", f.Cluster)
	if f.Adopting {
		reason = fmt.Sprintf("it leaves cluster %s and is about to join", f.Cluster)
	}
	return api.Cell{Name: f.Cell, Proc: f.Proc, Address: f.Address, Since: f.Since, Session: worker.New, Reason: reason,
		Cluster: f.Cluster}
}

// ForgetCell implements api.Cells.
func (v cellView) ForgetCell(_ context.Context, proc worker.Proc, w plan.Write) error {
	err := v.Registry.Forget(proc, w.By)
	if errors.Is(err, worker.ErrUnknownProcess) && v.Strike(proc) {
		return nil // it is certainly dead already
	}
	return err
}

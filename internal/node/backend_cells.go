package node

import (
	"context"
	"fmt"
	"slices"

	"cantina/api"
	"cantina/placement"
	"cantina/resource"
	"cantina/worker"
)

// cellNow describes the cell whose name a session holds.
func (v view) cellNow(s *worker.SessionView, free resource.Amounts) api.Cell {
	st, since := v.State(s.Cell)
	c := api.Cell{Name: s.Cell, Proc: s.Proc, Address: st.Address, Zone: st.Zone, Host: st.Host, Session: s.State, Since: since, Reason: s.Reason,
		Reported: s.Reported, Eligible: s.Eligible, DeadIn: s.Expiry, Evacuating: st.Evacuating, Capacity: st.Capacity,
		Free: free, Batch: s.Work, Labels: st.Labels, Taints: st.Taints, Tags: slices.Concat(st.RequiredTags, st.OptionalTags),
		Isolation: st.Isolation, Build: st.Build, Unavailable: st.State.Unavailable}
	if s.Unavailable {
		c.Unavailable = s.Reason
	}
	c.LRPs, c.Tasks = v.board.OnCell(string(s.Cell))
	c.Drain = v.drainOf(s.Cell)
	c.Evacuating = c.Evacuating || c.Drain != nil
	return c
}

// free is what each cell has left, by the one ledger.
func (v view) free() map[string]resource.Amounts {
	free := map[string]resource.Amounts{}
	for _, c := range v.house.Cells() {
		free[c.Name] = left(&c)
	}
	return free
}

func left(c *placement.CellView) resource.Amounts { return c.Capacity.Sub(c.Used).Sub(c.Foreign) }

// ListCells implements api.Cells.
func (v view) ListCells(r api.Range) (api.Listed[api.Cell], error) {
	if err := v.fresh(); err != nil {
		return api.Listed[api.Cell]{}, err
	}
	out := api.Listed[api.Cell]{}
	free := v.free()
	for _, s := range v.reg.Sessions() {
		if !s.Holder || string(s.Cell) <= r.After && r.After != "" {
			continue
		}
		if len(out.Items) == r.Limit {
			out.Next = string(out.Items[len(out.Items)-1].Name)
			break
		}
		out.Items = append(out.Items, v.cellNow(&s, free[string(s.Cell)]))
	}
	return out, nil
}

// GetCell implements api.Cells.
func (v view) GetCell(name worker.CellName) (api.Cell, error) {
	s, ok := v.reg.Session(name)
	if !ok {
		return api.Cell{}, fmt.Errorf("cell %s: %w", name, worker.ErrUnknownProcess)
	}
	var free resource.Amounts
	if c, ok := v.house.Cell(string(name)); ok {
		free = left(&c)
	}
	return v.cellNow(&s, free), v.fresh()
}

// ForgetCell implements api.Cells.
func (v view) ForgetCell(_ context.Context, proc worker.Proc, w api.Write) error {
	return v.reg.Forget(proc, w.By)
}

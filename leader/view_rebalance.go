package leader

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"cantina/api"
	"cantina/auctioneer"
	"cantina/bbs"
	"cantina/fault"
	"cantina/lrp"
	"cantina/placement"
	"cantina/plan"
	"cantina/worker"
)

// errCellsMayJoin: moves are planned for the cells that are there.
var errCellsMayJoin = fault.New(fault.ErrConflict, "cells may still join after the change of the leader; try again")

// Rebalance implements api.Cells.
func (v cellView) Rebalance(ctx context.Context, q api.RebalanceQuery, w plan.Write) (api.Balance, error) {
	if !applicationView(v).settled() {
		return api.Balance{}, errCellsMayJoin
	}
	for _, name := range q.Cells {
		if _, err := v.present(worker.CellName(name)); err != nil {
			return api.Balance{}, err
		}
	}
	for _, k := range q.Services {
		if _, err := v.Board.GetService(k); err != nil {
			return api.Balance{}, err
		}
	}
	if q.CountOnly {
		return api.Balance{Moving: v.Board.Count().Moving}, v.fresh()
	}
	all, left, moving := v.Board.Movables()
	out := api.Balance{Moving: moving}
	for _, k := range slices.SortedFunc(maps.Keys(left), lrp.ServiceKey.Compare) {
		if len(q.Services) == 0 || slices.Contains(q.Services, k) {
			out.Left = append(out.Left, api.NotMoved{Service: k.String(), Reason: left[k]})
		}
	}
	byHold := make(map[string]bbs.Movable)
	var items []placement.Item
	for _, m := range all {
		if len(q.Services) > 0 && !slices.Contains(q.Services, m.Desired.Service) ||
			len(q.Cells) > 0 && !slices.Contains(q.Cells, m.Cell) {
			continue
		}
		byHold[m.Instance] = m
		items = append(items, movedItem(&m))
	}
	each := 0
	if q.Apply {
		each = 1
	}
	b := auctioneer.Rebalance(v.Auctioneer, items, q.MaxMoves, each)
	out.Deviation, out.DeviationAfter, out.Partial = b.Before, b.After, b.Partial
	var chosen []bbs.Movable
	for _, m := range b.Moves {
		chosen = append(chosen, byHold[m.Item.Hold])
		out.Moves = append(out.Moves, api.Relocation{Instance: m.Item.Name, From: m.From, To: m.To, Gain: m.Why})
	}
	if !q.Apply || len(chosen) == 0 {
		return out, v.fresh()
	}
	begun, err := v.Board.Relocate(ctx, chosen, []byte(fmt.Sprint(q)), w)
	if err != nil {
		return api.Balance{}, err
	}
	kept := out.Moves[:0]
	for i := range chosen {
		if begun[chosen[i].Key.String()] {
			kept = append(kept, out.Moves[i])
		}
	}
	out.Moves = kept
	return out, nil
}

// movedItem is the item of an instance that runs.
func movedItem(m *bbs.Movable) placement.Item {
	d := m.Desired
	return placement.Item{ID: LRPItem(m.Key), Hold: m.Instance, Kind: placement.KindLRP, Group: m.Key.Process,
		Service: d.Service.String(), Index: m.Key.Index, Need: d.Workload.Resources,
		Name: fmt.Sprintf("%v/%d", d.Service, m.Key.Index), Constraint: Suits(d),
		Priority: d.Priority()}
}

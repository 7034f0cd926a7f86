package api

import (
	"context"
	"strings"
	"time"

	"cantina/internal/text"
	"cantina/plan"
	"cantina/wire"
	pb "cantina/wire/cantinav1"
	"cantina/worker"
)

// ListCells lists cells by name, and those that are gone when all is set.
func (c cellCalls) ListCells(_ context.Context, q *request[pb.ListCellsRequest]) (*response[pb.ListCellsResponse],
	error) {
	labels, err := selector(q.Msg.Selector)
	if err != nil {
		return nil, err
	}
	all, where, err := list(c.Server, q.Msg.Page, func(b *Backend, r plan.Range) (plan.Page[Cell], error) {
		return b.Cells.ListCells(r, labels, q.Msg.All)
	}, cellMessage)
	return answer(&pb.ListCellsResponse{Cells: all, Listing: where}, err)
}

// GetCell returns one cell.
func (c cellCalls) GetCell(_ context.Context, q *request[pb.GetCellRequest]) (*response[pb.GetCellResponse], error) {
	return get(c.Server, func(b *Backend) (Cell, error) { return b.Cells.GetCell(worker.CellName(q.Msg.Name)) },
		func(got *Cell, at string) *pb.GetCellResponse {
			return &pb.GetCellResponse{Cell: cellMessage(got), Position: at}
		})
}

const (
	// maxReason bounds the reason of a drain, in bytes, maxDeadline how long one may take.
	maxReason   = 1000
	maxDeadline = 30 * 24 * time.Hour
)

// DrainCell has a cell emptied.
func (c cellCalls) DrainCell(ctx context.Context, q *request[pb.DrainCellRequest]) (*response[pb.DrainCellResponse],
	error) {
	d := NewDrain{Reason: strings.TrimSpace(text.Clean(q.Msg.Reason)), StopBatch: q.Msg.StopBatch}
	var err error
	if d.Deadline, err = wire.ToDuration(q.Msg.Deadline); err != nil {
		return nil, invalid("deadline", "must be a duration like 600s")
	}
	switch {
	case d.Reason == "":
		return nil, invalid("reason", "must not be empty; it is shown wherever the cell is listed")
	case len(d.Reason) > maxReason:
		return nil, invalid("reason", "longer than %d bytes", maxReason)
	case q.Msg.Deadline != nil && (d.Deadline < time.Second || d.Deadline > maxDeadline):
		return nil, invalid("deadline", "must be from 1 s to 30 days")
	}
	m := &pb.DrainCellResponse{}
	err = write(ctx, c.Server, q.Msg.Write, func(b *Backend, w plan.Write) error {
		got, err := b.Cells.DrainCell(ctx, worker.CellName(q.Msg.Name), d, w)
		m.Cell = cellMessage(&got)
		return err
	})
	return answer(m, err)
}

// UndrainCell lets a cell take work again.
func (c cellCalls) UndrainCell(ctx context.Context,
	q *request[pb.UndrainCellRequest]) (*response[pb.UndrainCellResponse], error) {
	m := &pb.UndrainCellResponse{}
	err := write(ctx, c.Server, q.Msg.Write, func(b *Backend, w plan.Write) error {
		got, err := b.Cells.UndrainCell(ctx, worker.CellName(q.Msg.Name), w)
		m.Cell = cellMessage(&got)
		return err
	})
	return answer(m, err)
}

// ForgetCell is an operator's declaration that a cell process is dead.
func (c cellCalls) ForgetCell(ctx context.Context, q *request[pb.ForgetCellRequest]) (*response[pb.ForgetCellResponse],
	error) {
	err := write(ctx, c.Server, q.Msg.Write, func(b *Backend,
		w plan.Write) error {
		return b.Cells.ForgetCell(ctx, worker.Proc(q.Msg.Proc), w)
	})
	return answer(&pb.ForgetCellResponse{}, err)
}

// AdoptCell has a cell of another cluster join this one.
func (c cellCalls) AdoptCell(ctx context.Context, q *request[pb.AdoptCellRequest]) (*response[pb.AdoptCellResponse],
	error) {
	err := write(ctx, c.Server, q.Msg.Write, func(b *Backend,
		w plan.Write) error {
		return b.Cells.AdoptCell(ctx, worker.CellName(q.Msg.Name), w)
	})
	return answer(&pb.AdoptCellResponse{}, err)
}

// DiscardUnknown ends work on a cell that the store does not contain.
func (c cellCalls) DiscardUnknown(ctx context.Context,
	q *request[pb.DiscardUnknownRequest]) (*response[pb.DiscardUnknownResponse], error) {
	m := &pb.DiscardUnknownResponse{}
	err := write(ctx, c.Server, q.Msg.Write, func(b *Backend, w plan.Write) error {
		ended, err := b.Cells.DiscardUnknown(ctx, worker.CellName(q.Msg.Name), w)
		for _, what := range ended {
			m.Ended = append(m.Ended, text.Clean(what))
		}
		return err
	})
	return answer(m, err)
}

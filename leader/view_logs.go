package leader

import (
	"context"
	"fmt"
	"slices"

	"cantina/fault"
	"cantina/internal/link"
	"cantina/wire"
	pb "cantina/wire/cantinav1"
	"cantina/worker"
)

// Holders implements api.Logs. A task runs on one cell at most, so its output is there. Other
// output may be on every reachable cell, and on those that a new leader has no contact with yet.
func (v logView) Holders(q *pb.LogQuery) []string {
	if cell := v.taskCell(q.GetLabels()["task"]); cell != "" {
		return []string{cell}
	}
	var out []string
	for _, s := range v.Registry.Sessions() {
		if s.Holder && v.cells.Cell(s.Cell) != nil {
			out = append(out, string(s.Cell))
		}
	}
	for _, f := range v.Registry.Wait().For {
		if name := string(f.Cell); !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// taskCell is the cell that runs or ran a task; "" = not known, or not placed yet.
func (v logView) taskCell(guid string) string {
	if guid == "" {
		return ""
	}
	t, err := v.Board.GetTask(guid)
	if err != nil || t.Task == nil {
		return ""
	}
	return t.Task.Holder.Cell
}

// reach is a cell and what a call to it carries.
func (v logView) reach(name string) (link.Cell, *pb.Callee, error) {
	c := v.cells.Cell(worker.CellName(name))
	if c == nil {
		return nil, nil, fmt.Errorf("cell %s: %w", name, fault.ErrUnreachable)
	}
	proc, _ := v.Registry.Receives(worker.CellName(name))
	return c, wire.FromCallee(v.Term.Term(), proc), nil
}

// ReadLogs implements api.Logs.
func (v logView) ReadLogs(ctx context.Context, name string, m *pb.ReadLogsRequest) (got *pb.ReadLogsResponse,
	err error) {
	c, to, err := v.reach(name)
	if err == nil {
		m.To = to
		got, err = c.ReadLogs(ctx, m)
	}
	return got, unreachable(name, err)
}

// ReadUsage implements api.Logs.
func (v logView) ReadUsage(ctx context.Context, name string) (got *pb.ReadUsageResponse, err error) {
	c, to, err := v.reach(name)
	if err == nil {
		got, err = c.ReadUsage(ctx, &pb.ReadUsageRequest{To: to})
	}
	return got, unreachable(name, err)
}

// FollowLogs implements api.Logs.
func (v logView) FollowLogs(ctx context.Context, name string, m *pb.FollowLogsRequest,
	each func(*pb.FollowLogsResponse) error) error {
	c, to, err := v.reach(name)
	if err == nil {
		m.To = to
		err = c.FollowLogs(ctx, m, each)
	}
	return unreachable(name, err)
}

// unreachable marks an error of the way to a cell.
func unreachable(name string, err error) error {
	if err == nil || !link.Unavailable(err) {
		return err
	}
	return fmt.Errorf("cell %s: %w: %w", name, fault.ErrUnreachable, err)
}

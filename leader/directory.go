package leader

import (
	"context"
	"errors"
	"fmt"

	"cantina/batch"
	"cantina/cell"
	"cantina/fence"
	"cantina/internal/link"
	"cantina/worker"
)

// errNoAddress reports a cell that nothing is known of.
var errNoAddress = errors.New("the cell's address is not known")

// directory carries the leader's calls: it implements Cells.
type directory struct{ cells *link.Directory }

func (d directory) to(name worker.CellName) (link.Cell, error) {
	if c := d.cells.Cell(name); c != nil {
		return c, nil
	}
	return nil, fmt.Errorf("cell %s: %w", name, errNoAddress)
}

// GetRunningTasks implements registry.Cells.
func (d directory) GetRunningTasks(ctx context.Context, name worker.CellName, q worker.ReportRequest) (worker.Report,
	error) {
	c, err := d.to(name)
	if err != nil {
		return worker.Report{}, err
	}
	return c.GetRunningTasks(ctx, q)
}

// RunTasks implements registry.Cells.
func (d directory) RunTasks(ctx context.Context, name worker.CellName, tasks []worker.RunTask,
	payloads []*batch.Payload) ([]worker.RunAnswer, error) {
	c, err := d.to(name)
	if err != nil {
		return nil, err
	}
	return c.RunTasks(ctx, cell.RunItems(tasks, payloads))
}

// NotifyIfTasksNotRunning implements registry.Cells.
func (d directory) NotifyIfTasksNotRunning(ctx context.Context, name worker.CellName,
	q worker.Notify) (worker.NotifyAnswer, error) {
	c, err := d.to(name)
	if err != nil {
		return worker.NotifyAnswer{}, err
	}
	return c.NotifyIfTasksNotRunning(ctx, q)
}

// KillTask implements registry.Cells.
func (d directory) KillTask(ctx context.Context, name worker.CellName, calls []worker.KillTask) error {
	c, err := d.to(name)
	if err == nil {
		_, err = c.KillTask(ctx, calls)
	}
	return err
}

// RequestSuicide implements registry.Cells.
func (d directory) RequestSuicide(ctx context.Context, name worker.CellName, s worker.Suicide) error {
	c, err := d.to(name)
	if err == nil {
		err = c.RequestSuicide(ctx, s)
	}
	return err
}

// Perform implements Performer.
func (d directory) Perform(ctx context.Context, name worker.CellName, work cell.Work) ([]cell.Refusal, error) {
	c, err := d.to(name)
	if err != nil {
		return nil, err
	}
	return c.Perform(ctx, work)
}

// StopWork implements Cells.
func (d directory) StopWork(ctx context.Context, name worker.CellName, term fence.Term, proc worker.Proc,
	w cell.Stops) error {
	c, err := d.to(name)
	if err == nil {
		err = c.StopWork(ctx, term, proc, w)
	}
	return err
}

// Drain implements Cells.
func (d directory) Drain(ctx context.Context, name worker.CellName, term fence.Term, proc worker.Proc,
	e cell.Drain) error {
	c, err := d.to(name)
	if err == nil {
		err = c.Drain(ctx, term, proc, e)
	}
	return err
}

// SetAddress implements Cells.
func (d directory) SetAddress(name worker.CellName, address string) {
	d.cells.SetAddress(name, address)
}

// NeverSent implements registry.Cells and Performer.
func (d directory) NeverSent(err error) bool {
	return errors.Is(err, errNoAddress) || link.NeverSent(err)
}

var _ Cells = directory{}

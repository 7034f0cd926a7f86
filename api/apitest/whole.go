package apitest

import (
	"context"
	"fmt"
	"time"

	"cantina/api"
	"cantina/event"
	"cantina/fault"
	"cantina/label"
	"cantina/lrp"
	"cantina/plan"
	"cantina/task"
	"cantina/worker"
)

// SetCell adds or changes a cell.
func (f *cellRows) SetCell(c api.Cell) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.revision++
	f.cells[string(c.Name)] = &c
	f.publish(event.Event{Kind: event.Cell, Subject: string(c.Name),
		Cell: &event.CellState{Name: c.Name, Proc: c.Proc, Session: c.Session, Reason: c.Reason}})
}

// ListCells implements api.Cells.
func (f *cellRows) ListCells(r plan.Range, labels label.Selector, all bool) (plan.Page[api.Cell], error) {
	return page(f.commits, f.cells, r,
		func(c *api.Cell) bool { return (all || c.Gone == nil) && labels.Selects(c.Labels) }), nil
}

// GetCell implements api.Cells.
func (f *cellRows) GetCell(name worker.CellName) (api.Cell, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c := f.cells[string(name)]; c != nil {
		return *c, nil
	}
	return api.Cell{}, fmt.Errorf("cell %s: %w", name, fault.ErrNotFound)
}

// AdoptCell implements api.Cells.
func (f *cellRows) AdoptCell(_ context.Context, name worker.CellName, w plan.Write) error {
	_, err := once(f.commits, w, -1, func() (bool, error) {
		c := f.cells[string(name)]
		if c == nil || c.Cluster == "" {
			return false, fmt.Errorf("cell %s: %w", name, fault.ErrNotFound)
		}
		c.Cluster = ""
		return true, nil
	})
	return err
}

// DiscardUnknown implements api.Cells.
func (f *cellRows) DiscardUnknown(_ context.Context, name worker.CellName, w plan.Write) ([]string, error) {
	return once(f.commits, w, -1, func() ([]string, error) {
		c := f.cells[string(name)]
		if c == nil {
			return nil, fmt.Errorf("cell %s: %w", name, fault.ErrNotFound)
		}
		ended := c.Unknown
		c.Unknown = nil
		return ended, nil
	})
}

// ForgetCell implements api.Cells.
func (f *cellRows) ForgetCell(_ context.Context, proc worker.Proc, w plan.Write) error {
	_, err := once(f.commits, w, -1, func() (bool, error) {
		for k, c := range f.cells {
			if c.Proc == proc {
				delete(f.cells, k)
				return true, nil
			}
		}
		return false, fmt.Errorf("process %s: %w", proc, fault.ErrNotFound)
	})
	return err
}

// DrainCell implements api.Cells.
func (f *cellRows) DrainCell(_ context.Context, name worker.CellName, d api.NewDrain, w plan.Write) (api.Cell, error) {
	return f.changeCell(name, w, func(c *api.Cell) {
		c.Draining = true
		c.Drain = &api.Drain{Reason: d.Reason, By: w.By, Since: f.now(), Until: f.now().Add(max(d.Deadline, time.Second)),
			StopBatch: d.StopBatch}
	})
}

// UndrainCell implements api.Cells.
func (f *cellRows) UndrainCell(_ context.Context, name worker.CellName, w plan.Write) (api.Cell, error) {
	return f.changeCell(name, w, func(c *api.Cell) { c.Draining, c.Drain = false, nil })
}

// Rebalance implements api.Cells: one move, whose gain is the query.
func (f *cellRows) Rebalance(_ context.Context, q api.RebalanceQuery, _ plan.Write) (api.Balance, error) {
	return api.Balance{Moves: []api.Relocation{{Instance: "d/web/0", From: "c1", To: "c2",
		Gain: fmt.Sprintf("%d of %v on %v, apply %v", q.MaxMoves, q.Services, q.Cells, q.Apply)}}}, nil
}

func (f *cellRows) changeCell(name worker.CellName, w plan.Write, change func(*api.Cell)) (api.Cell, error) {
	return once(f.commits, w, -1, func() (api.Cell, error) {
		c := f.cells[string(name)]
		if c == nil {
			return api.Cell{}, fmt.Errorf("cell %s: %w", name, fault.ErrNotFound)
		}
		change(c)
		return *c, nil
	})
}

// SetStatus changes the result of Status.
func (f *Fake) SetStatus(change func(*api.Status)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.status)
}

// Status implements api.Operation.
func (f *Fake) Status() (api.Status, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.status
	s.Revision, s.Quarantined = f.revision, len(f.rows)
	s.Counts = map[string]int{"services": len(f.services), "instances": len(f.indices), "tasks": len(f.tasks),
		"jobs": len(f.jobs), "cells": len(f.cells)}
	return s, nil
}

// EndWait implements api.Operation.
func (f *Fake) EndWait(_ context.Context, w plan.Write) error {
	_, err := once(f.commits, w, -1, func() (bool, error) {
		f.status.Waiting = false
		return true, nil
	})
	return err
}

// Quarantine adds a row that cannot be read.
func (f *Fake) Quarantine(q api.Quarantined) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rows[q.Key] = &q
}

// ListQuarantine implements api.Operation.
func (f *Fake) ListQuarantine(r plan.Range) (plan.Page[api.Quarantined], error) {
	return page(f.commits, f.rows, r, func(*api.Quarantined) bool { return true }), nil
}

// ReleaseQuarantined implements api.Operation.
func (f *Fake) ReleaseQuarantined(_ context.Context, key string, restore bool, w plan.Write) error {
	_, err := once(f.commits, w, -1, func() (bool, error) {
		if _, ok := f.rows[key]; !ok {
			return false, fmt.Errorf("row %s: %w", key, fault.ErrNotFound)
		}
		if restore {
			return false, fmt.Errorf("row %s is still not readable: %w", key, fault.ErrConflict)
		}
		delete(f.rows, key)
		return true, nil
	})
	return err
}

// ShortenStop implements api.Stops: a service that is scaled to 0 has one instance to end.
func (f *Fake) ShortenStop(_ context.Context, s plan.Subject, grace time.Duration) (api.Stopping, error) {
	f.Graces = append(f.Graces, fmt.Sprintf("%s %s/%s %v", s.Kind, s.Domain, s.Name, grace))
	return api.Stopping{Ending: 1, Shortened: 1}, nil
}

// Explain implements api.Explainer: a PENDING task lacks memory, everything else is
// as wanted.
func (f *Fake) Explain(_ context.Context, s plan.Subject) (plan.Explanation, error) {
	x := plan.Explanation{Subject: s, State: "as it is", Wanted: "as it is", Fine: true}
	var err error
	switch s.Kind {
	case plan.SubjectTask:
		var t plan.Task
		if t, err = f.GetTask(s.Name); err == nil && t.State == task.Pending {
			x.State, x.Wanted, x.Fine = "PENDING", "RUNNING", false
			x.Reasons = []plan.Reason{{
				Code: "insufficient_resources", Text: "no cell has memory_mb 512 free, the largest has 300", Resource: "memory_mb",
				Need: 512, Have: 300,
				Level: "cell", Change: "ask for memory: 300Mi or less",
			}}
		}
	case plan.SubjectService, plan.SubjectInstance:
		_, err = f.GetService(lrp.ServiceKey{Domain: s.Domain, Name: s.Name})
	case plan.SubjectJob, plan.SubjectNode:
		_, err = f.GetJob(s.Job())
	case plan.SubjectCell:
		_, err = f.GetCell(worker.CellName(s.Name))
	}
	return x, err
}

package main

import (
	"context"
	"sync"

	"cantina/internal/node"
)

// lateCell opens and runs the cell of a dev that was started with too little disk space, when more
// is available: until then only its server answers, with the cause.
func lateCell(ctx context.Context, server *node.Server, work node.CellConfig, h *lateHost) error {
	if err := server.AwaitRoom(ctx); err != nil {
		return err
	}
	cell, err := node.OpenCell(ctx, work)
	if err != nil {
		return err
	}
	server.Directory().SetLocal(work.Name, cell.Local())
	h.set(cell)
	return cell.Run(ctx)
}

// lateHost is the host of a process whose cell is opened late.
type lateHost struct {
	mu   sync.Mutex
	cell *node.Cell
}

func (l *lateHost) set(c *node.Cell) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cell = c
}

func (l *lateHost) host() host {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cell == nil {
		return nothing{}
	}
	return l.cell
}

// Dir names the data directory of the cell; empty while there is none.
func (l *lateHost) Dir() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cell == nil {
		return ""
	}
	return l.cell.DirID()
}

// Freeze implements terminal.Host.
func (l *lateHost) Freeze() error { return l.host().Freeze() }

// Thaw implements terminal.Host.
func (l *lateHost) Thaw() error { return l.host().Thaw() }

// Abort implements terminal.Host.
func (l *lateHost) Abort() { l.host().Abort() }

// Containers implements host.
func (l *lateHost) Containers() (ending, staying int) { return l.host().Containers() }

package reaper

import (
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"cantina/cgroup"
)

// defaultSignal and defaultGrace apply to a container without its own.
const (
	defaultSignal = unix.SIGTERM
	defaultGrace  = 10_000 // milliseconds
)

// state of a class: open ──deadline or cell gone──▶ ending ──empty──▶ closed ──new deadline──▶
// open, unless it ends permanently. A closed class is frozen: a process that a cell, stopped in
// the middle of a start, still puts there does not execute one instruction, and is killed.
type state int

const (
	open state = iota
	ending
	closed
)

// class is a directory of containers that end together.
type class struct {
	dir      string
	stop     bool  // ends when the cell is gone
	deadline int64 // boot time in ns; 0 = none
	pending  int64 // a deadline that came while ending; -1 = none came
	state    state
	last     bool             // permanent: the cell is gone, or the reaper ends everything
	asked    map[string]int64 // container → when it is killed
}

func newClass(dir string) *class {
	return &class{dir: dir, pending: -1}
}

// setDeadline sets a new deadline. A class that is ending continues to end. A class that ends
// permanently is never opened again: not by a message that was on its way, and not by a deadline
// that arrived while it was ending.
func (c *class) setDeadline(at int64) {
	switch {
	case c.last:
	case c.state == open:
		c.deadline = at
	case c.state == closed && (at == 0 || at > bootNow()):
		c.deadline, c.state, c.pending = at, open, -1
		cgroup.At(c.dir).Thaw()
	default:
		c.pending = at
	}
}

func (c *class) due(now int64) bool { return c.state == open && c.deadline > 0 && now >= c.deadline }

func (c *class) end() {
	if c.state == open {
		c.state = ending
		c.asked = map[string]int64{}
		cgroup.At(c.dir).Thaw()
	}
}

// step continues the end. It returns true once, when the class became empty.
func (c *class) step(now, killWait int64) bool {
	switch c.state {
	case ending:
		if !c.advance(now, killWait) {
			return false
		}
		c.state = closed
		cgroup.At(c.dir).Freeze()
		if at := c.pending; at >= 0 {
			c.pending = -1
			c.setDeadline(at)
		}
		return true
	case closed:
		if !c.empty() {
			for _, d := range c.containers() {
				if g := cgroup.At(d); !c.emptyAt(g) {
					mark(g)
				}
			}
			cgroup.At(c.dir).Kill()
		}
	}
	return false
}

// advance sends each container its stop signal once, and kills it after its grace.
func (c *class) advance(now, killWait int64) bool {
	all := c.containers()
	for _, d := range all {
		g := cgroup.At(d)
		if full, err := g.Populated(); err == nil && !full {
			continue
		}
		at, asked := c.asked[d]
		switch {
		case !asked:
			sig, grace := stopOf(d)
			g.Thaw()
			mark(g)
			g.Signal(sig)
			c.asked[d] = now + min(grace, killWait)*1e6
		case now >= at:
			g.Kill()
		}
	}
	return c.empty()
}

// mark records on a group which of its processes the reaper is about to end, so that the cell can
// distinguish them from those that had ended before. A group without attributes cannot be marked.
func mark(g *cgroup.Group) {
	if pids, err := g.Procs(); err == nil {
		_ = g.SetAsked(pids)
	}
}

// stopOf reads how a container wants to be stopped.
func stopOf(dir string) (unix.Signal, int64) {
	buf := make([]byte, 64)
	n, err := unix.Getxattr(dir, cgroup.StopAttr, buf)
	if err != nil {
		return defaultSignal, defaultGrace
	}
	sig, grace, ok := strings.Cut(string(buf[:n]), " ")
	if !ok || number(sig) <= 0 {
		return defaultSignal, defaultGrace
	}
	return unix.Signal(number(sig)), number(grace)
}

func (c *class) containers() []string {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() {
			out = append(out, filepath.Join(c.dir, e.Name()))
		}
	}
	return out
}

func (c *class) empty() bool { return c.emptyAt(cgroup.At(c.dir)) }

func (c *class) emptyAt(g *cgroup.Group) bool {
	full, err := g.Populated()
	return err == nil && !full
}

// killUntilEmpty kills a group and reports whether it is empty.
func killUntilEmpty(g *cgroup.Group) bool {
	if full, err := g.Populated(); err == nil && !full {
		return true
	}
	g.Kill()
	return false
}

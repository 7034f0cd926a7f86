package executor

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"cantina/cgroup"
	"cantina/internal/proctree"
	"cantina/resource"
	"cantina/spawn"
)

// controlGroups is the backend of a machine with usable control groups: no process escapes, and
// the class of a group determines when the reaper ends it.
type controlGroups struct {
	*cgroup.Tree
	e *Executor
}

func (b *controlGroups) tree() *cgroup.Tree { return b.Tree }
func (b *controlGroups) canKeep() error     { return nil }
func (b *controlGroups) String() string     { return "control groups" }

// track makes the group, and records there for the reaper how the container is stopped.
func (b *controlGroups) track(c *container) error {
	g, err := b.Create(c.class(), c.id, c.limits())
	if errors.Is(err, ErrNoGroup) {
		b.e.prober.setGroupless(err)
	}
	if err != nil {
		return err
	}
	c.programs.use(&groupTracker{Group: g, o: c.order})
	if err := c.leaveWork(g); err != nil {
		return err
	}
	if t := &c.spec.Workload.Termination; stopSignal(t) != syscall.SIGTERM || t.Grace != 0 {
		return g.SetStop(int(stopSignal(t)), grace(t).Milliseconds())
	}
	return nil
}

// try makes and removes a group in each class, with a limit that any hierarchy takes.
func (b *controlGroups) try(name string) error {
	for _, class := range b.e.generation.classes() {
		g, err := b.Create(class, name, cgroup.Limits{Pids: 100})
		if err == nil {
			err = g.Remove()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *controlGroups) classDirs(kinds ...string) (dirs []string) {
	for _, kind := range kinds {
		dirs = append(dirs, filepath.Join(b.Root(), b.e.generation.class(kind)))
	}
	return dirs
}

// groupTracker tracks the processes of a container in its control group, which lists, signals and
// counts them. The reaper knows them by its class.
type groupTracker struct {
	*cgroup.Group
	o       *order
	stopped sync.Once
}

func (t *groupTracker) join(s *spawn.Spec) error {
	if s.Group == nil { // else a part of it
		s.Group = t.Group
	}
	return nil
}

func (t *groupTracker) part(name string, s *spawn.Spec) (part, error) {
	g, err := t.Part(name)
	s.Group = g
	return groupPart{g}, err
}

func (t *groupTracker) started(*spawn.Process) error { return nil }
func (t *groupTracker) beside(*spawn.Process)        {} // the group is not empty before
func (t *groupTracker) parentDeath() syscall.Signal  { return syscall.SIGTERM }
func (t *groupTracker) record(r *keptRecord)         { r.Group, r.Slot = t.Dir(), t.SlotDirs() }
func (t *groupTracker) freeze(bool) error            { return nil }

func (t *groupTracker) alone() bool {
	pids, err := t.Procs()
	return err == nil && len(pids) == 1
}

func (t *groupTracker) signal(_ *spawn.Process, sig syscall.Signal) { t.Signal(sig) }

func (t *groupTracker) stop(_ *spawn.Process, sig syscall.Signal) {
	t.stopped.Do(func() { t.Signal(sig) })
}

func (t *groupTracker) leaveKill(wait time.Duration) bool {
	t.o.e.keeper.kill(t.Dir(), wait)
	return true
}

func (t *groupTracker) watch() (<-chan struct{}, func()) { return t.o.e.watcher.Watch(t.Group) }

func (t *groupTracker) remove() error {
	err := t.Remove()
	if err == nil && t.o.leavesKill() {
		t.o.e.keeper.spare(t.Dir())
	}
	return err
}

// groupPart is a group within the container's, for whose limits it counts.
type groupPart struct{ *cgroup.Group }

func (p groupPart) end(_ int, limit time.Duration) error { return proctree.EndGroup(p.Group, limit) }

// leaveWork records on its group which work a container has. A kept one has its own record, and a
// probe needs none.
func (o *order) leaveWork(g *cgroup.Group) error {
	if o.hidden || o.keep() {
		return nil
	}
	b, err := json.Marshal(work{o.id, o.labels, o.need})
	if err != nil {
		return err
	}
	return g.SetWork(b)
}

// work is the record of a container at its group: if processes survive KILL, a successor
// identifies their work by it, so that it holds the work and its resources stay allocated.
type work struct {
	ID        string
	Labels    Labels
	Resources resource.Amounts
}

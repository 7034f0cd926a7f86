package executor

import (
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"cantina/action"
	"cantina/cgroup"
	"cantina/executor/isolate"
	"cantina/image"
	"cantina/logstore"
	"cantina/resource"
	"cantina/spawn"
	"cantina/spawn/procid"
)

// ask is a request to a container; a later one replaces an earlier lower one.
type ask int

const (
	askNothing ask = iota
	askStop
	askKill
	askDelete // stop, and forget
)

func (a ask) String() string { return [...]string{"start", "stop", "kill", "delete"}[a] }

// container is one container. One goroutine drives it, from Start to Completed.
type container struct {
	*order
	stopC   chan struct{} // closed at the first request
	leaveC  chan struct{} // closed when the cell ends
	doneC   chan struct{} // closed at Completed
	deleteC chan struct{} // closed when it is to be deleted
	within  atomic.Int64  // longest grace in ns, of StopWithin; 0 = the workload's own
	killed  moment        // by killOverdue, whether or not the driver has seen the request

	lifecycle // guarded by e.mu

	files     files
	programs  programs
	starting  starting
	judgement judgement

	// owned by the driver
	spent     time.Duration // from begun until it was made
	writers   [2]*logstore.Writer
	status    statusSink
	followers sync.WaitGroup  // that take the output of a kept program
	given     [2]int64        // bytes of each stream that the writer has been handed; of the follower
	leftProc  procid.Identity // processes that a predecessor left without a group
}

// order is the definition of a container. It does not change once its driver has started.
type order struct {
	e       *Executor
	id      string
	labels  Labels
	need    resource.Amounts
	bound   bool // to the cell's deadline
	hidden  bool // a probe: in no list, its output is not kept
	adopted bool
	created time.Time
	expires time.Duration // boot time at which the reservation does
	begun   time.Duration // boot time of Start
	spec    Spec
}

// programs are the processes of a container, and where they are counted and found.
type programs struct {
	*order
	adoptedFrom *keptRecord // the predecessor's record; nil unless adopted

	mu        sync.Mutex
	tracker   tracker          // only the driver sets it
	unkilled  []part           // of checks, in which something does not die
	kept      *kept            // the program that a shim owns
	written   bool             // a successor finds the container written down
	processes []*spawn.Process // that may still hold output
	notes     pidNotes
}

// files are the directory of a container and the files that its programs see. The driver owns
// them.
type files struct {
	*order
	dir     string
	pooled  *pooledDir     // the same, when directories gave it out
	view    *isolate.View  // nil below IsolationNamespaces
	lower   []string       // directories of the image, the topmost first
	release func()         // releases the image
	image   image.Settings // the image's settings
	rootDir string         // where ResultFile is looked for; "" = directory
	copies  atomic.Int32   // of files to be uploaded, so far
}

func newContainer(e *Executor, r Reservation, need resource.Amounts) *container {
	o := &order{e: e, id: r.ID, labels: r.Labels, need: need, bound: r.DeadlineBound,
		created: e.clock.Wall(), expires: e.clock.Boot() + r.Expires}
	c := &container{order: o, files: files{order: o}, programs: programs{order: o},
		stopC: make(chan struct{}), leaveC: make(chan struct{}), doneC: make(chan struct{}), deleteC: make(chan struct{})}
	c.starting.c, c.judgement.c = c, c
	c.programs.tracker = &processTracker{c: c, shut: true}
	return c
}

// snapshot copies the public state. The executor is locked.
func (c *container) snapshot() Container {
	return Container{ID: c.id, Labels: c.labels, State: c.state, Result: c.result, Ports: slices.Clone(c.ports),
		Routable: c.routable && !c.ends(), Resources: c.need, DeadlineBound: c.bound, Adopted: c.adopted, Kept: c.keep(),
		Ending: c.ask != askNothing,
		EndWhy: c.endWhy(), Decided: c.decided && c.state != Completed, EndBy: c.endBy, Phase: c.phase, Stuck: c.stuck,
		Hang:     c.hang,
		OOMKills: c.oomKills, Created: c.created, Pid: c.pid, Dir: c.files.dirPath(), Isolation: c.spec.Workload.Isolation}
}

// dirPath is where the container's directory is, or will be.
func (fl *files) dirPath() string {
	if fl.dir != "" {
		return fl.dir
	}
	return filepath.Join(fl.e.cfg.Dir, "run", cgroup.Escape(fl.id))
}

func (fl *files) root() string {
	if fl.rootDir != "" {
		return fl.rootDir
	}
	return fl.dirPath()
}

// keep reports whether the container outlives its cell.
func (o *order) keep() bool { return o.spec.Workload.OnCellRestart.Survives() }

// request records a request. The executor is locked; the result is called without the lock.
func (c *container) request(a ask, reason string) func() {
	d := c.lifecycle.request(a, reason, c.endsIn(c.graceOf(&c.spec.Workload.Termination)))
	if d.deletes {
		close(c.deleteC)
	}
	if d.first {
		close(c.stopC)
	}
	switch {
	case d.never:
		return func() { c.complete(c.neverRan()) }
	case d.forget:
		return c.forget
	}
	return func() {
		for _, k := range d.events {
			c.e.emit(k, c)
		}
	}
}

// endsIn is the latest time of the KILL for a container with a grace from now on.
func (c *container) endsIn(grace time.Duration) time.Time {
	return c.e.clock.Wall().Round(0).Add(grace)
}

// graceOf is how long a container has from the request for its end.
func (c *container) graceOf(t *action.Termination) time.Duration {
	if t.Mode == action.KillNow {
		return 0
	}
	return c.graceWithin(grace(t))
}

// neverRan is the result of a container that was ended before it ran.
func (c *container) neverRan() RunResult { return c.lifecycle.neverRan(c.e.clock.Wall()) }

// leave ends a container because the cell ends: kept ones are released.
func (c *container) leave() {
	c.e.mu.Lock()
	defer c.e.mu.Unlock()
	first, ends := c.lifecycle.leave(c.keep(), c.endsIn(c.graceOf(&c.spec.Workload.Termination)))
	if first {
		close(c.leaveC)
	}
	if ends {
		close(c.stopC)
	}
}

// advance moves the state forward, where that is allowed.
func (c *container) advance(to State) bool {
	c.e.mu.Lock()
	defer c.e.mu.Unlock()
	if !c.lifecycle.advance(to) {
		return false
	}
	if to == Running {
		c.starting.quiet()
	}
	return true
}

// complete sets the result, once, and removes the container if that was requested.
func (c *container) complete(r RunResult) {
	c.e.mu.Lock()
	if !c.lifecycle.complete(r) {
		c.e.mu.Unlock()
		return
	}
	c.starting.quiet()
	delete(c.e.prober.probing, c)
	c.rest()
	gone := c.delete
	c.e.mu.Unlock()
	close(c.doneC)
	c.e.emit(EventCompleted, c)
	if gone {
		c.forget()
	}
}

// rest releases the resources that a completed container no longer needs: only its directory is
// left, so it holds only disk space. The next container need not wait until the result was read
// and the container deleted. The lock is held.
func (c *container) rest() {
	var left resource.Amounts
	if mb := c.need[resource.DiskMB]; mb > 0 {
		left = resource.Amounts{resource.DiskMB: mb}
	}
	c.e.take(c.need, -1)
	c.e.take(left, 1)
	c.need = left
}

// forget removes the rest of a completed container, once.
func (c *container) forget() {
	c.e.mu.Lock()
	first := c.lifecycle.forget()
	c.e.mu.Unlock()
	if !first {
		return
	}
	spare := c.files.removeDir()
	if c.keep() { // also of a start that came to nothing
		c.e.remains.discard(c.e.keepDir(c.id))
	}
	c.e.mu.Lock()
	if c.e.containers[c.id] != c {
		c.e.mu.Unlock()
		return
	}
	delete(c.e.containers, c.id)
	c.e.take(c.need, -1)
	snap := c.snapshot()
	ports, recorded := c.ports, c.recorded
	c.e.mu.Unlock()
	if recorded {
		c.judgement.removeOutcome()
	}
	c.e.dirPool.put(spare)
	c.e.ports.givePortsBack(ports)
	if !c.e.hub.none() {
		c.e.hub.emit(Event{Kind: EventDeleted, Container: snap})
	}
}

// asked returns the present request to the container.
func (c *container) asked() (ask, string) {
	c.e.mu.Lock()
	defer c.e.mu.Unlock()
	return c.ask, c.reason
}

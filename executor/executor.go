// Package executor runs containers on one machine: it reserves resources for them, starts their
// processes in separate control groups, watches them, and ends them without leaving any behind.
//
//	RESERVED ──Start──▶ INITIALIZING ──▶ CREATED ──▶ RUNNING ──▶ COMPLETED ──Delete──▶ gone
//	    └──────────────────┴───────────────┴──expiry, Stop, Kill, failure──▶ COMPLETED
//
// A container is COMPLETED only when no process of it is alive, and it may be deleted in any
// state. STUCK_KILLING is not a state but a condition of a container that was killed and does not
// become COMPLETED.
//
// Beside it runs cantina-reaper, which ends work when the cell's process is dead, stopped or
// hangs. The class of a control group determines when its containers end, so that a start costs no
// message:
//
//	stop.bound  ends with the cell's process, and at the deadline
//	stop.free   ends with the cell's process
//	keep.bound  outlives it, until the deadline of its generation
//	keep.free   outlives it
//
// The name of a class ends with the generation, which is new in each cell process: so the reaper
// of a dead one never touches processes of its successor.
//
// (Diego executor, Container lifecycle; Bistro task termination.) Only the cell calls this
// package.
package executor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"cantina/cgroup"
	"cantina/executor/isolate"
	"cantina/executor/step"
	"cantina/image"
	"cantina/image/cache"
	"cantina/internal/removal"
	"cantina/internal/run"
	"cantina/logstore"
	"cantina/resource"
	"cantina/spawn"
)

// Open takes the directory's lock and ends or adopts the work of a dead predecessor. It starts
// nothing else. It returns ErrInUse if another cell has the directory.
func Open(cfg Config) (*Executor, error) {
	e := newExecutor(cfg)
	if err := e.open(); err != nil {
		e.release()
		return nil, fmt.Errorf("open executor %s: %w", cfg.Dir, err)
	}
	return e, nil
}

func newExecutor(cfg Config) *Executor {
	cfg = cfg.withDefaults()
	e := &Executor{cfg: cfg, clock: cfg.Clock, log: cfg.Log, boot: bootID,
		self: sync.OnceValue(hostAccounts().self), hub: hub{subs: map[*Subscription]bool{}}, abort: make(chan struct{}),
		containers: map[string]*container{}, used: resource.Amounts{}, stuck: map[*container]bool{}}
	e.backend = processGroups{}
	e.probing = map[*container]bool{}
	e.recovery.e, e.deadlines.e, e.freezer.e, e.prober.e, e.ports.e, e.disk.e, e.kinds.e = e, e, e, e, e, e, e
	e.volumes.e = e
	e.remains.e, e.remains.remove, e.remains.known = e, removal.Tree, map[string]error{}
	e.kinds.withdrawn = map[string]string{}
	e.ports.open(cfg.FirstPort, cfg.LastPort)
	e.ports.leaves = e.ports.portLeaves
	return e
}

func (e *Executor) open() error {
	var err error
	if e.cfg.Dir, err = filepath.Abs(e.cfg.Dir); err != nil {
		return err
	}
	if err := os.MkdirAll(e.cfg.Dir, 0o711); err != nil {
		return err
	}
	// Its real path: the way of another user to its directory goes through no link.
	if e.cfg.Dir, err = filepath.EvalSymlinks(e.cfg.Dir); err != nil {
		return err
	}
	if err := errors.Join(e.checkUser(), e.volumes.open()); err != nil {
		return err
	}
	if e.lock, err = lockDir(e.cfg.Dir); err != nil {
		return err
	}
	RaiseFileLimit()
	e.dirPool.dir, e.dirPool.clock = e.path("run"), e.clock.Boot
	e.generation = generation(fmt.Sprintf("%016x", int64(e.clock.Boot())))
	if err := e.remains.open(); err != nil {
		return err
	}
	if err := e.recovery.clearPredecessor(); err != nil {
		return err
	}
	if err := e.closeDirs(); err != nil {
		return err
	}
	if err := e.recovery.openGroups(); err != nil {
		return err
	}
	if err := e.deadlines.openDeadline(); err != nil {
		return err
	}
	if err := e.recovery.adopt(); err != nil {
		return err
	}
	if e.null, err = os.OpenFile(os.DevNull, os.O_RDWR, 0); err != nil {
		return err
	}
	if e.out, err = logstore.Open(filepath.Join(e.cfg.Dir, "output"), e.cfg.Output); err != nil {
		return err
	}
	if e.cache, err = cache.Open(e.path("cache"), e.cfg.Cache); err != nil {
		return err
	}
	if e.images, err = image.Open(e.path("image"), e.cfg.Image); err != nil {
		return err
	}
	if err := e.recovery.inherit(); err != nil {
		return err
	}
	e.steps = step.New(e.cache, e.clock)
	if e.watcher, err = cgroup.NewWatcher(); err != nil {
		return err
	}
	if e.launcher, err = spawn.NewLauncher(e.backend.tree()); err != nil {
		return err
	}
	if e.spaces, err = isolate.OpenHost(); err != nil {
		e.log.Info("no namespaces", "error", err)
	}
	e.keeper, err = newKeeper(e)
	return err
}

// release undoes a failed open.
func (e *Executor) release() {
	e.dirPool.clear()
	e.backend.Close()
	if e.out != nil {
		e.out.Close()
	}
	if e.cache != nil {
		e.cache.Close()
	}
	if e.spaces != nil {
		e.spaces.Close()
	}
	for _, f := range append(e.deadlines.deadlineFiles, e.null, e.lock) {
		if f != nil {
			f.Close()
		}
	}
}

// Run serves until ctx is done, then ends all containers that do not outlive the
// cell, and returns when they are gone. It returns ErrUnclean when some are stuck.
func (e *Executor) Run(ctx context.Context) error {
	var g run.Group
	g.Add("output", e.out.Run)
	g.Add("watcher", e.watcher.Run)
	g.Add("launcher", e.launcher.Run)
	g.Add("reaper", e.keeper.run)
	g.Add("housekeeping", housekeeper{e}.housekeep)
	g.Add("removal", e.remains.retry)
	if e.cfg.TestKinds {
		g.Add("isolation", e.kinds.testKinds)
	}
	g.Add("containers", e.serve)
	err := g.Run(ctx)
	clean := e.emptyNow()
	if !clean {
		err = errors.Join(err, ErrUnclean)
	}
	e.ports.close()
	e.release()
	return err
}

// serve waits for the end of ctx and of all containers.
func (e *Executor) serve(ctx context.Context) error {
	e.mu.Lock()
	for _, c := range e.recovery.left {
		if c.programs.adoptedFrom != nil {
			e.drivers.Go(c.driveAdopted)
		} else {
			e.drivers.Go(c.driveLeft)
		}
	}
	e.recovery.left = nil
	e.mu.Unlock()
	<-ctx.Done()
	e.mu.Lock()
	e.closed = true
	var all []*container
	for _, c := range e.containers {
		all = append(all, c)
	}
	for c := range e.prober.probing {
		all = append(all, c)
	}
	e.mu.Unlock()
	for _, c := range all {
		c.leave()
	}
	e.drivers.Wait()
	e.writeOutcomes(true)
	return nil
}

// collectWait is how long Collect waits for containers without processes.
const collectWait = 500 * time.Millisecond

// Collect collects past ends, and returns when the containers without processes are COMPLETED, or
// decided, after a short time at most. Call it before ending work because of a deadline. (Decision
// 0428.)
func (e *Executor) Collect() {
	e.mu.Lock()
	var all []*container
	for _, c := range e.containers {
		if c.state == Running {
			all = append(all, c)
		}
	}
	e.mu.Unlock()
	end := time.Now().Add(collectWait)
	for _, c := range all {
		for c.programs.collect(); c.programs.mainEnded() && !c.outcomeKnown() &&
			time.Now().Before(end); time.Sleep(time.Millisecond) {
		}
	}
}

// outcomeKnown reports whether a container has ended, or how its program ended is decided.
func (c *container) outcomeKnown() bool {
	c.e.mu.Lock()
	defer c.e.mu.Unlock()
	return c.decided || c.state == Completed
}

// Abort makes every container that is ending, or ends later, be killed at once:
// the second Ctrl-C.
func (e *Executor) Abort() { e.aborting.Do(func() { close(e.abort) }) }

// Unclean reports whether deadline-bound work is left that should be dead but does
// not die: the cell takes no work then, and is not "certainly dead".
func (e *Executor) Unclean() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.uncleanLocked()
}

package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"cantina/action"
	"cantina/executor/isolate"
	"cantina/executor/reaper"
	"cantina/executor/shim"
	"cantina/executor/step"
	"cantina/spawn"
	"cantina/spawn/procid"
)

const (
	keptRecordFile = "container"
	resultFile     = "result" // a RunResult, when all output is stored
)

// checkKeep refuses work that cannot be kept.
func (o *order) checkKeep() error {
	err := o.spec.Workload.CheckKeep()
	if o.keep() {
		err = cmp.Or(o.e.backend.canKeep(), err)
	}
	if err != nil {
		return fmt.Errorf("on_cell_restart: %w", err)
	}
	return nil
}

// startKept starts a program with its own shim.
func (h *stepHost) startKept(ctx context.Context, r *action.Run) (*kept, error) {
	c := h.c
	if err := c.e.keeper.wait(c.bound); err != nil {
		return nil, err
	}
	if c.bound {
		if err := c.e.deadlines.mayKeep(); err != nil {
			return nil, err
		}
	}
	dir := c.e.keepDir(c.id)
	if err := errors.Join(c.e.remains.unused(dir), os.MkdirAll(dir, 0o700)); err != nil {
		return nil, err
	}
	spec, err := c.shimSpec(r)
	if err == nil {
		err = shim.Put(dir, shim.SpecFile, spec, false)
	}
	if err != nil {
		return nil, err
	}
	k := &kept{h: h, c: c, dir: dir, done: make(chan struct{})}
	events, unwatch := c.e.watcher.WatchPath(dir, unix.IN_MODIFY|unix.IN_MOVED_TO)
	k.shim, err = c.programs.startProcess(&spawn.Spec{Path: c.e.keeper.path, Name: reaper.Name,
		Args: []string{"shim", dir}, Session: true,
		Gain: c.spec.Workload.Isolation == action.IsolationNone, Env: []string{"GOMAXPROCS=1", "GODEBUG=madvdontneed=1"}})
	if err == nil {
		err = k.writeKeptRecord()
	}
	if err == nil {
		err = k.awaitStart(ctx, events, r.Path)
	}
	if err != nil {
		unwatch()
		return nil, err
	}
	k.follow(events, unwatch)
	return k, nil
}

func (c *container) shimSpec(r *action.Run) (*shim.Spec, error) {
	ps, err := c.processSpec(r)
	if err != nil {
		return nil, err
	}
	s := &shim.Spec{Path: ps.Path, Args: ps.Args, Dir: ps.Dir, Env: ps.Env, OpenFiles: ps.OpenFiles,
		Limit: c.e.launcher.Limit(), Session: true,
		Status: c.spec.StatusPipe, Quiet: r.SuppressOutput, TimeLimit: c.shimLimit()}
	if ps.Credential != nil {
		s.User = &shim.User{Uid: ps.Credential.Uid, Gid: ps.Credential.Gid, Groups: ps.Credential.Groups}
		if c.spec.Workload.Isolation != action.IsolationRootfs {
			s.Reach = c.files.dir
		}
	}
	if c.files.view != nil {
		s.View = &shim.View{ContainerDir: c.files.dir, Binds: c.files.binds, OwnNet: c.spec.Workload.OwnNet}
		if c.spec.Workload.Isolation == action.IsolationRootfs {
			s.View.Root = c.files.isolateRoot()
		}
	}
	return s, nil
}

// shimLimit is the time limit, which the shim holds while no cell does.
func (o *order) shimLimit() *shim.TimeLimit {
	w := &o.spec.Workload
	if w.TimeLimit <= 0 {
		return nil
	}
	t := &w.Termination
	l := &shim.TimeLimit{At: o.begun + w.TimeLimit, Signal: int(stopSignal(t)), Grace: grace(t)}
	switch t.Mode {
	case action.KillNow:
		l.Signal = 0
	case action.KillTerm:
		l.Grace = -1
	}
	return l
}

// ending lets the shim know that the cell ends the program.
func (k *kept) ending() {
	if err := shim.Put(k.dir, shim.EndingFile, true, false); err != nil {
		k.c.e.log.Warn("a kept program may get its stop signal twice", "container", k.c.id, "error", err)
	}
}

func (k *kept) writeKeptRecord() error {
	c := k.c
	id, err := procid.Of(k.shim.Pid)
	if errors.Is(err, procid.ErrGone) {
		return nil // its messages are in its files
	}
	if err != nil {
		return err
	}
	c.e.mu.Lock()
	s := keptRecord{ID: c.id, Labels: c.labels, Resources: c.need, Bound: c.bound,
		Created: c.created, Begun: c.begun, Spec: c.spec,
		Ports: c.ports, Limits: c.limits(), Shim: id}
	c.e.mu.Unlock()
	c.programs.tracker.record(&s)
	if err := shim.Put(k.dir, keptRecordFile, s, false); err != nil {
		return err
	}
	c.programs.mu.Lock()
	c.programs.written = true
	c.programs.mu.Unlock()
	return nil
}

// writtenDown reports whether a successor takes the container over: it has to find how it
// ended too, also when it never ran.
func (ps *programs) writtenDown() bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.written || ps.adoptedFrom != nil
}

// awaitStart waits until the shim has reported the result of the start.
func (k *kept) awaitStart(ctx context.Context, events <-chan struct{}, program string) error {
	pa := k.c.starting.patienceOf(ctx)
	look := time.NewTicker(hangsAfter)
	defer look.Stop()
	limit := timer(pa.limit)
	reported, gaveUp := false, false
	defer func() { k.c.starting.endHang(reported) }()
	for {
		over, gone := k.shim.Ended(), k.shim.Done() // before the look, so that nothing is missed
		var s shim.Started
		err := shim.Get(k.dir, shim.StartedFile, &s)
		switch {
		case err == nil && s.Error != "" && !s.Found:
			return fmt.Errorf("%s: %w", s.Error, os.ErrNotExist)
		case err == nil && s.Error != "":
			return errors.New(s.Error)
		case err == nil:
			return k.watchMain(ctx, procid.Identity{Pid: s.Pid, Start: s.Start})
		case gaveUp: // it had not started when its end was requested
			return pa.gaveUp(program, k.startingPids())
		case unread(err): // unknown: it is checked again
			gone = nil
		case over:
			return errors.New("the shim ended before it started anything")
		}
		select {
		case <-events:
		case <-gone:
		case <-look.C:
			reported = k.c.starting.setHang(reported, program, k.startingPids())
			continue
		case <-limit:
			gaveUp = true
		case <-pa.over:
			gaveUp = true
		}
	}
}

// startingPids are the processes that a shim is making.
func (k *kept) startingPids() []int {
	pids, _ := k.c.programs.pids() // none is as good as an error: it is for a text
	return slices.DeleteFunc(pids, func(pid int) bool { return pid == k.shim.Pid })
}

// watchMain pins the program, to signal it; it may have ended.
func (k *kept) watchMain(ctx context.Context, id procid.Identity) error {
	p, err := k.c.watch(ctx, id)
	if err != nil && !errors.Is(err, procid.ErrGone) {
		return err
	}
	k.mu.Lock()
	k.main = p // nil when it has ended
	k.mu.Unlock()
	k.c.starting.setPid(id.Pid)
	return nil
}

// follow reads output and the end from the shim's files until the shim is gone, or the container
// is released.
func (k *kept) follow(events <-chan struct{}, unwatch func()) {
	k.c.followers.Go(func() {
		defer unwatch()
		leave, again := k.c.leaveC, time.NewTicker(watchAgain)
		defer again.Stop()
		for reported := false; ; {
			over := k.shim.Ended()
			k.takeOutput()
			err := k.look(over)
			if over && err == nil {
				return
			}
			if err != nil && !reported {
				reported = true
				k.c.e.log.Warn("exit status of a kept program unknown; retrying", "container", k.c.id, "error", err)
			}
			gone, look := k.shim.Done(), (<-chan time.Time)(nil)
			if err != nil {
				gone, look = nil, again.C
			}
			select {
			case <-events:
			case <-gone:
			case <-look:
			case <-leave:
				if k.letGo() {
					return
				}
				leave = nil // it is ending: to its end
			}
		}
	})
}

// look checks whether the program has ended. After an error that is unknown.
func (k *kept) look(shimGone bool) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ended != nil || k.lost || k.detached {
		return nil
	}
	var e shim.Ended
	switch err := shim.Get(k.dir, shim.EndedFile, &e); {
	case err == nil:
		k.ended = &e
	case unread(err):
		return err
	case shimGone:
		k.lost = true
	default:
		return nil
	}
	close(k.done)
	return nil
}

// detach lets the container continue without this cell process.
func (k *kept) detach() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ended == nil && !k.lost && !k.detached {
		k.detached = true
		close(k.done)
	}
}

func (k *kept) isDetached() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.detached
}

// takeOutput stores the shim's output, from where the store stopped, and removes whole files that
// are stored.
func (k *kept) takeOutput() {
	if k.buf == nil {
		k.buf = make([]byte, 256<<10)
	}
	for i, w := range k.c.writers {
		if err := k.takeStream(i+1, w, k.buf); err != nil {
			k.c.e.log.Warn("output of a kept container", "container", k.c.id, "error", err)
		}
	}
}

// The store holds back the beginning of an unfinished line, so Written may be behind the data
// passed on; k.given is that amount.
func (k *kept) takeStream(n int, w writer, buf []byte) error {
	given := &k.c.given[n-1]
	if *given == 0 {
		*given = w.Written()
	}
	segments, err := shim.Segments(k.dir, n)
	if err != nil {
		return err
	}
	for i, s := range segments {
		last := i == len(segments)-1
		if !last && segments[i+1].From <= *given {
			if segments[i+1].From <= w.Written() {
				os.Remove(s.Path)
			}
			continue
		}
		if err := copyFrom(s, given, w, buf); err != nil {
			return err
		}
	}
	return nil
}

// writer is the receiver of output.
type writer interface {
	io.Writer
	Written() int64
}

func copyFrom(s shim.Segment, given *int64, w io.Writer, buf []byte) error {
	f, err := os.Open(s.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		n, err := f.ReadAt(buf, *given-s.From)
		if n > 0 {
			w.Write(buf[:n])
			*given += int64(n)
		}
		if err == io.EOF || n == 0 {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// Done is closed when the program has ended, is lost, or is released.
func (k *kept) Done() <-chan struct{} { return k.done }

// Ended collects past ends.
func (k *kept) Ended() bool {
	k.c.programs.collect()
	return isClosed(k.done)
}

// collect takes the end of the program, when it has ended: the shim is about to write it down.
func (k *kept) collect() {
	k.mu.Lock()
	main := k.main
	k.mu.Unlock()
	if isClosed(k.done) || main != nil && !main.Look() {
		return
	}
	for end := time.Now().Add(endWait); ; time.Sleep(lookAgain) {
		if err := k.look(k.shim.Look()); err != nil || isClosed(k.done) || time.Now().After(end) {
			return
		}
	}
}

// endWait is how long a shim may take to write down how its program ended.
const endWait = time.Second

// Exit is how the program ended; a lost one has failed.
func (k *kept) Exit() step.Exit {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.ended != nil:
		e := step.Exit{Code: k.ended.ExitCode, Signal: k.ended.Signal, Stopped: k.asked.before(k.ended.At) ||
			k.h.asked.before(k.ended.At), Killed: k.c.killed.before(k.ended.At)}
		e.TimeLimit = k.ended.TimeLimit
		e.OutOfMemory = (e.Code != 0 || e.Signal != 0) && k.c.programs.oomKillsNow() > 0
		return e
	case k.lost:
		return step.Exit{Code: lostCode, Stopped: k.asked.before(k.c.e.clock.Wall())}
	}
	return step.Exit{Stopped: true} // it was released
}

// running reports whether the program has not ended, as far as is known.
func (k *kept) running() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.ended == nil && !k.lost
}

// lostCode replaces an unobserved exit code. It is never 0.
const lostCode = 255

// Stop sends the stop signal, but not when the cell lets the container go.
func (k *kept) Stop() {
	if k.letGo() {
		return
	}
	t := &k.c.spec.Workload.Termination
	sig := stopSignal(t)
	whole, _ := k.c.asked()
	k.h.stopping(&k.asked, whole)
	k.ending()
	k.mu.Lock()
	main := k.main
	k.mu.Unlock()
	switch {
	case whole != askNothing && t.Target == action.TargetCgroup:
		k.c.programs.with(func(now tracker) { now.stop(k.shim, sig) })
	case main == nil:
	case t.Target == action.TargetChild:
		main.Signal(sig)
	default:
		k.signalGroup(main.Pid, sig)
	}
	k.c.programs.with(func(now tracker) { now.signal(k.shim, syscall.SIGCONT) })
	if main != nil && k.c.files.view != nil && !handles(main.Pid, sig) {
		time.AfterFunc(min(leftoverGrace(t), grace(t)), k.Kill)
	}
}

// letGo reports whether the cell ends while the container continues. One whose end was requested,
// or that has ended, does not: the cell stays until none of its processes is left.
func (k *kept) letGo() bool {
	if k.c.leftAlone() {
		k.detach()
	}
	return k.isDetached()
}

// Kill kills the program and its process group; the shim sees how it ended.
func (k *kept) Kill() {
	k.collect()
	k.mu.Lock()
	main := k.main
	k.mu.Unlock()
	k.asked.isNow()
	if main != nil && !k.letGo() {
		k.signalGroup(main.Pid, syscall.SIGKILL)
	}
}

// signalGroup signals the program's process group. The program is not our child, so its number may
// be reused at any time: only processes in the control group are signalled.
func (k *kept) signalGroup(leader int, sig syscall.Signal) {
	led := func(pid int) bool {
		pgid, err := unix.Getpgid(pid)
		return err == nil && pgid == leader
	}
	k.c.programs.with(func(t tracker) { t.SignalEach(sig, led) })
}

// result is how the program ended.
func (k *kept) result() RunResult {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := RunResult{ExitCode: -1, Ended: k.c.e.clock.Wall()}
	var s shim.Started
	if shim.Get(k.dir, shim.StartedFile, &s) == nil {
		r.Started = s.At.UTC()
	}
	if k.ended == nil {
		r.Lost = true
		return r
	}
	e := k.ended
	r.Ended, r.Signal, r.Status = e.At.UTC(), e.Signal, e.Status
	r.Usage = Usage{User: e.User, System: e.System}
	if e.Signal == 0 {
		r.ExitCode = e.ExitCode
	}
	return r
}

// shimWait is how long a shim has to record how the main program was killed; then it is killed too.
const shimWait = time.Second

func (ps *programs) keptProgram() *kept {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.kept
}

// isolateRoot is the root of a container with a root file system.
func (fl *files) isolateRoot() *isolate.Root {
	w := &fl.spec.Workload
	r := &isolate.Root{Lower: fl.lower, Upper: fl.below("upper"), Work: fl.below("work"), Merged: fl.below("merged"),
		ContainerDir: fl.below("directory"), Inside: rootDir, Binds: fl.binds, OwnNet: w.OwnNet}
	if !w.OwnNet {
		r.Hostnet = []string{"/etc/resolv.conf", "/etc/hosts"}
	}
	r.Dir = fl.image.WorkingDir
	r.Hosts = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"
	if name, err := os.Hostname(); err == nil {
		r.Hosts += "127.0.1.1\t" + name + "\n"
	}
	return r
}

// watch pins a process that is not this cell's child. Only procid.ErrGone means that it has ended:
// while its state is unknown, for lack of descriptors, it retries, until ctx is done.
func (o *order) watch(ctx context.Context, id procid.Identity) (*spawn.Process, error) {
	again := time.NewTicker(watchAgain)
	defer again.Stop()
	for reported := false; ; reported = true {
		p, err := o.e.launcher.Watch(id)
		if err == nil || errors.Is(err, procid.ErrGone) {
			return p, err
		}
		if !reported {
			o.e.log.Warn("unknown whether a process is alive; retrying", "container", o.id, "error", err)
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return nil, err
		}
	}
}

// watchAgain is how soon a process that could not be looked at is looked at again.
const watchAgain = 100 * time.Millisecond

// resume attaches to the shim of an adopted container.
func (h *stepHost) resume(ctx context.Context, r *action.Run) (*kept, error) {
	c := h.c
	k := &kept{h: h, c: c, dir: c.e.keepDir(c.id), done: make(chan struct{})}
	events, unwatch := c.e.watcher.WatchPath(k.dir, unix.IN_MODIFY|unix.IN_MOVED_TO)
	var err error
	if k.shim, err = c.watch(ctx, c.programs.adoptedFrom.Shim); errors.Is(err, procid.ErrGone) {
		k.shim, err = spawn.Gone(c.programs.adoptedFrom.Shim.Pid), nil
	}
	if err != nil {
		unwatch()
		return nil, err
	}
	c.programs.addProcess(k.shim)
	if err := k.awaitStart(ctx, events, r.Path); err != nil {
		unwatch()
		return nil, err
	}
	k.follow(events, unwatch)
	return k, nil
}

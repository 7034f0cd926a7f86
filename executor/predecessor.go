package executor

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"cantina/cgroup"
	"cantina/internal/proctree"
	"cantina/internal/space"
	"cantina/spawn/procid"
)

// guess replaces the file if it is unreadable: the groups that have the directory's name.
func (r *recovery) guess() (l previous, err error) {
	id, ok, err := r.formerID()
	if !ok || err != nil {
		return l, err
	}
	host, err := cgroup.Detect()
	if err != nil {
		return l, err
	}
	if dirs := host.Dirs(id); len(dirs) > 0 {
		l.Tracker, l.V1 = dirs[0], dirs[1:]
	}
	return l, nil
}

// openGroups makes the trees, or finds out that there can be none.
func (r *recovery) openGroups() error {
	if r.e.cfg.Cgroups == CgroupNone {
		return r.remember(0)
	}
	id, err := r.dirID()
	if err != nil {
		return fmt.Errorf("name the directory: %w", err)
	}
	host, err := cgroup.Detect()
	if err != nil {
		return err
	}
	tree, err := cgroup.Open(host, id, cgroup.Options{Generation: string(r.e.generation)})
	switch {
	case errors.Is(err, cgroup.ErrUnusable):
		r.e.log.Warn("containers run without control groups", "error", err)
		err = nil
	case errors.Is(err, cgroup.ErrInUse):
		return fmt.Errorf("%w: this data directory is a copy of another's; remove its file \"id\" if nothing of it runs here",
			err)
	case err == nil:
		r.e.backend = &controlGroups{tree, r.e}
		owner, oerr := r.owner()
		if err = oerr; err == nil {
			err = tree.SetOwner(owner)
		}
		for _, class := range r.e.generation.classes() {
			err = errors.Join(err, tree.Class(class))
		}
		for _, a := range host.Abandoned() { // empty groups of cells that are gone for certain
			a.Remove()
		}
	}
	return errors.Join(err, r.remember(0))
}

// closeDirs creates the directories of containers and their data: only the cell can enter. A
// container that runs as another user is led to its own (isolate.Reach).
func (e *Executor) closeDirs() error {
	for _, name := range []string{"run", "output", "cache", "image"} {
		if err := errors.Join(os.MkdirAll(e.path(name), 0o700), os.Chmod(e.path(name), 0o700)); err != nil {
			return err
		}
	}
	return nil
}

// remember writes the file for the successor.
func (r *recovery) remember(reaper int) error {
	boot, err := r.e.boot()
	if err != nil {
		return err
	}
	l := previous{Boot: boot}
	l.Tracker, l.V1 = r.e.backend.Dirs()
	for _, p := range r.former {
		if p.Tracker != l.Tracker {
			l.Earlier = append(l.Earlier, p)
		}
	}
	r.e.mu.Lock()
	l.Reapers = slices.Clone(r.oldReapers)
	r.e.mu.Unlock()
	if reaper != 0 {
		l.Reaper, err = procid.Of(reaper)
		if errors.Is(err, procid.ErrGone) {
			return nil // the next one is written down
		}
		if err != nil {
			return err
		}
	}
	b, err := json.Marshal(l)
	if err != nil {
		return err
	}
	if err := replaceFile(r.e.path(previousFile), b); err != nil {
		return err
	}
	// For the next one, on a disk that may be full by then: it takes over the kept work.
	if err := space.Reserve(r.e.path(previousFile+".new"), previousSize); err != nil {
		r.e.log.Debug("no space is reserved", "error", err)
	}
	return nil
}

// clearPredecessor ends the work of a dead cell process of this directory, except kept work. It
// waits until the predecessor's reaper is done, and then checks itself. Work that survives is
// shown as a stuck container.
func (r *recovery) clearPredecessor() error {
	b, err := os.ReadFile(r.e.path(previousFile))
	var l previous
	missing := errors.Is(err, os.ErrNotExist)
	if unread(err) {
		return err
	}
	if err == nil {
		err = json.Unmarshal(b, &l)
	}
	if err != nil {
		var lost error
		if l, lost = r.guess(); lost != nil {
			return lost
		}
		if missing && l.Tracker == "" {
			return nil // a new directory
		}
		r.e.log.Warn("cannot read the saved state of the previous process", "error", err)
	}
	boot, err := r.e.boot()
	if err != nil {
		return err
	}
	if boot != l.Boot && l.Boot != "" {
		r.e.remains.discard(r.e.path("keep"))
		return r.clearDirs(nil)
	}
	records, err := r.keptRecords()
	if err != nil {
		return err
	}
	stays := map[string]bool{}
	sites := l.sites()
	for _, id := range l.reapers() {
		if err := r.awaitReaper(id, sites); err != nil {
			return err
		}
	}
	if err := r.clearProcesses(stays); err != nil {
		return err
	}
	for _, p := range sites {
		left, err := r.clearGroups(p, stays)
		if err != nil {
			return err
		}
		if left {
			r.former = append(r.former, p)
		}
	}
	for name := range records { // also ended ones whose group a reaper has removed: their result is still to be read
		stays[name] = true
	}
	return r.clearDirs(stays)
}

// awaitReaper waits until an old reaper has ended its work. It continues to hold the deadlines of
// kept work until a reaper of this process has them; no other process does.
func (r *recovery) awaitReaper(id procid.Identity, sites []site) error {
	fd, err := id.Open()
	if errors.Is(err, procid.ErrGone) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	r.oldReapers = append(r.oldReapers, id)
	for end := time.Now().Add(r.e.cfg.KillWait + 2*time.Second); time.Now().Before(end); {
		if awaitPidfd(fd, lookAgain) || len(sites) > 0 && !stopsPopulated(sites) {
			break
		}
	}
	return nil
}

// stopsPopulated reports whether something may be alive that is not kept.
func stopsPopulated(sites []site) bool {
	for _, p := range sites {
		classes, err := dirsIn(p.Tracker)
		if err != nil {
			return true
		}
		for _, dir := range classes {
			if kind := kindOf(dir); kind == classKeepFree || kind == classKeepBound {
				continue
			}
			if full, err := cgroup.At(dir).Populated(); err != nil || full {
				return true
			}
		}
	}
	return false
}

// stopOldReapers informs the old reapers that this process's own holds the deadlines from now on.
func (r *recovery) stopOldReapers() {
	r.e.mu.Lock()
	old := r.oldReapers
	r.oldReapers = nil
	r.e.mu.Unlock()
	for _, id := range old {
		fd, err := id.Open()
		if err == nil {
			err = errors.Join(unix.PidfdSendSignal(fd, unix.SIGUSR1, nil, 0), unix.Close(fd))
		}
		if err == nil || errors.Is(err, procid.ErrGone) || errors.Is(err, unix.ESRCH) {
			continue
		}
		r.e.log.Warn("previous reaper still enforces its last known deadline", "error", err)
		r.e.mu.Lock()
		r.oldReapers = append(r.oldReapers, id)
		r.e.mu.Unlock()
	}
}

// awaitPidfd waits until a process that is not a child has ended.
func awaitPidfd(fd int, most time.Duration) bool {
	end := time.Now().Add(most)
	for {
		left := time.Until(end)
		if left <= 0 {
			return false
		}
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(p, int(left.Milliseconds())+1)
		if n > 0 || err != nil && err != unix.EINTR {
			return n > 0
		}
	}
}

// clearProcesses ends process groups that were started without control groups: those whose leader
// is exactly a recorded process. It adds the directories of those that survive.
func (r *recovery) clearProcesses(stays map[string]bool) error {
	dirs, err := dirsIn(r.e.path("run"))
	for _, dir := range dirs {
		b, rerr := readOwn(filepath.Join(dir, pidFile))
		if unread(rerr) {
			err = errors.Join(err, rerr)
		}
		for line := range strings.Lines(string(b)) {
			err = errors.Join(err, r.clearProcess(line, dir, stays))
		}
	}
	return err
}

// clearProcess ends one of them.
func (r *recovery) clearProcess(line, dir string, stays map[string]bool) error {
	var id procid.Identity
	if _, err := fmt.Sscanf(line, "%d %d", &id.Pid, &id.Start); err != nil || id.Pid <= 1 {
		return nil
	}
	fd, err := id.Open()
	if errors.Is(err, procid.ErrGone) {
		r.e.log.Info("stale pid", "pid", id.Pid, "directory", dir)
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	unix.Kill(-id.Pid, unix.SIGKILL)
	unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	if awaitPidfd(fd, r.e.cfg.StuckAfter) {
		return nil
	}
	name := filepath.Base(dir)
	stays[name] = true
	if r.e.containers[name] != nil { // another of its processes
		name = fmt.Sprint(name, "-", id.Pid)
	}
	c := newContainer(r.e, Reservation{ID: name, DeadlineBound: true}, nil)
	c.leftProc = id
	r.addStuck(c)
	return nil
}

// clearGroups ends the rest of a predecessor's groups and adds the directories (by name) of the
// containers that are kept or survive. It reports whether there are any.
func (r *recovery) clearGroups(p site, stays map[string]bool) (bool, error) {
	before := len(stays)
	classes, err := dirsIn(p.Tracker)
	for _, dir := range classes {
		if kind := kindOf(dir); kind == classKeepFree || kind == classKeepBound {
			err = errors.Join(err, r.clearKept(dir, stays))
			continue
		}
		class := cgroup.At(dir)
		class.Thaw()
		_ = proctree.EndGroup(class, r.e.cfg.StuckAfter) // noteStuck finds the rest
		groups, gerr := dirsIn(dir)
		for _, g := range groups {
			r.noteStuck(g, stays)
		}
		err = errors.Join(err, gerr)
		cgroup.RemoveEmpty(dir)
	}
	for _, d := range p.V1 {
		cgroup.RemoveEmpty(d)
	}
	return len(stays) > before, err
}

// clearKept leaves the containers of a class alone that have been written down,
// and ends the others. A class that holds deadline-bound ones keeps its deadline.
func (r *recovery) clearKept(class string, stays map[string]bool) error {
	groups, err := dirsIn(class)
	if err != nil {
		return err
	}
	held := false
	for _, dir := range groups {
		name := filepath.Base(dir)
		if s, ok := r.records[name]; ok && s.Group == dir {
			stays[name], held = true, true
			continue
		}
		_ = proctree.EndGroup(cgroup.At(dir), r.e.cfg.StuckAfter)
		r.noteStuck(dir, stays)
		cgroup.RemoveEmpty(dir)
	}
	generation := filepath.Base(class)
	if held {
		r.kept = append(r.kept, class)
	}
	if held && kindOf(class) == classKeepBound {
		at, err := r.e.deadlines.savedDeadline(generation)
		if err != nil {
			return err
		}
		r.adopted = append(r.adopted, adoptedClass{class, at})
	}
	if !held {
		cgroup.RemoveEmpty(class)
		os.Remove(r.e.deadlines.deadlinePath(generation))
	}
	return nil
}

// clearDirs removes the directories of containers that are gone. What a container has left in one
// keeps no cell from its start.
func (r *recovery) clearDirs(stays map[string]bool) error {
	entries, err := os.ReadDir(r.e.path("run"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, d := range entries {
		if !stays[d.Name()] {
			r.e.remains.discard(filepath.Join(r.e.path("run"), d.Name()))
		}
	}
	return err
}

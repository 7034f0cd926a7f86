package executor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"cantina/cgroup"
	"cantina/executor/shim"
	"cantina/spawn/procid"
)

// previous is a file of the data directory: where a successor has to look for what this cell
// process may leave behind. Which containers there are it learns from the control groups alone.
type previous struct {
	Boot    string // boot id of the machine
	site           // of this process's own groups
	Earlier []site
	Reaper  procid.Identity   // its last reaper
	Reapers []procid.Identity // of its predecessors, as long as they hold the deadlines of what is kept
}

// site is where a cell process has its groups. A predecessor may have had them elsewhere: it
// ran in another group of the machine.
type site struct {
	Tracker string   // directory of the tracking hierarchy; empty without groups
	V1      []string // directories of v1 controllers
}

// sites are all in which something may be left.
func (l *previous) sites() []site {
	all := slices.Clone(l.Earlier)
	if l.Tracker != "" {
		all = append(all, l.site)
	}
	return all
}

// reapers are all that may live.
func (l *previous) reapers() []procid.Identity {
	all := slices.Clone(l.Reapers)
	if l.Reaper.Pid != 0 {
		all = append(all, l.Reaper)
	}
	return all
}

// previousFile is the name of that file.
const previousFile = "previous"

const bootIDPath = "/proc/sys/kernel/random/boot_id"

func bootID() (string, error) {
	b, err := os.ReadFile(bootIDPath)
	return strings.TrimSpace(string(b)), err
}

func (e *Executor) path(name string) string { return filepath.Join(e.cfg.Dir, name) }

// guess is what stands for the file when it cannot be read: the groups that have the directory's name.
func (e *Executor) guess() (l previous, err error) {
	id, ok, err := e.formerID()
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

// unread tells what could not be read, although it may be there, from what is not there
// or is damaged. Nothing may be concluded from it: the cell does not start.
func unread(err error) bool {
	var at *fs.PathError
	return errors.As(err, &at) && !errors.Is(err, fs.ErrNotExist)
}

// dirsIn are the directories in a directory of the hierarchies; none when it is not there.
func dirsIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var out []string
	for _, d := range entries {
		if d.IsDir() {
			out = append(out, filepath.Join(dir, d.Name()))
		}
	}
	return out, err
}

// replaceFile writes a file so that it is there whole or not at all.
func replaceFile(path string, data []byte) error {
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// openGroups makes the trees, or finds out that there can be none.
func (e *Executor) openGroups() error {
	if e.cfg.Cgroups == CgroupNone {
		return e.remember(0)
	}
	id, err := e.dirID()
	if err != nil {
		return fmt.Errorf("name the directory: %w", err)
	}
	host, err := cgroup.Detect()
	if err != nil {
		return err
	}
	e.tree, err = cgroup.Open(host, id, cgroup.Options{Generation: e.generation})
	switch {
	case errors.Is(err, cgroup.ErrUnusable):
		e.log.Warn("containers run without control groups", "error", err)
		err = nil
	case errors.Is(err, cgroup.ErrInUse):
		return fmt.Errorf("%w: this data directory is a copy of another's; remove its file \"id\" if nothing of it runs here", err)
	case err == nil:
		owner, oerr := e.owner()
		if err = oerr; err == nil {
			err = e.tree.SetOwner(owner)
		}
		e.sweep(host)
	}
	return errors.Join(err, e.remember(0))
}

// closeDirs makes the directories in which containers, and what is theirs, lie: none but the
// cell gets in. A container that runs as somebody else is led to its own (isolate.Reach).
func (e *Executor) closeDirs() error {
	for _, name := range []string{"run", "output", "cache", "image"} {
		if err := errors.Join(os.MkdirAll(e.path(name), 0o700), os.Chmod(e.path(name), 0o700)); err != nil {
			return err
		}
	}
	return nil
}

// makeClasses makes the directories of this generation.
func (e *Executor) makeClasses() error {
	if e.tree == nil {
		return e.openDeadline()
	}
	for _, c := range e.classes() {
		if err := e.tree.Class(c); err != nil {
			return err
		}
	}
	return e.openDeadline()
}

// remember writes the file for the successor.
func (e *Executor) remember(reaper int) error {
	boot, err := e.boot()
	if err != nil {
		return err
	}
	l := previous{Boot: boot}
	if e.tree != nil {
		l.Tracker, l.V1 = e.tree.Dirs()
	}
	for _, p := range e.former {
		if p.Tracker != l.Tracker {
			l.Earlier = append(l.Earlier, p)
		}
	}
	e.mu.Lock()
	l.Reapers = slices.Clone(e.oldReapers)
	e.mu.Unlock()
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
	return replaceFile(e.path(previousFile), b)
}

// clearPredecessor ends what a dead cell process of this directory left, but for
// what is kept. It waits until the predecessor's reaper is done, and then looks
// itself. What does not die is shown as a stuck container.
func (e *Executor) clearPredecessor() error {
	b, err := os.ReadFile(e.path(previousFile))
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
		if l, lost = e.guess(); lost != nil {
			return lost
		}
		if missing && l.Tracker == "" {
			return nil // a new directory
		}
		e.log.Warn("cannot read the saved state of the previous process", "error", err)
	}
	boot, err := e.boot()
	if err != nil {
		return err
	}
	if boot != l.Boot && l.Boot != "" {
		return errors.Join(e.clearDirs(nil), os.RemoveAll(e.path("keep")))
	}
	stays, err := e.keptNames()
	if err != nil {
		return err
	}
	sites := l.sites()
	for _, id := range l.reapers() {
		if err := e.awaitReaper(id, sites); err != nil {
			return err
		}
	}
	if err := e.clearProcesses(stays); err != nil {
		return err
	}
	for _, p := range sites {
		left, err := e.clearGroups(p, stays)
		if err != nil {
			return err
		}
		if left {
			e.former = append(e.former, p)
		}
	}
	return e.clearDirs(stays)
}

// keptNames are the directories of all kept containers, also of those that have ended and whose
// group a reaper has removed: their result is still to be read.
func (e *Executor) keptNames() (map[string]bool, error) {
	names := map[string]bool{}
	dirs, err := dirsIn(e.path("keep"))
	for _, dir := range dirs {
		var s keptRecord
		kerr := shim.Get(dir, keptRecordFile, &s)
		if unread(kerr) {
			return nil, kerr
		}
		if kerr == nil {
			names[filepath.Base(dir)] = true
		}
	}
	return names, err
}

// awaitReaper waits until an old reaper has ended what it has to. It goes on to hold the
// deadlines of what is kept: until a reaper of this process has them, nobody else does.
func (e *Executor) awaitReaper(id procid.Identity, sites []site) error {
	fd, err := id.Open()
	if errors.Is(err, procid.ErrGone) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	e.oldReapers = append(e.oldReapers, id)
	for end := time.Now().Add(e.cfg.KillWait + 2*time.Second); time.Now().Before(end); {
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

// stopOldReapers tells the old reapers that this process's own holds the deadlines from now on.
func (e *Executor) stopOldReapers() {
	e.mu.Lock()
	old := e.oldReapers
	e.oldReapers = nil
	e.mu.Unlock()
	for _, id := range old {
		fd, err := id.Open()
		if err == nil {
			err = errors.Join(unix.PidfdSendSignal(fd, unix.SIGUSR1, nil, 0), unix.Close(fd))
		}
		if err == nil || errors.Is(err, procid.ErrGone) || errors.Is(err, unix.ESRCH) {
			continue
		}
		e.log.Warn("previous reaper still enforces its last known deadline", "error", err)
		e.mu.Lock()
		e.oldReapers = append(e.oldReapers, id)
		e.mu.Unlock()
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

// pidFile, in the directory of a container without a group, names its processes.
const pidFile = ".pid"

// notePid writes down which processes of the container may live: each that was started, but
// for those that have ended.
func (c *container) notePid(id procid.Identity) error {
	c.noting.Lock()
	defer c.noting.Unlock()
	c.noted = append(slices.DeleteFunc(c.noted, func(earlier procid.Identity) bool {
		return errors.Is(earlier.Look(), procid.ErrGone)
	}), id)
	var text []byte
	for _, id := range c.noted {
		text = fmt.Appendln(text, id.Pid, id.Start)
	}
	return replaceFile(filepath.Join(c.dir, pidFile), text)
}

// clearProcesses ends process groups that were started without control groups:
// those whose leader is exactly a process that was written down. It adds the directories of
// those that do not die.
func (e *Executor) clearProcesses(stays map[string]bool) error {
	dirs, err := dirsIn(e.path("run"))
	for _, dir := range dirs {
		b, rerr := os.ReadFile(filepath.Join(dir, pidFile))
		if unread(rerr) {
			err = errors.Join(err, rerr)
		}
		for line := range strings.Lines(string(b)) {
			err = errors.Join(err, e.clearProcess(line, dir, stays))
		}
	}
	return err
}

// clearProcess ends one of them.
func (e *Executor) clearProcess(line, dir string, stays map[string]bool) error {
	var id procid.Identity
	if _, err := fmt.Sscanf(line, "%d %d", &id.Pid, &id.Start); err != nil || id.Pid <= 1 {
		return nil
	}
	fd, err := id.Open()
	if errors.Is(err, procid.ErrGone) {
		e.log.Info("stale pid", "pid", id.Pid, "directory", dir)
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	unix.Kill(-id.Pid, unix.SIGKILL)
	unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	if awaitPidfd(fd, e.cfg.StuckAfter) {
		return nil
	}
	name := filepath.Base(dir)
	stays[name] = true
	if e.containers[name] != nil { // another of its processes
		name = fmt.Sprint(name, "-", id.Pid)
	}
	c := newContainer(e, Reservation{ID: name, DeadlineBound: true}, nil)
	c.leftProc = id
	e.addStuck(c)
	return nil
}

// clearGroups ends what is left in a predecessor's groups and adds the directories (by
// name) of the containers that are kept or do not die. It reports whether there are any.
func (e *Executor) clearGroups(p site, stays map[string]bool) (bool, error) {
	before := len(stays)
	classes, err := dirsIn(p.Tracker)
	for _, dir := range classes {
		if kind := kindOf(dir); kind == classKeepFree || kind == classKeepBound {
			err = errors.Join(err, e.clearKept(dir, stays))
			continue
		}
		class := cgroup.At(dir)
		class.Thaw()
		e.killAndWait(class)
		groups, gerr := dirsIn(dir)
		for _, g := range groups {
			e.noteStuck(g, stays)
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
func (e *Executor) clearKept(class string, stays map[string]bool) error {
	groups, err := dirsIn(class)
	if err != nil {
		return err
	}
	held := false
	for _, dir := range groups {
		name := filepath.Base(dir)
		var s keptRecord
		kerr := shim.Get(filepath.Join(e.path("keep"), name), keptRecordFile, &s)
		if unread(kerr) {
			return kerr
		}
		if kerr == nil && s.Group == dir {
			stays[name], held = true, true
			continue
		}
		e.killAndWait(cgroup.At(dir))
		e.noteStuck(dir, stays)
		cgroup.RemoveEmpty(dir)
	}
	generation := filepath.Base(class)
	if held {
		e.kept = append(e.kept, class)
	}
	if held && kindOf(class) == classKeepBound {
		at, err := e.savedDeadline(generation)
		if err != nil {
			return err
		}
		e.adopted = append(e.adopted, adoptedClass{class, at})
	}
	if !held {
		cgroup.RemoveEmpty(class)
		os.Remove(e.deadlinePath(generation))
	}
	return nil
}

// killAndWait kills a group until it is empty or has had its time.
func (e *Executor) killAndWait(g *cgroup.Group) {
	end := time.Now().Add(e.cfg.StuckAfter)
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		if full, err := g.Populated(); err == nil && !full || time.Now().After(end) {
			return
		}
		g.Kill()
		unix.Nanosleep(&unix.Timespec{Nsec: int64(pause)}, nil)
	}
}

// clearDirs removes the directories of containers that are gone.
func (e *Executor) clearDirs(stays map[string]bool) error {
	entries, err := os.ReadDir(e.path("run"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, d := range entries {
		if !stays[d.Name()] {
			err = errors.Join(err, removeAll(filepath.Join(e.path("run"), d.Name())))
		}
	}
	return err
}

// reaperIdentity is the reaper that was started last.
func (e *Executor) reaperIdentity() procid.Identity {
	var l previous
	b, err := os.ReadFile(e.path(previousFile))
	if err != nil || json.Unmarshal(b, &l) != nil {
		return procid.Identity{}
	}
	return l.Reaper
}

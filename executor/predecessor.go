package executor

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"cantina/executor/cgroup"
	"cantina/executor/procid"
	"cantina/executor/shim"
	"cantina/resource"
)

// legacy is the file "legacy" of the data folder: where a successor has to look
// for what this cell process may leave behind. Which containers there are it
// learns from the control groups alone.
type legacy struct {
	Boot    string          // boot id of the machine
	Tracker string          // folder of the tracking hierarchy; empty without groups
	V1      []string        // folders of v1 controllers
	Reaper  procid.Identity // its last reaper
}

const bootIDPath = "/proc/sys/kernel/random/boot_id"

func bootID() (string, error) {
	b, err := os.ReadFile(bootIDPath)
	return strings.TrimSpace(string(b)), err
}

func (e *Executor) path(name string) string { return filepath.Join(e.cfg.Folder, name) }

// guess is a legacy that cannot be read: the groups that have the folder's name.
func (e *Executor) guess() (l legacy) {
	id, ok := e.formerID()
	host, err := cgroup.Detect()
	if !ok || err != nil {
		return l
	}
	dirs := host.Dirs(id)
	if len(dirs) > 0 {
		l.Tracker, l.V1 = dirs[0], dirs[1:]
	}
	return l
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
	id, err := e.folderID()
	if err != nil {
		return fmt.Errorf("name the folder: %w", err)
	}
	host, err := cgroup.Detect()
	if err != nil {
		return err
	}
	e.tree, err = cgroup.Open(host, id, cgroup.Options{ForceV1: e.cfg.Cgroups == CgroupV1,
		Generation: e.generation})
	switch {
	case errors.Is(err, cgroup.ErrUnusable):
		e.log.Warn("containers run without control groups", "error", err)
		err = nil
	case errors.Is(err, cgroup.ErrInUse):
		return fmt.Errorf("%w: this data folder is a copy of another's; remove its file \"id\" if nothing of it runs here", err)
	case err == nil:
		owner, oerr := e.owner()
		if err = oerr; err == nil {
			err = e.tree.SetOwner(owner)
		}
		e.sweep(host)
	}
	return errors.Join(err, e.remember(0))
}

// makeClasses makes the folders of this generation.
func (e *Executor) makeClasses() error {
	if err := os.MkdirAll(e.path("run"), 0o755); err != nil {
		return err
	}
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
	boot, err := bootID()
	if err != nil {
		return err
	}
	l := legacy{Boot: boot}
	if e.tree != nil {
		l.Tracker, l.V1 = e.tree.Dirs()
	}
	if reaper != 0 {
		if l.Reaper, err = procid.Of(reaper); err != nil {
			return nil // gone already; the next one is written down
		}
	}
	b, err := json.Marshal(l)
	if err != nil {
		return err
	}
	return replaceFile(e.path("legacy"), b)
}

// clearPredecessor ends what a dead cell process of this folder left, but for
// what is kept. It waits until the predecessor's reaper is done, and then looks
// itself. What does not die is shown as a stuck container.
func (e *Executor) clearPredecessor() error {
	b, err := os.ReadFile(e.path("legacy"))
	var l legacy
	missing := errors.Is(err, os.ErrNotExist)
	if err == nil {
		err = json.Unmarshal(b, &l)
	}
	if err != nil {
		if l = e.guess(); missing && l.Tracker == "" {
			return nil // a new folder
		}
		e.log.Warn("the predecessor's legacy is not readable", "error", err)
	}
	if boot, err := bootID(); err != nil || boot != l.Boot && l.Boot != "" {
		return errors.Join(err, e.clearFolders(nil), os.RemoveAll(e.path("keep")))
	}
	e.dismiss(l.Reaper)
	kept := e.clearProcesses()
	if l.Tracker != "" {
		maps.Copy(kept, e.clearGroups(l))
	}
	return e.clearFolders(kept)
}

// dismiss tells the old reaper that this process holds the deadlines from now
// on, and waits until it has ended what it has to.
func (e *Executor) dismiss(id procid.Identity) {
	if id.Pid == 0 {
		return
	}
	fd, err := unix.PidfdOpen(id.Pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if !id.Alive() {
		return
	}
	unix.PidfdSendSignal(fd, unix.SIGUSR1, nil, 0)
	awaitPidfd(fd, e.cfg.KillWait+2*time.Second)
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

// clearProcesses ends process groups that were started without control groups:
// those whose leader is exactly the process that was written down. It returns the folders of
// those that do not die.
func (e *Executor) clearProcesses() map[string]bool {
	stays := map[string]bool{}
	files, _ := filepath.Glob(filepath.Join(e.path("run"), "*", ".pid"))
	for _, f := range files {
		b, err := os.ReadFile(f)
		var id procid.Identity
		if err != nil {
			continue
		}
		if _, err := fmt.Sscanf(string(b), "%d %d", &id.Pid, &id.Start); err != nil || id.Pid <= 1 {
			continue
		}
		fd, err := unix.PidfdOpen(id.Pid, 0)
		if err != nil {
			continue
		}
		if id.Alive() {
			unix.Kill(-id.Pid, unix.SIGKILL)
			unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
			if !awaitPidfd(fd, e.cfg.StuckAfter) {
				folder := filepath.Base(filepath.Dir(f))
				stays[folder] = true
				c := newContainer(e, Reservation{ID: folder, DeadlineBound: true}, nil)
				c.stranger = id
				e.addStuck(c)
			}
		} else {
			e.log.Info("stale pid", "pid", id.Pid, "file", f)
		}
		unix.Close(fd)
	}
	return stays
}

// clearGroups ends what is left in the predecessor's groups and returns the
// folders (by name) of the containers that are kept or do not die.
func (e *Executor) clearGroups(l legacy) map[string]bool {
	stays := map[string]bool{}
	classes, _ := os.ReadDir(l.Tracker)
	for _, d := range classes {
		dir := filepath.Join(l.Tracker, d.Name())
		if !d.IsDir() {
			continue
		}
		if kind := kindOf(dir); kind == classKeepFree || kind == classKeepBound {
			e.clearKept(dir, stays)
			continue
		}
		class := cgroup.At(dir, 0)
		class.Thaw()
		e.killAndWait(class)
		groups, _ := os.ReadDir(dir)
		for _, g := range groups {
			if g.IsDir() {
				e.noteStuck(filepath.Join(dir, g.Name()), stays)
			}
		}
		cgroup.RemoveEmpty(dir)
	}
	for _, d := range l.V1 {
		cgroup.RemoveEmpty(d)
	}
	return stays
}

// clearKept leaves the containers of a class alone that have been written down,
// and ends the others. A class that holds deadline-bound ones keeps its deadline.
func (e *Executor) clearKept(class string, stays map[string]bool) {
	entries, _ := os.ReadDir(class)
	held := false
	for _, d := range entries {
		if !d.IsDir() {
			continue
		}
		dir := filepath.Join(class, d.Name())
		var s keepsake
		if err := shim.Get(filepath.Join(e.path("keep"), d.Name()), keepsakeFile, &s); err == nil && s.Group == dir {
			stays[d.Name()], held = true, true
			continue
		}
		e.killAndWait(cgroup.At(dir, 0))
		e.noteStuck(dir, stays)
		cgroup.RemoveEmpty(dir)
	}
	generation := filepath.Base(class)
	if held {
		e.kept = append(e.kept, generation)
	}
	if held && kindOf(class) == classKeepBound {
		e.adopted = append(e.adopted, adoptedClass{class, e.savedDeadline(generation)})
	}
	if !held {
		cgroup.RemoveEmpty(class)
		os.Remove(e.deadlinePath(generation))
	}
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

// work is what a container leaves with its group: of what does not die its successor has to
// know what it is, so that it answers for it, and that its room stays taken.
type work struct {
	ID        string
	Labels    Labels
	Resources resource.Amounts
}

// leaveWork says what a container is, on its group. A kept one has its keepsake, and nobody
// asks for a probe.
func (c *container) leaveWork(g *cgroup.Group) error {
	if c.hidden || c.keep() {
		return nil
	}
	b, err := json.Marshal(work{c.id, c.labels, c.need})
	if err != nil {
		return err
	}
	return g.SetWork(b)
}

// noteStuck makes a container of a group that does not die, so that nobody takes this
// cell for clean. Where groups keep no attributes it has no labels: who adopts it knows
// only that something of its predecessor is left.
func (e *Executor) noteStuck(dir string, stays map[string]bool) {
	g := cgroup.At(dir, 0)
	if full, err := g.Populated(); err == nil && !full || errors.Is(err, os.ErrNotExist) {
		return
	}
	name, kind := filepath.Base(dir), kindOf(filepath.Dir(dir))
	stays[name] = true
	var w work
	if err := json.Unmarshal(g.Work(), &w); err != nil || w.ID == "" {
		w = work{ID: name} // and nobody knows of what
	}
	c := newContainer(e, Reservation{ID: w.ID, Labels: w.Labels, DeadlineBound: kind == classStopBound || kind == classKeepBound}, w.Resources)
	e.take(c.need, 1)
	c.group = g
	e.addStuck(c)
}

// addStuck adds a container of a predecessor that does not die.
func (e *Executor) addStuck(c *container) {
	c.state, c.adopted = Running, true
	c.stuck = &Stuck{Since: e.clock.Wall()}
	e.stuck[c] = true
	e.containers[c.id] = c
	e.left = append(e.left, c)
}

// driveLeft waits for the end of what a predecessor could not end.
func (c *container) driveLeft() {
	if c.group == nil {
		if p, err := c.e.launcher.Watch(c.stranger); err == nil {
			c.addProcess(p)
		}
	}
	c.setStuck()
	if c.finish(0) {
		c.unstick()
		c.complete(RunResult{Failed: true, Reason: "left by a cell process that ended", Lost: true, ExitCode: -1, Ended: c.e.clock.Wall()})
	}
}

// clearFolders removes the folders of containers that are gone.
func (e *Executor) clearFolders(stays map[string]bool) error {
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
	var l legacy
	b, err := os.ReadFile(e.path("legacy"))
	if err != nil || json.Unmarshal(b, &l) != nil {
		return procid.Identity{}
	}
	return l.Reaper
}

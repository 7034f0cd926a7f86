package executor

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"cantina/action"
	"cantina/cgroup"
	"cantina/executor/shim"
	"cantina/resource"
	"cantina/spawn"
	"cantina/spawn/procid"
)

// keptRecord is the file "container" in the directory of a kept container: the data for a
// successor.
type keptRecord struct {
	ID        string
	Labels    Labels
	Resources resource.Amounts
	Bound     bool
	Created   time.Time
	Begun     time.Duration // boot time from which its time limit counts
	Spec      Spec
	Ports     []action.Mapping
	Group     string            // tracker directory
	Slot      map[string]string // v1 directories that limit it
	Limits    cgroup.Limits
	Shim      procid.Identity
}

// record is the reaper's data about a process.
type record struct {
	process *spawn.Process
	message string
}

// site is where a cell process has its groups. A predecessor may have had them elsewhere: it
// ran in another group of the machine.
type site struct {
	Tracker string   // directory of the tracking hierarchy; empty without groups
	V1      []string // directories of v1 controllers
}

// previous is a file of the data directory: the places where a successor must look for work that
// this cell process may leave behind. The containers themselves are known from the control groups
// alone.
type previous struct {
	Boot    string // boot id of the machine
	site           // of this process's own groups
	Earlier []site
	Reaper  procid.Identity   // its last reaper
	Reapers []procid.Identity // of its predecessors, as long as they hold the deadlines of kept work
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

// previousSize is the space that is reserved for the file.
const previousSize = 4 << 10

// outcome is a successor's data about a container whose verdict is fixed: how it ended, in any
// state of the cell. It is a separate file, in the directory "ended". The file exists from when
// the verdict is fixed while other processes of the container are yet to end, or from when a
// completed one has not been collected for some time, until the container is deleted.
type outcome struct {
	ID      string
	Labels  Labels
	Bound   bool
	Created time.Time
	Result  RunResult
	Output  []byte // the result file, as it was then
	Missing string // why there is none
	Large   bool   // since it is too large
	Logged  bool   // in the container's log
}

// pidFile, in the directory of a container without a group, names its processes.
const pidFile = ".pid"

// pidNotes are the processes in a pidFile.
type pidNotes struct {
	mu    sync.Mutex
	noted []procid.Identity
}

// add writes down which processes of the container may live: each that was started, but
// for those that have ended.
func (n *pidNotes) add(dir string, id procid.Identity) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.noted = append(slices.DeleteFunc(n.noted, func(earlier procid.Identity) bool {
		return errors.Is(earlier.Look(), procid.ErrGone)
	}), id)
	var text []byte
	for _, id := range n.noted {
		text = fmt.Appendln(text, id.Pid, id.Start)
	}
	return replaceFile(filepath.Join(dir, pidFile), text)
}

// generation is the name of a cell process, in the names of its classes.
type generation string

// class is the name of a class of this generation.
func (g generation) class(kind string) string { return kind + "." + string(g) }

// classes are all of this generation.
func (g generation) classes() []string {
	return []string{g.class(classStopBound), g.class(classStopFree), g.class(classKeepBound), g.class(classKeepFree)}
}

// kindOf is the class of a directory, of any generation.
func kindOf(dir string) string {
	name := filepath.Base(dir)
	if i := strings.LastIndexByte(name, '.'); i > 0 {
		return name[:i]
	}
	return name
}

// The classes of containers; see the package's comment.
const (
	classStopBound = "stop.bound"
	classStopFree  = "stop.free"
	classKeepBound = "keep.bound"
	classKeepFree  = "keep.free"
)

// file is the result file, as ResultFile returns it.
func (o *outcome) file() ([]byte, error) {
	switch {
	case o.Large:
		return nil, &CallError{callResult, o.ID, &keptError{o.Missing, ErrResult}}
	case o.Missing != "":
		return nil, &CallError{callResult, o.ID, &keptError{o.Missing, nil}}
	}
	return o.Output, nil
}

// keptRecords reads the records of kept containers, once.
func (r *recovery) keptRecords() (map[string]keptRecord, error) {
	if r.records != nil {
		return r.records, nil
	}
	dirs, err := dirsIn(r.e.path("keep"))
	if err != nil {
		return nil, err
	}
	records := map[string]keptRecord{}
	for _, dir := range dirs {
		var s keptRecord
		err := shim.Get(dir, keptRecordFile, &s)
		if unread(err) {
			return nil, err
		}
		if err == nil {
			records[filepath.Base(dir)] = s
		}
	}
	r.records = records
	return records, nil
}

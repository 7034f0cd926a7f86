package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Limits are the maximum usage of one container; 0 = no limit.
type Limits struct {
	MemoryBytes int64
	CPUMilli    int // thousandths of a processor, enforced as a quota
	Pids        int
}

// IsZero reports whether nothing is limited.
func (l Limits) IsZero() bool { return l == Limits{} }

// Options are the options of a tree; the zero value uses the best available mechanisms.
type Options struct {
	// Generation distinguishes the pooled slots of this process from a predecessor's that still hold
	// adopted containers.
	Generation string
}

// limitControllers are the v1 controllers that limits need.
var limitControllers = [...]string{"memory", "pids", "cpu"}

// Tree is the part of the hierarchies that belongs to one cell directory. Its
// methods may be called from any goroutine.
type Tree struct {
	root       string // tracker directory cantina/<id>
	v2ctl      bool   // limits through v2 controllers
	generation string
	v1         map[string]string // controller → directory cantina/<id>
	base       map[string]int    // controller → descriptor of "tasks" of the own group
	claimed    int               // descriptor that holds the lock of root; -1 = none

	mu    sync.Mutex
	owner string // value of SetOwner; empty = none
	pool  []*slot
	slots int
}

// Open makes the directories of one cell in the hierarchies that host offers. It
// returns ErrUnusable when nothing can track processes here, and ErrInUse when another
// process has a tree of this id. Close it.
func Open(host Host, id string, o Options) (*Tree, error) {
	t := &Tree{v1: map[string]string{}, base: map[string]int{}, generation: o.Generation, claimed: -1}
	err := t.openTracker(host, id)
	if err != nil {
		return nil, err
	}
	if t.claimed, err = claim(t.root); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	if t.enableV2(host) {
		t.v2ctl = true
		return t, nil
	}
	for _, c := range limitControllers {
		t.openV1(host.V1[c], c, id)
	}
	return t, nil
}

// mountV2 is the command for an operator if the unified hierarchy is missing.
const mountV2 = "mkdir -p /sys/fs/cgroup/unified && mount -t cgroup2 cgroup2 /sys/fs/cgroup/unified"

func (t *Tree) openTracker(host Host, id string) error {
	if host.Unified == nil {
		return fmt.Errorf("%w: cgroup v2 is not mounted (as root: %s)", ErrUnusable, mountV2)
	}
	dir, err := cellDir(host.Unified, id)
	if err == nil && !exists(filepath.Join(dir, "cgroup.kill")) {
		err = errors.New("cgroup v2 has no cgroup.kill (the kernel is older than 5.14)")
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	t.root = dir
	return nil
}

// Dirs returns the directories that there are for an id, that of the tracking hierarchy
// first, as Tree.Dirs does for a tree that is open.
func (h Host) Dirs(id string) []string {
	var out []string
	for _, m := range h.mounts() {
		dir := filepath.Join(m.SelfDir(), "cantina", id)
		if m.SelfDir() != "" && exists(dir) && !slices.Contains(out, dir) {
			out = append(out, dir)
		}
	}
	return out
}

// mounts are the hierarchies that trees use, those that track first.
func (h Host) mounts() []*Mount {
	var mounts []*Mount
	if h.Unified != nil {
		mounts = append(mounts, h.Unified)
	}
	for _, c := range limitControllers {
		if m := h.V1[c]; m != nil {
			mounts = append(mounts, m)
		}
	}
	return mounts
}

func cellDir(m *Mount, id string) (string, error) {
	self := m.SelfDir()
	if self == "" {
		return "", fmt.Errorf("own group %s is not visible below %s", m.Self, m.Dir)
	}
	top := filepath.Join(self, "cantina")
	dir := filepath.Join(top, id)
	for try := 0; ; try++ {
		err := errors.Join(makeDir(top), makeDir(dir))
		// Another cell that ends may just have removed the empty directory above.
		if !errors.Is(err, unix.ENOENT) || try == 10 {
			return dir, err
		}
	}
}

func (t *Tree) openBase(m *Mount, controller string) error {
	fd, err := openFile(filepath.Join(m.SelfDir(), "tasks"), unix.O_WRONLY)
	if err != nil {
		return fmt.Errorf("open tasks of %s: %w", controller, err)
	}
	t.base[controller] = fd
	return nil
}

// openV1 uses a controller if possible; Offers reports the result.
func (t *Tree) openV1(m *Mount, controller, id string) {
	if m == nil {
		return
	}
	dir, err := cellDir(m, id)
	if err != nil {
		return
	}
	if t.openBase(m, controller) == nil {
		t.v1[controller] = dir
	}
}

// enableV2 hands the controllers down to the containers. The kernel allows that
// only when the own group is the root or holds no process, so the cell first
// moves itself into a leaf beside the containers.
func (t *Tree) enableV2(host Host) bool {
	self := host.Unified.SelfDir()
	have, err := read(filepath.Join(self, "cgroup.controllers"))
	if err != nil || !containsAll(strings.Fields(have), limitControllers[:]) {
		return false
	}
	const want = handDown
	if write(filepath.Join(self, "cgroup.subtree_control"), want) != nil {
		leaf := filepath.Join(self, "cantina-cell")
		if makeDir(leaf) != nil || write(filepath.Join(leaf, "cgroup.procs"), "0") != nil {
			return false
		}
		if write(filepath.Join(self, "cgroup.subtree_control"), want) != nil {
			return false
		}
	}
	return write(filepath.Join(filepath.Dir(t.root), "cgroup.subtree_control"), want) == nil &&
		write(filepath.Join(t.root, "cgroup.subtree_control"), want) == nil
}

func containsAll(have, want []string) bool {
	for _, w := range want {
		if !slices.Contains(have, w) {
			return false
		}
	}
	return true
}

// Root is the tracker's directory of this cell.
func (t *Tree) Root() string { return t.root }

// Offers names the limits that can be enforced ("cpu", "memory", "pids") and their mechanism
// ("v2", "v1" or "").
func (t *Tree) Offers() (limits []string, through string) {
	if t.v2ctl {
		return []string{"cpu", "memory", "pids"}, "v2"
	}
	for c := range t.v1 {
		limits = append(limits, c)
	}
	slices.Sort(limits)
	if len(limits) > 0 {
		through = "v1"
	}
	return limits, through
}

// Dirs lists every directory that this tree has made, for a successor that clears.
func (t *Tree) Dirs() (tracker string, v1 []string) {
	for _, d := range t.v1 {
		v1 = append(v1, d)
	}
	slices.Sort(v1)
	return t.root, v1
}

// Patterns match the directories (in the sense of path/filepath) that this process
// made below those of Dirs, classes and slots.
func (t *Tree) Patterns() []string {
	patterns := []string{filepath.Join(t.root, "*."+t.generation)}
	for _, d := range t.v1 {
		patterns = append(patterns, filepath.Join(d, "slot-"+t.generation+"-*"))
	}
	return patterns
}

// ErrNoGroup reports that no group can be made for any container: a fault of the
// machine, not of the container.
var ErrNoGroup = errors.New("no control group can be made")

// handDown are the v2 controllers that a directory hands down to those below.
const handDown = "+memory +pids +cpu"

// Class makes the class of the given name, which is passed to Create afterwards. It also makes the
// directory of the tree if another program has removed it. ErrNoGroup.
func (t *Tree) Class(name string) error {
	dir := filepath.Join(t.root, name)
	err := makeDir(dir)
	if errors.Is(err, unix.ENOENT) {
		if err = t.remake(); err == nil {
			err = makeDir(dir)
		}
	}
	if err == nil && t.v2ctl {
		err = write(filepath.Join(dir, "cgroup.subtree_control"), handDown)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoGroup, err)
	}
	return nil
}

// remake creates the directory of a tree again that another program has removed, and claims it.
func (t *Tree) remake() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if exists(t.root) { // another call was here first
		return nil
	}
	if t.claimed < 0 {
		return errors.New("the tree is closed")
	}
	top := filepath.Dir(t.root)
	if err := makeDir(top); err != nil {
		return err
	}
	fd, err := claim(t.root)
	if err != nil {
		return err
	}
	unix.Close(t.claimed) // of a directory that is gone
	t.claimed = fd
	if t.owner != "" {
		if err := t.leaveOwner(t.owner); err != nil {
			return err
		}
	}
	if !t.v2ctl {
		return nil
	}
	return errors.Join(write(filepath.Join(top, "cgroup.subtree_control"), handDown),
		write(filepath.Join(t.root, "cgroup.subtree_control"), handDown))
}

// Create makes the group of one container in a class, and the class if another program has removed
// it. The caller calls Remove. ErrNoGroup if none can be made.
func (t *Tree) Create(class, name string, l Limits) (*Group, error) {
	g := &Group{tree: t, dir: filepath.Join(t.root, class, Escape(name))}
	err := unix.Mkdir(g.dir, 0o755)
	if err == unix.ENOENT {
		if err := t.Class(class); err != nil {
			return nil, err
		}
		err = unix.Mkdir(g.dir, 0o755)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: make group %s: %w", ErrNoGroup, g.dir, err)
	}
	if l.IsZero() {
		return g, nil
	}
	if err = g.limit(l); err != nil {
		err = errors.Join(err, g.Remove())
		return nil, fmt.Errorf("limit %s: %w", name, err)
	}
	return g, nil
}

// Adopt returns the group of a predecessor's container, with the slot that SlotDirs reported then.
func (t *Tree) Adopt(dir string, slotDirs map[string]string, l Limits) *Group {
	g := &Group{tree: t, dir: dir}
	if len(slotDirs) > 0 {
		g.slot = &slot{dirs: slotDirs, limits: l, joined: joined(slotDirs, l), adopted: true}
		_ = g.Throttle() // the cell may have died before it came to that; the group may be gone, too
	} else {
		g.v2l = exists(filepath.Join(dir, "memory.max"))
	}
	return g
}

// Descriptors are those that Group.LeaveThread needs in the calling thread's table.
func (t *Tree) Descriptors() []int {
	fds := make([]int, 0, len(t.base))
	for _, fd := range t.base {
		fds = append(fds, fd)
	}
	return fds
}

// Close removes the empty groups of the tree and closes its descriptors. Groups with processes
// stay.
func (t *Tree) Close() error {
	t.mu.Lock()
	pool := t.pool
	t.pool = nil
	t.mu.Unlock()
	for _, s := range pool {
		s.remove()
	}
	for _, fd := range t.base {
		unix.Close(fd)
	}
	t.base = nil
	if t.claimed < 0 {
		return nil // the directories are another's
	}
	_, v1 := t.Dirs()
	for _, d := range append([]string{t.root}, v1...) {
		RemoveEmpty(d)
	}
	unix.Close(t.claimed)
	t.claimed = -1
	return nil
}

// RemoveEmpty removes the groups below and including dir that hold no process,
// and the directory "cantina" above when it became empty.
func RemoveEmpty(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.IsDir() {
			RemoveEmpty(filepath.Join(dir, e.Name()))
		}
	}
	unix.Rmdir(dir)
	if top := filepath.Dir(dir); filepath.Base(top) == "cantina" {
		unix.Rmdir(top)
	}
}

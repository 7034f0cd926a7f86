package executor

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"cantina/cgroup"
	"cantina/executor/isolate"
	"cantina/executor/shim"
	"cantina/executor/step"
	"cantina/image"
	"cantina/image/cache"
	"cantina/internal/run"
	"cantina/logstore"
	"cantina/resource"
	"cantina/spawn"
	"cantina/spawn/procid"
)

// Executor owns the containers of one cell. Make it with Open and call Run.
type Executor struct {
	cfg        Config
	clock      run.Clock
	log        *slog.Logger
	boot       func() (string, error) // this boot of the machine
	lock       *os.File
	backend    backend // processGroups until openGroups has found others
	watcher    *cgroup.Watcher
	launcher   *spawn.Launcher
	keeper     *keeper
	steps      *step.Engine
	images     *image.Store
	cache      *cache.Cache
	self       func() account // the cell's own user, by the machine's database
	spaces     *isolate.Host  // nil without namespaces
	volumes    volumes
	out        *logstore.Store
	hub        hub
	null       *os.File
	generation generation
	abort      chan struct{} // closed by Abort: kill without grace
	aborting   sync.Once
	rebooting  sync.Once
	drivers    sync.WaitGroup
	dirPool    dirPool

	recovery
	deadlines
	freezer
	prober
	ports
	disk
	kinds
	remains
	counters

	mu         sync.Mutex
	containers map[string]*container
	used       resource.Amounts
	stuck      map[*container]bool
	closed     bool
}

// backend is how this machine finds the processes of containers: in control groups, or, where none
// are usable, in their process groups. Only Open chooses.
type backend interface {
	track(c *container) error            // gives a container its tracker, before its first process; ErrNoGroup
	try(name string) error               // tests whether containers of each class can be tracked; ErrNoGroup
	canKeep() error                      // why nothing can outlive the cell
	classDirs(kinds ...string) []string  // where the classes are that the reaper ends, freezes and thaws
	tree() *cgroup.Tree                  // nil without control groups
	Dirs() (tracker string, v1 []string) // that a successor has to look through
	Patterns() []string                  // of directories that the reaper removes
	Close() error
	String() string
}

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

// deadlines are until when deadline-bound containers may live, and the files that a successor reads.
type deadlines struct {
	e             *Executor
	deadlineFiles []*os.File   // of this generation, and of the adopted classes
	deadline      atomic.Int64 // boot time in ns; 0 = none
	expired       atomic.Bool  // the reaper reports that the deadline passed
	unsaved       error        // why the deadline is not written down, nil = it is; guarded by e.mu
}

// disk is the executor's data about the file system of its directory.
type disk struct {
	e       *Executor
	mu      sync.Mutex
	begun   time.Duration // boot time at which the present test began; 0 = none
	tested  time.Duration // boot time of the last one's begin
	fault   error         // nil = the cell can write
	free    int64         // bytes that may be used
	used    int64         // bytes that containers with a reservation of disk have
	measure bool          // free is known
}

// files are the directory of a container and the files that its programs see. The driver owns
// them.
type files struct {
	*order
	dir     string
	pooled  *pooledDir     // the same, when directories gave it out
	view    *isolate.View  // nil below IsolationNamespaces
	binds   []isolate.Bind // of the volumes
	lower   []string       // directories of the image, the topmost first
	release func()         // releases the image
	image   image.Settings // the image's settings
	rootDir string         // where ResultFile is looked for; "" = directory
	copies  atomic.Int32   // of files to be uploaded, so far
}

// freezer stops all containers together, and resumes them.
type freezer struct {
	e      *Executor
	starts sync.RWMutex // held for writing while all is frozen
	frozen bool         // guarded by e.mu
}

// judgement finds out how a container ended. The driver owns it.
type judgement struct {
	c          *container
	fixed      *verdict         // nil until the main program has ended
	decider    *spawn.Process   // whose end decides; nil = none, or a kept one
	report     func() RunResult // how it ended, once the main program has; nil until it ran
	timedOut   bool
	inherited  bool  // the verdict is a predecessor's: it is in outcome
	askedOf    []int // processes that the reaper ended
	askedKnown bool  // the group has that record
}

// keeper is the cell's end of cantina-reaper: it starts it, sends it the deadlines, and restarts
// it when it dies. While there is none, no process is started.
type keeper struct {
	e       *Executor
	path    string
	program *os.File // the embedded one, in memory
	up      atomic.Bool

	mu      sync.Mutex
	sock    *os.File
	reaper  *spawn.Process
	ready   chan struct{} // closed when the reaper is there, or never will be
	ended   bool
	drained bool
	adopted []adoptedClass
	own     bool             // adopted ones share the present deadline
	kills   map[string]int64 // group → boot time in ns
	records map[int]record   // of processes, by number, where there are no groups
}

// kept is a program that a shim owns. It is a step.Process.
type kept struct {
	h     *stepHost
	c     *container
	dir   string
	shim  *spawn.Process // ends after the program
	done  chan struct{}
	asked moment // to stop
	buf   []byte // of the follower

	mu       sync.Mutex
	main     *spawn.Process // watched only, to signal it
	ended    *shim.Ended    // nil: not ended, or lost
	lost     bool
	detached bool
}

// volumes are the directories below which volumes are allowed.
type volumes struct {
	e    *Executor
	dirs []volumeDir
}

// kinds are the kinds of isolation that fail, and why.
type kinds struct {
	e         *Executor
	mu        sync.Mutex
	withdrawn map[string]string
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

// ports allocates ports of the machine. The most recently used one comes last, and none is
// allocated while a container that may still hold it exists.
type ports struct {
	e           *Executor
	mu          sync.Mutex
	first, last int
	next        int
	taken       map[int]bool
	claims      map[int]net.Listener // shown to other cells of the machine
	low, high   int                  // the kernel's ephemeral range

	usable func(port int) bool
	// leaves reports whether the container that has a port has ended, and is about to be deleted.
	leaves func(port int) bool
}

// prober tests whether the cell can run a container. Its fields are guarded by e.mu.
type prober struct {
	e         *Executor
	probes    int                 // so far
	probing   map[*container]bool // until none of its processes is left
	groupless error               // why no control group can be made; nil = it can
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

// recovery ends, or takes over, the work of dead cell processes of the data directory; Open runs
// it. The fields except oldReapers do not change afterwards.
type recovery struct {
	e       *Executor
	kept    []string // directories of the classes of predecessors whose containers were adopted
	former  []site   // where predecessors have left something that lives
	adopted []adoptedClass
	left    []*container          // adopted or stuck
	records map[string]keptRecord // of kept containers, by the name of their directory; nil = not read

	// oldReapers hold deadlines until a reaper of this process does; guarded by e.mu.
	oldReapers []procid.Identity
}

// remains are the directories of containers that are gone but could not be removed: they are moved
// out of the way, so that no later container gets one, and the removal is tried again. They keep
// the cell from nothing.
type remains struct {
	e      *Executor
	remove func(path string) error // removal.Tree

	mu     sync.Mutex
	serial int
	known  map[string]error // by path: why it stays; nil = left by an earlier process, not tried yet
}

// starting is the phases of a container before it runs, and their messages.
type starting struct {
	c       *container
	notSlow func() // takes back the event that is due about the phase, nil = none is; guarded by e.mu
}

// stepHost is the container as the step interpreter sees it.
type stepHost struct {
	c     *container
	asked moment // to stop, as a whole
}

type counters struct{ launches, kills atomic.Int64 }

// Counters count since the executor was opened.
type Counters struct {
	Launches int64 // containers that became RUNNING
	Kills    int64 // containers that got SIGKILL
}

// Counters returns them.
func (c *counters) Counters() Counters { return Counters{c.launches.Load(), c.kills.Load()} }

// verdict is the data that counts for how a container ended. It is fixed when its main program has
// ended: later requests to the container, and later events of its leftovers, end leftovers and
// change nothing else.
type verdict struct {
	asked    ask    // before the program ended
	reason   string // of askKill
	late     bool   // the cell's deadline had passed; counts if the reaper leaves no record
	oomKills int
	status   []byte
}

// adoptedClass is a class of containers that a predecessor left to be kept.
type adoptedClass struct {
	dir      string
	deadline int64 // the predecessor's, boot time in ns; 0 = none
}

// ErrUnclean reports that containers are left that do not die.
var ErrUnclean = errors.New("containers are left that do not die")

func (e *Executor) uncleanLocked() bool {
	for c := range e.stuck {
		if c.bound && (c.adopted || e.deadlines.pastDeadline()) {
			return true
		}
	}
	return false
}

// emit sends an event to subscribers, if there are any.
func (e *Executor) emit(k EventKind, c *container) {
	if k == EventRunning && !c.hidden {
		e.launches.Add(1)
	}
	if e.hub.none() || c != nil && c.hidden {
		return
	}
	ev := Event{Kind: k}
	if c != nil {
		e.mu.Lock()
		ev.Container = c.snapshot()
		e.mu.Unlock()
	}
	e.hub.emit(ev)
}

// live returns the containers that run and for which want holds.
func (e *Executor) live(want func(*container) bool) []*container {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []*container
	for _, c := range e.containers {
		if c.state == Running && want(c) {
			out = append(out, c)
		}
	}
	return out
}

// take changes the used amounts, in place: this runs for every start.
func (e *Executor) take(need resource.Amounts, sign int) {
	for n, v := range need {
		e.used[n] += sign * v
	}
}

// pastDeadline reports whether deadline-bound work may not be started.
func (d *deadlines) pastDeadline() bool {
	at := d.deadline.Load()
	return d.expired.Load() || at != 0 && int64(d.e.clock.Boot()) >= at
}

// snapshot copies the public state. The executor is locked.
func (c *container) snapshot() Container {
	return Container{ID: c.id, Labels: c.labels, State: c.state, Result: c.result, Ports: slices.Clone(c.ports),
		Routable: c.routable && !c.ends(), Resources: c.need, DeadlineBound: c.bound, Adopted: c.adopted, Kept: c.keep(),
		Ending: c.ask != askNothing,
		EndWhy: c.endWhy(), Decided: c.decided && c.state != Completed, EndBy: c.endBy, Phase: c.phase, Stuck: c.stuck,
		Hang:     c.hang,
		OOMKills: c.oomKills, Created: c.created, Started: c.started,
		Pid: c.pid, Dir: c.files.dirPath(), Isolation: c.spec.Workload.Isolation}
}

// emptyNow reports whether every container that has to be gone is gone.
func (e *Executor) emptyNow() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.stuck) == 0
}

// keepsBound reports whether a container continues that the reaper must end at its deadline.
func (e *Executor) keepsBound() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.containers {
		if c.bound && c.keep() && c.state != Completed {
			return true
		}
	}
	return false
}

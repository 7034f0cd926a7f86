package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"cantina/bbs"
	"cantina/cell"
	"cantina/executor"
	"cantina/fence"
	"cantina/leader"
	"cantina/lrp"
	"cantina/registry"
	"cantina/resource"
	"cantina/scheduler"
	disk "cantina/store"
	"cantina/timetable"
	"cantina/worker"
	"cantina/workerset"
)

type world struct {
	cfg       Config
	rng       *rand.Rand
	now       time.Duration
	q         queue
	seq       int
	store     *storage
	servers   []*server
	machines  []*machine
	byProc    map[worker.Proc]*machine
	boots     map[worker.Proc]string // the boot id under which each process began
	procs     int
	calm      bool
	net       network
	faults    faults
	customers customers
	check     checker
	res       Result
	failed    *Violation
	plans     *plans
	threads   []*threads // of the processes that live
	current   *thread    // the coroutine that runs; nil = an event of the world
}

// boards reports whether the board has work: services and tasks, or the runs of schedules.
func (w *world) boards() bool { return w.mixed() || w.cfg.Schedules > 0 }

// mixed reports whether services and tasks are among the work.
func (w *world) mixed() bool { return w.cfg.Load == Mixed }

func (w *world) chance(perMille int) bool { return w.rng.IntN(1000) < perMille }

func (w *world) between(a, b time.Duration) time.Duration {
	if b <= a {
		return a
	}
	return a + time.Duration(w.rng.Int64N(int64(b-a)))
}

func (w *world) trace(format string, args ...any) {
	if w.cfg.Trace != nil {
		fmt.Fprintf(w.cfg.Trace, "%10.3f %s\n", w.now.Seconds(), fmt.Sprintf(format, args...))
	}
}

func (w *world) fail(invariant, format string, args ...any) {
	if w.failed == nil {
		w.failed = &Violation{w.cfg, w.res.Steps, w.now, invariant, fmt.Sprintf(format, args...)}
		w.trace("VIOLATION %v", w.failed)
	}
}

type arrival struct {
	from *machine
	proc worker.Proc
	read func()
}

// backlog is what has arrived at a server that is late, and was not read. Its clock, its timers and its ticks
// go on meanwhile: it could take its own lateness for the silence of its cells.
type backlog struct {
	late    time.Duration // until when
	unread  []arrival
	reading bool
}

// board is the bulletin board of one term, the shell itself, with the drains that it commits.
type board struct {
	*bbs.BBS
	r      *leadership
	drains *leader.Drains
	full   time.Duration // of the last pass over everything
	next   time.Duration // of a pass that is planned; 0 = none
	off    time.Duration // how far the server's wall clock was off when the term began
}

// checker has the invariants of docs/design/simulator.md that are checked at each step, and the
// data for them.
type checker struct {
	live     map[worker.Work]*container
	byHost   map[string]int
	hosts    map[fence.Invocation]string // of the living
	uids     map[fence.Invocation]string // of their jobs
	invoked  map[fence.Invocation]bool
	launches map[fence.Invocation]bool
	own      map[fence.Invocation]string // ends of those that were not signalled
	all      []*container
	sum      workerset.Hash // of the member rows
	members  map[worker.Proc]bool
	jobs     jobCheck
	work     workCheck
}

// container is one process tree of a batch invocation.
type container struct {
	grip
	m        *machine
	id       string
	labels   executor.Labels
	run      worker.Run
	procs    []worker.Proc // its owners, in order
	need     resource.Amounts
	keep     bool // survives its agent
	extra    bool // no batch task
	never    bool // ends only when it is killed
	alive    bool
	dying    bool
	asked    bool // ordered to end
	deleting bool
	orphan   bool // no agent knows it: it is being ended
	adopted  bool
	status   string // how it ended
}

// containers are those of one machine: process trees of batch invocations, services and tasks, and
// whether the kernel lets them end.
type containers struct {
	m       *machine
	box     []*container
	units   []*unit
	unnamed bool // its groups do not identify their work
}

// customers are the users of services and tasks.
type customers struct {
	w   *world
	ids int // of newID
}

// faults are those that are made, until when each shows, and what they leave behind.
type faults struct {
	w         *world
	active    [faultCount]time.Duration // until when each fault may show
	loseJob   bool                      // the next commit of a job row is lost, and the term with it
	filled    time.Duration             // when the store became full
	full      time.Duration             // and until when it is
	stays     *machine                  // machine where hanging containers hang until the end
	corrupted int                       // rows that were made unreadable
}

// hub takes the events of a term.
type hub struct {
	r    *leadership
	last int64
}

// leadership is one term won by a server.
type leadership struct {
	s         *server
	id        int
	made      int // the store's generation when won
	began     time.Duration
	term      fence.Term
	reg       *registry.Registry
	leader    *worker.Leader // its machine, for the checks
	leads     *leader.Leader // the parts of a leader
	hub       *hub
	sched     *sched
	board     *board
	times     *times        // of schedules; nil without them
	held      time.Duration // lease held until, by own clock
	pending   []item
	flight    []item // on its way to the store
	flying    bool
	over      bool
	revision  int64                // of the last commit
	bad       map[string]*aside    // quarantined rows
	newest    map[string]any       // decoded rows, as submitted
	threads   *threads             // calls that wait
	dead      bool                 // its process has died
	tight     bool                 // a submission must now fit into one row
	jobs      map[string]bool      // names that are held during the wait
	nodes     map[string]bool      // nodes
	perished  map[worker.Proc]bool // given up, or declared dead
	displaced map[worker.Proc]bool
	silentAt  map[worker.Proc][]*machine // machines that had not reported when it was declared dead
	handed    map[worker.Run]bool        // ends given to the scheduler
	t         worker.Timeouts
	reported  workerset.ID                     // the newest set that a cell received
	shows     map[worker.Proc]worker.Heartbeat // each process's newest
	agreed    map[worker.Proc]bool             // has been HEALTHY
	asked     int                              // which machine's session is looked at next
}

// machine is one host with a cell agent, its reaper and its containers.
type machine struct {
	w          *world
	id         int
	name       worker.CellName
	dir        string
	boots      int
	clock      clock
	up         bool
	cell       *cell.Cell   // the agent
	agent      *worker.Cell // its end of the session
	threads    *threads     // its waiting work
	alive      bool         // the agent's process
	doomed     bool         // it dies in this very moment
	life       int          // grows with each agent
	paused     time.Duration
	inbox      []func()
	identity   cell.Identity // content of the directory
	drain      drainState    // reported to the agent
	containers containers
	deadline   time.Duration // the reaper's, local; 0 = none
	server     int
	broken     time.Duration // probes fail until then
	cutOff     time.Duration // no server can call it until then; its own calls and their responses pass
	lag        time.Duration // messages sent to it until then arrive late
	pausing    time.Duration // for how long the agent pauses when it has sent its next heartbeat
	cleared    bool          // the agent knows that its predecessors are gone
	promises   promises
	off        bool // a twin that should not run
	leaving    bool // a deregistration was requested
	reboots    bool // when work that must be dead does not die
}

// network carries the messages between servers, machines and the store.
type network struct {
	w     *world
	cuts  map[[2]int]time.Duration // until when each direction between two nodes is cut
	rough time.Duration            // it is bad until then
}

// plans is the part of a run that concerns schedules. It has its own source of randomness.
type plans struct {
	w      *world
	rng    *rand.Rand
	wall   []time.Duration // by server: how far its wall clock is off
	frozen time.Duration   // when the wall clocks of the timetables stopped; 0 = they run
	berlin *time.Location
	planCheck
}

// promises is the data about a cell's process that is needed to check the contract of the protocol
// at each step, and the checks.
type promises struct {
	m        *machine
	proc     worker.Proc
	term     fence.Term
	shown    worker.State            // by CellChanged
	sent     map[int64]time.Duration // when each heartbeat was sent, local
	credited time.Duration           // sending time of the newest credited heartbeat of this term; 0 = none
	until    time.Duration           // the deadline that was set last, local; 0 = none
	t        worker.Timeouts         // of the newest answer
	beatBy   time.Duration           // true time; 0 = none
	statusBy time.Duration
	fresh    bool          // the present response belongs to a newer heartbeat than any before
	eligible bool          // from the newest response of this term
	quiet    time.Duration // refused: no heartbeat before that without a cause
	probing  int64         // number of the probe that runs; 0 = none
	answered int64         // newest heartbeat with a response
}

// sched is the scheduler of one term and the turns of its loop.
type sched struct {
	*scheduler.Scheduler
	r     *leadership
	awake bool // a pass is about to be made
	timer int  // of the newest pass
}

// server is one control-plane process: a candidate, then perhaps a leader.
type server struct {
	w          *world
	id         int
	clock      clock
	alive      bool
	life       int // grows with each start
	paused     time.Duration
	inbox      []func()
	backlog    backlog
	leadership *leadership
	wall       time.Time // time of its wall clock when its own clock is 0
}

// storage is a fenced store with an election: the rules of docs/design/store.md in
// their smallest form.
type storage struct {
	w        *world
	snapshot // rows, head.restored, head.epoch
	term     fence.Term
	revision int64
	began    int64         // revision with which the epoch began
	lease    int           // server that holds the lease; -1 = free
	leaseID  int           // of the holder's campaign
	expires  time.Duration // true time
	made     int           // generation: grows with each restore
	fresh    bool
	older    []snapshot
}

// thread is one coroutine.
type thread struct {
	of     *threads
	resume func() (struct{}, bool)
	stop   func()
	yield  func(struct{}) bool
}

// threads are the coroutines of one process of the world: code of the shells that waits for
// responses, run unchanged. They alternate with the events of the world, so that one seed is one
// run. When the process ends, waiting code gets an error, and no code waits any more.
type threads struct {
	w       *world
	soon    func(fn func()) // runs fn in the process, as a separate event
	waiting []*thread
	dead    bool
}

// times is the production timetable of a term, with its connections.
type times struct {
	*timetable.Timetable
	r *leadership
	p *plans
}

// unit is a container of a service's instance or of a task on a machine: an executor's data about
// it. Its processes are alive from begin until they are gone.
type unit struct {
	grip
	m         *machine
	id        string // instance id, or "t-" and the uid
	labels    executor.Labels
	key       lrp.Key
	service   lrp.ServiceKey
	exclusive bool
	guid, uid string // of a task
	bound     bool   // ends with its cell's credit
	keep      bool   // survives its agent
	need      resource.Amounts
	state     unitState
	procs     []worker.Proc // its owners, in order
	alive     bool          // it has processes
	orphan    bool          // no agent knows it: it is being ended
	asked     bool          // ordered to stop
	deleting  bool
	notReady  bool // its readiness check fails
	failed    bool
	adopted   bool
	began     time.Duration
	made      int // the store's generation when it was reserved
}

// workCheck is the data of the checks of services and tasks.
type workCheck struct {
	units   []*unit           // that are alive
	only    map[lrp.Key]*unit // the living instance of an exclusive index
	running map[string]*unit  // the living container of a task's uid
	begun   map[string]bool   // uids whose action has started
	durable map[string]bool   // uids of tasks that a commit has written
	excused map[string]bool   // uids that had started when the store went back: nothing remembers it
	// released: uids of tasks whose rows were deleted after their end, which may be a person's word.
	released map[string]bool
}

const domain = "d"

// newID returns a name that is never used again.
func (cu *customers) newID(prefix string) string {
	cu.ids++
	return fmt.Sprint(prefix, cu.ids)
}

type unitState int

// drainState is the orders that a cell received.
type drainState struct {
	id    string        // of the drain; empty = none
	since time.Duration // true time
	// ended are the drains that were taken back or replaced under the leader of term: an order that
	// was overtaken on its way begins nothing.
	ended []string
	term  fence.Term
}

// aside is a row that a term has quarantined.
type aside struct {
	disk.Quarantine
	answered bool // an operator's answer is on its way
}

const (
	reserved unitState = iota
	starting
	up
	completed
)

// jobCheck is the content of the durable rows of jobs.
type jobCheck struct {
	jobs     map[string]*scheduler.JobRecord              // by key
	statuses map[string]map[string]scheduler.StatusRecord // by uid and node; of the lives that are there
	forests  map[string]string                            // by uid, of all lives
	reopened map[string]time.Duration                     // by uid: when an end was taken back last
	names    map[string]string                            // by uid, of all lives
}

// planCheck is the data of the checks of schedules.
type planCheck struct {
	runs   map[string]planRun
	orders int
	sent   map[firedKey]int            // signals; if a restore made them unknown, only those sent since
	called map[firedKey]map[string]int // by instance: calls of a signal
	fired  int
	// restored is the generation of the store that the newest restore made.
	restored int
}

// firedKey is a record of the checker, stored beside the rows: the work that a logical time of a
// schedule started.
type firedKey struct {
	uid string
	at  int64
}

// planRun is a task as a run of the schedule that started it: how many runs that one
// allowed at the time, and the number of that decision.
type planRun struct {
	schedule    string
	most, order int
}

package executor

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"cantina/action"
	"cantina/resource"
)

// The errors of the executor.
var (
	ErrExists       = errors.New("container exists")
	ErrUnknown      = errors.New("no such container")
	ErrClosed       = errors.New("executor is closed")
	ErrState        = errors.New("container is not in a state for that")
	ErrInsufficient = errors.New("insufficient resources")
	// ErrPortInUse: a port that the workload fixes is taken, by a container of this cell or by
	// something else on the machine.
	ErrPortInUse = errors.New("port in use")
	ErrDeadline  = errors.New("the deadline has passed")
	ErrInUse     = errors.New("the data directory is in use by another cell")
)

// CallError is an error of a call about one container. The request is in Call, the container in
// ID, and the reason in Err. The reason does not depend on other names of the container's work.
type CallError struct {
	Call, ID string
	Err      error
}

// Error implements error.
func (e *CallError) Error() string { return e.Call + " " + e.ID + ": " + e.Err.Error() }

// Unwrap returns Err.
func (e *CallError) Unwrap() error { return e.Err }

// InsufficientError names the missing resources. It is ErrInsufficient.
type InsufficientError struct{ Missing []resource.Missing }

// Error names each resource.
func (e *InsufficientError) Error() string {
	parts := make([]string, len(e.Missing))
	for i, m := range e.Missing {
		parts[i] = m.String()
	}
	return ErrInsufficient.Error() + ": " + strings.Join(parts, "; ")
}

// Is makes errors.Is find ErrInsufficient.
func (e *InsufficientError) Is(target error) bool { return target == ErrInsufficient }

// State is where a container is in its life. (Diego executor, Container lifecycle.)
type State int

// The states of a container.
const (
	Reserved State = iota
	Initializing
	Created
	Running
	Completed
)

// String gives the name used at the wire.
func (s State) String() string {
	switch s {
	case Reserved:
		return "RESERVED"
	case Initializing:
		return "INITIALIZING"
	case Created:
		return "CREATED"
	case Running:
		return "RUNNING"
	case Completed:
		return "COMPLETED"
	}
	return fmt.Sprintf("State(%d)", int(s))
}

// next reports whether a container may go from s to t: forward one step, or to
// Completed from everywhere.
func (s State) next(t State) bool { return t == s+1 || t == Completed && s != Completed }

// Labels describe a container, so that a cell that lost its memory can identify it; the page "The
// seams" defines the names.
type Labels map[string]string

// LabelAttempt is the label whose value selects the output of a container as an attempt: the
// number of one of a batch task, the instance of a service.
const LabelAttempt = "attempt"

// Reservation is a claim on resources for a container to come.
type Reservation struct {
	ID            string
	Labels        Labels
	Resources     resource.Amounts // "containers" counts 1 also when it is absent
	DeadlineBound bool             // the reaper ends it at the deadline
	// Ports are those of the workload: Reserve claims the ones that it fixes too.
	Ports []action.Port
	// Expires is after how long the claim is given up when Start has not come;
	// 0 = 1 minute.
	Expires time.Duration
}

// Spec is the work of a container.
type Spec struct {
	Workload action.Workload
	Domain   string // whose secrets it may have
	// Defaults are the cell's: weaker than the ENV of an image, and than Workload.Env.
	Defaults []action.Variable
	// Env is the environment of the container, the strongest last: stronger than
	// Workload.Env, weaker than that of a single Run.
	Env []action.Variable
	// StatusPipe gives every process the writing end of a pipe as descriptor 3, whose path is in
	// CANTINA_STATUS. The last line written is kept. (Bistro, Pipes.)
	StatusPipe bool
}

// OOM is the kernel's data about a process that was killed for lack of memory.
type OOM struct {
	Kills int   // processes killed
	Limit int64 // bytes
	Peak  int64 // bytes
}

// Usage is the usage of a container.
type Usage struct {
	User, System time.Duration // processor time
	// Whole reports that it is that of all processes. Else, without v2 groups, it is that of the
	// main program and the children that it has waited for.
	Whole      bool
	MemoryPeak int64 // bytes, of all together; 0 where nothing counts it: without a limit, or groups
}

// RunResult is how a container ended. (Diego executor, RunResult.)
type RunResult struct {
	Failed    bool
	Reason    string // empty unless failed; "exit status 3", "killed by signal 9 (killed)" …
	Stopped   bool   // by Stop, not on its own
	Retryable bool   // it never got to run
	NeverRan  bool   // its end was requested, or its reservation expired, before it had a process
	NotMade   bool   // the cell could not make the container, with any work; Reserve refuses since then
	TimedOut  bool   // ended by its own time limit
	Expired   bool   // ended because the cell's deadline had passed
	ExitCode  int    // of the main process; -1 when there is none
	Signal    int    // that ended the main process; 0 = none
	OOM       *OOM
	// Lost reports that the end of the container was not observed.
	Lost bool
	// OutputLost is how many bytes of output the disk refused.
	OutputLost int64
	Status     []byte // last line of the status pipe, without its newline
	Started    time.Time
	Ended      time.Time
	Usage      Usage
	// LastOut and LastErr are the last lines of both streams, at most 10 each and
	// 4 KiB together.
	LastOut, LastErr []string
}

// Stuck lists the processes that survive KILL. Such a container keeps its resources, and is not
// certainly dead.
type Stuck struct {
	Since     time.Time
	Processes []StuckProcess
}

// StuckProcess is one process that SIGKILL did not end.
type StuckProcess struct {
	Pid     int
	Command string
	State   string // as ps shows it: "D", "T" …
	Where   string // the kernel function in which it waits, if known
}

// String returns "pid 7 (cat) in state D at request_wait_answer".
func (s *Stuck) String() string {
	return "STUCK_KILLING: " + whereTexts(s.Processes)
}

func whereTexts(processes []StuckProcess) string {
	parts := make([]string, len(processes))
	for i, p := range processes {
		parts[i] = fmt.Sprintf("pid %d (%s) in state %s at %s", p.Pid, p.Command, p.State, p.Where)
	}
	return strings.Join(parts, ", ")
}

// Container is the state of one container at one time.
type Container struct {
	ID            string
	Labels        Labels
	State         State
	Result        RunResult // valid when Completed
	Ports         []action.Mapping
	Routable      bool
	Resources     resource.Amounts
	DeadlineBound bool
	Adopted       bool // taken over from a predecessor
	Kept          bool // outlives the cell's process
	Ending        bool // its end was requested: it is not routable, and even kept work is not released
	// Decided reports that the main program has ended on its own, and that leftovers are being ended:
	// the result is certain, and follows soon after any request.
	Decided bool
	// EndWhy is why it is being ended, where that is known.
	EndWhy string
	// EndBy is the latest time of the KILL, once its end was requested or it has decided.
	EndBy     time.Time
	Phase     Phase  // while it does not run yet
	Stuck     *Stuck // nil unless it does not die
	Hang      *Hang  // nil unless a start hangs
	OOMKills  int    // processes killed for lack of memory so far
	Created   time.Time
	Started   time.Time // of its first program; zero = not yet, or taken over
	Pid       int       // of the main process; 0 = none yet
	Dir       string
	Isolation action.Isolation
}

// Outlives reports whether a container continues if the cell's process ends now.
func (c Container) Outlives() bool {
	return c.Kept && c.State == Running && !c.Ending && c.Stuck == nil
}

// Phase is the phase of a container that does not run yet.
type Phase struct {
	What  string        // "running setup"; empty = nothing that takes long
	Since time.Duration // boot time
	At    time.Time     // the same by the wall clock
	Limit time.Duration // its latest end, counted from the start of the container; 0 = none
	// Detail is why it is still at that: the latest failed attempt of a health check.
	Detail string

	heard time.Duration // boot time of the latest event; 0 = there was none
}

// Hang is the place where a start hangs. The container keeps its resources, and continues when the
// file system responds; a stop, and the start timeout, kill the hanging process, which may then
// become STUCK_KILLING.
type Hang struct {
	Since     time.Time
	Program   string
	Processes []StuckProcess
}

// String returns "START_HANGS: /mnt/a: pid 7 (cantina) in state D at request_wait_answer".
func (h *Hang) String() string {
	return "START_HANGS: " + h.Program + ": " + whereTexts(h.Processes)
}

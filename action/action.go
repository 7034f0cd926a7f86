// Package action is the tree of steps that a container runs, and the health
// checks that watch it: values only, made by the spec file and the API,
// interpreted by the executor. (Diego dev notes; Diego executor, Step semantics.)
//
// A Workload is everything the executor needs to know of one container; the
// long-lived process, the one-off task and the batch task all carry one.
package action

import (
	"strings"
	"time"

	"cantina/resource"
)

// Action is one node of the tree. Exactly one field is set.
type Action struct {
	Run          *Run
	Download     *Download
	Upload       *Upload
	Serial       []Action // stop at the first error
	Parallel     []Action // wait for all, join their errors
	Codependent  []Action // the first end of any, also with success, cancels the others
	Try          *Action  // swallow errors, not cancellation
	Timeout      *Timeout
	EmitProgress *EmitProgress
}

// Run runs one program.
type Run struct {
	// Path is the program: absolute, or looked up in the PATH of Env.
	Path string
	Args []string // without the program's own name
	Dir  string   // working directory; empty = the container's own directory
	Env  []Variable
	User string // name or uid[:gid]; empty = the workload's
	// OpenFiles is the limit on open files (RLIMIT_NOFILE); 0 = the cell's default.
	OpenFiles int
	// SuppressOutput drops the program's output.
	SuppressOutput bool
}

// Variable is one environment variable. Any bytes but NUL.
type Variable struct{ Name, Value string }

// Download fetches From (http, https or file URL) and puts it at To; a tar, tgz
// or zip artifact is unpacked there when Unpack is set.
type Download struct {
	From, To string
	Unpack   bool
	CacheKey string // empty = From
	// ChecksumAlgorithm is sha256 or sha512; required unless AllowUnpinned.
	ChecksumAlgorithm string
	ChecksumValue     string // lower-case hexadecimal
	AllowUnpinned     bool
}

// Upload sends the file From to the URL To by PUT.
type Upload struct{ From, To string }

// Timeout cancels Action after After.
type Timeout struct {
	Action Action
	After  time.Duration
}

// EmitProgress writes lines into the container's log around Action.
type EmitProgress struct {
	Action               Action
	Start, Success       string
	FailureMessagePrefix string
}

// Isolation is the isolation of a container from its machine.
type Isolation int

// The levels of isolation.
const (
	// default: own cgroup and session, no_new_privs, no inherited descriptors or environment
	IsolationProcess    Isolation = iota
	IsolationNone                 // own session only (and a cgroup where there is one, to find its processes)
	IsolationNamespaces           // pid, mount (private /tmp, the rest read-only), ipc, uts
	IsolationRootfs               // a root file system of its own
)

// Check is one health or readiness check. Exactly one of HTTP, TCP, Exec is set.
type Check struct {
	HTTP *HTTPCheck
	TCP  *TCPCheck
	Exec *Run // healthy when it exits 0
	// Timeout limits one attempt; 0 = 1 s.
	Timeout time.Duration
	// StartupInterval is the cadence until the first success; 0 = 2 s.
	StartupInterval time.Duration
	// Interval is the cadence afterwards; 0 = 30 s.
	Interval time.Duration
}

// HTTPCheck is healthy when GET Path answers 200. Port is a declared port's name.
type HTTPCheck struct{ Port, Path string }

// TCPCheck is healthy when a connection is accepted. Port is a declared port's name.
type TCPCheck struct{ Port string }

// Port is a declared port: the cell picks a free one and hands it over in the
// environment as PORT (the first) and PORT_NAME.
type Port struct {
	Name string
	// Fixed requests exactly this port of the machine; 0 = dynamic.
	Fixed int
}

// PortVariable is the variable with the number of a port: that of "http-alt" is PORT_HTTP_ALT.
func PortVariable(port string) string {
	return "PORT_" + strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		if r >= 'a' && r <= 'z' {
			return r - 'a' + 'A'
		}
		return '_'
	}, port)
}

// FixedPorts returns the numbers that the workload fixes, in order of its ports.
func (w *Workload) FixedPorts() []int {
	var out []int
	for _, p := range w.Ports {
		if p.Fixed != 0 {
			out = append(out, p.Fixed)
		}
	}
	return out
}

// Mapping is a port as it was given out.
type Mapping struct {
	Name string
	Port int
}

// KillMode is how a container is signalled when it is stopped.
type KillMode int

// The kill modes of the note "Bistro task termination", choice c.
const (
	// KillTermWaitKill is the stop signal, then KILL after the grace: the default. It permits
	// cleanup; without cgroups the KILL may leak child processes.
	KillTermWaitKill KillMode = iota
	// KillTerm is the stop signal alone; KILL is left to the reaper. A program that cleans up badly
	// does not end, instead of ending and leaking its descendants.
	KillTerm
	// KillNow is KILL at once: fast when there is nothing to clean up.
	KillNow
)

// KillTarget is the receivers of the signals: choice d of Bistro's note.
type KillTarget int

// The kill targets. Without usable cgroups TargetCgroup means TargetGroup.
const (
	// TargetCgroup is every process of the container: the default. No process is missed, and a parent
	// cannot choose the order in which its children end.
	TargetCgroup KillTarget = iota
	// TargetGroup is the process group of the main process. It misses processes that made
	// a session or a group of their own; they are leftovers then.
	TargetGroup
	// TargetChild is only the main process, which may end its children in order; forgotten ones are
	// leftovers.
	TargetChild
)

// Defaults of a Termination. (Bistro task termination, choices a to e; Diego executor, Run step.)
const (
	DefaultGrace         = 10 * time.Second
	DefaultLeftoverGrace = time.Second
)

// Termination holds the choices of "Bistro task termination".
type Termination struct {
	// Signal is the stop signal (a number); 0 = SIGTERM (15).
	Signal int
	// Grace is how long after Signal KILL follows; 0 = DefaultGrace.
	Grace time.Duration
	// LeftoverGrace is how long processes that outlive the main one have between
	// TERM and KILL; 0 = DefaultLeftoverGrace.
	LeftoverGrace time.Duration
	Mode          KillMode
	Target        KillTarget
	// ParentDeath is the signal that the main process gets when the cell dies (choice a): 0 = SIGTERM
	// with cgroups and SIGKILL without; -1 = none. TERM permits cleanup, and leaks a process that
	// ignores it if no reaper is left. KILL is certain, and orphans child processes without a control
	// group.
	ParentDeath int
	// NoSession keeps the main process in the cell's session and group (choice b "No"): Ctrl-C and
	// Ctrl-Z of a terminal reach it directly. Without cgroups only the main process can be signalled
	// then, not its children.
	NoSession bool
}

// OnCellRestart is the fate of a container when its cell's process ends.
type OnCellRestart int

// The fates at a cell's restart.
const (
	RestartStop OnCellRestart = iota // default: the reaper ends it
	RestartKeep                      // it runs on and is adopted by the next cell process
)

// Survives reports whether the work outlives its cell's process.
func (r OnCellRestart) Survives() bool { return r == RestartKeep }

// Workload is the work of one container, with its environment.
type Workload struct {
	Setup    *Action // run once before Action
	Action   Action
	Monitor  *Action // like a check that is an action; ignored if Checks is set
	Sidecars []Action

	Checks          []Check       // all must pass: then RUNNING; later one failure ends the container
	ReadinessChecks []Check       // decide only whether the instance is routable
	StartTimeout    time.Duration // to become RUNNING; 0 = no limit
	TimeLimit       time.Duration // for the whole run; 0 = none

	Env     []Variable
	Secrets []SecretFile // variables with the contents of files of the cell; stronger than Env
	Volumes []Volume     // files and directories of the cell's machine; with IsolationNamespaces or IsolationRootfs
	User    string       // name or uid[:gid]; empty = the cell's own
	// Resources are those that the container takes from its cell. memory_mb, cpu_milli and disk_mb
	// are enforced as limits if present; containers is always 1.
	Resources resource.Amounts
	MaxPids   int // 0 = no limit
	Ports     []Port
	Isolation Isolation
	OwnNet    bool   // with IsolationNamespaces: a private network namespace, loopback only
	Rootfs    string // with IsolationRootfs: directory, OCI tarball, or registry reference pinned by digest
	// ResultFile is read when the action ended (relative to the container's directory).
	ResultFile string

	Termination   Termination
	OnCellRestart OnCellRestart
	// API adds the address and the token of the API (CANTINA_API, CANTINA_TOKEN), with the full
	// rights of an operator.
	API bool
	// LogRate limits output in bytes per second; 0 = no limit. Dropped bytes are counted in the log.
	LogRate int
	// Labels are for selectors (label.Selector). They affect neither the placement nor the process.
	Labels map[string]string
}

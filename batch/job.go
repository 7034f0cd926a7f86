package batch

import (
	"time"

	"cantina/action"
	"cantina/cron"
	"cantina/fence"
	"cantina/placement"
	"cantina/resource"
)

// Job is a command that runs once on each node of a level (Bistro job keys).
type Job struct {
	Name string // domain/name: the key among all jobs
	// UID is minted by the leader when the name is born; a deleted and re-created
	// job has another one.
	UID string
	// Born is the newest invocation when the job was created: invocations that are not newer belong
	// to an earlier job of the name.
	Born   fence.Invocation
	Domain string
	Owner  string
	// Forest is the key of the forest of nodes it runs over, domain/name: its own for a job that
	// declares nodes, a shared one for Bistro configuration files.
	Forest string
	// Disabled jobs start nothing; running tasks continue.
	Disabled bool
	// Paused is an operator's pause, kept apart from the configuration.
	Paused bool
	// Level of the nodes on which it runs; empty = the last configured level.
	Level string
	// Priority is the rank or the weight of the priority policies.
	Priority float64
	// Resources per level: the amount that one batch task takes from the node of that level on its
	// path, or from its cell for the level LevelWorker. A missing resource takes the forest's
	// default.
	Resources map[string]resource.Amounts
	// Filters per level; a node runs only when it and all its ancestors pass. That of LevelWorker selects
	// cells by their host names.
	Filters map[string]Filter
	// DependsOn are the keys of jobs that must be done on the same node.
	DependsOn []string
	// After are the keys of jobs that must be done on all their nodes before this one starts, over any nodes.
	After   []string
	Backoff Backoff
	// Orphans is the fate of running tasks that the job or its nodes would not start any more.
	Orphans Orphans
	// Retries bounds the attempts after the first that ended in an error; negative =
	// only the backoff list bounds them.
	Retries int
	// Workload is the work of one batch task; Expand makes it concrete for a node.
	Workload action.Workload
	Call     Call
	// Config is handed to a Bistro task untouched (JSON object).
	Config string
	// IgnoreExitCode restores Bistro's old meaning: without a status the exit code
	// is not looked at.
	IgnoreExitCode bool
	// HostLevel pins a task to the machine with the name of its ancestor at that level; Host pins all
	// tasks to one machine and takes precedence (Bistro host placement).
	HostLevel, Host string
	// Stack, Tags, Labels and Tolerates constrain the cells, as for LRPs.
	Stack  string
	Tags   []string
	Labels map[string]string
	// Conditions on labels, as texts of label.Condition.
	Conditions []string
	Tolerates  []string
	// Errors make the job invalid: it runs nothing and harms nothing.
	Errors []string
	// Export is the job in Bistro's export form (JSON), if it came from a configuration file of Bistro.
	Export string
}

// CanRun reports whether the job may start anything.
func (j *Job) CanRun() bool { return !j.Disabled && !j.Paused && len(j.Errors) == 0 }

// Call is how a task gets its input.
type Call int

// The forms of a call.
const (
	// CallTemplate: "{}" in the command is the node's name, "{/}" its last path
	// element; CANTINA_JOB, CANTINA_NODE, CANTINA_PATH, CANTINA_FENCE and
	// CANTINA_STATUS are in the environment.
	CallTemplate Call = iota
	// CallBistro: the node's name, the status pipe and a JSON object are appended to the command
	// (Bistro, the input of a task).
	CallBistro
)

// Names of the two levels that every forest has.
const (
	LevelInstance = "instance" // the one root node
	LevelWorker   = "worker"   // the cell
)

// Order is how the nodes of a level are ordered for scheduling.
type Order int

// The node orders of Bistro.
const (
	OrderRandom   Order = iota // by a seeded hash
	OrderOriginal              // as the sources gave them
	OrderLexicographic
)

// ForestSpec describes a forest: its levels, sources and resources.
type ForestSpec struct {
	Name string // domain/name: the key among all forests
	// Levels between instance and worker, from the root down.
	Levels []string
	// Instance is the name of the root node.
	Instance string
	Order    Order
	Sources  []Source
	// Limits per level and resource; every node of a level has the same. The level
	// LevelWorker only gives defaults: cells bring their own capacity.
	Limits map[string]map[string]Limit
	Policy Policy
	// Cells is the order in which the allowed cells are tried. placement.OrderBusiest compares the resources of
	// LevelWorker by the weights of their limits.
	Cells placement.Order
	// Disabled starts nothing of any job.
	Disabled bool
	// Backwards takes the nodes of a job from the end of the order (Bistro).
	Backwards bool
	// Removed is the fate of running tasks of jobs that a file does not have any more; nil = they are
	// ended at once.
	Removed *Orphans
}

// Limit is one resource of a level.
type Limit struct {
	Default int // amount that a task takes if its job sets none
	Limit   int // capacity of each node of the level
	Weight  int // of a resource of LevelWorker, for placement.OrderBusiest
}

// SourceKind is the kind of a source of nodes.
type SourceKind int

// The sources of nodes.
const (
	SourceManual SourceKind = iota // Manual lists them
	SourceScript                   // Script prints them, one a line, once per parent
	SourceEmpty                    // none
	SourceRange                    // numbers, below each node of ParentLevel
	SourceFile                     // File lists them; it is read again when it changes
	SourceTime                     // the times of a calendar, below each node of ParentLevel
)

// Source is one source of nodes; sources run in order and a later one may use the
// nodes of an earlier one as parents (Bistro node fetchers).
type Source struct {
	Kind   SourceKind
	Manual []ManualNode
	// ParentLevel is the level whose nodes get the script's lines as children.
	ParentLevel string
	// Script is the program and its arguments; the parent's name is appended.
	Script []string
	// Timeout limits one run of the script; 0 = 30 s.
	Timeout time.Duration
	// First, Last and Step (0 = 1) are a range's numbers, Last included; Format makes their names.
	First, Last, Step int
	Format            string
	// Disabled: the nodes of a range are disabled.
	Disabled bool
	// File is the absolute name of a file on each server.
	File string
	// Times are the calendars of SourceTime, in the time zone Zone (an IANA name or a POSIX string; empty
	// only if none depends on it); Format makes the names.
	Times []Times
	Zone  string
}

// Times are nodes that come and go with the times of a calendar (Bistro node fetchers, add_time).
type Times struct {
	// Line is a crontab line; JSON an object with the keys of the Bistro cron notes. One of them is set.
	Line, JSON string
	Gap        cron.Gap // of a line that depends on a zone, as Fold
	Fold       cron.Fold
	// Lifetime is how long after its time a node exists; Enabled how long it is enabled: 0 = as long as
	// it exists, below 0 = never.
	Lifetime, Enabled time.Duration
	Tags              []string
}

// ManualNode is one entry of a manual source. Names that are no child of another are below the
// instance node.
type ManualNode struct {
	Name     string
	Children []string
	Disabled bool
	Tags     []string
}

// Policy is how jobs share free resources.
type Policy int

// The scheduling policies of Bistro. Jobs that a policy does not distinguish come in order of name.
const (
	RoundRobin         Policy = iota // one start per job and round
	RankedPriority                   // a job gets only room that those of higher priority leave
	RandomizedPriority               // each start is drawn, in proportion to the priorities
	LongTail                         // the job with the fewest ready nodes first
)

// Filter selects nodes; a node passes when all given conditions hold (Bistro job
// filters).
type Filter struct {
	Whitelist      []string
	WhitelistRegex string // searched, not anchored
	Blacklist      []string
	BlacklistRegex string
	TagWhitelist   []string // at least one
	// Fraction of the nodes, chosen by a specified hash salted with the job's name in its domain;
	// ≤ 0 or ≥ 1 = all.
	Fraction float64
}

// Backoff is the list of pauses after errors (Bistro backoff). The zero value is
// the default list.
type Backoff struct {
	Seconds []int // strictly increasing
	Repeat  bool  // continue with the last value; else fail after it
	Fail    bool  // an intentionally empty list: the first error fails
}

package placement

import (
	"fmt"
	"strings"
	"time"

	"cantina/label"
	"cantina/resource"
)

// Kind is the kind of a piece of work.
type Kind int

// The kinds of work.
const (
	KindLRP   Kind = iota // one instance of a long-running process
	KindTask              // a one-off task
	KindBatch             // one batch task: granted in bulk, never waiting here
)

// String returns "lrp", "task" or "batch".
func (k Kind) String() string {
	switch k {
	case KindLRP:
		return "lrp"
	case KindTask:
		return "task"
	case KindBatch:
		return "batch"
	}
	return "unknown kind"
}

// Item is one piece of work that needs a cell. The placement has no other data about it; the
// caller finds its own row by ID.
type Item struct {
	// ID is shared by identical units of work: a batch holds one item per ID (process guid and index
	// of an LRP, guid of a task). Never empty.
	ID string
	// Hold is the id of its allocation: unique per attempt (instance id of an LRP, uid of a task).
	// Never empty.
	Hold string
	// Name is for people: "default/web/0".
	Name string
	Kind Kind
	// Group is the set of items that should not be colocated: the process guid of an LRP. Empty for
	// tasks.
	Group string
	// Service is the service of an LRP in all its versions, for Apart: "default/web".
	Service string
	// Index of an LRP; index 0 is placed first.
	Index int
	// Need is the amount that it takes from its cell; one container is always added.
	Need       resource.Amounts
	Constraint Constraint
	// Avoid names cells that must not get it (the cell being drained, the cell of
	// the suspect instance).
	Avoid []string
	// Priority is the preempt_priority; it counts only with Config.Preempt.
	Priority int
}

// Constraint is the conditions on cells for an item.
type Constraint struct {
	// Stack must be among the cell's stacks; empty = any.
	Stack string
	// Tags are placement tags: cell.RequiredTags ⊆ Tags ⊆ RequiredTags ∪ OptionalTags
	// (Diego auction, placement tags): untagged work never lands on a cell with
	// required tags, and a tag must be offered.
	Tags []string
	// Labels that the cell must carry with exactly these values.
	Labels map[string]string
	// Conditions on labels and on the zone: all must hold.
	Conditions []label.Condition
	// Tolerates lists taints of cells that do not keep it away.
	Tolerates []string
	// Host, when set, is the only machine it may run on (Bistro job keys,
	// host_placement).
	Host string
	// OpenFiles is the required limit of open files; 0 = the cell's.
	OpenFiles int
	// Isolation are the kinds of isolation that it needs (action.Workload.Kinds).
	Isolation []string
	// Volumes are the paths of the machine that it needs (action.Workload.HostPaths).
	Volumes []string
	// Ports are the ports of the machine that the work fixes: each is held once.
	Ports []int
	// Spread lists the labels over whose values the instances of a group are spread, the most important
	// first; then over zones. Cells without the label count as one more value.
	Spread []string
	// Limits bound the instances of a group for each value of a label, or on each cell. Instances on
	// cells in Avoid do not count: they are about to go.
	Limits []Limit
	// Apart lists services that it never shares a cell with, whichever is there first.
	Apart []string
}

// Limit is the maximum number of instances of a group for each value of a label; with label.Cell, on
// each cell.
type Limit struct {
	Label string
	Most  int
}

// Hosts is a filter of host names. Filters of one Key pass the same.
type Hosts struct {
	Key  string
	Pass func(host string) bool
}

// String returns the key of the filter; empty = none.
func (h *Hosts) String() string {
	if h == nil {
		return ""
	}
	return h.Key
}

// Order is the order in which the cells are tried that may get an item.
type Order int

// The orders of cells (Bistro worker selection).
const (
	OrderSpread     Order = iota // the least used first
	OrderRoundRobin              // the cell that got batch work the longest ago
	OrderBusiest                 // the least sum of weighted free amounts
)

// String prints the order as in a spec file.
func (o Order) String() string {
	if words := [...]string{"spread", "round_robin", "busiest"}; o >= 0 && int(o) < len(words) {
		return words[o]
	}
	return fmt.Sprintf("Order(%d)", int(o))
}

// State is a cell's report about itself in its heartbeats.
type State struct {
	Cell    string // name
	Process string // id of the reporting cell process
	// Version grows with every change that the process announces; a state that is
	// not newer is ignored.
	Version int64
	Zone    string
	Host    string
	// InstanceAddress is the address of its instances: with Host, it distinguishes machines.
	InstanceAddress string
	Stacks          []string
	// RequiredTags keep away work that does not carry them all; OptionalTags are
	// offered besides.
	RequiredTags, OptionalTags []string
	Labels                     map[string]string
	Taints                     []string
	// OpenFiles is the highest limit of open files that the cell can give a program; 0 = not
	// reported.
	OpenFiles int
	// Withdrawn are the kinds of isolation that the cell cannot give, with the reason.
	Withdrawn map[string]string
	// Volumes are the directories that the cell allows for volumes (action.VolumeDir).
	Volumes []string
	// Capacity is everything the cell offers.
	Capacity resource.Amounts
	// Foreign is the amount used on the cell that the leader does not account for (the probe, ended
	// containers that are not gone yet).
	Foreign resource.Amounts
	// Unavailable is why the cell takes no new work though it is alive (its probe
	// fails); empty = available.
	Unavailable string
	Draining    bool
}

// Placement is a decision: this item goes to this cell process.
type Placement struct {
	Item    *Item // not to be changed
	Cell    string
	Process string
	Waited  time.Duration // since its request, in the auction
	flight  int64
}

// Holding is work on a cell according to a row or a report: the ledger is rebuilt from it when a
// term starts.
type Holding struct {
	Hold  string
	Cell  string
	Kind  Kind
	Group string
	Need  resource.Amounts
	Ports []int    // as those of a Constraint
	Apart []string // as that of a Constraint
	Name  string   // for people: "default/web/0"
	// Service is that of the Item.
	Service string
}

// Want requests resources for one batch task.
type Want struct {
	Hold       string // unique among live batch tasks
	Need       resource.Amounts
	Constraint Constraint
	// Hosts limits the cells by the host names of their machines (Bistro filters on the worker level);
	// nil = all.
	Hosts *Hosts
	// Order is the order in which the allowed cells are tried; Weights are those of OrderBusiest, by
	// resource.
	Order   Order
	Weights map[string]int
}

// Grant answers a Want: room on a cell, in flight until confirmed, or a refusal.
type Grant struct {
	Hold    string
	Cell    string // empty = refused
	Process string
	Host    string
	Refusal *Refusal // set when refused
}

// Code is the kind of a refusal: the two placement errors of the Diego dev notes,
// "Communicating Fullness".
type Code int

// The placement errors.
const (
	NoCompatibleCells     Code = iota // no cell may ever get it in the present state
	InsufficientResources             // compatible cells exist, none has room
)

// String returns the seed's text of the placement error.
func (c Code) String() string {
	switch c {
	case NoCompatibleCells:
		return "found no compatible cells"
	case InsufficientResources:
		return "insufficient resources"
	}
	return "unknown placement error"
}

// Name returns the code as programs know it: no_compatible_cells or
// insufficient_resources.
func (c Code) Name() string {
	switch c {
	case NoCompatibleCells:
		return "no_compatible_cells"
	case InsufficientResources:
		return "insufficient_resources"
	}
	return "unknown"
}

// CodeOf returns the name of the code with which the text of a Refusal begins; empty
// for any other text.
func CodeOf(text string) string {
	for c := NoCompatibleCells; c <= InsufficientResources; c++ {
		if strings.HasPrefix(text, c.String()+": ") {
			return c.Name()
		}
	}
	return ""
}

// Refusal is why an item got no cell, as arithmetic per class of cells.
type Refusal struct {
	Code Code
	// Never is set if admitted cells match the item and no matching cell could hold it even when
	// empty. It depends on amounts alone (resources, and the limit of open files, which never
	// changes), because a cell of another stack, tag, label, taint or host may join at any time. It
	// is not set while a session has not reported its cell's capacity.
	Never   bool
	Classes []Class
	// Cell names the cell that the item was placed on and that did not take it. The
	// item is in the next batch then: another cell may have room.
	Cell string
	// Kept names the cell that is reserved for it, or for work that has waited longer.
	Kept string
}

// Cause is why a class of cells did not get an item.
type Cause int

// The causes, in the order in which they are tested.
const (
	CauseNotAdmitted Cause = iota // its session may not be given work
	CauseUnavailable              // its probe fails
	CauseDraining
	CauseHost      // pinned to another machine
	CauseAvoided   // the item avoids it, or names others
	CauseStack     // other stack
	CauseTags      // placement tags
	CauseLabels    // labels differ
	CauseTaint     // tainted
	CauseIsolation // it has withdrawn a kind of isolation
	CauseVolumes   // it does not allow a volume
	CauseOpenFiles // it cannot give a limit of open files that high
	CauseLimit     // as many instances as the item allows
	CauseApart     // a service that the item stays apart from
	CauseResources // compatible, but too little free
)

// Class counts the cells that refused an item for one cause.
type Class struct {
	Cause Cause
	Cells int
	// Detail is the reason for causes that have one (why the session may not get work, the missing
	// tag, the taint).
	Detail string
	// Short lists the missing resources, for CauseResources only.
	Short []Shortage
}

// Shortage is one resource of which no cell of the class has enough left.
type Shortage struct {
	Name        string
	Need        int
	LargestFree int // on one cell of the class, as this kind of work may use it
	LargestAll  int // capacity of the largest cell of the class
	// Holder is the work that has a port, on one of the cells; empty for other resources.
	Holder string
}

// Submittable returns ErrInvalid for an item that cannot wait: one without ids, or batch work.
func (it *Item) Submittable() error {
	if it.ID == "" || it.Hold == "" || it.Kind == KindBatch {
		return fmt.Errorf("submit %q as %q: %w", it.ID, it.Hold, ErrInvalid)
	}
	return nil
}

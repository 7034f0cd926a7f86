package worker

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"cantina/fence"
)

// CellName is the name of a cell, the shard of the Bistro worker protocol: at most
// one process holds it in one leader's eyes.
type CellName string

// ErrName is a name that no cell may have.
var ErrName = errors.New("a cell's name has lower case letters, digits and hyphens")

// Check returns nil for [a-z0-9-]+, and else ErrName with the name.
func (n CellName) Check() error {
	bad := func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' }
	if n == "" || strings.ContainsFunc(string(n), bad) {
		return fmt.Errorf("%w, not %q", ErrName, string(n))
	}
	return nil
}

// Proc is the random id of one session of one cell process. A process takes a
// new one at each start and after each MUST_DIE or DIE.
type Proc string

// Work names a batch task: a job runs once on each of its nodes.
type Work struct {
	Job  string // domain/name
	Node string
}

// Compare orders batch tasks by job, then node.
func (w Work) Compare(v Work) int {
	return cmp.Or(cmp.Compare(w.Job, v.Job), cmp.Compare(w.Node, v.Node))
}

// String prints "domain/job/node".
func (w Work) String() string { return w.Job + "/" + w.Node }

// Run is one attempt at a batch task.
type Run struct {
	Work       Work
	Invocation fence.Invocation
}

// Compare orders runs by invocation, then work.
func (r Run) Compare(s Run) int {
	return cmp.Or(r.Invocation.Compare(s.Invocation), r.Work.Compare(s.Work))
}

// State is the state of a worker session. The zero State is New.
type State int

// The states of a session (Bistro worker protocol, "Worker state transitions").
const (
	// New: the leader does not know the cell's running work yet. No work starts.
	New State = iota
	// Unhealthy: no heartbeat or probe answer in time, or not permitted by the worker set. No new work.
	Unhealthy
	// Healthy: may be given work.
	Healthy
	// MustDie: lost or ordered to die. Final for the process id.
	MustDie
)

// String returns the upper case name.
func (s State) String() string {
	switch s {
	case New:
		return "NEW"
	case Unhealthy:
		return "UNHEALTHY"
	case Healthy:
		return "HEALTHY"
	case MustDie:
		return "MUST_DIE"
	}
	return "State(" + strconv.Itoa(int(s)) + ")"
}

package batch

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"cantina/fence"
)

// State is the state of a job as a whole.
type State int

// The states of a job, first hit wins.
const (
	JobWaiting  State = iota // nothing runs yet, something may
	JobInvalid               // its configuration has errors
	JobRunning               // something runs
	JobDisabled              // by configuration, and nodes are left to run
	JobPaused                // by an operator, and nodes are left to run
	JobFailed                // nothing runs or can start; some failed, or a job that they depend on did
	JobDone                  // everything is done
	JobEmpty                 // no node passes its filters
)

// String returns the lower case word.
func (s State) String() string {
	words := [...]string{"waiting", "invalid", "running", "disabled", "paused", "failed", "done", "empty"}
	if int(s) < len(words) {
		return words[s]
	}
	return "unknown state"
}

// Ended reports whether nothing of the job will start without a change.
func (s State) Ended() bool { return s == JobFailed || s == JobDone || s == JobEmpty }

// Progress counts a job's nodes by class.
type Progress struct {
	State State
	// Total is all nodes at its level that pass its filters and are enabled.
	Total                                          int
	Done, Failed, Running, Ready, Backoff, Blocked int
	Avoided, Disabled                              int
	// Stranded nodes wait for a job that will not be done there without a change.
	Stranded int
	Reason   string // why it starts nothing, if so
}

// Progress returns the counts of a job; ok is false for an unknown one. Constant
// cost.
func (js *jobs) Progress(name string) (p Progress, ok bool) {
	j := js.named[name]
	if j == nil {
		return p, false
	}
	p = progressOf(&j.counts)
	p.Reason = j.blocked
	if p.Reason == "" && p.Ready+p.Running == 0 {
		p.Reason = js.behind(j)
	}
	open := p.Ready + p.Backoff + p.Blocked
	switch {
	case len(j.Errors)+len(j.problems) > 0:
		p.State, p.Reason = JobInvalid, strings.Join(slices.Concat(j.Errors, j.problems), "; ")
	case p.Running > 0:
		p.State = JobRunning
	case j.Disabled && (open > 0 || p.Total == 0):
		p.State = JobDisabled
	case j.Paused && (open > 0 || p.Total == 0):
		p.State = JobPaused
	case p.Total == 0:
		p.State = JobEmpty
	case open > 0:
		p.State = JobWaiting
	case p.Failed+p.Stranded > 0:
		p.State = JobFailed
	default:
		p.State = JobDone
	}
	return p, true
}

// behind names the job without starts that a job waits for; empty if it waits for none. through
// are the jobs on the way to it.
func (js *jobs) behind(j *job, through ...*job) string {
	if j.counts[ClassBlocked]+j.counts[ClassStranded] == 0 {
		return ""
	}
	waits := ""
	if j.gate.Text != "" {
		waits = "comes " + j.gate.Text
	}
	if j.gate.Never {
		return waits
	}
	for _, name := range j.DependsOn {
		d := js.named[name]
		switch {
		case d == nil:
			return fmt.Sprintf("depends on job %s, which does not exist", name)
		case j.counts[ClassStranded] == 0:
		case len(d.Errors)+len(d.problems) > 0:
			return fmt.Sprintf("depends on job %s, which is invalid", name)
		case d.counts[ClassFailed] > 0:
			return fmt.Sprintf("depends on job %s, which failed on %d of its nodes", name, d.counts[ClassFailed])
		case slices.Contains(through, d):
			return fmt.Sprintf("depends on job %s: %s", name, inCircle)
		case d.counts[ClassStranded] > 0:
			return fmt.Sprintf("depends on job %s, which %s", name, js.behind(d, append(slices.Clip(through), j)...))
		case d.counts[ClassAvoided]+d.counts[ClassAbsent] > 0:
			return fmt.Sprintf("depends on job %s, which does not run on all of these nodes", name)
		}
		if waits == "" && d.counts[ClassDone] < len(d.records) {
			waits = fmt.Sprintf("waiting for job %s", name)
			if word := d.held(); word != "" {
				waits += ", which is " + word
			}
		}
	}
	return waits
}

// inCircle is why jobs that depend on each other never start. Within a file they are refused;
// files that are applied one after the other can still make a circle.
const inCircle = "the jobs wait for each other in a circle"

// held names the setting because of which a job starts nothing.
func (j *job) held() string {
	switch {
	case j.Disabled:
		return "disabled"
	case j.Paused:
		return "paused"
	}
	return ""
}

// NodeView is one (job, node) for lists.
type NodeView struct {
	Node   string
	Class  Class
	Status Status
	// Invocation and Cell of the running task; zero otherwise.
	Invocation fence.Invocation
	Cell       string
	Since      int64 // Unix milliseconds
}

// NodeFilter selects nodes of a job; empty fields select all.
type NodeFilter struct {
	Classes []Class // none = all that are in the forest
	Node    string  // one by its name
	Below   string  // those that have a node of this name on their path
	After   string  // names strictly after it
	Limit   int     // 0 = all
}

// Nodes lists nodes of a job in order of name. Unknown jobs are ErrUnknownJob. A requested node
// that the job does not have is no error here: see HasNode. With a limit, the cost is that of the nodes
// up to the last one listed: all pages together look at each node once.
func (b *Board) Nodes(name string, f NodeFilter) ([]NodeView, error) {
	j := b.jobs.named[name]
	if j == nil {
		return nil, fmt.Errorf("job %q: %w", name, ErrUnknownJob)
	}
	list := b.f.names[j.level].list
	var found []int32
	if f.Node != "" {
		if n, ok := b.f.names[j.level].index[f.Node]; ok && int(n) < len(j.records) && b.jobs.selects(j, n, &f) {
			found = append(found, n)
		}
	} else if f.Limit > 0 {
		order := b.f.names[j.level].inOrder()
		byName := func(n int32, name string) int { return cmp.Compare(list[n], name) }
		from, _ := slices.BinarySearchFunc(order, f.After, byName)
		for _, n := range order[from:] {
			if int(n) < len(j.records) && b.jobs.selects(j, n, &f) {
				found = append(found, n)
			}
			if len(found) == f.Limit {
				break
			}
		}
	} else {
		for i := range j.records {
			if b.jobs.selects(j, int32(i), &f) {
				found = append(found, int32(i))
			}
		}
		slices.SortFunc(found, func(a, b int32) int { return cmp.Compare(list[a], list[b]) })
	}
	out := make([]NodeView, len(found))
	for i, n := range found {
		out[i] = b.nodeView(j, n)
	}
	return out, nil
}

// Node returns the view of one batch task; ok is false if the job has no such node.
func (b *Board) Node(k Key) (v NodeView, ok bool) {
	j, n, err := b.jobs.lookup(k)
	if err != nil || int(n) >= len(j.records) {
		return v, false
	}
	return b.nodeView(j, n), true
}

// HasNode returns ErrUnknownJob, or ErrUnknownNode when the job has no node of the
// name: neither in the forest nor with a status of an earlier one.
func (js *jobs) HasNode(k Key) error {
	j, n, err := js.lookup(k)
	if err != nil {
		return err
	}
	if int(n) >= len(j.records) || j.records[n].class == ClassAbsent && j.records[n].bits == 0 {
		return fmt.Errorf("job %q has no node %q: %w", k.Job, k.Node, ErrUnknownNode)
	}
	return nil
}

func (js *jobs) selects(j *job, n int32, f *NodeFilter) bool {
	c := j.records[n].class
	if len(f.Classes) == 0 && c == ClassAbsent || len(f.Classes) > 0 && !slices.Contains(f.Classes, c) {
		return false
	}
	if js.f.names[j.level].list[n] <= f.After {
		return false
	}
	return f.Below == "" || js.f.isBelow(j, n, f.Below)
}

func (f *forest) isBelow(j *job, n int32, name string) (below bool) {
	f.placesOf(j.level, n, func(p int32) {
		for q, level := p, j.level; q >= 0 && !below; q, level = f.places[q].parent, level-1 {
			below = f.names[level].list[f.places[q].name] == name
		}
	})
	return below
}

// Path names the nodes from the root to a node of a job, by its first place; nil if it has no
// place.
func (js *jobs) Path(k Key) []string {
	j, n, err := js.lookup(k)
	if err != nil {
		return nil
	}
	return js.f.path(j.level, js.f.first(j.level, n))
}

// path names the nodes from the root to a place of a level; nil for none (-1).
func (f *forest) path(level int, p int32) []string {
	if p < 0 {
		return nil
	}
	path := make([]string, level+1)
	for ; p >= 0; p, level = f.places[p].parent, level-1 {
		path[level] = f.names[level].list[f.places[p].name]
	}
	return path
}

func (b *Board) nodeView(j *job, n int32) NodeView {
	x := &j.records[n]
	v := NodeView{Node: b.f.names[j.level].list[n], Class: x.class, Status: b.terms.unpack(x)}
	if r := b.runs.byKey[Key{j.Name, v.Node}]; r != nil {
		v.Invocation, v.Cell, v.Since = r.inv, r.cell, r.since
	}
	return v
}

// RunView is one batch task that may be running.
type RunView struct {
	Key        Key
	Invocation fence.Invocation
	Cell       string
	Since      int64 // Unix milliseconds
	Orphan     bool  // its job is gone
}

// Draws reports whether tasks of the job take anything from nodes of the forest.
func (js *jobs) Draws(name string) bool {
	j := js.named[name]
	if j == nil {
		return false
	}
	return slices.ContainsFunc(j.needs, func(need []int) bool {
		return slices.ContainsFunc(need, func(n int) bool { return n > 0 })
	})
}

package batch

import (
	"slices"
	"time"

	"cantina/fence"
)

// Orphans is the fate of running tasks that their job's configuration or nodes would not start: the
// job is disabled or invalid, or the node is gone or disabled, itself or above (Bistro, orphans). The
// zero value leaves them alone.
type Orphans struct {
	Kill  bool
	After time.Duration // from when it was first seen as an orphan
}

// orphans are the orphans among the runs of a board, found again only after a change that may make some.
type orphans struct {
	f     *forest
	runs  *runs
	clock *clock
	stale bool // there may be others than found
	found map[Key]orphan
	next  int64 // no orphan is due before; 0 = none is due
}

// orphan is a running task that is to be ended.
type orphan struct {
	inv   fence.Invocation
	due   int64 // Unix milliseconds
	ended bool  // the caller was asked to end it
}

// why is the reason for which a run is an orphan; empty if it is none. A filter makes none: the task
// continues. Of a replicated node, one good place is enough. Runs of a job that was removed or created
// again are the caller's.
func (o *orphans) why(r *run) string {
	j := r.job
	switch {
	case j == nil, r.inv.IsZero(), r.uid != "" && r.uid != j.UID:
		return ""
	case len(j.Errors)+len(j.problems) > 0:
		return "job is invalid"
	case j.Disabled:
		return "job is disabled"
	case int(r.node) >= len(j.records) || j.records[r.node].flags&flagPlaced == 0:
		return "node is gone"
	case j.records[r.node].flags&flagDisabled != 0:
		return "node is disabled"
	}
	return ""
}

// began takes a new run.
func (o *orphans) began(r *run) { o.stale = o.stale || o.why(r) != "" }

// Orphan is a running task to be ended.
type Orphan struct {
	Key        Key
	Invocation fence.Invocation
	Reason     string
}

// Orphans returns the orphans that are to be ended now, in order of job and node, each once. The nodes
// of the board are those of its definition; the caller keeps the intent until the task has ended.
func (o *orphans) Orphans() (out []Orphan) {
	if o.f.spec.Disabled || !o.stale && (o.next == 0 || o.clock.now < o.next) {
		return nil
	}
	o.look()
	o.next = 0
	for k, x := range o.found {
		switch {
		case x.ended:
		case x.due <= o.clock.now:
			out = append(out, Orphan{Key: k, Invocation: x.inv, Reason: o.why(o.runs.byKey[k])})
			x.ended = true
			o.found[k] = x
		case o.next == 0 || x.due < o.next:
			o.next = x.due
		}
	}
	slices.SortFunc(out, func(a, b Orphan) int { return a.Key.Compare(b.Key) })
	return out
}

// look finds the present orphans. A deadline stays when the delay changes; a task that is an orphan no
// more has none.
func (o *orphans) look() {
	old := o.found
	o.found, o.stale = nil, false
	for k, r := range o.runs.byKey {
		if o.why(r) == "" || !r.job.Orphans.Kill {
			continue
		}
		if o.found == nil {
			o.found = make(map[Key]orphan)
		}
		x, ok := old[k]
		if !ok || x.inv != r.inv {
			x = orphan{inv: r.inv, due: o.clock.now + r.job.Orphans.After.Milliseconds()}
		}
		o.found[k] = x
	}
}

// NextOrphan returns when the next orphan is to be ended; ok is false when none is.
func (o *orphans) NextOrphan() (at int64, ok bool) {
	if o.stale && !o.f.spec.Disabled {
		return o.clock.now, true
	}
	return o.next, o.next != 0
}

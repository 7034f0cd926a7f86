package batch

import (
	"fmt"
	"slices"

	"cantina/fence"
)

// Update is a status that has to become durable.
type Update struct {
	Key    Key
	UID    string // of the job
	Status Status
	// Data is the task's own data, with a real report only.
	Data []byte
}

// Finish takes the end of an invocation: gives back what it drew and applies the
// report. ok is false when there is nothing to store: its job is gone or was
// created anew meanwhile, or the report is a replay or would replace a better one.
func (b *Board) Finish(k Key, inv fence.Invocation, rep Report, guard int) (u Update, ok bool) {
	r := b.runs[k]
	next := NextBackoff{}
	if r != nil && r.inv == inv {
		delete(b.runs, k)
		next = r.next
		j := r.job
		b.giveBack(r)
		if j == nil || r.uid != "" && r.uid != j.UID || inv.Compare(j.Born) <= 0 {
			return Update{}, false
		}
	} else if r != nil {
		return Update{}, false // another invocation runs: this one is old
	}
	j := b.jobs[k.Job]
	if j == nil || inv.Compare(j.Born) <= 0 {
		return Update{}, false
	}
	x := b.pair(j, b.f.node(j.level, k.Node))
	prev := b.unpack(x)
	if !Replaces(prev, inv, rep) {
		return Update{}, false
	}
	if next == (NextBackoff{}) {
		next = j.Backoff.Next(prev.configured())
	}
	s := Apply(prev, inv, rep, b.now, Rules{Next: next, Retries: j.Retries, Guard: guard})
	return b.set(j, k.Node, s, rep.Data), true
}

// set stores a status and brings everything up to date.
func (b *Board) set(j *job, node string, s Status, data []byte) Update {
	n := b.f.node(j.level, node)
	b.pack(b.pair(j, n), s)
	b.changed(j, n)
	return Update{Key: Key{j.Name, node}, UID: j.UID, Status: s, Data: data}
}

// Load sets a status as it was stored, when a term begins. Unknown jobs are
// ErrUnknownJob.
func (b *Board) Load(k Key, s Status) error {
	j := b.jobs[k.Job]
	if j == nil {
		return fmt.Errorf("load status of %q: %w", k.Job, ErrUnknownJob)
	}
	b.set(j, k.Node, s, nil)
	return nil
}

// Status returns the stored status of a pair. It returns ErrUnknownJob or
// ErrUnknownNode.
func (b *Board) Status(k Key) (Status, error) {
	j, n, err := b.lookup(k)
	if err != nil {
		return Status{}, err
	}
	return b.unpack(b.pair(j, n)), nil
}

func (b *Board) lookup(k Key) (*job, int32, error) {
	j := b.jobs[k.Job]
	if j == nil {
		return nil, 0, fmt.Errorf("job %q: %w", k.Job, ErrUnknownJob)
	}
	n, ok := b.f.names[j.level].index[k.Node]
	if !ok {
		return nil, 0, fmt.Errorf("job %q, node %q: %w", k.Job, k.Node, ErrUnknownNode)
	}
	return j, n, nil
}

// Forgive lets failed tasks run again and ends backoffs: those of the named nodes,
// or all of the job. It returns what changed. Errors: ErrUnknownJob,
// ErrUnknownNode.
func (b *Board) Forgive(name string, nodes ...string) ([]Update, error) {
	return b.rewrite(name, nodes, Forgiven)
}

// Reset forgets the statuses of the named nodes, or of all, so that they run
// again; what runs is left alone. It returns what changed; the zero status means
// that the row goes. Errors: ErrUnknownJob, ErrUnknownNode.
func (b *Board) Reset(name string, nodes ...string) ([]Update, error) {
	return b.rewrite(name, nodes, func(s Status) (Status, bool) {
		// The invocation stays: a late replay must not count as new.
		return Status{Invocation: s.Invocation}, s.Bits != 0
	})
}

func (b *Board) rewrite(name string, nodes []string, change func(Status) (Status, bool)) ([]Update, error) {
	j := b.jobs[name]
	if j == nil {
		return nil, fmt.Errorf("job %q: %w", name, ErrUnknownJob)
	}
	var numbers []int32
	for _, node := range nodes {
		_, n, err := b.lookup(Key{name, node})
		if err != nil {
			return nil, err
		}
		numbers = append(numbers, n)
	}
	if len(nodes) == 0 {
		for i := range j.pairs {
			numbers = append(numbers, int32(i))
		}
	}
	slices.Sort(numbers)
	var out []Update
	for _, n := range slices.Compact(numbers) {
		x := b.pair(j, n)
		if x.running {
			continue
		}
		if s, ok := change(b.unpack(x)); ok {
			out = append(out, b.set(j, b.f.names[j.level].list[n], s, nil))
		}
	}
	return out, nil
}

package batch

import (
	"fmt"
	"slices"

	"cantina/fence"
)

// Update is a change of one batch task that takes effect when it is durable: the caller stores it
// and then calls Board.Apply.
type Update struct {
	Key Key
	UID string // of the job
	// Store is false if there is nothing to store: the job was deleted or created again meanwhile, or
	// the report is a replay or would replace a better one. Apply then only returns the draws of the
	// invocation.
	Store  bool
	Status Status
	// Data is the task's own data, with a real report only.
	Data []byte
	// Mark is where it is stored, as the caller numbers it (see Board.Mark).
	Mark uint32
	// ends is the invocation that ends with it; zero for changes by a person.
	ends fence.Invocation
}

// End computes the changes of the end of an invocation. It changes nothing itself: a slot is
// refilled only after its status is durable.
func (b *Board) End(k Key, inv fence.Invocation, rep Report, guard int) Update {
	u := Update{Key: k, ends: inv}
	r, j := b.runs.byKey[k], b.jobs.named[k.Job]
	switch {
	case j == nil, inv.Compare(j.Born) <= 0:
		return u
	case r != nil && r.inv.Compare(inv) > 0 && rep.Bits&Overwriteable != 0:
		// A later invocation runs: the loss of this one does not matter. A report of its process does:
		// the later one may never have started.
		return u
	case r != nil && r.inv == inv && r.uid != "" && r.uid != j.UID:
		return u
	}
	if rep.Bits&(Overwriteable|UsesBackoff) == Overwriteable {
		return u // it never ran: everything is as before
	}
	prev := b.terms.unpack(j.record(b.f.node(j.level, k.Node)))
	if !Replaces(prev, inv, rep) {
		return u
	}
	rules := Rules{Next: j.Backoff.Next(prev.configured()), Retries: j.Retries, Guard: guard}
	if r != nil && r.inv == inv {
		rules.Next, rules.Began = r.next, r.since
	}
	u.Store, u.UID, u.Data = true, j.UID, rep.Data
	u.Status = Apply(prev, inv, rep, b.clock.now, rules)
	return u
}

// Apply makes an update effective. It returns the mark that it replaced.
func (b *Board) Apply(u Update) (old uint32) {
	b.watch(u.Key.Job)
	if r := b.runs.byKey[u.Key]; r != nil && !u.ends.IsZero() && r.inv == u.ends {
		b.runs.remove(r)
		b.giveBack(r)
	}
	j := b.jobs.named[u.Key.Job]
	if !u.Store || j == nil || j.UID != u.UID {
		return 0
	}
	n := b.f.node(j.level, u.Key.Node)
	x := j.record(n)
	old, x.mark = x.mark, u.Mark
	b.set(j, n, u.Status)
	return old
}

// set stores a status and brings everything up to date.
func (b *Board) set(j *job, n int32, s Status) {
	x := j.record(n)
	b.terms.pack(x, s)
	x.ahead = b.clock.now > 0 && s.Time > b.clock.now
	b.derived.changed(j, n)
	b.watch(j.Name)
}

// Mark returns where the status of a batch task is stored, 0 = nowhere.
func (b *Board) Mark(k Key) uint32 {
	if j, n, err := b.jobs.lookup(k); err == nil {
		return j.record(n).mark
	}
	return 0
}

// SetMark records that a status, unchanged, is now stored elsewhere.
func (b *Board) SetMark(k Key, mark uint32) {
	if j, n, err := b.jobs.lookup(k); err == nil {
		j.record(n).mark = mark
	}
}

// Load sets a status as it was stored, when a term begins, and where. It returns
// the mark of an older one that it replaces. Unknown jobs are ErrUnknownJob.
func (b *Board) Load(k Key, s Status, mark uint32) (old uint32, err error) {
	j := b.jobs.named[k.Job]
	if j == nil {
		return 0, fmt.Errorf("load status of %q: %w", k.Job, ErrUnknownJob)
	}
	n := b.f.node(j.level, k.Node)
	x := j.record(n)
	old, x.mark = x.mark, mark
	b.set(j, n, s)
	return old, nil
}

// Status returns the stored status of a batch task. It returns ErrUnknownJob or ErrUnknownNode.
func (b *Board) Status(k Key) (Status, error) {
	j, n, err := b.jobs.lookup(k)
	if err != nil {
		return Status{}, err
	}
	return b.terms.unpack(j.record(n)), nil
}

// Retry lets failed tasks run again and ends backoffs: those of the named nodes, or all of the
// job. It returns the updates to store and apply. Errors: ErrUnknownJob, ErrUnknownNode.
func (b *Board) Retry(name string, nodes ...string) ([]Update, error) {
	return b.rewrite(name, nodes, Retried)
}

// Reset clears the statuses of the named nodes, or of all, so that they run again; running ones
// are left alone. It returns the updates to store and apply. Errors: ErrUnknownJob,
// ErrUnknownNode.
func (b *Board) Reset(name string, nodes ...string) ([]Update, error) {
	return b.rewrite(name, nodes, func(s Status) (Status, bool) {
		// The invocation stays: a late replay must not count as new.
		return Status{Invocation: s.Invocation}, s.Bits != 0
	})
}

func (b *Board) rewrite(name string, nodes []string, change func(Status) (Status, bool)) ([]Update, error) {
	j := b.jobs.named[name]
	if j == nil {
		return nil, fmt.Errorf("job %q: %w", name, ErrUnknownJob)
	}
	var numbers []int32
	for _, node := range nodes {
		_, n, err := b.jobs.lookup(Key{name, node})
		if err != nil {
			return nil, err
		}
		numbers = append(numbers, n)
	}
	if len(nodes) == 0 {
		for i := range j.records {
			numbers = append(numbers, int32(i))
		}
	}
	slices.Sort(numbers)
	var out []Update
	for _, n := range slices.Compact(numbers) {
		x := j.record(n)
		if x.running {
			continue
		}
		if s, ok := change(b.terms.unpack(x)); ok {
			out = append(out, Update{Key: Key{name, b.f.names[j.level].list[n]}, UID: j.UID, Store: true, Status: s})
		}
	}
	return out, nil
}

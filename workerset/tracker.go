package workerset

import (
	"fmt"

	"cantina/fence"
)

// Tracker is one leader's data about the worker set: its version history, the set that each
// process shows, and for each process a lower bound of the processes without which it could be
// part of no consensus (Bistro worker-set consensus, "Efficiently maintaining
// indirectWorkerSetID_"). Membership is by cell process: one that has lost its cell's name to
// another stays until it is certainly dead. One caller owns it.
type Tracker struct {
	current ID
	members map[string]*member // by process; a dead one while the history has it
	alive   int
	initial map[ID]Hash // of the living, those that first showed this set
	unshown int         // the living that have shown none yet
	history []step      // versions first, first+1, … current
	index   index
	scratch [][]*member // of propagate
	tops    topHeap     // of propagate
	turnover
}

// member is one process. A set version that is not known yet has known = false.
type member struct {
	initial ID
	came    bool   // initial is known
	joined  uint64 // version of the step that added it
	left    uint64 // version of the step that removed it, when dead
	dead    bool

	set, indirect uint64
	echoed        bool // set, first and indirect are known
	first         uint64
	permitted     bool // has been allowed to become healthy once
	shown         ID   // the set last shown, whole
	within        int  // scratch of propagate: member at this point of the history
}

// step is one change of the set. The first of the history may add many.
type step struct {
	removed string
	added   map[string]struct{}
}

// NewTracker begins with the empty set, version 0, for the leader of a term.
// After limit newcomers without agreement further ones queue; 0 = never.
func NewTracker(leader fence.Term, limit int) *Tracker {
	return &Tracker{current: ID{Leader: leader}, members: map[string]*member{}, initial: map[ID]Hash{},
		index: newIndex(), turnover: turnover{limit: limit}}
}

// Current returns the set of all processes that may run work.
func (t *Tracker) Current() ID { return t.current }

// Len is the number of processes in the set.
func (t *Tracker) Len() int { return t.alive }

// Has reports whether a process is in the set.
func (t *Tracker) Has(proc string) bool {
	m := t.members[proc]
	return m != nil && !m.dead
}

// place returns the index of a version in the history; ok is false before it.
func (t *Tracker) place(v uint64) (int, bool) {
	i := len(t.history) - 1 - int(int64(t.current.Version-v))
	return i, i >= 0
}

// Join adds a process. mayQueue is false while the initial wait lasts. One that is in the
// set, or waits to be, is left as it is.
func (t *Tracker) Join(proc string, mayQueue bool) {
	switch {
	case t.Has(proc) || t.waits(proc):
	case mayQueue && t.full():
		t.enqueue(proc)
	default:
		t.join(proc)
	}
}

func (t *Tracker) join(proc string) {
	t.advance(t.current.Hash.Add(proc), step{added: map[string]struct{}{proc: {}}})
	t.members[proc] = &member{joined: t.current.Version}
	t.alive++
	t.unshown++
	t.joins++
}

// Came records the set that a process showed when it had contacted this leader and had got no set
// of it: the set from the last leader whose wait was over. Only the first counts.
func (t *Tracker) Came(proc string, initial ID) {
	m := t.members[proc]
	if m == nil || m.dead || m.came {
		return
	}
	if initial.Leader.Revision == 0 {
		initial = ID{} // a list, which includes a process that takes work before others have received it
	}
	m.came, m.initial = true, initial
	t.unshown--
	t.initial[initial] = t.initial[initial].Add(proc)
}

// Leave removes a process that is certainly dead, or can never have been given work. Unknown and
// dead ones are ignored.
func (t *Tracker) Leave(proc string) {
	if t.dequeue(proc) {
		return
	}
	m := t.members[proc]
	if m == nil || m.dead {
		return
	}
	hash, _ := t.current.Hash.Remove(proc) // which has it
	t.advance(hash, step{removed: proc})
	m.dead, m.left = true, t.current.Version
	t.alive--
	if !m.came {
		t.unshown--
	} else if h, _ := t.initial[m.initial].Remove(proc); h.Count == 0 {
		delete(t.initial, m.initial)
	} else {
		t.initial[m.initial] = h
	}
	if m.echoed {
		t.index.remove(m.indirect)
	}
}

func (t *Tracker) advance(h Hash, s step) {
	t.current.Version++
	t.current.Hash = h
	t.history = append(t.history, s)
}

// Echo takes the set that a process shows. A set of another leader is ignored; one that this
// leader never made is ErrCorrupt.
func (t *Tracker) Echo(proc string, id ID) error {
	m := t.members[proc]
	if m == nil || m.dead || id.Leader.Less(t.current.Leader) {
		return nil
	}
	if id.Leader != t.current.Leader {
		return fmt.Errorf("process %s shows a set of term %v: %w", proc, id.Leader, ErrCorrupt)
	}
	if int64(t.current.Version-id.Version) < 0 || id.Version == t.current.Version && id.Hash != t.current.Hash {
		return fmt.Errorf("process %s shows version %d, which was never made: %w", proc, id.Version, ErrCorrupt)
	}
	if before(id.Version, m.joined) {
		return nil // made before it joined, so without it
	}
	if !m.echoed {
		m.echoed, m.first, m.set, m.indirect, m.shown = true, id.Version, id.Version, id.Version, id
		t.index.add(m.indirect)
		return nil
	}
	if id.Version == m.set && id != m.shown {
		return fmt.Errorf("process %s shows two sets of version %d: %w", proc, id.Version, ErrCorrupt)
	}
	if !before(m.set, id.Version) {
		return nil
	}
	m.set, m.shown = id.Version, id
	if before(m.indirect, id.Version) {
		t.index.move(m, id.Version)
	}
	return nil
}

// before is Earlier for versions of one history, which are always near.
func before(a, b uint64) bool { return int64(a-b) < 0 }

// Consensus reports whether all members of some set are back: each of them showed that set first.
// All processes that may run work are among them; others, with other sets or none, have none.
// There is no consensus of an empty set.
func (t *Tracker) Consensus() bool {
	for id, h := range t.initial {
		if h == id.Hash {
			return true
		}
	}
	return false
}

// Permits reports whether a process may take its first work: it shows the present
// set, and every living one, directly or through others, requires it.
func (t *Tracker) Permits(proc string) bool {
	m := t.members[proc]
	if m == nil || m.shown != t.current || t.index.size != t.alive {
		return false
	}
	return !before(t.index.min(), m.first)
}

// Tick prunes the history, propagates requirements by one hop, and lets queued
// newcomers in when the others agree.
func (t *Tracker) Tick() {
	t.prune()
	t.propagate()
	t.admitTurnover()
}

package workerset

import (
	"fmt"

	"cantina/fence"
)

// Tracker is what one leader knows of the worker set: its version history, the
// set each cell shows, and for each cell a lower bound of the cells without which
// it could be part of no consensus (Bistro worker-set consensus, "Efficiently
// maintaining indirectWorkerSetID_"). Membership is by cell name; the hash is
// over process ids. One caller owns it.
type Tracker struct {
	current ID
	members map[string]*member // a dead one while the history has it
	alive   int
	initial map[ID]int // first sets shown, of the living
	history []step     // versions first, first+1, … current
	index   index
	scratch [][]*member // of propagate
	tops    topHeap     // of propagate
	turnover
}

// member is one cell. A set version that is not known yet has known = false.
type member struct {
	proc    string
	initial ID
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
	added   map[string]bool
}

// NewTracker begins with the empty set, version 0, for the leader of a term.
// After limit newcomers without agreement further ones queue; 0 = never.
func NewTracker(leader fence.Term, limit int) *Tracker {
	return &Tracker{current: ID{Leader: leader}, members: map[string]*member{}, initial: map[ID]int{},
		index: newIndex(), turnover: turnover{limit: limit}}
}

// Current returns the set of all cells that are not MUST_DIE.
func (t *Tracker) Current() ID { return t.current }

// Len is the number of cells in the set.
func (t *Tracker) Len() int { return t.alive }

func (t *Tracker) version(i int) uint64 { return t.current.Version - uint64(len(t.history)-1-i) }

// place returns the index of a version in the history; ok is false outside it.
func (t *Tracker) place(v uint64) (int, bool) {
	i := len(t.history) - 1 - int(int64(t.current.Version-v))
	return i, i >= 0 && i < len(t.history)
}

// Join adds a cell that showed initial on its first heartbeat, in the place of
// any earlier process of its name. mayQueue is false while the initial wait lasts.
func (t *Tracker) Join(cell, proc string, initial ID, mayQueue bool) {
	t.Leave(cell)
	if mayQueue && t.full() {
		t.enqueue(newcomer{cell, proc, initial})
		return
	}
	t.join(newcomer{cell, proc, initial})
}

func (t *Tracker) join(n newcomer) {
	t.advance(t.current.Hash.Add(n.proc), step{added: map[string]bool{n.cell: true}})
	t.members[n.cell] = &member{proc: n.proc, initial: n.initial, joined: t.current.Version}
	t.alive++
	t.initial[n.initial]++
	t.joins++
}

// Leave removes a cell that is MUST_DIE or replaced. Unknown and dead cells are ignored.
func (t *Tracker) Leave(cell string) {
	if t.dequeue(cell) {
		return
	}
	m := t.members[cell]
	if m == nil || m.dead {
		return
	}
	hash, err := t.current.Hash.Remove(m.proc)
	if err != nil {
		return
	}
	t.advance(hash, step{removed: cell})
	m.dead, m.left = true, t.current.Version
	t.alive--
	if t.initial[m.initial]--; t.initial[m.initial] == 0 {
		delete(t.initial, m.initial)
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

// Echo takes the set that a cell shows on a later heartbeat. A set of another
// leader is ignored; one that this leader never made is ErrCorrupt.
func (t *Tracker) Echo(cell string, id ID) error {
	m := t.members[cell]
	if m == nil || m.dead || id == m.initial || id.Leader.Less(t.current.Leader) {
		return nil
	}
	if id.Leader != t.current.Leader {
		return fmt.Errorf("cell %s shows a set of term %v: %w", cell, id.Leader, ErrCorrupt)
	}
	if int64(t.current.Version-id.Version) < 0 || id.Version == t.current.Version && id.Hash != t.current.Hash {
		return fmt.Errorf("cell %s shows version %d, which was never made: %w", cell, id.Version, ErrCorrupt)
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
		return fmt.Errorf("cell %s shows two sets of version %d: %w", cell, id.Version, ErrCorrupt)
	}
	if !before(m.set, id.Version) {
		return nil
	}
	m.set, m.shown = id.Version, id
	if before(m.indirect, id.Version) {
		t.index.move(m.indirect, id.Version, 1)
		m.indirect = id.Version
	}
	return nil
}

// before is Earlier for versions of one history, which are always near.
func before(a, b uint64) bool { return int64(a-b) < 0 }

// Consensus reports whether every living cell first showed the same set and that
// set is exactly the living ones: everybody the last leader knew is back. There
// is no consensus of nobody.
func (t *Tracker) Consensus() bool {
	if t.alive == 0 || len(t.initial) != 1 || t.queued() > 0 {
		return false
	}
	for id := range t.initial {
		return id.Hash == t.current.Hash
	}
	return false
}

// Agree reports whether every living cell first showed the same set, whoever is
// missing from it. It decides nothing; a planted mistake uses it.
func (t *Tracker) Agree() bool { return t.alive > 0 && len(t.initial) == 1 }

// Permits reports whether a cell may take its first work: it shows the present
// set, and every living cell, directly or through others, requires it.
func (t *Tracker) Permits(cell string) bool {
	m := t.members[cell]
	if m == nil || m.dead || !m.echoed || m.shown != t.current || t.index.size != t.alive {
		return false
	}
	return !before(t.index.min(), m.first)
}

// Tick prunes the history, propagates requirements by one hop, and lets queued
// newcomers in when the others agree.
func (t *Tracker) Tick() {
	t.prune()
	t.propagate()
	t.settleTurnover()
}

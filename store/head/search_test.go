package head

import (
	"errors"
	"fmt"
	"testing"

	"cantina/fence"
)

// The exhaustive small-scope search: every order in which requests are applied,
// lost, answered or kept back, with a bounded number of faults, over two batches.

type message struct {
	base, put Head
	batch     int // -1 for a bare one
}

type world struct {
	m       Machine
	head    Head
	own     bool
	flying  []message // sent, given up by their sender, not yet applied
	applied []int     // batches in the order of their application
	under   int       // the batch under way
	acked   int       // batches acknowledged
	faults  int       // left
	depth   int       // left
	over    error     // why the term ended
}

// mistake plants a wrong behaviour.
type mistake int

const (
	right mistake = iota
	skipSequenceCheck
	takeUnchangedForNever
	acknowledgeBeforeCommit
)

type search struct {
	t       *testing.T
	mistake mistake
	worlds  int
	ends    map[string]int
	broken  string // the first broken invariant, with its trace
}

const batches = 2

func (w world) apply(m message, plant mistake) (world, bool) {
	if !w.own || (w.head != m.base && plant != skipSequenceCheck) {
		return w, false
	}
	w.head = m.put
	if m.batch >= 0 {
		w.applied = append(w.applied[:len(w.applied):len(w.applied)], m.batch)
	}
	return w, true
}

// check looks for a broken invariant.
func (w world) check() string {
	for i, b := range w.applied {
		if i > 0 && w.applied[i-1] >= b {
			return fmt.Sprintf("applied %v: twice or out of order", w.applied)
		}
	}
	for b := range w.acked {
		if b >= len(w.applied) || w.applied[b] != b {
			return fmt.Sprintf("%d batches acknowledged, applied %v", w.acked, w.applied)
		}
	}
	return ""
}

func (s *search) run(w world, e Effect, trace string) {
	s.worlds++
	if s.broken != "" {
		return
	}
	if why := w.check(); why != "" {
		s.broken = why + " after" + trace
		return
	}
	if w.depth == 0 {
		return
	}
	w.depth--
	for i, m := range w.flying { // a request that was given up may land at any moment
		next := w
		next.flying = append(append([]message(nil), w.flying[:i]...), w.flying[i+1:]...)
		next, _ = next.apply(m, s.mistake)
		s.run(next, e, trace+fmt.Sprintf(" land(%d)", m.batch))
	}
	if w.own && w.faults > 0 { // another leader takes over
		next := w
		next.faults--
		next.own = false
		s.run(next, e, trace+" lose-lease")
		next.head = Head{Term: fence.Term{Epoch: w.head.Term.Epoch, Revision: w.head.Term.Revision + 1}}
		s.run(next, e, trace+" displace")
	}
	s.perform(w, e, trace)
}

func (s *search) perform(w world, e Effect, trace string) {
	switch e.Want {
	case SendBatch, SendBare:
		s.send(w, e, trace)
	case ReadHead:
		s.step(w, Read, Seen{Own: w.own, Exists: true, Head: w.head}, trace+" read")
		if w.faults > 0 {
			w.faults--
			s.step(w, Unknown, Seen{}, trace+" read?")
		}
	case Landed:
		w.under++
		w.acked = w.under
		s.next(w, trace)
	case Over:
		w.over = w.m.Err()
		if !errors.Is(w.over, ErrDisplaced) {
			s.broken = fmt.Sprintf("over by %v after%s", w.over, trace)
		}
		s.ends["over"]++
	case Dropped, Nothing:
		s.broken = fmt.Sprintf("effect %d after%s", e.Want, trace)
	}
}

// next begins the next batch.
func (s *search) next(w world, trace string) {
	if w.under == batches {
		s.ends["done"]++
		return
	}
	var e Effect
	w.m, e = w.m.Commit(false)
	if s.mistake == acknowledgeBeforeCommit {
		w.acked++
	}
	s.run(w, e, trace+fmt.Sprintf(" commit(%d)", w.under))
}

func (s *search) send(w world, e Effect, trace string) {
	m := message{base: e.Base, put: e.Put, batch: -1}
	if e.Want == SendBatch {
		m.batch = w.under
	}
	if e.Want == SendBare && s.mistake == takeUnchangedForNever {
		s.step(w, Done, Seen{}, trace+" no-bar")
		return
	}
	after, ok := w.apply(m, s.mistake)
	if ok {
		s.step(after, Done, Seen{}, trace+fmt.Sprintf(" send(%d)", m.batch))
	} else {
		s.step(w, Refused, Seen{Own: w.own, Exists: true, Head: w.head}, trace+fmt.Sprintf(" refused(%d)", m.batch))
	}
	if w.faults == 0 {
		return
	}
	w.faults--
	after.faults--
	s.step(after, Unknown, Seen{}, trace+fmt.Sprintf(" answer-lost(%d)", m.batch))
	s.step(w, Unknown, Seen{}, trace+fmt.Sprintf(" request-lost(%d)", m.batch))
	w.flying = append(w.flying[:len(w.flying):len(w.flying)], m)
	s.step(w, Unknown, Seen{}, trace+fmt.Sprintf(" flying(%d)", m.batch))
}

func (s *search) step(w world, o Outcome, seen Seen, trace string) {
	var e Effect
	w.m, e = w.m.Step(o, seen)
	s.run(w, e, trace)
}

func start(t *testing.T, plant mistake, faults, depth int) *search {
	won := Head{Term: fence.Term{Epoch: 7, Revision: 3}}
	s := &search{t: t, mistake: plant, ends: make(map[string]int)}
	s.next(world{m: New(won), head: won, own: true, faults: faults, depth: depth}, "")
	return s
}

func TestEveryScheduleCommitsOnce(t *testing.T) {
	s := start(t, right, 4, 22)
	if s.broken != "" {
		t.Fatal(s.broken)
	}
	if s.ends["done"] == 0 || s.ends["over"] == 0 {
		t.Fatalf("the search reached %v", s.ends)
	}
	t.Logf("%d worlds, %v", s.worlds, s.ends)
}

func TestPlantedErrorsAreFound(t *testing.T) {
	for name, plant := range map[string]mistake{
		"skip the sequence check":                   skipSequenceCheck,
		"take an unchanged head for a lost request": takeUnchangedForNever,
		"acknowledge before commit":                 acknowledgeBeforeCommit,
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, plant, 3, 18)
			if s.broken == "" {
				t.Fatalf("not found in %d worlds", s.worlds)
			}
			t.Log(s.broken)
		})
	}
}

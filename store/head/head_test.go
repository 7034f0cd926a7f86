package head

import (
	"errors"
	"testing"

	"cantina/fence"
)

func TestWin(t *testing.T) {
	at := func(epoch, revision int64) fence.Term { return fence.Term{Epoch: epoch, Revision: revision} }
	old := Head{Term: at(100, 40), Seq: 9, Attempt: 12, Began: 7}
	marked := old
	marked.Restored = true
	for name, c := range map[string]struct {
		e    Evidence
		want Head
	}{
		"next term of the same store": {Evidence{Exists: true, Head: old, Elected: 50, Unix: 900},
			Head{Term: at(100, 50), Began: 7}},
		"the mark stays for later terms": {Evidence{Exists: true, Head: marked, Elected: 50, Unix: 900},
			Head{Term: at(100, 50), Restored: true, Began: 7}},
		"new store":                  {Evidence{Elected: 2, Unix: 900}, Head{Term: at(900, 2), Restored: true, Began: 2}},
		"new store of a new cluster": {Evidence{Elected: 2, Unix: 900, NewCluster: true}, Head{Term: at(900, 2), Began: 2}},
		"new store where there was one": {Evidence{Elected: 2, Unix: 900, NewCluster: true, Seen: at(100, 40)},
			Head{Term: at(900, 2), Restored: true, Began: 2}},
		"moved": {Evidence{Exists: true, Head: old, Elected: 50, Unix: 900, Moved: true},
			Head{Term: at(900, 50), Restored: true, Began: 50}},
		"moved, clock behind": {Evidence{Exists: true, Head: old, Elected: 50, Unix: 7, Moved: true},
			Head{Term: at(101, 50), Restored: true, Began: 50}},
		"revision not greater than the term": {Evidence{Exists: true, Head: old, Elected: 40, Unix: 900},
			Head{Term: at(900, 40), Restored: true, Began: 40}},
		"head older than one seen": {Evidence{Exists: true, Head: old, Elected: 50, Unix: 900, Seen: at(100, 45)},
			Head{Term: at(900, 50), Restored: true, Began: 50}},
		"seen in a later epoch, clock behind": {Evidence{Exists: true, Head: old, Elected: 50, Unix: 7, Seen: at(105, 1)},
			Head{Term: at(106, 50), Restored: true, Began: 50}},
		"marked by a restore": {Evidence{Exists: true, Head: Restore(old, 900), Elected: 3, Unix: 901},
			Head{Term: at(900, 3), Restored: true, Began: 3}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Win(c.e)
			if err != nil || got != c.want {
				t.Fatalf("got %+v, %v, want %+v", got, err, c.want)
			}
			if !c.e.Head.Term.Less(got.Term) || !c.e.Seen.Less(got.Term) {
				t.Fatalf("%s is not greater than head %s and seen %s", got.Term, c.e.Head.Term, c.e.Seen)
			}
		})
	}
	if _, err := Win(Evidence{Exists: true, Head: old}); !errors.Is(err, ErrDisplaced) {
		t.Fatalf("win without election: %v", err)
	}
}

func TestMachine(t *testing.T) {
	won := Head{Term: fence.Term{Epoch: 7, Revision: 3}, Restored: true, Began: 2}
	type step struct {
		o    Outcome
		seen func(sent, base Head) Seen
		want Want
	}
	see := func(h func(sent, base Head) Head, own bool) func(sent, base Head) Seen {
		return func(sent, base Head) Seen { return Seen{Own: own, Exists: true, Head: h(sent, base)} }
	}
	sent := func(sent, _ Head) Head { return sent }
	base := func(_, base Head) Head { return base }
	higher := func(_, base Head) Head { base.Term.Revision += 5; return base }
	lower := func(_, base Head) Head { base.Term.Revision--; return base }
	none := func(Head, Head) Seen { return Seen{Own: true} }
	for name, c := range map[string]struct {
		steps []step
		err   error
	}{
		"done":                      {steps: []step{{Done, none, Landed}}},
		"refused by its own resend": {steps: []step{{Refused, see(sent, true), Landed}}},
		"landed though the key is gone": {steps: []step{{Unknown, none, ReadHead},
			{Read, see(sent, false), Landed}}},
		"unknown, landed": {steps: []step{{Unknown, none, ReadHead}, {Unknown, none, ReadHead},
			{Read, see(sent, true), Landed}}},
		"unknown, barred, sent again": {steps: []step{{Unknown, none, ReadHead},
			{Read, see(base, true), SendBare}, {Done, none, SendBatch}, {Done, none, Landed}}},
		"too large": {steps: []step{{Void, none, Dropped}}},
		"bare one refused as too large: look again": {steps: []step{{Unknown, none, ReadHead},
			{Read, see(base, true), SendBare}, {Void, none, ReadHead}}},
		"key gone":             {steps: []step{{Refused, see(base, false), Over}}, err: ErrDisplaced},
		"another term":         {steps: []step{{Refused, see(higher, true), Over}}, err: ErrDisplaced},
		"store went back":      {steps: []step{{Refused, see(lower, true), Over}}, err: ErrWentBack},
		"no head":              {steps: []step{{Refused, none, Over}}, err: ErrWentBack},
		"a read is never done": {steps: []step{{Unknown, none, ReadHead}, {Done, none, Over}}, err: ErrDisplaced},
		"no such outcome":      {steps: []step{{Outcome(99), none, Over}}, err: ErrDisplaced},
	} {
		t.Run(name, func(t *testing.T) {
			m, e := New(won).Commit(false)
			batch := e
			for i, s := range c.steps {
				m, e = m.Step(s.o, s.seen(batch.Put, m.Base()))
				if e.Want != s.want {
					t.Fatalf("step %d: effect %d, want %d", i, e.Want, s.want)
				}
				if e.Want == SendBatch {
					batch = e
				}
				if e.Put != (Head{}) && (!e.Put.Restored || e.Put.Began != won.Began) {
					t.Fatalf("step %d took the mark away, or the beginning: %+v", i, e.Put)
				}
			}
			if !errors.Is(m.Err(), c.err) {
				t.Fatalf("error %v, want %v", m.Err(), c.err)
			}
		})
	}
}

func TestMachineRefusesASecondCommit(t *testing.T) {
	m, _ := New(Head{}).Commit(false)
	if m, e := m.Commit(false); e.Want != Over || m.Err() == nil {
		t.Fatalf("effect %d, error %v", e.Want, m.Err())
	}
	if _, e := New(Head{}).Step(Done, Seen{}); e.Want != Nothing {
		t.Fatalf("an answer out of the blue: effect %d", e.Want)
	}
}

func TestOnlyTheBatchTakesTheMarkAway(t *testing.T) {
	won := Head{Restored: true}
	m, e := New(won).Commit(true)
	if e.Want != SendBatch || e.Put.Restored {
		t.Fatalf("the batch keeps the mark: %+v", e)
	}
	m, _ = m.Step(Unknown, Seen{})
	m, e = m.Step(Read, Seen{Own: true, Exists: true, Head: won})
	if e.Want != SendBare || !e.Put.Restored {
		t.Fatalf("a bare one takes the mark away: %+v", e)
	}
	m, e = m.Step(Done, Seen{})
	if e.Want != SendBatch || e.Put.Restored {
		t.Fatalf("sent again, the batch keeps the mark: %+v", e)
	}
	if m, e = m.Step(Done, Seen{}); e.Want != Landed || m.Base().Restored {
		t.Fatalf("landed with the mark: %+v", e)
	}
}

// TestClusterStays: it is made with the first head, and is the same in every later one, also
// after a restore.
func TestClusterStays(t *testing.T) {
	first, err := Win(Evidence{Elected: 2, Unix: 900, Fresh: "a"})
	if err != nil || first.Cluster != "a" {
		t.Fatalf("%+v, %v", first, err)
	}
	m, e := New(first).Commit(false)
	if e.Put.Cluster != "a" {
		t.Fatalf("a commit puts %+v", e.Put)
	}
	if m, e = m.Step(Unknown, Seen{}); e.Want != ReadHead {
		t.Fatalf("%+v", e)
	}
	if _, e = m.Step(Read, Seen{Own: true, Exists: true, Head: first}); e.Want != SendBare || e.Put.Cluster != "a" {
		t.Fatalf("a bare one puts %+v", e)
	}
	later, err := Win(Evidence{Exists: true, Head: Restore(e.Put, 950), Elected: 3, Unix: 990, Fresh: "b"})
	if err != nil || later.Cluster != "a" || !later.Restored || later.Term.Epoch != 950 {
		t.Fatalf("%+v, %v", later, err)
	}
}

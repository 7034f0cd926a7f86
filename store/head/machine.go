package head

import "fmt"

// Want is the effect of a step: the caller's next action.
type Want int

// The effects of Machine.Step.
const (
	// Nothing: no transaction is in progress.
	Nothing Want = iota
	// SendBatch: send the waiting batch in a transaction from Base to Put.
	SendBatch
	// SendBare: send a transaction that only replaces Base by Put.
	SendBare
	// ReadHead: read the head and the own election key in one linearizable read.
	ReadHead
	// Landed: the batch is committed, exactly once; release its waiting callers.
	Landed
	// Dropped: the batch is certain never to land; the machine is idle again.
	Dropped
	// Over: the term has ended; the batch may or may not have landed.
	Over
)

// Effect is the action that a step requests. It is comparable.
type Effect struct {
	Want Want
	// Base is the head that the transaction compares with.
	Base Head
	// Put is the head that it puts.
	Put Head
}

// Outcome is the result of a transaction or a read for its sender.
type Outcome int

// The outcomes of a request.
const (
	// Unknown: no response, or an inconclusive one. The request may have been lost, may have been
	// applied, or may still be applied later.
	Unknown Outcome = iota
	// Done: the comparisons held and the writes are durable.
	Done
	// Refused: a comparison failed and nothing was written; Seen is the result of the reads in the
	// same transaction.
	Refused
	// Read: the response to ReadHead; Seen is its result.
	Read
	// Void: the store is certain not to have applied it, nor ever to (too large).
	Void
)

// Seen is the result of a linearizable read.
type Seen struct {
	// Own is true when the own election key is there, with its create revision.
	Own bool
	// Exists is false when there is no head.
	Exists bool
	Head   Head
}

// Machine commits the batches of one term, one transaction in flight, and resolves those with an
// unknown outcome. The zero Machine is not usable; see New.
//
//	idle ── Commit ──▶ sent ── Done ──▶ idle (Landed), Void ──▶ idle (Dropped)
//	                   │  ▲
//	           Unknown │  └── Done, or Read/Refused showing a bare one: the batch
//	                   ▼                 can never land, so send it again
//	        ┌─▶ asked ── Read: head unchanged ──▶ barred (SendBare)
//	        │     │ Read: head is the batch's ──▶ idle (Landed)
//	        └─────┴───────────── Unknown ◀───────────┘
//
// Refused and Read that show another term, or a head which this term cannot have left there, end
// the term (Over).
type Machine struct {
	base    Head // the newest head known to be in the store
	attempt int64
	batch   Head // the head that the batch's newest transaction puts
	state   state
	err     error
}

type state int

const (
	idle state = iota
	sent
	asked
	barred
	over
)

// New returns the machine of the term whose win wrote h.
func New(h Head) Machine { return Machine{base: h, attempt: h.Attempt} }

// Base returns the newest head that is known to be in the store.
func (m Machine) Base() Head { return m.base }

// Err returns why the term is over: ErrDisplaced or ErrWentBack, or nil.
func (m Machine) Err() error { return m.err }

// Commit begins the commit of one batch. With clear, it also takes away the
// Restored mark. The machine must be idle; else the answer is Over.
func (m Machine) Commit(clear bool) (Machine, Effect) {
	if m.state != idle {
		return m.end(fmt.Errorf("commit while another is under way: %w", ErrDisplaced))
	}
	m.batch.Restored = m.base.Restored && !clear
	return m.send()
}

func (m Machine) send() (Machine, Effect) {
	m.state = sent
	m.batch = m.next(m.batch.Restored)
	m.attempt = m.batch.Attempt
	return m, Effect{Want: SendBatch, Base: m.base, Put: m.batch}
}

func (m Machine) next(restored bool) Head {
	return Head{Term: m.base.Term, Seq: m.base.Seq + 1, Attempt: m.attempt + 1, Restored: restored,
		Cluster: m.base.Cluster, Began: m.base.Began}
}

// Step applies the outcome of the last effect's action. seen counts only for Refused and Read.
func (m Machine) Step(o Outcome, seen Seen) (Machine, Effect) {
	switch m.state {
	case sent, asked, barred:
	case idle, over:
		return m, Effect{Want: Nothing}
	}
	switch o {
	case Unknown:
		m.state = asked
		return m, Effect{Want: ReadHead}
	case Done:
		return m.done()
	case Refused, Read:
		return m.judge(seen)
	case Void:
		if m.state == sent {
			m.state = idle
			return m, Effect{Want: Dropped}
		}
		m.state = asked
		return m, Effect{Want: ReadHead}
	}
	return m.end(fmt.Errorf("outcome %d: %w", o, ErrDisplaced))
}

// done takes the certain success of the transaction that was sent last.
func (m Machine) done() (Machine, Effect) {
	switch m.state {
	case sent:
		return m.landed()
	case barred:
		m.base = m.bar()
		return m.send()
	case idle, asked, over:
	}
	return m.end(fmt.Errorf("a read is never done: %w", ErrDisplaced))
}

// bar is the head that the present bare transaction puts.
func (m Machine) bar() Head {
	return Head{Term: m.base.Term, Seq: m.base.Seq + 1, Attempt: m.attempt, Restored: m.base.Restored,
		Cluster: m.base.Cluster, Began: m.base.Began}
}

// judge decides by a certain view of the head and the election key.
func (m Machine) judge(s Seen) (Machine, Effect) {
	h := s.Head
	switch {
	case s.Exists && h == m.batch:
		return m.landed()
	case !s.Own:
		return m.end(fmt.Errorf("election key of term %s is gone: %w", m.base.Term, ErrDisplaced))
	case s.Exists && h == m.base:
		m.state = barred
		put := m.next(m.base.Restored)
		m.attempt = put.Attempt
		return m, Effect{Want: SendBare, Base: m.base, Put: put}
	case s.Exists && h.Term == m.base.Term && h.Seq == m.base.Seq+1 && h.Attempt > m.batch.Attempt &&
		h.Attempt <= m.attempt:
		m.base = h // an earlier bare one has landed, so the batch never can
		return m.send()
	case s.Exists && m.base.Term.Less(h.Term):
		return m.end(fmt.Errorf("term %s by term %s: %w", m.base.Term, h.Term, ErrDisplaced))
	}
	return m.end(fmt.Errorf("term %s seq %d found %s seq %d: %w", m.base.Term, m.base.Seq, h.Term, h.Seq, ErrWentBack))
}

func (m Machine) landed() (Machine, Effect) {
	m.state = idle
	m.base = m.batch
	return m, Effect{Want: Landed, Put: m.base}
}

func (m Machine) end(err error) (Machine, Effect) {
	m.state, m.err = over, err
	return m, Effect{Want: Over}
}

package worker

import (
	"errors"
	"fmt"
	"time"

	"cantina/fault"
	"cantina/fence"
	"cantina/workerset"
)

// Errors of the leader's end. On an error nothing has changed.
var (
	// ErrDeposed: the term is over; no event is accepted.
	ErrDeposed = fault.New(fault.ErrTermOver, "term is over")
	// ErrMalformed: a message that no correct peer sends.
	ErrMalformed = errors.New("malformed message")
	// ErrUnknownProcess: no such cell process is known.
	ErrUnknownProcess = fault.New(fault.ErrNotFound, "unknown cell process")
	// ErrAlone: the cluster has one cell, in one process with its leader, and this leader is another.
	ErrAlone = errors.New("this cluster was made by cantina dev, whose one cell no other leader knows: " +
		"go on with cantina dev on its data directory, or make a cluster of its own of it (cantina store backup, " +
		"then cantina store restore --new-identity)")
	// ErrHeld: the work may not start now; the Hold has the reason.
	ErrHeld = errors.New("work is held")
)

// Witness is the evidence that ends the initial wait.
type Witness int

// The witnesses.
const (
	// WitnessList: the stored member list enables, the cells' hash of it vetoes.
	WitnessList Witness = iota
	// WitnessConsensus: the cells' worker-set hashes alone (Bistro).
	WitnessConsensus
)

// JobRow is the name row of a job, or its tombstone, as loaded at the start of the term.
type JobRow struct{ Name, UID string }

// Config is the initial state of a leader when its term begins: the linearizable load after
// winning, and the flags.
type Config struct {
	// Cluster is the identity of the store. Terms are compared with those of its cells only.
	Cluster  fence.Cluster
	Term     fence.Term
	Now      time.Duration // t0: CLOCK_BOOTTIME after the load
	Unix     int64         // the wall clock at Now, in seconds; 0 = no epoch is too far ahead
	Timeouts Timeouts
	Witness  Witness
	Members  []Member
	List     workerset.ID // row listver; zero in a new store
	Restored bool         // head.restored
	NewStore bool         // the store was created just now
	// NewCluster is --new-cluster: no cell has ever run for an earlier store.
	NewCluster bool
	// Jobs are the names that had a row or tombstone; HeldNodes the nodes of levels
	// with resources that their batch tasks may draw on.
	Jobs      []JobRow
	HeldNodes []string
	// InitialWait > 0 is --CAUTION-initial-wait: the wait ends after it, with any processes missing.
	InitialWait time.Duration
	// AllowBump lets a newcomer displace a process that is not HEALTHY (--allow-bump-unhealthy-worker).
	AllowBump bool
	// NoDeadline: leader and cell are one process (cantina dev): promises are 0. Own is the directory
	// of that cell; no other is taken in. Without NoDeadline it counts for nothing.
	NoDeadline bool
	Own        string
	// Known reports whether a row names the container of a service or task (by instance or uid) as
	// running; nil = none does. It is called while the wait of a lone cluster lasts.
	Known func(id string) bool
	// Alone is row alone: only such leaders have led this cluster (see alone.go).
	Alone bool
	// TurnoverLimit is how many newcomers may pass without consensus before further
	// ones queue; 0 = never queue.
	TurnoverLimit int
	Statuses      Statuses
}

// Leader is the leader's end of all sessions of one term: the flow of its events over the parts of
// its state. One caller owns it.
type Leader struct {
	*roster // and with it the term
	*members
	*sessions
	*batch
	*waiting

	adopting map[CellName]string // cells of another cluster that may join, and the user who decided it
}

// NewLeader begins a term. It returns ErrTimeouts for impossible timeouts.
func NewLeader(c Config) (*Leader, error) {
	if err := c.Timeouts.Validate(); err != nil {
		return nil, err
	}
	if c.Alone && !c.NoDeadline {
		return nil, ErrAlone
	}
	l := assemble(c)
	if c.Witness == WitnessConsensus {
		l.sessions.set = workerset.NewTracker(c.Term, c.TurnoverLimit)
	}
	sum := workerset.Hash{}
	for _, m := range c.Members {
		sum = sum.Add(string(m.Proc))
	}
	if sum != l.members.list.Hash {
		l.waiting.stale, l.members.list.Hash = true, sum
		l.audit(AuditStale, nil, Run{}, "the member rows do not add up to the hash of the list")
	}
	l.members.stored = l.members.list
	for _, m := range sortedMembers(c.Members) {
		l.restore(m)
	}
	if c.InitialWait > 0 {
		l.audit(AuditWaitForced, nil, Run{}, fmt.Sprintf("initial wait set to %v by a flag; below %v work may run twice",
			c.InitialWait, l.t.LongestWait()))
	}
	l.waiting.begin()
	return l, nil
}

// assemble makes the parts of a leader as they are before it has looked at the member rows.
func assemble(c Config) *Leader {
	r := newRoster(&term{cfg: c, t: c.Timeouts, lastTick: c.Now})
	m := &members{roster: r, list: c.List}
	m.list.Leader = fence.Term{Epoch: c.Term.Epoch}
	s := &sessions{roster: r}
	b := &batch{roster: r, members: m, sessions: s, model: newModel()}
	w := &waiting{roster: r, members: m, sessions: s, batch: b, t0: c.Now, wait: true, stale: c.Restored || c.NewStore &&
		!c.NewCluster,
		restored: c.Restored, jobs: map[string]bool{}, nodes: map[string]bool{}}
	for _, j := range c.Jobs {
		w.jobs[j.Name] = true
	}
	for _, n := range c.HeldNodes {
		w.nodes[n] = true
	}
	return &Leader{roster: r, members: m, sessions: s, batch: b, waiting: w, adopting: map[CellName]string{}}
}

// Start returns the Output of the beginning of the term, if any.
func (l *Leader) Start() Output { return l.flush() }

// restore takes over a member row of an earlier term. It holds its cell's name until it is lost;
// the timeout counts from the beginning of the term by the promise in its row.
func (l *Leader) restore(m Member) {
	written := m.Promise
	if l.waiting.stale {
		m.Promise = l.untrusted(m.Promise)
	}
	p := l.newProcess(m, l.cfg.Now)
	p.member, p.durable, p.promised, p.since = true, true, written, l.cfg.Now
	p.displaced, p.unsaid = m.Displaced, m.Promise != written
	p.health.BecameUnhealthy = l.cfg.Now + max(l.t.Lost, l.t.Stretch(m.Promise)) - l.t.Lost
	l.silent[m.Proc] = p
	if cur := l.holders[m.Cell]; !m.Displaced && (cur == nil || cur.row.Started < m.Started) {
		if cur != nil {
			cur.displaced = true
		}
		l.holders[m.Cell] = p
	}
}

// Step takes one event at the time now. On an error (ErrDeposed, ErrMalformed,
// ErrUnknownProcess) nothing has changed and the Output is empty.
func (l *Leader) Step(now time.Duration, e Event) (Output, error) {
	if l.deposed {
		return Output{}, ErrDeposed
	}
	l.slept(now)
	if err := l.step(now, e); err != nil {
		return Output{}, err
	}
	return l.flush(), nil
}

func (l *Leader) step(now time.Duration, e Event) error {
	switch e := e.(type) {
	case Tick:
		l.tick(now, e)
	case BeatReceived:
		return l.beat(now, e.Beat, e.LeaseHeld)
	case ReportReceived:
		l.report(now, e.Report)
	case StatusReceived:
		l.batch.status(now, e.Update)
	case RunAnswered:
		l.batch.runAnswered(now, e.Answer)
	case NotifyAnswered:
		l.batch.notifyAnswered(now, e.Answer)
	case TermHeard:
		l.heard(now, e.Cell, e.Proc, e.Term)
	case AdoptWanted:
		l.adopt(e)
	case Committed:
		l.members.durable(e.Seq)
	case StatusCommitted:
		l.batch.statusCommitted(e.Run, e.Kind)
	case KillWanted:
		l.batch.kill(e.Run)
	case EndWait:
		l.waiting.forceWait(e.By)
	case Forget:
		return l.forgetByWord(now, e.Proc, e.By)
	default:
		return fmt.Errorf("leader event %T: %w", e, ErrMalformed)
	}
	return nil
}

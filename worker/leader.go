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
	ErrAlone = errors.New("this cluster was made by cantina dev, whose one cell no other leader knows: go on with cantina dev on its data directory, " +
		"or make a cluster of its own of it (cantina store backup, then cantina store restore --new-identity)")
	// ErrHeld: the work may not start now; the Hold says why.
	ErrHeld = errors.New("work is held")
)

// Witness is what ends the initial wait.
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

// Config is what a leader knows when its term begins: the linearizable load
// after winning, and the flags.
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
	// InitialWait > 0 is --CAUTION-initial-wait: the wait ends after it, whoever is missing.
	InitialWait time.Duration
	// AllowBump lets a newcomer displace a process that is not HEALTHY (--allow-bump-unhealthy-worker).
	AllowBump bool
	// NoDeadline: leader and cell are one process (cantina dev): promises are 0. Own is the folder
	// of that cell; no other is taken in.
	NoDeadline bool
	Own        string
	// Known says whether a row names the container of a service or task (by instance or uid) as
	// running; nil = none does. It is asked while the wait of a cluster that is alone lasts.
	Known func(id string) bool
	// Alone is row alone: only such leaders have led this cluster (see alone.go).
	Alone bool
	// TurnoverLimit is how many newcomers may pass without consensus before further
	// ones queue; 0 = never queue.
	TurnoverLimit int
	Statuses      Statuses
}

// Leader is the leader's end of all sessions of one term. One caller owns it.
type Leader struct {
	cfg Config
	t   Timeouts

	seq       int64 // of the newest Output
	committed int64 // of the newest durable Output
	rows      []Row
	effects   []Effect
	writes    []write    // member rows on their way
	mourned   []*process // whose death is being told

	procs    map[Proc]*process
	order    []*process // in order of arrival
	holders  map[CellName]*process
	folders  map[string][]*process
	gone     map[Proc]Verdict // declared dead or displaced in this term, and what it is told
	goneList []Proc

	list workerset.ID
	set  *workerset.Tracker // consensus witness only

	adopting map[CellName]string // cells of another cluster that may join, and by whose word
	refused  int                 // messages with a term that cannot be

	counter int64
	model   model
	adopted int // what reports have brought into the model

	t0       time.Duration // when the wait began
	wait     bool
	blind    bool          // the rows are not trusted
	alone    bool          // see alone.go
	lapse    time.Duration // until when, if the cells' sets have ended the wait
	restored bool
	silent   map[Proc]*process
	jobs     map[string]bool
	nodes    map[string]bool
	deposed  bool

	lastTick time.Duration
	stalled  time.Duration // time without proof of leadership, not counted by policy
}

type write struct {
	seq     int64
	proc    *process
	promise time.Duration
}

// process is all a leader knows of one cell process.
type process struct {
	row    Member
	member bool // has a row, in the newest state
	// durable: the row is in the store; promised is the promise the store has.
	durable   bool
	promised  time.Duration
	unsaid    bool          // row.Promise is longer than what the store says
	health    Health        // times on the policy clock
	blocked   bool          // unhealthy for lack of consensus alone
	born      time.Duration // on the policy clock: when this leader came to know of it
	unheard   bool          // it was told that it is silent, and not HEALTHY yet
	connected bool          // has beaten in this term
	reported  bool
	alive     []string // containers of services and tasks that it reported
	remains   bool     // its newest heartbeat said that not all of its predecessors is gone
	displaced bool
	dead      bool // proven; its statuses are being committed
	// obituary is the Output that tells of the death. What follows from it is submitted
	// when that is durable; only after that the row goes.
	obituary int64
	period   time.Duration
	beat     int64         // newest heartbeat
	since    time.Duration // when its row was first written, or the term began
	credited bool
	credit   time.Duration // receipt of the newest credited beat
	seq      int64         // notify sequence number
	unsure   unsureList
	open     []int64 // counters of RunTasks whose fate is open, ascending
	probe    probes
	kills    bool // some of its work is to be killed
	work     map[fence.Invocation]*entry
}

func (p *process) holds(l *Leader) bool { return l.holders[p.row.Cell] == p }

// NewLeader begins a term. It returns ErrTimeouts for impossible time-outs.
func NewLeader(c Config) (*Leader, error) {
	if err := c.Timeouts.Validate(); err != nil {
		return nil, err
	}
	if c.Alone && !c.NoDeadline {
		return nil, ErrAlone
	}
	l := &Leader{
		cfg: c, t: c.Timeouts,
		procs: map[Proc]*process{}, holders: map[CellName]*process{}, folders: map[string][]*process{},
		gone: map[Proc]Verdict{}, list: c.List, model: newModel(), t0: c.Now, wait: true,
		blind: c.Restored || c.NewStore && !c.NewCluster, restored: c.Restored,
		silent: map[Proc]*process{}, jobs: map[string]bool{}, nodes: map[string]bool{}, lastTick: c.Now,
		adopting: map[CellName]string{},
	}
	l.list.Leader = fence.Term{Epoch: c.Term.Epoch}
	for _, j := range c.Jobs {
		l.jobs[j.Name] = true
	}
	for _, n := range c.HeldNodes {
		l.nodes[n] = true
	}
	if c.Witness == WitnessConsensus {
		l.set = workerset.NewTracker(c.Term, c.TurnoverLimit)
	}
	sum := workerset.Hash{}
	for _, m := range c.Members {
		sum = sum.Add(string(m.Proc))
	}
	if sum != l.list.Hash {
		l.blind, l.list.Hash = true, sum
		l.audit(AuditBlind, nil, Run{}, "the member rows do not add up to the hash of the list")
	}
	for _, m := range sortedMembers(c.Members) {
		l.restore(m)
	}
	if c.InitialWait > 0 {
		l.audit(AuditWaitForced, nil, Run{}, fmt.Sprintf("initial wait set to %v by a flag; below %v work may run twice", c.InitialWait, l.t.LongestWait()))
	}
	l.begin()
	return l, nil
}

// Start returns the Output of the beginning of the term, if any.
func (l *Leader) Start() Output { return l.flush() }

// restore takes a member row over from an earlier term. It holds its cell's name
// until it is lost; the time-out counts from the beginning of the term by the promise in its row.
func (l *Leader) restore(m Member) {
	written := m.Promise
	if l.blind {
		m.Promise = l.untrusted(m.Promise)
	}
	p := l.newProcess(m, l.cfg.Now)
	p.member, p.durable, p.promised, p.since = true, true, written, l.cfg.Now
	p.displaced, p.unsaid = m.Displaced, m.Promise != written
	p.health.BecameUnhealthy = l.cfg.Now + max(0, l.t.Stretch(m.Promise)-l.t.Lost)
	l.silent[m.Proc] = p
	if cur := l.holders[m.Cell]; !m.Displaced && (cur == nil || cur.row.Started < m.Started) {
		if cur != nil {
			cur.displaced = true
		}
		l.holders[m.Cell] = p
	}
}

// untrusted is the promise that a row of a store that went back may stand for:
// it may have been raised after the copy was made.
func (l *Leader) untrusted(promise time.Duration) time.Duration {
	if promise == 0 {
		return 0
	}
	return max(promise, l.t.MaxDiesWithin)
}

func (l *Leader) newProcess(m Member, now time.Duration) *process {
	p := &process{row: m, health: NewHealth(l.policy(now)), born: l.policy(now), work: map[fence.Invocation]*entry{}, period: l.t.Heartbeat}
	l.procs[m.Proc] = p
	l.order = append(l.order, p)
	l.folders[m.Folder] = append(l.folders[m.Folder], p)
	return p
}

// forget drops a process of which nothing is left to know.
func (l *Leader) forget(p *process) {
	delete(l.procs, p.row.Proc)
	delete(l.silent, p.row.Proc)
	peers := l.folders[p.row.Folder]
	for i, q := range peers {
		if q == p {
			peers = append(peers[:i:i], peers[i+1:]...)
			break
		}
	}
	if len(peers) == 0 {
		delete(l.folders, p.row.Folder)
	} else {
		l.folders[p.row.Folder] = peers
	}
	l.gone[p.row.Proc] = Die
	if p.displaced {
		l.gone[p.row.Proc] = DieAll
	}
	l.goneList = append(l.goneList, p.row.Proc)
	if len(l.goneList) > goneBound {
		delete(l.gone, l.goneList[0])
		l.goneList = l.goneList[1:]
	}
}

// goneBound is how many dead process ids a leader remembers.
const goneBound = 16384

// policy is the clock of policy timers: it stands still while the leader has no
// proof of leadership or was itself stalled.
func (l *Leader) policy(now time.Duration) time.Duration { return now - l.stalled }

// Term returns the leader's term.
func (l *Leader) Term() fence.Term { return l.cfg.Term }

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
		l.tick(now, e.LeaseHeld)
	case BeatReceived:
		return l.beat(now, e.Beat, e.LeaseHeld)
	case ReportReceived:
		l.report(now, e.Report)
	case StatusReceived:
		l.status(now, e.Update)
	case RunAnswered:
		l.runAnswered(now, e.Answer)
	case NotifyAnswered:
		l.notifyAnswered(now, e.Answer)
	case TermHeard:
		l.heard(now, e.Cell, e.Proc, e.Term)
	case AdoptWanted:
		l.adopt(e)
	case Committed:
		l.durable(e.Seq)
	case StatusCommitted:
		l.statusCommitted(e.Run, e.Kind)
	case KillWanted:
		l.kill(e.Run)
	case EndWait:
		l.forceWait(e.By)
	case Forget:
		return l.forgetByWord(now, e.Proc, e.By)
	default:
		return fmt.Errorf("leader event %T: %w", e, ErrMalformed)
	}
	return nil
}

func (l *Leader) flush() Output {
	if len(l.rows) == 0 && len(l.effects) == 0 {
		return Output{}
	}
	l.seq++
	out := Output{Seq: l.seq, Rows: l.rows, Effects: l.effects}
	l.rows, l.effects = nil, nil
	return out
}

func (l *Leader) do(e ...Effect) { l.effects = append(l.effects, e...) }

func (l *Leader) audit(k AuditKind, p *process, r Run, text string) {
	a := Audit{Kind: k, Run: r, Text: text}
	if p != nil {
		a.Cell, a.Proc = p.row.Cell, p.row.Proc
	}
	l.do(a)
}

// heard ends the term when a higher one exists, as a cell of this cluster says. It reports
// that the message must not be looked at any more: it is of a higher term, or of one that
// cannot be.
func (l *Leader) heard(now time.Duration, cell CellName, proc Proc, t fence.Term) bool {
	if l.impossible(now, cell, proc, t) {
		return true
	}
	if !l.cfg.Term.Less(t) {
		return false
	}
	l.deposed = true
	l.do(EndTerm{Higher: t})
	return true
}

// putMember writes the newest row of p.
func (l *Leader) putMember(p *process) {
	p.member, p.unsaid = true, false
	l.rows = append(l.rows, PutMember{p.row})
	l.writes = append(l.writes, write{l.seq + 1, p, p.row.Promise})
}

// putList moves the member list to its next version.
func (l *Leader) putList(h workerset.Hash) {
	l.list.Version++
	l.list.Hash = h
	l.rows = append(l.rows, PutList{l.list})
}

// durable takes note of committed rows.
func (l *Leader) durable(seq int64) {
	l.committed = max(l.committed, seq)
	for len(l.writes) > 0 && l.writes[0].seq <= l.committed {
		w := l.writes[0]
		l.writes[0] = write{} // what it holds goes with it
		l.writes = l.writes[1:]
		w.proc.promised = w.promise
		if w.proc.durable {
			continue
		}
		w.proc.durable = true
		if w.proc.reported { // else the report will say so
			l.do(Eligible{w.proc.row.Cell, w.proc.row.Proc}, StartsChanged{})
		}
	}
	for len(l.mourned) > 0 && l.mourned[0].obituary <= l.committed {
		p := l.mourned[0]
		l.mourned[0] = nil
		l.mourned = l.mourned[1:]
		l.bury(p)
	}
}

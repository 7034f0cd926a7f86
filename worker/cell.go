package worker

import (
	"errors"
	"fmt"
	"time"

	"cantina/fence"
	"cantina/workerset"
)

// Errors of the cell's end.
var (
	// ErrNotAccepting: the cell takes no work now; the text has the reason.
	ErrNotAccepting = errors.New("cell takes no work")
	// ErrNotHeld: the cell does not hold the invocation.
	ErrNotHeld = errors.New("invocation is not held")
)

// CellConfig is the initial state of a cell process: its identity, and the directory's data of the
// process before it.
type CellConfig struct {
	Cell    CellName
	Proc    Proc  // fresh random id
	Started int64 // next number of the directory, durable before use
	DirID   string
	Boot    string
	Now     time.Duration
	Unix    int64 // the wall clock at Now, in seconds; 0 = no epoch is too far ahead
	// Cluster is the one the directory belongs to; empty before its first join.
	Cluster fence.Cluster
	// Timeouts until a leader sends its own.
	Timeouts Timeouts
	// SetID and Epoch are those of the directory.
	SetID workerset.ID
	Epoch int64
	// Predecessor is the process before this one on the directory. Adopted are the batch invocations
	// taken over from earlier processes, Deadline and Promise those of their reaper on the same boot;
	// Gone: every other container of earlier processes is gone.
	Predecessor Proc
	Adopted     []Held
	Statuses    map[Run]string // of the adopted ones that have ended
	Deadline    time.Duration
	Promise     time.Duration
	Gone        bool
}

// Cell is the cell's end of its session. One caller owns it.
type Cell struct {
	cfg CellConfig
	t   Timeouts

	proc        Proc
	started     int64
	predecessor Proc
	gone        bool // every container of earlier processes is gone or adopted

	cluster  fence.Cluster
	moving   fence.Cluster // the one that the next session joins; empty = the same
	term     fence.Term
	health   Health
	seq      int64
	resolved int64
	seen     map[int64]bool // counters of this term above resolved
	eligible bool
	credited bool // in this session
	reported bool // the leader of this term has been answered with a report
	epoch    int64
	setID    workerset.ID
	deadline time.Duration // 0 = none
	promise  time.Duration
	spent    bool // the deadline has been acted on

	work   cellWork
	beats  cellBeats
	outbox outbox

	leaving  bool          // a leave was requested
	said     bool          // the deregistration has been sent once
	back     int64         // the heartbeat that announced the next process; 0 = none
	backBy   time.Duration // no answer to it is waited for longer
	renewing bool          // MUST_DIE: ending, then a new session
	renewBy  time.Duration
	asked    bool // NewSession is out
	ended    bool // DIE-ALL or deregistration: nothing more happens

	effects []CellEffect
}

// The cell's own pauses.
const (
	statusRetry = 3 * time.Second        // an unanswered status is sent again
	refusedWait = time.Second            // after a refusal or failure
	returnWait  = time.Second            // for the response to the last heartbeat of a process that leaves work behind
	firstHurry  = 100 * time.Millisecond // between heartbeats until the session is established
	sentBound   = 256                    // heartbeats whose sending time is kept
)

// NewCell begins the first session of a process.
func NewCell(c CellConfig) *Cell {
	k := &Cell{cfg: c, t: c.Timeouts, proc: c.Proc, started: c.Started, cluster: c.Cluster, predecessor: c.Predecessor,
		gone: c.Gone, health: NewHealth(c.Now), seen: map[int64]bool{}, epoch: c.Epoch, setID: c.SetID,
		deadline: c.Deadline, promise: c.Promise, work: newCellWork(), beats: cellBeats{next: c.Now, hurry: firstHurry}}
	for _, h := range c.Adopted {
		k.work.hold(&held{run: h.Run, ended: h.Ended, status: c.Statuses[h.Run], adopted: true, sent: never})
	}
	return k
}

// Step handles one event at the time now and returns the effects, in order. Before the event,
// every passed deadline is handled; but ends, which have occurred, come before that.
func (c *Cell) Step(now time.Duration, e CellEvent) []CellEffect {
	if c.ended {
		return nil
	}
	switch e := e.(type) {
	case WorkEnded:
		c.work.end(e.Run, e.Status)
	case EndsCollected:
		for _, one := range e.Ends {
			c.work.end(one.Run, one.Status)
		}
	}
	c.check(now)
	switch e := e.(type) {
	case BeatAnswered:
		c.beatAnswered(now, e.Answer)
	case BeatFailed:
		c.beatFailed(now, e.Beat)
	case LinkBroken, StateChanged:
		c.beats.by(now)
	case ReportAsked:
		c.report(now, e.Call)
	case RunAsked:
		c.run(now, e.Call)
	case NotifyAsked:
		c.notify(now, e.Call)
	case KillAsked:
		c.kill(now, e.Call)
	case SuicideAsked:
		c.suicide(now, e.Call)
	case StatusAnswered:
		c.statusAnswered(now, e.Answer)
	case StatusFailed:
		c.outbox.failed(&c.work)
	case ProbeEnded:
		c.outbox.probeEnded(e)
	case BoundCount:
		c.work.bound, c.work.lasting, c.work.kept = e.Containers, e.Lasting, e.Kept
	case PredecessorsCleared:
		c.gone = true
		c.beats.by(now)
	case SessionBegun:
		c.begin(now, e.Proc, e.Started)
	case CallHeard:
		c.hear(now, e.Term)
	case Addressed:
		c.addressed(e)
	case LeaveAsked:
		c.leaving = true
		c.beats.by(now) // its state shows that, and no work is placed on it
	}
	c.send(now)
	out := c.effects
	c.effects = nil
	return out
}

func (c *Cell) do(e ...CellEffect) { c.effects = append(c.effects, e...) }

// gaps are the limits of the session at the cell, which gives up first. A cell whose leader is the
// same process (credit without a deadline) never gives up: both have slept for as long, and the
// leader's clock excludes that time.
func (c *Cell) gaps() Gaps {
	g := Gaps{Probe: c.t.HealthcheckGap(), Beat: c.t.HeartbeatGap(), Lost: c.t.Lost - c.t.Check}
	if c.credited && c.promise == 0 {
		g.Lost = 0
	}
	return g
}

// Overdue reports whether the next step would end the session, and with it deadline-bound work,
// because time has passed. The shell has the ends that happened meanwhile stepped first.
func (c *Cell) Overdue(now time.Duration) bool {
	if c.ended || c.renewing {
		return false
	}
	if c.deadline != 0 && !c.spent && now >= c.deadline {
		return true
	}
	next, _ := c.health.Next(now, c.gaps(), c.health.HasBeenHealthy)
	return !c.term.IsZero() && next == MustDie
}

// Due returns when a CellTick has an effect next, unless another event comes before: at the time it
// returns, or at once if that has passed. It is the longest duration if none is due ever.
func (c *Cell) Due(now time.Duration) time.Duration {
	if c.ended {
		return forever
	}
	due := forever
	if !c.term.IsZero() && (c.health.State != New || c.reported) {
		due = c.outbox.next(&c.work)
	}
	if c.succeeded() { // then the step before has announced the next process
		due = min(due, c.backBy)
	}
	if c.renewing {
		switch {
		case c.asked:
		case c.work.live() == 0:
			due = now
		default:
			due = min(due, c.renewBy)
		}
		return due
	}
	due = min(due, c.beats.next)
	if c.deadline != 0 && !c.spent {
		due = min(due, c.deadline)
	}
	if !c.term.IsZero() {
		due = min(due, c.health.due(now, c.gaps()))
	}
	return due
}

// check acts on every deadline that has passed.
func (c *Cell) check(now time.Duration) {
	if c.renewing {
		c.renew(now)
		return
	}
	if c.deadline != 0 && !c.spent && now >= c.deadline {
		c.mustDie(now, "credit ran out")
		return
	}
	if c.term.IsZero() {
		return // never lost before the first contact
	}
	from := c.health
	c.health.Advance(now, c.gaps(), false)
	switch {
	case c.health.State == MustDie:
		c.health = from
		c.mustDie(now, "lost the leader for too long")
	case c.health.State != from.State:
		c.do(CellChanged{from.State, c.health.State, ofTime(c.health.State)})
	}
}

// ofTime is why the session has a state without a new answer of the leader.
func ofTime(s State) string {
	if s == Healthy {
		return "the leader has answered for long enough"
	}
	return "no answer from the leader in time"
}

// mustDie ends the session: deadline-bound work ends now, then a new session begins.
func (c *Cell) mustDie(now time.Duration, why string) {
	if c.renewing || c.ended {
		return
	}
	from := c.health.State
	c.health.State = MustDie
	c.renewing, c.asked, c.spent = true, false, true
	c.renewBy = now + 2*c.t.KillWait
	c.do(CellChanged{from, MustDie, why})
	if c.work.live() > 0 {
		c.do(EndBound{c.t.KillWait, why})
	}
	c.renew(now)
}

// renew requests a new identity once the old session's work has ended, or is stuck: then the new
// session adopts it.
func (c *Cell) renew(now time.Duration) {
	if c.asked || c.work.live() > 0 && now < c.renewBy {
		return
	}
	c.asked = true
	c.do(NewSession{})
}

// begin starts the next session of this process. Remaining work of the old one is adopted.
func (c *Cell) begin(now time.Duration, proc Proc, started int64) {
	if !c.renewing {
		return
	}
	c.predecessor, c.proc, c.started = c.proc, proc, started
	if c.moving != "" {
		c.move()
	}
	c.renewing = false
	c.health = NewHealth(now)
	c.beats, c.outbox = cellBeats{}, outbox{}
	c.back = 0 // the leader has heard of no next process in this session
	c.reset(now)
	c.work.adopt()
	c.do(CellChanged{MustDie, New, "new session"})
}

// reset clears the state of one association with a leader.
func (c *Cell) reset(now time.Duration) {
	c.seq, c.resolved, c.seen = 0, 0, map[int64]bool{}
	c.reported, c.credited = false, false
	c.beats.next, c.beats.hurry = now, firstHurry
}

// hear compares a term with the newest one seen: 0 equal, -1 lower (refuse), +1 higher. A higher
// one is adopted before all else: the sequence restarts and the session is NEW.
func (c *Cell) hear(now time.Duration, t fence.Term) int {
	d := t.Compare(c.term)
	if d <= 0 {
		return d
	}
	if c.unbelievable(now, t) {
		return -1
	}
	from := c.health.State
	c.term = t
	if c.renewing {
		return d
	}
	c.health = NewHealth(now)
	c.reset(now)
	c.outbox.notes = nil
	c.work.resend()
	c.do(CellChanged{from, New, "new leader, term " + t.String()})
	return d
}

// Accepts returns nil when the cell may take deadline-bound work of the leader of
// its term now, or ErrNotAccepting with the reason.
func (c *Cell) Accepts(now time.Duration) error {
	why := ""
	switch {
	case c.ended || c.renewing || c.leaving:
		why = "it is ending"
	case c.health.State != Healthy:
		why = "its session is " + c.health.State.String()
	case !c.eligible:
		why = "its member row is not known to be durable"
	case !c.credited:
		why = "it has no credit"
	case c.deadline != 0 && now >= c.deadline:
		why = "its credit ran out"
	default:
		return nil
	}
	return fmt.Errorf("%w: %s", ErrNotAccepting, why)
}

// Term, Proc and State return the cell's state.
func (c *Cell) Term() fence.Term { return c.term }

// Proc returns the id of the present session.
func (c *Cell) Proc() Proc { return c.proc }

// State returns the state of the present session.
func (c *Cell) State() State { return c.health.State }

// Ended reports whether the cell does nothing more: after DIE-ALL, or an acknowledged
// deregistration.
func (c *Cell) Ended() bool { return c.ended }

// Kept is the data in the directory for the next process, to be written when it changes.
type Kept struct {
	Proc     Proc
	Cluster  fence.Cluster
	SetID    workerset.ID
	Epoch    int64
	Deadline time.Duration
	Promise  time.Duration
}

// Kept returns the data that the next process of the directory will need.
func (c *Cell) Kept() Kept { return Kept{c.proc, c.cluster, c.setID, c.epoch, c.deadline, c.promise} }

// Held returns the invocations that the process holds, sorted.
func (c *Cell) Held() []Held { return c.work.list() }

package worker

import (
	"time"

	"cantina/workerset"
)

// send sends heartbeats and statuses when they are due.
func (c *Cell) send(now time.Duration) {
	if c.ended {
		return
	}
	if c.empty() && c.unknown() || c.succeeded() && c.announced(now) {
		c.ended = true
		c.do(Exit{})
		return
	}
	if c.empty() && !c.said {
		c.said, c.beats.next = true, now
	}
	if !c.renewing && now >= c.beats.next {
		c.beat(now)
	}
	if c.term.IsZero() || c.health.State == New && !c.reported {
		return
	}
	notes, probes := c.outbox.due(now, &c.work)
	for _, items := range [][]StatusItem{notes, probes} {
		if len(items) > 0 {
			c.do(SendStatus{UpdateStatus{c.cluster, c.term, c.cfg.Cell, c.proc, items}})
		}
	}
}

func (c *Cell) beat(now time.Duration) {
	c.beats.count(now, c.t.Heartbeat, c.health.State == Healthy)
	c.do(SendBeat{Heartbeat{Protocol: Protocol, Cluster: c.cluster, Term: c.term, Cell: c.cfg.Cell, Proc: c.proc,
		DirID:   c.cfg.DirID,
		Started: c.started, Boot: c.cfg.Boot, Beat: c.beats.number, Epoch: c.epoch, SetID: c.setID,
		HasWork: c.work.live() > 0,
		Promise: c.promise, Period: c.t.Heartbeat, Predecessor: c.predecessor, PredecessorsGone: c.gone,
		Deregister: c.empty(), Returns: c.succeeded()}})
}

// unknown reports that no leader can have put a process of this directory on a list: none
// ever answered. One that has the process all the same, for its answer was lost, gave
// it no credit and no work; for it the process is lost by time.
func (c *Cell) unknown() bool {
	return c.term.IsZero() && c.setID == (workerset.ID{}) && c.epoch == 0
}

// empty reports whether the process has reported that it takes no work, and leaves none behind.
func (c *Cell) empty() bool { return c.leaving && c.work.none() }

// succeeded reports whether the process has reported that it takes no work, and holds only work
// that its successor takes over. The leader treats it as if it were killed now: it is no
// deregistration.
func (c *Cell) succeeded() bool { return c.leaving && c.work.allOutlives() }

// announced announces to the leader that the next process of the directory will return, and
// reports whether that has been answered, or no response can be expected.
func (c *Cell) announced(now time.Duration) bool {
	switch {
	case c.term.IsZero(), c.renewing:
		return true
	case c.back == 0:
		c.beat(now)
		c.back, c.backBy = c.beats.number, now+returnWait
	}
	return c.beats.answered >= c.back || now >= c.backBy
}

func (c *Cell) beatFailed(now time.Duration, beat int64) {
	if beat >= c.back {
		c.backBy = now // no leader answers
	}
	if beat == c.beats.number {
		c.beats.by(now + refusedWait/2)
	}
}

func (c *Cell) beatAnswered(now time.Duration, a HeartbeatAnswer) {
	if a.Proc != c.proc || a.Protocol != Protocol || !a.possible() {
		return
	}
	if a.Verdict == Foreign || a.Verdict == Adopt || !c.belongs(a.Cluster) {
		c.foreignAnswer(now, a)
		return
	}
	if c.hear(now, a.Term) < 0 || c.renewing || !c.beats.open(a.Beat) {
		return
	}
	c.beats.answered = a.Beat
	switch a.Verdict {
	case Refused:
		c.beats.next = now + refusedWait
	case Die:
		c.mustDie(now, "by the leader: "+a.Reason)
	case DieAll:
		c.endAll(a.Reason)
	case Welcome:
		c.welcomed(now, a)
	} // Foreign and Adopt were seen to before
}

// welcomed takes the answer of the leader that the cell follows.
func (c *Cell) welcomed(now time.Duration, a HeartbeatAnswer) {
	if c.leaving && a.State == MustDie {
		c.ended = true
		c.do(Exit{})
		return
	}
	c.t = a.Timeouts
	c.resolved = max(c.resolved, a.Resolved)
	for n := range c.seen {
		if n <= c.resolved {
			delete(c.seen, n)
		}
	}
	c.eligible = a.Eligible
	if !a.Credit || c.credit(now, a) {
		c.takeSet(a.SetID)
	}
	c.follow(now, a.State)
	if a.State == New && a.Reported {
		c.beats.next = now
	}
}

// takeSet keeps the newest set of one leader; a new leader's is taken as it is, once it gives one.
func (c *Cell) takeSet(id workerset.ID) {
	if id.IsZero() {
		return
	}
	if id.Leader == c.setID.Leader {
		if older, _ := workerset.Earlier(c.setID.Version, id.Version); !older {
			return
		}
	}
	c.setID = id
}

// credit lets deadline-bound work live for the promise, counted from when the
// credited heartbeat was sent; false when that is not known any more.
func (c *Cell) credit(now time.Duration, a HeartbeatAnswer) bool {
	at := c.beats.sentAt(a.Beat)
	if at == never {
		return false
	}
	c.health.LastBeat = max(c.health.LastBeat, at)
	first := !c.credited
	c.epoch, c.promise, c.credited, c.spent = c.term.Epoch, a.Promise, true, false
	deadline := at + a.Promise - c.t.KillWait
	if a.Promise == 0 {
		deadline = 0
	}
	if first || deadline != c.deadline {
		c.deadline = deadline
		c.do(SetDeadline{deadline})
	}
	return true
}

// follow takes the state that the leader sees, as far as the cell's own timers
// agree. A session never returns to NEW.
func (c *Cell) follow(now time.Duration, s State) {
	from := c.health.State
	if s == MustDie {
		c.mustDie(now, "the leader gave up on the session")
		return
	}
	if s == Healthy {
		c.health.HasBeenHealthy = true
		own := c.health
		own.State = Healthy
		s, _ = own.Next(now, c.gaps(), own.HasBeenHealthy)
	}
	if s == New || s == from {
		return
	}
	if from == Healthy {
		c.health.BecameUnhealthy = now
	}
	c.health.State = s
	if s == Healthy {
		c.health.BecameHealthy = now
		c.beats.hurry = firstHurry
		c.beats.next = now + c.t.Heartbeat
	}
	c.do(CellChanged{from, s, "set by the leader"})
}

// report answers getRunningTasks. The term is raised and the snapshot taken in one step.
func (c *Cell) report(now time.Duration, q ReportRequest) {
	if q.Proc != c.proc || c.renewing {
		return
	}
	if c.hear(now, q.Term) >= 0 {
		c.reported = true
		c.beats.by(now + firstHurry/2)
	}
	c.do(AnswerReport{Report{Term: c.term, Proc: c.proc, Predecessor: c.predecessor, PredecessorsGone: c.gone,
		Held: c.Held()}})
}

// run answers runTask. A refusal is final for every copy of the call, since the counter counts as seen.
func (c *Cell) run(now time.Duration, r RunTask) {
	answer := func(res RunResult, why string) {
		if r.Probe == 0 {
			c.do(AnswerRun{RunAnswer{c.term, r.Proc, r.Run, res, why}})
		}
	}
	if r.Proc != c.proc {
		answer(RunUnknown, "meant for another process")
		return
	}
	if c.hear(now, r.Term) < 0 {
		answer(RunUnknown, "lower term")
		return
	}
	if r.Probe > 0 {
		c.probe(r)
		return
	}
	if h := c.work.held[r.Invocation]; h != nil && h.run == r.Run {
		answer(RunOK, "held already")
		return
	}
	n := r.Invocation.Counter
	if n <= c.resolved || c.seen[n] || r.Invocation.Term != c.term {
		answer(RunStale, "counter is resolved or was seen")
		return
	}
	c.seen[n] = true
	if err := c.Accepts(now); err != nil {
		answer(RunRefused, err.Error())
		return
	}
	if r.Seq < c.seq {
		answer(RunRefused, "sent before the last notifyIfTasksNotRunning")
		return
	}
	if c.work.byWork[r.Work] != nil {
		answer(RunRefused, "an earlier invocation of the task is held")
		return
	}
	c.work.hold(&held{run: r.Run, sent: never})
	c.do(Launch{r.Run})
	answer(RunOK, "")
}

func (c *Cell) probe(r RunTask) {
	if c.outbox.probing != 0 || c.renewing {
		return
	}
	c.outbox.probing, c.outbox.probeBeat = r.Probe, r.Beat
	c.do(StartProbe{r.Probe})
}

// notify answers notifyIfTasksNotRunning.
func (c *Cell) notify(now time.Duration, q Notify) {
	if q.Proc != c.proc || c.hear(now, q.Term) < 0 || q.Seq <= c.seq || c.renewing {
		c.do(AnswerNotify{NotifyAnswer{c.term, q.Proc, q.Seq, false}})
		return
	}
	c.seq = q.Seq
	c.outbox.notRunning(q.Runs, &c.work)
	c.do(AnswerNotify{NotifyAnswer{c.term, q.Proc, q.Seq, true}})
}

func (c *Cell) kill(now time.Duration, k KillTask) {
	h := c.work.held[k.Run.Invocation]
	ok := k.Proc == c.proc && c.hear(now, k.Term) >= 0 && h != nil && h.run == k.Run
	if ok && !h.ended {
		c.do(StopWork{k.Run})
	}
	c.do(AnswerKill{k.Run, ok})
}

func (c *Cell) suicide(now time.Duration, s Suicide) {
	if s.Proc != c.proc || c.hear(now, s.Term) < 0 {
		return
	}
	if s.All {
		c.endAll("another process holds its name")
		return
	}
	c.mustDie(now, "the leader asked for it")
}

func (c *Cell) endAll(why string) {
	from := c.health.State
	c.health.State = MustDie
	c.do(CellChanged{from, MustDie, why}, EndAll{why})
	c.ended = true
}

func (c *Cell) statusAnswered(now time.Duration, a StatusAnswer) {
	if a.Proc != c.proc || c.hear(now, a.Term) < 0 {
		return
	}
	switch a.Kind {
	case StatusEnded:
		c.work.answered(now, a)
	case StatusNotRunning, StatusProbe:
		c.noteAnswered(now, a)
	}
}

func (c *Cell) noteAnswered(now time.Duration, a StatusAnswer) {
	n, ok := c.outbox.answered(now, a)
	if !ok || a.Kind != StatusProbe {
		return
	}
	c.health.LastProbe = max(c.health.LastProbe, c.beats.sentAt(n.beat))
	if c.health.State != Healthy {
		c.beats.next = now
	}
}

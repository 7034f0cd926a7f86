package worker

import (
	"slices"
	"time"

	"cantina/workerset"
)

// send beats and sends statuses when they are due.
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
		c.said, c.nextBeat = true, now
	}
	if !c.renewing && now >= c.nextBeat {
		c.beat(now)
	}
	if c.term.IsZero() || c.health.State == New && !c.told {
		return
	}
	if items := c.due(now); len(items) > 0 {
		c.do(SendStatus{UpdateStatus{c.cluster, c.term, c.cfg.Cell, c.proc, items}})
	}
}

// due returns the statuses to send now, ended ones first, in order.
func (c *Cell) due(now time.Duration) []StatusItem {
	var hs []*held
	for _, h := range c.unacked {
		if now >= h.sent+statusRetry {
			hs = append(hs, h)
		}
	}
	slices.SortFunc(hs, func(a, b *held) int { return a.run.Compare(b.run) })
	var items []StatusItem
	for _, h := range hs {
		h.sent = now
		items = append(items, StatusItem{Kind: StatusEnded, Run: h.run, Status: h.status})
	}
	for i := range c.notes {
		if n := &c.notes[i]; now >= n.sent+statusRetry {
			n.sent = now
			items = append(items, n.item)
		}
	}
	return items
}

func (c *Cell) beat(now time.Duration) {
	c.beats++
	c.sent = append(c.sent, sentBeat{c.beats, now})
	if len(c.sent) > sentBound {
		c.sent = slices.Delete(c.sent, 0, len(c.sent)-sentBound)
	}
	c.nextBeat = now + c.t.Heartbeat
	if c.health.State != Healthy {
		c.nextBeat = now + min(c.hurry, c.t.Heartbeat)
		c.hurry = min(2*c.hurry, c.t.Heartbeat)
	}
	c.do(SendBeat{Heartbeat{Protocol: Protocol, Cluster: c.cluster, Term: c.term, Cell: c.cfg.Cell, Proc: c.proc, DirID: c.cfg.DirID,
		Started: c.started, Boot: c.cfg.Boot, Beat: c.beats, Epoch: c.epoch, SetID: c.setID, HasWork: c.live() > 0,
		Promise: c.promise, Period: c.t.Heartbeat, Predecessor: c.predecessor, PredecessorsGone: c.gone,
		Deregister: c.empty(), Returns: c.succeeded()}})
}

// unknown reports that no leader can have put a process of this directory on a list: none
// ever answered. One that has the process all the same, for its answer was lost, gave
// it no credit and no work; for it the process is lost by time.
func (c *Cell) unknown() bool {
	return c.term.IsZero() && c.setID == (workerset.ID{}) && c.epoch == 0
}

// empty reports that the process has said that it takes no work, and leaves none behind.
func (c *Cell) empty() bool { return c.leaving && len(c.held) == 0 && c.bound == 0 && c.kept == 0 }

// succeeded reports that the process has said that it takes no work, and holds only what
// its successor takes over. To the leader it is as if it were killed now: it is no deregistration.
func (c *Cell) succeeded() bool {
	return c.leaving && c.lasting+c.kept > 0 && len(c.unacked) == 0 && c.bound+len(c.held) == c.lasting
}

// announced tells the leader that the next process of the directory will be back, and reports
// whether that has been answered, or nobody can be expected to answer.
func (c *Cell) announced(now time.Duration) bool {
	switch {
	case c.term.IsZero(), c.renewing:
		return true
	case c.back == 0:
		c.beat(now)
		c.back, c.backBy = c.beats, now+returnWait
	}
	return c.answered >= c.back || now >= c.backBy
}

// sentAt returns when a heartbeat was sent; of one that is forgotten, a time before that.
func (c *Cell) sentAt(beat int64) time.Duration {
	for _, s := range c.sent {
		if s.number == beat {
			return s.at
		}
	}
	return never
}

func (c *Cell) beatFailed(now time.Duration, beat int64) {
	if c.back > 0 && beat >= c.back {
		c.backBy = now // nobody answers
	}
	if beat == c.beats {
		c.nextBeat = min(c.nextBeat, now+refusedWait/2)
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
	if c.hear(now, a.Term) < 0 || c.renewing || a.Beat <= c.answered || a.Beat > c.beats {
		return
	}
	c.answered = a.Beat
	switch a.Verdict {
	case Refused:
		c.nextBeat = now + refusedWait
	case Die:
		c.mustDie(now, "the leader says: "+a.Reason)
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
		c.nextBeat = now
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
	at := c.sentAt(a.Beat)
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
		c.hurry = firstHurry
		c.nextBeat = now + c.t.Heartbeat
	}
	c.do(CellChanged{from, s, "the leader's view"})
}

// report answers getRunningTasks. The term is raised and the snapshot taken in one step.
func (c *Cell) report(now time.Duration, q ReportRequest) {
	if q.Proc != c.proc || c.renewing {
		return
	}
	if c.hear(now, q.Term) >= 0 {
		c.told = true
		c.nextBeat = min(c.nextBeat, now+firstHurry/2)
	}
	c.do(AnswerReport{Report{Term: c.term, Proc: c.proc, Predecessor: c.predecessor, PredecessorsGone: c.gone, Held: c.Held()}})
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
	if h := c.held[r.Invocation]; h != nil && h.run == r.Run {
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
	if c.byWork[r.Work] != nil {
		answer(RunRefused, "an earlier invocation of the task is held")
		return
	}
	c.hold(&held{run: r.Run, sent: never})
	c.do(Launch{r.Run})
	answer(RunOK, "")
}

func (c *Cell) probe(r RunTask) {
	if c.probing != 0 || c.renewing {
		return
	}
	c.probing, c.probeBeat = r.Probe, r.Beat
	c.do(StartProbe{r.Probe})
}

func (c *Cell) probeEnded(e ProbeEnded) {
	if c.probing != e.Probe {
		return
	}
	c.probing = 0
	c.notes = slices.DeleteFunc(c.notes, func(n note) bool { return n.item.Kind == StatusProbe })
	c.notes = append(c.notes, note{StatusItem{Kind: StatusProbe, Probe: e.Probe, OK: e.OK, Reason: e.Reason}, c.probeBeat, never})
}

// notify answers notifyIfTasksNotRunning.
func (c *Cell) notify(now time.Duration, q Notify) {
	if q.Proc != c.proc || c.hear(now, q.Term) < 0 || q.Seq <= c.seq || c.renewing {
		c.do(AnswerNotify{NotifyAnswer{c.term, q.Proc, q.Seq, false}})
		return
	}
	c.seq = q.Seq
	known := map[Run]bool{}
	for i := range c.notes {
		if it := &c.notes[i].item; it.Kind == StatusNotRunning {
			known[it.Run] = true
		}
	}
	for _, r := range q.Runs {
		if c.held[r.Invocation] == nil && !known[r] {
			known[r] = true
			c.notes = append(c.notes, note{item: StatusItem{Kind: StatusNotRunning, Run: r}, sent: never})
		}
	}
	c.do(AnswerNotify{NotifyAnswer{c.term, q.Proc, q.Seq, true}})
}

func (c *Cell) kill(now time.Duration, k KillTask) {
	h := c.held[k.Run.Invocation]
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
		h := c.held[a.Run.Invocation]
		if h == nil || !h.ended || h.run != a.Run {
			return
		}
		if !a.OK {
			h.sent = min(h.sent, now-statusRetry+refusedWait)
			return
		}
		delete(c.held, a.Run.Invocation)
		delete(c.unacked, a.Run.Invocation)
		if c.byWork[a.Run.Work] == h {
			delete(c.byWork, a.Run.Work)
		}
	case StatusNotRunning, StatusProbe:
		c.noteAnswered(now, a)
	}
}

func (c *Cell) noteAnswered(now time.Duration, a StatusAnswer) {
	i := slices.IndexFunc(c.notes, func(n note) bool {
		return n.item.Kind == a.Kind && n.item.Run == a.Run && n.item.Probe == a.Probe
	})
	if i < 0 {
		return
	}
	n := &c.notes[i]
	if !a.OK {
		n.sent = min(n.sent, now-statusRetry+refusedWait)
		return
	}
	if a.Kind == StatusProbe {
		c.health.LastProbe = max(c.health.LastProbe, c.sentAt(n.beat))
		if c.health.State != Healthy {
			c.nextBeat = now
		}
	}
	c.notes = slices.Delete(c.notes, i, i+1)
}

func (c *Cell) statusFailed() {
	for _, h := range c.unacked {
		h.sent -= statusRetry - refusedWait
	}
	for i := range c.notes {
		c.notes[i].sent -= statusRetry - refusedWait
	}
}

func (c *Cell) workEnded(r Run, status string) {
	h := c.held[r.Invocation]
	if h == nil || h.run != r || h.ended {
		return
	}
	h.ended, h.status, h.sent = true, status, never
	c.unacked[r.Invocation] = h
}

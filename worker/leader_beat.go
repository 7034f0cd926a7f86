package worker

import (
	"fmt"
	"time"

	"cantina/workerset"
)

// beat answers a heartbeat (Bistro: processHeartbeat).
func (l *Leader) beat(now time.Duration, h Heartbeat, lease bool) error {
	if h.Cell == "" || h.Proc == "" || h.DirID == "" || h.Beat <= 0 || !h.possible() {
		return fmt.Errorf("heartbeat of %q: %w", h.Cell, ErrMalformed)
	}
	if l.foreign(h) {
		return nil
	}
	if h.Cluster == "" && l.cfg.Cluster != "" && !h.Term.IsZero() && h.Term != l.cfg.Term ||
		l.impossible(now, h.Cell, h.Proc, h.Term) {
		l.verdict(h, Refused, "unknown term: it is not from a leader of this cluster")
		return nil
	}
	if l.heard(now, h.Cell, h.Proc, h.Term) {
		return nil
	}
	if h.Protocol != Protocol {
		l.refuse(h, fmt.Sprintf("protocol %d, want %d", h.Protocol, Protocol))
		return nil
	}
	if l.notOwn(h) {
		why := "this is a dev server and accepts no other cell; use cantina server"
		if h.Beat == 1 { // it is repeated each second
			l.do(Audit{Kind: AuditRefused, Cell: h.Cell, Proc: h.Proc, Text: why})
		}
		l.verdict(h, Refused, why)
		return nil
	}
	l.veto(now, h)
	p := l.procs[h.Proc]
	if p != nil && (p.row.Cell != h.Cell || p.row.DirID != h.DirID || p.row.Started != h.Started) {
		l.refuse(h, "process id belongs to another cell or directory")
		return nil
	}
	switch {
	case l.gone[h.Proc] != Welcome:
		l.verdict(h, l.gone[h.Proc], "declared dead, or displaced, in this term")
	case p != nil && p.displaced:
		l.verdict(h, DieAll, "another process holds the cell's name")
	case h.Deregister:
		l.deregister(now, p, h)
	case l.unlisted(p, h):
		l.verdict(h, Die, "reports running work, but is not in the member list")
	case h.Epoch != l.cfg.Term.Epoch && h.HasWork && !l.waiting.stale:
		l.verdict(h, Die, "holds work of another store's epoch")
	default:
		l.associate(now, p, h, lease)
	}
	return nil
}

// possible reports whether the durations are in range, so that sums do not overflow.
func (h *Heartbeat) possible() bool {
	return h.Promise >= 0 && h.Promise <= longestDuration && h.Period >= 0 && h.Period <= longestDuration
}

// unlisted reports whether a process holds work without a member row. During a wait with a stale list
// such work is adopted.
func (l *Leader) unlisted(p *process, h Heartbeat) bool {
	if !h.HasWork || p != nil && p.member || l.waiting.wait && l.waiting.unlistable() {
		return false
	}
	return len(l.predecessors(h.DirID, h.Started)) == 0
}

// veto compares the set a cell remembers with the list: if the cell's is newer,
// the store went back and the list proves nothing.
func (l *Leader) veto(now time.Duration, h Heartbeat) {
	id := h.SetID
	if l.sessions.set != nil || id.Leader != l.members.list.Leader || id.Version == l.members.list.Version &&
		id.Hash == l.members.list.Hash {
		return
	}
	if older, _ := workerset.Earlier(id.Version, l.members.list.Version); older { // versions wrap around
		return
	}
	if l.waiting.stale {
		l.members.list.Version = max(l.members.list.Version, id.Version)
		return
	}
	l.waiting.stale = true
	for _, p := range l.order {
		if !p.connected { // which has a row
			was := p.row.Promise
			p.row.Promise = l.untrusted(was)
			p.unsaid = p.unsaid || p.row.Promise != was
		}
	}
	text := fmt.Sprintf("cell remembers member list version %d, the store has %d: the store went back", id.Version,
		l.members.list.Version)
	l.members.list.Version = max(l.members.list.Version, id.Version)
	if !l.waiting.wait {
		l.waiting.wait, l.waiting.t0 = true, now
		text += "; work started since the term began may have run twice"
		for _, e := range l.batch.model.sorted() {
			if e.run.Invocation.Term == l.cfg.Term {
				l.audit(AuditDoubled, e.on, e.run, "started while the member list was older than a cell's")
			}
		}
	}
	l.do(Audit{Kind: AuditStale, Cell: h.Cell, Proc: h.Proc, Text: text})
}

func (l *Leader) refuse(h Heartbeat, why string) {
	l.do(Audit{Kind: AuditRefused, Cell: h.Cell, Proc: h.Proc, Text: why})
	l.verdict(h, Refused, why)
}

func (l *Leader) verdict(h Heartbeat, v Verdict, why string) {
	l.do(AnswerBeat{HeartbeatAnswer{Protocol: Protocol, Cluster: l.cfg.Cluster, Term: l.cfg.Term, Proc: h.Proc,
		Beat:    h.Beat,
		Verdict: v, Reason: why, State: MustDie, Timeouts: l.t}})
}

// associate admits a process, or continues its session.
func (l *Leader) associate(now time.Duration, p *process, h Heartbeat, lease bool) {
	if cur := l.holders[h.Cell]; cur != nil {
		if cur != p && !l.replace(now, cur, h) {
			return
		}
	}
	if p == nil {
		p = l.newProcess(Member{Proc: h.Proc, Cell: h.Cell, DirID: h.DirID, Started: h.Started, Boot: h.Boot}, now)
	}
	p.beat = max(p.beat, h.Beat) // before the first probe, which is dated by it
	first := !p.connected
	if first {
		l.connect(now, p, h)
	}
	if p.health.State == MustDie {
		l.verdict(h, Die, "lost, or declared dead")
		return
	}
	p.period, p.remains = max(h.Period, time.Second), !h.PredecessorsGone
	p.health.LastBeat = l.policy(now)
	l.echo(p, h)
	l.members.lower(p, h)
	if p.reported && h.PredecessorsGone {
		l.succeed(now, p, true)
	}
	l.sessions.contact(p, now)
	if p.health.State == MustDie {
		l.verdict(h, Die, "lost")
		return
	}
	l.welcome(now, p, h, lease)
}

// connect makes p the holder of its cell's name.
func (l *Leader) connect(now time.Duration, p *process, h Heartbeat) {
	p.connected = true
	l.holders[h.Cell] = p
	p.row.Boot = h.Boot
	if !p.member && h.HasWork && l.waiting.wait && l.waiting.unlistable() {
		l.silent[p.row.Proc] = p
		p.row.Promise = h.Promise
		l.members.enlist(p, now)
	}
	if l.sessions.set != nil {
		l.sessions.set.Join(string(h.Proc), !l.waiting.wait)
	}
	l.sessions.requestReport(p)
	l.sessions.sendProbe(p, now)
}

// replace decides which process holds a cell's name: cur, the present holder, or the sender of h
// (Bistro, processHeartbeat: replacement by machine lock, here the data directory's).
func (l *Leader) replace(now time.Duration, cur *process, h Heartbeat) bool {
	switch {
	case cur.row.DirID == h.DirID && h.Started < cur.row.Started:
		l.refuse(h, "a later process holds the directory")
		return false
	case cur.row.DirID == h.DirID:
		if h.Started == cur.row.Started {
			l.do(Audit{Kind: AuditRefused, Cell: h.Cell, Proc: h.Proc,
				Text: "two processes of one directory claim the same start; the newcomer stays"})
		}
		how := succeeded
		if h.Boot != cur.row.Boot {
			how = bumped // running work ended with the boot
		}
		l.displace(now, cur, "succeeded on its directory", how)
	case cur.health.State == MustDie || l.cfg.AllowBump && cur.health.State != Healthy:
		reason := "lost, and replaced"
		if cur.health.State != MustDie {
			reason = "unhealthy, and replaced"
		}
		l.do(SendSuicide{cur.row.Cell, Suicide{l.cfg.Term, cur.row.Proc, true}})
		l.displace(now, cur, reason, bumped)
	case !cur.connected && l.cfg.NoDeadline:
		// A process that shared one with its leader never calls another; in a restored store
		// it is of the dev that the backup was taken of.
		l.displace(now, cur, "belongs to the dev server that was backed up", bumped)
	case !cur.connected:
		l.verdict(h, Refused,
			fmt.Sprintf("another process holds its name: %s, not heard from in this term; it can be taken when "+
				"that one is lost", cur.row.Proc))
		return false
	default:
		l.verdict(h, DieAll, fmt.Sprintf("another process holds its name: %s, which is %v", cur.row.Proc, cur.health.State))
		l.do(SendSuicide{h.Cell, Suicide{l.cfg.Term, h.Proc, true}})
		return false
	}
	return true
}

// displace takes the cell's name from cur; its work stays held until it is dead.
func (l *Leader) displace(now time.Duration, cur *process, why string, how parting) {
	l.sessions.mustDie(cur, now, why, how)
	cur.displaced = true
	delete(l.holders, cur.row.Cell)
	switch {
	case cur.dead:
	case cur.member:
		cur.row.Displaced = true
		l.members.putMember(cur)
	default:
		l.forget(cur)
	}
}

// welcome answers a heartbeat of a live session.
func (l *Leader) welcome(now time.Duration, p *process, h Heartbeat, lease bool) {
	a := HeartbeatAnswer{Protocol: Protocol, Cluster: l.cfg.Cluster, Term: l.cfg.Term, Proc: h.Proc, Beat: h.Beat,
		State:    p.health.State,
		Reported: p.reported, Eligible: p.reported && p.durable, Resolved: l.batch.resolved(p), Timeouts: l.t}
	if !p.reported {
		l.sessions.requestReport(p)
	}
	if lease && a.Eligible {
		l.credit(now, p, &a)
	}
	a.SetID = l.setFor(p, a.Credit)
	l.do(AnswerBeat{a})
}

// credit extends p's deadline by the promise in the store.
func (l *Leader) credit(now time.Duration, p *process, a *HeartbeatAnswer) {
	a.Promise = l.ownPromise()
	if p.durable {
		a.Promise = min(a.Promise, p.promised)
	}
	if a.Promise == 0 && !l.cfg.NoDeadline {
		return
	}
	p.credited, p.credit, a.Credit = true, now, true
}

// setFor is the set in the response to p. With the list as witness it is the list. Otherwise p
// will show it to the next leader, which ends its wait when all its members are back. No process
// that may run work is missing from it only once this leader's own wait is over, and it must not
// outlive p's credit. Without a set p continues to show that of an earlier leader.
func (l *Leader) setFor(p *process, credit bool) workerset.ID {
	switch {
	case l.sessions.set == nil:
		return l.members.stored
	case !l.waiting.wait && credit && l.sessions.set.Has(string(p.row.Proc)):
		return l.sessions.set.Current()
	}
	return workerset.ID{}
}

// echo records the set that a process shows. Only the consensus witness uses it. The set that it
// came with is the one that it shows when it has contacted this leader and has reported its work:
// an older heartbeat may be late.
func (l *Leader) echo(p *process, h Heartbeat) {
	if l.sessions.set == nil {
		return
	}
	if p.reported && h.Term == l.cfg.Term && l.waiting.wait {
		l.sessions.set.Came(string(p.row.Proc), h.SetID)
	}
	if err := l.sessions.set.Echo(string(p.row.Proc), h.SetID); err != nil {
		l.audit(AuditRefused, p, Run{}, "worker set: "+err.Error())
	}
}

// deregister ends a process that is empty and will never take work.
func (l *Leader) deregister(now time.Duration, p *process, h Heartbeat) {
	l.do(AnswerBeat{HeartbeatAnswer{Protocol: Protocol, Cluster: l.cfg.Cluster, Term: l.cfg.Term, Proc: h.Proc,
		Beat: h.Beat, State: MustDie, Reason: "deregister", Timeouts: l.t}})
	if p == nil || h.HasWork {
		return
	}
	if p.reported && h.PredecessorsGone {
		l.succeed(now, p, true)
	}
	l.die(p, now, ProofDeregistered)
}

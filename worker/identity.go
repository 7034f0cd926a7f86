package worker

import (
	"fmt"
	"time"

	"cantina/fence"
	"cantina/workerset"
)

// Messages of another cluster, and impossible terms: both are refused and never adopted. See
// docs/decisions/0210-cluster-identity.md.

// foreign answers the heartbeat of a cell of another cluster and reports whether it is one. The
// rest of it is not read: its term, its set and its work are of another store. A cell without a
// cluster has no term either.
func (l *Leader) foreign(h Heartbeat) bool {
	if h.Cluster == l.cfg.Cluster {
		delete(l.adopting, h.Cell)
		return false
	}
	if h.Cluster == "" {
		return false
	}
	a := HeartbeatAnswer{Protocol: Protocol, Cluster: l.cfg.Cluster, Proc: h.Proc, Beat: h.Beat, Verdict: Foreign,
		State: MustDie, Timeouts: l.t,
		Reason: fmt.Sprintf("cell %s belongs to cluster %s, this is cluster %s", h.Cell, h.Cluster, l.cfg.Cluster)}
	if by, ok := l.adopting[h.Cell]; ok {
		a.Verdict, a.Reason = Adopt, by+" has the cell join cluster "+string(l.cfg.Cluster)
	}
	l.do(AnswerBeat{a})
	return true
}

// adopt records that a cell of another cluster may join this one at its next heartbeat.
func (l *Leader) adopt(e AdoptWanted) {
	l.adopting[e.Cell] = e.By
	l.do(Audit{Kind: AuditAdopted, Cell: e.Cell, Text: "may join this cluster, by the word of " + e.By})
}

// belongs reports whether a message of a leader is of the cell's cluster. A cell without a cluster
// joins that of the first leader that knows its process.
func (c *Cell) belongs(cluster fence.Cluster) bool {
	if c.cluster == "" {
		c.cluster = cluster
	}
	return c.cluster == cluster
}

// Cluster returns the identity of the cluster that the cell belongs to; empty before its
// first join.
func (c *Cell) Cluster() fence.Cluster { return c.cluster }

// addressed is a call of a leader: the cell may join by the first one.
func (c *Cell) addressed(e Addressed) {
	if e.Proc == c.proc {
		c.belongs(e.Cluster)
	}
}

// foreignAnswer handles the response of a leader of another cluster. Only an operator's decision
// in it changes anything.
func (c *Cell) foreignAnswer(now time.Duration, a HeartbeatAnswer) {
	if !c.beats.open(a.Beat) {
		return
	}
	c.beats.answered = a.Beat
	c.beats.next = now + refusedWait
	c.do(ForeignHeard{a.Cluster, a.Reason})
	if a.Verdict == Adopt && a.Cluster != "" {
		c.moving = a.Cluster
		c.mustDie(now, a.Reason)
	}
}

// move makes the next session the first one in another cluster: the cell's terms, sets and batch
// tasks are of the old one. Work of that one that has not ended yet stays with the executor.
func (c *Cell) move() {
	c.cluster, c.moving = c.moving, ""
	c.term, c.setID, c.epoch = fence.Term{}, workerset.ID{}, 0
	c.predecessor, c.gone = "", true
	c.promise, c.deadline = 0, 0
	c.work.drop()
}

// unbelievable reports a term that the cell's cluster cannot have given.
func (c *Cell) unbelievable(now time.Duration, t fence.Term) bool {
	unix := c.cfg.Unix + int64((now-c.cfg.Now)/time.Second)
	if c.cfg.Unix == 0 {
		unix = t.Epoch
	}
	if fence.Believable(t, c.term, max(unix, c.epoch)) {
		return false
	}
	c.do(TermRefused{t})
	return true
}

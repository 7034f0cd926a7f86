package worker

import (
	"bytes"
	"slices"

	"cantina/fence"
)

// messages writes the flight as a set.
func (k *keys) messages() {
	start := len(k.buf)
	k.texts = k.texts[:0]
	for _, m := range k.n.flight {
		at := len(k.buf)
		k.int(int64(k.cell(m.cell)))
		k.message(m)
		k.texts = append(k.texts, bytes.Clone(k.buf[at:]))
	}
	slices.SortFunc(k.texts, bytes.Compare)
	k.buf = k.buf[:start]
	for _, t := range k.texts {
		k.int(int64(len(t)))
		k.buf = append(k.buf, t...)
	}
}

func (k *keys) message(m msg) {
	switch e := m.down.(type) {
	case BeatAnswered:
		k.beatAnswer(k.n.cells[m.cell], e.Answer)
	case RunAsked:
		k.int(2)
		k.to(e.Call.Term, e.Call.Proc)
		k.run(e.Call.Run)
		k.seq(e.Call.Proc, e.Call.Term, e.Call.Seq)
		c := k.n.cells[m.cell]
		n := e.Call.Invocation.Counter
		k.bits(c.term == e.Call.Term && (n <= c.resolved || c.seen[n]))
	case NotifyAsked:
		k.int(3)
		k.to(e.Call.Term, e.Call.Proc)
		k.seq(e.Call.Proc, e.Call.Term, e.Call.Seq)
		for _, r := range e.Call.Runs {
			k.run(r)
		}
	case SuicideAsked:
		k.int(4)
		k.to(e.Call.Term, e.Call.Proc)
		k.bits(e.Call.All)
	case StatusAnswered:
		k.int(5)
		k.to(e.Answer.Term, e.Answer.Proc)
		k.int(int64(e.Answer.Kind))
		k.run(e.Answer.Run)
		k.bits(e.Answer.OK)
	}
	switch e := m.up.(type) {
	case RunAnswered:
		k.int(6)
		k.to(e.Answer.Term, e.Answer.Proc)
		k.run(e.Answer.Run)
		k.int(int64(e.Answer.Result))
	case NotifyAnswered:
		k.int(7)
		k.to(e.Answer.Term, e.Answer.Proc)
		k.seq(e.Answer.Proc, e.Answer.Term, e.Answer.Seq)
		k.bits(e.Answer.OK)
	case StatusReceived:
		k.int(8)
		k.to(e.Update.Term, e.Update.Proc)
		for _, it := range e.Update.Items {
			k.int(int64(it.Kind))
			k.run(it.Run)
		}
	case ReportReceived:
		k.int(9)
		k.to(e.Report.Term, e.Report.Proc)
		k.bits(e.Report.PredecessorsGone)
		for _, h := range e.Report.Held {
			k.run(h.Run)
			k.bits(h.Ended)
		}
	}
}

func (k *keys) to(t fence.Term, p Proc) {
	k.term(t)
	k.proc(p)
}

// beatAnswer writes a late answer to a heartbeat: when that was sent, its place among
// those in flight, and which calls in flight it resolves.
func (k *keys) beatAnswer(c *Cell, a HeartbeatAnswer) {
	k.int(1)
	k.to(a.Term, a.Proc)
	k.bits(a.Reported, a.Eligible, a.Credit, a.Beat <= c.beats.answered && a.Proc == c.proc)
	k.int(int64(a.Verdict))
	k.int(int64(a.State))
	k.int(int64(a.Promise))
	k.set(a.SetID)
	place := 0
	for _, b := range k.beats {
		if b.proc == a.Proc && b.beat < a.Beat {
			place++
		}
	}
	k.int(int64(place))
	if a.Proc == c.proc {
		k.int(int64(c.beats.sentAt(a.Beat) - k.n.now))
	}
	for _, m := range k.n.flight {
		if r, ok := m.down.(RunAsked); ok && r.Call.Term == a.Term && r.Call.Invocation.Counter <= a.Resolved {
			k.run(r.Call.Run)
		}
	}
	k.int(-1)
}

package worker

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"cantina/fence"
	"cantina/internal/draw"
	"cantina/workerset"
)

// odd draws messages and rows that no correct peer sends or writes, among those that one may.
type odd struct{ draw.Source }

func (o *odd) cell() CellName { return draw.One[CellName](o, "c1", "c2", "c3") }

func (o *odd) proc() Proc { return draw.One[Proc](o, "p1", "p2", "p3", "p4", "p5", "nobody", "") }

func (o *odd) term() fence.Term {
	return draw.One(o, term5, term5, term5, term5, fence.Term{Epoch: 1, Revision: 4}, fence.Term{}, fence.Term{Epoch: -1},
		fence.Term{Epoch: 1, Revision: 1 << 60})
}

func (o *odd) run() Run {
	w := Work{draw.One(o, "a", "b", ""), draw.One(o, "n", "")}
	return Run{w, fence.Invocation{Term: o.term(), Counter: draw.One[int64](o, 1, 2, 3, 4, 0, -1, 1<<62)}}
}

func (o *odd) set(l *Leader) workerset.ID {
	id := workerset.ID{Leader: o.term(), Version: draw.One[uint64](o, 0, 1, 2, 3, 1<<63, 1<<64-1)}
	if o.Flag() {
		id.Hash = id.Hash.Add(string(o.proc()))
	}
	id.Hash.Count = draw.One(o, id.Hash.Count, id.Hash.Count, -1, 1<<40)
	if o.Flag() {
		id = l.members.list
	}
	if l.sessions.set != nil && o.Flag() {
		id = l.sessions.set.Current()
	}
	return id
}

func (o *odd) length() time.Duration {
	return draw.One[time.Duration](o, 0, 1, 5*sec, 86*sec, 86*sec, 100*sec, longestDuration, -1, 1<<62)
}

// beat draws a heartbeat; the fields that identify the sender mostly match.
func (o *odd) beat(l *Leader, n int64) Heartbeat {
	i := o.IntN(5)
	h := Heartbeat{Protocol: draw.One(o, Protocol, Protocol, Protocol, 0), Term: o.term(),
		Cell: []CellName{"c1", "c1", "c2", "c2", "c3"}[i], Proc: []Proc{"p1", "p2", "p3", "p4", "p5"}[i],
		DirID: []string{"d1", "d1", "d2", "d3", "d2"}[i], Started: []int64{1, 2, 1, 1, 2}[i],
		Boot: []string{"b", "b", "b2", "b3", "b2"}[i], Beat: n, Epoch: draw.One[int64](o, 0, 1, 1, 1, 9), SetID: o.set(l),
		HasWork: o.Flag(), Promise: o.length(), Period: o.length(), PredecessorsGone: !o.Flag(),
		Deregister: o.IntN(9) == 0}
	switch o.IntN(12) {
	case 0:
		h.Cell = o.cell()
	case 1:
		h.Proc = o.proc()
	case 2:
		h.DirID, h.Started = draw.One(o, "d1", "d2", "d3", ""), draw.One[int64](o, -1, 0, 1, 2, 3, 1<<62)
	case 3:
		h.Beat = draw.One[int64](o, -1, 0, 1, 1<<62)
	case 4:
		h.Boot = draw.One(o, "b", "b2", "", "b9")
	case 5:
		h.Cluster = draw.One[fence.Cluster](o, "x", "")
	}
	return h
}

func (o *odd) held() (out []Held) {
	for range o.IntN(4) {
		out = append(out, Held{o.run(), o.Flag(), o.Flag()})
	}
	if len(out) > 0 && o.Flag() {
		out = append(out, out[0])
	}
	return out
}

func (o *odd) items() (out []StatusItem) {
	for range o.IntN(4) {
		out = append(out, StatusItem{Kind: StatusKind(o.IntN(4)), Run: o.run(),
			Probe: draw.One[int64](o, 1, 2, 3, 0, -1), OK: !o.Flag()})
	}
	return out
}

func (o *odd) event(l *Leader, n int64) Event {
	switch o.IntN(16) {
	case 0, 1, 2, 3:
		return BeatReceived{o.beat(l, n), !o.Flag()}
	case 4, 5:
		return ReportReceived{Report{Term: draw.One(o, term5, o.term()), Proc: o.proc(), Predecessor: o.proc(),
			PredecessorsGone: o.Flag(), Held: o.held()}}
	case 6, 7:
		if p := l.procs[o.proc()]; p != nil && o.Flag() {
			return StatusReceived{UpdateStatus{Term: term5, Cell: p.row.Cell, Proc: p.row.Proc,
				Items: []StatusItem{{Kind: StatusProbe, Probe: p.probe.sent, OK: !o.Flag()}}}}
		}
		return StatusReceived{UpdateStatus{Term: o.term(), Cell: o.cell(), Proc: o.proc(), Items: o.items()}}
	case 8:
		return RunAnswered{RunAnswer{Term: o.term(), Proc: o.proc(), Run: o.run(), Result: RunResult(o.IntN(7))}}
	case 9:
		return NotifyAnswered{NotifyAnswer{Term: o.term(), Proc: o.proc(), Seq: draw.One[int64](o, 0, 1, 2, -1),
			OK: o.Flag()}}
	case 10:
		return StatusCommitted{o.run(), Synthetic(o.IntN(3))}
	case 11:
		return KillWanted{o.run()}
	case 12:
		return draw.One[Event](o, TermHeard{o.cell(), o.proc(), fence.Term{Epoch: 1, Revision: 3}},
			AdoptWanted{o.cell(), "ann"}, EndWait{"ann"}, Forget{o.proc(), "ann"})
	}
	return Tick{LeaseHeld: !o.Flag()}
}

func (o *odd) config(r *rig) Config {
	c := Config{Term: term5, Now: r.now, Unix: draw.One[int64](o, 0, 2), Timeouts: DefaultTimeouts(), NewStore: o.Flag(),
		NewCluster: o.Flag(), Restored: o.Flag(), Witness: Witness(o.IntN(2)), AllowBump: o.Flag(),
		NoDeadline: o.IntN(5) == 0, TurnoverLimit: o.IntN(3), InitialWait: draw.One(o, 0, 0, sec), Statuses: r}
	if c.NoDeadline {
		c.Own, c.Alone = draw.One(o, "", "d1"), o.Flag()
	}
	for _, p := range []Proc{"p1", "p2", "p3", "p4"} {
		if !o.Flag() {
			continue
		}
		m := Member{Proc: p, Cell: draw.One(o, o.cell(), ""), DirID: draw.One(o, "d1", "d2", ""),
			Started: draw.One[int64](o, 0, 1, 2, -1), Boot: draw.One(o, "b", ""),
			Promise: max(0, min(o.length(), longestDuration)), Displaced: o.Flag()}
		c.Members = append(c.Members, m)
	}
	c.List = workerset.ID{Leader: draw.One(o, fence.Term{Epoch: 1}, o.term()), Version: draw.One[uint64](o, 0, 3, 1<<63)}
	for _, m := range c.Members {
		c.List.Hash = c.List.Hash.Add(string(m.Proc))
	}
	if o.Flag() {
		c.List.Hash = workerset.Hash{Count: -1}
	}
	return c
}

// TestNoMessageEndsTheLeader: the leader takes or refuses any rows of the store and any messages of cells, in any
// order. Its entries of processes and of their work stay consistent, and so do list and rows.
func TestNoMessageEndsTheLeader(t *testing.T) {
	for seed := range uint64(400) {
		o := &odd{draw.From(seed, 3, time.Time{})}
		r := &rig{t: t, now: 1000 * sec, applied: map[Work]applied{}, kills: map[Run]bool{}}
		c := o.config(r)
		l, err := NewLeader(c)
		if err != nil {
			continue
		}
		r.l = l
		r.submit(l.Start())
		for n := range int64(250) {
			if o.IntN(4) > 0 {
				r.now += draw.One(o, 0, sec/10, sec, sec, 20*sec)
			}
			r.hold = o.IntN(8) == 0
			if w := (Work{draw.One(o, "a", "b"), "n"}); o.IntN(9) == 0 {
				if _, out, err := l.RunBatch(r.now, Request{Work: w, Cell: o.cell()}); err == nil {
					r.submit(out)
				}
			}
			out, err := l.Step(r.now, o.event(l, n+1))
			if err == nil {
				r.submit(out)
			}
			for _, e := range take[Ended](r) {
				if !o.Flag() {
					r.apply(e)
				}
			}
			fits(t, seed, l)
			_, _, _ = l.Sessions(r.now), l.Wait(r.now), l.Model()
		}
	}
}

// fits checks that the copies of one fact in a leader are equal.
func fits(t *testing.T, seed uint64, l *Leader) {
	t.Helper()
	bad := func(format string, args ...any) { t.Fatalf("seed %d: "+format, append([]any{seed}, args...)...) }
	held := 0
	for id, p := range l.procs {
		held += len(p.work)
		if p.row.Proc != id || !slices.Contains(l.dirs[p.row.DirID], p) {
			bad("%s is not found by its directory", id)
		}
		for inv, e := range p.work {
			if e.on != p || l.batch.model.byRun[inv] != e {
				bad("%v is on %s, and not in the model", inv, id)
			}
		}
	}
	works := 0
	for w, es := range l.batch.model.byWork {
		works += len(es)
		if len(es) == 0 {
			bad("nothing is kept of %v", w)
		}
	}
	if n := len(l.batch.model.byRun); n != held || n != works {
		bad("%d invocations, %d on processes, %d of work", n, held, works)
	}
	for cell, p := range l.holders {
		if p.row.Cell != cell || l.procs[p.row.Proc] != p {
			bad("%s is held by %s", cell, p.row.Proc)
		}
	}
	for _, ps := range l.dirs {
		for _, p := range ps {
			if l.procs[p.row.Proc] != p {
				bad("%s is gone, and found by its directory", p.row.Proc)
			}
		}
	}
	sum := workerset.Hash{}
	for _, p := range l.procs {
		if p.member {
			sum = sum.Add(string(p.row.Proc))
		}
	}
	if sum != l.members.list.Hash {
		bad("the list is %+v, its members %+v", l.members.list.Hash, fmt.Sprint(sum))
	}
}

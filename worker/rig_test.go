package worker

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cantina/fence"
	"cantina/workerset"
)

// rig is a leader whose commits succeed at once, or wait for commit().
type rig struct {
	t       *testing.T
	l       *Leader
	now     time.Duration
	out     []Effect // performed since the last take
	rows    []Row    // committed
	pending []Output
	hold    bool // commits wait
	applied map[Work]applied
	kills   map[Run]bool
	beats   map[Proc]int64
	sets    map[Proc]workerset.ID
}

type applied struct {
	inv  fence.Invocation
	real bool
}

// LastApplied and KillStored are Statuses.
func (r *rig) LastApplied(w Work) (fence.Invocation, bool) {
	return r.applied[w].inv, r.applied[w].real
}
func (r *rig) KillStored(x Run) bool { return r.kills[x] }

var term5 = fence.Term{Epoch: 1, Revision: 5}

// sec is a second; the rig's leader has the default time-outs.
const sec = time.Second

func newRig(t *testing.T, set func(*Config)) *rig {
	t.Helper()
	r := &rig{t: t, now: 1000 * sec, applied: map[Work]applied{}, kills: map[Run]bool{}, beats: map[Proc]int64{},
		sets: map[Proc]workerset.ID{}}
	c := Config{Term: term5, Now: r.now, Timeouts: DefaultTimeouts(), NewStore: true, NewCluster: true, Statuses: r}
	if set != nil {
		set(&c)
	}
	sum := workerset.Hash{}
	for _, m := range c.Members {
		sum = sum.Add(string(m.Proc))
	}
	if c.List.IsZero() {
		c.List = workerset.ID{Leader: fence.Term{Epoch: c.Term.Epoch}, Version: uint64(len(c.Members)), Hash: sum}
	}
	l, err := NewLeader(c)
	if err != nil {
		t.Fatal(err)
	}
	r.l = l
	r.submit(l.Start())
	return r
}

func (r *rig) step(e Event) {
	r.t.Helper()
	out, err := r.l.Step(r.now, e)
	if err != nil {
		r.t.Fatalf("%T: %v", e, err)
	}
	r.submit(out)
}

func (r *rig) submit(out Output) {
	if out.Seq == 0 {
		return
	}
	r.pending = append(r.pending, out)
	if !r.hold {
		r.commit()
	}
}

// commit makes all that waits durable and performs it.
func (r *rig) commit() {
	for len(r.pending) > 0 {
		out := r.pending[0]
		r.pending = r.pending[1:]
		r.rows = append(r.rows, out.Rows...)
		r.out = append(r.out, out.Effects...)
		next, err := r.l.Step(r.now, Committed{out.Seq})
		if err == nil && next.Seq != 0 {
			r.pending = append(r.pending, next)
		}
	}
}

// take returns the effects of type E since the last take, and drops the others.
func take[E Effect](r *rig) []E {
	var es []E
	for _, e := range r.out {
		if e, ok := e.(E); ok {
			es = append(es, e)
		}
	}
	r.out = nil
	return es
}

// peek returns the effects of type E without dropping any.
func peek[E Effect](r *rig) []E {
	all := r.out
	es := take[E](r)
	r.out = all
	return es
}

func one[E Effect](r *rig) E {
	r.t.Helper()
	es := take[E](r)
	if len(es) != 1 {
		r.t.Fatalf("want one %T, got %v", *new(E), es)
	}
	return es[0]
}

// tick lets d pass in steps of one check interval.
func (r *rig) tick(d time.Duration) {
	r.t.Helper()
	for end := r.now + d; r.now < end; {
		r.now = min(r.now+r.l.t.Check, end)
		r.step(Tick{LeaseHeld: true})
	}
}

// hb makes a heartbeat of cell c's process p, started n. Its directory is that of the cell unless the id has
// another ("p@directory").
func (r *rig) hb(c CellName, p Proc, n int64, set ...func(*Heartbeat)) Heartbeat {
	r.beats[p]++
	dirID := string(c)
	if _, f, ok := strings.Cut(string(p), "@"); ok {
		dirID = f
	}
	h := Heartbeat{Protocol: Protocol, Term: term5, Cell: c, Proc: p, DirID: dirID, Started: n, Boot: "boot-" + dirID,
		Beat: r.beats[p], Period: 5 * sec, PredecessorsGone: true, SetID: r.sets[p], Promise: r.l.ownPromise(),
		Epoch: r.l.cfg.Term.Epoch}
	for _, f := range set {
		f(&h)
	}
	return h
}

// beat sends a heartbeat and returns its answer; other effects stay.
func (r *rig) beat(c CellName, p Proc, n int64, set ...func(*Heartbeat)) HeartbeatAnswer {
	r.t.Helper()
	h := r.hb(c, p, n, set...)
	r.step(BeatReceived{Beat: h, LeaseHeld: true})
	for i, e := range r.out {
		if a, ok := e.(AnswerBeat); ok && a.Answer.Proc == p && a.Answer.Beat == h.Beat {
			r.out = slices.Delete(r.out, i, i+1)
			if a.Answer.Verdict == Welcome && !a.Answer.SetID.IsZero() {
				r.sets[p] = a.Answer.SetID
			}
			return a.Answer
		}
	}
	if !r.hold {
		r.t.Fatalf("no answer to %+v", h)
	}
	return HeartbeatAnswer{}
}

func (r *rig) report(p Proc, held ...Held) {
	r.t.Helper()
	r.step(ReportReceived{Report{Term: term5, Proc: p, PredecessorsGone: true, Held: held}})
}

// probe answers the newest probe of a process.
func (r *rig) probe(c CellName, p Proc, ok bool) {
	r.t.Helper()
	r.step(StatusReceived{UpdateStatus{Term: term5, Cell: c, Proc: p,
		Items: []StatusItem{{Kind: StatusProbe, Probe: r.l.procs[p].probe.sent, OK: ok, Reason: "no room"}}}})
}

// healthy brings a process to HEALTHY.
func (r *rig) healthy(c CellName, p Proc, n int64) {
	r.t.Helper()
	r.beat(c, p, n)
	r.report(p)
	r.probe(c, p, true)
	if a := r.beat(c, p, n); a.State != Healthy || !a.Credit || !a.Eligible {
		r.t.Fatalf("%s is %+v", p, a)
	}
	r.out = nil
}

func (r *rig) state(p Proc) State {
	r.t.Helper()
	for _, v := range r.l.Sessions(r.now) {
		if v.Proc == p {
			return v.State
		}
	}
	r.t.Fatalf("%s is not known", p)
	return MustDie
}

// run starts a batch task and returns it.
func (r *rig) run(c CellName, job string) Run {
	r.t.Helper()
	w := Work{job, "n"}
	inv, out, err := r.l.RunBatch(r.now, Request{Work: w, Cell: c})
	if err != nil {
		r.t.Fatal(err)
	}
	r.submit(out)
	return Run{w, inv}
}

func (r *rig) answer(p Proc, x Run, res RunResult) {
	r.t.Helper()
	r.step(RunAnswered{RunAnswer{Term: term5, Proc: p, Run: x, Result: res}})
}

func (r *rig) status(c CellName, p Proc, items ...StatusItem) {
	r.t.Helper()
	r.step(StatusReceived{UpdateStatus{Term: term5, Cell: c, Proc: p, Items: items}})
}

// apply commits an end as the scheduler does.
func (r *rig) apply(e Ended) {
	r.t.Helper()
	if e.Kind == Real || r.applied[e.Run.Work].inv != e.Run.Invocation {
		r.applied[e.Run.Work] = applied{e.Run.Invocation, e.Kind == Real}
	}
	r.step(StatusCommitted{e.Run, e.Kind})
}

func (r *rig) mayRun(job string) HoldReason {
	h, _ := r.l.MayRun(r.now, Request{Work: Work{job, "n"}})
	return h.Reason
}

// members returns the rows that stand in the store, as text.
func (r *rig) members() string {
	m := map[Proc]Member{}
	for _, row := range r.rows {
		switch row := row.(type) {
		case PutMember:
			m[row.Member.Proc] = row.Member
		case DeleteMember:
			delete(m, row.Proc)
		}
	}
	var out []string
	for p, row := range m {
		text := fmt.Sprint(p, ":", row.Promise)
		if row.Displaced {
			text += ":displaced"
		}
		out = append(out, text)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func consensus(c *Config) { c.Witness = WitnessConsensus }

// setOf is the set that the leader of an earlier term gave at a version.
func setOf(revision int64, version uint64, procs ...string) workerset.ID {
	id := workerset.ID{Leader: fence.Term{Epoch: 1, Revision: revision}, Version: version}
	for _, p := range procs {
		id.Hash = id.Hash.Add(p)
	}
	return id
}

func member(p Proc, c CellName, n int64) Member {
	dirID := string(c)
	if _, f, ok := strings.Cut(string(p), "@"); ok {
		dirID = f
	}
	return Member{Proc: p, Cell: c, DirID: dirID, Started: n, Boot: "boot-" + dirID, Promise: 86 * sec}
}

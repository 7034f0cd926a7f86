package worker

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"cantina/fence"
	"cantina/internal/draw"
	"cantina/internal/history"
)

// generator prints the decisions of leaders and cells in a random history: messages are late, lost and doubled,
// processes restart, stores go back.
type generator struct {
	t       *testing.T
	rng     *rand.Rand
	out     strings.Builder
	now     time.Duration
	cfg     Config // of the next leader
	l       *Leader
	peers   []*peer // the processes, old ones too
	flight  []letter
	pending []Output
	members map[Proc]Member
	applied map[Work]applied
	kills   map[Run]bool
	runs    []Run
}

// peer is a process of a cell.
type peer struct {
	c     *Cell
	cfg   CellConfig
	beats Heartbeat // the newest
	calls int
}

// letter is an event on its way, to a cell or to the leader.
type letter struct {
	to   *peer
	down CellEvent
	up   Event
}

// LastApplied and KillStored are Statuses.
func (w *generator) LastApplied(x Work) (fence.Invocation, bool) {
	return w.applied[x].inv, w.applied[x].real
}
func (w *generator) KillStored(x Run) bool { return w.kills[x] }

func (w *generator) in(n int) bool { return w.rng.IntN(n) == 0 }

func (w *generator) printf(format string, args ...any) { fmt.Fprintf(&w.out, format+"\n", args...) }

// TestHistories compares the decisions of leaders and cells with a stored text.
func TestHistories(t *testing.T) {
	book := history.Open(t, "testdata/histories.txt")
	for n := range 80 {
		rng := rand.New(rand.NewPCG(uint64(n), 13))
		w := &generator{t: t, rng: rng, now: 1000 * sec, members: map[Proc]Member{}, applied: map[Work]applied{},
			kills: map[Run]bool{}}
		w.cfg = Config{Term: term5, Timeouts: draw.One(rng, DefaultTimeouts(), searchTimeouts(), searchTimeouts()),
			Witness:  draw.One(rng, WitnessList, WitnessConsensus),
			NewStore: true, NewCluster: !w.in(4), AllowBump: w.in(3), TurnoverLimit: rng.IntN(3), Statuses: w,
			Cluster: draw.One[fence.Cluster](rng, "", "ours"), Unix: draw.One[int64](rng, 0, 1<<30)}
		if w.in(6) {
			w.cfg.NoDeadline, w.cfg.Own = true, "d0"
			w.cfg.Known = func(id string) bool { return id == "web-0" }
		}
		w.lead()
		for i := range 1 + rng.IntN(4) {
			w.join(CellName(fmt.Sprint("c", i)), fmt.Sprint("d", i), 1, nil)
		}
		for range 150 {
			w.something()
		}
		book.Check(t, fmt.Sprintf("sessions-%02d", n), w.out.String())
	}
	book.Close(t)
}

// lead begins the next term on the stored state.
func (w *generator) lead() {
	w.cfg.Now = w.now
	w.cfg.Members = nil
	for _, p := range slices.Sorted(maps.Keys(w.members)) {
		w.cfg.Members = append(w.cfg.Members, w.members[p])
	}
	l, err := NewLeader(w.cfg)
	if err != nil {
		w.printf("no leader: %v", err)
		w.cfg.Alone = false
		return
	}
	w.l, w.pending = l, nil
	w.printf("leader of %v: %+v %+v", w.cfg.Term, w.cfg.Members, w.cfg.List)
	w.submit(l.Start())
}

// next is another leader, which has seen the store as it is, or as it was.
func (w *generator) next() {
	w.cfg.Term.Revision += 1 + int64(w.rng.IntN(3))
	w.cfg.NewStore, w.cfg.NewCluster, w.cfg.InitialWait = false, !w.in(6), draw.One(w.rng, 0, 0, 0, 5*sec)
	w.cfg.Jobs, w.cfg.HeldNodes = draw.One(w.rng, nil, []JobRow{{Name: "a"}}, []JobRow{{Name: "a"}, {Name: "b"}}),
		draw.One(w.rng, nil, []string{"gate"})
	w.cfg.Restored = w.in(8)
	switch w.rng.IntN(12) {
	case 0:
		w.cfg.Term.Epoch++
		w.cfg.List.Version -= min(w.cfg.List.Version, 2)
	case 1:
		w.cfg.List.Version -= min(w.cfg.List.Version, 1)
	case 2:
		for _, p := range slices.Sorted(maps.Keys(w.members)) {
			delete(w.members, p)
			break
		}
	case 3:
		w.cfg.Witness = WitnessConsensus - w.cfg.Witness
	}
	w.lead()
}

// join begins a process on a directory, which may adopt the work of the one before it.
func (w *generator) join(cell CellName, dir string, started int64, before *peer) {
	c := CellConfig{Cell: cell, Proc: Proc(fmt.Sprint("p", len(w.peers))), Started: started, DirID: dir, Boot: "boot",
		Now: w.now, Timeouts: w.cfg.Timeouts, Gone: !w.in(3), Unix: w.cfg.Unix}
	if before != nil {
		k := before.c.Kept()
		c.Predecessor, c.Cluster, c.SetID, c.Epoch = k.Proc, k.Cluster, k.SetID, k.Epoch
		if w.in(5) {
			c.Boot = fmt.Sprint("boot", w.rng.IntN(2))
		} else {
			c.Adopted, c.Deadline, c.Promise = before.c.Held(), k.Deadline, k.Promise
		}
	}
	p := &peer{c: NewCell(c), cfg: c}
	w.peers = append(w.peers, p)
	w.printf("process %+v", c)
	w.cell(p, CellTick{})
}

// up gives the leader an event.
func (w *generator) up(e Event) {
	out, err := w.l.Step(w.now, e)
	w.printf("leader %T%+v: %v", e, e, err)
	w.submit(out)
	if err == ErrDeposed {
		w.next()
	}
}

func (w *generator) submit(out Output) {
	atOnce, after, commit := out.Split()
	for _, e := range atOnce {
		w.printf("  %T%+v at once", e, e)
		w.effect(e)
	}
	if !commit {
		return
	}
	out.Effects = after
	w.pending = append(w.pending, out)
	for len(w.pending) > 0 && !w.in(6) {
		w.commit()
	}
}

// commit makes the oldest Output durable and performs it.
func (w *generator) commit() {
	if len(w.pending) == 0 {
		return
	}
	out := w.pending[0]
	w.pending = w.pending[1:]
	for _, r := range out.Rows {
		w.printf("  row %T%+v", r, r)
		switch r := r.(type) {
		case PutMember:
			w.members[r.Member.Proc] = r.Member
		case DeleteMember:
			delete(w.members, r.Proc)
		case PutList:
			w.cfg.List = r.ID
		case PutAlone:
			w.cfg.Alone = w.cfg.NoDeadline
		}
	}
	for _, e := range out.Effects {
		w.printf("  %T%+v", e, e)
		w.effect(e)
	}
	w.flight = append(w.flight, letter{up: Committed{out.Seq}})
}

func (w *generator) effect(e Effect) {
	switch e := e.(type) {
	case AnswerBeat:
		w.down(e.Answer.Proc, BeatAnswered(e))
	case AnswerStatus:
		w.down(e.Answer.Proc, StatusAnswered(e))
	case SendReportRequest:
		w.down(e.Call.Proc, ReportAsked{e.Call})
	case SendRun:
		w.down(e.Call.Proc, RunAsked{e.Call})
	case SendNotify:
		w.down(e.Call.Proc, NotifyAsked{e.Call})
	case SendKill:
		w.down(e.Call.Proc, KillAsked{e.Call})
	case SendSuicide:
		w.down(e.Call.Proc, SuicideAsked{e.Call})
	case Ended:
		w.flight = append(w.flight, letter{up: StatusCommitted{e.Run, e.Kind}})
	}
}

func (w *generator) down(proc Proc, e CellEvent) {
	for _, p := range w.peers {
		if p.c.Proc() == proc {
			w.flight = append(w.flight, letter{to: p, down: e})
		}
	}
}

// cell gives a cell an event.
func (w *generator) cell(p *peer, e CellEvent) {
	due, before := p.c.Due(w.now), p.c.State()
	effects := p.c.Step(w.now, e)
	if _, ok := e.(CellTick); ok && (w.now >= due) != (len(effects) > 0 || p.c.State() != before) {
		w.t.Errorf("a tick at %v, due at %v: from %v to %v, effects %v", w.now, due, before, p.c.State(), effects)
	}
	w.printf("%s of %s %T%+v", p.c.Proc(), p.cfg.Cell, e, e)
	for _, f := range effects {
		w.printf("  %T%+v", f, f)
		w.cellEffect(p, f)
	}
}

func (w *generator) cellEffect(p *peer, e CellEffect) {
	send := func(e Event) { w.flight = append(w.flight, letter{up: e}) }
	switch e := e.(type) {
	case SendBeat:
		p.beats = e.Beat
		send(BeatReceived{e.Beat, !w.in(12)})
	case SendStatus:
		send(StatusReceived(e))
	case AnswerReport:
		e.Report.Alive = draw.One(w.rng, nil, []Alive{{ID: "web-0"}}, []Alive{{ID: "other-0"}, {ID: "web-0"}})
		send(ReportReceived(e))
	case AnswerRun:
		send(RunAnswered(e))
	case AnswerNotify:
		send(NotifyAnswered(e))
	case StartProbe:
		w.flight = append(w.flight, letter{to: p, down: ProbeEnded{e.Probe, !w.in(3), "no room"}})
	case StopWork:
		w.flight = append(w.flight, letter{to: p, down: WorkEnded{e.Run, "stopped"}})
	case EndBound, EndAll:
		for _, h := range p.c.Held() {
			w.flight = append(w.flight, letter{to: p, down: WorkEnded{h.Run, "killed"}})
		}
	case NewSession:
		p.calls++
		w.flight = append(w.flight, letter{to: p, down: SessionBegun{Proc(fmt.Sprint(p.cfg.Proc, "s", p.calls)),
			p.cfg.Started + int64(p.calls)}})
	}
}

// deliver lets a letter arrive.
func (w *generator) deliver(x letter) {
	if x.to != nil {
		w.cell(x.to, x.down)
		return
	}
	if c, ok := x.up.(StatusCommitted); ok {
		if last := w.applied[c.Run.Work]; c.Kind == Real || last.inv.Compare(c.Run.Invocation) < 0 {
			w.applied[c.Run.Work] = applied{c.Run.Invocation, c.Kind == Real}
		}
	}
	w.up(x.up)
}

// mail delivers the letters on their way, most of them in order.
func (w *generator) mail() {
	for range 60 {
		if len(w.flight) == 0 {
			return
		}
		i := 0
		if w.in(5) {
			i = w.rng.IntN(len(w.flight))
		}
		x := w.flight[i]
		_, durable := x.up.(Committed)
		switch n := w.rng.IntN(24); {
		case n == 0 && !durable: // lost
			w.lost(x)
		case n == 1: // doubled
			w.deliver(x)
			continue
		case n == 2:
			return
		default:
			w.deliver(x)
		}
		if i < len(w.flight) {
			w.flight = slices.Delete(w.flight, i, i+1)
		}
	}
}

// lost reports to the sender of a letter that there is no answer.
func (w *generator) lost(x letter) {
	switch e := x.down.(type) {
	case RunAsked:
		if e.Call.Probe == 0 {
			w.up(RunAnswered{RunAnswer{e.Call.Term, e.Call.Proc, e.Call.Run, draw.One(w.rng, RunUnknown, RunNeverSent),
				"no route"}})
		}
	case NotifyAsked:
		w.up(NotifyAnswered{NotifyAnswer{e.Call.Term, e.Call.Proc, e.Call.Seq, false}})
	}
	switch e := x.up.(type) {
	case BeatReceived:
		for _, p := range w.peers {
			if p.c.Proc() == e.Beat.Proc {
				w.cell(p, BeatFailed{e.Beat.Beat})
			}
		}
	case StatusReceived:
		w.cell(w.peer(), StatusFailed{})
	}
}

// peer draws a process, a new one rather than an old one.
func (w *generator) peer() *peer {
	return w.peers[max(w.rng.IntN(len(w.peers)), w.rng.IntN(len(w.peers)))]
}

func (w *generator) run() Run {
	if len(w.runs) == 0 || w.in(12) {
		return Run{Work{"a", "n"}, fence.Invocation{Term: w.cfg.Term, Counter: int64(w.rng.IntN(4))}}
	}
	return w.runs[w.rng.IntN(len(w.runs))]
}

// something happens.
func (w *generator) something() {
	switch n := w.rng.IntN(40); {
	case n < 14:
		w.pass(draw.One(w.rng, sec/2, sec, sec, 3*sec, w.cfg.Timeouts.Lost))
	case n < 21:
		w.start()
	case n < 23:
		x := w.run()
		for _, p := range w.peers {
			w.cell(p, WorkEnded{x, "done"})
		}
	case n < 25:
		x := w.run()
		w.kills[x] = true
		w.up(KillWanted{x})
	case n < 27:
		w.commit()
	case n < 29:
		w.wrongBeat()
	case n == 29:
		w.next()
	case n == 30:
		p := w.peer()
		dir, cell := p.cfg.DirID, p.cfg.Cell
		if w.in(3) {
			dir = fmt.Sprint("x", len(w.peers))
		}
		w.join(cell, dir, p.cfg.Started+int64(w.rng.IntN(4)), p)
	case n == 31:
		w.up(draw.One[Event](w.rng, Forget{w.peer().c.Proc(), "eva"}, EndWait{"eva"}, AdoptWanted{w.peer().cfg.Cell, "eva"}))
	case n == 32:
		w.wrongWord()
	case n < 36:
		w.cell(w.peer(), draw.One[CellEvent](w.rng, LinkBroken{}, StateChanged{}, PredecessorsCleared{}, BoundCount{1, 0, 0},
			BoundCount{1, 1, 0}, BoundCount{0, 0, 2}, BoundCount{}, LeaveAsked{}))
	default:
		for _, p := range w.peers {
			w.cell(p, LinkBroken{})
		}
	}
	w.mail()
	w.look()
}

// pass lets time pass, in one step or in several.
func (w *generator) pass(by time.Duration) {
	step := draw.One(w.rng, by, w.cfg.Timeouts.Check, w.cfg.Timeouts.Check)
	for end := w.now + by; w.now < end; {
		w.now = min(w.now+step, end)
		w.up(Tick{LeaseHeld: !w.in(10)})
		for _, p := range w.peers {
			if !w.in(8) {
				w.cell(p, CellTick{})
			}
		}
		w.mail()
	}
}

func (w *generator) start() {
	r := Request{Work: Work{draw.One(w.rng, "a", "b", "c"), draw.One(w.rng, "n", "m")},
		Nodes: draw.One(w.rng, nil, []string{"gate"}), Cell: w.peer().cfg.Cell}
	hold, ok := w.l.MayStart(w.now, r)
	next := w.l.NextInvocation()
	inv, out, err := w.l.RunBatch(w.now, r)
	w.printf("start %+v: %+v %v, next %v, %v %v", r, hold, ok, next, inv, err)
	if err == nil {
		w.runs = append(w.runs, Run{r.Work, inv})
	}
	w.submit(out)
}

// wrongBeat sends a heartbeat with a field changed.
func (w *generator) wrongBeat() {
	p := w.peer()
	h := p.beats
	if h.Proc == "" {
		return
	}
	h.Beat += draw.One[int64](w.rng, 0, 0, 1, -1)
	switch w.rng.IntN(14) {
	case 0:
		h.Protocol++
	case 1:
		h.Term.Revision++
	case 2:
		h.Term.Epoch += draw.One[int64](w.rng, 1, 1<<31)
	case 3:
		h.Cell = w.peer().cfg.Cell
	case 4:
		h.DirID = w.peer().cfg.DirID
	case 5:
		h.Started += draw.One[int64](w.rng, -1, 1)
	case 6:
		h.Proc = draw.One(w.rng, "stranger", w.peer().c.Proc())
	case 7:
		h.HasWork = !h.HasWork
	case 8:
		h.SetID.Version += uint64(w.rng.IntN(3))
		h.SetID.Leader = draw.One(w.rng, h.SetID.Leader, w.cfg.List.Leader, fence.Term{Epoch: w.cfg.Term.Epoch})
	case 9:
		h.Promise = draw.One(w.rng, 0, h.Promise+sec, h.Promise-sec, 90*sec)
	case 10:
		h.PredecessorsGone = !h.PredecessorsGone
	case 11:
		h.Boot = draw.One(w.rng, "boot0", "boot1")
	case 12:
		h.Cluster = draw.One[fence.Cluster](w.rng, "", "ours", "theirs")
	case 13:
		h.Deregister, h.HasWork, h.Epoch = w.in(2), w.in(2), draw.One(w.rng, h.Epoch, 0)
	}
	w.up(BeatReceived{h, true})
}

// wrongWord sends a message about a fact that is not true, or no more.
func (w *generator) wrongWord() {
	p, x, term := w.peer(), w.run(), draw.One(w.rng, w.cfg.Term, w.cfg.Term, term5, fence.Term{})
	cluster := draw.One[fence.Cluster](w.rng, "", "ours")
	switch w.rng.IntN(8) {
	case 0:
		w.up(RunAnswered{RunAnswer{term, p.c.Proc(), x, RunResult(w.rng.IntN(5)), "so"}})
	case 1:
		w.up(StatusReceived{UpdateStatus{cluster, term, p.cfg.Cell, p.c.Proc(),
			[]StatusItem{{Kind: StatusKind(w.rng.IntN(3)), Run: x, Status: "so", Probe: 1}}}})
	case 2:
		w.up(NotifyAnswered{NotifyAnswer{term, p.c.Proc(), int64(w.rng.IntN(3)), true}})
	case 3:
		w.up(ReportReceived{Report{Term: term, Proc: p.c.Proc(), PredecessorsGone: w.in(2),
			Held: []Held{{Run: x, Ended: w.in(2)}}}})
	case 4:
		w.cell(p, KillAsked{KillTask{term, w.peer().c.Proc(), x}})
	case 5:
		w.cell(p, StatusAnswered{StatusAnswer{term, w.peer().c.Proc(), StatusKind(w.rng.IntN(3)), x, int64(w.rng.IntN(3)),
			w.in(2)}})
	case 6:
		w.cell(p, SuicideAsked{Suicide{term, w.peer().c.Proc(), w.in(4)}})
	case 7:
		w.cell(p, draw.One[CellEvent](w.rng, CallHeard{term}, Addressed{cluster, w.peer().c.Proc()},
			EndsCollected{[]WorkEnded{{x, "so"}}}, BeatFailed{p.beats.Beat}))
	}
}

// look prints the answers of both ends.
func (w *generator) look() {
	for _, v := range w.l.Sessions(w.now) {
		live, joining := w.l.MayLive(v.Cell)
		w.printf("  %+v back %v, dead %v, may live %v %v", v, w.l.IsBack(v.Proc), w.l.IsDead(v.Proc), live, joining)
	}
	w.printf("  %+v %+v adopted %d, idle %v, refused %d", w.l.Wait(w.now), w.l.Model(), w.l.Adopted(), w.l.Idle("a"),
		w.l.RefusedTerms())
	for _, p := range w.peers {
		hold, _ := w.l.MayReceive(p.cfg.Cell)
		w.printf("  %s %v %v: %+v %v, overdue %v, live %d; %v", p.c.Proc(), p.c.State(), p.c.Term(), p.c.Kept(),
			p.c.Accepts(w.now), p.c.Overdue(w.now), p.c.work.live(), hold)
	}
}

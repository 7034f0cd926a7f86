package worker

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"cantina/fence"
	"cantina/workerset"
)

// The world of the exhaustive search: two cells, one or two batch tasks, a leader that
// may restart, messages in flight. Commits succeed at once, and beats and their answers
// arrive at once unless the budget has late ones; all other messages fly.

// msg is a message in flight. One of the events is set.
type msg struct {
	cell int // the cell it goes to or comes from
	down CellEvent
	up   Event
}

func (m msg) String() string {
	if m.down != nil {
		return fmt.Sprintf("%T to cell %d", m.down, m.cell)
	}
	return fmt.Sprintf("%T of cell %d", m.up, m.cell)
}

// same reports that two messages are the same in every field.
func (m msg) same(o msg) bool {
	if m.cell != o.cell {
		return false
	}
	switch m.down.(type) {
	case RunAsked, StatusAnswered, SuicideAsked:
		return m.down == o.down
	}
	switch m.up.(type) {
	case RunAnswered, NotifyAnswered:
		return m.up == o.up
	}
	return reflect.DeepEqual(m, o)
}

// node is one state of the search. Its objects belong to it only where own is set; it shares the rest with its
// predecessor.
type node struct {
	now    time.Duration
	term   int64
	leader *Leader
	cells  [2]*Cell
	own    struct {
		leader, members bool
		cells           [2]bool
	}
	alive  [2][]Run // containers
	dead   [2]time.Duration
	paused [2]bool
	flight []msg
	out    []msg     // left out of the flight on the way here, the newest; only TestInert asks
	procs  []session // by number: of "p0", "p1" …
	store  searchStore
	budget budget
	path   *step
	late   bool // answers of this exchange fly
	beats  bool // the next heartbeat reaches the leader
	err    string
}

// session is the cell of a process id, and its place on the directory.
type session struct {
	cell    int
	started int64
}

// budget is how much may still go wrong.
type budget struct {
	tasks                                                int // wanted: 0 = 1
	lose, twice, late, calls, restart, pause, time, kill int
}

// budgetParts are the names of the parts of a budget, in the order of parts.
var budgetParts = []string{"tasks", "lose", "twice", "late", "calls", "restart", "pause", "time", "end"}

func (b *budget) parts() []*int {
	return []*int{&b.tasks, &b.lose, &b.twice, &b.late, &b.calls, &b.restart, &b.pause, &b.time, &b.kill}
}

func (b budget) String() string {
	b.tasks = max(1, b.tasks)
	var out []string
	for i, n := range b.parts() {
		if *n > 0 {
			out = append(out, fmt.Sprint(budgetParts[i], " ", *n))
		}
	}
	return strings.Join(out, ", ")
}

// parseBudget reads the output of String.
func parseBudget(text string) (b budget, err error) {
	for part := range strings.SplitSeq(text, ", ") {
		name, n, _ := strings.Cut(part, " ")
		i := slices.Index(budgetParts, name)
		if i < 0 {
			return b, fmt.Errorf("no part %q of a budget: want some of %v", name, budgetParts)
		}
		if *b.parts()[i], err = strconv.Atoi(n); err != nil {
			return b, err
		}
	}
	return b, nil
}

type searchStore struct {
	members map[Proc]Member
	list    workerset.ID
	last    [2]applied
}

// LastApplied and KillStored are Statuses.
func (n *node) LastApplied(w Work) (fence.Invocation, bool) {
	a := n.store.last[number(w)]
	return a.inv, a.real
}
func (n *node) KillStored(Run) bool { return false }

// theWorks are the batch tasks of the search; number is the place of one.
func theWorks() [2]Work { return [2]Work{{"job", "n"}, {"job", "m"}} }

func number(w Work) int {
	if w.Node == "n" {
		return 0
	}
	return 1
}

// procNumber is the number in the name that the search gives a process.
func procNumber(p Proc) int {
	n, err := strconv.Atoi(string(p[1:]))
	if err != nil {
		panic(err)
	}
	return n
}

func searchTimeouts() Timeouts {
	return Timeouts{Heartbeat: sec, HeartbeatGrace: sec, Healthcheck: sec, HealthcheckGrace: 2 * sec, Check: sec / 2,
		Lost: 2 * sec, KillWait: sec / 2, Margin: sec / 2, DriftPerMille: 10, MaxDiesWithin: 7 * sec, Lease: sec,
		KeepAlive: sec / 4, LeaseDrift: sec / 4}
}

// tick is how often deadlines are looked at while time passes: a leader that is late
// by more than two check intervals would leave the time out.
const tick = 850 * time.Millisecond

// world performs the effects of the machines of a node.
type world struct {
	t testing.TB
	// never is nil, or selects effects of the leader that always get lost: a planted fault.
	never func(Effect) bool
}

func (s *world) leaderConfig(n *node) Config {
	c := Config{Term: fence.Term{Epoch: 1, Revision: n.term}, Now: n.now, Timeouts: searchTimeouts(), List: n.store.list,
		NewCluster: true, Statuses: n}
	for _, m := range n.store.members {
		c.Members = append(c.Members, m)
	}
	if n.term > 1 {
		c.Jobs = []JobRow{{Name: "job"}}
	}
	return c
}

// start brings two cells to HEALTHY without faults.
func (s *world) start(b budget) *node {
	n := &node{now: 100 * sec, term: 1, store: searchStore{members: map[Proc]Member{}}}
	s.lead(n)
	for i := range n.cells {
		n.procs = append(n.procs, session{i, 1})
		n.cells[i] = NewCell(CellConfig{Cell: CellName(fmt.Sprint("c", i)), Proc: Proc(fmt.Sprint("p", i)), Started: 1,
			DirID: fmt.Sprint("f", i), Boot: "b", Now: n.now, Timeouts: searchTimeouts(), Gone: true})
		n.own.cells[i] = true
	}
	for range 8 {
		for i := range n.cells {
			s.contact(n, i)
		}
		n.now += sec / 4
		s.up(n, Tick{LeaseHeld: true})
	}
	for i, c := range n.cells {
		if c.Accepts(n.now) != nil {
			s.t.Fatalf("cell %d does not get on its feet: %v", i, c.Accepts(n.now))
		}
	}
	n.budget = b
	return n
}

func (s *world) lead(n *node) {
	l, err := NewLeader(s.leaderConfig(n))
	if err != nil {
		s.t.Fatal(err)
	}
	n.leader, n.own.leader = l, true
	s.perform(n, l.Start())
}

// up gives the leader an event; its commits succeed at once.
func (s *world) up(n *node, e Event) {
	if n.leader == nil {
		return
	}
	if out, err := n.ownLeader().Step(n.now, e); err == nil {
		s.perform(n, out)
	}
}

// mayStart reports whether task w may be started on cell i.
func (s *world) mayStart(n *node, w, i int) bool {
	l := n.leader
	if l == nil || len(l.batch.model.byWork[theWorks()[w]]) > 0 {
		return false
	}
	_, ok := l.MayStart(n.now, Request{Work: theWorks()[w], Cell: n.cells[i].cfg.Cell})
	return ok
}

func (s *world) startWork(n *node, w, i int) {
	_, out, err := n.ownLeader().RunBatch(n.now, Request{Work: theWorks()[w], Cell: n.cells[i].cfg.Cell})
	if err == nil {
		s.perform(n, out)
	}
}

func (s *world) perform(n *node, out Output) {
	if out.Seq == 0 {
		return
	}
	if len(out.Rows) > 0 && !n.own.members {
		n.store.members, n.own.members = maps.Clone(n.store.members), true
	}
	for _, r := range out.Rows {
		switch r := r.(type) {
		case PutMember:
			n.store.members[r.Member.Proc] = r.Member
		case DeleteMember:
			delete(n.store.members, r.Proc)
		case PutList:
			n.store.list = r.ID
		}
	}
	for _, e := range out.Effects {
		s.effect(n, e)
	}
	s.up(n, Committed{out.Seq})
}

func (s *world) effect(n *node, e Effect) {
	if s.never != nil && s.never(e) {
		return
	}
	switch e := e.(type) {
	case AnswerBeat:
		s.answerBeat(n, e.Answer)
	case AnswerStatus:
		s.down(n, e.Answer.Proc, StatusAnswered(e))
	case SendRun:
		s.down(n, e.Call.Proc, RunAsked{e.Call})
	case SendNotify:
		s.down(n, e.Call.Proc, NotifyAsked{e.Call})
	case SendSuicide:
		s.down(n, e.Call.Proc, SuicideAsked{e.Call})
	case Ended:
		if w := number(e.Run.Work); e.Kind == Real || n.store.last[w].inv != e.Run.Invocation {
			n.store.last[w] = applied{e.Run.Invocation, e.Kind == Real}
		}
		s.up(n, StatusCommitted{e.Run, e.Kind})
	case EndTerm:
		n.leader = nil
	}
}

func (s *world) answerBeat(n *node, a HeartbeatAnswer) {
	for i, c := range n.cells {
		switch {
		case c.proc != a.Proc:
		case n.late:
			n.fly(msg{cell: i, down: BeatAnswered{a}})
		default:
			s.cell(n, i, BeatAnswered{a})
		}
	}
}

// down puts a message to a cell in flight. Probes succeed at once where the agent runs, and their answers are no
// messages in flight.
func (s *world) down(n *node, p Proc, e CellEvent) {
	for i, c := range n.cells {
		if c.proc != p {
			continue
		}
		if a, ok := e.(StatusAnswered); ok && a.Answer.Kind == StatusProbe {
			s.cell(n, i, e)
			return
		}
		if r, ok := e.(RunAsked); ok && r.Call.Probe > 0 {
			if !n.paused[i] {
				s.cell(n, i, r)
				s.cell(n, i, ProbeEnded{Probe: r.Call.Probe, OK: true})
				s.probed(n, i)
			}
			return
		}
		n.fly(msg{cell: i, down: e})
	}
}

// probed reports to the leader of a probe that the cell has answered, once the leader is ready for it.
func (s *world) probed(n *node, i int) {
	c := n.cells[i]
	if n.leader == nil || n.paused[i] {
		return
	}
	if p := n.leader.procs[c.proc]; p == nil || !p.reported || c.term != n.leader.cfg.Term {
		return
	}
	for _, o := range c.outbox.notes {
		if o.item.Kind == StatusProbe {
			s.up(n, StatusReceived{UpdateStatus{Term: c.term, Cell: c.cfg.Cell, Proc: c.proc, Items: []StatusItem{o.item}}})
			return
		}
	}
}

// fly puts a message in flight, unless the same one is.
func (n *node) fly(m msg) {
	if !slices.ContainsFunc(n.flight, m.same) {
		n.flight = append(n.flight, m)
	}
}

// exchange makes cell i beat now, or answer the leader's question for its list.
// The answer arrives at once, or flies.
func (s *world) exchange(n *node, i int, report, late bool) {
	n.late = late
	if report {
		s.cell(n, i, ReportAsked{ReportRequest{n.leader.Term(), n.cells[i].proc}})
	} else {
		n.beats = true
		s.cell(n, i, LinkBroken{})
		n.beats = false
	}
	n.late = false
	s.probed(n, i)
}

// asks reports that the leader asks cell i for its list.
func (n *node) asks(i int) bool {
	if n.leader == nil {
		return false
	}
	p := n.leader.holders[n.cells[i].cfg.Cell]
	return p != nil && p.row.Proc == n.cells[i].proc && p.health.State == New && p.connected
}

// contact is a beat, and a report if it is asked for.
func (s *world) contact(n *node, i int) {
	if n.leader == nil || n.paused[i] || n.cells[i].renewing || n.cells[i].ended {
		return
	}
	s.exchange(n, i, false, false)
	if n.asks(i) {
		s.exchange(n, i, true, false)
	}
}

func (s *world) cell(n *node, i int, e CellEvent) {
	for _, f := range n.ownCell(i).Step(n.now, e) {
		s.cellEffect(n, i, f)
	}
}

func (s *world) cellEffect(n *node, i int, e CellEffect) {
	switch e := e.(type) {
	case SendBeat:
		if n.beats {
			n.beats = false
			s.up(n, BeatReceived{e.Beat, true})
		}
	case SendStatus:
		items := slices.DeleteFunc(slices.Clone(e.Update.Items), func(it StatusItem) bool { return it.Kind == StatusProbe })
		if e.Update.Items = items; len(items) > 0 {
			n.fly(msg{cell: i, up: StatusReceived(e)})
		}
	case AnswerReport:
		if n.late {
			n.fly(msg{cell: i, up: ReportReceived(e)})
		} else {
			s.up(n, ReportReceived(e))
		}
	case AnswerRun:
		n.fly(msg{cell: i, up: RunAnswered(e)})
	case AnswerNotify:
		n.fly(msg{cell: i, up: NotifyAnswered(e)})
	case Launch:
		s.launch(n, i, e.Run)
	case EndBound, EndAll:
		s.end(n, i)
	case SetDeadline:
		n.dead[i] = e.At
	case NewSession:
		started := n.started(i) + 1
		p := Proc(fmt.Sprint("p", len(n.procs)))
		n.procs = append(slices.Clip(n.procs), session{i, started})
		s.cell(n, i, SessionBegun{p, started})
	}
}

// started is the place of cell i's present session on its directory.
func (n *node) started(i int) int64 { return n.procs[procNumber(n.cells[i].proc)].started }

// launch starts a container: never two of one task.
func (s *world) launch(n *node, i int, r Run) {
	for j := range n.cells {
		for _, o := range n.alive[j] {
			if o.Work == r.Work {
				n.err = fmt.Sprintf("%v starts on cell %d while %v is alive on cell %d", r.Invocation, i, o.Invocation, j)
			}
		}
	}
	n.alive[i] = append(slices.Clip(n.alive[i]), r)
}

func (s *world) end(n *node, i int) {
	for len(n.alive[i]) > 0 {
		s.endOne(n, i, 0)
	}
}

func (s *world) endOne(n *node, i, k int) {
	r := n.alive[i][k]
	n.alive[i] = slices.Delete(slices.Clone(n.alive[i]), k, k+1)
	if !n.paused[i] {
		s.cell(n, i, WorkEnded{r, "killed"})
	}
}

func (s *world) deliver(n *node, m msg) {
	if m.up == nil {
		s.cell(n, m.cell, m.down)
		return
	}
	s.up(n, m.up)
	s.probed(n, m.cell)
}

// pass lets time pass by some ticks: the leader first, then reapers and agents, those of one cell after those of
// the other. The selected cells send heartbeats. Each second tick every call without an answer times out.
func (s *world) pass(n *node, ticks int, beat [2]bool, order [2]int) {
	for k := range ticks {
		n.now += tick
		s.up(n, Tick{LeaseHeld: true})
		for _, i := range order {
			if n.dead[i] > 0 && n.now >= n.dead[i] {
				s.end(n, i)
			}
			if !n.paused[i] {
				s.cell(n, i, CellTick{})
			}
			if beat[i] {
				s.contact(n, i)
			}
		}
		if k%2 == 1 {
			s.giveUp(n)
		}
	}
}

// giveUp lets every call of the leader without an answer time out.
func (s *world) giveUp(n *node) {
	if n.leader == nil || len(n.leader.batch.model.byRun) == 0 {
		return
	}
	for _, e := range n.leader.batch.model.sorted() {
		if !e.sure && !e.ending {
			s.up(n, RunAnswered{RunAnswer{Term: n.leader.Term(), Proc: e.on.row.Proc, Run: e.run}})
		}
	}
}

// resume lets a paused agent go on: it gets the ends that have come meanwhile.
func (s *world) resume(n *node, i int) {
	n.paused[i] = false
	for _, h := range n.cells[i].Held() {
		if !h.Ended && !slices.Contains(n.alive[i], h.Run) {
			s.cell(n, i, WorkEnded{h.Run, "killed"})
		}
	}
	s.cell(n, i, CellTick{})
}

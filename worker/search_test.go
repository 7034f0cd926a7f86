package worker

import (
	"fmt"
	"hash/fnv"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"cantina/fence"
	"cantina/workerset"
)

// The exhaustive search: two cells, one or two batch tasks, a leader that may restart, at
// most four messages in flight, each delivered in any order, lost or doubled; an
// agent that may be paused; time as a few ordered steps, each long enough for a
// time-out. Every state that these choices reach from the start, within the
// budgets, is visited once: no task is ever alive twice. The cells begin alike, so the
// first task starts on cell 0: what begins on cell 1 is the same with the names exchanged.

// msg is a message in flight. At most one of the events is set.
type msg struct {
	cell int // the cell it goes to or comes from
	down CellEvent
	up   Event
}

// node is one state of the search.
type node struct {
	now    time.Duration
	term   int64
	leader *Leader // nil while nobody leads
	cells  [2]*Cell
	alive  [2][]Run // containers
	dead   [2]time.Duration
	paused [2]bool
	flight []msg
	procs  int
	starts [2]int64
	store  searchStore
	budget budget
	path   []string
	beside bool // the second task begins on the cell of the first
	late   bool // answers of this exchange fly
	beats  bool // the next heartbeat reaches the leader
	err    string
}

// budget is how much may still go wrong.
type budget struct {
	tasks                                                int // wanted: 0 = 1
	lose, twice, late, calls, restart, pause, time, kill int
}

type searchStore struct {
	members map[Proc]Member
	list    workerset.ID
	last    [2]applied
	done    [2]bool
}

// LastApplied and KillStored are Statuses.
func (n *node) LastApplied(w Work) (fence.Invocation, bool) {
	a := n.store.last[number(w)]
	return a.inv, a.real
}
func (n *node) KillStored(Run) bool { return false }

// theWorks are the batch tasks of the search; number is the place of one.
func theWorks() [2]Work { return [2]Work{{"job", "n"}, {"job", "m"}} }

func number(w Work) int { works := theWorks(); return slices.Index(works[:], w) }

func searchTimeouts() Timeouts {
	return Timeouts{Heartbeat: sec, HeartbeatGrace: sec, Healthcheck: sec, HealthcheckGrace: 2 * sec, Check: sec / 2,
		Lost: 2 * sec, KillWait: sec / 2, Margin: sec / 2, DriftPerMille: 10, MaxDiesWithin: 7 * sec, Lease: sec,
		KeepAlive: sec / 4, LeaseDrift: sec / 4}
}

// quantum is one step of time: two of them are longer than the heartbeat gap,
// three longer than the leader's time-out, four longer than a promise with its margin.
const quantum = 1700 * time.Millisecond

type search struct {
	t       *testing.T
	m       Mistakes
	seen    map[uint64]bool
	stack   []*node
	visited int
	found   string
}

func (s *search) leaderConfig(n *node) Config {
	c := Config{Term: fence.Term{Epoch: 1, Revision: n.term}, Now: n.now, Timeouts: searchTimeouts(), List: n.store.list,
		NewCluster: true, Statuses: n, Mistakes: s.m}
	for _, m := range n.store.members {
		c.Members = append(c.Members, m)
	}
	if n.term > 1 {
		c.Jobs = []JobRow{{Name: "job"}}
	}
	return c
}

// start brings two cells to HEALTHY without faults.
func (s *search) start(b budget) *node {
	n := &node{now: 100 * sec, term: 1, procs: 2, store: searchStore{members: map[Proc]Member{}}, starts: [2]int64{1, 1},
		budget: budget{time: 1 << 20}}
	s.lead(n)
	for i := range n.cells {
		n.cells[i] = NewCell(CellConfig{Cell: CellName(fmt.Sprint("c", i)), Proc: Proc(fmt.Sprint("p", i)), Started: 1,
			Folder: fmt.Sprint("f", i), Boot: "b", Now: n.now, Timeouts: searchTimeouts(), Gone: true, Mistakes: s.m})
	}
	for range 8 {
		for i := range n.cells {
			s.exchange(n, i, false, false)
			if v, ok := n.leader.Session(n.now, n.cells[i].cfg.Cell); ok && v.State == New {
				s.exchange(n, i, true, false)
			}
		}
		n.now += sec / 4
		s.up(n, Tick{LeaseHeld: true})
	}
	for i, c := range n.cells {
		if c.Accepts(n.now) != nil {
			s.t.Fatalf("cell %d does not get on its feet: %v", i, c.Accepts(n.now))
		}
	}
	n.budget, n.path = b, nil
	return n
}

func (s *search) lead(n *node) {
	l, err := NewLeader(s.leaderConfig(n))
	if err != nil {
		s.t.Fatal(err)
	}
	n.leader = l
	s.perform(n, l.Start())
}

// up gives the leader an event; its commits succeed at once.
func (s *search) up(n *node, e Event) {
	if n.leader == nil {
		return
	}
	out, err := n.leader.Step(n.now, e)
	if err == nil {
		s.perform(n, out)
	}
	s.schedule(n)
}

// schedule starts what is wanted where it may start.
func (s *search) schedule(n *node) {
	if n.path == nil && n.budget.time > 1000 {
		return
	}
	works := theWorks()
	for w := range max(1, n.budget.tasks) {
		for k := range n.cells {
			if n.leader == nil || n.store.done[w] {
				break
			}
			i := (k + int(n.leader.counter)) % len(n.cells) // not where one was tried last
			if n.beside {
				i = k
			}
			q := Request{Work: works[w], Cell: CellName(fmt.Sprint("c", i))}
			if _, ok := n.leader.MayStart(n.now, q); ok {
				_, out, err := n.leader.RunBatch(n.now, q)
				if err == nil {
					s.perform(n, out)
				}
			}
		}
	}
}

func (s *search) perform(n *node, out Output) {
	if out.Seq == 0 {
		return
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

func (s *search) effect(n *node, e Effect) {
	switch e := e.(type) {
	case AnswerBeat:
		s.answerBeat(n, e.Answer)
	case AnswerStatus:
		if e.Answer.Kind != StatusProbe {
			s.down(n, e.Answer.Proc, StatusAnswered(e))
		}
	case SendRun:
		s.down(n, e.Call.Proc, RunAsked{e.Call})
	case SendNotify:
		s.down(n, e.Call.Proc, NotifyAsked{e.Call})
	case SendSuicide:
		s.down(n, e.Call.Proc, SuicideAsked{e.Call})
	case Ended:
		if w := number(e.Run.Work); e.Kind == Real || n.store.last[w].inv != e.Run.Invocation {
			n.store.last[w] = applied{e.Run.Invocation, e.Kind == Real}
			n.store.done[w] = n.store.done[w] || e.Kind == Real && e.Status == "ok"
		}
		s.up(n, StatusCommitted{e.Run, e.Kind})
	case EndTerm:
		n.leader = nil
	}
}

func (s *search) answerBeat(n *node, a HeartbeatAnswer) {
	for i, c := range n.cells {
		switch {
		case c.Proc() != a.Proc:
		case n.late:
			s.fly(n, msg{cell: i, down: BeatAnswered{a}})
		default:
			s.cell(n, i, BeatAnswered{a})
		}
	}
}

// down puts a message to a cell in flight. Probes succeed at once where the agent runs.
func (s *search) down(n *node, p Proc, e CellEvent) {
	for i, c := range n.cells {
		if c.Proc() != p {
			continue
		}
		if r, ok := e.(RunAsked); ok && r.Call.Probe > 0 {
			if !n.paused[i] {
				s.probe(n, i, r)
			}
			return
		}
		s.fly(n, msg{cell: i, down: e})
	}
}

func (s *search) probe(n *node, i int, r RunAsked) {
	s.cell(n, i, r)
	s.cell(n, i, ProbeEnded{Probe: r.Call.Probe, OK: true})
	s.probed(n, i, r)
}

func (s *search) probeAgain(n *node, i int) {
	p := n.leader.procs[n.cells[i].Proc()]
	if p != nil && len(p.probe.open) > 0 {
		s.probed(n, i, RunAsked{RunTask{Probe: p.probe.sent}})
	}
}

// probed answers a probe, again when the leader was not ready to hear of it.
func (s *search) probed(n *node, i int, r RunAsked) {
	c := n.cells[i]
	if p := n.leader.procs[c.Proc()]; p == nil || !p.reported {
		return
	}
	s.up(n, StatusReceived{UpdateStatus{Term: c.Term(), Cell: c.cfg.Cell, Proc: c.Proc(), Items: []StatusItem{{Kind: StatusProbe, Probe: r.Call.Probe, OK: true}}}})
	s.cell(n, i, StatusAnswered{StatusAnswer{Term: c.Term(), Proc: c.Proc(), Kind: StatusProbe, Probe: r.Call.Probe, OK: true}})
}

// inFlight is how many messages may be under way; what is too much is lost.
const inFlight = 4

func (s *search) fly(n *node, m msg) {
	same := slices.ContainsFunc(n.flight, func(o msg) bool { return reflect.DeepEqual(o, m) })
	if !same && len(n.flight) < inFlight {
		n.flight = append(n.flight, m)
	}
}

// exchange makes cell i beat now, or answer the leader's question for its list.
// The answer arrives at once, or flies.
func (s *search) exchange(n *node, i int, report, late bool) {
	n.late = late
	defer func() { n.late = false }()
	if report {
		s.cell(n, i, ReportAsked{ReportRequest{n.leader.Term(), n.cells[i].Proc()}})
		s.probeAgain(n, i)
		return
	}
	n.beats = true
	s.cell(n, i, LinkBroken{})
	n.beats = false
}

func (s *search) cell(n *node, i int, e CellEvent) {
	for _, f := range n.cells[i].Step(n.now, e) {
		s.cellEffect(n, i, f)
	}
}

func (s *search) cellEffect(n *node, i int, e CellEffect) {
	switch e := e.(type) {
	case SendBeat:
		if n.beats {
			n.beats = false
			s.up(n, BeatReceived{e.Beat, true})
		}
	case SendStatus:
		e.Update.Items = slices.DeleteFunc(slices.Clone(e.Update.Items), func(it StatusItem) bool { return it.Kind == StatusProbe })
		if len(e.Update.Items) > 0 {
			s.fly(n, msg{cell: i, up: StatusReceived(e)})
		}
	case AnswerReport:
		if n.late {
			s.fly(n, msg{cell: i, up: ReportReceived(e)})
		} else {
			s.up(n, ReportReceived(e))
		}
	case AnswerRun:
		s.fly(n, msg{cell: i, up: RunAnswered(e)})
	case AnswerNotify:
		s.fly(n, msg{cell: i, up: NotifyAnswered(e)})
	case Launch:
		for j := range n.cells {
			for _, r := range n.alive[j] {
				if r.Work == e.Run.Work {
					n.err = fmt.Sprintf("%v starts on cell %d while %v is alive on cell %d", e.Run.Invocation, i, r.Invocation, j)
				}
			}
		}
		n.alive[i] = append(n.alive[i], e.Run)
	case EndBound:
		s.end(n, i, "killed")
	case SetDeadline:
		n.dead[i] = e.At
	case NewSession:
		n.procs++
		n.starts[i]++
		s.cell(n, i, SessionBegun{Proc(fmt.Sprint("p", n.procs)), n.starts[i]})
	}
}

func (s *search) end(n *node, i int, status string) {
	for len(n.alive[i]) > 0 {
		s.endOne(n, i, 0, status)
	}
}

func (s *search) endOne(n *node, i, k int, status string) {
	r := n.alive[i][k]
	n.alive[i] = slices.Delete(n.alive[i], k, k+1)
	if !n.paused[i] {
		s.cell(n, i, WorkEnded{r, status})
	}
}

func (s *search) deliver(n *node, m msg) {
	if m.up != nil {
		s.up(n, m.up)
		if n.leader != nil {
			s.probeAgain(n, m.cell)
		}
		return
	}
	s.cell(n, m.cell, m.down)
}

// pass lets one quantum pass: reapers first, then agents, then the leader, which
// also gives up on its calls.
func (s *search) pass(n *node) {
	n.now += quantum
	for i := range n.cells {
		if n.dead[i] > 0 && n.now >= n.dead[i] {
			s.end(n, i, "killed")
		}
		if !n.paused[i] {
			s.cell(n, i, CellTick{})
		}
	}
	s.giveUp(n)
	s.up(n, Tick{LeaseHeld: true})
}

// giveUp lets every call of the leader without an answer time out.
func (s *search) giveUp(n *node) {
	if n.leader == nil {
		return
	}
	for _, v := range n.leader.Model() {
		if !v.Sure && !v.Ending {
			s.up(n, RunAnswered{RunAnswer{Term: n.leader.Term(), Proc: v.Proc, Run: v.Run}})
		}
	}
}

// next returns the state after one choice, a copy.
func (s *search) next(n *node, what string, change func(*node)) {
	if s.found != "" {
		return
	}
	c := *n
	c.store.members = map[Proc]Member{}
	for k, v := range n.store.members {
		c.store.members[k] = v
	}
	for i := range c.cells {
		c.cells[i] = clone(n.cells[i])
		c.alive[i] = slices.Clone(n.alive[i])
	}
	c.flight = slices.Clone(n.flight)
	c.path = append(slices.Clone(n.path), what)
	if n.leader != nil {
		c.leader = clone(n.leader)
		c.leader.cfg.Statuses = &c
	}
	change(&c)
	if c.err != "" {
		s.found = c.err + "\n  " + strings.Join(c.path, "\n  ")
		return
	}
	if key := fingerprint(&c); !s.seen[key] {
		s.seen[key] = true
		s.stack = append(s.stack, &c)
	}
}

func fingerprint(n *node) uint64 {
	d := &dumper{seen: map[unsafe.Pointer]int{}}
	if n.leader != nil {
		d.dump(reflect.ValueOf(n.leader))
	}
	texts := make([]string, len(n.flight))
	for i := range n.cells {
		d.base = n.cells[i].beats
		d.dump(reflect.ValueOf(n.cells[i]))
		d.dump(reflect.ValueOf(n.alive[i]))
	}
	for i, m := range n.flight {
		md := &dumper{seen: map[unsafe.Pointer]int{}, base: n.cells[m.cell].beats}
		md.dump(reflect.ValueOf(m))
		if a, ok := m.down.(BeatAnswered); ok {
			fmt.Fprint(&md.b, n.cells[m.cell].sentAt(a.Answer.Beat))
		}
		texts[i] = md.b.String()
	}
	slices.Sort(texts)
	fmt.Fprint(&d.b, texts, n.now, n.term, n.dead, n.paused, n.starts, n.budget, n.beside, n.store.last, n.store.done)
	d.dump(reflect.ValueOf(n.store.members))
	h := fnv.New64a()
	h.Write([]byte(d.b.String()))
	return h.Sum64()
}

func (s *search) expand(n *node) {
	for i, m := range n.flight {
		name := fmt.Sprintf("%T%T cell %d", m.up, m.down, m.cell)
		if m.down == nil || !n.paused[m.cell] {
			s.next(n, "deliver "+name, func(c *node) {
				c.flight = slices.Delete(c.flight, i, i+1)
				s.deliver(c, m)
			})
			if n.budget.twice > 0 {
				s.next(n, "deliver and keep "+name, func(c *node) { c.budget.twice--; s.deliver(c, m) })
			}
		}
		if n.budget.lose > 0 {
			s.next(n, "lose "+name, func(c *node) {
				c.budget.lose--
				c.flight = slices.Delete(c.flight, i, i+1)
			})
		}
	}
	if n.budget.time > 0 {
		s.next(n, "time passes", func(c *node) { c.budget.time--; s.pass(c) })
	}
	if n.budget.calls > 0 && n.leader != nil && len(n.leader.model.byRun) > 0 {
		s.next(n, "calls time out", func(c *node) { c.budget.calls--; s.giveUp(c) })
	}
	if n.budget.restart > 0 {
		s.next(n, "the leader restarts", func(c *node) {
			c.budget.restart--
			c.term++
			s.lead(c)
			s.schedule(c)
		})
	}
	for i := range n.cells {
		s.expandCell(n, i)
		if n.budget.pause > 0 && !n.paused[i] {
			s.next(n, fmt.Sprint("pause cell ", i), func(c *node) { c.budget.pause--; c.paused[i] = true })
		}
		if n.paused[i] {
			s.next(n, fmt.Sprint("resume cell ", i), func(c *node) {
				c.paused[i] = false
				for _, h := range c.cells[i].Held() {
					if !h.Ended && !slices.Contains(c.alive[i], h.Run) {
						s.cell(c, i, WorkEnded{h.Run, "killed"})
					}
				}
				s.cell(c, i, CellTick{})
			})
		}
		for k := range n.alive[i] {
			if n.budget.kill > 0 {
				s.next(n, fmt.Sprint("a task ends on cell ", i), func(c *node) { c.budget.kill--; s.endOne(c, i, k, "killed") })
			}
		}
	}
}

// expandCell lets a cell beat, or report to a leader that asks.
func (s *search) expandCell(n *node, i int) {
	if n.leader == nil || n.paused[i] || n.cells[i].renewing {
		return
	}
	v, ok := n.leader.Session(n.now, n.cells[i].cfg.Cell)
	asks := ok && v.Proc == n.cells[i].Proc() && v.State == New && n.leader.procs[v.Proc].connected
	for _, late := range []bool{false, true} {
		if late && (n.budget.late == 0 || len(n.flight) == inFlight) {
			continue
		}
		spend := func(c *node) {
			if late {
				c.budget.late--
			}
		}
		s.next(n, fmt.Sprintf("cell %d beats, late %v", i, late), func(c *node) { spend(c); s.exchange(c, i, false, late) })
		if asks {
			s.next(n, fmt.Sprintf("cell %d reports, late %v", i, late), func(c *node) { spend(c); s.exchange(c, i, true, late) })
		}
	}
}

// run searches breadth first, shortest ways first, until nothing is left, or the limit of states.
func (s *search) run(b budget, limit int) (complete bool) {
	s.seen = map[uint64]bool{}
	root := s.start(b)
	s.next(root, "the work is wanted", func(c *node) { s.schedule(c) })
	if b.tasks > 1 {
		s.next(root, "the work is wanted on one cell", func(c *node) { c.beside = true; s.schedule(c) })
	}
	for len(s.stack) > 0 && s.found == "" {
		if s.visited >= limit {
			return false
		}
		n := s.stack[0]
		s.stack[0] = nil
		s.stack = s.stack[1:]
		s.visited++
		s.expand(n)
	}
	return true
}

// soakBudgets are visited by make soak, whole or up to 120,000 states each.
var soakBudgets = []budget{
	{lose: 1, calls: 1}, {twice: 1, calls: 1, kill: 1}, {restart: 1}, {time: 2}, {restart: 1, time: 1}, {pause: 1, time: 1},
	{tasks: 2, lose: 1}, {tasks: 2, restart: 1}, {tasks: 2, twice: 1}, {tasks: 2, time: 1}, {tasks: 2, calls: 1},
}

// TestSearch visits every state within small budgets.
func TestSearch(t *testing.T) {
	limit, budgets := 1_000, []budget{{lose: 1, calls: 1}, {twice: 1}, {restart: 1}, {time: 2}, {tasks: 2, twice: 1}, {tasks: 2, restart: 1}}
	if os.Getenv("CANTINA_SOAK") != "" {
		limit, budgets = 120_000, soakBudgets
	}
	for _, b := range budgets {
		t.Run(fmt.Sprintf("%+v", b), func(t *testing.T) {
			t.Parallel()
			s := &search{t: t}
			began := time.Now()
			complete := s.run(b, limit)
			t.Logf("%d states in %v, complete %v", s.visited, time.Since(began).Round(time.Millisecond), complete)
			if s.found != "" {
				t.Error(s.found)
			}
		})
	}
}

// TestSearchFindsMistakes: the mistakes that need few steps are found by the
// search, too; the simulator finds all.
func TestSearchFindsMistakes(t *testing.T) {
	for name, c := range map[string]struct {
		m Mistakes
		b budget
	}{
		"skip the sequence check":             {Mistakes{SkipSequence: true}, budget{calls: 1}},
		"leave the wait on partial consensus": {Mistakes{PartialConsensus: true}, budget{restart: 1, time: 1}},
		"a repeated call was never started":   {Mistakes{DuplicateNeverStarted: true}, budget{twice: 1}},
	} {
		s := &search{t: t, m: c.m}
		s.run(c.b, 6_000)
		if s.found == "" {
			t.Errorf("%s: not found in %d states", name, s.visited)
			continue
		}
		t.Logf("%s: found after %d states", name, s.visited)
	}
}

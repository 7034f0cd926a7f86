package worker

import (
	"fmt"
	"slices"

	"cantina/fence"
)

// step is the last of the choices that lead to a state.
type step struct {
	before *step
	name   string
	m      msg
	a, b   int
}

func (s *step) String() string {
	switch {
	case s == nil:
		return ""
	case s.m.up != nil || s.m.down != nil:
		return fmt.Sprintf("%v\n  %s %v", s.before, s.name, s.m)
	}
	return fmt.Sprintf("%v\n  %s %d %d", s.before, s.name, s.a, s.b)
}

// inFlight is how many messages may be under way. When one more is sent, one of them is
// lost, each in turn: no budget counts that.
const inFlight = 4

// moves finds the states after each choice and hands them to emit.
type moves struct {
	world
	emit func(*node)
	left func(*node, msg) // nil, or the receiver of messages that are left out
	lost int              // states with too many messages
}

// next makes one choice on a copy of a state.
func (s *moves) next(n *node, by step, change func(*node)) {
	by.before = n.path
	c := n.copied()
	c.path = &by
	change(c)
	s.resolve(c)
}

// inert reports that a message can make no difference any more. Its session of the cell is over, or neither end
// obeys its leader any more, or it answers an answered call. TestInert delivers such messages.
func (s *moves) inert(n *node, m msg) bool {
	old := func(t fence.Term, p Proc) bool {
		c := n.cells[m.cell]
		return c.proc != p || t.Less(c.term) || c.ended
	}
	switch e := m.down.(type) {
	case BeatAnswered:
		return old(e.Answer.Term, e.Answer.Proc)
	case RunAsked:
		return old(e.Call.Term, e.Call.Proc)
	case NotifyAsked:
		return old(e.Call.Term, e.Call.Proc)
	case SuicideAsked:
		return old(e.Call.Term, e.Call.Proc)
	case StatusAnswered:
		return old(e.Answer.Term, e.Answer.Proc)
	}
	if n.leader == nil {
		return true
	}
	switch e := m.up.(type) {
	case RunAnswered:
		return s.heedless(n, n.cells[m.cell], e.Answer)
	case NotifyAnswered:
		p := n.leader.procs[e.Answer.Proc]
		return p == nil || e.Answer.Term != n.leader.cfg.Term || p.unsure.asked[e.Answer.Seq] == nil
	}
	return false
}

// heedless reports that the leader cannot learn from an answer. It has no such invocation with that session, or
// gave the session up, or knows already that it runs. Or the answer has no news and no process is left to be asked.
func (s *moves) heedless(n *node, c *Cell, a RunAnswer) bool {
	e := n.leader.batch.model.byRun[a.Run.Invocation]
	if e == nil || e.on.row.Proc != a.Proc {
		return true
	}
	p := e.on
	known := e.sure && !slices.Contains(p.open, e.run.Invocation.Counter)
	return p.dead || p.health.State == MustDie || known || a.Result == RunUnknown && c.proc != a.Proc
}

// leaveOut drops the inert messages. A listener of left gets each, and again those that were left out on the way
// here.
func (s *moves) leaveOut(c *node) {
	if s.left == nil {
		c.flight = slices.DeleteFunc(c.flight, func(m msg) bool { return s.inert(c, m) })
		return
	}
	c.flight = slices.DeleteFunc(c.flight, func(m msg) bool {
		inert := s.inert(c, m)
		if inert {
			c.out = append(slices.Clip(c.out), m)
		}
		return inert
	})
	c.out = c.out[max(0, len(c.out)-inFlight):]
	for _, m := range c.out {
		s.left(c, m)
	}
}

// copied returns a copy that shares the objects of the state until it changes them.
func (n *node) copied() *node {
	c := *n
	c.own.leader, c.own.members, c.own.cells = false, false, [2]bool{}
	c.flight = slices.Clone(n.flight)
	return &c
}

// resolve hands out a state, once for each way of losing the surplus of messages in flight.
func (s *moves) resolve(c *node) {
	s.leaveOut(c)
	if len(c.flight) <= inFlight || c.err != "" {
		s.emit(c)
		return
	}
	s.lost++
	s.lose(c, 0)
}

// lose loses messages, none before the place from.
func (s *moves) lose(c *node, from int) {
	if len(c.flight) <= inFlight {
		s.emit(c)
		return
	}
	for i := from; i < len(c.flight) && i <= inFlight; i++ {
		d := c.copied()
		d.flight = slices.Delete(d.flight, i, i+1)
		s.lose(d, i)
	}
}

func (s *moves) expand(n *node) {
	s.expandFlight(n)
	s.expandTime(n)
	if n.budget.calls > 0 && n.leader != nil && len(n.leader.batch.model.byRun) > 0 {
		s.next(n, step{name: "calls time out"}, func(c *node) { c.budget.calls--; s.giveUp(c) })
	}
	if n.budget.restart > 0 {
		s.next(n, step{name: "the leader restarts"}, func(c *node) {
			c.budget.restart--
			c.term++
			s.lead(c)
		})
	}
	if n.leader != nil {
		s.next(n, step{name: "the leader looks at its deadlines"}, func(c *node) { s.up(c, Tick{LeaseHeld: true}) })
	}
	for i := range n.cells {
		s.expandCell(n, i)
		s.expandPause(n, i)
		for w := range max(1, n.budget.tasks) {
			if s.mayStart(n, w, i) {
				s.next(n, step{name: "start task, on cell", a: w, b: i}, func(c *node) { s.startWork(c, w, i) })
			}
		}
		for k := range n.alive[i] {
			if n.budget.kill > 0 {
				s.next(n, step{name: "a task ends, on cell", a: k, b: i}, func(c *node) { c.budget.kill--; s.endOne(c, i, k) })
			}
		}
	}
}

func (s *moves) expandFlight(n *node) {
	for i, m := range n.flight {
		if m.down == nil || !n.paused[m.cell] {
			s.next(n, step{name: "deliver", m: m}, func(c *node) {
				c.flight = slices.Delete(c.flight, i, i+1)
				s.deliver(c, m)
			})
			if n.budget.twice > 0 {
				s.next(n, step{name: "deliver and keep", m: m}, func(c *node) { c.budget.twice--; s.deliver(c, m) })
			}
		}
		if n.budget.lose > 0 {
			s.next(n, step{name: "lose", m: m}, func(c *node) {
				c.budget.lose--
				c.flight = slices.Delete(c.flight, i, i+1)
			})
		}
	}
}

// times are how long may pass at once, in ticks: until a silent session is UNHEALTHY; until
// its leader has given it up; until the deadline of its reaper has passed; and with the margin,
// until the leader takes it for dead.
var times = [...]int{3, 5, 7, 8}

// expandTime lets time pass while nothing is delivered; both cells, one or none beat meanwhile.
func (s *moves) expandTime(n *node) {
	if n.budget.time == 0 {
		return
	}
	for _, ticks := range times {
		for who := range 4 {
			beat := [2]bool{who&1 > 0, who&2 > 0}
			if beat[0] && n.paused[0] || beat[1] && n.paused[1] || who > 0 && n.leader == nil {
				continue
			}
			for _, order := range [][2]int{{0, 1}, {1, 0}} {
				if order[0] == 1 && who < 3 {
					continue // makes no difference
				}
				s.next(n, step{name: "time passes (ticks, which cells beat)", a: ticks, b: who}, func(c *node) {
					c.budget.time--
					s.pass(c, ticks, beat, order)
				})
			}
		}
	}
}

func (s *moves) expandPause(n *node, i int) {
	if n.budget.pause > 0 && !n.paused[i] {
		s.next(n, step{name: "pause cell", a: i}, func(c *node) { c.budget.pause--; c.paused[i] = true })
	}
	if n.paused[i] {
		s.next(n, step{name: "resume cell", a: i}, func(c *node) { s.resume(c, i) })
	}
}

// expandCell lets a cell beat, or report to a leader that asks.
func (s *moves) expandCell(n *node, i int) {
	if n.leader == nil || n.paused[i] || n.cells[i].renewing || n.cells[i].ended {
		return
	}
	for _, late := range []bool{false, true} {
		if late && n.budget.late == 0 {
			continue
		}
		for _, report := range []bool{false, true} {
			if report && !n.asks(i) {
				continue
			}
			name := "beats, cell"
			if report {
				name = "reports, cell"
			}
			s.next(n, step{name: name, a: i, b: btoi(late)}, func(c *node) {
				c.budget.late -= btoi(late)
				s.exchange(c, i, report, late)
			})
		}
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

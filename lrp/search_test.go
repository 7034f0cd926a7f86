package lrp

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// The exhaustive search visits every interleaving of a small world in which cells are drained. It has one index and
// two or three cells. Calls and their answers are lost, delivered late or twice, and containers crash.

// cellWorld is one cell of the search: at most one container for the index.
type cellWorld struct {
	container Container
	ready     bool
	id        int // instance; 0 = none
	draining  bool
	session   sessionState
}

// sessionState is the leader's view of a cell; a cell that is not healthy gets no call.
type sessionState int

const (
	healthy sessionState = iota
	unhealthy
	mustDie
	certainlyDead
)

// searchState is one state of the search. It is small and copied.
type searchState struct {
	x        Index
	cells    [3]cellWorld
	late     Event // a call that is still on its way, or nil
	next     int   // next instance id
	crashes  int   // crashes that may still happen
	drains   int   // drains that may still begin
	lates    int   // calls that may still be late or doubled
	unwanted bool
	scales   int // scale-downs that may still happen
	silences int // cells that may still fall silent
	flips    int // times that a ready instance may still turn unready
	moves    int // moves that may still begin
	preempts int // times that the instance may still be stopped for other work
}

type search struct {
	t         *testing.T
	cells     int
	exclusive bool
	stopFirst bool
	silent    bool // cells may fall silent
	slow      bool // a started instance is not ready at once
	flips     int  // times that a ready instance may turn unready
	seen      map[string]bool
	states    int
	edges     int
	settled   map[string]bool // states from which the world is known to come right
	covered   map[string]int
}

func (s *search) env(st *searchState) Env {
	d := &Desired{Process: "p1", Service: svc, Instances: 1, Exclusive: s.exclusive}
	if s.stopFirst {
		d.Strategy = StopFirst
	}
	return Env{Now: t0, Desired: d, Wanted: !st.unwanted, Fresh: true, Eligible: true, OthersRunning: true}
}

func ident(cell, id int) Identity {
	return Identity{Instance: fmt.Sprintf("i%d", id), Cell: string(rune('A' + cell)), Proc: string(rune('a' + cell))}
}

// key names a state; instances are renamed in order of appearance.
func (st *searchState) key() string {
	var b strings.Builder
	names := map[string]int{}
	name := func(instance string) int {
		if instance == "" {
			return 0
		}
		if _, ok := names[instance]; !ok {
			names[instance] = len(names) + 1
		}
		return names[instance]
	}
	for i, c := range st.cells {
		fmt.Fprintf(&b, "%d%d%t%t", c.container, c.session, c.draining, c.ready)
		if c.container != NoContainer {
			fmt.Fprintf(&b, "#%d", name(ident(i, c.id).Instance))
		}
	}
	for _, a := range []*Actual{st.x.Ordinary, st.x.Evacuating, st.x.Suspect} {
		if a == nil {
			b.WriteString("|-")
			continue
		}
		fmt.Fprintf(&b, "|%d%s#%d%t%t%t", a.State, a.Cell, name(a.Instance), a.Retiring, a.Net.Routable, a.Moving)
		if a.Replaces.Instance != "" {
			fmt.Fprintf(&b, "r%s#%d", a.Replaces.Cell, name(a.Replaces.Instance))
		}
	}
	if st.late != nil {
		by := byOf(st.late)
		e, _ := st.late.(Evacuate)
		fmt.Fprintf(&b, "|%T%s#%d%t%t", st.late, by.Cell, name(by.Instance), readyIn(st.late), e.Until.IsZero())
	}
	fmt.Fprintf(&b, "|%d%d%d%t%d%d%d%d%d", st.crashes, st.drains, st.lates, st.unwanted, st.scales, st.silences, st.flips,
		st.moves, st.preempts)
	return b.String()
}

func byOf(e Event) Identity {
	switch e := e.(type) {
	case Claim:
		return e.By
	case Start:
		return e.By
	case Crash:
		return e.By
	case Remove:
		return e.By
	case Evacuate:
		return e.By
	case EvacuateClaimed:
		return e.By
	case EvacuateStopped:
		return e.By
	case EvacuateCrashed:
		return e.By
	case RemoveEvacuating:
		return e.By
	}
	return Identity{}
}

// readyIn returns the readiness of the instance in a call.
func readyIn(e Event) bool {
	switch e := e.(type) {
	case Start:
		return e.Net.Routable
	case Evacuate:
		return e.Net.Routable
	}
	return false
}

func (s *search) callEvent(c Call, by Identity, ready bool) Event {
	net := Net{Address: "x", Routable: ready}
	switch c {
	case CallClaim:
		return Claim{By: by}
	case CallStart:
		return Start{By: by, Net: net, Service: svc, Exclusive: s.exclusive}
	case CallCrash:
		return Crash{By: by, Reason: "r"}
	case CallRemove:
		return Remove{By: by}
	case CallEvacuate:
		return Evacuate{By: by, Net: net, Until: t0.Add(time.Hour)}
	case CallEvacuateClaimed:
		return EvacuateClaimed{By: by}
	case CallEvacuateStopped:
		return EvacuateStopped{By: by}
	case CallEvacuateCrashed:
		return EvacuateCrashed{By: by, Reason: "r"}
	case CallRemoveEvacuating:
		return RemoveEvacuating{By: by}
	}
	return nil
}

// apply gives an event to the leader and checks the invariants.
func (s *search) apply(st *searchState, e Event) error { return s.applyAt(st, e, t0) }

func (s *search) applyAt(st *searchState, e Event, now time.Time) error {
	before := st.x
	env := s.env(st)
	env.Now = now
	x, _, err := Step(st.x, e, env)
	s.covered[fmt.Sprintf("%T %v", e, err == nil)]++
	if err != nil {
		return err
	}
	if msg := Check(x); msg != nil {
		s.t.Fatalf("%T on %s: %v", e, show(before), msg)
	}
	st.x = x
	return nil
}

// poll has a cell check its container (or a row without one) and act. deliver is the fate of the call: 0 answered,
// 1 lost, 2 applied but the answer is lost, 3 as 0 and a copy comes late, 4 it comes late only.
func (s *search) poll(st searchState, cell, deliver int, orphan bool) (searchState, bool) {
	c := &st.cells[cell]
	if c.session != healthy {
		return st, false
	}
	v := View{Container: c.container, Self: ident(cell, c.id), Rows: st.x}
	if c.container == Up {
		v.Net = &Net{Address: "x", Routable: c.ready}
	}
	if orphan {
		row := orphanOnCell(st.x, v.Self, c.container)
		if row == nil {
			return st, false
		}
		v.Self, v.Container, v.Net = row.Identity, NoContainer, nil
	} else if c.container == NoContainer {
		return st, false
	}
	a := Harmonise(v)
	if c.draining {
		a = HarmoniseEvacuating(v)
	}
	fate := a.Then
	if a.Call != NoCall {
		e := s.callEvent(a.Call, v.Self, c.ready)
		if call, ok := e.(Evacuate); ok && !c.draining {
			call.Until = time.Time{}
			e = call
		}
		switch deliver {
		case 1:
			return st, false // as if it had not polled
		case 3, 4:
			if st.late != nil || st.lates == 0 {
				return st, false
			}
			st.late, st.lates = e, st.lates-1
		}
		if deliver == 4 {
			return st, true
		}
		err := s.apply(&st, e)
		switch {
		case deliver == 2:
			return st, true // it does not know
		case errors.Is(err, ErrNotEligible) || errors.Is(err, ErrNotYet) || errors.Is(err, ErrNotProven):
			return st, true
		case err != nil:
			fate = a.Refused
		}
	} else if deliver != 0 {
		return st, false
	}
	switch fate {
	case RunContainer:
		c.container = Starting
	case StopContainer:
		c.container, c.ready = CompletedShutdown, false
	case DeleteContainer:
		c.container, c.id, c.ready = NoContainer, 0, false
	}
	return st, true
}

// orphanOnCell returns a row that names the cell, but not its container.
func orphanOnCell(x Index, self Identity, container Container) *Actual {
	for _, a := range x.Rows() {
		if a.Cell == self.Cell && a.Instance != "" && (container == NoContainer || !a.Same(self)) {
			return a
		}
	}
	return nil
}

// next returns every state that can follow.
func (s *search) next(st searchState) []searchState {
	var out []searchState
	add := func(n searchState) { out = append(out, n) }
	for cell := range s.cells {
		for deliver := range 5 {
			for _, orphan := range []bool{false, true} {
				if n, ok := s.poll(st, cell, deliver, orphan); ok {
					add(n)
				}
			}
		}
		c := st.cells[cell]
		switch c.container {
		case Starting:
			n := st
			n.cells[cell].container, n.cells[cell].ready = Up, !s.slow
			add(n)
		case Up:
			if st.crashes > 0 {
				n := st
				n.crashes--
				n.cells[cell].container, n.cells[cell].ready = CompletedCrashed, false
				add(n)
			}
			if !c.ready || st.flips > 0 {
				n := st
				n.cells[cell].ready = !c.ready
				if c.ready {
					n.flips--
				}
				add(n)
			}
		}
		if st.drains > 0 && !c.draining {
			n := st
			n.drains--
			n.cells[cell].draining = true
			add(n)
		}
		// The auction may try any cell that is not drained, at any time, also twice.
		if o := st.x.Ordinary; o != nil && o.State == Unclaimed && c.container == NoContainer && !c.draining &&
			c.session == healthy {
			n := st
			n.cells[cell].container, n.cells[cell].id = Reserved, n.next
			n.next++
			add(n)
		}
		out = append(out, s.sessions(st, cell)...)
	}
	if st.late != nil {
		n := st
		e := n.late
		n.late = nil
		_ = s.apply(&n, e)
		add(n)
	}
	if st.x.Ordinary == nil && !st.unwanted {
		n := st
		_ = s.apply(&n, Create{})
		add(n)
	}
	if o := st.x.Ordinary; o != nil && st.moves > 0 && st.late == nil { // late calls end within MoveAfter
		n := st
		n.moves--
		if s.applyAt(&n, Relocate{By: o.Identity, Until: t0}, t0.Add(MoveAfter)) == nil {
			add(n)
		}
	}
	if o := st.x.Ordinary; o != nil && st.preempts > 0 {
		n := st
		n.preempts--
		if s.apply(&n, Preempt{By: o.Identity, For: "other", Priority: 100}) == nil {
			add(n)
		}
	}
	if e := st.x.Evacuating; e != nil && e.Moving {
		n := st
		_ = s.apply(&n, ExpireEvacuating{})
		add(n)
	}
	if st.scales > 0 && !st.unwanted {
		n := st
		n.scales--
		n.unwanted = true
		_ = s.apply(&n, Undesire{})
		add(n)
	}
	return out
}

// sessions are the steps of one cell's session: it falls silent, comes back, is given
// up, is certainly dead. Deadline-bound work has ended before the death is certain.
func (s *search) sessions(st searchState, cell int) []searchState {
	name, proc := ident(cell, 0).Cell, ident(cell, 0).Proc
	step := func(to sessionState, e Event) searchState {
		n := st
		n.cells[cell].session = to
		if e != nil {
			_ = s.apply(&n, e)
		}
		return n
	}
	switch c := st.cells[cell]; c.session {
	case healthy:
		if st.silences == 0 {
			return nil
		}
		n := step(unhealthy, CellUnhealthy{name, proc})
		n.silences--
		return []searchState{n}
	case unhealthy:
		return []searchState{step(healthy, CellHealthy{name, proc}), step(mustDie, CellMustDie{name, proc})}
	case mustDie:
		n := st
		if s.exclusive {
			n.cells[cell].container, n.cells[cell].id, n.cells[cell].ready = NoContainer, 0, false
		}
		ended := n
		n.cells[cell].session = certainlyDead
		_ = s.apply(&n, ProcDead{proc})
		return []searchState{ended, n}
	default:
		return []searchState{step(healthy, CellHealthy{name, proc})}
	}
}

func (st *searchState) up() int {
	n := 0
	for _, c := range st.cells {
		if c.container == Up {
			n++
		}
	}
	return n
}

// ready counts the containers that serve.
func (st *searchState) ready() int {
	n := 0
	for _, c := range st.cells {
		if c.container == Up && c.ready {
			n++
		}
	}
	return n
}

// explore walks all states reachable from start.
func (s *search) explore(start searchState, crashFree bool) {
	queue := []searchState{start}
	s.seen[start.key()] = true
	for len(queue) > 0 {
		st := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		s.states++
		s.comesRight(st)
		for _, n := range s.next(st) {
			s.edges++
			s.checkEdge(&st, &n, crashFree)
			if k := n.key(); !s.seen[k] {
				s.seen[k] = true
				queue = append(queue, n)
			}
		}
	}
}

// checkEdge: without crashes and scale-downs a running index goes on running, for itself and for readers. An index
// that must not have a second copy never has two.
func (s *search) checkEdge(st, n *searchState, crashFree bool) {
	if s.exclusive || s.stopFirst {
		if s.exclusive && n.up() > 1 {
			s.t.Fatalf("two copies of an exclusive instance: %s → %s", st.key(), n.key())
		}
		return
	}
	if !crashFree || n.unwanted || s.silent {
		return
	}
	if st.up() > 0 && n.up() == 0 {
		s.t.Fatalf("nothing runs any more: %s → %s", st.key(), n.key())
	}
	if n.flips != s.flips {
		return // an unready instance was not kept, and may be ready again too late
	}
	if st.ready() > 0 && n.ready() == 0 {
		s.t.Fatalf("nothing is ready any more: %s → %s", st.key(), n.key())
	}
	was, is := st.x.Resolved(), n.x.Resolved()
	if was.Serves() && !is.Serves() && n.late == nil && st.late == nil {
		s.t.Fatalf("readers see nothing that serves although something does: %s → %s", st.key(), n.key())
	}
	if was != nil && was.State == Running && (is == nil || is.State != Running) && n.late == nil && st.late == nil {
		s.t.Fatalf("readers see no instance although one runs: %s → %s", st.key(), n.key())
	}
}

// comesRight: no call is lost any more and a cell has room. Then within some rounds one instance runs, on a cell
// that is not drained. Nothing else is left (I14 and "an evacuated index is never without a running instance").
func (s *search) comesRight(st searchState) {
	var path []string
	st.late, st.crashes, st.drains, st.silences, st.flips, st.moves, st.preempts = nil, 0, 0, 0, 0, 0, 0
	for cell := range s.cells {
		if st.cells[cell].session != healthy {
			st.cells[cell].session = healthy
			_ = s.apply(&st, CellHealthy{ident(cell, 0).Cell, ident(cell, 0).Proc})
		}
	}
	for i := range 40 {
		if i == 10 { // no other cell takes what is moved: its time ends
			_ = s.apply(&st, ExpireEvacuating{})
		}
		k := st.key()
		if s.settled[k] {
			break
		}
		path = append(path, k)
		if s.right(&st) {
			break
		}
		st = s.round(st)
		if len(path) == 40 {
			s.t.Fatalf("does not come right:\n%s", strings.Join(path, "\n"))
		}
	}
	for _, k := range path {
		s.settled[k] = true
	}
}

func (s *search) right(st *searchState) bool {
	o, containers, room := st.x.Ordinary, 0, false
	for i := range s.cells {
		if c := st.cells[i]; c.container != NoContainer {
			containers++
		}
		room = room || !st.cells[i].draining
	}
	switch {
	case st.unwanted:
		return st.x.Empty() && containers == 0
	case !room:
		return o != nil
	}
	return o.Serves() && st.x.Evacuating == nil && st.x.Suspect == nil && containers == 1 &&
		!st.cells[int(o.Cell[0]-'A')].draining
}

// round is one fair round without faults.
func (s *search) round(st searchState) searchState {
	if st.x.Ordinary == nil && !st.unwanted {
		_ = s.apply(&st, Create{})
	}
	if st.unwanted && unwantedEvent(st.x) {
		_ = s.apply(&st, Undesire{})
	}
	if o := st.x.Ordinary; o != nil && o.State == Crashed {
		st.x.Ordinary = &Actual{Key: key0, Service: svc, State: Unclaimed, Since: t0, Exclusive: s.exclusive}
	}
	for cell := range s.cells {
		st, _ = s.poll(st, cell, 0, true)
		st, _ = s.poll(st, cell, 0, false)
		if st.cells[cell].container == Starting {
			st.cells[cell].container = Up
			st, _ = s.poll(st, cell, 0, false)
		}
		if st.cells[cell].container == Up && !st.cells[cell].ready {
			st.cells[cell].ready = true
			st, _ = s.poll(st, cell, 0, false)
		}
	}
	for cell := range s.cells {
		c := st.cells[cell]
		if o := st.x.Ordinary; o != nil && o.State == Unclaimed && c.container == NoContainer && !c.draining {
			st.cells[cell].container, st.cells[cell].id = Reserved, st.next
			st.next++
			break
		}
	}
	return st
}

func TestEvacuationSearch(t *testing.T) {
	soak := os.Getenv("CANTINA_SOAK") != ""
	type bounds struct {
		name                          string
		cells, crashes, drains, lates int
		scales, silences              int
		exclusive, stopFirst, inSoak  bool
		slow                          bool
		flips, moves, preempts        int
	}
	for _, b := range []bounds{
		{name: "two cells, both drained", cells: 2, drains: 2, lates: 2},
		{name: "two cells, a crash", cells: 2, drains: 1, lates: 2, crashes: 1},
		{name: "two cells, a scale-down", cells: 2, drains: 1, lates: 2, scales: 1},
		{name: "two cells, exclusive", cells: 2, drains: 1, lates: 2, crashes: 1, exclusive: true},
		{name: "two cells, exclusive, one falls silent", cells: 2, drains: 1, lates: 1, silences: 2, exclusive: true},
		{name: "two cells, stop first", cells: 2, drains: 1, lates: 1, crashes: 1, stopFirst: true},
		{name: "two cells, one falls silent", cells: 2, drains: 1, lates: 1, silences: 1},
		{name: "three cells, two drained, a late call", cells: 3, drains: 2, lates: 1},
		{name: "two cells, both drained, slow to be ready", cells: 2, drains: 2, lates: 1, slow: true},
		{name: "two cells, a drain, ready and not", cells: 2, drains: 1, lates: 1, slow: true, flips: 2},
		{name: "two cells, slow, one falls silent, a crash", cells: 2, drains: 1, lates: 1, slow: true, silences: 1,
			crashes: 1},
		{name: "two cells, a move, late calls", cells: 2, moves: 1, lates: 3, slow: true},
		{name: "two cells, moved twice", cells: 2, moves: 2, crashes: 1, slow: true},
		{name: "two cells, moved twice, a late call", cells: 2, moves: 2, lates: 1, slow: true},
		{name: "two cells, moved twice, late calls", cells: 2, moves: 2, lates: 3, slow: true},
		{name: "three cells, moved twice, late calls", cells: 3, moves: 2, lates: 2, slow: true},
		{name: "two cells, moved thrice, late calls, a crash", cells: 2, moves: 3, lates: 2, crashes: 1, slow: true},
		{name: "two cells, moved twice, silent, late calls", cells: 2, moves: 2, lates: 2, silences: 1},
		{name: "two cells, a move, slow, ready and not", cells: 2, moves: 1, lates: 1, slow: true, flips: 2},
		{name: "two cells, a move and a drain", cells: 2, moves: 1, drains: 1, lates: 1, slow: true},
		{name: "two cells, a move, a crash, a scale-down", cells: 2, moves: 1, lates: 1, crashes: 1, scales: 1},
		{name: "two cells, a move, one falls silent", cells: 2, moves: 1, lates: 1, silences: 1},
		{name: "two cells, exclusive, a move", cells: 2, moves: 1, drains: 1, lates: 1, exclusive: true},
		{name: "three cells, moved twice", cells: 3, moves: 2, slow: true},
		{name: "two cells, preempted twice, late calls, a crash", cells: 2, preempts: 2, lates: 2, crashes: 1, slow: true},
		{name: "two cells, preempted, drained, a scale-down", cells: 2, preempts: 1, drains: 2, lates: 2, scales: 1},
		{name: "two cells, preempted, one falls silent", cells: 2, preempts: 1, silences: 2, lates: 2},
		{name: "two cells, preempted and moved", cells: 2, preempts: 1, moves: 2, lates: 2, slow: true},
		{name: "three cells, two drained, slow", cells: 3, drains: 2, slow: true, inSoak: true},
		{name: "three cells, slow, drained and silent", cells: 3, drains: 1, silences: 1, slow: true, inSoak: true},
		{name: "three cells, both others fall silent", cells: 3, silences: 2, lates: 1, inSoak: true},
		{name: "three cells, drained and silent", cells: 3, drains: 1, silences: 1, lates: 1, crashes: 1, inSoak: true},
		{name: "three cells, two drained, late calls and a crash", cells: 3, drains: 2, lates: 2, crashes: 1, inSoak: true},
		{name: "three cells, exclusive", cells: 3, drains: 1, lates: 1, silences: 2, exclusive: true, inSoak: true},
	} {
		if b.inSoak && !soak {
			continue
		}
		t.Run(b.name, func(t *testing.T) {
			s := &search{
				t: t, cells: b.cells, exclusive: b.exclusive, stopFirst: b.stopFirst, silent: b.silences > 0, slow: b.slow,
				flips: b.flips,
				seen:  map[string]bool{}, settled: map[string]bool{}, covered: map[string]int{},
			}
			start := searchState{next: 2, crashes: b.crashes, drains: b.drains, lates: b.lates, scales: b.scales,
				silences: b.silences, flips: b.flips, moves: b.moves, preempts: b.preempts}
			start.cells[0] = cellWorld{container: Up, ready: true, id: 1}
			start.x = Index{Key: key0, Ordinary: &Actual{Key: key0, Service: svc, State: Running, Identity: ident(0, 1),
				Since: t0, Exclusive: b.exclusive, Net: Net{Address: "x", Routable: true}}}
			s.explore(start, b.crashes+b.preempts == 0)
			t.Logf("%d states, %d steps", s.states, s.edges)
			if s.states < 50 {
				t.Errorf("only %d states: the search is not searching", s.states)
			}
		})
	}
}

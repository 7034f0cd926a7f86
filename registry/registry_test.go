package registry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cantina/batch"
	"cantina/fence"
	"cantina/internal/run"
	"cantina/store"
	"cantina/worker"
)

// fakeStore is a store that commits on request.
type fakeStore struct {
	mu      sync.Mutex
	rows    map[string][]byte
	queue   []func()
	hold    bool
	fail    error
	cleared bool
	lease   bool
}

func newStore() *fakeStore { return &fakeStore{rows: map[string][]byte{}, lease: true} }

func (s *fakeStore) Submit(t store.Transition, done func(int64, error)) {
	s.mu.Lock()
	s.queue = append(s.queue, func() {
		if s.fail == nil {
			s.apply(t.Ops)
		}
		done(1, s.fail)
	})
	hold := s.hold
	s.mu.Unlock()
	if !hold {
		go s.commit()
	}
}

func (s *fakeStore) apply(ops []store.Op) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range ops {
		if o.Value == nil {
			delete(s.rows, o.Key)
		} else {
			s.rows[o.Key] = o.Value
		}
	}
}

func (s *fakeStore) ClearRestored(done func(int64, error)) {
	s.mu.Lock()
	s.queue = append(s.queue, func() { s.cleared = true; done(1, s.fail) })
	s.mu.Unlock()
}

func (s *fakeStore) LeaseHeld() bool { return s.lease }

// commit makes all that waits durable, in order, one at a time.
func (s *fakeStore) commit() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.queue) > 0 {
		f := s.queue[0]
		s.queue = s.queue[1:]
		s.mu.Unlock()
		f()
		s.mu.Lock()
	}
}

func (s *fakeStore) load() []store.Row {
	var rows []store.Row
	for k, v := range s.rows {
		rows = append(rows, store.Row{Key: k, Value: v})
	}
	return rows
}

// end is one cell, with its machine, behind the calls.
type end struct {
	mu       sync.Mutex
	clock    run.Clock
	cell     *worker.Cell
	launched []worker.Run
	payloads map[fence.Invocation]string
	effects  []worker.CellEffect
	down     error
	never    bool
	kills    []int         // how many each call had
	gate     chan struct{} // calls of KillTask wait for it
	suicides []worker.Suicide
	sessions int64 // after the first
}

func newEnd(clock run.Clock, name worker.CellName, proc worker.Proc) *end {
	return &end{clock: clock, payloads: map[fence.Invocation]string{},
		cell: worker.NewCell(worker.CellConfig{Cell: name, Proc: proc, Started: 1,
			DirID: string(name), Boot: "b", Now: clock.Boot(), Timeouts: worker.DefaultTimeouts(), Gone: true})}
}

func (c *end) set(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

// fails sets how calls fail now; never: they certainly are not sent.
func (c *end) fails() (never bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.never, c.down
}

func (c *end) step(ev worker.CellEvent) []worker.CellEffect {
	c.mu.Lock()
	defer c.mu.Unlock()
	es := c.cell.Step(c.clock.Boot(), ev)
	c.effects = append(c.effects, es...)
	for _, e := range es {
		switch e := e.(type) {
		case worker.Launch:
			c.launched = append(c.launched, e.Run)
		case worker.StartProbe:
			c.effects = append(c.effects, c.cell.Step(c.clock.Boot(), worker.ProbeEnded{Probe: e.Probe, OK: true})...)
		case worker.NewSession:
			c.sessions++
			c.effects = append(c.effects, c.cell.Step(c.clock.Boot(), worker.SessionBegun{
				Proc: worker.Proc(fmt.Sprintf("%s-%d", c.cell.Proc(), c.sessions)), Started: 1 + c.sessions})...)
		}
	}
	return es
}

// pump sends the cell's messages until there are none.
func (c *end) pump(t *testing.T, r *Registry) {
	t.Helper()
	for {
		c.mu.Lock()
		es := c.effects
		c.effects = nil
		c.mu.Unlock()
		sent := false
		for _, e := range es {
			switch e := e.(type) {
			case worker.SendBeat:
				sent = true
				if a, err := r.Heartbeat(t.Context(), e.Beat, nil); err == nil {
					c.step(worker.BeatAnswered{Answer: a})
				} else {
					c.step(worker.BeatFailed{Beat: e.Beat.Beat})
				}
			case worker.SendStatus:
				sent = true
				answers, err := r.UpdateStatus(t.Context(), e.Update)
				if err != nil {
					c.step(worker.StatusFailed{})
				}
				for _, a := range answers {
					c.step(worker.StatusAnswered{Answer: a})
				}
			}
		}
		if !sent {
			return
		}
	}
}

// ends are all of them, by name.
type ends struct{ sync.Map }

func (cs *ends) of(name worker.CellName) *end {
	c, _ := cs.Load(name)
	return c.(*end)
}

var errDown = errors.New("no connection")

func (cs *ends) GetRunningTasks(
	_ context.Context, cell worker.CellName, q worker.ReportRequest,
) (worker.Report, error) {
	for _, e := range cs.of(cell).step(worker.ReportAsked{Call: q}) {
		if a, ok := e.(worker.AnswerReport); ok {
			_, err := cs.of(cell).fails()
			return a.Report, err
		}
	}
	return worker.Report{}, errDown
}

func (cs *ends) RunTasks(
	_ context.Context, cell worker.CellName, calls []worker.RunTask, payloads []*batch.Payload,
) ([]worker.RunAnswer, error) {
	c := cs.of(cell)
	never, err := c.fails()
	if never {
		return nil, err
	}
	var out []worker.RunAnswer
	for i, q := range calls {
		for _, e := range c.step(worker.RunAsked{Call: q}) {
			if a, ok := e.(worker.AnswerRun); ok {
				out = append(out, a.Answer)
				c.set(func() { c.payloads[q.Invocation] = payloads[i].Domain })
			}
		}
	}
	return out, err
}

func (cs *ends) NotifyIfTasksNotRunning(
	_ context.Context, cell worker.CellName, q worker.Notify,
) (worker.NotifyAnswer, error) {
	for _, e := range cs.of(cell).step(worker.NotifyAsked{Call: q}) {
		if a, ok := e.(worker.AnswerNotify); ok {
			_, err := cs.of(cell).fails()
			return a.Answer, err
		}
	}
	return worker.NotifyAnswer{}, errDown
}

func (cs *ends) KillTask(ctx context.Context, cell worker.CellName, calls []worker.KillTask) error {
	c := cs.of(cell)
	var gate chan struct{}
	c.set(func() { c.kills = append(c.kills, len(calls)); gate = c.gate })
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for _, k := range calls {
		c.step(worker.KillAsked{Call: k})
	}
	return nil
}

func (cs *ends) RequestSuicide(_ context.Context, cell worker.CellName, s worker.Suicide) error {
	cs.of(cell).set(func() { cs.of(cell).suicides = append(cs.of(cell).suicides, s) })
	return errDown
}

func (cs *ends) NeverSent(err error) bool { return errors.Is(err, errDown) }

// ears records the registry's reports, in order.
type ears struct {
	mu    sync.Mutex
	all   []worker.Effect
	ended func(worker.Ended)
	over  bool
}

func (l *ears) hear(e worker.Effect) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, e)
}

func (l *ears) SessionChanged(e worker.SessionChanged) { l.hear(e) }
func (l *ears) Unheard(e worker.Unheard)               { l.hear(e) }
func (l *ears) Availability(e worker.Availability)     { l.hear(e) }
func (l *ears) Eligible(e worker.Eligible)             { l.hear(e) }
func (l *ears) Dead(e worker.Dead)                     { l.hear(e) }
func (l *ears) StartsChanged()                         {}
func (l *ears) Audit(e worker.Audit)                   { l.hear(e) }
func (l *ears) Deposed(fence.Term)                     { l.mu.Lock(); defer l.mu.Unlock(); l.over = true }
func (l *ears) Ended(e worker.Ended) {
	l.hear(e)
	if l.ended != nil {
		l.ended(e)
	}
}

func heard[E worker.Effect](l *ears) []E {
	l.mu.Lock()
	defer l.mu.Unlock()
	var es []E
	for _, e := range l.all {
		if e, ok := e.(E); ok {
			es = append(es, e)
		}
	}
	return es
}

// nothingApplied is a scheduler without rows.
type nothingApplied struct{}

func (nothingApplied) LastApplied(worker.Work) (fence.Invocation, bool) {
	return fence.Invocation{}, false
}
func (nothingApplied) KillStored(worker.Run) bool { return false }

type fixture struct {
	t     *testing.T
	store *fakeStore
	cells *ends
	ears  *ears
	clock run.Clock
	r     *Registry
	stop  context.CancelFunc
	done  chan struct{}
}

func start(t *testing.T, s *fakeStore, term int64) *fixture {
	t.Helper()
	f := &fixture{t: t, store: s, cells: &ends{}, ears: &ears{}, clock: run.Bubble(), done: make(chan struct{})}
	r, err := New(Config{
		Worker: worker.Config{Term: fence.Term{Epoch: 1, Revision: term}, Timeouts: worker.DefaultTimeouts(), NewStore: true,
			NewCluster: true},
		Store: s, Cells: f.cells, Listener: f.ears, Statuses: nothingApplied{}, Clock: f.clock,
		Log: slog.New(slog.DiscardHandler),
	}, s.load())
	if err != nil {
		t.Fatal(err)
	}
	f.r = r
	ctx, cancel := context.WithCancel(t.Context())
	f.stop = cancel
	go func() { defer close(f.done); _ = r.Run(ctx) }()
	return f
}

func (f *fixture) end() {
	f.stop()
	<-f.done
}

// healthy lets a cell associate until it accepts work.
func (f *fixture) healthy(name worker.CellName, proc worker.Proc) *end {
	f.t.Helper()
	c := newEnd(f.clock, name, proc)
	f.cells.Store(name, c)
	for range 30 {
		c.step(worker.CellTick{})
		c.pump(f.t, f.r)
		synctest.Wait()
		if c.cell.Accepts(f.clock.Boot()) == nil {
			return c
		}
		time.Sleep(100 * time.Millisecond)
	}
	f.t.Fatalf("%s does not get on its feet: %v", name, c.cell.Accepts(f.clock.Boot()))
	return nil
}

func (f *fixture) run(cell worker.CellName, job string) worker.Run {
	f.t.Helper()
	w := worker.Work{Job: job, Node: "n"}
	inv, hold, ok := f.r.StartBatch(worker.Request{Work: w, Cell: cell},
		func(fence.Invocation) (batch.Payload, bool) { return batch.Payload{Domain: "d-" + job}, true })
	if !ok {
		f.t.Fatalf("%s is held: %v", job, hold.Reason)
	}
	synctest.Wait()
	return worker.Run{Work: w, Invocation: inv}
}

// TestWholeLifeOfABatchTask: associate, start with its payload, end, durable, acknowledged.
func TestWholeLifeOfABatchTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, newStore(), 1)
		defer f.end()
		f.ears.ended = func(e worker.Ended) { f.r.StatusCommitted(e.Run, e.Kind) }
		c := f.healthy("c1", "p1")
		if _, ok := f.store.rows["member/p1"]; !ok || len(heard[worker.Eligible](f.ears)) != 1 {
			t.Fatal("the row is durable first")
		}
		x := f.run("c1", "job")
		if len(c.launched) != 1 || c.payloads[x.Invocation] != "d-job" || f.r.Live() != 1 || f.r.Idle("job") {
			t.Fatalf("%v", c.launched)
		}
		f.r.Kill(x)
		synctest.Wait()
		if len(c.kills) != 1 {
			t.Fatal("kill")
		}
		c.step(worker.WorkEnded{Run: x, Status: "done"})
		c.pump(t, f.r)
		synctest.Wait()
		if e := heard[worker.Ended](f.ears); len(e) != 1 || e[0].Status != "done" || len(c.cell.Held()) != 0 ||
			f.r.Live() != 0 {
			t.Fatalf("%v %v", e, c.cell.Held())
		}
		if p, why := f.r.Receives("c1"); p != "p1" || why != "" || !f.r.MayStart("c1", "p1") || f.r.MayStart("c1", "p2") {
			t.Fatal(why)
		}
	})
}

// TestAVetoedStartLeavesNothing: neither in the model nor at the cell, and the next start has
// its invocation.
func TestAVetoedStartLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, newStore(), 1)
		defer f.end()
		c := f.healthy("c1", "p1")
		var asked fence.Invocation
		_, hold, ok := f.r.StartBatch(worker.Request{Work: worker.Work{Job: "job", Node: "n"}, Cell: "c1"},
			func(inv fence.Invocation) (batch.Payload, bool) {
				asked = inv
				return batch.Payload{}, false
			})
		synctest.Wait()
		if ok || hold.Reason != worker.HoldVetoed || len(c.launched) != 0 || f.r.Live() != 0 {
			t.Errorf("%v, %t: launched %v, live %d", hold.Reason, ok, c.launched, f.r.Live())
		}
		if x := f.run("c1", "job"); x.Invocation != asked || len(c.launched) != 1 {
			t.Errorf("%v after a veto of %v", x.Invocation, asked)
		}
	})
}

func (s *fakeStore) size() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.rows)
}

// holds makes the store commit nothing until it is released.
func (s *fakeStore) holds(hold bool) {
	s.mu.Lock()
	s.hold = hold
	s.mu.Unlock()
	if !hold {
		s.commit()
	}
}

// stays lets a cell live for d on its own loops: it sends heartbeats, answers probes and reports
// its ends.
func (f *fixture) stays(c *end, d time.Duration) {
	f.t.Helper()
	for end := f.clock.Boot() + d; f.clock.Boot() < end; {
		c.step(worker.CellTick{})
		synctest.Wait()
		go c.pump(f.t, f.r) // a call may wait for the store
		synctest.Wait()
		time.Sleep(250 * time.Millisecond)
	}
}

// accepts, process and held read the machine.
func (c *end) accepts() (err error) {
	c.set(func() { err = c.cell.Accepts(c.clock.Boot()) })
	return err
}

func (c *end) process() (p worker.Proc) {
	c.set(func() { p = c.cell.Proc() })
	return p
}

func (c *end) held() (all []worker.Held) {
	c.set(func() { all = c.cell.Held() })
	return all
}

// TestNothingLeavesBeforeItsCommit: calls, session changes and acknowledgements of ends wait for
// the store.
func TestNothingLeavesBeforeItsCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, newStore(), 1)
		defer f.end()
		c := f.healthy("c1", "p1")
		f.store.holds(true)
		f.run("c1", "job")
		if len(c.launched) != 0 {
			t.Fatal("the call left")
		}
		f.store.holds(false)
		synctest.Wait()
		if len(c.launched) != 1 {
			t.Fatal("now it leaves")
		}
		run := c.launched[0]
		f.store.holds(true)
		f.ears.ended = func(e worker.Ended) { go f.r.StatusCommitted(e.Run, e.Kind) }
		c.step(worker.WorkEnded{Run: run, Status: "done"})
		f.stays(c, 20*time.Second)
		if held := c.held(); len(held) != 1 || !held[0].Ended || len(heard[worker.Ended](f.ears)) != 0 {
			t.Fatalf("an end that is not durable was taken: %v", held)
		}
		f.store.holds(false)
		f.stays(c, 5*time.Second)
		held, ends := c.held(), heard[worker.Ended](f.ears)
		if len(held) != 0 || len(ends) != 1 || ends[0].Kind != worker.Real {
			t.Fatalf("with room again: held %v, ends %v", held, ends)
		}
	})
}

// TestAStoreThatTakesNothing: for ten minutes nothing is committed. A working cell stays HEALTHY:
// heartbeats are answered, with credit, and so are its probes. A cell that joins meanwhile is
// welcome and gets no work. One that leaves is not judged before that is stored, and then once.
func TestAStoreThatTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, newStore(), 1)
		defer f.end()
		c, gone := f.healthy("c1", "p1"), f.healthy("c2", "p2")
		run := f.run("c1", "job")
		lost := f.run("c2", "other")
		if len(c.launched) != 1 || len(gone.launched) != 1 {
			t.Fatal("the work does not run")
		}
		f.store.holds(true)
		before := f.store.size()
		late := newEnd(f.clock, "c3", "p3")
		f.cells.Store(worker.CellName("c3"), late)
		gone.set(func() { gone.down = errDown })
		for range 10 * 60 {
			f.stays(c, time.Second/2)
			f.stays(late, time.Second/2)
			if err := c.accepts(); err != nil || c.process() != "p1" {
				t.Fatalf("the cell is not on its feet: %v, process %s", err, c.process())
			}
			if late.accepts() == nil {
				t.Fatal("a cell whose row is not durable takes work")
			}
		}
		if v, ok := f.r.Session("c1"); !ok || v.State != worker.Healthy {
			t.Errorf("the leader gave the cell up: %+v", v)
		}
		if dead := heard[worker.Dead](f.ears); len(dead) != 0 || f.store.size() != before {
			t.Errorf("judged without a commit: %v, %d rows", dead, f.store.size())
		}
		f.store.holds(false)
		f.stays(late, 20*time.Second)
		f.stays(c, time.Second)
		if ends := heard[worker.Ended](f.ears); len(ends) != 1 || ends[0].Run != lost || ends[0].Kind != worker.Lost {
			t.Errorf("ends %v", ends)
		}
		if err := late.accepts(); err != nil {
			t.Errorf("the cell that came meanwhile: %v", err)
		}
		if held := c.held(); len(held) != 1 || held[0].Run != run || held[0].Ended {
			t.Errorf("the cell holds %v", held)
		}
	})
}

// TestNeverSentAndUnknown: no connection proves that nothing started; a lost answer does not.
func TestNeverSentAndUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, newStore(), 1)
		defer f.end()
		f.ears.ended = func(e worker.Ended) { f.r.StatusCommitted(e.Run, e.Kind) }
		c := f.healthy("c1", "p1")
		c.set(func() { c.never, c.down = true, errDown })
		f.run("c1", "a")
		if e := heard[worker.Ended](f.ears); len(e) != 1 || e[0].Kind != worker.NeverStarted {
			t.Fatalf("%v", e)
		}
		c.set(func() { c.never, c.down = false, errors.New("the answer was lost") })
		x := f.run("c1", "b")
		if rs := f.r.Running(x.Work); len(rs) != 1 || rs[0].Sure || len(c.launched) != 1 {
			t.Fatalf("%v", rs)
		}
		c.set(func() { c.down = nil })
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if rs := f.r.Running(x.Work); len(rs) != 1 || !rs[0].Sure {
			t.Fatalf("the question is answered: %v", rs)
		}
	})
}

// TestTermOver: waiting callers are released, and nothing more is accepted.
func TestTermOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, newStore(), 1)
		c := f.healthy("c1", "p1")
		f.store.mu.Lock()
		f.store.hold = true
		f.store.mu.Unlock()
		c.step(worker.LinkBroken{})
		var beat worker.Heartbeat
		for _, e := range c.effects {
			if b, ok := e.(worker.SendBeat); ok {
				beat = b.Beat
			}
		}
		errs := make(chan error, 2)
		unlisted := worker.Heartbeat{Protocol: worker.Protocol, Cell: "c9", Proc: "p9", DirID: "c9", Started: 1, Beat: 1,
			HasWork: true, Period: time.Second}
		go func() { _, err := f.r.Heartbeat(t.Context(), unlisted, nil); errs <- err }() // DIE, after the present one
		go func() {
			_, err := f.r.UpdateStatus(t.Context(), worker.UpdateStatus{Cell: "c1", Proc: "p1", Term: f.r.Term(),
				Items: []worker.StatusItem{{Kind: worker.StatusNotRunning}}})
			errs <- err
		}()
		synctest.Wait()
		f.store.fail = errors.New("fenced off")
		f.store.commit()
		for range 2 {
			if err := <-errs; err == nil {
				t.Fatal("an answer after the term")
			}
		}
		if _, _, ok := f.r.StartBatch(worker.Request{Cell: "c1"}, nil); ok {
			t.Fatal("a start after the term")
		}
		if err := f.r.EndWait("ann"); err == nil {
			t.Fatal("an operator's word after the term")
		}
		f.end()
		if _, err := f.r.Heartbeat(t.Context(), beat, nil); err == nil {
			t.Fatal("after the end")
		}
	})
}

// TestHigherTermDeposes: a cell in contact with another leader ends the term.
func TestHigherTermDeposes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, newStore(), 1)
		defer f.end()
		f.r.Heard(worker.TermHeard{Term: fence.Term{Epoch: 1, Revision: 9}})
		synctest.Wait()
		if !f.ears.over {
			t.Fatal("goes on")
		}
	})
}

// TestNextTermKnowsTheMembers: rows are read back; a silent process is waited for, and the operator may end that.
func TestNextTermKnowsTheMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		f := start(t, s, 1)
		f.healthy("c1", "p1")
		f.healthy("c2", "p2")
		f.end()
		s.rows["member/broken"] = []byte("not a record")
		g := start(t, s, 2)
		defer g.end()
		w := g.r.Wait()
		if !w.Active || len(w.For) != 3 || !g.r.Stale() {
			t.Fatalf("%+v", w)
		}
		if !slices.Contains(g.r.Members(), "p2") || g.r.IsDead("p1") {
			t.Fatal(g.r.Members())
		}
		if err := g.r.Forget("nobody", "ann"); !errors.Is(err, worker.ErrUnknownProcess) {
			t.Fatal(err)
		}
		if err := g.r.Forget("p1", "ann"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if _, ok := s.rows["member/p1"]; ok || !g.r.IsDead("p1") || len(heard[worker.Dead](g.ears)) != 1 {
			t.Fatal("forgotten")
		}
		if err := g.r.EndWait("ann"); err != nil || g.r.Wait().Active {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(g.r.Sessions()) != 2 {
			t.Fatalf("%v", g.r.Sessions())
		}
	})
}

// TestRowsSurviveTheirEncoding, and an unreadable row counts as existing.
func TestRowsSurviveTheirEncoding(t *testing.T) {
	m := worker.Member{Proc: "p", Cell: "c", DirID: "f", Started: 7, Boot: "b", Promise: 86 * time.Second, Displaced: true}
	op := memberOp(m)
	got, _, bad := load([]store.Row{{Key: op.Key, Value: op.Value}}, worker.DefaultTimeouts())
	if len(bad) != 0 || len(got) != 1 || got[0] != m {
		t.Fatalf("%+v %v", got, bad)
	}
	got, list, bad := load([]store.Row{{Key: "member/other", Value: op.Value}, {Key: "listver", Value: op.Value}},
		worker.DefaultTimeouts())
	if len(bad) != 2 || len(got) != 1 || got[0].Proc != "other" || got[0].Promise != 100*time.Second || !list.IsZero() {
		t.Fatalf("%+v %v", got, bad)
	}
}

// TestAPromiseThatNoLeaderMakes is not reckoned with: its process is waited for by the longest that one makes.
func TestAPromiseThatNoLeaderMakes(t *testing.T) {
	for promise, want := range map[time.Duration]time.Duration{
		0: 0, 365 * 24 * time.Hour: 365 * 24 * time.Hour,
		-1: 100 * time.Second, 365*24*time.Hour + 1: 100 * time.Second, 1<<63 - 1: 100 * time.Second,
	} {
		op := memberOp(worker.Member{Proc: "p", Cell: "c", DirID: "f", Started: 7, Boot: "b", Promise: promise})
		got, _, bad := load([]store.Row{{Key: op.Key, Value: op.Value}}, worker.DefaultTimeouts())
		if len(got) != 1 || got[0].Promise != want || (len(bad) > 0) != (promise != want) {
			t.Errorf("%v: %+v %v", promise, got, bad)
		}
	}
}

// TestKillsOfOneProcessTravelTogether: ending the work of a cell takes one call at a time, for any
// number of invocations, and each is sent once.
func TestKillsOfOneProcessTravelTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, newStore(), 1)
		defer f.end()
		c := f.healthy("c1", "p1")
		c.set(func() { c.gate = make(chan struct{}) })
		for i := range 40 {
			f.r.Kill(f.run("c1", fmt.Sprint("job", i)))
		}
		time.Sleep(6 * time.Second) // they are sent again meanwhile
		synctest.Wait()
		c.set(func() {
			if len(c.kills) != 1 {
				t.Errorf("%d calls under way", len(c.kills))
			}
			close(c.gate)
		})
		synctest.Wait()
		c.set(func() {
			if len(c.kills) != 2 || c.kills[1] != 40 {
				t.Errorf("calls of %v kills", c.kills)
			}
		})
	})
}

// TestMalformedHeartbeatsAreAnsweredAtOnce: no caller waits for a response that cannot come.
func TestMalformedHeartbeatsAreAnsweredAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, newStore(), 1)
		defer f.end()
		begin := time.Now()
		limit, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := f.r.Heartbeat(limit, worker.Heartbeat{Cell: "c1", Proc: "p1"}, nil)
		if !errors.Is(err, worker.ErrMalformed) || time.Since(begin) > 0 {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
	})
}

// TestOnlyTheHolderIsHeld: a newcomer that is refused does not count as its cell.
func TestOnlyTheHolderIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, newStore(), 1)
		defer f.end()
		f.healthy("c1", "p1")
		beat := worker.Heartbeat{Protocol: worker.Protocol, Cell: "c1", Proc: "other", DirID: "elsewhere", Started: 1,
			Boot: "b", Beat: 1}
		a, err := f.r.Heartbeat(t.Context(), beat, func() { t.Error("it holds the name") })
		if err != nil || a.Verdict != worker.DieAll {
			t.Errorf("%+v, %v", a, err)
		}
		if !f.r.IsBack("p1") || f.r.IsBack("other") {
			t.Error("p1 alone is back")
		}
	})
}

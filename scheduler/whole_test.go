package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"cantina/auctioneer"
	"cantina/batch"
	"cantina/fence"
	"cantina/internal/run"
	"cantina/placement"
	"cantina/plan"
	"cantina/registry"
	"cantina/resource"
	"cantina/store"
	"cantina/store/mem"
	"cantina/wire"
	"cantina/worker"
)

// The real registry must satisfy the interface of the scheduler, and the other way round.
var (
	_ Registry        = (*registry.Registry)(nil)
	_ worker.Statuses = (*Scheduler)(nil)
)

// leader is one term: store, registry, auctioneer and scheduler as cmd puts them
// together.
type leader struct {
	leadership *store.Leadership
	reg        *registry.Registry
	auction    *auctioneer.Auctioneer
	sched      *Scheduler
	stop       func()
}

// listener connects the registry to the others.
type listener struct{ l *leader }

func (x listener) admit(cell worker.CellName) {
	proc, reason := x.l.reg.Receives(cell)
	x.l.auction.Admit(string(cell), string(proc), reason)
}
func (x listener) SessionChanged(e worker.SessionChanged) { x.admit(e.Cell) }
func (listener) Unheard(worker.Unheard)                   {}
func (x listener) Availability(e worker.Availability)     { x.admit(e.Cell) }
func (x listener) Eligible(e worker.Eligible)             { x.admit(e.Cell) }
func (x listener) Dead(worker.Dead)                       {}
func (x listener) Ended(e worker.Ended)                   { x.l.sched.Ended(e) }
func (x listener) StartsChanged()                         { x.l.sched.StartsChanged() }
func (x listener) Audit(worker.Audit)                     {}
func (x listener) Deposed(fence.Term)                     {}

func lead(t *testing.T, b store.Backend, cells registry.Cells, id string, room int) *leader {
	t.Helper()
	clock := run.Bubble()
	st, err := store.New(b, store.Config{Clock: clock, NewCluster: true})
	if err != nil {
		t.Fatal(err)
	}
	l := &leader{}
	if l.leadership, err = st.Campaign(t.Context(), store.Candidate{ID: id}); err != nil {
		t.Fatal(err)
	}
	rows := l.leadership.Rows()
	l.auction = auctioneer.New(auctioneer.Config{Clock: clock}, noCells{}, noBoard{})
	n := 0
	l.sched = New(Config{
		Term: l.leadership.Term(), Store: l.leadership, Auctioneer: l.auction, Hub: &fakeHub{}, Scripts: &fakeScripts{},
		Clock: clock,
		NewID: func() string { n++; return fmt.Sprint(id, "-", n) },
	}, rows)
	l.reg, err = registry.New(registry.Config{
		Worker: worker.Config{
			Term: l.leadership.Term(), Timeouts: worker.DefaultTimeouts(), Restored: l.leadership.Restored(),
			NewStore: l.leadership.NewStore(), NewCluster: true,
			Jobs: l.sched.Names(), HeldNodes: l.sched.HeldNodes(),
		},
		Store: l.leadership, Cells: cells, Listener: listener{l}, Statuses: l.sched, Clock: clock,
		Log: slog.New(slog.DiscardHandler),
	}, rows)
	if err != nil {
		t.Fatal(err)
	}
	l.sched.Attach(l.reg)
	l.auction.Push(placement.State{Cell: "c", Process: "p", Version: 1,
		Capacity: resource.Amounts{resource.Containers: room}})
	ctx, cancel := context.WithCancel(t.Context())
	var working sync.WaitGroup
	working.Go(func() { _ = l.reg.Run(ctx) })
	working.Go(func() { _ = l.auction.Run(ctx) })
	working.Go(func() { _ = l.sched.Run(ctx) })
	l.stop = func() {
		cancel()
		working.Wait()
		_ = l.leadership.Resign(t.Context())
	}
	return l
}

// machine is a cell: the real end of the session, with work that sleeps.
type machine struct {
	t     *testing.T
	ctx   context.Context
	start time.Time

	mu       sync.Mutex
	cell     *worker.Cell
	leader   *leader
	alive    map[worker.Work]worker.Run
	launches map[worker.Work]int
	working  sync.WaitGroup
}

func (m *machine) step(e worker.CellEvent) (answer worker.CellEffect) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, x := range m.cell.Step(time.Since(m.start)+time.Hour, e) {
		switch x := x.(type) {
		case worker.SendBeat:
			l := m.leader
			m.later(time.Millisecond, func() {
				a, err := l.reg.Heartbeat(m.ctx, x.Beat, nil)
				if err != nil {
					m.step(worker.BeatFailed{Beat: x.Beat.Beat})
					return
				}
				m.step(worker.BeatAnswered{Answer: a})
			})
		case worker.SendStatus:
			l := m.leader
			m.later(time.Millisecond, func() {
				as, err := l.reg.UpdateStatus(m.ctx, x.Update)
				if err != nil {
					m.step(worker.StatusFailed{})
					return
				}
				for _, a := range as {
					m.step(worker.StatusAnswered{Answer: a})
				}
			})
		case worker.Launch:
			if old, ok := m.alive[x.Run.Work]; ok {
				m.t.Errorf("%v starts while %v runs", x.Run, old)
			}
			m.alive[x.Run.Work] = x.Run
			m.launches[x.Run.Work]++
			m.later(700*time.Millisecond, func() { m.end(x.Run, batch.Ended{}) })
		case worker.StopWork:
			m.later(time.Millisecond, func() { m.end(x.Run, batch.Ended{Signal: 15, Killed: true}) })
		case worker.StartProbe:
			m.later(time.Millisecond, func() { m.step(worker.ProbeEnded{Probe: x.Probe, OK: true}) })
		case worker.AnswerReport, worker.AnswerRun, worker.AnswerNotify, worker.AnswerKill:
			answer = x
		}
	}
	return answer
}

func (m *machine) later(d time.Duration, f func()) {
	m.working.Go(func() {
		select {
		case <-time.After(d):
			f()
		case <-m.ctx.Done():
		}
	})
}

func (m *machine) end(r worker.Run, e batch.Ended) {
	m.mu.Lock()
	alive := m.alive[r.Work] == r
	delete(m.alive, r.Work)
	m.mu.Unlock()
	if !alive {
		return
	}
	b, err := proto.Marshal(wire.FromBatchEnd(e, nil))
	if err != nil {
		m.t.Error(err)
	}
	m.step(worker.WorkEnded{Run: r, Status: string(b)})
}

func (m *machine) run() {
	for m.ctx.Err() == nil {
		m.step(worker.CellTick{})
		select {
		case <-time.After(100 * time.Millisecond):
		case <-m.ctx.Done():
		}
	}
}

func (m *machine) GetRunningTasks(_ context.Context, _ worker.CellName, q worker.ReportRequest) (worker.Report, error) {
	if a, ok := m.step(worker.ReportAsked{Call: q}).(worker.AnswerReport); ok {
		return a.Report, nil
	}
	return worker.Report{}, errors.New("no answer")
}

func (m *machine) RunTasks(_ context.Context, _ worker.CellName, calls []worker.RunTask,
	payloads []*batch.Payload) ([]worker.RunAnswer, error) {
	var out []worker.RunAnswer
	for i, c := range calls {
		a, ok := m.step(worker.RunAsked{Call: c}).(worker.AnswerRun)
		if c.Probe > 0 {
			continue
		}
		if payloads[i] == nil || payloads[i].Workload == nil {
			m.t.Errorf("no payload for %v", c.Run)
		}
		if !ok {
			return nil, errors.New("no answer")
		}
		out = append(out, a.Answer)
	}
	return out, nil
}

func (m *machine) NotifyIfTasksNotRunning(_ context.Context, _ worker.CellName, q worker.Notify) (worker.NotifyAnswer,
	error) {
	if a, ok := m.step(worker.NotifyAsked{Call: q}).(worker.AnswerNotify); ok {
		return a.Answer, nil
	}
	return worker.NotifyAnswer{}, errors.New("no answer")
}

func (m *machine) KillTask(_ context.Context, _ worker.CellName, calls []worker.KillTask) error {
	for _, k := range calls {
		m.step(worker.KillAsked{Call: k})
	}
	return nil
}

func (m *machine) RequestSuicide(_ context.Context, _ worker.CellName, s worker.Suicide) error {
	m.step(worker.SuicideAsked{Call: s})
	return nil
}

func (m *machine) NeverSent(error) bool { return false }

// TestWholeLeader runs a job with the real registry, the real session of a cell and
// the memory store, and changes the leader in the middle: nothing runs twice,
// everything is done.
func TestWholeLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		m := &machine{t: t, ctx: ctx, start: time.Now(), alive: make(map[worker.Work]worker.Run),
			launches: make(map[worker.Work]int)}
		m.cell = worker.NewCell(worker.CellConfig{Cell: "c", Proc: "p", Started: 1, DirID: "f", Boot: "b", Now: time.Hour,
			Unix: time.Now().Unix(), Timeouts: worker.DefaultTimeouts(), Gone: true})
		b := mem.New(mem.Config{})
		one := lead(t, b, m, "one", 8)
		m.leader = one
		m.working.Go(m.run)
		dbs := make([]string, 60)
		for i := range dbs {
			dbs[i] = fmt.Sprintf("d%02d", i)
		}
		c, err := one.sched.Apply("dom", []plan.NamedJob{testJob("j", map[string][]string{"h": dbs})}, plan.Prune{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := one.sched.Commit(ctx, c); err != nil {
			t.Fatal(err)
		}
		pass(15 * time.Second / 10)
		for i := 0; ; i++ {
			v, err := one.sched.Job("j")
			if err != nil {
				t.Fatal(err)
			}
			if v.Progress.Done >= 20 {
				break
			}
			if i == 1000 {
				why, _ := one.sched.Explain("j", "")
				t.Fatalf("%+v, %v, sessions %+v", v.Progress, why, one.reg.Sessions())
			}
			pass(100 * time.Millisecond)
		}
		one.stop()

		two := lead(t, b, m, "two", 8)
		m.mu.Lock()
		m.leader = two
		m.mu.Unlock()
		for i := 0; ; i++ {
			v, err := two.sched.Job("j")
			if err != nil {
				t.Fatal(err)
			}
			if v.Progress.State == batch.JobDone && v.Progress.Done == 60 {
				break
			}
			if i == 3000 {
				why, _ := two.sched.Explain("j", "")
				t.Fatalf("%+v, %v, wait %+v, sessions %+v", v.Progress, why, two.reg.Wait(), two.reg.Sessions())
			}
			pass(100 * time.Millisecond)
		}
		for w, n := range m.launches {
			if n != 1 {
				t.Errorf("%v was started %d times", w, n)
			}
		}
		if n := len(m.launches); n != 60 {
			t.Errorf("%d started", n)
		}
		if cells := two.auction.Cells(); cells[0].Holdings != 0 {
			t.Errorf("room left over: %+v", cells[0])
		}
		two.stop()
		cancel()
		m.working.Wait()
	})
}

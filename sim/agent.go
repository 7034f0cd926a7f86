package sim

import (
	"context"
	"fmt"
	"time"

	"cantina/cell"
	"cantina/internal/run"
	"cantina/placement"
	"cantina/worker"
)

// The pauses of a harmoniser, and the limit of an orderly end if services may run forever.
const (
	pollEvery  = 5 * time.Second
	drainEvery = 2 * time.Second
	leaveBound = 10 * time.Second
)

// startAgent starts the cell's process on its directory: live containers are adopted if permitted,
// and ended otherwise.
func (m *machine) startAgent() {
	if m.alive || !m.up || m.off {
		return
	}
	if m.containers.unnamed && m.containers.clearing() { // its executor opens when it has ended the others
		m.w.after(killWait, m.startAgent)
		return
	}
	m.life++
	m.alive, m.paused, m.inbox = true, 0, nil
	m.doomed, m.leaving, m.drain, m.pausing = false, false, drainState{}, 0
	m.cleared = m.containers.disinherit()
	m.promises = promises{m: m, sent: map[int64]time.Duration{}}
	m.server = m.w.rng.IntN(len(m.w.servers))
	m.threads = newThreads(m.w, func(fn func()) { m.later(0, fn) })
	c, err := cell.New(cell.Config{Name: m.name, Clock: run.Clock{Wall: m.wall, Boot: m.local},
		Offer: placement.State{Zone: m.zone(), Host: m.dir, Labels: m.side()}, Address: m.dir, Host: m.dir,
		Timeouts: m.w.faults.timeouts(),
		Poll:     pollEvery, DrainPoll: drainEvery, Leave: leaveBound,
		Runtime: cell.Runtime{Go: m.threads.run, Park: m.threads.park,
			Within: within, Identity: identityStore{m}, Machine: m.newSession}}, &engine{m, m.life}, &link{m, m.life})
	if err != nil {
		m.w.fail("setup", "%v", err)
		return
	}
	m.cell, m.promises.proc = c, m.proc()
	m.w.trace("machine %d (%s) starts process %s, adopts %d", m.id, m.name, m.proc(), len(m.agent.Held()))
	for _, l := range c.Begin() {
		m.threads.drive(l, m.later)
	}
	prod(m)
	if s := m.w.servers[0]; m.w.cfg.Alone && !s.alive {
		s.start()
	}
}

// directory is a machine's storage for its cell's processes.
type identityStore struct{ m *machine }

// Read returns the last saved identity.
func (f identityStore) Read() (cell.Identity, error) { return f.m.identity, nil }

// Save replaces it.
func (f identityStore) Save(id cell.Identity, _ bool) error {
	f.m.identity = id
	return nil
}

// Boot names the boot of the machine.
func (f identityStore) Boot() (string, error) { return f.m.boot(), nil }

// NewProc names the next process, or the next session of one: its work is its own.
func (f identityStore) NewProc() worker.Proc {
	m := f.m
	m.w.procs++
	p := worker.Proc(fmt.Sprintf("p%d", m.w.procs))
	m.w.byProc[p], m.w.boots[p] = m, m.boot()
	m.promises.answered = 0
	m.containers.adopt(p)
	return p
}

// session is the cell's end of the session, watched: the contract of each step is checked, and the
// process may die between any two of its effects.
type session struct {
	*worker.Cell
	m    *machine
	life int
}

func (m *machine) newSession(cfg worker.CellConfig) cell.Machine {
	cfg.Gone = cfg.Gone && m.cleared
	m.agent = worker.NewCell(cfg)
	return &session{m.agent, m, m.life}
}

// Step takes one event.
func (s *session) Step(now time.Duration, e worker.CellEvent) []worker.CellEffect {
	m := s.m
	if m.life != s.life || !m.alive || m.doomed {
		return nil
	}
	newest := m.promises.expect(e)
	b := m.promises.view()
	es := s.Cell.Step(now, e)
	m.promises.contract(b, e, es)
	for i, f := range es {
		if !m.w.calm && m.w.rng.IntN(5000) == 0 && m.w.faults.allowed(KillAgent) {
			m.doom()
			es = es[:i]
			break
		}
		m.effect(f)
	}
	m.promises.promised(e, newest, es)
	return es
}

// Due returns when the machine has something to do; after the end of the process it has nothing.
func (s *session) Due(now time.Duration) time.Duration {
	if m := s.m; m.life != s.life || !m.alive || m.doomed {
		return run.Never
	}
	return s.Cell.Due(now)
}

// doom ends the process now, after its present action.
func (m *machine) doom() {
	m.doomed = true
	life := m.life
	m.w.after(0, func() {
		if m.life == life && m.alive {
			m.crash()
			m.w.after(m.w.between(200*time.Millisecond, 3*time.Second), m.startAgent)
		}
	})
}

// effect sees the session's next effect.
func (m *machine) effect(e worker.CellEffect) {
	m.w.trace("  %s/%s: %T%v", m.name, m.agent.Proc(), e, e)
	switch e := e.(type) {
	case worker.SendBeat:
		m.promises.beatSent(e.Beat)
	case worker.EndAll, worker.Exit:
		m.later(0, m.overIf)
	}
}

// overIf ends the process if the cell requests it.
func (m *machine) overIf() {
	if over, _ := m.cell.Over(); over {
		m.exit()
	}
}

// leave is an orderly end: work that does not outlive the agent is stopped, and when none is left
// it deregisters.
func (m *machine) leave() {
	m.leaving = true
	m.cell.Leave()
	m.later(leaveBound, m.exit) // without deregistering
}

// link is how one process reaches the servers: it implements cell.Leader.
type link struct {
	m    *machine
	life int
}

func (l *link) gone() bool { return l.m.life != l.life || !l.m.alive || l.m.doomed }

// ask makes one call: deliver receives it at the server, and its reply fills in the response. A
// response later than ctx permits is dropped.
func (l *link) ask(ctx context.Context, op Op, deliver func(s *server, reply func(op Op, fill func()))) error {
	if l.gone() {
		return errEnded
	}
	m, w := l.m, l.m.w
	s := w.servers[m.server]
	limit := limitOf(ctx)
	if !s.alive || s.leadership == nil && s.paused <= w.now {
		limit = 20 * time.Millisecond // refused, or it does not lead
	}
	return m.threads.await(limit, m.later, func(answer func(take func())) {
		reply := func(op Op, fill func()) {
			w.net.send(op, w.net.serverNode(s.id), w.net.machineNode(m.id), func() {
				m.on(func() {
					if !l.gone() {
						answer(fill)
					}
				})
			})
		}
		w.net.send(op, w.net.machineNode(m.id), w.net.serverNode(s.id), func() { s.arrive(m, func() { deliver(s, reply) }) })
		if d := m.pausing; d > 0 && op == OpBeat {
			m.pausing = 0
			m.later(0, func() { m.pauseAgent(d) })
			w.faults.pauseAgain(m, d)
		}
	})
}

// Heartbeat implements cell.Leader.
func (l *link) Heartbeat(ctx context.Context, b worker.Heartbeat, state cell.State) (got worker.HeartbeatAnswer,
	err error) {
	l.redirect()
	if !l.gone() {
		l.m.containers.sticksShown(state)
	}
	err = l.ask(ctx, OpBeat, func(s *server, reply func(Op, func())) {
		s.heartbeat(b, state, func(a worker.HeartbeatAnswer) { reply(OpBeatAnswer, func() { got = a }) })
	})
	if err != nil && !l.gone() {
		l.m.server = l.m.w.rng.IntN(len(l.m.w.servers))
	}
	return got, err
}

// redirect follows a standby's information about the leader, if that can be called.
func (l *link) redirect() {
	m := l.m
	s := m.w.servers[m.server]
	a, b := m.w.net.machineNode(m.id), m.w.net.serverNode(s.id)
	if !s.alive || s.paused > m.w.now || s.leadership != nil || m.w.net.cut(a, b) || m.w.net.cut(b, a) {
		return
	}
	if r := m.w.leading(); r != nil {
		m.server = r.s.id
	}
}

// UpdateStatus implements cell.Leader.
func (l *link) UpdateStatus(ctx context.Context, u worker.UpdateStatus) (got []worker.StatusAnswer, err error) {
	err = l.ask(ctx, OpStatus, func(s *server, reply func(Op, func())) {
		s.status(u, func(all []worker.StatusAnswer) { reply(OpStatusAnswer, func() { got = all }) })
	})
	return got, err
}

// Rows implements cell.Leader.
func (l *link) Rows(ctx context.Context, from cell.Caller, q cell.RowsQuery) (got cell.Rows, err error) {
	err = l.request(ctx, OpRows, OpRowsAnswer, func(r *leadership) (func(), error) {
		rows, err := r.leads.Rows(context.Background(), from, q)
		return func() { got = rows }, err
	})
	return got, err
}

// LRPEvents implements cell.Leader.
func (l *link) LRPEvents(ctx context.Context, from cell.Caller, es []cell.LRPEvent) (got []error, err error) {
	for _, e := range es[1:] {
		l.m.w.res.Coverage.add(lrpOp(e.Event), l.m.w)
	}
	err = l.request(ctx, lrpOp(es[0].Event), OpLRPAnswer, func(r *leadership) (func(), error) {
		errs, err := r.leads.LRPEvents(context.Background(), from, es)
		return func() { got = errs }, err
	})
	return got, err
}

// TaskEvents implements cell.Leader.
func (l *link) TaskEvents(ctx context.Context, from cell.Caller, es []cell.TaskEvent) (got []error, err error) {
	for _, e := range es[1:] {
		l.m.w.res.Coverage.add(taskOp(e.Event), l.m.w)
	}
	err = l.request(ctx, taskOp(es[0].Event), OpTaskAnswer, func(r *leadership) (func(), error) {
		errs, err := r.leads.TaskEvents(context.Background(), from, es)
		if err == nil && !r.dead {
			for i, e := range es {
				l.m.w.check.answered(r, e.GUID, e.Event, errs[i])
			}
		}
		return func() { got = errs }, err
	})
	return got, err
}

// request makes the leader, if the called server leads, do work that may wait; take receives the
// response.
func (l *link) request(ctx context.Context, op, answered Op, do func(r *leadership) (take func(), err error)) error {
	var refused error
	err := l.ask(ctx, op, func(s *server, reply func(Op, func())) {
		r := s.leadership
		if r == nil {
			return
		}
		r.threads.run(func() {
			take, err := do(r)
			if r.dead {
				return
			}
			reply(answered, func() {
				if refused = err; err == nil {
					take()
				}
			})
		})
	})
	if err != nil {
		return err
	}
	return refused
}

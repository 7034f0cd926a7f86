package sim

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"cantina/cell"
	"cantina/fence"
	"cantina/worker"
)

func newServer(w *world, id int) *server { return &server{w: w, id: id, clock: w.newClock()} }

// turn has the loops of the leader's shells run that were woken.
func (s *server) turn() {
	if s.leadership != nil {
		s.leadership.turn()
	}
}

func (s *server) start() {
	if s.w.cfg.Alone && (s.alive || !s.w.machines[0].alive) {
		s.w.machines[0].startAgent() // which starts the server, too
		return
	}
	s.alive = true
	s.life++
	s.leadership, s.inbox, s.paused, s.backlog = nil, nil, 0, backlog{}
	s.later(s.w.between(50*time.Millisecond, 500*time.Millisecond), s.campaign)
}

func (s *server) crash() {
	s.w.trace("server %d crashes", s.id)
	for _, m := range s.w.machines {
		if m.server == s.id && s.leadership != nil {
			m.later(time.Millisecond, func() { m.cell.LinkBroken() })
		}
	}
	s.alive = false
	r := s.leadership
	s.leadership, s.inbox, s.backlog = nil, nil, backlog{}
	if r != nil {
		r.over, r.dead = true, true
		r.threads.end()
	}
	if m := s.w.machines[0]; s.w.cfg.Alone && m.alive {
		m.crash()
	}
}

func (s *server) pause(d time.Duration) {
	s.w.trace("server %d pauses %v", s.id, d)
	s.paused = s.w.now + d
	life := s.life
	s.w.after(d+time.Nanosecond, func() {
		if s.life != life || s.paused > s.w.now {
			return
		}
		box := s.inbox
		s.inbox = nil
		for _, fn := range box {
			fn()
		}
	})
}

func (s *server) storeCut() bool {
	n := s.w.net.storeNode()
	return s.w.net.cut(s.w.net.serverNode(s.id), n) || s.w.net.cut(n, s.w.net.serverNode(s.id))
}

// campaign tries to win the store, again and again.
func (s *server) campaign() {
	if s.leadership != nil {
		return
	}
	retry := func() { s.later(s.w.between(100*time.Millisecond, 600*time.Millisecond), s.campaign) }
	if s.storeCut() || noRoom(s.w) {
		retry()
		return
	}
	s.w.seq++
	id := s.w.seq
	sent := s.local()
	term, ok := s.w.store.campaign(s.id, id)
	if !ok {
		retry()
		return
	}
	s.later(s.w.between(5*time.Millisecond, 100*time.Millisecond), func() {
		if !s.w.store.keepAlive(s.id, id) || s.w.store.term != term {
			retry()
			return
		}
		s.begin(id, term, sent)
	})
}

// begin starts a term with the linearizable load.
func (s *server) begin(id int, term fence.Term, sent time.Duration) {
	w := s.w
	r := &leadership{s: s, id: id, term: term, made: w.store.made, began: s.local(), held: sent + leaseTTL - leaseDrift,
		jobs: map[string]bool{}, nodes: map[string]bool{},
		perished: map[worker.Proc]bool{}, displaced: map[worker.Proc]bool{},
		silentAt: map[worker.Proc][]*machine{}, handed: map[worker.Run]bool{}, shows: map[worker.Proc]worker.Heartbeat{},
		agreed: map[worker.Proc]bool{}, t: w.faults.timeouts(), revision: w.store.revision, bad: map[string]*aside{},
		newest: map[string]any{}}
	s.setWall()
	r.threads = newThreads(w, func(fn func()) { s.later(0, fn) })
	for _, key := range w.store.texts() {
		if row := w.store.rows[key].(*saved).row; row != nil {
			r.newest[key] = row
		}
	}
	cfg := worker.Config{Timeouts: r.t, Witness: w.cfg.Witness, Restored: w.store.restored, NewStore: w.store.fresh,
		NewCluster: true,
		AllowBump:  w.chance(300), TurnoverLimit: 4}
	if w.cfg.Alone {
		cfg.NoDeadline, cfg.Own = true, w.machines[0].identity.DirID
	}
	w.store.fresh = false
	s.leadership = r
	if err := r.open(cfg); err != nil {
		w.fail("setup", "%v", err)
		return
	}
	r.sched.load()
	w.res.Terms++
	w.trace("server %d leads term %v, %d members, restored %v", s.id, term, len(r.reg.Members()), cfg.Restored)
	if _, err := r.leader.Step(s.local(), nil); !errors.Is(err, worker.ErrMalformed) {
		w.fail("contract", "no event is taken for one: %v", err)
	}
	r.begin()
}

func (r *leadership) keepAlive() {
	s := r.s
	if r.over {
		return
	}
	sent := s.local()
	s.later(s.w.between(time.Millisecond, 50*time.Millisecond), func() {
		if r.over {
			return
		}
		if !s.storeCut() {
			if !s.w.store.keepAlive(s.id, r.id) || s.w.store.term != r.term {
				r.lost()
				return
			}
			r.held = max(r.held, sent+leaseTTL-leaseDrift)
		} else if s.local() > r.held+3*leaseTTL {
			r.end("no proof of the lease")
			return
		}
		s.later(500*time.Millisecond, r.keepAlive)
	})
}

// lost ends the term when the lease is gone: by the higher term, if there is one.
func (r *leadership) lost() {
	if !r.term.Less(r.s.w.store.term) {
		r.end("lease is gone")
		return
	}
	r.reg.Heard(worker.TermHeard{Term: r.s.w.store.term})
	if _, err := r.leader.Step(r.s.local(), worker.Tick{}); !errors.Is(err, worker.ErrDeposed) {
		r.s.w.fail("contract", "a leader that heard a higher term goes on: %v", err)
	}
}

func (r *leadership) leaseHeld() bool { return r.s.local() < r.held }

func (r *leadership) end(why string) {
	if r.over {
		return
	}
	r.s.w.trace("server %d ends term %v: %s", r.s.id, r.term, why)
	r.over = true
	if r.s.leadership == r {
		r.s.leadership = nil
		r.s.later(r.s.w.between(50*time.Millisecond, 500*time.Millisecond), r.s.campaign)
	}
	r.reg.End()
	waiting := append(r.flight, r.pending...)
	r.flight, r.pending = nil, nil
	for _, it := range waiting {
		it.report(0, errTermOver)
	}
}

// report passes the outcome to the waiting caller.
func (it *item) report(revision int64, err error) {
	if it.landed != nil {
		it.landed(revision, err)
	}
}

func (r *leadership) tick() {
	if r.over {
		return
	}
	r.reg.Tick()
	r.board.pass()
	if m := r.s.w.machines[r.s.w.rng.IntN(len(r.s.w.machines))]; m.agent != nil && m.alive {
		call := cell.Work{Term: r.term, Proc: m.proc()}
		r.toProc(OpCall, m.proc(), func(c *cell.Cell, _ func(Op, func())) {
			if r.addresses(c, call.Proc) {
				_, _ = c.Perform(context.Background(), call)
			}
		})
	}
	r.s.later(r.t.Check, r.tick)
}

// put queues a transition. When the term is over it is discarded.
func (r *leadership) put(it item) {
	if r.over {
		r.s.later(0, func() { it.report(0, errTermOver) })
		return
	}
	r.pending = append(r.pending, it)
	r.commit()
}

// transactionOps is how many rows share a transaction, unless one item alone has more: few, so
// that a process may die between parts of one decision.
const transactionOps = 10

// commit sends pending transitions in transactions, one at a time.
func (r *leadership) commit() {
	if r.flying || r.over || len(r.pending) == 0 {
		return
	}
	var all []op
	n := 0
	for n < len(r.pending) && (n == 0 || len(all)+len(r.pending[n].ops) <= transactionOps && !r.pending[n].alone) {
		all = append(all, r.pending[n].ops...)
		n++
	}
	batch := r.pending[:n:n]
	r.pending = r.pending[n:]
	r.flying, r.flight = true, batch
	if len(all) == 0 {
		r.s.later(0, func() { r.done(batch) })
		return
	}
	withRoom(r, func() { r.transact(all, func() { r.done(batch) }) })
}

// withRoom does fn once the store has room: a refused write has certainly not landed, and is tried again.
func withRoom(r *leadership, fn func()) {
	if !noRoom(r.s.w) {
		fn()
		return
	}
	r.s.later(fullPause, func() {
		if !r.over {
			withRoom(r, fn)
		}
	})
}

// fullPause is the time between two tries to commit to a store that is full.
const fullPause = 250 * time.Millisecond

// noRoom reports that the store takes no writes: its disk is full.
func noRoom(w *world) bool { return w.now < w.faults.full }

// refuses reports that the leader knows that: earlier decisions wait for the commit.
func refuses(w *world) bool { return noRoom(w) && w.now >= w.faults.filled+500*time.Millisecond }

// transact is one fenced transaction with an outcome that may stay unknown.
func (r *leadership) transact(all []op, done func()) {
	w, s := r.s.w, r.s
	w.after(w.between(time.Millisecond, 10*time.Millisecond), func() {
		unknown := s.storeCut() || w.faults.allowed(UnknownCommit) && w.chance(10)
		lost := unknown && w.chance(500)
		if w.faults.loseJob && hasJob(all) {
			w.faults.loseJob, unknown, lost = false, true, true
		}
		ok := !lost && w.store.commit(s.id, r.id, r.term, all)
		revision := w.store.revision
		if unknown {
			w.faults.active[UnknownCommit] = max(w.faults.active[UnknownCommit], w.now+time.Second)
		}
		if unknown && (lost || w.chance(500)) {
			s.later(w.between(0, 2*time.Second), func() { r.end("outcome of a commit unknown") })
			return
		}
		s.later(w.between(time.Millisecond, 10*time.Millisecond), func() {
			if !ok {
				r.end("commit refused")
				return
			}
			r.revision = revision
			done()
		})
	})
}

func hasJob(all []op) bool {
	return slices.ContainsFunc(all, func(o op) bool {
		text, ok := o.key.(string)
		return ok && strings.HasPrefix(text, jobPrefix)
	})
}

func (r *leadership) done(batch []item) {
	if r.over {
		return
	}
	r.flying, r.flight = false, nil
	for i, it := range batch {
		if it.refused == nil {
			it.report(r.revision, nil)
		} else {
			it.report(0, it.refused)
		}
		if r.over {
			r.abandon(batch[i+1:])
			return
		}
		if it.after != nil {
			it.after()
		}
	}
	r.commit()
}

// abandon reports the end to callers whose commit is no longer followed, unless the process is
// dead.
func (r *leadership) abandon(batch []item) {
	for _, it := range batch {
		if r.s.alive {
			it.report(0, errTermOver)
		}
	}
}

// dies: the process may end between any two effects of a commit.
func (r *leadership) dies() bool { return r.diesBy(1) }

// diesBy ends the process with a chance, and starts it again after a while.
func (r *leadership) diesBy(perMille int) bool {
	s := r.s
	if r.over || s.w.calm || !s.w.chance(perMille) || !s.w.faults.allowed(KillServer) {
		return false
	}
	s.crash()
	s.w.after(s.w.between(100*time.Millisecond, 3*time.Second), s.start)
	return true
}

// stops reports whether an effect is not made any more: the term is over, or the process
// dies right before it.
func (r *leadership) stops() bool { return r.over || r.dies() }

package sim

import (
	"context"
	"errors"

	"cantina/cell"
	"cantina/worker"
)

// watch checks the contract of each step of the leader's machine.
func (r *leadership) watch(e worker.Event) func(worker.Output, error) {
	seen := r.before(e)
	return func(out worker.Output, err error) {
		if errors.Is(err, worker.ErrDeposed) {
			return // EndTerm waits for the commit before it
		}
		for _, f := range out.Effects {
			r.s.w.trace("  leader %v: %T%v", r.term, f, f)
			if a, ok := f.(worker.Audit); ok && a.Kind == worker.AuditWaitEnded {
				r.s.w.check.waitOver(r)
			}
		}
		r.contract(seen, e, out)
		if err != nil {
			r.s.w.fail("I10", "%T: %v", e, err)
		}
	}
}

// toProc calls one process; its reply returns to this term, if that lasts.
func (r *leadership) toProc(op Op, p worker.Proc, fn func(c *cell.Cell, reply func(Op, func()))) {
	w := r.s.w
	m := w.byProc[p]
	if m == nil {
		return
	}
	if m.cutOff > w.now {
		w.res.Coverage.add(op, w)
		w.trace("  net: %v to %s: no connection", op, m.name)
		return
	}
	reply := func(op Op, take func()) {
		if m.doomed {
			return
		}
		w.net.send(op, w.net.machineNode(m.id), w.net.serverNode(r.s.id), func() {
			r.s.arrive(m, func() {
				if !r.over {
					take()
				}
			})
		})
	}
	w.net.send(op, w.net.serverNode(r.s.id), w.net.machineNode(m.id), func() { m.on(func() { fn(m.cell, reply) }) })
}

// heartbeat handles a heartbeat, if this server leads; the response is sent when its basis is
// durable.
func (s *server) heartbeat(b worker.Heartbeat, state cell.State, reply func(worker.HeartbeatAnswer)) {
	r := s.leadership
	if r == nil {
		return
	}
	r.threads.run(func() {
		a, err := r.leads.Heartbeat(context.Background(), b, state)
		if err == nil && !r.dead && !r.dies() {
			reply(a)
		}
	})
}

// status takes ends and answers to probes; one answer for each, not OK when it is not
// durable in time.
func (s *server) status(u worker.UpdateStatus, reply func([]worker.StatusAnswer)) {
	r := s.leadership
	if r == nil {
		return
	}
	r.threads.run(func() {
		all, err := r.leads.UpdateStatus(context.Background(), u)
		if err != nil || r.dead || r.dies() {
			return
		}
		for _, a := range all {
			s.w.check.acknowledged(s.w, r, a)
		}
		reply(all)
	})
}

package node

import (
	"context"
	"errors"
	"net/http"
	"time"

	"cantina/internal/guard"
	"cantina/internal/health"
	"cantina/internal/link"
	"cantina/store"
	"cantina/worker"
)

// storeTime is how long the store may take for the read of /readyz.
const storeTime = time.Second

// setStore keeps the store for the checks while it is open.
func (s *Server) setStore(st *store.Store) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store = st
}

// check is a check that holds, or has the fault.
func check(name string, holds bool, fault string) health.Check {
	if holds {
		return health.Check{Name: name}
	}
	return health.Check{Name: name, Fault: fault}
}

// health has the checks of the server.
func (s *Server) health() health.Part {
	return health.Part{Name: "server", Ready: s.ready, Live: func() {
		s.mu.Lock()
		t := s.term
		s.mu.Unlock()
		if t != nil {
			t.Answer()
		}
	}}
}

// ready has the conditions under which the server answers calls, or names the server that does. The read of the store
// is linearizable: it proves a majority.
func (s *Server) ready() []health.Check {
	s.mu.Lock()
	t, st := s.term, s.store
	s.mu.Unlock()
	switch {
	case st == nil && s.cfg.Membership == nil:
		return []health.Check{{Name: "store", Fault: "is starting"}}
	case st == nil:
		return []health.Check{{Name: "store", Fault: "is starting; this needs a majority of its members"}}
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeTime)
	defer cancel()
	_, err := st.Leader(ctx)
	missing := errors.Is(err, store.ErrNoLeader)
	out := []health.Check{check("store", err == nil || missing, "no majority of its members answers")}
	out = append(out, check("leader", t != nil || err == nil, "no server leads"))
	if t != nil {
		out = append(out, check("writes", t.TakesWrites(), "the store takes none: its disk is full or does not answer"))
	}
	return out
}

// health has the checks of the cell.
func (n *Cell) health() health.Part {
	return health.Part{Name: "cell", Ready: n.ready, Live: func() {
		n.cell.State()
		n.exec.List()
	}}
}

// ready has the conditions under which the cell gets work.
func (n *Cell) ready() []health.Check {
	stuck := false
	for _, c := range n.exec.List() {
		stuck = stuck || c.Stuck != nil
	}
	return []health.Check{
		sessionCheck(n.cell.State()),
		check("executor", !n.cell.ProbeFailed(), "the last probe could not run a container"),
		check("processes", !stuck, "a container survives SIGKILL"),
		check("disk", n.exec.Disk().Fault == nil, "is full or cannot be written"),
		check("work", !n.cell.Leaving(), "is being drained, or the process ends"),
	}
}

func sessionCheck(s worker.State) health.Check {
	return check("session", s == worker.Healthy, "is "+s.String()+": no leader counts on this cell")
}

// handler answers the leader, and monitors.
func (n *Cell) handler() http.Handler {
	mux := guard.NewMux()
	mux.Handle("/", link.NewCellHandler(n.local))
	n.cfg.Health.Register(mux)
	return mux
}

// health has the checks of a simulation: all sessions are HEALTHY.
func (s *Simulation) health() health.Part {
	states := func() (out health.Check) {
		for _, m := range s.cells {
			if out = sessionCheck(m.State()); out.Fault != "" {
				break
			}
		}
		return out
	}
	return health.Part{Name: "cells", Live: func() { states() }, Ready: func() []health.Check {
		return []health.Check{states()}
	}}
}

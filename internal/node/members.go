package node

import (
	"context"
	"time"

	"cantina/fence"
	"cantina/internal/guard"
	"cantina/internal/run"
	"cantina/store/etcd"
)

// peerWarnings checks the addresses of the members of the store, and returns the warnings of unprotected ones.
func peerWarnings(ctx context.Context, cfg ServerConfig) (warnings []string, err error) {
	p := cfg.Membership
	if p == nil {
		return nil, nil
	}
	listen, err := p.ListenAddress()
	if err != nil {
		return nil, err
	}
	look := func(flag, address string) error {
		w, err := guard.Listener{Address: address, Flag: flag, TLS: cfg.TLS, Insecure: cfg.Insecure}.Permit(ctx)
		if w != "" {
			warnings = append(warnings, w)
		}
		return err
	}
	if err := look("--peer-listen", listen); err != nil {
		return nil, err
	}
	for _, a := range p.Members {
		if a.Peer == listen {
			continue
		}
		if err := look("--initial-cluster", a.Peer); err != nil {
			return nil, err
		}
	}
	return warnings, nil
}

// membership is the configuration of the embedded member, with the protection and the addresses of this server.
func (s *Server) membership() *etcd.Membership {
	if s.cfg.Membership == nil {
		return nil
	}
	p := *s.cfg.Membership
	p.TLS = etcd.PeerFiles{Cert: s.cfg.TLS.Cert, Key: s.cfg.TLS.Key, CA: s.cfg.TLS.CA}
	p.API = s.addressesForOthers()
	return &p
}

func (s *Server) setMember(m *etcd.Member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.member = m
}

// embedded is the embedded member; nil while there is none.
func (s *Server) embedded() *etcd.Member {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.member
}

// leads informs the embedded member that this server leads, or no longer leads.
func (s *Server) leads(leads bool) {
	if m := s.embedded(); m != nil {
		m.SetLeads(leads)
	}
}

const (
	// majorityEvery is how often a server looks whether its member is connected to a majority.
	majorityEvery = 500 * time.Millisecond
	// majorityAfter is how long it may be without before that is reported: an election takes as long.
	majorityAfter = 3 * time.Second
)

// watchMajority reports to clients that this server cannot know the leader, while its member has no majority.
func (s *Server) watchMajority(ctx context.Context) error {
	since, reported := s.cfg.Clock.Boot(), false
	for {
		m := s.embedded()
		has := m != nil && m.HasMajority()
		if has {
			since = s.cfg.Clock.Boot()
		}
		s.mu.Lock()
		l, leads := s.known, s.term != nil
		s.mu.Unlock()
		switch lost := s.cfg.Clock.Boot()-since > majorityAfter; {
		case lost && !reported && !leads:
			reported = true
			s.log.Error("no majority of the members of the store is connected: this server waits for it")
			s.api.Follow("", fence.Term{})
			s.unable(etcd.ErrNoMajority)
		case has && reported:
			reported = false
			s.log.Info("a majority of the members of the store is connected")
			s.unable(nil)
			if !leads {
				s.api.Follow(first(l.Addresses), l.Term)
			}
		}
		if err := run.Pause(ctx, majorityEvery); err != nil {
			return err
		}
	}
}

// awaitVote returns when the embedded member votes: one that was just added first gets the entries of the others.
func (s *Server) awaitVote(ctx context.Context) error {
	for {
		if m := s.embedded(); m == nil || !m.Learner() {
			return nil
		}
		if err := run.Pause(ctx, majorityEvery); err != nil {
			return err
		}
	}
}

package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	etcderrors "go.etcd.io/etcd/server/v3/etcdserver/errors"

	"cantina/fault"
	"cantina/internal/run"
)

// Errors of the members of a store.
var (
	// ErrRemoved reports that this member was removed from its cluster.
	ErrRemoved = errors.New("this member was removed from the cluster of the store")
	// ErrNoMajority reports that this member is not connected to a majority of the members.
	ErrNoMajority = fault.New(fault.ErrBusy, "this server is not connected to a majority of the members of the store")
	errNoMember   = fault.New(fault.ErrNotFound, "no such member")
	errIsMember   = fault.New(fault.ErrExists, "already a member")
	errLastMember = fault.New(fault.ErrConflict, "it is the only voting member of the store")
)

// MemberState is one member of the store, as this one sees it.
type MemberState struct {
	MemberAddress
	ID string
	// API has the addresses of its server.
	API []string
	// Learner: it gets all entries and does not vote yet.
	Learner bool
	// Elected: it orders the entries of the store.
	Elected bool
	// Self is this member.
	Self bool
	// Reachable: it answers this member.
	Reachable bool
}

// Members returns the members of the store in the order of their names, also without a majority.
func (m *Member) Members(ctx context.Context) ([]MemberState, error) {
	all, err := do(ctx, m.backend, func(context.Context) ([]MemberState, error) { return m.members(), nil })
	if err != nil || m.cfg.Membership == nil {
		return all, err
	}
	var asked sync.WaitGroup
	for i := range all {
		asked.Go(func() { all[i].Reachable = all[i].Self || m.answers(ctx, all[i]) })
	}
	asked.Wait()
	return all, nil
}

func (m *Member) members() []MemberState {
	s := m.server.Server
	own, elected := s.MemberID(), s.Leader()
	var all []MemberState
	for _, x := range s.Cluster().Members() {
		state := MemberState{MemberAddress: MemberAddress{Name: x.Name, Peer: peerOf(x)}, ID: x.ID.String(),
			Learner: x.IsLearner, Elected: x.ID == elected, Self: x.ID == own, Reachable: x.ID == own}
		for _, u := range x.ClientURLs {
			if _, address, ok := strings.Cut(u, "://"); ok && address != state.Peer {
				state.API = append(state.API, address)
			}
		}
		all = append(all, state)
	}
	slices.SortFunc(all, func(a, b MemberState) int { return strings.Compare(a.Name+a.ID, b.Name+b.ID) })
	return all
}

// answerTime is how long a member may take to answer that it is there.
const answerTime = 500 * time.Millisecond

// answers asks a member for its version: a process that is stopped keeps its connections, and does not answer.
func (m *Member) answers(ctx context.Context, x MemberState) bool {
	_, err := m.cfg.Membership.get(ctx, x.Peer, "/version")
	return err == nil
}

// maxPeerAnswer bounds the answer of another member.
const maxPeerAnswer = 1 << 20

// get reads a page of another member.
func (p *Membership) get(ctx context.Context, peer, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	t, err := transport.NewTransport(p.transport(), answerTime)
	if err != nil {
		return nil, err
	}
	t.DisableKeepAlives = true
	u := p.url(peer)
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String()+path, nil)
	if err != nil {
		return nil, err
	}
	a, err := t.RoundTrip(q)
	if err != nil {
		return nil, err
	}
	defer a.Body.Close()
	body, err := io.ReadAll(io.LimitReader(a.Body, maxPeerAnswer))
	if err == nil && a.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s%s: %s", peer, path, a.Status)
	}
	return body, err
}

// admitted returns nil if a member may make its first start in a running cluster: it was added, and does not vote. A
// voter without its entries could vote away those that it has acknowledged.
func (p *Membership) admitted(ctx context.Context) error {
	own, err := p.Own()
	if err != nil {
		return err
	}
	var failed error
	for _, other := range p.Members {
		if other.Name == p.Name {
			continue
		}
		var all []membership.Member
		body, err := p.get(ctx, other.Peer, "/members")
		if err == nil {
			err = json.Unmarshal(body, &all)
		}
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		i := slices.IndexFunc(all, func(x membership.Member) bool { return peerOf(&x) == own.Peer })
		switch {
		case i < 0:
			return badList("%s is no member of the cluster of %s: first run cantina server members add %s, and use the list "+
				"that it prints", own, other, own)
		case !all[i].IsLearner:
			return badList("%s", p.replaceIt())
		}
		return nil
	}
	return badList("no other member of --initial-cluster answers: check the addresses, and that these servers run (%w)",
		failed)
}

// replaceIt is the remedy for a member that has lost its files.
func (p *Membership) replaceIt() string {
	return "member " + p.Name + " has served in this cluster, and its directory is empty: replace it. Run cantina " +
		"server members remove " + p.Name + ", then cantina server members add " + p.ownText() + ", and start with --join"
}

// Progress is how far this member has come: the index of the newest entry that it has applied, and of the
// newest that it knows to be committed.
func (m *Member) Progress() (applied, committed uint64) {
	return m.server.Server.AppliedIndex(), m.server.Server.CommittedIndex()
}

// HasMajority reports that this member follows an elected one, or is it.
func (m *Member) HasMajority() bool { return m.server.Server.Leader() != 0 }

// Learner reports that this member does not vote yet.
func (m *Member) Learner() bool { return m.server.Server.IsLearner() }

// AddMember adds a member that does not vote yet. It starts with Membership.Join, and votes as soon as it has the
// entries of the others. The answer has all members.
func (m *Member) AddMember(ctx context.Context, a MemberAddress) ([]MemberAddress, error) {
	p := m.cfg.Membership
	if p == nil {
		return nil, badList("this server was started without --initial-cluster: restart it with its own entry alone " +
			"(--initial-cluster NAME=HOST:PORT)")
	}
	all := m.members()
	for _, x := range all {
		if x.Name == a.Name {
			return nil, fmt.Errorf("%s: %w, with address %s", a.Name, errIsMember, x.Peer)
		}
		if x.Peer == a.Peer {
			return nil, fmt.Errorf("%s: %w, named %s", a.Peer, errIsMember, x.Name)
		}
	}
	u, now := p.url(a.Peer), time.Now()
	urls, err := types.NewURLs([]string{u.String()})
	if err != nil {
		return nil, badList("%s: %w", a.Peer, err)
	}
	added := membership.NewMemberAsLearner(a.Name, urls, "", &now)
	err = m.change(ctx, added.ID, true, func(ctx context.Context) error {
		_, err := m.server.Server.AddMember(ctx, *added)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("add member %s: %w", a.Name, err)
	}
	var list []MemberAddress
	for _, x := range m.members() {
		list = append(list, x.MemberAddress)
	}
	return list, nil
}

// RemoveMember removes a member, by its name or id. Its process ends if it runs.
func (m *Member) RemoveMember(ctx context.Context, name string) error {
	voters := 0
	var found *MemberState
	for _, x := range m.members() {
		if !x.Learner {
			voters++
		}
		if x.Name == name || x.ID == name {
			found = &x
		}
	}
	switch {
	case found == nil:
		return fmt.Errorf("%s: %w", name, errNoMember)
	case !found.Learner && voters == 1:
		return fmt.Errorf("%s: %w", name, errLastMember)
	}
	id, err := types.IDFromString(found.ID)
	if err != nil {
		return err
	}
	err = m.change(ctx, id, false, func(ctx context.Context) error {
		_, err := m.server.Server.RemoveMember(ctx, uint64(id))
		return err
	})
	if err != nil {
		return fmt.Errorf("remove member %s: %w", name, err)
	}
	return nil
}

const (
	// settleTime is how long a change of the members waits for connections: etcd counts those that are 5 s old.
	settleTime = 8 * time.Second
	// changeTime limits one try. An entry is lost when another member is elected while it is on its way, and etcd would
	// wait for it without end.
	changeTime = 2 * time.Second
)

// change adds the member of an id, or removes it. A try whose result is unknown is repeated: etcd never uses an id
// twice.
func (m *Member) change(ctx context.Context, id types.ID, present bool, f func(context.Context) error) error {
	for end := time.Now().Add(settleTime); ; {
		try, cancel := context.WithTimeout(ctx, changeTime)
		_, err := do(try, m.backend, func(ctx context.Context) (struct{}, error) { return struct{}{}, f(ctx) })
		lost := err != nil && try.Err() != nil
		cancel()
		switch {
		case err == nil, (m.server.Server.Cluster().Member(id) != nil) == present:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case !lost && !errors.Is(err, etcderrors.ErrUnhealthy), time.Now().After(end):
			return refusal(err)
		}
		if err := run.Pause(ctx, answerTime); err != nil {
			return err
		}
	}
}

// refusal adds the remedy to an error of a change of the members.
func refusal(err error) error {
	conflict := func(text string) error { return fault.As(fmt.Errorf("%s (%w)", text, err), fault.ErrConflict) }
	switch {
	case errors.Is(err, etcderrors.ErrUnhealthy), errors.Is(err, etcderrors.ErrNotEnoughStartedMembers):
		return conflict("too few members would be left that are connected: first start those that are not reachable, or " +
			"remove them")
	case errors.Is(err, membership.ErrTooManyLearners):
		return conflict("another member does not vote yet: wait until it does, or remove it")
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, etcderrors.ErrCanceled),
		errors.Is(err, etcderrors.ErrTimeout), errors.Is(err, etcderrors.ErrNoLeader),
		errors.Is(err, etcderrors.ErrTimeoutDueToLeaderFail), errors.Is(err, etcderrors.ErrTimeoutDueToConnectionLost):
		return fmt.Errorf("%w (%w)", ErrNoMajority, err)
	}
	return err
}

// Yields reports that the backend's own member is the elected one of several: another server should rather lead.
func (b *Backend) Yields() bool {
	if b.member == nil || b.member.cfg.Membership == nil {
		return false
	}
	return b.member.elected() && len(b.member.server.Server.Cluster().Members()) > 1
}

// elected reports that this member orders the entries of the store.
func (m *Member) elected() bool { return m.server.Server.Leader() == m.server.Server.MemberID() }

// SetLeads records whether this server leads the cluster of cantina.
func (m *Member) SetLeads(leads bool) {
	m.leads.Store(leads)
	select {
	case m.ledChange <- struct{}{}:
	default:
	}
}

const (
	// tendEvery is how often a member looks at the others.
	tendEvery = time.Second
	// handOverTime is how long the election of another member may take. No entries are accepted meanwhile.
	handOverTime = time.Second
	// handOverPause is the time until the next try.
	handOverPause = 5 * time.Second
	// lookAtSpace is how often a member looks whether its database file is mostly empty.
	lookAtSpace = time.Minute
)

// duties are when a member last did some of its regular work.
type duties struct{ handedOver, lookedAtSpace time.Time }

// tend keeps the cluster in order until ctx is done: it publishes a changed address of this member, makes learners
// vote, separates the leader of cantina from the elected member, and defragments a member that is neither.
func (m *Member) tend(ctx context.Context) {
	tick := time.NewTicker(tendEvery)
	defer tick.Stop()
	d := duties{lookedAtSpace: time.Now()}
	for ctx.Err() == nil {
		changed := m.server.Server.LeaderChangedNotify()
		_, err := do(ctx, m.backend, func(ctx context.Context) (struct{}, error) {
			m.tendOnce(ctx, &d)
			return struct{}{}, nil
		})
		if err != nil {
			return
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		case <-changed:
		case <-m.ledChange:
		}
	}
}

func (m *Member) tendOnce(ctx context.Context, d *duties) {
	all := m.members()
	i := slices.IndexFunc(all, func(x MemberState) bool { return x.Self })
	if i < 0 {
		return
	}
	m.publishAddress(ctx, all[i])
	leads := m.leads.Load()
	switch elected := all[i].Elected; {
	case elected:
		m.promote(ctx, all)
		if leads && time.Since(d.handedOver) > handOverPause && m.handOver(ctx, all) {
			d.handedOver = time.Now()
		}
	case !leads && time.Since(d.lookedAtSpace) > lookAtSpace:
		// No other member waits for this one: it takes entries into its log meanwhile, and applies them later.
		d.lookedAtSpace = time.Now()
		if err := m.cfg.Upkeep.defragment(ctx, ownMember{m}, m.cfg.Log); err != nil {
			m.cfg.Log.Warn("defragmentation of the store failed", "error", err)
		}
	}
}

// publishAddress has the others call this member where its list of members has it, if that has changed.
func (m *Member) publishAddress(ctx context.Context, own MemberState) {
	p := m.cfg.Membership
	want, err := p.Own()
	if err != nil || own.Learner || !m.HasMajority() {
		return
	}
	u := p.url(want.Peer)
	x := m.server.Server.Cluster().Member(m.server.Server.MemberID())
	if x == nil || slices.Equal(x.PeerURLs, []string{u.String()}) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, tendEvery)
	defer cancel()
	if _, err := m.client.MemberUpdate(ctx, uint64(x.ID), []string{u.String()}); err != nil {
		m.cfg.Log.Warn("address of the member is not published", "member", want.Name, "address", want.Peer, "error", err)
		return
	}
	m.cfg.Log.Info("address of the member changed", "member", want.Name, "address", want.Peer, "before", own.Peer)
}

// promote makes each learner a voter that has the entries of this member.
func (m *Member) promote(ctx context.Context, all []MemberState) {
	for _, x := range all {
		id, err := types.IDFromString(x.ID)
		if !x.Learner || err != nil {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, tendEvery)
		_, err = m.client.MemberPromote(ctx, uint64(id))
		cancel()
		if err != nil {
			m.cfg.Log.Debug("learner is not ready", "member", x.Name, "error", err)
			continue
		}
		m.cfg.Log.Info("member votes now", "member", x.Name, "address", x.Peer)
	}
}

// handOver has another voter elected, and reports that it tried. A lease outlives the elected member by its full time
// and an election more: so if the process that is lost was both the elected member and the leader of cantina, the next
// leader would have to wait for it.
func (m *Member) handOver(ctx context.Context, all []MemberState) bool {
	for _, x := range all {
		id, err := types.IDFromString(x.ID)
		if x.Self || x.Learner || err != nil || !m.answers(ctx, x) {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, handOverTime)
		err = m.server.Server.MoveLeader(ctx, uint64(m.server.Server.MemberID()), uint64(id))
		cancel()
		if err != nil {
			m.cfg.Log.Warn("another member was not elected", "member", x.Name, "error", err)
		}
		return true
	}
	return false
}

// depart ends the server of one of several members, which has another one elected before. etcd would wait 7 s for one
// that is ending too.
func (m *Member) depart() {
	ctx, cancel := context.WithTimeout(context.Background(), answerTime+handOverTime)
	defer cancel()
	if m.elected() {
		m.handOver(ctx, m.members())
	}
	m.server.Server.HardStop()
}

// explain adds the remedy to an error of the start of one of several members.
func (p *Membership) explain(err error) error {
	if p == nil {
		return err
	}
	text := err.Error()
	for _, known := range []struct{ part, remedy string }{
		{"has already been bootstrapped", p.replaceIt()},
		{"error validating peerURLs", "--initial-cluster differs from the members of the running cluster: first run " +
			"cantina server members add " + p.ownText() + ", and use the list that it prints"},
		{"address already in use", "another process listens on the address of this member: choose one with --peer-listen"},
	} {
		if strings.Contains(text, known.part) {
			return badList("%s (%w)", known.remedy, err)
		}
	}
	return err
}

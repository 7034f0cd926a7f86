package node

import (
	"context"
	"errors"
	"sync"
	"time"

	"cantina/api"
	"cantina/fault"
	"cantina/fence"
	"cantina/store/etcd"
	pb "cantina/wire/cantinav1"
	"cantina/wire/cantinav1/cantinav1connect"
)

// storeMembers are the calls about the members of the embedded store.
type storeMembers struct{ s *Server }

var errStarting = fault.New(fault.ErrBusy, "the store of this server is starting")

func (m storeMembers) member() (*etcd.Member, error) {
	if e := m.s.embedded(); e != nil {
		return e, nil
	}
	return nil, errStarting
}

// ListMembers implements api.Members. The servers of the other members are asked for their part.
func (m storeMembers) ListMembers(ctx context.Context, own bool) ([]api.StoreMember, error) {
	e, err := m.member()
	if err != nil {
		return nil, err
	}
	all, err := e.Members(ctx)
	if err != nil {
		return nil, err
	}
	m.s.mu.Lock()
	leader := m.s.known.ID
	if m.s.known.Term == (fence.Term{}) {
		leader = ""
	}
	m.s.mu.Unlock()
	out := make([]api.StoreMember, 0, len(all))
	for _, x := range all {
		if m.s.cfg.Membership == nil { // it has no listener, and no name in a list
			x.Name, x.Peer = m.s.cfg.Name, ""
		}
		row := api.StoreMember{Name: x.Name, ID: x.ID, Peer: x.Peer, Addresses: x.API, Learner: x.Learner,
			Leader: x.Name == leader && leader != "", Elected: x.Elected, Reachable: x.Reachable}
		if x.Self {
			row.Reported = true
			row.Applied, row.Behind = e.Progress() // Behind is made of the newest index below
			if row.Size, row.Used, err = e.Size(ctx); err != nil {
				return nil, err
			}
		}
		if x.Self || !own {
			out = append(out, row)
		}
	}
	if own {
		return out, nil
	}
	var asked sync.WaitGroup
	for i := range out {
		if !out[i].Reported && len(out[i].Addresses) > 0 {
			asked.Go(func() { m.ask(ctx, &out[i]) })
		}
	}
	asked.Wait()
	newest := uint64(0)
	for _, x := range out {
		newest = max(newest, x.Applied, x.Behind)
	}
	for i := range out {
		out[i].Behind = 0
		if out[i].Reported {
			out[i].Behind = newest - out[i].Applied
		}
	}
	return out, nil
}

// askTime is how long the server of another member may take to answer.
const askTime = time.Second

// ask gets the part of another server.
func (m storeMembers) ask(ctx context.Context, x *api.StoreMember) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	c := api.NewClient(api.ClientConfig{Addresses: x.Addresses[:1], TLS: m.s.client, Token: m.s.cfg.Token})
	defer c.Close()
	got, err := api.Call(ctx, c, cantinav1connect.CantinaServiceClient.ListMembers, &pb.ListMembersRequest{Own: true})
	if err != nil {
		m.s.log.Debug("another server does not answer", "member", x.Name, "address", x.Addresses[0], "error", err)
		return
	}
	for _, o := range got.Members {
		if o.Id == x.ID {
			x.Reported, x.Size, x.Used, x.Applied, x.Behind = true, o.Size, o.Used, o.Applied, o.Behind
		}
	}
}

// AddMember implements api.Members.
func (m storeMembers) AddMember(ctx context.Context, name, peer string) ([]string, error) {
	e, err := m.member()
	if err != nil {
		return nil, err
	}
	a, err := etcd.ParseMember(name + "=" + peer)
	if err != nil {
		return nil, fault.As(err, fault.ErrInvalid)
	}
	list, err := e.AddMember(ctx, a)
	if errors.Is(err, etcd.ErrMembership) {
		err = fault.As(err, fault.ErrConflict)
	}
	if err != nil {
		return nil, err
	}
	out := make([]string, len(list))
	for i, a := range list {
		out[i] = a.String()
	}
	return out, nil
}

// RemoveMember implements api.Members.
func (m storeMembers) RemoveMember(ctx context.Context, name string) error {
	e, err := m.member()
	if err != nil {
		return err
	}
	return e.RemoveMember(ctx, name)
}

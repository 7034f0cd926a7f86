package api

import (
	"context"

	"cantina/fault"
	"cantina/internal/text"
	pb "cantina/wire/cantinav1"
)

// StoreMember is a member of the embedded store.
type StoreMember struct {
	Name, ID, Peer string
	// Addresses are those of its server.
	Addresses []string
	Learner   bool
	// Leader: its server leads; Elected: it orders the entries of the store.
	Leader, Elected bool
	// Reachable: it answers the server that lists it. Reported: its server has answered, and the rest is known.
	Reachable, Reported bool
	Size, Used          int64
	Applied, Behind     uint64
}

// Members has the calls about the members of the embedded store.
type Members interface {
	// ListMembers lists all of them, or only the one of this server.
	ListMembers(ctx context.Context, own bool) ([]StoreMember, error)
	// AddMember returns all members, NAME=HOST:PORT.
	AddMember(ctx context.Context, name, peer string) ([]string, error)
	RemoveMember(ctx context.Context, name string) error
}

var errNoMembers = fault.New(fault.ErrConflict, "this server has no embedded store")

// members returns the calls about the members, which each server with an embedded store answers.
func (c operationCalls) members() (Members, error) {
	if c.cfg.Members == nil {
		return nil, errNoMembers
	}
	return c.cfg.Members, nil
}

// ListMembers lists the members of the embedded store.
func (c operationCalls) ListMembers(ctx context.Context, q *request[pb.ListMembersRequest]) (
	*response[pb.ListMembersResponse], error) {
	members, err := c.members()
	if err != nil {
		return nil, err
	}
	all, err := members.ListMembers(ctx, q.Msg.Own)
	m := &pb.ListMembersResponse{}
	for _, x := range all {
		m.Members = append(m.Members, &pb.StoreMember{Name: text.Clean(x.Name), Id: x.ID, Peer: text.Clean(x.Peer),
			Addresses: x.Addresses, Learner: x.Learner, Leader: x.Leader, Elected: x.Elected, Reachable: x.Reachable,
			Reported: x.Reported, Size: x.Size, Used: x.Used, Applied: x.Applied, Behind: x.Behind})
	}
	return answer(m, err)
}

// AddMember adds a member to the embedded store, which votes when it has all entries.
func (c operationCalls) AddMember(ctx context.Context, q *request[pb.AddMemberRequest]) (
	*response[pb.AddMemberResponse], error) {
	members, err := c.members()
	if err != nil {
		return nil, err
	}
	list, err := members.AddMember(ctx, q.Msg.Name, q.Msg.Peer)
	if err == nil {
		c.cfg.Log.Info("member added to the store", "member", q.Msg.Name, "address", q.Msg.Peer, "caller", caller(ctx))
	}
	return answer(&pb.AddMemberResponse{InitialCluster: list}, err)
}

// RemoveMember removes a member from the embedded store.
func (c operationCalls) RemoveMember(ctx context.Context, q *request[pb.RemoveMemberRequest]) (
	*response[pb.RemoveMemberResponse], error) {
	members, err := c.members()
	if err != nil {
		return nil, err
	}
	if err = members.RemoveMember(ctx, q.Msg.Name); err == nil {
		c.cfg.Log.Info("member removed from the store", "member", q.Msg.Name, "caller", caller(ctx))
	}
	return answer(&pb.RemoveMemberResponse{}, err)
}

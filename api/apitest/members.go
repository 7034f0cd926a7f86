package apitest

import (
	"context"
	"fmt"
	"slices"

	"cantina/api"
	"cantina/fault"
)

// Members returns the calls about the members of a store, which are only a list.
func (f *Fake) Members() api.Members {
	return &fakeMembers{list: []api.StoreMember{storeMember("a"), storeMember("b")}}
}

type fakeMembers struct{ list []api.StoreMember }

func storeMember(name string) api.StoreMember {
	return api.StoreMember{Name: name, ID: "id-" + name, Peer: name + ":7490", Reachable: true, Leader: name == "a"}
}

// ListMembers implements api.Members.
func (f *fakeMembers) ListMembers(context.Context, bool) ([]api.StoreMember, error) {
	return f.list, nil
}

// AddMember implements api.Members.
func (f *fakeMembers) AddMember(_ context.Context, name, peer string) ([]string, error) {
	x := storeMember(name)
	x.Peer, x.Learner = peer, true
	f.list = append(f.list, x)
	var all []string
	for _, m := range f.list {
		all = append(all, m.Name+"="+m.Peer)
	}
	return all, nil
}

// RemoveMember implements api.Members.
func (f *fakeMembers) RemoveMember(_ context.Context, name string) error {
	i := slices.IndexFunc(f.list, func(x api.StoreMember) bool { return x.Name == name })
	if i < 0 {
		return fmt.Errorf("%s: %w", name, fault.ErrNotFound)
	}
	f.list = slices.Delete(f.list, i, i+1)
	return nil
}

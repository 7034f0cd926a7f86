package main

import (
	"time"

	"github.com/spf13/pflag"

	"cantina/api"
	"cantina/store/etcd"
	"cantina/worker"
)

// memberFlags make the embedded store one of several members.
type memberFlags struct {
	list   []string
	listen string
	join   bool
}

func (f *memberFlags) add(p *pflag.FlagSet) {
	p.StringSliceVar(&f.list, "initial-cluster", nil,
		"members of the embedded store, NAME=HOST:PORT, with the address for traffic of members (default: one server)")
	p.StringVar(&f.listen, "peer-listen", "",
		"with --initial-cluster: address to listen on for other members, IP:PORT (default: own entry of the list)")
	p.BoolVar(&f.join, "join", false,
		"with --initial-cluster: first start of a member that was added with cantina server members add")
}

// The lease of a leader that other members can replace: they wait for its end, and for the next look of etcd at its
// leases, 0.5 s at most.
const (
	memberLease     = 2 * time.Second
	memberKeepAlive = 400 * time.Millisecond
	memberDrift     = 400 * time.Millisecond
)

// times sets the defaults of the election lease of several members.
func (f *memberFlags) times(p *pflag.FlagSet, t *worker.Timeouts) {
	if len(f.list) == 0 || p.Changed("lease") || p.Changed("keep-alive") || p.Changed("lease-drift") {
		return
	}
	t.Lease, t.KeepAlive, t.LeaseDrift = memberLease, memberKeepAlive, memberDrift
}

// membership is the list of the flags; nil without one.
func (f *memberFlags) membership(name string, external bool) (*etcd.Membership, error) {
	switch {
	case len(f.list) == 0 && (f.listen != "" || f.join):
		return nil, failf(api.ExitUsage, "--peer-listen and --join need --initial-cluster")
	case len(f.list) == 0:
		return nil, nil
	case external:
		return nil, failf(api.ExitUsage, "--initial-cluster and --etcd-endpoints exclude each other: omit one of them")
	}
	all, err := etcd.ParseMembers(f.list)
	if err != nil {
		return nil, failf(api.ExitUsage, "--initial-cluster: %w", err)
	}
	m := &etcd.Membership{Name: name, Members: all, Listen: f.listen, Join: f.join}
	if _, err := m.ListenAddress(); err != nil {
		return nil, failf(api.ExitUsage, "--initial-cluster: %w", err)
	}
	return m, nil
}

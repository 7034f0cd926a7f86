package etcd

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"

	"cantina/fault"
)

// MemberAddress is one member of a cluster of embedded members.
type MemberAddress struct {
	Name string
	// Peer is where the other members reach it: host:port.
	Peer string
}

// String returns the member as in a list of members.
func (a MemberAddress) String() string { return a.Name + "=" + a.Peer }

// PeerFiles are the files of mutual TLS between members. Certificate and key are read again for each connection.
type PeerFiles struct{ Cert, Key, CA string }

// Membership makes the embedded member one of several.
type Membership struct {
	// Name is the name of this member. Members has its address.
	Name    string
	Members []MemberAddress
	// Listen is the address for connections of other members, IP:port [the own one of Members].
	Listen string
	// Join: this member was added to a running cluster. Else its first start begins a new one.
	Join bool
	// TLS protects the connections in both directions; zero = plain connections.
	TLS PeerFiles
	// API has the addresses of this server, host:port, which other servers learn from the member list.
	API []string
}

// ErrMembership reports a list of members that cannot be used, or that does not fit the data directory.
var ErrMembership = errors.New("bad list of members")

func badList(format string, args ...any) error {
	return fault.As(fmt.Errorf(format, args...), ErrMembership)
}

var memberName = regexp.MustCompile(`^[a-zA-Z0-9][-_.a-zA-Z0-9]{0,62}$`)

// ParseMember reads NAME=HOST:PORT.
func ParseMember(text string) (MemberAddress, error) {
	name, peer, _ := strings.Cut(text, "=")
	host, port, err := net.SplitHostPort(peer)
	n, perr := strconv.ParseUint(port, 10, 16)
	ip := net.ParseIP(host)
	switch {
	case !memberName.MatchString(name) || err != nil || host == "" || perr != nil || n == 0:
		return MemberAddress{}, badList("%q: must be NAME=HOST:PORT", text)
	case ip != nil && ip.IsUnspecified():
		return MemberAddress{}, badList("%q: give an address that the other members can reach", text)
	}
	return MemberAddress{Name: name, Peer: peer}, nil
}

// ParseMembers reads a list of members, of which no two have the same name or address.
func ParseMembers(list []string) ([]MemberAddress, error) {
	var all []MemberAddress
	for _, text := range list {
		a, err := ParseMember(text)
		if err != nil {
			return nil, err
		}
		for _, b := range all {
			if a.Name == b.Name {
				return nil, badList("two members are named %s: give each a name of its own", a.Name)
			}
			if a.Peer == b.Peer {
				return nil, badList("%s and %s have the same address %s: give each an address of its own", b.Name, a.Name, a.Peer)
			}
		}
		all = append(all, a)
	}
	return all, nil
}

// Own returns the address of this member, or ErrMembership with the remedy.
func (p *Membership) Own() (MemberAddress, error) {
	for _, a := range p.Members {
		if a.Name == p.Name {
			return a, nil
		}
	}
	return MemberAddress{}, badList("no member is named %s: add %s=HOST:PORT, or set --name to one of %s", p.Name, p.Name,
		strings.Join(names(p.Members), ", "))
}

// ListenAddress is where this member listens for the others.
func (p *Membership) ListenAddress() (string, error) {
	own, err := p.Own()
	if err != nil {
		return "", err
	}
	address := p.Listen
	if address == "" {
		address = own.Peer
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return "", badList("--peer-listen %s: must be IP:PORT", address)
	}
	if host != "localhost" && net.ParseIP(host) == nil {
		return "", badList("%s is a host name: set the IP address to listen on with --peer-listen IP:PORT", host)
	}
	return address, nil
}

func names(all []MemberAddress) []string {
	out := make([]string, len(all))
	for i, a := range all {
		out[i] = a.Name
	}
	return out
}

// token is the same for all members of one list.
func (p *Membership) token() string {
	all := make([]string, len(p.Members))
	for i, a := range p.Members {
		all[i] = a.String()
	}
	slices.Sort(all)
	sum := sha256.Sum256([]byte(strings.Join(all, ",")))
	return hex.EncodeToString(sum[:16])
}

func (p *Membership) url(address string) url.URL {
	scheme := "http"
	if p.TLS != (PeerFiles{}) {
		scheme = "https"
	}
	return url.URL{Scheme: scheme, Host: address}
}

// transport is mutual TLS: a member shows its certificate at both ends of a connection.
func (p *Membership) transport() transport.TLSInfo {
	if p.TLS == (PeerFiles{}) {
		return transport.TLSInfo{}
	}
	// As at the listeners of the API, the CA decides alone: a certificate need not have the caller's address.
	return transport.TLSInfo{CertFile: p.TLS.Cert, KeyFile: p.TLS.Key, TrustedCAFile: p.TLS.CA, ClientCertAuth: true,
		SkipClientSANVerify: true}
}

// Of several members: the usual times of etcd, a new leader is elected 1 to 2 s after the loss of the old one. A
// member that was away gets the entries that it missed, as long as they are kept; else a copy of the database.
const (
	peerTickMS        = 100
	peerElectionMS    = 1000
	peerSnapshotCount = 500
	peerCatchUp       = 1000
)

// configure changes the configuration of a single member.
func (p *Membership) configure(c *embed.Config) error {
	own, err := p.Own()
	if err != nil {
		return err
	}
	listen, err := p.ListenAddress()
	if err != nil {
		return err
	}
	all := make([]string, len(p.Members))
	for i, a := range p.Members {
		u := p.url(a.Peer)
		all[i] = a.Name + "=" + u.String()
	}
	c.Name, c.InitialCluster, c.InitialClusterToken = p.Name, strings.Join(all, ","), p.token()
	if p.Join {
		c.ClusterState = embed.ClusterStateFlagExisting
	}
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{p.url(listen)}, []url.URL{p.url(own.Peer)}
	// There is no client listener. But a member without client addresses counts as one that never served: it could begin
	// a new cluster with an empty directory, without the entries that it has acknowledged.
	c.AdvertiseClientUrls = nil
	for _, a := range p.API {
		if _, _, err := net.SplitHostPort(a); err == nil {
			c.AdvertiseClientUrls = append(c.AdvertiseClientUrls, p.url(a))
		}
	}
	if len(c.AdvertiseClientUrls) == 0 {
		c.AdvertiseClientUrls = c.AdvertisePeerUrls
	}
	c.PeerTLSInfo, c.TlsMinVersion = p.transport(), "TLS1.3"
	c.TickMs, c.ElectionMs = peerTickMS, peerElectionMS
	c.SnapshotCount, c.SnapshotCatchUpEntries = peerSnapshotCount, peerCatchUp
	return nil
}

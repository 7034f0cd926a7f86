package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// ErrNotAllowed reports a server that is neither in the list nor permitted beside it.
var ErrNotAllowed = errors.New("server not allowed")

// minPort is the least port of a server that a page adds: ports below are of other services.
const minPort = 1024

// Allow is a set of servers that a page may add to the list: names with one of some suffixes, and
// addresses of some networks. The zero value permits none.
type Allow struct {
	suffixes []string
	networks []netip.Prefix
}

// ParseAllow reads suffixes of names, such as ".example.com", and networks, such as "10.0.0.0/8".
func ParseAllow(rules []string) (Allow, error) {
	var a Allow
	for _, r := range rules {
		r = strings.ToLower(strings.TrimSpace(r))
		if p, err := netip.ParsePrefix(r); err == nil {
			a.networks = append(a.networks, p.Masked())
			continue
		}
		if ip, err := netip.ParseAddr(r); err == nil {
			a.networks = append(a.networks, netip.PrefixFrom(ip.Unmap(), ip.Unmap().BitLen()))
			continue
		}
		name := strings.TrimPrefix(r, ".")
		if name == "" || strings.ContainsAny(name, "/:*@ ") || name[0] == '.' {
			return Allow{}, fmt.Errorf("%q is neither a suffix of host names, like .example.com, "+
				"nor a network, like 10.0.0.0/8", r)
		}
		a.suffixes = append(a.suffixes, "."+name)
	}
	return a, nil
}

// String lists the rules.
func (a Allow) String() string {
	all := slices.Clone(a.suffixes)
	for _, n := range a.networks {
		all = append(all, n.String())
	}
	return strings.Join(all, ", ")
}

// check reports whether a page may add a server, by its name or by all addresses that its name has.
func (a Allow) check(ctx context.Context, server string) error {
	host, port, err := net.SplitHostPort(server)
	if err != nil {
		return fmt.Errorf("server %q: want host:port", server)
	}
	if n, err := strconv.Atoi(port); err != nil || n < minPort || n > 65535 {
		return fmt.Errorf("%w: %s: port must be between %d and 65535", ErrNotAllowed, server, minPort)
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	for _, s := range a.suffixes {
		if strings.HasSuffix("."+host, s) {
			return nil
		}
	}
	var ips []netip.Addr
	if len(a.networks) > 0 {
		if ips, err = net.DefaultResolver.LookupNetIP(ctx, "ip", host); err != nil {
			return fmt.Errorf("%s: %w", server, err)
		}
	}
	if len(ips) == 0 || slices.ContainsFunc(ips, func(ip netip.Addr) bool { return !a.has(ip) }) {
		return fmt.Errorf("%w: %s is neither in the list of servers nor permitted by --servers-allow",
			ErrNotAllowed, server)
	}
	return nil
}

// has reports whether an address is in one of the networks.
func (a Allow) has(ip netip.Addr) bool {
	ip = ip.Unmap().WithZone("")
	return slices.ContainsFunc(a.networks, func(n netip.Prefix) bool { return n.Contains(ip) })
}

// reached checks the address of a connection to an added server: a name may have changed since check.
func (a Allow) reached(server string, at net.Addr) error {
	host, _, err := net.SplitHostPort(server)
	if err != nil {
		return err
	}
	for _, s := range a.suffixes {
		if strings.HasSuffix("."+strings.ToLower(strings.TrimSuffix(host, ".")), s) {
			return nil
		}
	}
	if tcp, ok := at.(*net.TCPAddr); ok && a.has(tcp.AddrPort().Addr()) {
		return nil
	}
	return fmt.Errorf("%w: %s is at %s, which --servers-allow does not permit", ErrNotAllowed, server, at)
}

package robust

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// network is a bridge of the test's own, with an address on which its servers listen,
// and its cells: each in a network namespace with a link to that bridge.
type network struct {
	t      *testing.T
	name   string // of the bridge; of other devices, with a cell's name behind it
	subnet netip.Prefix
	links  map[string]*link // by cell
	undo   []string         // calls of ip that remove the devices, last one first
}

// unusedMAC is a link address without a device: packets sent to it are lost. The bridge has an address of its own,
// which would otherwise change with its links.
const (
	unusedMAC = "02:00:00:00:00:02"
	bridges   = "02:00:00:00:00:01"
)

// errTaken: the resource already exists and belongs to another program.
var errTaken = errors.New("is taken")

// newNetwork makes a network with a link for cell c1. Its subnet is one of the range for tests of networks (RFC
// 2544) to which this machine has no route. The bridge is named after it: the program that could add that bridge
// has the subnet for itself.
func newNetwork(t *testing.T) (*network, error) {
	t.Helper()
	if os.Geteuid() != 0 {
		return nil, errors.New("network namespaces need root")
	}
	const subnets = 512
	for i, first := 0, rand.IntN(subnets); i < subnets; i++ {
		x := (first + i) % subnets
		n := &network{t: t, name: fmt.Sprintf("ct%d", x), links: map[string]*link{},
			subnet: netip.PrefixFrom(netip.AddrFrom4([4]byte{198, byte(18 + x/256), byte(x % 256)}), 24)}
		err := n.build()
		if err == nil {
			t.Logf("servers at %s, cells behind bridge %s", n.host(), n.name)
			t.Cleanup(n.remove)
			return n, nil
		}
		n.remove()
		if !errors.Is(err, errTaken) {
			return nil, err
		}
	}
	return nil, errors.New("no subnet is free")
}

func (n *network) build() error {
	for _, which := range []string{"root", "match"} { // routes within the subnet, and around it
		out, err := ip("-4 route show table all " + which + " " + n.subnet.String())
		if err != nil {
			return err
		}
		for line := range strings.Lines(out) {
			if !strings.Contains(line, "default") {
				return fmt.Errorf("subnet %s %w by %s", n.subnet, errTaken, line)
			}
		}
	}
	if err := n.add("link add "+n.name+" address "+bridges+" type bridge", "link del "+n.name); err != nil {
		return err
	}
	for _, call := range []string{
		fmt.Sprintf("addr add %s/%d dev %s", n.host(), n.subnet.Bits(), n.name),
		"link set " + n.name + " up",
	} {
		if _, err := ip(call); err != nil {
			return err
		}
	}
	return n.addLink("c1")
}

// host is the address of the bridge.
func (n *network) host() string { return n.subnet.Addr().Next().String() }

// addLink makes a namespace for a cell, with a link.
func (n *network) addLink(cell string) error {
	l := &link{t: n.t, name: n.name + "-" + cell, bridge: n.name, host: n.host()}
	addr := n.subnet.Addr().As4()
	addr[3] = byte(11 + len(n.links))
	l.addr = netip.AddrFrom4(addr).String()
	if err := n.add("netns add "+l.name, "netns del "+l.name); err != nil {
		return err
	}
	if err := n.add("link add "+l.name+" type veth peer name eth0 netns "+l.name, "link del "+l.name); err != nil {
		return err
	}
	for _, call := range []string{
		"link set " + l.name + " master " + n.name + " up",
		fmt.Sprintf("-n %s addr add %s/%d dev eth0", l.name, l.addr, n.subnet.Bits()),
		"-n " + l.name + " link set eth0 up",
		"-n " + l.name + " link set lo up",
	} {
		if _, err := ip(call); err != nil {
			return err
		}
	}
	enter := append(l.enter(), "true")
	if out, err := exec.Command(enter[0], enter[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(enter, " "), err, out)
	}
	n.links[cell] = l
	return nil
}

// link returns the link of a cell; it makes one for a cell that is new.
func (n *network) link(cell string) *link {
	n.t.Helper()
	if n.links[cell] == nil {
		if err := n.addLink(cell); err != nil {
			n.t.Fatal(err)
		}
	}
	return n.links[cell]
}

// add makes something that remove removes.
func (n *network) add(call, undo string) error {
	_, err := ip(call)
	if err == nil {
		n.undo = append(n.undo, undo)
	}
	return err
}

// remove removes the created devices, and nothing else.
func (n *network) remove() {
	for _, call := range slices.Backward(n.undo) {
		if _, err := ip(call); err != nil {
			n.t.Errorf("left behind: %v", err)
		}
	}
	n.undo = nil
}

// ip runs `ip` with the words of a call and returns its output.
func ip(call string) (string, error) {
	out, err := exec.Command("ip", strings.Fields(call)...).CombinedOutput()
	switch {
	case err == nil:
		return string(out), nil
	case strings.Contains(string(out), "File exists"):
		err = errTaken
	}
	return "", fmt.Errorf("ip %s: %w: %s", call, err, bytes.TrimSpace(out))
}

// link joins a cell's network namespace to the bridge.
type link struct {
	t          *testing.T
	name       string // of the namespace, and of the link's end at the bridge
	bridge     string
	host, addr string // addresses of the bridge and of the cell
}

// enter is the command that runs another in the namespace. (`ip netns exec` would
// take its control groups from it.)
func (l *link) enter() []string { return []string{"nsenter", "--net=/run/netns/" + l.name} }

// way is how to cut a link and to give it back, as calls of ip.
type way struct{ name, cut, join string }

// ways are the ways to cut a link. One way: packets to the other end go to an unused link address, without an error
// for the sender.
var ways = []way{
	{"both ways", "link set LINK down", "link set LINK up"},
	{"to the cell", "neigh replace CELL lladdr " + unusedMAC + " dev BRIDGE nud permanent", "neigh del CELL dev BRIDGE"},
	{"from the cell", "-n LINK neigh replace HOST lladdr " + unusedMAC + " dev eth0 nud permanent",
		"-n LINK neigh del HOST dev eth0"},
}

func (l *link) cut(w way) {
	l.t.Helper()
	l.run(w.cut)
}

func (l *link) join(w way) {
	l.t.Helper()
	l.run(w.join)
}

func (l *link) run(call string) {
	l.t.Helper()
	if _, err := ip(strings.NewReplacer("LINK", l.name, "BRIDGE", l.bridge, "CELL", l.addr, "HOST",
		l.host).Replace(call)); err != nil {
		l.t.Fatal(err)
	}
}

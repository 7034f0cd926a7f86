package robust

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"cantina/api"
	"cantina/store/etcdtest"
	pb "cantina/wire/cantinav1"
)

// Time-outs for tests, as flags of server and cell: patient for those that only
// change leaders, hasty for those that wait until a cell is lost: as short as a machine that
// does much else can keep to, on which a living cell must not be taken for lost.
var (
	patient = []string{"--heartbeat=500ms", "--heartbeat-grace=3s", "--healthcheck=2s", "--healthcheck-grace=4s",
		"--check-interval=300ms",
		"--lost=15s", "--kill-wait=2s", "--margin=1s", "--max-dies-within=30s", "--lease=2s", "--keep-alive=400ms",
		"--lease-drift=300ms"}
	hasty = []string{"--heartbeat=300ms", "--heartbeat-grace=2s", "--healthcheck=1s", "--healthcheck-grace=2500ms",
		"--check-interval=200ms",
		"--lost=8s", "--kill-wait=1s", "--margin=1s", "--max-dies-within=18s", "--lease=2s", "--keep-alive=400ms",
		"--lease-drift=300ms"}
)

// cluster is servers on one etcd, and cells.
type cluster struct {
	t         *testing.T
	net       *network // where they are; on loopback without one
	dir       string
	flags     []string
	endpoint  string   // of etcd; empty = one server with a store of its own
	disk      string   // of the servers, if not dir
	peers     []string // members of the stores of the servers, if they are one cluster
	addresses []string
	servers   map[string]*process
	cells     map[string]*process
}

// startCluster starts etcd, servers s1… and cells c1….
func startCluster(t *testing.T, flags []string, servers, cells int) *cluster {
	t.Helper()
	return newCluster(t, etcdtest.Start(t).Endpoint, flags).start(servers, cells)
}

// startNetwork is startCluster with each cell, also those that are started later, in a
// network namespace of its own. Where that cannot be made all is on loopback.
func startNetwork(t *testing.T, flags []string, servers, cells int) *cluster {
	t.Helper()
	n, err := newNetwork(t) // it is removed after all its users have ended
	if err != nil {
		t.Logf("on loopback, for this machine makes no network namespaces: %v", err)
	}
	c := newCluster(t, etcdtest.Start(t).Endpoint, flags)
	c.net = n
	return c.start(servers, cells)
}

// newCluster returns a cluster on an etcd that is there, of which nothing runs yet.
func newCluster(t *testing.T, endpoint string, flags []string) *cluster {
	c := &cluster{t: t, dir: tempDir(t), flags: flags, endpoint: endpoint,
		servers: map[string]*process{}, cells: map[string]*process{}}
	t.Cleanup(c.cleanup)
	return c
}

// start starts servers s1… and cells c1….
func (c *cluster) start(servers, cells int) *cluster {
	c.t.Helper()
	for range servers {
		c.addresses = append(c.addresses, c.freeAddress())
	}
	for i := range servers {
		c.startServer(fmt.Sprintf("s%d", i+1)).wait()
	}
	for i := range cells {
		c.startCell(fmt.Sprintf("c%d", i+1)).wait()
	}
	for i := range cells {
		name := fmt.Sprintf("c%d", i+1)
		c.session(name, "HEALTHY")
		cell := c.cells[name] // which learns that with its next heartbeat, and takes no work before
		cell.log.until(cell.ended, patience, func(text string) bool { return strings.Contains(text, "to=HEALTHY") })
	}
	return c
}

// cleanup ends the cells, which still report to their leader, and then the servers; a cell that ends in good order
// leaves nothing.
func (c *cluster) cleanup() {
	for _, group := range []map[string]*process{c.cells, c.servers} {
		var wg sync.WaitGroup
		for _, p := range group {
			wg.Go(p.cleanup)
		}
		wg.Wait()
	}
	for name := range c.cells {
		clean(c.t, c.cellDir(name))
	}
}

// stopKept stops services, some of which would outlive their cell, and waits until they have stopped: a cell that
// ends before the stop reaches it would leave them running.
func (c *cluster) stopKept(services ...string) {
	c.t.Helper()
	must(c.t, c.addr(), append([]string{"stop"}, services...)...)
	must(c.t, c.addr(), append(append([]string{"wait"}, services...), "--for", "stopped", "--timeout", "100s")...)
}

// freeAddress returns an address for a server, which its successor has too.
func (c *cluster) freeAddress() string {
	c.t.Helper()
	host := "127.0.0.1"
	if c.net != nil {
		host = c.net.host()
	}
	_, port, err := net.SplitHostPort(etcdtest.FreeAddr(c.t))
	if err != nil {
		c.t.Fatal(err)
	}
	return net.JoinHostPort(host, port)
}

func (c *cluster) startServer(name string, more ...string) *process {
	c.t.Helper()
	var i int
	if _, err := fmt.Sscanf(name, "s%d", &i); err != nil {
		c.t.Fatal(err)
	}
	args := []string{"server", "--name", name, "--data", filepath.Join(cmp.Or(c.disk, c.dir), name),
		"--listen", c.addresses[i-1], "--new-cluster"}
	if c.endpoint != "" {
		args = append(args, "--etcd-endpoints", c.endpoint)
	}
	if len(c.peers) > 0 {
		args = append(args, "--initial-cluster", strings.Join(c.peers, ","))
	}
	if c.net != nil {
		args = append(args, "--insecure-listen")
	}
	p := launch(c.t, name, nil, append(append(args, c.flags...), more...)...)
	c.servers[name] = p
	return p
}

// cellDir is where a cell keeps its data.
func (c *cluster) cellDir(name string) string { return filepath.Join(c.dir, name) }

func (c *cluster) startCell(name string, more ...string) *process {
	c.t.Helper()
	return c.startCellBehind(name, nil, more...)
}

// startCellBehind is startCell behind a wrapper.
func (c *cluster) startCellBehind(name string, wrapper []string, more ...string) *process {
	c.t.Helper()
	args := append([]string{"cell", "--name", name, "--data", c.cellDir(name), "--servers", c.addr()}, c.flags...)
	if c.net != nil {
		l := c.net.link(name)
		wrapper = append(l.enter(), wrapper...)
		args = append(args, "--listen", net.JoinHostPort(l.addr, "7481"), "--insecure-listen")
	}
	p := launch(c.t, name, wrapper, append(args, more...)...)
	c.cells[name] = p
	return p
}

// addr names the servers for the CLI.
func (c *cluster) addr() string { return strings.Join(c.addresses, ",") }

func (c *cluster) client() *api.Client { return dial(c.t, c.addresses...) }

// status asks the current leader.
func (c *cluster) status() *pb.Status {
	c.t.Helper()
	got, err := api.Call(c.t.Context(), c.client(), calls.GetStatus, &pb.GetStatusRequest{})
	if err != nil {
		c.t.Fatalf("status: %v", err)
	}
	return got.Status
}

// cell returns the leader's view of a cell.
func (c *cluster) cell(name string) *pb.Cell {
	c.t.Helper()
	l, err := api.Call(c.t.Context(), c.client(), calls.ListCells, &pb.ListCellsRequest{})
	if err != nil {
		c.t.Fatalf("cells: %v", err)
	}
	for _, x := range l.Cells {
		if x.Name == name {
			return x
		}
	}
	return nil
}

// session waits until a cell's session is in a state.
func (c *cluster) session(name, state string) {
	c.t.Helper()
	last := ""
	err := until(c.t.Context(), c.client(), &pb.StreamEventsRequest{Kind: []string{"cell"}, Subject: name}, func() bool {
		if x := c.cell(name); x != nil {
			last = x.Session
		}
		return last == state
	})
	if err != nil {
		c.t.Fatalf("cell %s is %q and not %s: %v", name, last, state, err)
	}
}

// until waits until look returns true: at first, and after each event of the stream.
func until(ctx context.Context, client *api.Client, q *pb.StreamEventsRequest, look func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return client.Events(ctx, q, func(*pb.StreamEventsResponse) error {
		// The first message confirms that the stream is open: nothing is missed after it.
		if look() {
			return api.Stop()
		}
		return nil
	})
}

package robust

import (
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
// change leaders, hasty for those that wait until a cell is lost.
var (
	patient = []string{"--heartbeat=500ms", "--heartbeat-grace=3s", "--healthcheck=2s", "--healthcheck-grace=4s", "--check-interval=300ms",
		"--lost=15s", "--kill-wait=2s", "--margin=1s", "--max-dies-within=30s", "--lease=2s", "--keep-alive=400ms", "--lease-drift=300ms"}
	hasty = []string{"--heartbeat=300ms", "--heartbeat-grace=1200ms", "--healthcheck=1s", "--healthcheck-grace=1500ms", "--check-interval=200ms",
		"--lost=4s", "--kill-wait=1s", "--margin=1s", "--max-dies-within=10s", "--lease=2s", "--keep-alive=400ms", "--lease-drift=300ms"}
)

// cluster is servers on one etcd, and cells.
type cluster struct {
	t         *testing.T
	dir       string
	flags     []string
	endpoint  string
	addresses []string
	servers   map[string]*process
	cells     map[string]*process
}

// startCluster starts etcd, servers s1… and cells c1….
func startCluster(t *testing.T, flags []string, servers, cells int) *cluster {
	t.Helper()
	return startClusterOn(t, etcdtest.Start(t).Endpoint, flags, servers, cells)
}

// startClusterOn is startCluster on an etcd that is there.
func startClusterOn(t *testing.T, endpoint string, flags []string, servers, cells int) *cluster {
	t.Helper()
	c := &cluster{t: t, dir: t.TempDir(), flags: flags, endpoint: endpoint,
		servers: map[string]*process{}, cells: map[string]*process{}}
	t.Cleanup(c.cleanup)
	for range servers {
		c.addresses = append(c.addresses, freeAddress(t))
	}
	for i := range servers {
		c.startServer(fmt.Sprintf("s%d", i+1)).wait()
	}
	for i := range cells {
		c.startCell(fmt.Sprintf("c%d", i+1)).wait()
	}
	for i := range cells {
		c.session(fmt.Sprintf("c%d", i+1), "HEALTHY")
	}
	return c
}

// cleanup ends the cells, which have something to say to their leader, and then the
// servers; a cell that ends in good order leaves nothing.
func (c *cluster) cleanup() {
	for _, group := range []map[string]*process{c.cells, c.servers} {
		var wg sync.WaitGroup
		for _, p := range group {
			wg.Go(p.cleanup)
		}
		wg.Wait()
	}
	for name := range c.cells {
		clean(c.t, c.cellFolder(name))
	}
}

// stopKept stops services, some of which would outlive their cell, and waits until they
// have stopped: a cell that ends before it has heard of the stop lets them go.
func (c *cluster) stopKept(services ...string) {
	c.t.Helper()
	must(c.t, c.addr(), append([]string{"stop"}, services...)...)
	must(c.t, c.addr(), append(append([]string{"wait"}, services...), "--for", "stopped", "--timeout", "60s")...)
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func (c *cluster) startServer(name string) *process {
	c.t.Helper()
	var i int
	if _, err := fmt.Sscanf(name, "s%d", &i); err != nil {
		c.t.Fatal(err)
	}
	p := launch(c.t, name, nil, append([]string{"server", "--name", name, "--data", filepath.Join(c.dir, name), "--etcd-endpoints", c.endpoint,
		"--listen", c.addresses[i-1], "--new-cluster"}, c.flags...)...)
	c.servers[name] = p
	return p
}

// cellFolder is where a cell keeps its data.
func (c *cluster) cellFolder(name string) string { return filepath.Join(c.dir, name) }

func (c *cluster) startCell(name string, more ...string) *process {
	c.t.Helper()
	p := launch(c.t, name, nil, append(append([]string{"cell", "--name", name, "--data", c.cellFolder(name), "--servers", strings.Join(c.addresses, ",")}, c.flags...), more...)...)
	c.cells[name] = p
	return p
}

// addr names the servers for the CLI.
func (c *cluster) addr() string { return strings.Join(c.addresses, ",") }

func (c *cluster) client() *api.Client { return dial(c.t, c.addresses...) }

// status asks the leader, whoever it is by then.
func (c *cluster) status() *pb.Status {
	c.t.Helper()
	got, err := api.Call(c.t.Context(), c.client(), calls.GetStatus, &pb.GetStatusRequest{})
	if err != nil {
		c.t.Fatalf("status: %v", err)
	}
	return got.Status
}

// cell returns what the leader knows of a cell.
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

// until waits until look says yes: at first, and after each event of the stream.
func until(ctx context.Context, client *api.Client, q *pb.StreamEventsRequest, look func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return client.Events(ctx, q, func(*pb.StreamEventsResponse) error {
		// The first message tells that the stream is open: nothing is missed after it.
		if look() {
			return api.Stop()
		}
		return nil
	})
}

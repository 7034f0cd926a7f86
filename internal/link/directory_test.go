package link

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"cantina/cell"
	"cantina/internal/heaptest"
	"cantina/worker"
)

// TestCellsAtOneAddressKeepTheirClients: cells that share an address, as those of one process do
// behind a gate, are not called by a new client each time.
func TestCellsAtOneAddressKeepTheirClients(t *testing.T) {
	d := NewDirectory(Security{})
	defer d.Close()
	d.SetAddress("c1", "127.0.0.1:1")
	d.SetAddress("c2", "127.0.0.1:1")
	one, two := d.Cell("c1"), d.Cell("c2")
	if one == two {
		t.Fatal("a call to one cell would name the other")
	}
	if d.Cell("c1") != one || d.Cell("c2") != two {
		t.Error("a new client for the same cell")
	}
	d.SetAddress("c1", "")
	if d.Cell("c1") != nil || d.Cell("c2") != two {
		t.Error("the end of one cell is that of the other")
	}
	d.SetAddress("c2", "127.0.0.1:2")
	if d.Cell("c2") == two {
		t.Error("the old client is used for a new address")
	}
	if len(d.remote) != 1 || len(d.address) != 1 {
		t.Errorf("%d clients and %d addresses of one cell", len(d.remote), len(d.address))
	}
}

// TestATermKnowsItsOwnCells: cells of an earlier term, whose end is not reported to this one, leave neither address
// nor client. Those of this process stay.
func TestATermKnowsItsOwnCells(t *testing.T) {
	d := NewDirectory(Security{})
	defer d.Close()
	d.Begin("mine")
	d.SetLocal("own", &remote{})
	d.SetAddress("c1", "127.0.0.1:1")
	if d.Cell("c1") == nil {
		t.Fatal("no client")
	}
	d.Begin("mine")
	if len(d.remote)+len(d.address) > 0 || d.Cell("c1") != nil {
		t.Errorf("%d clients and %d addresses of an earlier term", len(d.remote), len(d.address))
	}
	if d.Cell("own") == nil || d.Cluster() != "mine" {
		t.Error("the cell of this process is not known any more")
	}
}

// TestMemoryIsFreed: of cells that came, were called and went nothing stays: neither in the
// directory of the leader nor on the connections that cells keep.
func TestMemoryIsFreed(t *testing.T) {
	if testing.Short() {
		t.Skip("make test runs it, without the race detector")
	}
	if !heaptest.Child(t) {
		return
	}
	d := NewDirectory(Security{})
	d.Begin("mine")
	paths := http.NewServeMux()
	for path, h := range Handlers(func() (cell.Leader, error) { return &leader{}, nil }, d) {
		paths.Handle(path, h)
	}
	server, direct := httptest.NewServer(paths), httptest.NewServer(NewCellHandler(&agent{}))
	defer func() {
		d.Close()
		server.Close()
		direct.Close()
	}()
	at := func(s *httptest.Server) string { return strings.TrimPrefix(s.URL, "http://") }
	beatAndCall := func(name worker.CellName, address string, keep bool) {
		if keep {
			c := NewLeaderClient([]string{at(server)}, Security{}, func() {})
			defer c.Close()
			c.Serve(address, NewCellHandler(&agent{}))
			b := worker.Heartbeat{Protocol: worker.Protocol, Cell: name, Proc: "p1", DirID: "f", Beat: 1}
			if _, err := c.Heartbeat(t.Context(), b, cell.State{Address: address}); err != nil {
				t.Error(err)
			}
		}
		d.SetAddress(name, address)
		defer d.SetAddress(name, "")
		// The agent is c1 and refuses to be another: an answer of its own all the same.
		if _, err := d.Cell(name).KillTask(t.Context(), []worker.KillTask{{Term: term, Proc: "p1"}}); err == nil ||
			neverSent(err) {
			t.Errorf("%s at %s: %v", name, address, err)
		}
	}
	heaptest.Levels(t, heaptest.Config{Things: 12, Rounds: 4, Warm: 2, Quiesce: d.conns.Wait, Round: func(round int) {
		for i := range 12 {
			name := worker.CellName(fmt.Sprintf("c%d-%d", round, i))
			if keep := i%2 == 0; keep {
				beatAndCall(name, fmt.Sprintf("10.0.%d.%d:1", round, i), keep)
			} else {
				beatAndCall(name, at(direct), keep)
			}
		}
	}})
}

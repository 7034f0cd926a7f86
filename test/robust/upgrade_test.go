package robust

import (
	"fmt"
	"strings"
	"testing"

	pb "cantina/wire/cantinav1"
)

// TestRollingUpgradeKeepsWork stops and starts every cell and every server in good order, one after the other, as
// an upgrade does. Kept work runs on in the same processes, and no copy starts anywhere: services, one of them
// exclusive, a task and a batch task. A cell that leaves such work behind reports that it will be back.
func TestRollingUpgradeKeepsWork(t *testing.T) {
	w := newWitness(t)
	c := startCluster(t, nil, 2, 2)
	apply(t, c.addr(), fmt.Sprintf(`
domain: d
services:
  web: {command: [sh, -c, 'exec %[1]s web$CANTINA_INDEX sleep 1000'], instances: 4, on_cell_restart: keep}
  one: {command: [%[1]s, one, sleep, "1000"], exclusive: true, on_cell_restart: keep}
  other: {command: [sh, -c, 'exec %[1]s other$CANTINA_INDEX sleep 1000'], instances: 2}
tasks:
  long: {command: [%[1]s, long, sleep, "1000"], on_cell_restart: keep}
jobs:
  sum: {command: [%[1]s, sum, sleep, "1000"], on_cell_restart: keep}
`, w.command()))
	kept := []string{"web0", "web1", "web2", "web3", "one", "long", "sum"}
	for _, id := range kept {
		w.waitBegun(id, 1)
	}
	must(t, c.addr(), "wait", "web", "one", "other", "--timeout", "100s")
	for _, name := range []string{"c1", "c2"} {
		before := c.cell(name).Proc
		c.cells[name].stop()
		c.startCell(name).wait()
		if err := until(t.Context(), c.client(), &pb.StreamEventsRequest{Kind: []string{"cell"}, Subject: name}, func() bool {
			x := c.cell(name)
			return x != nil && x.Proc != before && x.Session == "HEALTHY"
		}); err != nil {
			t.Fatalf("cell %s is not back: %v", name, err)
		}
		if !eventually(func() bool { return c.logged(name, "cell will be back") }) {
			t.Errorf("cell %s did not announce its return", name)
		}
		must(t, c.addr(), "wait", "web", "one", "other", "--timeout", "100s")
	}
	for _, name := range []string{"s1", "s2"} {
		c.servers[name].stop()
		c.startServer(name).wait()
		c.session("c1", "HEALTHY")
		c.session("c2", "HEALTHY")
		must(t, c.addr(), "wait", "web", "one", "other", "--timeout", "100s")
	}
	w.check()
	for _, id := range kept {
		if got := len(w.begun()[id]); got != 1 {
			t.Errorf("%s was started %d times in all: kept work runs on", id, got)
		}
	}
	must(t, c.addr(), "stop", "task/d.long", "sum")
	c.stopKept("web", "one")
}

// logged reports whether a server has written a line with the message about a cell.
func (c *cluster) logged(cell, message string) bool {
	for _, s := range c.servers {
		for line := range strings.Lines(s.log.tail(1000)) {
			if strings.Contains(line, message) && strings.Contains(line, "cell="+cell) {
				return true
			}
		}
	}
	return false
}

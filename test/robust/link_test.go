package robust

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// netns is a network name space with one link to the tests' own.
type netns struct {
	t          *testing.T
	name, link string
	host, cell string // addresses of both ends
}

// newNetns makes a name space. It skips the test, in words, where that cannot be done.
func newNetns(t *testing.T, number int) *netns {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("skipped: network name spaces need root")
	}
	id := fmt.Sprintf("ct%d-%d", os.Getpid()%100000, number)
	// A network of its own for each test program: 10.A.B.0/30.
	net := fmt.Sprintf("10.%d.%d", 200+number, os.Getpid()%250)
	n := &netns{t: t, name: id, link: id + "h", host: net + ".1", cell: net + ".2"}
	for _, argv := range [][]string{
		{"netns", "add", n.name},
		{"link", "add", n.link, "type", "veth", "peer", "name", id + "c"},
		{"link", "set", id + "c", "netns", n.name},
		{"addr", "add", n.host + "/30", "dev", n.link},
		{"link", "set", n.link, "up"},
		{"-n", n.name, "addr", "add", n.cell + "/30", "dev", id + "c"},
		{"-n", n.name, "link", "set", id + "c", "up"},
		{"-n", n.name, "link", "set", "lo", "up"},
	} {
		if out, err := exec.Command("ip", argv...).CombinedOutput(); err != nil {
			n.remove()
			t.Skipf("skipped: this machine makes no network name spaces: ip %s: %v: %s", strings.Join(argv, " "), err, out)
		}
	}
	t.Cleanup(n.remove)
	return n
}

func (n *netns) remove() {
	_ = exec.Command("ip", "link", "del", n.link).Run() // gone already when making it failed
	_ = exec.Command("ip", "netns", "del", n.name).Run()
}

// cut takes the link away or gives it back.
func (n *netns) cut(off bool) {
	n.t.Helper()
	state := map[bool]string{true: "down", false: "up"}[off]
	if out, err := exec.Command("ip", "link", "set", n.link, state).CombinedOutput(); err != nil {
		n.t.Fatalf("link %s: %v: %s", state, err, out)
	}
}

// TestCutLink cuts the link of a cell, for less than its loss time: nothing is
// restarted; and for more: what may run once ends before it starts elsewhere, and
// what may run on is reconciled when the link is back.
func TestCutLink(t *testing.T) {
	n, w := newNetns(t, 1), newWitness(t)
	c := startCluster(t, hasty, 0, 0)
	_, port, _ := strings.Cut(freeAddress(t), ":")
	c.addresses = []string{n.host + ":" + port}
	c.servers["s1"] = launch(t, "s1", nil, append([]string{"server", "--name", "s1", "--data", filepath.Join(c.dir, "s1"), "--etcd-endpoints", c.endpoint,
		"--listen", c.addresses[0], "--insecure-listen", "--new-cluster"}, hasty...)...).wait()
	c.cells["far"] = launch(t, "far", []string{"ip", "netns", "exec", n.name}, append([]string{"cell", "--name", "far", "--data", c.cellFolder("far"),
		"--servers", c.addresses[0], "--listen", n.cell + ":7481", "--insecure-listen"}, hasty...)...).wait()
	c.session("far", "HEALTHY")
	apply(t, c.addr(), holdSpec(w, "[h1]"))
	must(t, c.addr(), "wait", "excl", "free", "--timeout", "30s")
	w.waitBegun("h1", 1)
	w.waitBegun("excl", 1)
	free := w.pids("free")[0]

	n.cut(true)
	c.session("far", "UNHEALTHY")
	n.cut(false)
	c.session("far", "HEALTHY")
	if b := w.begun(); len(b["h1"]) != 1 || len(b["excl"]) != 1 || len(w.lines("free")) != 1 {
		t.Errorf("a short cut restarted something: %v, %v", b, w.lines("free"))
	}

	c.startCell("near").wait()
	c.session("near", "HEALTHY")
	n.cut(true)
	begin := time.Now()
	c.session("far", "MUST_DIE")
	w.waitBegun("h1", 2)
	w.waitBegun("excl", 2)
	t.Logf("both run elsewhere %v after the cut", time.Since(begin))
	w.check()
	if ended(free, 0) {
		t.Errorf("the service that may run on ended although only the link was cut")
	}
	if !w.until(patience, func() bool { return len(w.lines("free")) == 2 }) {
		t.Errorf("the service that may run on was not replaced")
	}
	n.cut(false)
	c.session("far", "HEALTHY")
	if !ended(free, patience) {
		t.Errorf("the replaced service still runs after the link is back")
	}
	w.release()
	must(t, c.addr(), "wait", "hold", "excl", "free", "--timeout", "30s")
	if b := w.begun(); len(b["h1"]) != 2 || len(b["excl"]) != 2 {
		t.Errorf("begun %v", b)
	}
	w.check()
}

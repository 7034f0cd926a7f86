package robust

import (
	"testing"

	pb "cantina/wire/cantinav1"
)

// TestCutLink cuts the link of a cell, in both directions and in each alone, for
// longer than its loss time: what may run once ends before it starts elsewhere, and
// what may run on is reconciled when the link is back.
func TestCutLink(t *testing.T) {
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			l := startLinked(t)
			link := l.c.net.link("c1")
			l.lose(func() { link.cut(w) }, func() { link.join(w) })
		})
	}
}

// TestCutLinkShortly cuts the link of a cell for less than its loss time: nothing that
// may run once is restarted, and of what may run on, for which a replacement is made
// at once, one is left.
func TestCutLinkShortly(t *testing.T) {
	l := startLinked(t)
	c, link := l.c, l.c.net.link("c1")
	link.cut(ways[0])
	c.session("c1", "UNHEALTHY")
	link.join(ways[0])
	c.session("c1", "HEALTHY")
	var on []string
	err := until(t.Context(), c.client(), &pb.StreamEventsRequest{Kind: []string{"instance"}}, func() bool {
		on = c.onCells("free")
		return len(on) == 1
	})
	if err != nil {
		t.Fatalf("free is %v: %v", on, err)
	}
	// Either the one at c1 was stopped, or its replacement was withdrawn.
	for i, pid := range l.pids("free") {
		if left := (i == 0) == (on[0] == "RUNNING on c1"); !left && !ended(pid, patience) {
			t.Errorf("process %d of %v still runs, free is %s", pid, l.pids("free"), on[0])
		} else if left && ended(pid, 0) {
			t.Errorf("process %d of %v has ended, free is %s", pid, l.pids("free"), on[0])
		}
	}
	l.release()
	must(t, c.addr(), "wait", "hold", "excl", "free", "--timeout", "100s")
	if b := l.begun(); len(b["h1"]) != 1 || len(b["excl"]) != 1 {
		t.Errorf("a short cut restarted something: %v", b)
	}
	l.check()
}

// startLinked is holdOnFirst on cells whose links can be cut.
func startLinked(t *testing.T) *losable {
	t.Helper()
	c := startNetwork(t, hasty, 2, 1)
	if c.net == nil {
		t.Skip("skipped: there are no links to cut")
	}
	return holdOnFirst(t, c)
}

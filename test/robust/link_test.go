package robust

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	pb "cantina/wire/cantinav1"
)

// TestCutLink cuts the link of a cell, in both directions and in each alone, for longer than its loss time. Work
// that may run once ends before it starts elsewhere. Work that may run on is reconciled when the link is back.
func TestCutLink(t *testing.T) {
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			l := startLinked(t)
			link := l.c.net.link("c1")
			l.lose(func() { link.cut(w) }, func() { link.join(w) })
		})
	}
}

// TestCutLinkShortly cuts the link of a cell for less than its loss time. Work that may run once is not restarted.
// Work that may run on has a replacement at once, and its old instance is left.
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
		return slices.Equal(on, []string{"RUNNING on c1"})
	})
	if err != nil {
		t.Fatalf("free is %v: %v", on, err)
	}
	for i, pid := range l.pids("free") {
		if left := i == 0; !left && !ended(pid, patience) {
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

// TestTheKeptCopyAfterACut cuts the link of a cell until its instances are replaced, and restores it. The old copy
// stays, or the new one where the service requires it. An instance that waits for its cell has no copy.
func TestTheKeptCopyAfterACut(t *testing.T) {
	w := newWitness(t)
	c := startNetwork(t, patient, 1, 1)
	if c.net == nil {
		t.Skip("skipped: there are no links to cut")
	}
	service := func(name, more string) string {
		return fmt.Sprintf("  %[1]s: {command: [sh, -c, 'echo $$ >>%[2]s/%[1]s; exec sleep 1000']%[3]s}\n", name, w.dir, more)
	}
	apply(t, c.addr(), "domain: d\nservices:\n"+
		service("old", "")+service("new", ", on_return: new")+service("waits", ", replace_after: 1h"))
	must(t, c.addr(), "wait", "old", "new", "waits", "--timeout", "100s")
	c.startCell("c2").wait()
	c.session("c2", "HEALTHY")
	link := c.net.link("c1")
	shown := func(want map[string]string) {
		t.Helper()
		on := map[string]string{}
		err := until(t.Context(), c.client(), &pb.StreamEventsRequest{Kind: []string{"instance"}, Domain: "d"}, func() bool {
			for name := range want {
				on[name] = strings.Join(c.onCells(name), ", ")
			}
			return maps.Equal(on, want)
		})
		if err != nil {
			t.Fatalf("want %v: %v\n%s", want, err, must(t, c.addr(), "ps", "--all"))
		}
	}
	link.cut(ways[0])
	shown(map[string]string{"old": "RUNNING on c2", "new": "RUNNING on c2", "waits": "RUNNING on c1"})
	shows(t, c.addr(), []string{"no replacement before", "replace_after"}, "explain", "waits/0")
	link.join(ways[0])
	shown(map[string]string{"old": "RUNNING on c1", "new": "RUNNING on c2", "waits": "RUNNING on c1"})
	c.session("c1", "HEALTHY")
	must(t, c.addr(), "wait", "old", "new", "waits", "--timeout", "100s")
	for name, stays := range map[string]int{"old": 0, "new": 1, "waits": 0} {
		copies := 2
		if name == "waits" {
			copies = 1
		}
		pids := w.begunPids(name, copies)
		if len(pids) != copies {
			t.Errorf("%s was started %d times, want %d", name, len(pids), copies)
		}
		for i, pid := range pids {
			if i == stays && ended(pid, 0) {
				t.Errorf("%s: copy %d has ended, and is to stay", name, i)
			} else if i != stays && !ended(pid, patience) {
				t.Errorf("%s: copy %d still runs", name, i)
			}
		}
	}
}

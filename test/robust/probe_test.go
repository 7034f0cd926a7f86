package robust

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	pb "cantina/wire/cantinav1"
)

// TestCellWhoseProbeFails has a cell whose machine cannot run even /bin/true any more: in its mount namespace that
// is a script of the test. Its session goes on, because it answers, and so does its running work. It gets no new
// work, and status, cells and explain give the reason. When its probe passes again it takes the waiting work.
// (Diego dev notes, Detecting Cell Failures: a Cell fails to create new containers.)
func TestCellWhoseProbeFails(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("skipped: needs root to mount")
	}
	w := newWitness(t)
	script := filepath.Join(w.dir, "true")
	probe := func(status int) { // in place: the mount is of this very file
		t.Helper()
		if err := os.WriteFile(script, fmt.Appendf(nil, "#!/bin/sh\nexit %d\n", status), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	probe(0)
	c := startCluster(t, hasty, 1, 0)
	c.startCellBehind("c1", []string{"unshare", "--mount", "sh", "-c", "mount --bind " + script +
		` /bin/true && exec "$@"`, "-"}).wait()
	c.session("c1", "HEALTHY")
	apply(t, c.addr(),
		fmt.Sprintf("services:\n  old: {command: [sh, -c, 'echo $$ >>%[1]s/old; exec sleep 1000'], stop_grace: 1s}\n", w.dir))
	must(t, c.addr(), "wait", "old", "--timeout", "100s")
	pids := w.begunPids("old", 1)

	probe(7)
	c.available("c1", func(x *pb.Cell) bool { return x.Unavailable != "" })
	x := c.cell("c1")
	if !strings.Contains(x.Unavailable, "probe: /bin/true") || x.Session != "HEALTHY" {
		t.Errorf("unavailable %q in session %s", x.Unavailable, x.Session)
	}
	for verb, args := range map[string][]string{"status": {"status"}, "cells": {"cells"},
		"explain": {"explain", "cell/c1"}} {
		if out := must(t, c.addr(), args...); !strings.Contains(out, x.Unavailable) {
			t.Errorf("%s gives no reason:\n%s", verb, out)
		}
	}
	apply(t, c.addr(),
		fmt.Sprintf("domain: new\nservices:\n  new: {command: [sh, -c, 'echo $$ >>%[1]s/new; exec sleep 1000'], "+
			"stop_grace: 1s}\n", w.dir)+
			fmt.Sprintf("jobs:\n  batch: {levels: [n], nodes: [{manual: [x]}], command: [sh, -c, 'echo x >>%[1]s/batch']}\n",
				w.dir))
	id := strings.TrimSpace(must(t, c.addr(), "run", "-d", "--", "sh", "-c", "echo x >>"+w.dir+"/task"))
	// No part is placed while the cell is asked again and again and fails.
	seen := len(w.lines("failed"))
	if err := os.WriteFile(script, fmt.Appendf(nil, "#!/bin/sh\necho x >>%s/failed\nexit 7\n", w.dir), 0o755); err != nil {
		t.Fatal(err)
	}
	if !w.until(patience, func() bool { return len(w.lines("failed")) >= seen+3 }) {
		t.Fatal("the cell is not probed any more")
	}
	for _, name := range []string{"new", "batch", "task"} {
		if n := len(w.lines(name)); n != 0 {
			t.Errorf("%s ran on a cell whose probe fails", name)
		}
	}
	shows(t, c.addr(), []string{"1 cell"}, "explain", "task/"+id)
	if now := w.pids("old"); len(now) != 1 || now[0] != pids[0] || ended(pids[0], 0) {
		t.Errorf("what ran did not go on: %v, then %v", pids, now)
	}

	probe(0)
	c.available("c1", func(x *pb.Cell) bool { return x.Unavailable == "" })
	must(t, c.addr(), "wait", "new", "batch", "task/"+id, "--timeout", "100s")
	if out := must(t, c.addr(), "status"); strings.Contains(out, "/bin/true") {
		t.Errorf("status still warns:\n%s", out)
	}
	if now := w.pids("old"); len(now) != 1 || now[0] != pids[0] {
		t.Errorf("what ran was started again: %v, then %v", pids, now)
	}
}

// available waits until the leader shows a cell as asked.
func (c *cluster) available(name string, look func(*pb.Cell) bool) {
	c.t.Helper()
	begin := time.Now()
	err := until(c.t.Context(), c.client(), &pb.StreamEventsRequest{Kind: []string{"cell"}, Subject: name}, func() bool {
		x := c.cell(name)
		return x != nil && look(x)
	})
	if err != nil {
		c.t.Fatalf("cell %s after %v: %v", name, time.Since(begin), err)
	}
}

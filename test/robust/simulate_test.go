package robust

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestSimulatedCells runs many cells in one process: to the cluster they are cells
// like others, and when their process is killed their work goes elsewhere.
func TestSimulatedCells(t *testing.T) {
	c := startCluster(t, patient, 1, 0)
	simulate := func(name string) *process {
		return start(t, name, append([]string{"cell", "--simulate", "4", "--name", name, "--data", filepath.Join(c.dir, name),
			"--servers", c.addr(),
			"--capacity", "containers=50"}, c.flags...)...).wait()
	}
	a := simulate("a")
	for _, name := range []string{"a-0", "a-1", "a-2", "a-3"} {
		c.session(name, "HEALTHY")
	}
	apply(t, c.addr(),
		"domain: d\nservices:\n  web: {command: [serve], instances: 100}\ntasks:\n  t: {command: [sleep, '0.05']}\njobs:\n"+
			"  j:\n    levels: [n]\n    nodes: [{manual: [x, y, z]}]\n    command: ['true']\n")
	must(t, c.addr(), "wait", "web", "t", "j", "--timeout", "100s")
	if out := must(t, c.addr(), "logs", "web"); out != "" {
		t.Errorf("a simulated container wrote %q", out)
	}
	simulate("b")
	for _, name := range []string{"b-0", "b-1", "b-2", "b-3"} {
		c.session(name, "HEALTHY")
	}
	a.kill()
	for _, name := range []string{"a-0", "a-1", "a-2", "a-3"} {
		c.session(name, "MUST_DIE")
	}
	must(t, c.addr(), "wait", "web", "--timeout", "100s")
	for line := range strings.Lines(must(t, c.addr(), "ps", "web", "-o", "json")) {
		if strings.Contains(line, `"cell": "a-`) {
			t.Errorf("still on the dead: %s", line)
		}
	}
	if r := cli(t, c.addr(), "cell", "--simulate", "4", "--data", filepath.Join(c.dir, "b"), "--servers",
		c.addr()); r.code == 0 || !strings.Contains(r.err, "in use") {
		t.Errorf("a directory that is in use: code %d, %s", r.code, r.err)
	}
	if r := cli(t, c.addr(), "cell", "--simulate", "4", "--listen", "127.0.0.1:7481"); r.code != 2 {
		t.Errorf("one address for many cells: code %d, %s", r.code, r.err)
	}
}

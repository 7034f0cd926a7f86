package executor

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"cantina/action"
)

func TestATakenPortNamesItsHolder(t *testing.T) {
	// Ports of its own: other cells of the machine begin with the first of the usual ones.
	first := freePorts(t, 20)
	e := testExecutor(t, func(c *Config) { c.FirstPort, c.LastPort = first, first+19 })
	var l net.Listener
	var port int
	for l == nil { // others of the machine look for free ones too, by listening for a moment
		var err error
		if port, err = e.ports.take(action.Port{}); err != nil {
			t.Fatal(err)
		}
		if l, err = net.Listen("tcp", fmt.Sprint(":", port)); err == nil {
			e.ports.give(port)
		}
	}
	s := sh("sleep 1000")
	s.Workload.Ports = []action.Port{{Name: "web", Fixed: port}}
	if c := launch(t, e, "foreign", s); !c.Result.Failed || !strings.Contains(c.Result.Reason, "is in use") || strings.Contains(c.Result.Reason, "is in use by") {
		t.Errorf("%+v", c.Result)
	}
	l.Close()
	if err := e.Launch(Reservation{ID: "first", Labels: Labels{"domain": "d", "service": "web", "index": "0"}}, s); err != nil {
		t.Fatal(err)
	}
	await(t, e, "first", runningState)
	if c := launch(t, e, "second", s); !c.Result.Failed || !strings.Contains(c.Result.Reason, "in use by service d/web, index 0 (container first)") {
		t.Errorf("%+v", c.Result)
	}
}

func TestWhoseAContainerIs(t *testing.T) {
	for want, l := range map[string]Labels{
		"service d/web, index 2": {"kind": "lrp", "domain": "d", "service": "web", "index": "2"},
		"task once":              {"kind": "task", "task": "once"},
		"job j, node n":          {"kind": "batch", "job": "j", "node": "n"},
		"another container":      nil,
	} {
		if got := l.subject(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

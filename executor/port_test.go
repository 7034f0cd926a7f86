package executor

import (
	"fmt"
	"net"
	"os"
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
	if c := launch(t, e, "foreign", s); !c.Result.Failed || !strings.Contains(c.Result.Reason, "is in use") ||
		strings.Contains(c.Result.Reason, "is in use by") {
		t.Errorf("%+v", c.Result)
	}
	l.Close()
	if err := e.Launch(Reservation{ID: "first", Labels: Labels{"domain": "d", "service": "web", "index": "0"}},
		s); err != nil {
		t.Fatal(err)
	}
	await(t, e, "first", runningState)
	if c := launch(t, e, "second", s); !c.Result.Failed ||
		!strings.Contains(c.Result.Reason, "in use by service d/web, index 0 (container first)") {
		t.Errorf("%+v", c.Result)
	}
}

// TestANamedPortThatIsInUseForAMoment: it is given; one that stays in use, or that a container
// of the cell has, is not.
func TestANamedPortThatIsInUseForAMoment(t *testing.T) {
	var p ports
	p.open(20000, 20001)
	tries, free := 0, 0
	p.usable = func(int) bool { tries++; return free > 0 && tries >= free }
	for free = range 4 {
		tries = 0
		got, err := p.take(action.Port{Fixed: 80})
		if want := free > 0; (err == nil) != want || want && (got != 80 || tries != free) {
			t.Errorf("free at try %d: port %d, %v after %d tries", free, got, err, tries)
		}
		if err != nil {
			continue
		}
		tries = 0
		if _, err := p.take(action.Port{Fixed: 80}); err == nil || tries != 0 {
			t.Errorf("given twice: %v, %d tries", err, tries)
		}
		p.give(80)
	}
}

func TestTheOwnerOfAContainer(t *testing.T) {
	for want, l := range map[string]Labels{
		"service d/web, index 2": {"kind": "lrp", "domain": "d", "service": "web", "index": "2"},
		"task once":              {"kind": "task", "task": "once"},
		"job d/j, node n":        {"kind": "batch", "domain": "d", "job": "j", "node": "n"},
		"another container":      nil,
	} {
		if got := l.subject(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestTwoCellsShareARangeOfPorts: a port of one cell goes to no other cell of the machine, even before a process
// listens on it; it is free again when its container is gone.
func TestTwoCellsShareARangeOfPorts(t *testing.T) {
	first := 100_000 + 10*os.Getpid() // no real ports
	var a, b ports
	for _, p := range []*ports{&a, &b} {
		p.open(first, first+3)
		p.low, p.high, p.usable = 0, -1, func(int) bool { return true }
	}
	seen := map[int]bool{}
	for i := range 4 {
		n, err := []*ports{&a, &b}[i%2].take(action.Port{Name: "http"})
		if err != nil || seen[n] {
			t.Fatalf("port %d: %v, after %v", n, err, seen)
		}
		seen[n] = true
	}
	if n, err := b.take(action.Port{Name: "http"}); err == nil {
		t.Errorf("port %d is given out twice", n)
	}
	a.give(first)
	if n, err := b.take(action.Port{Name: "http"}); err != nil || n != first {
		t.Errorf("port %d, %v", n, err)
	}
	a.hold(first + 1)
	for n := range 4 {
		a.give(first + n)
		b.give(first + n)
	}
	if n, err := a.take(action.Port{Name: "http"}); err != nil {
		t.Errorf("port %d, %v", n, err)
	}
}

package placement

import (
	"strings"
	"testing"
)

// TestAWithdrawnIsolationIsAskedOfNoCell: work that needs it goes elsewhere, and the refusal names
// the kind and why; other work stays welcome.
func TestAWithdrawnIsolationIsAskedOfNoCell(t *testing.T) {
	l := NewLedger(Config{})
	for name, withdrawn := range map[string]map[string]string{"broken": {"rootfs": "no overlay"},
		"poor": {"rootfs": "none", "namespaces": "none", "own_net": "none"}} {
		s := plainState(name, 1, 100, 10)
		s.Withdrawn = withdrawn
		l.Admit(name, "p-"+name, "")
		l.Push(s)
	}
	for i, c := range []struct {
		needs []string
		cell  string
	}{{nil, ""}, {[]string{"namespaces"}, "broken"}, {[]string{"rootfs"}, "none"},
		{[]string{"namespaces", "own_net"}, "broken"}, {[]string{"rootfs", "own_net"}, "none"}} {
		it := lrpItem("x", i, 1)
		it.Constraint.Isolation = c.needs
		p, r, err := l.Place(it, 0)
		switch {
		case err != nil:
			t.Error(err)
		case c.cell == "none":
			if r == nil || !strings.Contains(r.String(), "isolation rootfs is unavailable: no overlay") ||
				!strings.Contains(r.Remedy(), "isolation") {
				t.Errorf("%v", r)
			}
		case r != nil || c.cell != "" && p.Cell != c.cell:
			t.Errorf("%v on %q: %v", c.needs, p.Cell, r)
		}
	}
	l.Push(plainState("poor", 2, 100, 10)) // it works again
	it := lrpItem("y", 0, 1)
	it.Constraint.Isolation = []string{"rootfs"}
	if p, r, _ := l.Place(it, 0); r != nil || p.Cell != "poor" {
		t.Errorf("%v %v", p, r)
	}
}

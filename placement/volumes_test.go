package placement

import (
	"strings"
	"testing"
)

// TestVolumesAreAskedOfACell: work goes to a cell that allows all of its paths. Otherwise the refusal has the number of
// cells by what they allow, and the remedy names the flag. A path that no cell allows is waited for: a cell may come.
func TestVolumesAreAskedOfACell(t *testing.T) {
	l := NewLedger(Config{})
	for name, dirs := range map[string][]string{"a": nil, "b": nil, "c": {"/srv/data", "/srv/logs:ro"},
		"d": {"/1", "/2", "/3", "/4", "/5"}} {
		s := plainState(name, 1, 100, 10)
		s.Volumes = dirs
		l.Admit(name, "p-"+name, "")
		l.Push(s)
	}
	for i, c := range []struct {
		needs []string
		cell  string // empty = refused
	}{
		{[]string{"/srv/data"}, "c"}, {[]string{"/srv/data/x:ro", "/srv/logs/y:ro"}, "c"}, {[]string{"/5/x"}, "d"},
		{[]string{"/srv/logs/y"}, ""}, {[]string{"/srv/data", "/5"}, ""}, {[]string{"/srv"}, ""},
	} {
		it := lrpItem("x", i, 1)
		it.Constraint.Volumes = c.needs
		p, r, err := l.Place(it, 0)
		if err != nil || c.cell != "" && (r != nil || p.Cell != c.cell) {
			t.Errorf("%v on %q: %v, %v", c.needs, p.Cell, r, err)
		}
		if c.cell != "" {
			continue
		}
		if r == nil || r.Never || r.Code != NoCompatibleCells || !strings.Contains(r.Remedy(), "cantina cell --volumes") ||
			!strings.Contains(r.String(), "2 cells: volume ") || !strings.Contains(r.String(), "needed, the cell allows none") {
			t.Errorf("%v: %v, %v", c.needs, r, r.Remedy())
		}
	}
	it := lrpItem("y", 0, 1)
	it.Constraint.Volumes = []string{"/srv/logs"}
	if r := l.Explain(it); r == nil || r.String() != "found no compatible cells: 2 cells: volume /srv/logs needed, the "+
		"cell allows none; 1 cell: volume /srv/logs needed, the cell allows /1, /2, /3 and 2 more; 1 cell: volume /srv/logs "+
		"needed, the cell allows /srv/data, /srv/logs:ro" {
		t.Errorf("%v", r)
	}
	plain := lrpItem("y", 1, 1)
	if _, r, err := l.Place(plain, 0); r != nil || err != nil { // other work is not held up
		t.Errorf("%v, %v", r, err)
	}
}

package placement

import (
	"strings"
	"testing"
)

// TestOpenFilesAreAskedOfACell: work goes to a cell that can give its limit of open files. If none can, the refusal
// names the limit.
func TestOpenFilesAreAskedOfACell(t *testing.T) {
	for _, c := range []struct {
		can, asks int
		fits      bool
	}{{20000, 0, true}, {20000, 20000, true}, {20000, 20001, false}, {1 << 20, 20001, true}, {0, 1 << 30, true}} {
		cause, detail, ok := compatible(&State{OpenFiles: c.can}, &Constraint{OpenFiles: c.asks})
		if ok != c.fits || !ok && (cause != CauseOpenFiles || detail != "open_files 20001 needed, the cell allows 20000") {
			t.Errorf("%d of %d: %v %d %q", c.asks, c.can, ok, cause, detail)
		}
	}
	l := NewLedger(Config{})
	for name, files := range map[string]int{"small": 20000, "large": 1 << 20} {
		s := plainState(name, 1, 100, 10)
		s.OpenFiles = files
		l.Admit(name, "p-"+name, "")
		l.Push(s)
	}
	// One after the other: the same need is not taken for the same shape.
	for i, c := range []struct {
		asks int
		cell string
	}{{0, ""}, {20001, "large"}, {1<<20 + 1, "none"}, {20001, "large"}, {1 << 20, "large"}} {
		it := lrpItem("x", i, 1)
		it.Constraint.OpenFiles = c.asks
		p, r, err := l.Place(it, 0)
		switch {
		case err != nil:
			t.Error(err)
		case c.cell == "none":
			if r == nil || !strings.Contains(r.String(), "open_files 1048577 needed, the cell allows 20000") ||
				!strings.Contains(r.Remedy(), "open files") {
				t.Errorf("%v", r)
			}
		case r != nil || c.cell != "" && p.Cell != c.cell:
			t.Errorf("%d open files on %q: %v", c.asks, p.Cell, r)
		}
	}
	s := plainState("large", 2, 100, 10)
	s.OpenFiles = 100
	l.Push(s)
	it := lrpItem("y", 0, 1)
	it.Constraint.OpenFiles = 30000
	if p, r, _ := l.Place(it, 0); r == nil {
		t.Errorf("on %s, which can give fewer now", p.Cell)
	}
}

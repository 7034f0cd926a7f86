package reaper

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// group is a directory that looks like a control group of the unified hierarchy.
type group struct {
	t   *testing.T
	dir string
}

func newGroup(t *testing.T) group {
	t.Helper()
	g := group{t, t.TempDir()}
	for _, name := range []string{"cgroup.kill", "cgroup.freeze", "cgroup.procs"} {
		g.write(name, "")
	}
	g.populated(0)
	return g
}

func (g group) write(name, text string) {
	g.t.Helper()
	if err := os.WriteFile(filepath.Join(g.dir, name), []byte(text), 0o600); err != nil {
		g.t.Fatal(err)
	}
}

func (g group) populated(n int) { g.write("cgroup.events", fmt.Sprintf("populated %d\nfrozen 0\n", n)) }

// TestAnEndedClassStaysClosed: a class that ends with the cell, or by an order to end everything, stays closed. No
// later deadline opens it, and the reaper ends. A reaper that accepted a credit after its TERM would let the class
// go on and never end.
func TestAnEndedClassStaysClosed(t *testing.T) {
	const past, never = 1, 0
	later := bootNow() + int64(time.Hour)
	for way, last := range map[string]func(*watcher){
		"TERM":      func(w *watcher) { w.signalled(syscall.SIGTERM) },
		"cell gone": func(w *watcher) { w.cellGone() },
	} {
		for name, happens := range map[string]func(set func(at int64), end, empty, step func()){
			"before":          func(set func(int64), end, empty, step func()) { set(later); end(); empty(); step() },
			"while it ends":   func(set func(int64), end, empty, step func()) { end(); step(); set(later); empty(); step() },
			"none, while":     func(set func(int64), end, empty, step func()) { end(); step(); set(never); empty(); step() },
			"when it is over": func(set func(int64), end, empty, step func()) { end(); empty(); step(); set(later); step() },
			"none, when over": func(set func(int64), end, empty, step func()) { end(); empty(); step(); set(never); step() },
			"came while its deadline ended it": func(set func(int64), end, empty, step func()) {
				set(past)
				step()
				set(never)
				end()
				empty()
				step()
			},
			"its deadline has ended it": func(set func(int64), end, empty, step func()) {
				set(past)
				empty()
				step()
				end()
				set(later)
				step()
			},
		} {
			t.Run(way+", "+name, func(t *testing.T) {
				g := newGroup(t)
				g.populated(1)
				w := newWatcher(1000)
				w.timer = -1
				w.class(g.dir).stop = true
				set := func(at int64) { w.command(fmt.Sprintf("deadline %s %d", g.dir, at)) }
				happens(set, func() { last(w) }, func() { g.populated(0) }, func() { w.step(bootNow()) })
				if c := w.class(g.dir); c.state != closed || !w.over() {
					t.Errorf("state %d, over %v", c.state, w.over())
				}
			})
		}
	}
}

// TestACreditOpensWhatItsDeadlineEnded: while the cell lives, and once the class is empty.
func TestACreditOpensWhatItsDeadlineEnded(t *testing.T) {
	g := newGroup(t)
	w := newWatcher(1000)
	w.timer = -1
	w.class(g.dir).stop = true
	set := func(at int64) { w.command(fmt.Sprintf("deadline %s %d", g.dir, at)) }
	later := bootNow() + int64(time.Hour)
	for _, during := range []bool{true, false} {
		g.populated(1)
		set(1)
		w.step(bootNow())
		if during {
			set(later)
		}
		if s := w.class(g.dir).state; s != ending {
			t.Errorf("state %d while it is not empty", s)
		}
		g.populated(0)
		w.step(bootNow())
		if !during {
			set(later)
		}
		if c := w.class(g.dir); c.state != open || c.deadline != later || w.over() {
			t.Errorf("during %v: state %d, deadline %d", during, c.state, c.deadline)
		}
	}
}

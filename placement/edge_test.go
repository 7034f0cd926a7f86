package placement

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"cantina/resource"
)

// TestRefusedSubmissions: each lack alone; the others of the call are taken.
func TestRefusedSubmissions(t *testing.T) {
	for name, change := range map[string]func(*Item){
		"no id": func(it *Item) { it.ID = "" }, "no hold": func(it *Item) { it.Hold = "" },
		"of batch": func(it *Item) { it.Kind = KindBatch },
	} {
		a := NewAuction(Config{})
		bad := taskItem("bad", 1)
		change(&bad)
		if err := a.Submit(0, bad, taskItem("good", 1)); !errors.Is(err, ErrInvalid) || a.Waiting() != 1 {
			t.Errorf("%s: %v, %d wait", name, err, a.Waiting())
		}
	}
}

// TestABatchGrantWithoutAnAnswer frees its room, is no expired item, and wakes waiting callers.
func TestABatchGrantWithoutAnAnswer(t *testing.T) {
	a := NewAuction(Config{})
	join(a, plainState("c", 1, 100, 10))
	if g := a.Reserve([]Want{{Hold: "b", Need: resource.Amounts{resource.MemoryMB: 100}}}, 0); g[0].Cell != "c" ||
		g[0].Process != "p-c" {
		t.Fatalf("%+v", g)
	}
	round(a, 0)
	if r := round(a, 30*time.Second-1); r.Woken {
		t.Errorf("before its time: %+v", r)
	}
	if r := round(a, 30*time.Second); len(r.Expired) != 0 || !r.Woken || a.Waiting() != 0 {
		t.Errorf("%+v, %d wait", r, a.Waiting())
	}
	if v, ok := a.Cell("c"); !ok || v.Holdings != 0 || v.InFlight != 0 || v.Used[resource.MemoryMB] != 0 {
		t.Errorf("%+v", v)
	}
	if _, ok := a.Cell("nobody"); ok {
		t.Error("a cell that is not there")
	}
}

// TestSuitableCells: each constraint alone, met and not met.
func TestSuitableCells(t *testing.T) {
	state := State{Cell: "c", Process: "p", Version: 1, Host: "m", Stacks: []string{"deb", "alpine"},
		RequiredTags: []string{"gpu"}, OptionalTags: []string{"ssd"},
		Labels: map[string]string{"rack": "7", "empty": ""}, Taints: []string{"old"}, OpenFiles: 100,
		Withdrawn: map[string]string{"rootfs": "it failed"}, Volumes: []string{"/a"},
		Capacity: resource.Amounts{resource.Containers: 9}}
	suits := Constraint{Tags: []string{"gpu"}, Tolerates: []string{"old"}}
	for name, c := range map[string]struct {
		change func(*Constraint)
		cause  Cause // of the refusal
		detail string
		ok     bool
	}{
		"it suits":     {change: func(*Constraint) {}, ok: true},
		"host":         {change: func(c *Constraint) { c.Host = "m" }, ok: true},
		"other host":   {change: func(c *Constraint) { c.Host = "n" }, cause: CauseHost},
		"stack":        {change: func(c *Constraint) { c.Stack = "alpine" }, ok: true},
		"other stack":  {change: func(c *Constraint) { c.Stack = "win" }, cause: CauseStack},
		"optional tag": {change: func(c *Constraint) { c.Tags = []string{"ssd", "gpu"} }, ok: true},
		"tag not offered": {change: func(c *Constraint) { c.Tags = []string{"gpu", "arm"} }, cause: CauseTags,
			detail: `tag "arm" not offered`},
		"tag required": {change: func(c *Constraint) { c.Tags = []string{"ssd"} }, cause: CauseTags,
			detail: `only for work with tag "gpu"`},
		"label":       {change: func(c *Constraint) { c.Labels = map[string]string{"rack": "7"} }, ok: true},
		"empty label": {change: func(c *Constraint) { c.Labels = map[string]string{"empty": ""} }, ok: true},
		"other value": {change: func(c *Constraint) { c.Labels = map[string]string{"rack": "8"} }, cause: CauseLabels,
			detail: "label rack=8 missing"},
		"no such label": {change: func(c *Constraint) { c.Labels = map[string]string{"row": ""} }, cause: CauseLabels,
			detail: "label row= missing"},
		"condition": {ok: true, change: func(c *Constraint) {
			c.Conditions = conditions("rack in (6, 7)", "row not exists")
		}},
		"another condition": {change: func(c *Constraint) { c.Conditions = conditions("rack = 7", "rack version < 7") },
			cause: CauseLabels, detail: "rack version < 7 does not hold"},
		"condition without its label": {change: func(c *Constraint) { c.Conditions = conditions("row exists") },
			cause: CauseLabels, detail: "row exists does not hold"},
		"taint":     {change: func(c *Constraint) { c.Tolerates = nil }, cause: CauseTaint, detail: "old"},
		"isolation": {change: func(c *Constraint) { c.Isolation = []string{"own_net"} }, ok: true},
		"withdrawn isolation": {change: func(c *Constraint) { c.Isolation = []string{"rootfs"} }, cause: CauseIsolation,
			detail: "isolation rootfs is unavailable: it failed"},
		"volume": {change: func(c *Constraint) { c.Volumes = []string{"/a/b"} }, ok: true},
		"other volume": {change: func(c *Constraint) { c.Volumes = []string{"/a", "/b"} }, cause: CauseVolumes,
			detail: "volume /b needed, the cell allows /a"},
		"as many files": {change: func(c *Constraint) { c.OpenFiles = 100 }, ok: true},
		"more files": {change: func(c *Constraint) { c.OpenFiles = 101 }, cause: CauseOpenFiles,
			detail: "open_files 101 needed, the cell allows 100"},
	} {
		l := NewLedger(Config{})
		l.Push(state)
		l.Admit("c", "p", "")
		con := suits
		c.change(&con)
		r := l.Explain(Item{Kind: KindTask, Constraint: con})
		if (r == nil) != c.ok || r != nil && (len(r.Classes) != 1 || r.Classes[0].Cause != c.cause ||
			r.Classes[0].Detail != c.detail) {
			t.Errorf("%s: %+v", name, r)
		}
		machines := 0
		if c.ok {
			machines = 1
		}
		if n := l.Machines([]Constraint{con}, nil); n != machines {
			t.Errorf("%s: %d machines", name, n)
		}
		g := l.Reserve([]Want{{Hold: "w", Constraint: suits}, {Hold: "x", Constraint: con}}, 0)
		if g[0].Cell != "c" || (g[1].Cell == "c") != c.ok {
			t.Errorf("%s after one that suits: %+v", name, g)
		}
		back := NewLedger(Config{})
		back.Push(state)
		back.Admit("c", "p", "")
		g = back.Reserve([]Want{{Hold: "x", Constraint: con}, {Hold: "w", Constraint: suits}}, 0)
		if g[1].Cell != "c" || (g[0].Cell == "c") != c.ok {
			t.Errorf("%s before one that suits: %+v", name, g)
		}
	}
}

// TestHeldWantsHaveNoShape: a repeated grant of a held task gives no information about the next want. The next want
// is not taken for its equal.
func TestHeldWantsHaveNoShape(t *testing.T) {
	l := NewLedger(Config{})
	for _, s := range []State{plainState("small", 1, 10, 10), plainState("big", 1, 100, 10)} {
		s.Host = s.Cell
		l.Push(s)
		l.Admit(s.Cell, s.Process, "")
	}
	wide := resource.Amounts{resource.MemoryMB: 40}
	if g := l.Reserve([]Want{{Hold: "held", Need: wide}}, 0); g[0].Cell != "big" {
		t.Fatalf("%+v", g)
	}
	g := l.Reserve([]Want{{Hold: "a", Need: resource.Amounts{resource.MemoryMB: 1}, Hosts: hosts("small")},
		{Hold: "held", Need: wide}, {Hold: "b", Need: wide}}, 0)
	if g[0].Cell != "small" || g[1].Cell != "big" || g[2].Cell != "big" {
		t.Errorf("%+v", g)
	}
	if v, _ := l.Cell("big"); v.Used[resource.MemoryMB] != 80 {
		t.Errorf("allocated %v", v.Used)
	}
}

// TestTheHolderOfAPort: cells share ports when they have the same host name and address, and only then.
func TestTheHolderOfAPort(t *testing.T) {
	for name, c := range map[string]struct {
		host, address string
		shared        bool
	}{
		"same machine":               {"m", "10.0.0.1", true},
		"same name, another address": {"m", "10.0.0.2", false},
		"same address, another name": {"n", "10.0.0.1", false},
		"no name":                    {"", "10.0.0.1", false},
	} {
		l := NewLedger(Config{})
		host(l, "a", "m", "10.0.0.1")
		host(l, "b", c.host, c.address)
		for i, n := range []string{"", "d/second", "d/first"} {
			if err := l.Hold(Holding{Hold: fmt.Sprint(i), Cell: "a", Ports: []int{80}, Name: n}); err != nil {
				t.Fatal(err)
			}
		}
		r := l.Explain(Item{Kind: KindTask, Constraint: Constraint{Ports: []int{80}}})
		if (r != nil) != c.shared {
			t.Errorf("%s: %+v", name, r)
			continue
		}
		if r != nil && r.String() != "insufficient resources: 2 cells: port 80 needed, largest free 0 (d/first has it)" {
			t.Errorf("%s: %s", name, r)
		}
		l.Release("0")
		if r := l.Explain(Item{Kind: KindTask, Constraint: Constraint{Ports: []int{80}}}); (r != nil) != c.shared {
			t.Errorf("%s: two of three have it still: %v", name, r)
		}
		if l.Release("1", "2") != 2 || l.Explain(Item{Kind: KindTask, Constraint: Constraint{Ports: []int{80}}}) != nil {
			t.Errorf("%s: no cell has it any more", name)
		}
	}
}

// TestATenthOfTheCellsIsKept, rounded down, and one at least.
func TestATenthOfTheCellsIsKept(t *testing.T) {
	for cells, want := range map[int]int{1: 1, 9: 1, 10: 1, 19: 1, 20: 2, 29: 2, 30: 3} {
		for _, batch := range []bool{false, true} {
			a := NewAuction(Config{})
			for i := range cells {
				name := fmt.Sprintf("c%02d", i)
				join(a, plainState(name, 1, 100, 10))
				if err := a.Hold(Holding{Hold: "h" + name, Cell: name, Kind: KindTask,
					Need: resource.Amounts{resource.MemoryMB: 50}}); err != nil {
					t.Fatal(err)
				}
			}
			ask := func(now time.Duration) {
				for i := range 4 { // of four shapes
					if batch {
						a.Reserve([]Want{{Hold: fmt.Sprint("w", i), Need: resource.Amounts{resource.MemoryMB: 60 + i}}}, now)
					} else if now == 0 {
						submit(t, a, now, taskItem(fmt.Sprint("w", i), 60+i))
					}
				}
			}
			ask(0)
			round(a, 0)
			kept := func() (n int) {
				for _, v := range a.Cells() {
					if v.ReservedFor != "" {
						n++
					}
				}
				return n
			}
			ask(30*time.Second - 1)
			if round(a, 30*time.Second-1); kept() != 0 {
				t.Errorf("%d cells, batch %v: kept too early", cells, batch)
			}
			round(a, 30*time.Second)
			if kept() != want {
				t.Errorf("%d cells, batch %v: %d kept, want %d", cells, batch, kept(), want)
			}
		}
	}
}

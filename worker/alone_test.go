package worker

import (
	"errors"
	"testing"
)

// one process with its only cell, on directory f.
func devRig(t *testing.T, set func(*Config)) *rig {
	return newRig(t, func(c *Config) {
		c.NewStore, c.NoDeadline, c.Own = false, true, "f"
		set(c)
	})
}

func (r *rig) devBeat(proc Proc, started int64, gone bool) {
	r.beats[proc]++
	r.step(BeatReceived{Heartbeat{Protocol: Protocol, Cluster: r.l.cfg.Cluster, Term: term5, Cell: "vm", Proc: proc,
		DirID: "f", Started: started, Boot: "b", Beat: r.beats[proc],
		Period: 5 * sec, PredecessorsGone: gone}, true})
}

func (r *rig) second() {
	r.now += sec
	r.step(Tick{LeaseHeld: true})
}

// TestAClusterThatIsAlone: its restored store waits for its own cell, and for nothing else. It waits until all of
// that cell's predecessors are gone, for any rows.
func TestAClusterThatIsAlone(t *testing.T) {
	old := Member{Proc: "q", Cell: "vm", DirID: "f", Started: 3, Boot: "b"}
	for name, members := range map[string][]Member{"a predecessor is listed": {old}, "the rows name nobody": nil} {
		r := devRig(t, func(c *Config) { c.Restored, c.Alone, c.Members = true, true, members })
		for range 200 { // the own cell does not come: no time ends the wait
			r.second()
		}
		if active, stale := r.l.Waits(); !active || !stale {
			t.Fatalf("%s: over before the cell has reported", name)
		}
		r.devBeat("p", 7, false)
		r.second()
		r.step(ReportReceived{Report{Term: term5, Proc: "p"}})
		r.second()
		if active, _ := r.l.Waits(); !active {
			t.Fatalf("%s: over while something of an earlier process is left", name)
		}
		r.devBeat("p", 7, true)
		r.second()
		if active, _ := r.l.Waits(); active {
			t.Fatalf("%s: goes on although everything is accounted for", name)
		}
	}
}

// TestContainersWithoutARow: a container that the rows of a restored store do not name has as long to end as any
// cell has. A named one delays nothing.
func TestContainersWithoutARow(t *testing.T) {
	for id, want := range map[string]bool{"named": false, "forgotten": true} {
		r := devRig(t, func(c *Config) {
			c.Restored, c.Alone, c.Known = true, true, func(id string) bool { return id == "named" }
		})
		r.devBeat("p", 7, true)
		r.step(ReportReceived{Report{Term: term5, Proc: "p", Alive: []Alive{{ID: id}}}})
		r.second()
		if active, _ := r.l.Waits(); active != want {
			t.Errorf("%s: waits %v", id, active)
		}
		for range 110 {
			r.devBeat("p", 7, true)
			r.step(StatusReceived{UpdateStatus{Term: term5, Cell: "vm", Proc: "p",
				Items: []StatusItem{{Kind: StatusProbe, Probe: r.l.procs["p"].probe.sent, OK: true}}}})
			r.second()
		}
		if active, _ := r.l.Waits(); active {
			t.Errorf("%s: waits for ever", id)
		}
	}
}

// TestNotAlone: without the row, in a store of another kind, the usual wait applies.
func TestNotAlone(t *testing.T) {
	r := devRig(t, func(c *Config) { c.Restored = true })
	r.devBeat("p", 7, true)
	r.step(ReportReceived{Report{Term: term5, Proc: "p"}})
	for range 100 {
		r.second()
	}
	if active, _ := r.l.Waits(); !active {
		t.Fatal("over before the longest promise has passed")
	}
	for range 10 {
		r.second()
	}
	if active, _ := r.l.Waits(); active {
		t.Fatal("the longest promise has passed")
	}
}

// TestTheRowOfAClusterThatIsAlone: it is written by a store's first leader of that kind, and by no other; a
// leader of another kind does not lead such a cluster, and one of that kind takes in no cell but its own.
func TestTheRowOfAClusterThatIsAlone(t *testing.T) {
	wrote := func(r *rig) bool {
		for _, row := range r.rows {
			if _, ok := row.(PutAlone); ok {
				return true
			}
		}
		return false
	}
	if !wrote(devRig(t, func(c *Config) { c.NewStore = true })) || !wrote(devRig(t, func(*Config) {})) {
		t.Error("not written into a store without a process")
	}
	member := []Member{{Proc: "q", Cell: "vm", DirID: "f", Started: 3, Boot: "b"}}
	for name, set := range map[string]func(*Config){
		"restored":             func(c *Config) { c.Restored = true },
		"processes are listed": func(c *Config) { c.Members = member },
		"it stands already":    func(c *Config) { c.Alone = true },
		"a server":             func(c *Config) { c.NewStore, c.NoDeadline, c.Own = true, false, "" },
	} {
		if wrote(devRig(t, set)) {
			t.Errorf("written: %s", name)
		}
	}
	if _, err := NewLeader(Config{Term: term5, Timeouts: DefaultTimeouts(), Alone: true}); !errors.Is(err, ErrAlone) {
		t.Errorf("a server leads it: %v", err)
	}
	r := devRig(t, func(c *Config) { c.NewStore = true })
	r.step(BeatReceived{Heartbeat{Protocol: Protocol, Cluster: r.l.cfg.Cluster, Term: term5, Cell: "other", Proc: "o",
		DirID: "elsewhere", Started: 1, Boot: "b", Beat: 1, Period: 5 * sec}, true})
	if a := take[AnswerBeat](r); len(a) != 1 || a[0].Answer.Verdict != Refused {
		t.Errorf("a cell of another directory: %+v", a)
	}
	r.devBeat("p", 1, true)
	if a := take[AnswerBeat](r); len(a) != 1 || a[0].Answer.Verdict != Welcome {
		t.Errorf("its own cell: %+v", a)
	}
}

// TestADirectoryOfItsOwnNeedsNoDeadline: a leader whose cells live by deadlines has no cell of its own, for any
// configured name. It admits other cells, and waits for them.
func TestADirectoryOfItsOwnNeedsNoDeadline(t *testing.T) {
	c := Config{Term: term5, Now: sec, Timeouts: DefaultTimeouts(), NewStore: true, Own: "f"}
	l, err := NewLeader(c)
	if err != nil {
		t.Fatal(err)
	}
	if l.waiting.alone || l.term.notOwn(Heartbeat{DirID: "g"}) {
		t.Errorf("alone %v, refuses others %v", l.waiting.alone, l.term.notOwn(Heartbeat{DirID: "g"}))
	}
}

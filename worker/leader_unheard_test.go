package worker

import (
	"testing"
	"time"

	"cantina/workerset"
)

// TestUnheard: a cell that is not HEALTHY in time under a new leader is reported, once, whether it has joined or
// not. A cell that comes in time, or was HEALTHY before, is not.
func TestUnheard(t *testing.T) {
	dead := Member{Proc: "d", Cell: "cell-d", DirID: "fd", Started: 1, Boot: "b", Promise: 86 * sec}
	halfway := Member{Proc: "h", Cell: "cell-h", DirID: "fh", Started: 1, Boot: "b", Promise: 86 * sec}
	back := Member{Proc: "k", Cell: "cell-k", DirID: "fk", Started: 1, Boot: "b", Promise: 86 * sec}
	r := newRig(t, func(c *Config) { c.NewStore, c.Members = false, []Member{dead, halfway, back} })
	start := r.now
	at := map[Proc]time.Duration{}
	beat := func(m Member) {
		r.beats[m.Proc]++
		r.step(BeatReceived{Heartbeat{Protocol: Protocol, Term: term5, Cell: m.Cell, Proc: m.Proc, DirID: m.DirID,
			Started: m.Started, Boot: m.Boot,
			Beat: r.beats[m.Proc], Epoch: 1, Period: 5 * sec, SetID: workerset.ID{}}, true})
	}
	probe := func(m Member) {
		r.step(StatusReceived{UpdateStatus{Term: term5, Cell: m.Cell, Proc: m.Proc,
			Items: []StatusItem{{Kind: StatusProbe, Probe: r.l.procs[m.Proc].probe.sent, OK: true}}}})
	}
	for r.now < start+80*sec {
		switch at := r.now - start; {
		case at == sec: // it reports, and dies before it is HEALTHY
			beat(halfway)
			r.step(ReportReceived{Report{Term: term5, Proc: "h"}})
		case at%(4*sec) == 0 && at < 40*sec: // this one is HEALTHY for a while
			beat(back)
			r.step(ReportReceived{Report{Term: term5, Proc: "k"}})
			probe(back)
			beat(back)
		}
		r.step(Tick{LeaseHeld: true})
		for _, u := range take[Unheard](r) {
			if at[u.Proc] != 0 {
				t.Errorf("%s is reported twice", u.Proc)
			}
			at[u.Proc] = r.now - start
		}
		r.now += sec
	}
	if len(at) != 2 || at["d"] != 16*sec || at["h"] != 17*sec {
		t.Errorf("reported at %v; want d after 15 s of the term, h after 15 s of silence", at)
	}
}

// TestUnheardCountsNoTimeWithoutALease: a leader that was itself cut off starts no storm.
func TestUnheardCountsNoTimeWithoutALease(t *testing.T) {
	r := newRig(t, func(c *Config) {
		c.NewStore, c.Members = false, []Member{{Proc: "d", Cell: "cell-d", DirID: "fd", Started: 1, Boot: "b",
			Promise: 86 * sec}}
	})
	for range 30 {
		r.now += sec
		r.step(Tick{LeaseHeld: false})
	}
	r.now += 20 * sec // it was stopped
	r.step(Tick{LeaseHeld: true})
	if got := take[Unheard](r); len(got) != 0 {
		t.Fatal(got)
	}
	for range 16 {
		r.now += sec
		r.step(Tick{LeaseHeld: true})
	}
	if got := take[Unheard](r); len(got) != 1 || got[0].Proc != "d" {
		t.Error(got)
	}
}

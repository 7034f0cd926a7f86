package robust

import (
	"testing"
	"time"
)

// losable is a cluster whose cell c1 has the work of holdSpec. The cells c2 and c3 can take it over.
type losable struct {
	*witness
	c    *cluster
	free int // process of the service that may run on
}

// holdOnFirst has all the work of holdSpec begin on c1, the only cell, and starts two more.
func holdOnFirst(t *testing.T, c *cluster) *losable {
	t.Helper()
	l := &losable{witness: newWitness(t), c: c}
	apply(t, c.addr(), holdSpec(l.witness, "[h1]"))
	must(t, c.addr(), "wait", "excl", "free", "--timeout", "100s")
	l.waitBegun("h1", 1)
	l.waitBegun("excl", 1)
	l.free = l.begunPids("free", 1)[0]
	for _, name := range []string{"c2", "c3"} {
		c.startCell(name).wait()
		c.session(name, "HEALTHY")
	}
	return l
}

// lose takes c1 away for longer than its loss time and brings it back. Work that may run once runs elsewhere after
// that, and has begun twice by the end: never two at a time, as the witness checks. Work that may run on does so
// until c1 is back and its replacement is preferred.
func (l *losable) lose(away, back func()) {
	t, c := l.t, l.c
	t.Helper()
	begin := time.Now()
	away()
	c.session("c1", "MUST_DIE")
	lost := time.Since(begin)
	l.waitBegun("h1", 2)
	l.waitBegun("excl", 2)
	t.Logf("lost after %v, both run elsewhere after %v", lost, time.Since(begin))
	l.check()
	if ended(l.free, 0) {
		t.Errorf("the service that may run on was ended while its cell was away")
	}
	if !l.until(patience, func() bool { return len(l.lines("free")) == 2 }) {
		t.Errorf("the service that may run on was not replaced")
	}

	back()
	c.session("c1", "HEALTHY")
	if !ended(l.free, patience) {
		t.Errorf("the replaced service still runs at the cell that came back")
	}
	must(t, c.addr(), "wait", "free", "excl", "--timeout", "100s")
	l.release()
	must(t, c.addr(), "wait", "hold", "--timeout", "100s")
	if b, free := l.begun(), l.lines("free"); len(b["h1"]) != 2 || len(b["excl"]) != 2 || len(free) != 2 {
		t.Errorf("begun %v, free %v", b, free)
	}
	l.check()
}

package registry

import (
	"reflect"
	"testing"
	"time"

	"cantina/store"
	"cantina/worker"
)

// TestADrainIsReadAsItWasWritten: and one that cannot be read still keeps work away.
func TestADrainIsReadAsItWasWritten(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	d := &Drain{Cell: "c1", Reason: "new disk", By: "ann", Since: at, Until: at.Add(time.Minute), StopBatch: true,
		Ended: at.Add(time.Second), Waited: []string{"task t (RUNNING)"}}
	op := DrainOp(d)
	other := DrainOp(&Drain{Cell: "c2"})
	all := Drains([]store.Row{{Key: op.Key, Value: op.Value, Revision: 7}, {Key: DrainRow("c3"), Value: other.Value},
		{Key: DrainRow("c4"), Value: []byte("x")}, {Key: "job/c5"}},
		[]store.Quarantine{{Key: DrainRow("c6"), Reason: "bad sum"}, {Key: "member/p"}})
	d.Revision = 7
	if !reflect.DeepEqual(all["c1"], d) {
		t.Errorf("%+v, not %+v", all["c1"], d)
	}
	if len(all) != 4 {
		t.Errorf("%d drains, not 4: %v", len(all), all)
	}
	for _, c := range []string{"c3", "c4", "c6"} {
		if x := all[worker.CellName(c)]; x == nil || !x.Until.IsZero() || x.Reason == "" {
			t.Errorf("%s: %+v", c, x)
		}
	}
	later := *d
	later.Since = at.Add(time.Nanosecond)
	if later.ID() == d.ID() {
		t.Error("two drains of a cell have one id")
	}
	if got := d.Left(at.Add(time.Hour)); got != time.Millisecond {
		t.Errorf("%v left after the end", got)
	}
}

// TestADrainOfForeignTextIsWritten: a certificate's name and a node's name may be any
// bytes; that must not end the process.
func TestADrainOfForeignTextIsWritten(t *testing.T) {
	op := DrainOp(&Drain{Cell: "c", Reason: "why \xff", By: "who \xff", Since: time.Unix(1, 0).UTC(),
		Waited: []string{"batch task j/\xff"}})
	d := Drains([]store.Row{{Key: op.Key, Value: op.Value}}, nil)["c"]
	if d == nil || d.By != "who \uFFFD" || len(d.Waited) != 1 || d.Waited[0] != "batch task j/\uFFFD" {
		t.Errorf("%+v", d)
	}
}

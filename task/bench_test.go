package task

import (
	"fmt"
	"testing"
)

// BenchmarkConvergeIncremental is a pass after one of 100,000 ended tasks came in.
func BenchmarkConvergeIncremental(b *testing.B) {
	board := NewBoard(Policy{KeepPerDomain: 1 << 30})
	for i := range 100000 {
		board.Put(&Task{GUID: fmt.Sprint("g", i), UID: "u", Domain: "d", Definition: &Definition{}, State: Completed,
			Outcome: Succeeded, FirstCompleted: t0})
	}
	board.Converge(t0)
	row := &Task{GUID: "new", UID: "u", Domain: "d", Definition: &Definition{}, State: Running, Holder: alpha}
	b.ReportAllocs()
	for b.Loop() {
		board.Put(row)
		if out := board.Converge(t0); len(out) != 0 {
			b.Fatal(out)
		}
	}
}

// BenchmarkLife is desire, start, complete, resolve, delete.
func BenchmarkLife(b *testing.B) {
	def := &Definition{}
	e := env()
	b.ReportAllocs()
	for b.Loop() {
		row, _, err := Desire(Task{GUID: "g", UID: "u", Domain: "d", Definition: def}, t0)
		for _, ev := range []Event{Start{UID: "u", By: alpha, Reservation: "r"}, Complete{UID: "u", By: alpha}, Resolve{},
			Delete{}} {
			if err == nil {
				row, _, err = Step(row, ev, e)
			}
		}
		if err != nil || row != nil {
			b.Fatal(err)
		}
	}
}

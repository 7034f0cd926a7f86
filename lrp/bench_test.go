package lrp

import (
	"fmt"
	"testing"
	"time"
)

// fullBoard holds n running instances of n/10 services.
func fullBoard(b *testing.B, n int) *Board {
	b.Helper()
	board := NewBoard(ConvergePolicy{})
	board.SetDomain("d", time.Time{})
	for i := range n / 10 {
		key := ServiceKey{"d", fmt.Sprintf("s%d", i)}
		s, err := Apply(nil, Desired{Service: key, Instances: 10}, fmt.Sprintf("p%d", i), t0)
		if err != nil {
			b.Fatal(err)
		}
		board.PutService(s)
		for j := range 10 {
			k := Key{s.Target().Process, j}
			cell := (i*10 + j) % 1000
			board.PutIndex(Index{Key: k, Ordinary: &Actual{
				Key: k, Service: key, State: Running, Since: t0, Net: netA,
				Identity: Identity{fmt.Sprintf("i%d-%d", i, j), fmt.Sprintf("c%d", cell), fmt.Sprintf("p%d", cell)},
			}})
		}
	}
	for out := board.Converge(t0); !out.Empty(); out = board.Converge(t0) {
		for _, s := range out.Services {
			board.PutService(s)
		}
	}
	return board
}

// BenchmarkConvergeFull is a pass over 100,000 running instances with nothing to repair.
func BenchmarkConvergeFull(b *testing.B) {
	board := fullBoard(b, 100000)
	b.ReportAllocs()
	for b.Loop() {
		if out := board.ConvergeAll(t0); !out.Empty() {
			b.Fatalf("%d moves", len(out.Moves))
		}
	}
}

// BenchmarkConvergeIncremental is a pass after one of 100,000 instances changed.
func BenchmarkConvergeIncremental(b *testing.B) {
	board := fullBoard(b, 100000)
	k := Key{"p7", 3}
	b.ReportAllocs()
	for b.Loop() {
		x := board.Index(k)
		a := *x.Ordinary
		a.Net.Routable = !a.Net.Routable
		x.Ordinary = &a
		board.PutIndex(x)
		if out := board.Converge(t0); !out.Empty() {
			b.Fatalf("%d moves", len(out.Moves))
		}
	}
}

// BenchmarkCellLost takes the 100 instances of one of 1,000 cells off it.
func BenchmarkCellLost(b *testing.B) {
	board := fullBoard(b, 100000)
	keys := board.OnProc("p5")
	b.ReportAllocs()
	for b.Loop() {
		for _, k := range keys {
			before := board.Index(k)
			after, _, err := Step(before, CellMustDie{"c5", "p5"}, board.Env(k, t0))
			if err != nil {
				b.Fatal(err)
			}
			board.PutIndex(after)
		}
		board.Converge(t0)
		b.StopTimer()
		for _, k := range keys {
			x := board.Index(k)
			a := *x.Ordinary
			a.State, a.Net, a.Identity = Running, netA, Identity{"i" + k.String(), "c5", "p5"}
			x.Ordinary = &a
			board.PutIndex(x)
		}
		board.Converge(t0)
		b.StartTimer()
	}
}

// BenchmarkHeartbeat is a cell's repeated Start of an unchanged instance.
func BenchmarkHeartbeat(b *testing.B) {
	x := Index{Key: key0, Ordinary: &Actual{Key: key0, Service: svc, State: Running, Identity: alpha, Net: netA,
		Since: t0}}
	env := wantedEnv()
	b.ReportAllocs()
	for b.Loop() {
		if after, _, err := Step(x, Start{By: alpha, Net: netA}, env); err != nil || after != x {
			b.Fatal(err)
		}
	}
}

// BenchmarkHarmonise is one look of a cell at one instance.
func BenchmarkHarmonise(b *testing.B) {
	v := View{Container: Up, Self: alpha, Rows: Index{Key: key0,
		Ordinary: &Actual{Key: key0, State: Running, Identity: alpha}}}
	b.ReportAllocs()
	for b.Loop() {
		if a := Harmonise(v); a.Then != Leave {
			b.Fatal(a)
		}
	}
}

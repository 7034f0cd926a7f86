package worker

import (
	"testing"
	"time"
)

func (r *rig) manyCells(n int) {
	for i := range n {
		name := CellName(rune('a'+i%26)) + CellName(time.Duration(i).String())
		h := Heartbeat{Protocol: Protocol, Term: term5, Cell: name, Proc: Proc("p" + name), DirID: string(name), Started: 1,
			Beat: 1, Period: 5 * sec, PredecessorsGone: true}
		r.step(BeatReceived{h, true})
		r.report(h.Proc)
		r.probe(name, h.Proc, true)
		r.out, r.rows = nil, nil
	}
}

func benchmarkRound(b *testing.B, n int, w Witness) {
	r := newRig(&testing.T{}, func(c *Config) { c.Witness = w })
	r.manyCells(n)
	b.ReportAllocs()
	for b.Loop() {
		r.now += sec
		for _, p := range r.l.order {
			p.health.LastBeat, p.health.LastProbe, p.probe.due = r.l.policy(r.now), r.l.policy(r.now), r.now+10*sec
			p.credit, p.credited = r.now, true
		}
		if _, err := r.l.Step(r.now, Tick{LeaseHeld: true}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRound10k(b *testing.B) { benchmarkRound(b, 10_000, WitnessList) }

func BenchmarkRound100k(b *testing.B) { benchmarkRound(b, 100_000, WitnessList) }

func BenchmarkRound10kConsensus(b *testing.B) { benchmarkRound(b, 10_000, WitnessConsensus) }

func BenchmarkRound100kConsensus(b *testing.B) { benchmarkRound(b, 100_000, WitnessConsensus) }

func BenchmarkHeartbeat(b *testing.B) {
	r := newRig(&testing.T{}, nil)
	r.manyCells(10_000)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		p := r.l.order[i%len(r.l.order)]
		h := Heartbeat{Protocol: Protocol, Term: term5, Cell: p.row.Cell, Proc: p.row.Proc, DirID: p.row.DirID, Started: 1,
			Beat: int64(i + 2), Period: 5 * sec, Promise: 86 * sec}
		if _, err := r.l.Step(r.now, BeatReceived{h, true}); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

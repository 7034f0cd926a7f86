package batch

import (
	"fmt"
	"runtime"
	"testing"
)

// grove is hosts × dbs with two at a time per host and one per db.
func grove(b tb, hosts, dbs, jobs, root int) *Board {
	spec := ForestSpec{Name: "f", Levels: []string{"host", "db"}, Order: OrderOriginal,
		Limits: map[string]map[string]Limit{
			"host": {"slots": {Default: 1, Limit: 2}}, "db": {"slots": {Default: 1, Limit: 1}},
		}}
	if root > 0 {
		spec.Limits[LevelInstance] = map[string]Limit{"all": {Default: 1, Limit: root}}
	}
	nodes := make([]NodeSpec, 0, hosts*(dbs+1))
	for h := range hosts {
		host := fmt.Sprint("host", h)
		nodes = append(nodes, NodeSpec{Name: host, Level: "host"})
		for d := range dbs {
			nodes = append(nodes, NodeSpec{Name: fmt.Sprint(host, ".db", d), Level: "db", Parent: host})
		}
	}
	board, err := NewBoard(spec)
	if err != nil {
		b.Fatal(err)
	}
	if err := board.SetNodes(nodes); err != nil {
		b.Fatal(err)
	}
	for j := range jobs {
		put(b, board, Job{Name: fmt.Sprint("job", j), Retries: -1})
	}
	return board
}

func heapMB() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / (1 << 20)
}

// BenchmarkLoad1M loads 1,000,000 nodes × 10 jobs and makes the first full pass.
func BenchmarkLoad1M(b *testing.B) {
	for b.Loop() {
		board := grove(b, 40_000, 25, 10, 0)
		n := len(board.Pick(1 << 30))
		b.ReportMetric(float64(n), "starts")
		b.StopTimer()
		b.ReportMetric(heapMB(), "heap-MB")
		runtime.KeepAlive(board)
		b.StartTimer()
	}
}

// refill ends one task after another and refills each freed slot at once.
func refill(b *testing.B, board *Board) {
	n := int64(0)
	var running []Start
	take := func(most int) {
		for _, s := range board.Pick(most) {
			n++
			if err := board.Started(s.Key, inv(n), "c"); err != nil {
				b.Fatal(err)
			}
			running = append(running, s)
		}
	}
	take(1 << 30)
	visits, most, last := board.f.visits, int64(0), int64(0)
	at := 0
	for b.Loop() {
		if at == len(running) {
			b.Fatal("everything has ended")
		}
		before := board.f.visits
		k := running[at].Key
		at++
		i, _, _ := board.Running(k)
		if _, ok := end(board, k, i, incomplete, 0); !ok {
			b.Fatal("not applied")
		}
		take(1)
		last = board.f.visits - before
		most = max(most, last)
	}
	b.ReportMetric(float64(board.f.visits-visits)/float64(b.N), "visits/slot")
	b.ReportMetric(float64(most), "max-visits")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "decisions/s")
}

// BenchmarkRefill10M: 1,000,000 nodes × 10 jobs, one freed slot at a time. The
// bound is 64·(levels + jobs) = 64·13 visits.
func BenchmarkRefill10M(b *testing.B) { refill(b, grove(b, 40_000, 25, 10, 0)) }

// BenchmarkRefillRoot10M: the same, everything blocked on the root.
func BenchmarkRefillRoot10M(b *testing.B) { refill(b, grove(b, 40_000, 25, 10, 1000)) }

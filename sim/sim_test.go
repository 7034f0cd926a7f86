package sim

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"testing"

	"cantina/worker"
)

var (
	seedFlag  = flag.Uint64("seed", 1, "first seed")
	stepsFlag = flag.Int("steps", 0, "run seeds until that many steps are done; 0 = the test's own number")
)

// steps is the length of the clean run: a minute in go test, long on request. The short
// form is for the race detector, which makes steps eight times as slow.
func steps() int {
	switch {
	case *stepsFlag > 0:
		return *stepsFlag
	case os.Getenv("CANTINA_SOAK") != "":
		return 50_000_000
	case testing.Short():
		return 150_000
	}
	return 1_500_000
}

// TestClean runs clusters of three cells until the steps are done: no invariant
// breaks, and everything gets done once the faults stop.
func TestClean(t *testing.T) {
	sum, err := RunMany(Many{Seed: *seedFlag, Steps: steps()})
	if err != nil {
		t.Fatal(err)
	}
	if sum.Launches == 0 || sum.Ended == 0 || sum.Lost == 0 || sum.Terms == 0 {
		t.Fatalf("nothing happened: %+v", sum)
	}
	if !testing.Short() { // too few steps for the rare pairs
		for _, m := range sum.Coverage.Missing() {
			t.Errorf("never happened: %s", m)
		}
	}
	t.Logf("%d steps, %d seeds, %d terms, %d launches", sum.Steps, sum.Seeds, sum.Terms, sum.Launches)
}

// TestConsensusWitness runs with the cells' sets as the witness: no less holds than with the list.
func TestConsensusWitness(t *testing.T) {
	for _, load := range []Load{Batch, Mixed} {
		if _, err := RunMany(Many{Seed: *seedFlag, Steps: steps() / 2,
			Config: Config{Witness: worker.WitnessConsensus, Load: load}}); err != nil {
			t.Error(err)
		}
	}
}

// TestCleanMixed is TestClean with services and tasks among the work.
func TestCleanMixed(t *testing.T) {
	sum, err := RunMany(Many{Seed: *seedFlag, Steps: 2 * steps(), Config: Config{Load: Mixed}})
	if err != nil {
		t.Fatal(err)
	}
	if sum.Begun == 0 || sum.TasksLost == 0 || sum.Launches == 0 || sum.Stale == 0 || sum.TooLarge == 0 ||
		sum.Orphans == 0 {
		t.Fatalf("nothing happened: %+v", sum)
	}
	if testing.Short() {
		return // too few steps for the rare pairs
	}
	missing := mixedMissing(&sum.Coverage)
	for last := sum.Last; len(missing) > 0 && last < sum.Last+1000; { // some pairs are rare
		more, err := RunMany(Many{Seed: last + 1, Steps: steps() / 5, Config: Config{Load: Mixed}})
		if err != nil {
			t.Fatal(err)
		}
		last = more.Last
		sum.Coverage.Merge(more.Coverage)
		missing = mixedMissing(&sum.Coverage)
	}
	for _, pair := range missing {
		t.Errorf("never happened: %s", pair)
	}
	t.Logf("%d steps, %d seeds, %d terms, %d containers, %d tasks lost", sum.Steps, sum.Seeds, sum.Terms, sum.Begun,
		sum.TasksLost)
}

// TestCleanMoves is TestClean with services whose instances are moved.
func TestCleanMoves(t *testing.T) {
	sum, err := RunMany(Many{Seed: *seedFlag, Steps: steps(), Config: Config{Load: Mixed, Moves: true}})
	if err != nil {
		t.Fatal(err)
	}
	if sum.Moves == 0 {
		t.Fatalf("nothing was moved: %+v", sum)
	}
	t.Logf("%d steps, %d seeds, %d moves", sum.Steps, sum.Seeds, sum.Moves)
}

// TestCleanPreempt is TestClean with full cells, on which instances are stopped for work of higher priority.
func TestCleanPreempt(t *testing.T) {
	sum, err := RunMany(Many{Seed: *seedFlag, Steps: steps(), Config: Config{Load: Mixed, Preempt: true}})
	if err != nil {
		t.Fatal(err)
	}
	if sum.Preempted == 0 {
		t.Fatalf("nothing was stopped: %+v", sum)
	}
	t.Logf("%d steps, %d seeds, %d instances stopped", sum.Steps, sum.Seeds, sum.Preempted)
}

// mixedMissing lists the pairs of services and tasks that never happened; TestClean sees
// to the others.
func mixedMissing(c *Coverage) (out []string) {
	for o, faults := range c.Count {
		for f, n := range faults {
			if n == 0 && (Op(o) >= batchOps || Fault(f) >= batchFaults) {
				out = append(out, fmt.Sprintf("%v × %v", Op(o), Fault(f)))
			}
		}
	}
	return out
}

// TestOtherShapes runs smaller and larger clusters.
func TestOtherShapes(t *testing.T) {
	for _, c := range []Config{
		{Cells: 1, Servers: 1, Jobs: 1, Nodes: 1}, {Cells: 2, Jobs: 1, Nodes: 1}, {Cells: 8, Servers: 3, Jobs: 3, Nodes: 4},
		{Cells: 2, Load: Mixed}, {Cells: 6, Servers: 3, Load: Mixed},
	} {
		if _, err := RunMany(Many{Seed: *seedFlag, Steps: steps() / 10, Config: c}); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestSeedDecides: the same seed gives the same run, to the letter.
func TestSeedDecides(t *testing.T) {
	for _, load := range []Load{Batch, Mixed} {
		var a, b bytes.Buffer
		ra, _ := Run(Config{Seed: 42, Load: load, Trace: &a})
		rb, _ := Run(Config{Seed: 42, Load: load, Trace: &b})
		if !bytes.Equal(a.Bytes(), b.Bytes()) || ra != rb {
			t.Fatalf("two runs of one seed differ (%v)", load)
		}
		if a.Len() == 0 {
			t.Fatal("no trace")
		}
	}
}

// TestCalmClusterHoldsNothing: without faults nothing is lost and one term is enough.
func TestCalmClusterHoldsNothing(t *testing.T) {
	for _, load := range []Load{Batch, Mixed} {
		r, err := Run(Config{Seed: 7, Load: load, Faults: []Fault{}})
		if err != nil || r.Terms != 1 || r.Launches == 0 || r.TasksLost > 0 || r.Begun == 0 && load == Mixed {
			t.Fatalf("%v: %v %+v", load, err, r)
		}
	}
}

func BenchmarkSteps(b *testing.B) {
	for _, load := range []Load{Batch, Mixed} {
		b.Run(load.String(), func(b *testing.B) {
			n := 0
			for seed := uint64(0); n < b.N; seed++ {
				r, err := Run(Config{Seed: seed, Load: load, Cells: 3, Jobs: 2, Nodes: 2, Witness: worker.WitnessList})
				if err != nil {
					b.Fatal(err)
				}
				n += r.Steps
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "steps/s")
		})
	}
}

// TestFullStore: a store that takes no writes for longer than a cell lives without its leader ends
// nothing, and nothing that waited for it is forgotten.
func TestFullStore(t *testing.T) {
	sum, err := RunMany(Many{Seed: *seedFlag, Steps: steps() / 3, Config: Config{Load: Mixed, Faults: []Fault{FullStore}}})
	if err != nil {
		t.Fatal(err)
	}
	if sum.Launches == 0 || sum.Begun == 0 || sum.Terms != sum.Seeds {
		t.Fatalf("nothing happened, or terms ended: %+v", sum)
	}
	if sum.Lost > 0 || sum.TasksLost > 0 {
		t.Errorf("%d batch tasks and %d tasks were lost", sum.Lost, sum.TasksLost)
	}
}

package sim

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"cantina/worker"
)

var update = flag.Bool("update", false, "find a seed for each planted mistake and store it in testdata/seeds.txt")

// planted returns one Mistakes value for each field, in the order of the struct.
func planted() (names []string, ms []worker.Mistakes) {
	typ := reflect.TypeFor[worker.Mistakes]()
	for i := range typ.NumField() {
		var m worker.Mistakes
		reflect.ValueOf(&m).Elem().Field(i).SetBool(true)
		names = append(names, typ.Field(i).Name)
		ms = append(ms, m)
	}
	return names, ms
}

// hints are the faults under which a mistake shows most often; nil = all.
var hints = map[string][]Fault{
	"CreditWithoutLease":  {CutStore, PauseServer, PauseAgent},
	"CountFromAnswer":     {CutLink, PauseAgent},
	"MemberAfterEligible": {KillServer, CutLink, KillAgent, UnknownCommit, Farewell},
	"WaitByOwnFlags":      {OtherFlags, KillServer, PauseAgent, CutLink},
	"NewByUID":            {DeleteJob, KillServer, CutLink},
	"EffectBeforeCommit":  {UnknownCommit, CutLink},
	"CreditBeforeRecord":  {CutCalls, KillAgent, PauseAgent},
}

// patience is how many seeds after the stored one are tried, since any change of
// the machines moves the runs of all seeds.
const patience = 600

// findMistake runs seeds from first until one shows the mistake.
func findMistake(name string, m worker.Mistakes, first, tries uint64) (uint64, *Violation) {
	for seed := first; seed < first+tries; seed++ {
		_, err := Run(Config{Seed: seed, Mistakes: m, Only: hints[name]})
		var v *Violation
		if errors.As(err, &v) {
			return seed, v
		}
	}
	return 0, nil
}

// TestPlantedMistakesBySeed replays, for each mistake that can be planted, the
// stored seed under which the simulator finds it.
func TestPlantedMistakesBySeed(t *testing.T) {
	names, ms := planted()
	if *update {
		storeSeeds(t, names, ms)
	}
	seeds := readSeeds(t)
	for i, name := range names {
		t.Run(name, func(t *testing.T) {
			seed, ok := seeds[name]
			if !ok {
				t.Fatal("no stored seed; run go test ./sim -run PlantedMistakesBySeed -update")
			}
			if shown, v := findMistake(name, ms[i], seed, patience); v == nil {
				t.Fatalf("seed %d does not show the mistake any more; run with -update", seed)
			} else if shown != seed {
				t.Logf("the rules have changed since: seed %d shows it now, not %d; run with -update", shown, seed)
			}
			if r, err := Run(Config{Seed: seed, Only: hints[name]}); err != nil {
				t.Fatalf("seed %d fails without the mistake too: %v (%+v)", seed, err, r)
			}
		})
	}
}

func storeSeeds(t *testing.T, names []string, ms []worker.Mistakes) {
	var b strings.Builder
	old := readSeeds(t)
	for i, name := range names {
		seed, v := findMistake(name, ms[i], old[name], 6_000)
		if v == nil {
			t.Errorf("%s: not found", name)
			continue
		}
		fmt.Fprintf(&b, "%s %d %s\n", name, seed, v.Invariant)
	}
	if err := os.WriteFile("testdata/seeds.txt", []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

func readSeeds(t *testing.T) map[string]uint64 {
	f, err := os.Open("testdata/seeds.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	seeds := map[string]uint64{}
	for sc := bufio.NewScanner(f); sc.Scan(); {
		var name, invariant string
		var seed uint64
		if _, err := fmt.Sscan(sc.Text(), &name, &seed, &invariant); err != nil {
			t.Fatalf("%q: %v", sc.Text(), err)
		}
		seeds[name] = seed
	}
	return seeds
}

// TestPlantedMistakesAfresh finds each mistake among seeds it has not seen.
func TestPlantedMistakesAfresh(t *testing.T) {
	if os.Getenv("CANTINA_SOAK") == "" {
		t.Skip("set CANTINA_SOAK=1")
	}
	names, ms := planted()
	for i, name := range names {
		seed, v := findMistake(name, ms[i], 1_000_000, 20_000)
		if v == nil {
			t.Errorf("%s: not found", name)
			continue
		}
		t.Logf("%-22s seed %d, step %d: %s", name, seed, v.Step, v.Invariant)
	}
}

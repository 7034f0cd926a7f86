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

// mistake is a run in which one rule is broken.
type mistake struct {
	name string
	cfg  Config
}

// planted returns one run for each field of Mistakes, in the order of the struct, and
// one for each wrong rule of services and tasks.
func planted() []mistake {
	var all []mistake
	typ := reflect.TypeFor[worker.Mistakes]()
	for i := range typ.NumField() {
		var m worker.Mistakes
		reflect.ValueOf(&m).Elem().Field(i).SetBool(true)
		name := typ.Field(i).Name
		c := Config{Mistakes: m, Only: hints[name], focus: hints[name] != nil}
		if name == "SetBeforeWaitEnds" || name == "DisplacedLeaves" {
			c.Witness = worker.WitnessConsensus
		}
		all = append(all, mistake{name, c})
	}
	for _, r := range wrongRules() {
		all = append(all, mistake{r.name, Config{Load: Mixed, rules: r.rules, Only: hints[r.name], focus: hints[r.name] != nil}})
	}
	return all
}

// right is the same run without the mistake.
func (m mistake) right() Config {
	c := m.cfg
	c.Mistakes, c.rules = worker.Mistakes{}, rules{}
	return c
}

// hints are the faults under which a mistake shows most often; nil = all.
var hints = map[string][]Fault{
	"CreditWithoutLease":      {CutStore, PauseServer, PauseAgent},
	"CountFromAnswer":         {CutLink, PauseAgent},
	"MemberAfterEligible":     {KillServer, CutLink, KillAgent, UnknownCommit, Farewell},
	"WaitByOwnFlags":          {OtherFlags, KillServer, PauseAgent, CutLink},
	"NewByUID":                {DeleteJob, KillServer, CutLink},
	"EffectBeforeCommit":      {UnknownCommit, CutLink},
	"CreditBeforeRecord":      {CutCalls, KillAgent, PauseAgent},
	"AloneWithOthers":         {RestoreStore, CutLink, PauseAgent, ChangeTask},
	"DeadByTimeAlone":         {HangWork, KillAgent},
	"StuckToldGone":           {HangWork, ChangeService, ChangeTask, Drain},
	"StuckForgotten":          {HangWork, KillAgent, DeleteJob},
	"StuckDiesWithItsProcess": {HangWork, KillAgent, ChangeTask},
	"SetBeforeWaitEnds":       {RestoreStore, KillServer, CutLink, PauseAgent},
	"DisplacedLeaves":         {RestoreStore, CutLink, KillAgent, HangWork},
	"StartWhileBlind":         {RestoreStore, CutLink, PauseAgent, ChangeTask},
}

// patience is how many seeds after the stored one are tried, since any change of
// the machines moves the runs of all seeds.
const patience = 600

// findMistake runs seeds from first until one shows the mistake.
func findMistake(m mistake, first, tries uint64) (uint64, *Violation) {
	for seed := first; seed < first+tries; seed++ {
		c := m.cfg
		c.Seed = seed
		_, err := Run(c)
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
	all := planted()
	if *update {
		storeSeeds(t, all)
	}
	seeds, tries := readSeeds(t), uint64(patience)
	if testing.Short() {
		tries /= 10 // with the race detector each takes long
	}
	for _, m := range all {
		t.Run(m.name, func(t *testing.T) {
			seed, ok := seeds[m.name]
			if !ok {
				t.Fatal("no stored seed; run go test ./sim -run PlantedMistakesBySeed -update")
			}
			if shown, v := findMistake(m, seed, tries); v == nil {
				t.Fatalf("seed %d does not show the mistake any more; run with -update", seed)
			} else if shown != seed {
				t.Logf("the rules have changed since: seed %d shows it now, not %d; run with -update", shown, seed)
			}
			right := m.right()
			right.Seed = seed
			if r, err := Run(right); err != nil {
				t.Fatalf("seed %d fails without the mistake too: %v (%+v)", seed, err, r)
			}
		})
	}
}

func storeSeeds(t *testing.T, all []mistake) {
	var b strings.Builder
	old := readSeeds(t)
	for _, m := range all {
		seed, v := findMistake(m, old[m.name], 6_000)
		if v == nil {
			t.Errorf("%s: not found", m.name)
			continue
		}
		t.Logf("%s: %v", m.name, v)
		fmt.Fprintf(&b, "%s %d %s\n", m.name, seed, v.Invariant)
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
	for _, m := range planted() {
		seed, v := findMistake(m, 1_000_000, 20_000)
		if v == nil {
			t.Errorf("%s: not found", m.name)
			continue
		}
		t.Logf("%-22s seed %d, step %d: %s", m.name, seed, v.Step, v.Invariant)
	}
}

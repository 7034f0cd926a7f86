package mistake

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"cantina/internal/mutate"
)

var update = flag.Bool("update", false, "find a seed for each mistake and store it in testdata/seeds.txt")

const (
	root      = "../.."
	seedsFile = "testdata/seeds.txt"
)

// plantedBuild is the build with all mistakes, made by the first test that asks.
var plantedBuild = struct {
	once sync.Once
	dir  string
	Programs
	err error
}{}

func programs(t *testing.T) Programs {
	b := &plantedBuild
	b.once.Do(func() {
		if b.dir, b.err = os.MkdirTemp("", "mistakes"); b.err == nil {
			b.Programs, b.err = Build(root, b.dir)
		}
	})
	if b.err != nil {
		t.Fatal(b.err)
	}
	return b.Programs
}

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if err := os.RemoveAll(plantedBuild.dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// TestPatchesFit: each old text is in its file once. A change of the code that moves a rule
// has to move its mistake too.
func TestPatchesFit(t *testing.T) {
	files, err := Sources(root)
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range files {
		if on := strings.Contains(text, "mistake."); on != strings.Contains(text, `; import "cantina/sim/mistake"`) {
			t.Errorf("%s: asks which mistake is on: %v, and the import is not so", path, on)
		}
	}
}

// TestEveryMistakeIsPlanted: each has a patch that uses its name, and no patch uses a name outside the table.
func TestEveryMistakeIsPlanted(t *testing.T) {
	call, name := regexp.MustCompile(`mistake\.On\(([^)]*)\)`), regexp.MustCompile(`"(\w+)"`)
	asked := map[string]bool{}
	for _, p := range Patches() {
		for _, c := range call.FindAllStringSubmatch(p.New, -1) {
			for _, n := range name.FindAllStringSubmatch(c[1], -1) {
				asked[n[1]] = true
			}
		}
	}
	names := map[string]bool{}
	for _, m := range All() {
		if names[m.Name] || m.Rule == "" {
			t.Errorf("%q: its name is not its own, or it has no rule", m.Name)
		}
		names[m.Name] = true
		if !asked[m.Name] {
			t.Errorf("%s: no patch asks for it", m.Name)
		}
	}
	for n := range asked {
		if !names[n] {
			t.Errorf("a patch asks for %s, which is not in the table", n)
		}
	}
	t.Logf("%d mistakes, %d patches", len(names), len(Patches()))
}

// TestARuleThatMovedIsNamed: the error of a patch that does not fit names mistake and file.
func TestARuleThatMovedIsNamed(t *testing.T) {
	p := Patches()
	p[0].Old = "this is not there"
	if _, err := mutate.Patched(root, p); err == nil || !strings.Contains(err.Error(), p[0].Name+": "+p[0].File) {
		t.Fatalf("%v", err)
	}
}

// violation matches the simulator's text of a broken invariant.
var violation = regexp.MustCompile(`(?m)^(\S+) violated at step (\d+) .*; replay: cantina sim --seed (\d+) `)

type found struct {
	invariant string
	step      int
	seed      uint64
}

// find runs so many seeds from first on until one shows the mistake.
func (m Mistake) find(t *testing.T, first, tries uint64) (f found, ok bool) {
	out, err := m.simulate(programs(t).Simulator, m.Name, first, tries)
	if err == nil {
		return found{}, false
	}
	at := violation.FindSubmatch(out)
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 1 || at == nil {
		t.Fatalf("%s: %v: %s", m.Name, err, out)
	}
	f.invariant = string(at[1])
	f.step, _ = strconv.Atoi(string(at[2]))
	f.seed, _ = strconv.ParseUint(string(at[3]), 10, 64)
	if m.By != "" && f.invariant != m.By {
		t.Errorf("%s: seed %d: found by %s, want %s", m.Name, f.seed, f.invariant, m.By)
	}
	return f, true
}

// simulate runs seeds with a mistake, or with none.
func (m Mistake) simulate(program, name string, first, tries uint64) ([]byte, error) {
	args := append(strings.Fields(m.Args), "--seed", fmt.Sprint(first), "--seeds", fmt.Sprint(tries))
	cmd := exec.Command(program, args...)
	cmd.Env = Environ(name)
	return cmd.CombinedOutput()
}

// patience is how many seeds from the stored one on are tried, since any change of the machines
// moves the runs of all seeds.
const patience = 600

// TestBySeed runs, for each mistake, the stored seed under which the simulator finds it, and
// the same run without the mistake.
func TestBySeed(t *testing.T) {
	if *update {
		storeSeeds(t)
	}
	seeds, simulator := readSeeds(t), programs(t).Simulator
	for _, m := range All() {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			seed, ok := seeds[m.Name]
			if !ok {
				t.Fatal("no stored seed; run go test ./sim/mistake -run BySeed -update")
			}
			f, ok := m.find(t, seed, patience)
			if !ok {
				t.Fatalf("seed %d does not show the mistake any more; run with -update", seed)
			}
			if f.seed != seed {
				t.Logf("the rules have changed since: seed %d shows it now, not %d; run with -update", f.seed, seed)
			}
			if out, err := m.simulate(simulator, "", f.seed, 1); err != nil {
				t.Fatalf("seed %d fails without the mistake too: %v: %s", f.seed, err, out)
			}
		})
	}
	if len(seeds) != len(All()) {
		t.Errorf("%d stored seeds, %d mistakes", len(seeds), len(All()))
	}
}

// TestAfresh finds each mistake among seeds it has not seen.
func TestAfresh(t *testing.T) {
	if os.Getenv("CANTINA_SOAK") == "" {
		t.Skip("set CANTINA_SOAK=1")
	}
	programs(t)
	for _, m := range All() {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			f, ok := m.find(t, 1_000_000, 20_000)
			if !ok {
				t.Fatal("not found")
			}
			t.Logf("seed %d, step %d: %s", f.seed, f.step, f.invariant)
		})
	}
}

// TestSearch: the exhaustive search finds mistakes that need few steps, and reports nothing without a mistake.
func TestSearch(t *testing.T) {
	search := programs(t).Search
	tried := 0
	for _, m := range All() {
		if m.Search == "" {
			continue
		}
		tried++
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			for _, name := range []string{m.Name, ""} {
				cmd := exec.Command(search, "-test.run=TestSearch$", "-test.v", "-budget="+m.Search)
				cmd.Env = append(Environ(name), "CANTINA_SOAK=")
				out, err := cmd.CombinedOutput()
				at := states.FindSubmatch(out)
				if (err == nil) != (name == "") || at == nil || err != nil && !bytes.Contains(out, []byte("is alive on cell")) {
					t.Fatalf("planted %q: %v: %s", name, err, out)
				}
				t.Logf("planted %q: %s states", name, at[1])
			}
		})
	}
	if tried != 5 {
		t.Errorf("%d mistakes have a budget of the search, want 5", tried)
	}
}

// states matches the text that the search prints.
var states = regexp.MustCompile(`(\d+) states, \d+ ways`)

// TestAnUnknownMistakeIsRefused: a name that is not in the table is no run without a mistake.
func TestAnUnknownMistakeIsRefused(t *testing.T) {
	out, err := Mistake{}.simulate(programs(t).Simulator, "NoSuch", 1, 1)
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 2 ||
		!bytes.Contains(out, []byte("NoSuch")) {
		t.Fatalf("%v: %s", err, out)
	}
}

func storeSeeds(t *testing.T) {
	var b strings.Builder
	old := readSeeds(t)
	for _, m := range All() {
		f, ok := m.find(t, old[m.Name], 6_000)
		if !ok {
			t.Errorf("%s: not found", m.Name)
			continue
		}
		t.Logf("%s: seed %d, step %d: %s", m.Name, f.seed, f.step, f.invariant)
		fmt.Fprintf(&b, "%s %d %s\n", m.Name, f.seed, f.invariant)
	}
	if err := os.WriteFile(seedsFile, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

func readSeeds(t *testing.T) map[string]uint64 {
	f, err := os.Open(seedsFile)
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

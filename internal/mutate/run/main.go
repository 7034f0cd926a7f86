// Command run checks whether tests detect small changes of the pure packages: it builds the tests
// of each package once with all changes in it, and runs them with one selected at a time. For
// changes that pass, it briefly runs the simulator. `make mutate` calls it. It exits 1 if a change
// survives that is not in the list of known survivors, if a known one is now detected, and if the
// list has one that the code no longer has.
package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"cantina/internal/mutate"
)

type options struct {
	n         int
	seed      uint64
	workers   int
	match     string
	known     string
	simulated time.Duration
	quick     bool
	run       string
	only      string
	unlisted  bool
	ids       map[string]bool // of the file only; nil = all
}

func main() {
	var o options
	flag.IntVar(&o.n, "n", 100, "how many changes to try, drawn from all files in turn; 0 = all")
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "seed of the draw")
	flag.IntVar(&o.workers, "workers", 2, "changes tried at the same time")
	flag.StringVar(&o.match, "match", "", "only changes whose name has this text")
	flag.StringVar(&o.known, "known", "internal/mutate/survivors.txt", "list of survivors with a reason each")
	flag.DurationVar(&o.simulated, "sim", 10*time.Second,
		"how long the simulator runs on each change that the tests let pass; 0 = it does not")
	flag.BoolVar(&o.quick, "quick", false,
		"leave out tests of more than half a second, and the simulator: for writing tests")
	flag.StringVar(&o.run, "run", "", "run only tests that match, and no simulator: for writing tests")
	flag.StringVar(&o.only, "only", "", "only changes that this output of an earlier run names as survivors")
	flag.BoolVar(&o.unlisted, "unlisted", false,
		"leave out the changes that the list has, which take most of the time, since all tests run on them")
	flag.Parse()
	if err := run(o, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

// attempt is a change that is tried.
type attempt struct {
	mutate.Small
	number  int
	verdict mutate.Verdict
}

// progress is after how many changes a run prints how far it is.
const progress = 200

// passed begins a line about a change that the tests of its package did not notice.
const passed = "tests let pass "

// counts are the figures of a package.
type counts struct {
	all, tried, tests, simulator, survive, broken int
	spent                                         time.Duration
}

func run(o options, dirs []string) error {
	known, err := mutate.ReadKnown(o.known)
	if err != nil {
		return err
	}
	if o.ids, err = readSurvivors(o.only); err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	var packages []*mutate.Package
	table := make([]counts, len(dirs))
	first := 1
	for _, dir := range dirs {
		p, err := mutate.Load(dir, first)
		if err != nil {
			return err
		}
		first += len(p.All)
		packages = append(packages, p)
	}
	chosen := draw(packages, o, known)
	fmt.Printf("seed %d\n", o.seed)
	var survivors [][]*attempt
	for i, p := range packages {
		table[i].all = len(p.All)
		if len(chosen[i]) == 0 {
			survivors = append(survivors, nil)
			continue
		}
		left, err := tests(p, chosen[i], o, scratch, &table[i])
		if err != nil {
			return err
		}
		survivors = append(survivors, left)
	}
	if o.simulated > 0 && !o.quick && o.run == "" {
		if err := simulate(packages, survivors, o, scratch, table); err != nil {
			return err
		}
	}
	bad := report(chosen, known, packages)
	figures(dirs, table)
	if bad > 0 {
		return fmt.Errorf("%d changes are not as the list has them", bad)
	}
	return nil
}

// draw chooses changes, so that each file has about as many.
func draw(packages []*mutate.Package, o options, known map[string]string) [][]*attempt {
	rng := rand.New(rand.NewPCG(o.seed, 1))
	files := map[string][][2]int{}
	var names []string
	for i, p := range packages {
		for j, m := range p.All {
			id := m.ID()
			if m.Idle || !strings.Contains(id, o.match) || o.ids != nil && !o.ids[id] || o.unlisted && known[id] != "" {
				continue
			}
			if files[m.Path] == nil {
				names = append(names, m.Path)
			}
			files[m.Path] = append(files[m.Path], [2]int{i, j})
		}
	}
	for _, name := range names {
		list := files[name]
		rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	}
	rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	out := make([][]*attempt, len(packages))
	for left := o.n; ; {
		more := false
		for _, name := range names {
			if len(files[name]) == 0 || o.n > 0 && left == 0 {
				continue
			}
			more = true
			at := files[name][0]
			files[name] = files[name][1:]
			out[at[0]] = append(out[at[0]], &attempt{Small: packages[at[0]].All[at[1]], number: at[1]})
			left--
		}
		if !more {
			return out
		}
	}
}

// readSurvivors reads the names of the survivors in the output of a run; nil for no file.
func readSurvivors(path string) (map[string]bool, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	out := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		for _, head := range []string{"SURVIVES  ", passed} { // the second also in that of a run that was cut short
			if rest, ok := strings.CutPrefix(line, head); ok {
				id, _, _ := strings.Cut(rest, "  at ")
				out[strings.TrimSpace(id)] = true
			}
		}
	}
	return out, nil
}

func tests(p *mutate.Package, all []*attempt, o options, scratch string, c *counts) ([]*attempt, error) {
	program, err := mutate.NewTests(p, scratch, o.run)
	if err != nil {
		return nil, err
	}
	if o.quick {
		program.Quick()
	}
	begin := time.Now()
	var mu sync.Mutex
	var failed error
	tried := 0
	each(all, o.workers, func(a *attempt) {
		var err error
		a.number = p.Number[a.number] // an index until now
		if a.number != 0 {
			a.verdict = program.Try(a.number)
		} else {
			a.verdict, err = program.TryAlone(a.Small)
		}
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			failed = err
		}
		if tried++; tried%progress == 0 {
			fmt.Fprintf(os.Stderr, "%s: tried %d of %d\n", p.Dir, tried, len(all))
		}
		if a.verdict == mutate.Survives { // at once: a long run may be cut short
			fmt.Fprintln(os.Stderr, passed+a.ID())
		}
	})
	var left []*attempt
	for _, a := range all {
		c.tried++
		switch a.verdict {
		case mutate.Noticed:
			c.tests++
		case mutate.Broken:
			c.broken++
		case mutate.Survives:
			c.survive++
			left = append(left, a)
		}
	}
	c.spent = time.Since(begin)
	return left, failed
}

func simulate(packages []*mutate.Package, left [][]*attempt, o options, scratch string, table []counts) error {
	if len(slices.Concat(left...)) == 0 {
		return nil
	}
	program, err := mutate.NewSimulator(packages, scratch, o.simulated)
	if err != nil {
		return err
	}
	for i, list := range left {
		each(list, o.workers, func(a *attempt) {
			if a.number != 0 {
				a.verdict = program.Try(a.number)
			}
		})
		for _, a := range list {
			if a.verdict == mutate.Noticed {
				table[i].simulator++
				table[i].survive--
				fmt.Printf("simulator %s\n", a.ID())
			}
		}
	}
	return nil
}

func each(all []*attempt, workers int, f func(*attempt)) {
	work := make(chan *attempt)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for a := range work {
				f(a)
			}
		})
	}
	for _, a := range all {
		work <- a
	}
	close(work)
	wg.Wait()
}

// report prints differences from the list of known survivors, and returns their number.
func report(tried [][]*attempt, known map[string]string, packages []*mutate.Package) int {
	bad := 0
	for _, a := range slices.Concat(tried...) {
		reason, listed := known[a.ID()]
		switch {
		case a.verdict == mutate.Survives && listed:
			fmt.Printf("known     %s (%s)\n", a.ID(), reason)
		case a.verdict == mutate.Survives:
			bad++
			fmt.Printf("SURVIVES  %s  at %s:%d\n", a.ID(), a.Path, a.Line)
		case a.verdict == mutate.Noticed && listed:
			bad++
			fmt.Printf("NOTICED   %s: take it off the list\n", a.ID())
		}
	}
	var have []mutate.Small
	for _, p := range packages {
		have = append(have, p.All...)
	}
	for _, id := range mutate.Stale(known, have) {
		bad++
		fmt.Printf("GONE      %s: the code has no such change, take it off the list\n", id)
	}
	return bad
}

func figures(dirs []string, table []counts) {
	fmt.Printf("%-12s %8s %8s %8s %10s %8s %8s %8s\n",
		"package", "changes", "tried", "tests", "simulator", "survive", "broken", "seconds")
	for i, c := range table {
		fmt.Printf("%-12s %8d %8d %8d %10d %8d %8d %8.0f\n", strings.TrimPrefix(dirs[i], "./"),
			c.all, c.tried, c.tests, c.simulator, c.survive, c.broken, c.spent.Seconds())
	}
}

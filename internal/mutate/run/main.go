// Command run asks whether a test notices small changes of the pure packages: it makes
// one at a time and runs the package's tests, and the simulator for a moment on what
// they let pass. `make mutate` calls it. It exits 1 when a change survives that is not in
// the list of known survivors, or when a known one is noticed by now.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"cantina/internal/mutate"
)

func main() {
	n := flag.Int("n", 100, "how many changes to try, drawn over all packages; 0 = all")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "seed of the draw")
	workers := flag.Int("workers", 2, "changes tried at the same time")
	match := flag.String("match", "", "only changes whose name has this text")
	known := flag.String("known", "internal/mutate/survivors.txt", "list of survivors with a reason each")
	flag.Parse()
	if err := run(*n, *seed, *workers, *match, *known, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func run(n int, seed uint64, workers int, match, known string, packages []string) error {
	reasons, err := readKnown(known)
	if err != nil {
		return err
	}
	var all []mutate.Small
	for _, p := range packages {
		files, err := filepath.Glob(filepath.Join(p, "*.go"))
		if err != nil {
			return err
		}
		for _, f := range files {
			if strings.HasSuffix(f, "_test.go") || strings.HasSuffix(f, "mistakes.go") {
				continue
			}
			list, err := mutate.Smalls(f)
			if err != nil {
				return err
			}
			for _, m := range list {
				if strings.Contains(m.ID(), match) {
					all = append(all, m)
				}
			}
		}
	}
	total := len(all)
	rng := rand.New(rand.NewPCG(seed, 1))
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	if n > 0 && n < len(all) {
		all = all[:n]
	}
	fmt.Printf("%d of %d small changes, seed %d\n", len(all), total, seed)
	return judge(all, workers, reasons)
}

func judge(all []mutate.Small, workers int, reasons map[string]string) error {
	var mu sync.Mutex
	var failed error
	counts := map[mutate.Verdict]int{}
	bad := 0
	work := make(chan mutate.Small)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for m := range work {
				v, err := mutate.Try(m)
				mu.Lock()
				failed = errors.Join(failed, err)
				counts[v]++
				reason, listed := reasons[m.ID()]
				switch {
				case v == mutate.Survives && listed:
					fmt.Printf("known     %s (%s)\n", m.ID(), reason)
				case v == mutate.Survives:
					bad++
					fmt.Printf("SURVIVES  %s  at %s:%d\n", m.ID(), m.Path, m.Line)
				case v == mutate.Noticed && listed:
					bad++
					fmt.Printf("NOTICED   %s: take it off the list\n", m.ID())
				}
				mu.Unlock()
			}
		})
	}
	for _, m := range all {
		work <- m
	}
	close(work)
	wg.Wait()
	fmt.Printf("%d noticed, %d survive, %d do not compile\n", counts[mutate.Noticed], counts[mutate.Survives], counts[mutate.Broken])
	if failed == nil && bad > 0 {
		failed = fmt.Errorf("%d changes are not as the list has them", bad)
	}
	return failed
}

// readKnown reads the list: a line per survivor, its name, two spaces, "#" and the reason.
func readKnown(path string) (map[string]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	out := map[string]string{}
	s := bufio.NewScanner(f)
	for line := 1; s.Scan(); line++ {
		text := strings.TrimSpace(s.Text())
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		id, reason, ok := strings.Cut(text, "  # ")
		if !ok || reason == "" {
			return nil, fmt.Errorf("%s:%d: a survivor needs a reason after two spaces and #", path, line)
		}
		out[strings.TrimSpace(id)] = reason
	}
	return out, s.Err()
}

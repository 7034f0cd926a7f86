package mutate

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Program is a program with changes in it, and how it is run on one of them.
type Program struct {
	path  string
	args  []string
	dir   string
	parts []part // the cheapest first
}

// part is what can be run alone of a program: a test. A program that is no test is one part.
type part struct {
	test string
	used time.Duration // of processor time: another program that keeps the machine busy must not count
	// reached has the numbers of the changes that the part executes; it cannot detect the others.
	reached map[int]bool
}

// memory is how much address space a program may take, in KiB: a change can make it take all there is.
const memory = 6 << 20

// patience is how long a program runs that nothing is known about.
const patience = 10 * time.Minute

// tries bounds how often a program is built: each time without the changes that did not compile.
const tries = 12

// NewTests builds the tests of a package, with all changes that compile together, and runs each
// that matches a regular expression, with no change.
func NewTests(p *Package, scratch, match string) (*Program, error) {
	dir, err := filepath.Abs(p.Dir)
	if err != nil {
		return nil, err
	}
	name := filepath.Base(dir)
	t := &Program{path: filepath.Join(scratch, name+".test"), dir: dir}
	err = build(scratch, []*Package{p}, dir, "go", "test", "-c", "-vet=off", "-gcflags=-e", "-o", t.path, ".")
	if err != nil {
		return nil, err
	}
	t.args = testFlags(t.path, dir)
	if t.parts, err = t.list(cmp.Or(match, ".")); err != nil {
		return nil, err
	}
	return t, t.calm(scratch)
}

// list finds the tests of a program.
func (t *Program) list(match string) ([]part, error) {
	list := exec.Command(t.path, "-test.list", match)
	list.Dir = t.dir
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("list the tests of %s: %w", t.path, err)
	}
	var all []part
	for _, name := range strings.Fields(string(out)) {
		if !strings.HasPrefix(name, "Benchmark") {
			all = append(all, part{test: name})
		}
	}
	return all, nil
}

func testFlags(program, dir string) []string {
	flags := []string{"-test.short", "-test.failfast"}
	help := exec.Command(program, "-help")
	help.Dir = dir
	if out, _ := help.CombinedOutput(); bytes.Contains(out, []byte("rapid.checks")) { // -help always fails
		flags = append(flags, "-rapid.checks=300", "-rapid.seed=1", "-rapid.nofailfile")
	}
	return flags
}

// NewSimulator builds the simulator with the changes of all packages, and runs it once with none.
func NewSimulator(all []*Package, scratch string, length time.Duration) (*Program, error) {
	dir, err := filepath.Abs(".")
	if err != nil {
		return nil, err
	}
	s := &Program{path: filepath.Join(scratch, "simulate"), dir: scratch}
	s.args = []string{"--draw", "--for", length.String(), "--seed", "1"}
	if err := build(scratch, all, dir, "go", "build", "-o", s.path, "./internal/mutate/simulate"); err != nil {
		return nil, err
	}
	s.parts = make([]part, 1)
	return s, s.calm(scratch)
}

// calm runs each part without a change, which must pass, and measures its time and the executed changes.
func (t *Program) calm(scratch string) error {
	for i := range t.parts {
		p := &t.parts[i]
		file := filepath.Join(scratch, "reached")
		out, used, err := t.run(t.parts[i:i+1], patience, Reached+"="+file)
		if err != nil {
			return fmt.Errorf("%s %s fails although nothing is changed: %w: %s", t.path, p.test, err, tail(out))
		}
		p.used = used
		if p.reached, err = readReached(file); err != nil {
			return err
		}
	}
	slices.SortStableFunc(t.parts, func(a, b part) int { return cmp.Compare(a.used, b.used) })
	return nil
}

// readReached reads the numbers that a part has written, and removes the file.
func readReached(file string) (map[int]bool, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	reached := map[int]bool{}
	for _, f := range strings.Fields(string(text)) {
		n, err := strconv.Atoi(f)
		if err != nil {
			return nil, err
		}
		reached[n] = true
	}
	return reached, os.Remove(file)
}

// Try runs the parts that execute a change with that change.
func (t *Program) Try(number int) Verdict {
	var parts []part
	for _, p := range t.parts {
		if p.reached[number] {
			parts = append(parts, p)
		}
	}
	return t.judge(parts, Chosen+"="+strconv.Itoa(number))
}

// slow is the processor time of a test that Quick leaves out.
const slow = time.Second / 2

// Quick leaves the slow tests out.
func (t *Program) Quick() {
	t.parts = slices.DeleteFunc(t.parts, func(p part) bool { return p.used > slow })
}

// judge runs parts, the cheap ones first and many at a time: most changes are noticed by one of them.
func (t *Program) judge(parts []part, env ...string) Verdict {
	budget := 100 * time.Millisecond
	for len(parts) > 0 {
		n, used := 1, parts[0].used
		for n < len(parts) && used+parts[n].used <= budget {
			used += parts[n].used
			n++
		}
		if _, _, err := t.run(parts[:n], 5*time.Second+5*used, env...); err != nil {
			return Noticed
		}
		parts, budget = parts[n:], 2*budget
	}
	return Survives
}

// TryAlone builds the tests of a package again for a change that has no number, and runs them.
func (t *Program) TryAlone(m Small) (Verdict, error) {
	text, err := os.ReadFile(m.Path)
	if err != nil {
		return Noticed, err
	}
	overlay, remove, err := Overlay(map[string]string{m.Path: m.Apply(string(text))})
	if err != nil {
		return Noticed, err
	}
	defer remove()
	alone := *t
	alone.path = filepath.Join(filepath.Dir(overlay), "mutant.test")
	compile := exec.Command("go", "test", "-c", "-vet=off", "-overlay="+overlay, "-o", alone.path, ".")
	compile.Dir = t.dir
	if compile.Run() != nil {
		return Broken, nil
	}
	return alone.judge(alone.parts), nil
}

// run runs parts together and returns the output and the processor time, which is limited. The
// limit of the elapsed time is large, for programs that wait forever.
func (t *Program) run(parts []part, limit time.Duration, env ...string) ([]byte, time.Duration, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute+10*limit)
	defer cancel()
	limited := fmt.Sprintf(`ulimit -v %d; ulimit -t %d; exec "$0" "$@"`, memory, int(limit.Seconds())+1)
	args := slices.Concat([]string{"-c", limited, t.path}, t.args)
	if parts[0].test != "" {
		var names []string
		for _, p := range parts {
			names = append(names, p.test)
		}
		args = append(args, "-test.run=^("+strings.Join(names, "|")+")$")
	}
	cmd := exec.CommandContext(ctx, "/bin/sh", args...)
	cmd.Dir = t.dir
	cmd.Env = append(Environ(), env...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		return out, 0, err
	}
	return out, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), err
}

// build compiles a program with the changes of packages, without those that do not compile.
func build(scratch string, all []*Package, dir string, command ...string) error {
	var out []byte
	for range tries {
		table := map[string]string{}
		for _, p := range all {
			if err := p.Write(scratch, table); err != nil {
				return err
			}
		}
		text, err := json.Marshal(map[string]map[string]string{"Replace": table})
		if err != nil {
			return err
		}
		overlay := filepath.Join(scratch, "overlay.json")
		if err := os.WriteFile(overlay, text, 0o600); err != nil {
			return err
		}
		args := append([]string{command[1], "-overlay=" + overlay}, command[2:]...)
		compile := exec.Command(command[0], args...)
		compile.Dir = dir
		if out, err = compile.CombinedOutput(); err == nil {
			return nil
		}
		dropped := 0
		for _, p := range all {
			dropped += p.Drop(string(out))
		}
		if dropped == 0 {
			break
		}
	}
	return fmt.Errorf("%s does not compile with the changes in it: %s", dir, tail(out))
}

func tail(b []byte) string {
	if len(b) > 4000 {
		b = b[len(b)-4000:]
	}
	return string(b)
}

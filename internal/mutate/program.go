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
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Program is a program with changes in it, and how it is run on one of them.
type Program struct {
	path string
	args []string
	dir  string
	// reached has the numbers of the changes that the program executes; it cannot detect the others.
	reached map[int]bool
	stages  []stage // the quick tests first
}

// stage is one run of a program.
type stage struct {
	flags []string
	limit time.Duration // of processor time: another program that keeps the machine busy must not count
}

// memory is how much address space a program may take, in KiB: a change can make it take all there is.
const memory = 6 << 20

// patience is how long a program runs that nothing is known about.
const patience = 10 * time.Minute

// tries bounds how often a program is built: each time without the changes that did not compile.
const tries = 12

// NewTests builds the tests of a package, with all changes that compile together, and
// runs those that match a regular expression, or all, with no change.
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
	if match != "" {
		t.stages = []stage{{flags: []string{"-test.run=" + match}}}
	} else if err := t.order(); err != nil {
		return nil, err
	}
	return t, t.calm(scratch, name)
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
	s.stages = []stage{{}}
	return s, s.calm(scratch, "simulate")
}

// calm runs each stage without a change, which must pass, and measures the executed changes and
// the duration.
func (t *Program) calm(scratch, name string) error {
	reached := filepath.Join(scratch, name+".reached")
	for i := range t.stages {
		s := &t.stages[i]
		s.limit = patience
		out, used, err := t.run(*s, Reached+"="+reached)
		if err != nil {
			return fmt.Errorf("%s fails although nothing is changed: %w: %s", name, err, tail(out))
		}
		s.limit = 5*time.Second + 5*used
	}
	text, err := os.ReadFile(reached)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	t.reached = map[int]bool{}
	for _, f := range strings.Fields(string(text)) {
		n, err := strconv.Atoi(f)
		if err != nil {
			return err
		}
		t.reached[n] = true
	}
	return nil
}

// Try runs the program with one change.
func (t *Program) Try(number int) Verdict {
	if !t.reached[number] {
		return Survives
	}
	return t.judge(Chosen + "=" + strconv.Itoa(number))
}

// Quick leaves the slow tests out.
func (t *Program) Quick() { t.stages = t.stages[:1] }

func (t *Program) judge(env ...string) Verdict {
	for _, s := range t.stages {
		if _, _, err := t.run(s, env...); err != nil {
			return Noticed
		}
	}
	return Survives
}

var took = regexp.MustCompile(`(?m)^--- PASS: (\w+) \(([0-9.]+)s\)`)

// slowest is the number of tests that run separately after the others.
const slowest = 5

// order has the quick tests run first: most changes are noticed by one of them.
func (t *Program) order() error {
	out, _, err := t.run(stage{[]string{"-test.v"}, patience})
	if err != nil {
		return fmt.Errorf("%s fails although nothing is changed: %w: %s", t.path, err, tail(out))
	}
	type timed struct {
		name    string
		seconds float64
	}
	var list []timed
	for _, m := range took.FindAllStringSubmatch(string(out), -1) {
		if s, err := strconv.ParseFloat(m[2], 64); err == nil && s >= 0.02 {
			list = append(list, timed{m[1], s})
		}
	}
	slices.SortFunc(list, func(a, b timed) int { return cmp.Compare(b.seconds, a.seconds) })
	list = list[:min(slowest, len(list))]
	if len(list) == 0 {
		t.stages = []stage{{}}
		return nil
	}
	var names []string
	for _, x := range list {
		names = append(names, x.name)
	}
	slow := "^(" + strings.Join(names, "|") + ")$"
	t.stages = []stage{{flags: []string{"-test.skip=" + slow}}, {flags: []string{"-test.run=" + slow}}}
	return nil
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
	return alone.judge(), nil
}

// run runs a stage and returns its output and its processor time. The limit of the elapsed time is
// large, for programs that wait forever.
func (t *Program) run(s stage, env ...string) ([]byte, time.Duration, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute+10*s.limit)
	defer cancel()
	limited := fmt.Sprintf(`ulimit -v %d; ulimit -t %d; exec "$0" "$@"`, memory, int(s.limit.Seconds())+1)
	cmd := exec.CommandContext(ctx, "/bin/sh", slices.Concat([]string{"-c", limited, t.path}, s.flags, t.args)...)
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

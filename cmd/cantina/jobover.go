package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"cantina/api"
	"cantina/batch"
	"cantina/internal/text"
	"cantina/spec"
)

// maxOver limits the values of --over that are sent one by one.
const maxOver = 500_000

// over is the input of job run: the values that become nodes, in order.
type over struct {
	values []string
	// numbers, instead of values, are FIRST, LAST and STEP of a range.
	numbers *[3]int
	// repeated counts further occurrences of a value.
	repeated int
}

// rangeForm is FIRST-LAST or FIRST-LAST:STEP.
var rangeForm = regexp.MustCompile(`^(\d{1,18})-(\d{1,18})(?::(\d{1,18}))?$`)

// readOver reads --over: standard input, a range, a pattern of files, or a file with one value per line.
func readOver(c *cli, arg string) (over, error) {
	if m := rangeForm.FindStringSubmatch(arg); m != nil {
		return rangeValues(arg, m[1], m[2], m[3])
	}
	if arg == "-" {
		return readValues("standard input", c.In)
	}
	if _, err := os.Stat(arg); errors.Is(err, fs.ErrNotExist) && strings.ContainsAny(arg, "*?[") {
		return globValues(arg)
	}
	f, err := os.Open(arg)
	if err != nil {
		return over{}, failf(api.ExitUsage, "--over: %v; it must be a file with one value per line, a pattern like "+
			"'data/*.csv', a range "+
			"like 1-100 or 0-100:5, or - for standard input", err)
	}
	defer f.Close()
	return readValues(arg, f)
}

func rangeValues(arg, a, b, s string) (over, error) {
	first, last, step := atoi(a), atoi(b), 1
	if s != "" {
		step = atoi(s)
	}
	for _, n := range []string{a, b} {
		if len(n) > 1 && n[0] == '0' {
			return over{}, failf(api.ExitUsage, "--over %s: numbers of a range have no leading zeros; use a file of "+
				"values: seq -w %s %d %s | cantina job run --over - ...",
				arg, a, step, b)
		}
	}
	switch {
	case step == 0:
		return over{}, failf(api.ExitUsage, "--over %s: the step must be at least 1", arg)
	case last < first:
		return over{}, failf(api.ExitUsage, "--over %s: the first number must not be above the last", arg)
	case last > math.MaxInt32 || step > math.MaxInt32 || (last-first)/step >= batch.MaxNodes:
		return over{}, failf(api.ExitUsage, "--over %s: more than %d values, or numbers over %d", arg,
			batch.MaxNodes, math.MaxInt32)
	}
	return over{numbers: &[3]int{first, last, step}}, nil
}

// source is the source of the nodes in a spec file.
func (o *over) source() map[string]any {
	if o.numbers == nil {
		return map[string]any{"manual": o.values}
	}
	return map[string]any{"range": map[string]int{"first": o.numbers[0], "last": o.numbers[1], "step": o.numbers[2]}}
}

// atoi reads digits that rangeForm has checked.
func atoi(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}

// globValues are the absolute names of the files that match: the program runs in another directory.
func globValues(pattern string) (over, error) {
	names, err := filepath.Glob(pattern)
	if err != nil {
		return over{}, failf(api.ExitUsage, "--over %q: %v", pattern, err)
	}
	if len(names) == 0 {
		return over{}, failf(api.ExitUsage, "--over %q: no file matches", pattern)
	}
	for i, name := range names {
		full, err := filepath.Abs(name)
		if err != nil {
			return over{}, failf(api.ExitFailed, "working directory: %v", err)
		}
		if err := batch.CheckName(full); err != nil {
			return over{}, failf(api.ExitUsage, "--over: file %q: %v", name, err)
		}
		names[i] = full
	}
	if len(names) > maxOver {
		return over{}, failf(api.ExitUsage, "--over %q: more than %d files", pattern, maxOver)
	}
	return over{values: names}, nil
}

// readValues reads one value per line. Empty lines are left out, and a value that occurs twice counts once.
func readValues(name string, r io.Reader) (over, error) {
	content, err := readLimited(r)
	switch {
	case err != nil:
		return over{}, failf(api.ExitUsage, "--over: %s: %v", name, err)
	case len(content) > spec.MaxSize:
		return over{}, failf(api.ExitUsage, "--over: %s: larger than %s; use a job in a spec file", name,
			spec.FormatSize(spec.MaxSize))
	}
	var o over
	seen := map[string]bool{}
	number := 0
	for l := range bytes.Lines(content) {
		number++
		v := strings.TrimRight(string(l), "\r\n")
		switch {
		case v == "":
			continue
		case seen[v]:
			o.repeated++
			continue
		}
		if err := batch.CheckName(v); err != nil {
			return over{}, failf(api.ExitUsage, "--over: %s:%d: %s", name, number, strings.TrimSuffix(err.Error(),
				": "+batch.ErrNodes.Error()))
		}
		if len(o.values) == maxOver {
			return over{}, failf(api.ExitUsage, "--over: %s:%d: more than %d values", name, number, maxOver)
		}
		seen[v] = true
		o.values = append(o.values, v)
	}
	return o, nil
}

// withValue returns the command with "{}": at its end, unless it is in one of the arguments. A
// value must not become program text of a shell.
func withValue(args []string) ([]string, error) {
	has := func(s string) bool { return strings.Contains(s, "{}") || strings.Contains(s, "{/}") }
	if i := shellText(args); i >= 0 && has(args[i]) {
		fixed := strings.NewReplacer("{}", `"$1"`, "{/}", `"$(basename "$1")"`).Replace(args[i])
		return nil, failf(api.ExitUsage, "{} in program text of %s would run a value as a command; use: %s -c %s %s {}",
			args[0], args[0], quoted(fixed), filepath.Base(args[0]))
	}
	if slices.ContainsFunc(args, has) {
		return args, nil
	}
	return append(slices.Clone(args), "{}"), nil
}

// shells are the programs whose argument after -c is program text.
func shells() []string { return []string{"sh", "bash", "dash", "zsh", "ksh", "ash"} }

// shellText is the index of the argument that is program text of a shell; -1 = none.
func shellText(args []string) int {
	if !slices.Contains(shells(), filepath.Base(args[0])) {
		return -1
	}
	for i, a := range args[1:] {
		switch {
		case !strings.HasPrefix(a, "-"):
			return -1
		case !strings.HasPrefix(a, "--") && strings.Contains(a, "c") && i+2 < len(args):
			return i + 2
		}
	}
	return -1
}

// quoted is a text as one word of a shell.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// noteOver prints what is remarkable about the values.
func noteOver(c *cli, o over) {
	if o.repeated > 0 {
		c.notef("--over: %s left out: a value that occurs again runs once\n", text.Count(o.repeated, "line"))
	}
}

// overName is a name for a job that runs a program.
func overName(args []string) string {
	base := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return -1
	}, filepath.Base(args[0]))
	base = strings.TrimLeft(base, "-")
	if len(base) > 40 {
		base = base[:40]
	}
	if base == "" {
		base = "run"
	}
	return fmt.Sprintf("%s-%s", base, strings.ToLower(newKey()[:8]))
}

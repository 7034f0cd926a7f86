package batch

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"cantina/placement"
)

// ErrNodes reports nodes that cannot be put into the forest.
var ErrNodes = errors.New("bad nodes")

// MaxName is the longest name of a node or a job, in bytes.
const MaxName = 4096

// NodeSpec is one node as a source gives it. The parent is a node of the level
// above; an empty parent is the instance node.
type NodeSpec struct {
	Name     string
	Level    string
	Parent   string
	Disabled bool
	Tags     []string
}

// ManualNodes converts the entries of a manual source to nodes: names that are no child of another
// are below the instance node at the first level, and so on down. A child listed under two parents
// is a replica. It returns ErrNodes if every
// name is a child, a name is listed twice, or the nesting is
// deeper than the levels (Bistro node fetchers, manual).
func ManualNodes(levels []string, entries []ManualNode) ([]NodeSpec, error) {
	byName, child, err := index(entries)
	if err != nil {
		return nil, err
	}
	if len(entries) == 0 {
		return nil, nil
	}
	var roots []string
	for i := range entries {
		if !child[entries[i].Name] {
			roots = append(roots, entries[i].Name)
		}
	}
	if len(roots) == 0 {
		return nil, fmt.Errorf("each node is a child of another one: %w", ErrNodes)
	}
	var out []NodeSpec
	type open struct {
		name, parent string
		level        int
	}
	var stack []open
	push := func(names []string, parent string, level int) {
		for _, n := range slices.Backward(names) {
			stack = append(stack, open{n, parent, level})
		}
	}
	push(roots, "", 0)
	for len(stack) > 0 {
		o := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if o.level >= len(levels) {
			return nil, fmt.Errorf("node %q below %q is deeper than the %d levels: %w", o.name, o.parent, len(levels), ErrNodes)
		}
		n := NodeSpec{Name: o.name, Level: levels[o.level], Parent: o.parent}
		if e := byName[o.name]; e != nil {
			n.Disabled, n.Tags = e.Disabled, e.Tags
			push(e.Children, o.name, o.level+1)
		}
		out = append(out, n)
	}
	return out, nil
}

// index returns the entries by name and the names that are children of others.
func index(entries []ManualNode) (byName map[string]*ManualNode, child map[string]bool, err error) {
	byName, child = make(map[string]*ManualNode, len(entries)), make(map[string]bool)
	for i := range entries {
		e := &entries[i]
		if byName[e.Name] != nil {
			return nil, nil, fmt.Errorf("duplicate node %q: %w", e.Name, ErrNodes)
		}
		byName[e.Name] = e
		mine := make(map[string]bool, len(e.Children))
		for _, c := range e.Children {
			if mine[c] {
				return nil, nil, fmt.Errorf("duplicate node %q below %q: %w", c, e.Name, ErrNodes)
			}
			mine[c], child[c] = true, true
		}
	}
	return byName, child, nil
}

// Repeated returns the first name that a script printed twice for one parent, and false if there
// is none: ScriptNodes counts it once, and its owner should get a warning.
func Repeated(output []byte) (name string, found bool) {
	seen := make(map[string]bool)
	for line := range strings.Lines(string(output)) {
		if line = strings.TrimRight(line, "\r\n"); seen[line] {
			return line, true
		}
		seen[line] = line != ""
	}
	return "", false
}

// ScriptNodes converts a script's output for one parent to nodes: every line is a node of the
// level below the parent's. Empty lines and a trailing carriage return are dropped, a name twice
// counts once. It returns ErrNodes for a line that is no name (not UTF-8, a NUL byte, too long),
// with its number.
func ScriptNodes(levels []string, parentLevel, parent string, output []byte) ([]NodeSpec, error) {
	level, err := below(levels, parentLevel)
	if err != nil {
		return nil, err
	}
	var out []NodeSpec
	seen := make(map[string]bool)
	number := 0
	for line := range strings.Lines(string(output)) {
		number++
		line = strings.TrimRight(line, "\r\n")
		if line == "" || seen[line] {
			continue
		}
		if err := CheckName(line); err != nil {
			return nil, fmt.Errorf("line %d for %q: %w", number, parent, err)
		}
		seen[line] = true
		out = append(out, NodeSpec{Name: line, Level: level, Parent: parent})
	}
	return out, nil
}

// below returns the level under another; the instance level is above the first.
func below(levels []string, level string) (string, error) {
	i := slices.Index(levels, level)
	if i < 0 && level != LevelInstance && level != "" {
		return "", fmt.Errorf("unknown level %q: %w", level, ErrNodes)
	}
	if i+1 >= len(levels) {
		return "", fmt.Errorf("no level below %q: %w", level, ErrNodes)
	}
	return levels[i+1], nil
}

// CheckName returns ErrNodes for a text that is no name.
func CheckName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("empty name: %w", ErrNodes)
	case len(name) > MaxName:
		return fmt.Errorf("name of %d bytes, at most %d: %w", len(name), MaxName, ErrNodes)
	case !utf8.ValidString(name):
		return fmt.Errorf("name is not UTF-8: %w", ErrNodes)
	case strings.ContainsRune(name, 0):
		return fmt.Errorf("name has a NUL byte at %d: %w", strings.IndexByte(name, 0), ErrNodes)
	}
	return nil
}

// CheckForest returns ErrNodes for levels or limits that cannot be.
func CheckForest(s *ForestSpec) error {
	seen := map[string]bool{LevelInstance: true, LevelWorker: true}
	for _, l := range s.Levels {
		if l == "" || seen[l] {
			return fmt.Errorf("level %q is empty, reserved or duplicate: %w", l, ErrNodes)
		}
		seen[l] = true
	}
	if len(s.Levels) > maxLevels {
		return fmt.Errorf("%d levels, at most %d: %w", len(s.Levels), maxLevels, ErrNodes)
	}
	for level, byName := range s.Limits {
		if !seen[level] {
			return fmt.Errorf("limits of unknown level %q: %w", level, ErrNodes)
		}
		for name, l := range byName {
			if l.Default < 0 || l.Limit < 0 || l.Weight < 0 {
				return fmt.Errorf("level %q, resource %q: a negative amount: %w", level, name, ErrNodes)
			}
			if l.Weight > placement.MaxWeight {
				return fmt.Errorf("level %q, resource %q: weight %d, at most %d: %w", level, name, l.Weight, placement.MaxWeight,
					ErrNodes)
			}
		}
	}
	for i, src := range s.Sources {
		if err := src.Check(s.Levels); err != nil {
			return fmt.Errorf("source %d: %w", i, err)
		}
	}
	return nil
}

// Check returns ErrNodes for a source that cannot be.
func (s *Source) Check(levels []string) (err error) {
	switch s.Kind {
	case SourceManual, SourceEmpty:
	case SourceScript:
		if len(s.Script) == 0 {
			return fmt.Errorf("no script: %w", ErrNodes)
		}
		_, err = below(levels, s.ParentLevel)
	case SourceRange:
		if _, err = below(levels, s.ParentLevel); err == nil {
			err = s.checkRange(1)
		}
	case SourceTime:
		if _, err = below(levels, s.ParentLevel); err == nil {
			err = s.checkTimes()
		}
	case SourceFile:
		if s.File == "" {
			return fmt.Errorf("no file: %w", ErrNodes)
		}
	}
	return err
}

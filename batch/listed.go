package batch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// MaxNodes bounds the nodes of one forest.
const MaxNodes = 10_000_000

// RangeFormat is the default name of a node of a range: its number alone below the instance node,
// else Bistro's.
func RangeFormat(parentLevel string) string {
	if parentLevel == LevelInstance || parentLevel == "" {
		return "{i}"
	}
	return "{parent}__{i}"
}

// size is the number of nodes of a range below one parent.
func (s *Source) size() int {
	step := max(s.Step, 1)
	if s.Last < s.First {
		return 0
	}
	return (s.Last-s.First)/step + 1
}

// checkRange returns ErrNodes for a range that cannot be below so many parents.
func (s *Source) checkRange(parents int) error {
	n := s.size()
	switch {
	case s.Step < 0:
		return fmt.Errorf("step %d is below 0: %w", s.Step, ErrNodes)
	case n > MaxNodes || n < 0:
		return fmt.Errorf("range %d to %d: more than %d nodes: %w", s.First, s.Last, MaxNodes, ErrNodes)
	case n*parents > MaxNodes:
		return fmt.Errorf("%d numbers below %d parents: more than %d nodes: %w", n, parents, MaxNodes, ErrNodes)
	case !strings.Contains(s.Format, "{i}") && n > 1:
		return fmt.Errorf("format %q: no {i}: %w", s.Format, ErrNodes)
	}
	return nil
}

// RangeNodes returns the numbered nodes of a range below each parent (Bistro node fetchers,
// range_label). In the format, {parent}, {i}, {start} and {end} are replaced. It returns ErrNodes
// for too many nodes, or a name that cannot be.
func RangeNodes(levels []string, s *Source, parents []string) ([]NodeSpec, error) {
	level, err := below(levels, s.ParentLevel)
	if err == nil {
		err = s.checkRange(len(parents))
	}
	if err != nil {
		return nil, err
	}
	var out []NodeSpec
	for _, parent := range parents {
		up := parent
		if s.ParentLevel == LevelInstance || s.ParentLevel == "" {
			up = ""
		}
		for k := range s.size() {
			i := s.First + k*max(s.Step, 1)
			name := strings.NewReplacer("{parent}", parent, "{i}", strconv.Itoa(i), "{start}", strconv.Itoa(s.First),
				"{end}", strconv.Itoa(s.Last)).Replace(s.Format)
			if err := CheckName(name); err != nil {
				return nil, fmt.Errorf("number %d below %q: %w", i, parent, err)
			}
			out = append(out, NodeSpec{Name: name, Level: level, Parent: up, Disabled: s.Disabled})
		}
	}
	return out, nil
}

// FileNodes converts the content of a file to nodes. A file whose name ends with .json has the
// forms of a manual source: a list of names or nodes, or an object of names and their children.
// Another one has a node of the first level on each line; empty lines are left out, and a name
// twice counts once. The note is a remark on a file that is accepted. It returns ErrNodes with the
// place of the error.
func FileNodes(levels []string, name string, content []byte) (nodes []NodeSpec, note string, err error) {
	if strings.HasSuffix(name, ".json") {
		entries, err := fileEntries(content)
		if err != nil {
			return nil, "", err
		}
		nodes, err = ManualNodes(levels, entries)
		return nodes, "", err
	}
	if len(levels) == 0 {
		return nil, "", fmt.Errorf("no level below %q: %w", LevelInstance, ErrNodes)
	}
	first := make(map[string]int, bytes.Count(content, []byte("\n")))
	number, repeated := 0, 0
	for l := range bytes.Lines(content) {
		number++
		line := strings.TrimRight(string(l), "\r\n")
		if line == "" {
			continue
		}
		if err := CheckName(line); err != nil {
			return nil, "", fmt.Errorf("line %d: %w", number, err)
		}
		if at := first[line]; at > 0 {
			if repeated++; note == "" {
				note = fmt.Sprintf("line %d repeats node %q of line %d", number, line, at)
			}
			continue
		}
		first[line] = number
		nodes = append(nodes, NodeSpec{Name: line, Level: levels[0]})
	}
	if repeated > 1 {
		note += fmt.Sprintf("; %d repeated lines count once", repeated)
	}
	return nodes, note, nil
}

// fileNode is one node of a file of nodes.
type fileNode struct {
	Name     string   `json:"name"`
	Children []string `json:"children"`
	Tags     []string `json:"tags"`
	Enabled  *bool    `json:"enabled"`
}

// UnmarshalJSON reads a name alone, or a node.
func (n *fileNode) UnmarshalJSON(b []byte) error {
	if b[0] == '"' {
		return json.Unmarshal(b, &n.Name)
	}
	type plain fileNode
	return strict(b, (*plain)(n))
}

// strict reads one value, and refuses unknown fields.
func strict(b []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return err
	}
	if len(bytes.TrimSpace(b[d.InputOffset():])) > 0 {
		return errors.New("more than one value")
	}
	return nil
}

func fileEntries(content []byte) ([]ManualNode, error) {
	var list []fileNode
	if bytes.HasPrefix(bytes.TrimSpace(content), []byte("{")) {
		var byName map[string][]string
		if err := strict(content, &byName); err != nil {
			return nil, badJSON(content, err)
		}
		for _, name := range slices.Sorted(maps.Keys(byName)) {
			list = append(list, fileNode{Name: name, Children: byName[name]})
		}
	} else if err := strict(content, &list); err != nil {
		return nil, badJSON(content, err)
	}
	var out []ManualNode
	for i, n := range list {
		for _, name := range append([]string{n.Name}, n.Children...) {
			if err := CheckName(name); err != nil {
				return nil, fmt.Errorf("node %d: %w", i, err)
			}
		}
		out = append(out, ManualNode{Name: n.Name, Children: n.Children, Tags: n.Tags,
			Disabled: n.Enabled != nil && !*n.Enabled})
	}
	return out, nil
}

// badJSON is an error of the reader of JSON, with its line.
func badJSON(content []byte, err error) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Errorf("line %d: %v: %w", 1+bytes.Count(content[:syntax.Offset], []byte("\n")), err, ErrNodes)
	}
	return fmt.Errorf("%v: %w", err, ErrNodes)
}

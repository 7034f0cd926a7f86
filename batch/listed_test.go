package batch

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// namesOf prints nodes as level:parent>name, with ! for disabled ones.
func namesOf(nodes []NodeSpec) string {
	var out []string
	for _, n := range nodes {
		s := n.Name
		if n.Parent != "" {
			s = n.Parent + ">" + s
		}
		if n.Disabled {
			s += "!"
		}
		out = append(out, n.Level+":"+s+strings.Join(n.Tags, ","))
	}
	return strings.Join(out, " ")
}

// TestRangeLabel: Bistro node fetchers, range_label.
func TestRangeLabel(t *testing.T) {
	levels := []string{"host", "db"}
	for _, c := range []struct {
		name    string
		s       Source
		parents []string
		want    string
	}{
		{"both ends", Source{ParentLevel: "host", First: 1, Last: 3, Format: RangeFormat("host")}, []string{"a"},
			"db:a>a__1 db:a>a__2 db:a>a__3"},
		{"below the root", Source{ParentLevel: LevelInstance, First: 7, Last: 7,
			Format: RangeFormat(LevelInstance)}, []string{"j"}, "host:7"},
		{"the root by its name", Source{ParentLevel: LevelInstance, First: 7, Last: 7, Format: "{parent}-{i}"},
			[]string{"j"}, "host:j-7"},
		{"each parent", Source{ParentLevel: "host", First: 0, Last: 1, Format: "{parent}{i}"}, []string{"a", "b"},
			"db:a>a0 db:a>a1 db:b>b0 db:b>b1"},
		{"step", Source{ParentLevel: LevelInstance, First: 1, Last: 8, Step: 3, Format: "{i}"}, []string{"j"},
			"host:1 host:4 host:7"},
		{"the end before the start", Source{ParentLevel: "host", First: 2, Last: 1, Format: "{i}"}, []string{"a"}, ""},
		{"below zero", Source{ParentLevel: LevelInstance, First: -1, Last: 1, Format: "{i}"}, []string{"j"},
			"host:-1 host:0 host:1"},
		{"all of the format", Source{ParentLevel: "host", First: 4, Last: 5, Format: "{start}-{end}/{i}@{parent}"},
			[]string{"a"}, "db:a>4-5/4@a db:a>4-5/5@a"},
		{"disabled", Source{ParentLevel: "host", First: 1, Last: 1, Format: "{i}", Disabled: true}, []string{"a"},
			"db:a>1!"},
		{"the end before the start, by a step", Source{ParentLevel: "host", First: 2, Last: 1, Step: 3, Format: "{i}"},
			[]string{"a"}, ""},
		{"the end far before the start", Source{ParentLevel: "host", First: 9, Format: "{i}"}, []string{"a"}, ""},
		{"one node has any name", Source{ParentLevel: "host", First: 7, Last: 7, Format: "x"}, []string{"a"}, "db:a>x"},
		{"without parents", Source{ParentLevel: "host", First: 1, Last: 9, Format: "{i}"}, nil, ""},
	} {
		got, err := RangeNodes(levels, &c.s, c.parents)
		if err != nil || namesOf(got) != c.want {
			t.Errorf("%s: %q, %v", c.name, namesOf(got), err)
		}
		c.s.Kind = SourceRange
		if err := CheckForest(&ForestSpec{Levels: levels, Sources: []Source{c.s}}); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	for _, c := range []struct {
		s    Source
		says string
	}{
		{Source{ParentLevel: "x", Format: "{i}"}, "unknown level"},
		{Source{ParentLevel: "db", Format: "{i}"}, "no level below"},
		{Source{ParentLevel: "host", Last: 1, Format: "x"}, "no {i}"},
		{Source{ParentLevel: "host", Step: -1, Format: "{i}"}, "below 0"},
		{Source{ParentLevel: "host", Last: MaxNodes, Format: "{i}"}, "more than 10000000"},
		{Source{ParentLevel: "host", First: -1 << 62, Last: 1 << 62, Format: "{i}"}, "more than 10000000"},
	} {
		c.s.Kind = SourceRange
		_, err := RangeNodes(levels, &c.s, []string{"a"})
		checked := CheckForest(&ForestSpec{Levels: levels, Sources: []Source{c.s}})
		for _, err := range []error{err, checked} {
			if !errors.Is(err, ErrNodes) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v", c.says, err)
			}
		}
	}
	half := Source{ParentLevel: "host", Last: MaxNodes/2 + 1, Format: "{i}"}
	if _, err := RangeNodes(levels, &half, []string{"a", "b"}); !errors.Is(err, ErrNodes) {
		t.Error("the nodes of all parents are bounded, too:", err)
	}
	long := Source{ParentLevel: "host", Last: 1, Format: "{i}{parent}"}
	if _, err := RangeNodes(levels, &long, []string{strings.Repeat("x", MaxName)}); !errors.Is(err, ErrNodes) {
		t.Error(err)
	}
	if err := CheckForest(&ForestSpec{Levels: levels, Sources: []Source{{Kind: SourceFile}}}); !errors.Is(err,
		ErrNodes) {
		t.Error(err)
	}
}

// TestRangesAreBounded: a range has as many nodes as a forest may have, below all parents together.
func TestRangesAreBounded(t *testing.T) {
	for _, c := range []struct {
		numbers, parents int
		good             bool
	}{{MaxNodes, 0, true}, {MaxNodes, 1, true}, {MaxNodes + 1, 1, false}, {MaxNodes + 1, 0, false}, {MaxNodes, 2, false},
		{MaxNodes / 2, 2, true}, {MaxNodes/2 + 1, 2, false}, {1, MaxNodes, true}, {1, MaxNodes + 1, false},
		{0, MaxNodes + 1, true}} {
		s := Source{First: 1, Last: c.numbers, Format: "{i}"}
		if err := s.checkRange(c.parents); (err == nil) != c.good || err != nil && !errors.Is(err, ErrNodes) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	for parent, want := range map[string]string{"": "{i}", LevelInstance: "{i}", "host": "{parent}__{i}"} {
		if got := RangeFormat(parent); got != want {
			t.Errorf("below %q: %s, want %s", parent, got, want)
		}
	}
}

func TestFileOfNodes(t *testing.T) {
	levels := []string{"host", "db"}
	for _, c := range []struct{ file, content, want, note string }{
		{"n", "a\nb c\r\n\n-\n", "host:a host:b c host:-", ""},
		{"n", "", "", ""},
		{"n", "a\na\n", "host:a", `line 2 repeats node "a" of line 1`},
		{"n", "a\na\na", "host:a", `line 2 repeats node "a" of line 1; 2 repeated lines count once`},
		{"n", "a\nb\na\nb\na", "host:a host:b", `line 3 repeats node "a" of line 1; 3 repeated lines count once`},
		{"n.json", `["b", "a"]`, "host:b host:a", ""},
		{"n.json", `[{"name": "a", "children": ["x"], "tags": ["t"]}, {"name": "x", "enabled": false}]`,
			"host:at db:a>x!", ""},
		{"n.json", `[{"name": "a", "enabled": true}]`, "host:a", ""},
		{"n.json", ` {"b": [], "a": ["x", "y"]}`, "host:a db:a>x db:a>y host:b", ""},
		{"n.json", `[]`, "", ""},
		{"n.jsonl", "[]", "host:[]", ""},
	} {
		got, note, err := FileNodes(levels, c.file, []byte(c.content))
		if err != nil || namesOf(got) != c.want || note != c.note {
			t.Errorf("%s %q: %q, %q, %v", c.file, c.content, namesOf(got), note, err)
		}
	}
	for _, c := range []struct{ file, content, says string }{
		{"n", "a\n\xff\n", "line 2: name is not UTF-8"},
		{"n", "a\n\nb\x00\n", "line 3: name has a NUL byte"},
		{"n", strings.Repeat("x", MaxName+1), "line 1: name of 4097 bytes"},
		{"n.json", "[\"a\",\n\"b\"\n\"c\"]", "line 3: invalid character"},
		{"n.json", "", "EOF"},
		{"n.json", `["a"] ["b"]`, "more than one value"},
		{"n.json", `["a"]7`, "more than one value"},
		{"n.json", `["a"x`, "line 1: invalid character"},
		{"n.json", "{", "EOF"},
		{"n.json", `[{"nmae": "a"}]`, `unknown field "nmae"`},
		{"n.json", `[{"children": ["a"]}]`, "node 0: empty name"},
		{"n.json", `["a", "a"]`, `duplicate node "a"`},
		{"n.json", `{"a": ["x"], "x": ["z"]}`, "deeper than the 2 levels"},
		{"n.json", `{"a": ["b"], "b": ["a"]}`, "child of another one"},
		{"n.json", `{"a": "b"}`, "cannot unmarshal"},
		{"n.json", `7`, "cannot unmarshal"},
	} {
		_, _, err := FileNodes(levels, c.file, []byte(c.content))
		if !errors.Is(err, ErrNodes) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s %q: %v", c.file, c.content, err)
		}
	}
	if _, _, err := FileNodes(nil, "n", []byte("a")); !errors.Is(err, ErrNodes) {
		t.Error(err)
	}
}

// TestAMillionLines: a large file with repeated lines.
func TestAMillionLines(t *testing.T) {
	var b strings.Builder
	for i := range 1_000_000 {
		fmt.Fprintf(&b, "node-%d\n", i%900_000)
	}
	got, note, err := FileNodes([]string{"n"}, "n", []byte(b.String()))
	if err != nil || len(got) != 900_000 || !strings.HasSuffix(note, "100000 repeated lines count once") {
		t.Errorf("%d, %q, %v", len(got), note, err)
	}
	if got[0].Name != "node-0" || !slices.IsSortedFunc(got[:10],
		func(a, b NodeSpec) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error(got[:10])
	}
}

package spec

import (
	"fmt"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"
)

// built counts the values that the reader builds.
func built(n *yaml.Node) int {
	sum := 1
	for _, c := range n.Content {
		sum += built(c)
	}
	return sum
}

// TestNoTextHasMoreValuesThanAreCounted: for any text, also one made to mislead the count, the reader builds no
// more values than were counted (but for the document itself).
func TestNoTextHasMoreValuesThanAreCounted(t *testing.T) {
	pieces := []string{"a", "k: ", "- ", "- - ", "|", ">-", "|2", " ", "  ", "\n", "\n  ", "\n    ", "[", "]", "{", "}",
		", ", ",", ": ", "\"", "'", "\\", "#", " # x: |", "? ", "&a ", "*a", "!!str ", "b: |\n", "---\n", "\"x\": ", "\t",
		"...\n", "%"}
	read := 0
	rapid.Check(t, func(rt *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 1, 30).Draw(rt, "pieces"), "")
		var doc yaml.Node
		if safely(func() error { return yaml.Unmarshal([]byte(text), &doc) }) != nil || len(doc.Content) == 0 {
			return
		}
		read++
		if n, counted := built(&doc)-1, CountValues([]byte(text)); n > counted {
			rt.Fatalf("%d values, %d counted:\n%s", n, counted, text)
		}
	})
	if read == 0 {
		t.Error("nothing was read")
	}
	for _, text := range []string{"- - |\n  - a\n  - a\n  - a", "- k: |\n  l: 1\n  m: 2", "- # x: |\n  a: 1\n  b: 2",
		"[ \"x: |\n  y\", a, a, a]", "[ \"\n# \", a, a, a]", "- \"\\\"\n k: |\n  \"\n- a", "a: 'x\n k: |\n   y'\nb: 1",
		"a: |\n  x\nb: [1,2,3]", "a: >\n x\n\n y\nb: c", "? |\n a\n: b", "a: b |\n", "-\n |\n x\n- y"} {
		var doc yaml.Node
		if err := yaml.Unmarshal([]byte(text), &doc); err == nil && built(&doc)-1 > CountValues([]byte(text)) {
			t.Errorf("%d values, %d counted:\n%s", built(&doc)-1, CountValues([]byte(text)), text)
		}
	}
}

// TestTooManyValues: they are refused before they are built; a long script is one value.
func TestTooManyValues(t *testing.T) {
	for name, text := range map[string]string{
		"flow":  "domain: [" + strings.Repeat("a,", 2*MaxValues) + "a]\n",
		"lines": "domain:\n" + strings.Repeat("- a\n", MaxValues),
		"keys":  strings.Repeat("k: 1\n", MaxValues),
		"map":   "domain: {" + strings.Repeat("a: 1, ", MaxValues) + "}",
	} {
		got := testing.AllocsPerRun(1, func() {
			_, err := Parse("f", "", []byte(text), testTimes())
			if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("at most %d", MaxValues)) {
				t.Errorf("%s: %v", name, err)
			}
		})
		// Each value that is built takes several. Under the race detector there is one for some of the
		// lines that are counted.
		most := 1000.0
		if raceDetector {
			most = MaxValues / 2
		}
		if got > most {
			t.Errorf("%s: %v allocations before it was refused", name, got)
		}
	}
	script := "tasks:\n  t:\n    command: |\n" + strings.Repeat("      a, b: c - d\n", MaxValues)
	if n := CountValues([]byte(script)); n > 100 {
		t.Errorf("a script counts as %d values", n)
	}
}

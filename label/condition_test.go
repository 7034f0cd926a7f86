package label

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestConditions(t *testing.T) {
	type cell = map[string]string
	for _, x := range []struct {
		text, canonical string
		yes, no         []cell
	}{
		{"disk=ssd", "disk = ssd", []cell{{"disk": "ssd"}}, []cell{{"disk": "hdd"}, {}}},
		{"disk == ssd", "disk = ssd", []cell{{"disk": "ssd"}}, []cell{{}}},
		{" disk != hdd ", "disk != hdd", []cell{{"disk": "ssd"}, {}}, []cell{{"disk": "hdd"}}},
		{"rack in(b,a)", "rack in (a, b)", []cell{{"rack": "a"}, {"rack": "b"}}, []cell{{"rack": "c"}, {}}},
		{"rack not in (a, b)", "rack not in (a, b)", []cell{{"rack": "c"}, {}}, []cell{{"rack": "a"}}},
		{"gpu exists", "gpu exists", []cell{{"gpu": ""}}, []cell{{}}},
		{"gpu not exists", "gpu not exists", []cell{{}}, []cell{{"gpu": "x"}}},
		{"k version >= 5.10, <7", "k version >= 5.10, < 7", []cell{{"k": "5.10"}, {"k": "6.1.0-8-amd64"}, {"k": "v5.11"}},
			[]cell{{"k": "5.9.99"}, {"k": "7"}, {"k": "7.0"}, {"k": "new"}, {}}},
		{"k version = 1.2", "k version = 1.2",
			[]cell{{"k": "1.2.0"}, {"k": "1.2-rc1"}}, []cell{{"k": "1.2.1"}, {"k": "1.20"}}},
		{"k version>1, <= 2", "k version > 1, <= 2", []cell{{"k": "2"}, {"k": "1.0.1"}}, []cell{{"k": "1"}, {"k": "2.0.1"}}},
	} {
		c, err := Parse(x.text)
		if err != nil {
			t.Fatal(err)
		}
		if c.String() != x.canonical {
			t.Errorf("%q is written %q, want %q", x.text, c.String(), x.canonical)
		}
		for i, cells := range [][]cell{x.no, x.yes} {
			for _, labels := range cells {
				v, has := labels[c.Name]
				if c.Holds(v, has) != (i == 1) {
					t.Errorf("%q on %v: %v", x.text, labels, i == 0)
				}
			}
		}
	}
}

func TestWhatIsNoCondition(t *testing.T) {
	for text, problem := range map[string]string{
		"": "no name", "= ssd": "no name", "disk": "no comparison", "disk =": "no value", "disk ssd": "no comparison",
		"rack in a": "parentheses", "rack in ()": "parentheses", "rack in (a,)": "parentheses",
		"gpu exists now": "no comparison",
		"k version 5":    "bounds", "k version >= new": "bounds", "k version >= 5.": "bounds", "k version ~ 5": "bounds",
		"cell = a": "cell is no label", "not gpu exists": "no comparison", "a not = b": "no comparison",
		"k version >= 5-rc":    "bounds",
		"disk not version = 1": "no comparison",
	} {
		if _, err := Parse(text); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), problem) {
			t.Errorf("%q: %v, want %q", text, err, problem)
		}
	}
	if err := CheckName("a b"); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
}

// TestEveryConditionIsReadAsItIsWritten: the canonical text is stable.
func TestEveryConditionIsReadAsItIsWritten(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.StringMatching(
			`[a-c./-]{1,3} ?(=|!=|in|not in|exists|not exists|version|) ?[(a-c,<=> 0-9.v)]{0,8}`,
		).Draw(rt, "text")
		c, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse(c.String())
		if err != nil || again.String() != c.String() || !slices.Equal(again.Values, c.Values) ||
			!slices.Equal(again.Bounds, c.Bounds) {
			rt.Fatalf("%q is written %q and read as %q: %v", text, c.String(), again.String(), err)
		}
	})
}

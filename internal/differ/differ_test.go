package differ

import (
	"fmt"
	"strings"
	"testing"
)

// TestDifferUsesNames: an item with a name is shown by its name, at any depth.
func TestDifferUsesNames(t *testing.T) {
	type variable struct{ Name, Value string }
	type port struct {
		Name  string
		Fixed int
	}
	type step struct{ Path string }
	type all struct {
		Env   []variable
		Ports []port
		Steps []step
	}
	for name, c := range map[string]struct {
		was, is all
		want    string
	}{
		"a value": {all{Env: []variable{{"A", "1"}, {"B", "1"}}}, all{Env: []variable{{"A", "1"}, {"B", "2"}}},
			"env[B].value: 1 -> 2"},
		"one more in front": {all{Env: []variable{{"B", "1"}}}, all{Env: []variable{{"A", "1"}, {"B", "1"}}},
			"env[A]:  -> {name: A, value: 1}"},
		"one less and a change": {all{Ports: []port{{"a", 1}, {"b", 2}}}, all{Ports: []port{{"b", 3}}},
			"ports[a]: {name: a, fixed: 1} -> ; ports[b].fixed: 2 -> 3"},
		"another order": {all{Ports: []port{{"a", 1}, {"b", 1}}}, all{Ports: []port{{"b", 1}, {"a", 1}}},
			"ports[0].name: a -> b; ports[1].name: b -> a"},
		"the same name twice": {all{Env: []variable{{"A", "1"}, {"A", "2"}}}, all{Env: []variable{{"A", "1"}, {"A", "3"}}},
			"env[1].value: 2 -> 3"},
		"without names": {all{Steps: []step{{"x"}}}, all{Steps: []step{{"y"}}}, "steps[0].path: x -> y"},
		"nothing":       {all{Env: []variable{}}, all{}, ""},
	} {
		var got []string
		for _, f := range Fields("", c.was, c.is) {
			got = append(got, fmt.Sprintf("%s: %s -> %s", f.Path, f.Old, f.New))
		}
		if text := strings.Join(got, "; "); text != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, text, c.want)
		}
	}
}

package label

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestSelectors(t *testing.T) {
	labels := map[string]string{"app": "web", "tier": "front", "example.com/env": "test"}
	for text, want := range map[string]bool{
		"": true, "  ": true, "app=web": true, "app == web": true, "app=db": false, "app!=db": true, "app!=web": false,
		"canary!=yes": true, "app=web,tier=front": true, "app=web,tier=back": false, "app": true, "canary": false,
		"!canary": true, "!app": false, "app in (web, db)": true, "app in (db)": false, "app notin (db,x)": true,
		"app notin (web)": false, "app not in (web)": false, "app in (db,web),!canary,tier": true,
		"example.com/env=test": true, "canary notin (x)": true, "cell!=x": true,
	} {
		s, err := ParseSelector(text)
		if err != nil || s.Selects(labels) != want {
			t.Errorf("%q: %v, %v, want %v", text, s.Selects(labels), err, want)
		}
	}
	for _, text := range []string{"app=", "=web", "app=web,", ",", "app in web", "app in ()", "a b", "!",
		"app version >= 1", "app > 1", "app in (web"} {
		if _, err := ParseSelector(text); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), SelectorExamples) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := ParseSelector(SelectorExamples); err != nil {
		t.Error(err)
	}
}

// TestALabelSelectsItself: the labels that Check accepts are those that selectors can name.
func TestALabelSelectsItself(t *testing.T) {
	name := rapid.StringMatching(`[a-zA-Z0-9_./-]{1,10}`)
	value := rapid.OneOf(rapid.StringMatching(`.{0,10}`), rapid.String())
	rapid.Check(t, func(t *rapid.T) {
		labels := rapid.MapOfN(name, value, 1, 4).Draw(t, "labels")
		var parts []string
		for _, k := range slices.Sorted(maps.Keys(labels)) {
			if Check(k, labels[k]) != nil {
				delete(labels, k)
				continue
			}
			parts = append(parts, k+"="+labels[k])
		}
		s, err := ParseSelector(strings.Join(parts, ","))
		if err != nil || !s.Selects(labels) || len(s) != len(labels) {
			t.Fatalf("%q: %v, %v", parts, s, err)
		}
	})
	for _, bad := range [][2]string{{"", "x"}, {"a b", "x"}, {"a", ""}, {"a", "x,y"}, {"a", "x y"},
		{"a", strings.Repeat("x", 257)}} {
		if Check(bad[0], bad[1]) == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

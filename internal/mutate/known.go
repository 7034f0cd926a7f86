package mutate

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// ReadKnown reads the list of known survivors: a line for each, its name, two spaces, "#" and the reason.
func ReadKnown(path string) (map[string]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	out := map[string]string{}
	s := bufio.NewScanner(f)
	for line := 1; s.Scan(); line++ {
		text := strings.TrimSpace(s.Text())
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		id, reason, ok := strings.Cut(text, "  # ")
		id = strings.TrimSpace(id)
		switch {
		case !ok || reason == "":
			return nil, fmt.Errorf("%s:%d: a survivor needs a reason after two spaces and #", path, line)
		case out[id] != "":
			return nil, fmt.Errorf("%s:%d: %s is in the list twice", path, line, id)
		}
		out[id] = reason
	}
	return out, s.Err()
}

// Stale returns the names in the list that the code no longer has. Names of a package without
// changes are ignored.
func Stale(known map[string]string, have []Small) []string {
	ids, looked := map[string]bool{}, map[string]bool{}
	for _, m := range have {
		id := m.ID()
		dir, _, _ := strings.Cut(id, "/")
		ids[id], looked[dir] = true, true
	}
	var out []string
	for _, id := range slices.Sorted(maps.Keys(known)) {
		if dir, _, _ := strings.Cut(id, "/"); looked[dir] && !ids[id] {
			out = append(out, id)
		}
	}
	return out
}

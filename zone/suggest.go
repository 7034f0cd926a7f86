package zone

import (
	"cmp"
	"slices"
	"strings"

	"cantina/internal/text"
)

// suggest returns up to three names that the author may have meant.
func suggest(name string, names []string) []string {
	type scored struct {
		name string
		cost int
	}
	want := strings.ToLower(strings.ReplaceAll(strings.TrimSpace(name), " ", "_"))
	limit := len(want)/3 + 1
	var found []scored
	for _, n := range names {
		low := strings.ToLower(n)
		city := low[strings.LastIndex(low, "/")+1:]
		cost := min(text.Distance(want, low), text.Distance(want, city)+1)
		if cost <= limit {
			found = append(found, scored{n, cost})
		}
	}
	slices.SortFunc(found, func(a, b scored) int {
		return cmp.Or(cmp.Compare(a.cost, b.cost), cmp.Compare(a.name, b.name))
	})
	var out []string
	for _, f := range found {
		if len(out) == 3 || f.cost > found[0].cost {
			break
		}
		out = append(out, f.name)
	}
	return out
}

package zone

import (
	"cmp"
	"slices"
	"strings"
)

// suggest gives up to three names that the author may have meant.
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
		cost := min(distance(want, low), distance(want, city)+1)
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

// distance is the number of single-letter edits between two short words.
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return max(len(a), len(b))
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diag := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diag
			if a[i-1] != b[j-1] {
				cost++
			}
			diag = row[j]
			row[j] = min(cost, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}

package logstore

import (
	"fmt"
	"maps"
	"slices"
	"testing"
)

func TestForget(t *testing.T) {
	place := func(n int) Place {
		p := Place{}
		for i := range n {
			p[fmt.Sprint("c", i)] = formatCursor(Position(i + 1))
		}
		return p
	}
	for name, c := range map[string]struct {
		p       Place
		holders []string
		want    string
	}{
		"all hold output":          {place(5), []string{"c0", "c1", "c2", "c3", "c4"}, "[c0 c1 c2 c3 c4]"},
		"as many as are kept":      {place(3), []string{"c0"}, "[c0 c1 c2]"},
		"the newest are kept":      {place(6), []string{"c0"}, "[c0 c4 c5]"},
		"none holds output":        {place(6), nil, "[c4 c5]"},
		"an invalid cursor is old": {Place{"a": "?", "b": formatCursor(1), "c": formatCursor(2)}, nil, "[b c]"},
		"nothing is named":         {Place{}, nil, "[]"},
	} {
		c.p.Forget(c.holders, 2)
		if got := fmt.Sprint(slices.Sorted(maps.Keys(c.p))); got != c.want {
			t.Errorf("%s: %s, not %s", name, got, c.want)
		}
	}
}

package multimap

import "testing"

// TestASetIsThereWhileItHasValues: no key is left without a value, also when one is taken out twice.
func TestASetIsThereWhileItHasValues(t *testing.T) {
	m := Map[string, int]{}
	for _, c := range []struct {
		v    int
		in   bool
		want int
	}{
		{1, false, 0}, {1, true, 1}, {1, true, 1}, {2, true, 2},
		{1, false, 1}, {1, false, 1}, {2, false, 0}, {2, false, 0}, {2, true, 1},
	} {
		m.Set("k", c.v, c.in)
		if _, there := m["k"]; len(m["k"]) != c.want || there != (c.want > 0) {
			t.Fatalf("%+v: %v", c, m)
		}
	}
}

package dead_test

import (
	"fmt"
	"testing"

	"cantina/internal/dead"
)

// TestSet: names in rows are kept for ever, and the newest of the others.
func TestSet(t *testing.T) {
	var s dead.Set
	if s.Has("p0") {
		t.Fatal("nothing is dead")
	}
	s.Delete("p0")
	named := func(p string) bool { return p == "p7" }
	most := 0
	for i := range 100 * dead.Newest {
		s.Add(fmt.Sprint("p", i), named)
		s.Add("p7", named)
		most = max(most, s.Len())
		for j := max(0, i-dead.Newest+1); j <= i; j += 37 {
			if p := fmt.Sprint("p", j); !s.Has(p) {
				t.Fatalf("%s of %d is forgotten", p, i)
			}
		}
	}
	if !s.Has("p7") || s.Has("p8") || most > 2*dead.Newest+2 {
		t.Errorf("p7 %v, p8 %v, at most %d", s.Has("p7"), s.Has("p8"), most)
	}
	if s.Delete("p7"); s.Has("p7") {
		t.Error("it lives")
	}
	if s.Add("p7", named); !s.Has("p7") {
		t.Error("it is dead again")
	}
}

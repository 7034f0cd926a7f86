package agenda_test

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"cantina/internal/agenda"
)

// TestTakenInOrder: plans and takes in any order. Due entries come earliest first, once, and no entry comes before
// its time.
func TestTakenInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var a agenda.Agenda[int]
		type entry struct {
			at   time.Time
			what int
		}
		var planned []entry
		for n := range rapid.IntRange(0, 60).Draw(t, "steps") {
			moment := time.Unix(rapid.Int64Range(0, 20).Draw(t, "moment"), 0)
			if rapid.Bool().Draw(t, "plan") {
				a.Plan(moment, n)
				planned = append(planned, entry{moment, n})
			} else {
				for {
					what, at, ok := a.Take(moment)
					if !ok {
						break
					}
					i := slices.Index(planned, entry{at, what})
					if i < 0 || at.After(moment) || slices.ContainsFunc(planned, func(e entry) bool { return e.at.Before(at) }) {
						t.Fatalf("at %v: took %d of %v from %v", moment, what, at, planned)
					}
					planned = slices.Delete(planned, i, i+1)
				}
				if slices.ContainsFunc(planned, func(e entry) bool { return !e.at.After(moment) }) {
					t.Fatalf("at %v: %v was not taken", moment, planned)
				}
			}
			next, ok := a.Next()
			if ok != (len(planned) > 0) || ok && !next.Equal(slices.MinFunc(planned,
				func(x, y entry) int { return cmp.Compare(x.at.Unix(), y.at.Unix()) }).at) {
				t.Fatalf("next %v, %v of %v", next, ok, planned)
			}
		}
	})
}

// TestThin: plans that do not count any more leave nothing, and the others stay in order. Nothing is scanned while
// most plans count.
func TestThin(t *testing.T) {
	var a agenda.Agenda[int]
	for i := range 10_000 {
		a.Plan(time.Unix(int64(i), 0), i)
	}
	looked := 0
	counts := func(i int, at time.Time) bool {
		looked++
		if at.Unix() != int64(i) {
			t.Fatalf("%d at %v", i, at)
		}
		return i%100 == 99
	}
	if a.Thin(5_000, counts); looked != 0 || a.Len() != 10_000 {
		t.Fatalf("looked at %d, %d are left", looked, a.Len())
	}
	if a.Thin(100, counts); looked != 10_000 || a.Len() != 100 {
		t.Fatalf("looked at %d, %d are left", looked, a.Len())
	}
	for i := 99; i < 10_000; i += 100 {
		if what, at, ok := a.Take(time.Unix(10_000, 0)); !ok || what != i || at.Unix() != int64(i) {
			t.Fatalf("%d at %v, %v, want %d", what, at, ok, i)
		}
	}
}

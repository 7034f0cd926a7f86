package agenda_test

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"cantina/internal/agenda"
)

// TestTakenInOrder: whatever is planned and taken in between, what is due comes
// earliest first, once, and nothing before its moment.
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
			if ok != (len(planned) > 0) || ok && !next.Equal(slices.MinFunc(planned, func(x, y entry) int { return cmp.Compare(x.at.Unix(), y.at.Unix()) }).at) {
				t.Fatalf("next %v, %v of %v", next, ok, planned)
			}
		}
	})
}

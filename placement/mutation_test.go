package placement

import (
	"os"
	"testing"

	"cantina/internal/mutate"
)

// TestEveryCaseIsMissed deletes each case and each branch of ledger and auction, one at a time, and runs the tests
// of the package on the rest. At least nine in ten deletions must be noticed. It prints the table of
// docs/design/auction.md. Long: `make soak` only.
func TestEveryCaseIsMissed(t *testing.T) {
	if os.Getenv("CANTINA_SOAK") == "" || os.Getenv(mutate.Marker) != "" {
		t.Skip("long form only")
	}
	all, missed := 0, 0
	for _, name := range []string{"auction.go", "cell.go", "class.go", "explain.go", "find.go", "group.go", "heap.go",
		"item.go", "ledger.go", "reserve.go", "score.go", "tree.go", "vector.go"} {
		for kind, deleted := range map[string]func(string) (mutate.Result, error){"cases": mutate.Cases,
			"branches": mutate.Branches} {
			r, err := deleted(name)
			if err != nil {
				t.Fatal(err)
			}
			all, missed = all+r.All, missed+r.All-len(r.Survivors)
			t.Logf("%s: %d of %d %s are noticed", name, r.All-len(r.Survivors), r.All, kind)
			for _, s := range r.Survivors {
				t.Logf("  not noticed: %s", s)
			}
		}
	}
	t.Logf("%d of %d", missed, all)
	if missed*10 < all*9 {
		t.Errorf("only %d of %d deletions are noticed", missed, all)
	}
}

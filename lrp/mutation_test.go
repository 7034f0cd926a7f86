package lrp

import (
	"os"
	"path/filepath"
	"testing"

	"cantina/internal/mutate"
)

// TestEveryCaseIsMissed deletes each case of the machines, one at a time, and runs the tests of the package on the
// rest. At least nine in ten deletions must make a table, a property or the search fail. It prints the table of
// docs/design/evacuation.md. Long: `make soak` only.
func TestEveryCaseIsMissed(t *testing.T) {
	if os.Getenv("CANTINA_SOAK") == "" || os.Getenv(mutate.Marker) != "" {
		t.Skip("long form only")
	}
	all, missed := 0, 0
	for pkg, files := range map[string][]string{
		"../lrp": {"step.go", "session.go", "evacuate.go", "crash.go", "converge.go", "roll.go", "relation.go",
			"evacuation.go", "harmonise.go", "view.go"},
		"../task": {"step.go", "harmonise.go", "board.go"},
	} {
		for _, name := range files {
			r, err := mutate.Cases(filepath.Join(pkg, name))
			if err != nil {
				t.Fatal(err)
			}
			all, missed = all+r.All, missed+r.All-len(r.Survivors)
			t.Logf("%s/%s: %d of %d deletions are noticed", filepath.Base(pkg), name, r.All-len(r.Survivors), r.All)
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

package lrp

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestEveryCaseIsMissed deletes each case of the machines, one at a time, and runs
// the tests of the package on what is left: at least nine in ten deletions must
// make a table, a property or the search fail. It prints the table of
// docs/design/lrp.md. Long: `make soak` only.
func TestEveryCaseIsMissed(t *testing.T) {
	if os.Getenv("CANTINA_SOAK") == "" || os.Getenv("CANTINA_MUTANT") != "" {
		t.Skip("long form only")
	}
	all, missed := 0, 0
	for pkg, files := range map[string][]string{
		"../lrp":  {"step.go", "session.go", "evacuate.go", "crash.go", "converge.go", "roll.go", "relation.go", "evacuation.go", "harmonise.go", "view.go"},
		"../task": {"step.go", "harmonise.go", "board.go"},
	} {
		for _, name := range files {
			n, survivors := mutate(t, filepath.Join(pkg, name))
			all, missed = all+n, missed+n-len(survivors)
			t.Logf("%s/%s: %d of %d deletions are noticed", filepath.Base(pkg), name, n-len(survivors), n)
			for _, s := range survivors {
				t.Logf("  not noticed: %s", s)
			}
		}
	}
	t.Logf("%d of %d", missed, all)
	if missed*10 < all*9 {
		t.Errorf("only %d of %d deletions are noticed", missed, all)
	}
}

// mutate returns how many cases the file has and which deletions nobody notices. A
// deletion that does not compile is noticed.
func mutate(t *testing.T, path string) (n int, survivors []string) {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, text, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(node ast.Node) bool {
		c, ok := node.(*ast.CaseClause)
		if !ok {
			return true
		}
		n++
		from, to := fset.Position(c.Pos()), fset.Position(c.End())
		mutant := string(text[:from.Offset]) + string(text[to.Offset:])
		if !noticed(t, path, mutant) {
			head, _, _ := strings.Cut(string(text[from.Offset:to.Offset]), "\n")
			survivors = append(survivors, fmt.Sprintf("%s:%d %s", filepath.Base(path), from.Line, head))
		}
		return true
	})
	return n, survivors
}

// noticed runs the package's tests with one file replaced.
func noticed(t *testing.T, path, mutant string) bool {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "mutant.go")
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {path: file}})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{file: []byte(mutant), filepath.Join(dir, "overlay.json"): overlay} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("go", "test", "-count=1", "-vet=off", "-timeout=60s", "-overlay="+filepath.Join(dir, "overlay.json"), "-rapid.checks=300", "-rapid.nofailfile", ".")
	cmd.Dir = filepath.Dir(path)
	cmd.Env = append(os.Environ(), "CANTINA_MUTANT=1", "CANTINA_SOAK=")
	return cmd.Run() != nil
}

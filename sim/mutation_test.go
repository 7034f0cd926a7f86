package sim

import (
	"bytes"
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cantina/internal/mutate"
)

// mutant is one deleted case clause.
type mutant struct {
	file string // below the module
	line int
	text string // the clause's head
	from int    // its bytes
	to   int
}

// mutated are the core packages whose cases are deleted.
var mutated = []string{"worker", "workerset", "lrp", "task"}

// mutants lists the case clauses of these packages, but for those that only
// print a name.
func mutants(t *testing.T, root string) []mutant {
	var ms []mutant
	for _, dir := range mutated {
		files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if strings.HasSuffix(f, "_test.go") {
				continue
			}
			rel, _ := filepath.Rel(root, f)
			ms = append(ms, mutantsOf(t, f, rel)...)
		}
	}
	return ms
}

// wording are functions whose cases only choose words for people.
var wording = map[string]bool{"String": true, "why": true, "silence": true}

func mutantsOf(t *testing.T, path, rel string) []mutant {
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, src, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ms []mutant
	for _, d := range file.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || wording[fn.Name.Name] || fn.Body == nil {
			continue
		}
		ast.Inspect(fn.Body, func(n ast.Node) bool {
			c, ok := n.(*ast.CaseClause)
			if !ok || len(c.Body) == 0 {
				return true
			}
			at := fset.Position(c.Pos())
			head := strings.TrimSpace(string(src[at.Offset:fset.Position(c.Colon).Offset]))
			ms = append(ms, mutant{rel, at.Line, fn.Name.Name + ": " + strings.Join(strings.Fields(head), " "),
				at.Offset, fset.Position(c.End()).Offset})
			return true
		})
	}
	return ms
}

// TestMutation deletes each case of worker/, workerset/, lrp/ and task/ and reports the detector: the simulator,
// the search, or only a table. It writes the table of docs/design/simulator.md. CANTINA_MUTATION=file;
// CANTINA_MUTATION_ONLY: only clauses whose "file:line " begins with one of these words.
func TestMutation(t *testing.T) {
	out := os.Getenv("CANTINA_MUTATION")
	if out == "" {
		t.Skip("set CANTINA_MUTATION to the file for the table")
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	count := map[string]int{}
	ms := mutants(t, root)
	if only := strings.Fields(os.Getenv("CANTINA_MUTATION_ONLY")); len(only) > 0 {
		ms = slices.DeleteFunc(ms, func(m mutant) bool {
			return !slices.ContainsFunc(only,
				func(o string) bool { return strings.HasPrefix(fmt.Sprintf("%s:%d ", m.file, m.line), o) })
		})
	}
	for _, file := range []string{"worker/cell.go", "workerset/propagate.go", "lrp/step.go", "task/step.go"} {
		chosen := func(m mutant) bool { return filepath.Dir(m.file) == filepath.Dir(file) }
		if !slices.ContainsFunc(ms, chosen) {
			continue
		}
		if by := tryMutant(t, root, mutant{file: file}); by != "nobody" {
			t.Fatalf("the %s fails although nothing is deleted in %s", by, file)
		}
	}
	for _, m := range ms {
		by := tryMutant(t, root, m)
		count[by]++
		fmt.Fprintf(&table, "| %s:%d | `%s` | %s |\n", m.file, m.line, strings.ReplaceAll(m.text, "|", "\\|"), by)
		if err := os.WriteFile(out, []byte(table.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d cases: %v", len(ms), count)
	all := len(ms) - count["compiler"]
	if found := all - count["nobody"]; found*10 < all*9 {
		t.Errorf("only %d of %d are noticed", found, all)
	}
}

// mutantLimit is the time after which a mutant counts as hanging, and thus as noticed: a multiple of the slowest
// run on a busy machine.
const mutantLimit = 9 * time.Minute

// tryMutant deletes one clause and runs the simulator, the search, then the tables.
func tryMutant(t *testing.T, dir string, m mutant) string {
	path := filepath.Join(dir, m.file)
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	overlay, remove, err := mutate.Overlay(map[string]string{path: string(src[:m.from]) + string(src[m.to:])})
	if err != nil {
		t.Fatal(err)
	}
	defer remove()
	type run struct{ name, pkg, run string }
	runs := []run{{"simulator", "./sim", "TestClean|TestOtherShapes|TestConsensusWitness"}}
	if strings.HasPrefix(m.file, "worker") {
		runs = append(runs, run{"search", "./worker", "TestSearch$"})
	}
	for _, by := range append(runs, run{"table", "./" + filepath.Dir(m.file), "."}) {
		ctx, cancel := context.WithTimeout(t.Context(), mutantLimit)
		cmd := exec.CommandContext(ctx, "go", "test", "-vet=off", "-count=1", "-overlay="+overlay, "-run", by.run, by.pkg)
		cmd.Dir, cmd.Env = dir, mutate.Environ()
		out, err := cmd.CombinedOutput()
		cancel()
		switch {
		case err == nil:
		case bytes.Contains(out, []byte("[build failed]")):
			return "compiler"
		default:
			return by.name
		}
	}
	return "nobody"
}

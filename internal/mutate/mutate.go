// Package mutate checks whether the tests of a package detect a change of the code.
//
// Cases and Branches delete one piece of a file at a time, build the rest and run the tests; tests
// of the core packages call them in their long form. Load lists the small changes of a package (an
// operator, a condition, a constant, a case). All of them are built into one program, each behind
// a check of a variable of the environment, and the program runs once for each change: command
// run, called by `make mutate`.
package mutate

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Marker is the variable that is set in the environment of the tests of a mutant: mutation tests
// do nothing there.
const Marker = "CANTINA_MUTANT"

// Result is the result of the deletions in one file.
type Result struct {
	// All counts the deletions after which the rest compiles.
	All int
	// Survivors names those that no test noticed, "file:line text".
	Survivors []string
}

// Cases deletes each case of each switch of a file.
func Cases(path string) (Result, error) {
	return each(path, func(n ast.Node) bool {
		_, ok := n.(*ast.CaseClause)
		return ok
	})
}

// Branches deletes each if statement that has no else.
func Branches(path string) (Result, error) {
	return each(path, func(n ast.Node) bool {
		i, ok := n.(*ast.IfStmt)
		return ok && i.Else == nil
	})
}

func each(path string, wanted func(ast.Node) bool) (Result, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return Result{}, err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return Result{}, err
	}
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, text, 0)
	if err != nil {
		return Result{}, err
	}
	var nodes []ast.Node
	inElse := map[ast.Node]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		if i, ok := n.(*ast.IfStmt); ok && i.Else != nil {
			inElse[i.Else] = true // cannot go alone
		}
		if n != nil && wanted(n) && !inElse[n] {
			nodes = append(nodes, n)
		}
		return true
	})
	switch what, err := judge(path, string(text)); {
	case err != nil:
		return Result{}, err
	case what != Survives: // else everything would seem to be noticed
		return Result{}, fmt.Errorf("%s: the tests fail although nothing is deleted", path)
	}
	var out Result
	for _, n := range nodes {
		from, to := fset.Position(n.Pos()), fset.Position(n.End())
		what, err := judge(path, string(text[:from.Offset])+string(text[to.Offset:]))
		if err != nil {
			return out, err
		}
		if what == Broken {
			continue
		}
		out.All++
		if what == Survives {
			head, _, _ := strings.Cut(string(text[from.Offset:to.Offset]), "\n")
			out.Survivors = append(out.Survivors, fmt.Sprintf("%s:%d %s", filepath.Base(path), from.Line, head))
		}
	}
	return out, nil
}

// Verdict is the result of the tests of a mutant.
type Verdict int

// The verdicts.
const (
	Noticed  Verdict = iota // a test fails, or does not end
	Survives                // all tests pass
	Broken                  // it does not compile
)

// Environ is the environment of the tests of a mutant.
func Environ() []string {
	return append(os.Environ(), Marker+"=1", "CANTINA_SOAK=", "CANTINA_MUTATION=")
}

// Overlay writes the file for `go build -overlay` that replaces the texts of files, by absolute
// path. remove deletes it, with its directory.
func Overlay(texts map[string]string) (overlay string, remove func(), err error) {
	dir, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return "", nil, err
	}
	remove = func() { _ = os.RemoveAll(dir) }
	replace := map[string]string{}
	for path, text := range texts {
		file := filepath.Join(dir, fmt.Sprintf("%d-%s", len(replace), filepath.Base(path)))
		replace[path] = file
		err = errors.Join(err, os.WriteFile(file, []byte(text), 0o600))
	}
	table, e := json.Marshal(map[string]any{"Replace": replace})
	overlay = filepath.Join(dir, "overlay.json")
	if err = errors.Join(err, e, os.WriteFile(overlay, table, 0o600)); err != nil {
		remove()
		return "", nil, err
	}
	return overlay, remove, nil
}

// judge runs the package's tests with one file replaced.
func judge(path, mutant string) (Verdict, error) {
	overlay, remove, err := Overlay(map[string]string{path: mutant})
	if err != nil {
		return Noticed, err
	}
	defer remove()
	program := filepath.Join(filepath.Dir(overlay), "mutant.test")
	build := exec.Command("go", "test", "-c", "-vet=off", "-overlay="+overlay, "-o", program, ".")
	build.Dir = filepath.Dir(path)
	if build.Run() != nil {
		return Broken, nil
	}
	run := exec.Command(program, "-test.timeout=60s", "-rapid.checks=300", "-rapid.nofailfile")
	run.Dir = filepath.Dir(path)
	run.Env = Environ()
	if run.Run() != nil {
		return Noticed, nil
	}
	return Survives, nil
}

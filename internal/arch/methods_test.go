package arch

import (
	"go/ast"
	"maps"
	"slices"
	"strings"
	"testing"
)

// mostMethods is the maximum number of methods of a type. One with more has several responsibilities: give each a
// type with its own fields, and let the owner keep the flow between them.
const mostMethods = 45

// moreMethods are the types that are still above, with the count that they must not exceed.
var moreMethods = map[string]int{}

// moreLocks are the types that are guarded by more than one lock, with the number.
var moreLocks = map[string]int{}

func TestTypesAreSmall(t *testing.T) {
	bounded(t, "methods", mostMethods, moreMethods, count(t, func(s source, all map[string]int) {
		for _, d := range s.ast.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil && len(f.Recv.List) == 1 {
				all[s.pkg+"."+receiver(f)]++
			}
		}
	}))
}

func TestTypesHaveOneLock(t *testing.T) {
	bounded(t, "locks", 1, moreLocks, count(t, func(s source, all map[string]int) {
		ast.Inspect(s.ast, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if typ, ok := spec.Type.(*ast.StructType); ok {
				all[s.pkg+"."+spec.Name.Name] += locks(typ)
			}
			return true
		})
	}))
}

func locks(typ *ast.StructType) (n int) {
	for _, f := range typ.Fields.List {
		sel, ok := f.Type.(*ast.SelectorExpr)
		if !ok || !slices.Contains([]string{"Mutex", "RWMutex"}, sel.Sel.Name) {
			continue
		}
		if id, ok := sel.X.(*ast.Ident); ok && id.Name == "sync" {
			n += max(1, len(f.Names))
		}
	}
	return n
}

// count adds up the findings in each handwritten file of production code.
func count(t *testing.T, one func(source, map[string]int)) map[string]int {
	all := map[string]int{}
	for _, s := range sources(t) {
		if !s.test && !strings.HasSuffix(s.path, ".pb.go") && !strings.HasSuffix(s.path, ".connect.go") {
			one(s, all)
		}
	}
	return all
}

// bounded holds each count to the limit, or to that of the list of exceptions, which has no row
// that nothing needs.
func bounded(t *testing.T, what string, most int, exceptions, all map[string]int) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		limit, row := exceptions[name]
		switch n := all[name]; {
		case n > max(most, limit):
			t.Errorf("%s has %d %s, at most %d are allowed: split it by its state", name, n, what, max(most, limit))
		case row && n <= most:
			t.Errorf("%s has %d %s: take its row out of the exceptions", name, n, what)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(exceptions)) {
		if all[name] == 0 {
			t.Errorf("there is no type %s any more: take its row out of the exceptions", name)
		}
	}
}

// receiver is the name of a method's type.
func receiver(d *ast.FuncDecl) string {
	typ := d.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	switch g := typ.(type) {
	case *ast.IndexExpr:
		typ = g.X
	case *ast.IndexListExpr:
		typ = g.X
	}
	if id, ok := typ.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}

package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The files of a large package are rooms: they can be put into an order in which nearly every file needs
// only files below it. A use of a declaration of another file is an arrow; one that points up in the best
// order is a back arrow.

// mostBack is how many of a hundred arrows may point up.
const mostBack = 10

func TestFilesAreRooms(t *testing.T) {
	for _, dir := range []string{"executor", "sim", "cmd/cantina"} {
		g := readRooms(t, filepath.Join("../..", dir))
		arrows, back := g.count()
		if arrows < 100 {
			t.Fatalf("%s: %d arrows found: the search is broken", dir, arrows)
		}
		if len(back) > arrows*mostBack/100 {
			t.Errorf("%s: %d of %d arrows between its files point up, at most %d %% may; move declarations to the files "+
				"below that need them:\n  %s", dir, len(back), arrows, mostBack, strings.Join(back, "\n  "))
		}
	}
}

func TestBackArrowsAreCounted(t *testing.T) {
	g := &rooms{files: []string{"a", "b", "c"}, uses: map[[2]string][]string{{"a", "b"}: {"x"}, {"b", "c"}: {"y"},
		{"a", "c"}: {"z"}}}
	if n, back := g.count(); n != 3 || len(back) != 0 {
		t.Errorf("%d arrows, back %v", n, back)
	}
	g.uses[[2]string{"c", "a"}] = []string{"w"}
	if n, back := g.count(); n != 4 || !slices.Equal(back, []string{"c -> a: w"}) {
		t.Errorf("%d arrows, back %v", n, back)
	}
}

// rooms are the files of a package, and the names that one uses of another.
type rooms struct {
	files []string
	uses  map[[2]string][]string
}

// nothing imports packages without content: only the names of the package itself matter.
type nothing struct{}

// Import implements types.Importer.
func (nothing) Import(path string) (*types.Package, error) {
	p := types.NewPackage(path, filepath.Base(path))
	p.MarkComplete()
	return p, nil
}

func readRooms(t *testing.T, dir string) *rooms {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	g := &rooms{uses: map[[2]string][]string{}}
	var files []*ast.File
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, filepath.Join(dir, e.Name()), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files, g.files = append(files, f), append(g.files, e.Name())
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	c := types.Config{Importer: nothing{}, Error: func(error) {}} // errors of imports
	pkg, _ := c.Check(dir, fset, files, info)
	for id, o := range info.Uses {
		if o.Pkg() != pkg || !declared(o) {
			continue
		}
		from, to := filepath.Base(fset.Position(id.Pos()).Filename), filepath.Base(fset.Position(o.Pos()).Filename)
		if arrow := [2]string{from, to}; from != to && !slices.Contains(g.uses[arrow], o.Name()) {
			g.uses[arrow] = append(g.uses[arrow], o.Name())
		}
	}
	return g
}

// declared reports whether an object is declared by its file, as a method or for the package.
func declared(o types.Object) bool {
	if f, ok := o.(*types.Func); ok && f.Signature().Recv() != nil {
		return true
	}
	return o.Parent() == o.Pkg().Scope()
}

// count returns the number of arrows, and those that point up in the best order that is found.
func (g *rooms) count() (arrows int, back []string) {
	order := slices.Clone(g.files)
	for moved := true; moved; {
		moved = false
		for _, f := range g.files {
			now := slices.Index(order, f)
			rest := slices.Delete(slices.Clone(order), now, now+1)
			best, least := now, g.costAt(rest, f, now)
			for at := range len(order) {
				if cost := g.costAt(rest, f, at); cost < least {
					best, least = at, cost
				}
			}
			if best != now {
				order, moved = slices.Insert(rest, best, f), true
			}
		}
	}
	for arrow, names := range g.uses {
		if slices.Index(order, arrow[0]) > slices.Index(order, arrow[1]) {
			slices.Sort(names)
			back = append(back, arrow[0]+" -> "+arrow[1]+": "+strings.Join(names, " "))
		}
	}
	slices.Sort(back)
	return len(g.uses), back
}

// costAt is how many more arrows point up with a file at a place of the order than at its top.
func (g *rooms) costAt(rest []string, f string, at int) (cost int) {
	for _, x := range rest[:at] {
		if g.has(f, x) {
			cost++
		}
		if g.has(x, f) {
			cost--
		}
	}
	return cost
}

func (g *rooms) has(from, to string) bool { return g.uses[[2]string{from, to}] != nil }

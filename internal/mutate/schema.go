package mutate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"
)

// Package is a package with all its small changes in it, each off until Chosen has its number.
type Package struct {
	Dir string
	All []Small
	// Number selects a change of All; 0 = it can only be built alone.
	Number []int

	files []*lister
	first []int // index in All of each file's first change
	gone  []map[int]bool
	texts []map[int]string // type of each number in the text, by offset
	alias map[string]string
	using map[string]string // path of each imported package that has an alias, by its name
}

// Chosen is the variable of the environment with the number of the change to make. Reached is the
// one that names a file to which a program writes the numbers of those that it executes.
const (
	Chosen  = "CANTINA_MUTANT_NUMBER"
	Reached = "CANTINA_MUTANTS_REACHED"
)

// Load lists the changes of a package. Their numbers begin at first.
func Load(dir string, first int) (*Package, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	p := &Package{Dir: dir, alias: map[string]string{}, using: map[string]string{}}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		l, err := list(name)
		if err != nil {
			return nil, err
		}
		p.files = append(p.files, l)
		p.first = append(p.first, len(p.All))
		p.gone = append(p.gone, map[int]bool{})
		p.All = append(p.All, l.out...)
	}
	if err := p.look(); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	p.number(first)
	return p, nil
}

// number gives a number to each change that can be chosen while the program runs.
func (p *Package) number(first int) {
	p.Number = make([]int, len(p.All))
	for i, l := range p.files {
		for _, e := range l.edits {
			if e.owner < 0 {
				continue
			}
			m := l.out[e.owner]
			if m.Kind == "constant" && p.texts[i][m.from] == "" && m.Old != "true" && m.Old != "false" {
				continue
			}
			p.Number[p.first[i]+e.owner] = first + p.first[i] + e.owner
		}
	}
}

// look finds the type of each number in the text.
func (p *Package) look() error {
	cmd := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Export", ".")
	cmd.Dir = p.Dir
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("go list: %w", err)
	}
	exports := map[string]string{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var x struct{ ImportPath, Export string }
		if err := d.Decode(&x); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		exports[x.ImportPath] = x.Export
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, l := range p.files {
		f, err := parser.ParseFile(fset, l.path, l.text, 0)
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	conf := types.Config{Importer: importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})}
	pkg, err := conf.Check(filepath.Base(p.Dir), fset, files, info)
	if err != nil {
		return err
	}
	p.texts = make([]map[int]string, len(files))
	for i, f := range files {
		texts := map[int]string{}
		p.texts[i] = texts
		ast.Inspect(f, func(n ast.Node) bool {
			if d, ok := n.(*ast.GenDecl); ok && d.Tok == token.CONST {
				return false
			}
			if r, ok := n.(*ast.ReturnStmt); ok {
				p.idle(r, i, info, fset)
			}
			if a, ok := n.(*ast.ArrayType); ok && a.Len != nil { // a length is a constant to the compiler
				return false
			}
			if e, ok := n.(ast.Expr); ok && info.Types[e].Value != nil {
				p.constants(e, info.TypeOf(e), texts, fset, pkg)
				return false
			}
			return true
		})
	}
	return nil
}

// idle marks the constants that a statement returns beside an error.
func (p *Package) idle(r *ast.ReturnStmt, file int, info *types.Info, fset *token.FileSet) {
	last := len(r.Results) - 1
	if last < 1 || !isError(r.Results[last], info) {
		return
	}
	for _, e := range r.Results[:last] {
		at := fset.Position(e.Pos()).Offset
		for j := range p.files[file].out {
			m := &p.All[p.first[file]+j]
			m.Idle = m.Idle || m.Kind == "constant" && m.from == at
		}
	}
}

// isError reports whether a value is an error that cannot be nil: one of a separate type, a
// variable like ErrClosed, or one that is made in place.
func isError(e ast.Expr, info *types.Info) bool {
	t := info.TypeOf(e)
	if !types.Implements(t, types.Universe.Lookup("error").Type().Underlying().(*types.Interface)) {
		return false
	}
	if !types.IsInterface(t) {
		return true
	}
	switch e := e.(type) {
	case *ast.Ident:
		return strings.HasPrefix(e.Name, "Err")
	case *ast.CallExpr:
		text := types.ExprString(e.Fun)
		return text == "fmt.Errorf" || text == "errors.New"
	}
	return false
}

// constants notes the type of each number in a constant expression: that of the whole.
func (p *Package) constants(whole ast.Expr, t types.Type, texts map[int]string, fset *token.FileSet,
	pkg *types.Package) {
	ast.Inspect(whole, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.INT {
			texts[fset.Position(lit.Pos()).Offset] = p.typeName(t, pkg)
		}
		return true
	})
}

// typeName writes a type as any file of the package can; "" = it cannot be written.
func (p *Package) typeName(t types.Type, pkg *types.Package) string {
	switch t := t.(type) {
	case *types.Basic:
		return types.Default(t).String()
	case *types.TypeParam:
		return t.Obj().Name()
	case *types.Named:
		o := t.Obj()
		switch {
		case o.Parent() != o.Pkg().Scope():
			return "" // declared in a function
		case o.Pkg() == pkg:
			return o.Name()
		case !o.Exported():
			return ""
		}
		alias := "mutant" + o.Pkg().Name() + o.Name()
		p.alias[alias], p.using[o.Pkg().Name()] = o.Pkg().Name()+"."+o.Name(), o.Pkg().Path()
		return alias
	}
	return ""
}

// support has the functions that the changed files of a package call.
const support = `
var mutantOn, _ = strconv.Atoi(os.Getenv("` + Chosen + `"))
var mutantSeen, mutantFile = mutantReach()

func mutantReach() ([]atomic.Bool, *os.File) {
	f, err := os.OpenFile(os.Getenv("` + Reached + `"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil
	}
	return make([]atomic.Bool, 1<<16), f
}

func mutantSee(id int) bool {
	if !mutantSeen[id].Load() && !mutantSeen[id].Swap(true) {
		_, _ = mutantFile.WriteString(strconv.Itoa(id) + "\n")
	}
	return false
}

func mutant(id int) bool { return mutantOn == id || mutantSeen != nil && mutantSee(id) }

func mutantLss[T cmp.Ordered](id int, a, b T) bool { return a < b || mutant(id) && a == b }
func mutantLeq[T cmp.Ordered](id int, a, b T) bool { return a < b || !mutant(id) && a == b }
func mutantGtr[T cmp.Ordered](id int, a, b T) bool { return a > b || mutant(id) && a == b }
func mutantGeq[T cmp.Ordered](id int, a, b T) bool { return a > b || !mutant(id) && a == b }

type mutantNumber interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~float32 | ~float64
}

func mutantInt[T mutantNumber](id int, v T) T {
	if mutant(id) {
		return v + 1
	}
	return v
}

func mutantHide[T any](x T, hide bool) T {
	if hide {
		var none T
		return none
	}
	return x
}

func mutantIs[T any](x any) bool {
	_, ok := x.(T)
	return ok
}
`

// Write writes the changed files to a directory and adds them to the table of an overlay.
func (p *Package) Write(to string, table map[string]string) error {
	name := p.files[0].file.Name.Name
	head := "package " + name + "\n\nimport (\n\"cmp\"\n\"os\"\n\"strconv\"\n\"sync/atomic\"\n"
	for _, path := range p.using {
		head += strconv.Quote(path) + "\n"
	}
	head += ")\n"
	for alias, t := range p.alias {
		head += "type " + alias + " = " + t + "\n"
	}
	put := func(as, text string) error {
		file := filepath.Join(to, name+"_"+filepath.Base(as))
		table[as] = file
		return os.WriteFile(file, []byte(text), 0o600)
	}
	dir, err := filepath.Abs(p.Dir)
	if err != nil {
		return err
	}
	if err := put(filepath.Join(dir, "zz_mutant.go"), head+support); err != nil {
		return err
	}
	for i, l := range p.files {
		numbers := map[int]int{}
		for j := range l.out {
			if n := p.Number[p.first[i]+j]; n != 0 {
				numbers[j] = n
			}
		}
		if err := put(l.path, l.encode(numbers, p.gone[i], p.texts[i])); err != nil {
			return err
		}
	}
	return nil
}

var complaint = regexp.MustCompile(`(?m)^\S*?([^/\s]+\.go):(\d+):\d+: `)

// Drop removes the changes on lines with compiler errors. It returns their number.
func (p *Package) Drop(output string) int {
	lines := map[string]map[int]bool{}
	for _, m := range complaint.FindAllStringSubmatch(output, -1) {
		line, _ := strconv.Atoi(m[2])
		name := strings.TrimPrefix(m[1], p.files[0].file.Name.Name+"_")
		if lines[name] == nil {
			lines[name] = map[int]bool{}
		}
		lines[name][line] = true
	}
	dropped := 0
	for i, l := range p.files {
		bad := lines[filepath.Base(l.path)]
		if bad == nil {
			continue
		}
		at := lineStarts(l.text)
		for _, e := range l.edits {
			if !bad[sort.SearchInts(at, e.at+1)] {
				continue
			}
			if e.group != 0 && !p.gone[i][e.group] && e.owner < 0 {
				p.gone[i][e.group] = true
				dropped++
			}
			if e.owner >= 0 && p.Number[p.first[i]+e.owner] != 0 {
				p.Number[p.first[i]+e.owner] = 0
				dropped++
			}
		}
		for _, e := range l.edits {
			if e.owner >= 0 && e.group != 0 && p.gone[i][e.group] {
				p.Number[p.first[i]+e.owner] = 0
			}
		}
	}
	return dropped
}

func lineStarts(text string) []int {
	at := []int{0}
	for i := range text {
		if text[i] == '\n' {
			at = append(at, i+1)
		}
	}
	return at
}

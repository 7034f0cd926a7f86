package mutate

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// Small is one small change of a file: an operator, a condition, a constant or a case.
type Small struct {
	Path string // absolute
	Line int
	Func string // in which it lies; "" = at the top level
	Kind string // comparison, condition, constant, case, branch
	Old  string // the text that goes, with enough around it to be found again
	New  string // the replacement
	Nth  int    // which of several in the file that have the same name, from 1
	// Idle is a value that is returned beside an error: no caller may read it, so it is not tried.
	Idle bool

	from, to int
	with     string // the text between from and to
}

// ID names the change by its content and not by its position. So a list of known survivors
// outlives edits above it, and of comments.
func (m Small) ID() string {
	id := m.name()
	if m.Nth > 1 {
		id += fmt.Sprintf(" (%d)", m.Nth)
	}
	return id
}

func (m Small) name() string {
	squeeze := func(s string) string {
		s = strings.Join(strings.Fields(comment.ReplaceAllString(s, "")), " ")
		if len(s) > 80 {
			s = s[:80] + "…"
		}
		return s
	}
	dir := filepath.Base(filepath.Dir(m.Path))
	return strings.TrimSpace(fmt.Sprintf("%s/%s %s: %s: %s -> %s",
		dir, filepath.Base(m.Path), m.Func, m.Kind, squeeze(m.Old), squeeze(m.New)))
}

var comment = regexp.MustCompile(`//[^\n]*`)

// Apply returns the file's text with the change.
func (m Small) Apply(text string) string { return text[:m.from] + m.with + text[m.to:] }

// comparisons are the replacements of a comparison.
var comparisons = map[token.Token]string{
	token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">", token.EQL: "!=", token.NEQ: "==",
}

// list finds the small changes of a file, and how each is chosen while the program runs.
func list(path string) (*lister, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, text, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	l := &lister{fset: fset, file: file, text: string(text), path: path, clauses: map[*ast.CaseClause]*group{},
		elses: map[*ast.IfStmt]bool{}}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		l.in = f.Name.Name
		ast.Inspect(f.Body, l.visit)
	}
	l.count()
	return l, nil
}

type lister struct {
	fset *token.FileSet
	file *ast.File
	text string
	path string
	in   string
	out  []Small

	edits   []edit
	groups  int
	clauses map[*ast.CaseClause]*group
	elses   map[*ast.IfStmt]bool
}

func (l *lister) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		l.binary(n)
	case *ast.BasicLit:
		if v, err := strconv.Atoi(n.Value); n.Kind == token.INT && err == nil {
			l.literal(n, v)
		}
	case *ast.Ident:
		if n.Name == "true" || n.Name == "false" {
			id := l.add("constant", n.Pos(), n.End(), strconv.FormatBool(n.Name == "false"))
			l.differ(id, n)
		}
	case *ast.UnaryExpr:
		if n.Op == token.NOT {
			id := l.add("condition", n.Pos(), n.End(), l.at(n.X.Pos(), n.X.End()))
			l.differ(id, n)
		}
	case *ast.IfStmt:
		if other, ok := n.Else.(*ast.IfStmt); ok {
			l.elses[other] = true
		}
		if n.Else == nil {
			l.skip(l.add("branch", n.Pos(), n.End(), ""), n)
		}
	case *ast.SwitchStmt:
		l.byValue(n)
	case *ast.TypeSwitchStmt:
		l.byType(n)
	case *ast.CaseClause:
		l.clause(n)
	}
	return true
}

func (l *lister) binary(n *ast.BinaryExpr) {
	if other, ok := comparisons[n.Op]; ok {
		id := l.add("comparison", n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), other)
		x, y := l.at(n.X.Pos(), n.X.End()), l.at(n.Y.Pos(), n.Y.End())
		l.out[id].Old, l.out[id].New = x+" "+n.Op.String()+" "+y, other
		l.compare(id, n)
		return
	}
	if n.Op == token.LAND || n.Op == token.LOR {
		left := l.add("condition", n.Pos(), n.Y.Pos(), "")  // without the left operand
		right := l.add("condition", n.X.End(), n.End(), "") // without the right one
		l.without(left, n.X, n.Op)
		l.without(right, n.Y, n.Op)
	}
}

func (l *lister) at(from, to token.Pos) string { return l.text[l.offset(from):l.offset(to)] }

func (l *lister) offset(p token.Pos) int { return l.fset.Position(p).Offset }

// add lists a change and returns its index.
func (l *lister) add(kind string, from, to token.Pos, with string) int {
	l.out = append(l.out, Small{Path: l.path, Line: l.fset.Position(from).Line, Func: l.in, Kind: kind,
		Old: l.at(from, to), New: with, with: with, from: l.offset(from), to: l.offset(to)})
	return len(l.out) - 1
}

// count numbers the changes that have the same name.
func (l *lister) count() {
	names := map[string]int{}
	for i := range l.out {
		name := l.out[i].name()
		names[name]++
		l.out[i].Nth = names[name]
	}
}

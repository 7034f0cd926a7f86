package mutate

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Small is one small change of a file: an operator, a condition, a constant or a case.
type Small struct {
	Path string // absolute
	Line int
	Func string // in which it lies; "" = at the top level
	Kind string // comparison, condition, constant, case, branch
	Old  string // the text that goes, without spaces around it
	New  string // what stands in its place

	from, to int
}

// ID names the change by what it is and not by where it stands, so that a list of
// known survivors outlives edits above it.
func (m Small) ID() string {
	squeeze := func(s string) string {
		s = strings.Join(strings.Fields(s), " ")
		if len(s) > 80 {
			s = s[:80] + "…"
		}
		return s
	}
	dir := filepath.Base(filepath.Dir(m.Path))
	return fmt.Sprintf("%s/%s %s: %s: %s -> %s", dir, filepath.Base(m.Path), m.Func, m.Kind, squeeze(m.Old), squeeze(m.New))
}

// comparisons are what a comparison becomes.
var comparisons = map[token.Token]string{
	token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">", token.EQL: "!=", token.NEQ: "==",
}

// Smalls lists the small changes of a file.
func Smalls(path string) ([]Small, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, text, 0)
	if err != nil {
		return nil, err
	}
	l := &lister{fset: fset, text: string(text), path: path}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		l.in = f.Name.Name
		ast.Inspect(f.Body, l.visit)
	}
	return l.out, nil
}

type lister struct {
	fset *token.FileSet
	text string
	path string
	in   string
	out  []Small
}

func (l *lister) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		l.binary(n)
	case *ast.BasicLit:
		if v, err := strconv.Atoi(n.Value); n.Kind == token.INT && err == nil {
			l.add("constant", n.Pos(), n.End(), strconv.Itoa(v+1))
		}
	case *ast.Ident:
		if n.Name == "true" || n.Name == "false" {
			l.add("constant", n.Pos(), n.End(), strconv.FormatBool(n.Name == "false"))
		}
	case *ast.UnaryExpr:
		if n.Op == token.NOT {
			l.add("condition", n.Pos(), n.End(), l.at(n.X.Pos(), n.X.End()))
		}
	case *ast.IfStmt:
		if n.Else == nil {
			l.add("branch", n.Pos(), n.End(), "")
		}
	case *ast.CaseClause:
		l.add("case", n.Pos(), n.End(), "")
		if next := len(n.List); next > 1 {
			l.add("case", n.List[0].Pos(), n.List[1].Pos(), "")
		}
	}
	return true
}

func (l *lister) binary(n *ast.BinaryExpr) {
	if other, ok := comparisons[n.Op]; ok {
		l.add("comparison", n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), other)
		return
	}
	if n.Op == token.LAND || n.Op == token.LOR {
		l.add("condition", n.Pos(), n.Y.Pos(), "") // without the left operand
		l.add("condition", n.X.End(), n.End(), "") // without the right one
	}
}

func (l *lister) at(from, to token.Pos) string {
	return l.text[l.fset.Position(from).Offset:l.fset.Position(to).Offset]
}

func (l *lister) add(kind string, from, to token.Pos, with string) {
	at := l.fset.Position(from)
	l.out = append(l.out, Small{Path: l.path, Line: at.Line, Func: l.in, Kind: kind, Old: l.at(from, to), New: with,
		from: at.Offset, to: l.fset.Position(to).Offset})
}

// Apply returns the file's text with the change.
func (m Small) Apply(text string) string { return text[:m.from] + m.New + text[m.to:] }

package mutate

import (
	"fmt"
	"go/ast"
	"go/token"
	"sort"
	"strings"
)

// An edit is a piece of text that goes into a file, so that one of its changes can be
// chosen while the program runs. A file with the edits of all its changes is compiled once.
type edit struct {
	at    int
	drop  int    // so many bytes of the file go
	text  string // # is replaced by the number of the change
	end   bool   // it ends an expression that begins before
	owner int    // index of the change; -1 = needed by the changes of a group
	group int    // 0 = none
}

// group is a switch that is written in another way, so that its cases can be taken away.
type group struct {
	id  int
	tag bool // the cases are compared with a variable of this number
	// plain cases are conditions; other switches cannot be changed while the program runs.
	plain bool
	clear bool // by type, and the cases are hidden from the switch
}

func (l *lister) edit(owner int, at token.Pos, text string, end bool) {
	l.edits = append(l.edits, edit{at: l.offset(at), text: text, end: end, owner: owner})
}

func (l *lister) wrap(owner int, n ast.Node, before, after string) {
	l.edit(owner, n.Pos(), before, false)
	l.edit(owner, n.End(), after, true)
}

// differ turns a condition around.
func (l *lister) differ(id int, n ast.Node) { l.wrap(id, n, "((", ") != mutant(#))") }

// without takes one operand of && or || away.
func (l *lister) without(id int, n ast.Node, op token.Token) {
	if op == token.LAND {
		l.wrap(id, n, "(mutant(#) || (", "))")
	} else {
		l.wrap(id, n, "(!mutant(#) && (", "))")
	}
}

var ordered = map[token.Token]string{token.LSS: "Lss", token.LEQ: "Leq", token.GTR: "Gtr", token.GEQ: "Geq"}

func (l *lister) compare(id int, n *ast.BinaryExpr) {
	name, ok := ordered[n.Op]
	if !ok {
		l.differ(id, n)
		return
	}
	l.wrap(id, n, "mutant"+name+"(#, ", ")")
	l.edit(id, n.OpPos, ", ", false)
	l.edits[len(l.edits)-1].drop = len(n.Op.String())
}

// skip takes a statement away.
func (l *lister) skip(id int, n *ast.IfStmt) {
	if l.elses[n] {
		l.wrap(id, n.Cond, "!mutant(#) && (", ")")
		return
	}
	l.wrap(id, n, "if !mutant(#) { ", " }")
}

// literal adds one to a number.
func (l *lister) literal(n *ast.BasicLit, v int) {
	id := l.add("constant", n.Pos(), n.End(), fmt.Sprint(v+1))
	l.wrap(id, n, "mutantInt[@](#, ", ")")
}

func (l *lister) byValue(n *ast.SwitchStmt) {
	l.groups++
	g := &group{id: l.groups, plain: true, tag: n.Tag != nil}
	used := false
	for _, s := range n.Body.List {
		c := s.(*ast.CaseClause)
		l.clauses[c] = g
		used = used || len(c.List) > 0
	}
	if n.Tag == nil {
		return
	}
	if n.Init != nil || !used {
		g.plain = false
		return
	}
	from := len(l.edits)
	l.wrap(-1, n.Tag, fmt.Sprintf("mutantTag%d := ", g.id), ";")
	for i := range l.edits[from:] {
		l.edits[from+i].group = g.id
	}
}

func (l *lister) byType(n *ast.TypeSwitchStmt) {
	l.groups++
	g := &group{id: l.groups}
	for _, s := range n.Body.List {
		l.clauses[s.(*ast.CaseClause)] = g
	}
	var x ast.Expr
	switch a := n.Assign.(type) {
	case *ast.AssignStmt:
		x = a.Rhs[0].(*ast.TypeAssertExpr).X
	case *ast.ExprStmt:
		x = a.X.(*ast.TypeAssertExpr).X
	}
	if _, ok := x.(*ast.Ident); !ok {
		return
	}
	g.clear = true
	name := l.at(x.Pos(), x.End())
	from := len(l.edits)
	l.edit(-1, x.Pos(), "mutantHide(", false)
	l.edit(-1, x.End(), ", false", false)
	for _, s := range n.Body.List {
		c := s.(*ast.CaseClause)
		if hidden, ok := l.types(name, c.List); ok {
			// The changes of the clause are listed when it is visited: its number is filled in there.
			l.edits = append(l.edits, edit{at: l.offset(x.End()), text: hidden, owner: -2 - l.offset(c.Pos())})
			if len(c.List) > 1 {
				first, _ := l.types(name, c.List[:1])
				l.edits = append(l.edits, edit{at: l.offset(x.End()), text: first, owner: -2 - l.offset(c.List[0].Pos())})
			}
		}
	}
	l.edit(-1, x.End(), ")", false)
	for i := range l.edits[from:] {
		l.edits[from+i].group = g.id
	}
}

func (l *lister) types(x string, list []ast.Expr) (string, bool) {
	var parts []string
	for _, t := range list {
		text := l.at(t.Pos(), t.End())
		if text == "nil" {
			return "", false
		}
		parts = append(parts, "mutantIs["+text+"]("+x+")")
	}
	return " || mutant(#) && (" + strings.Join(parts, " || ") + ")", len(parts) > 0
}

// clause takes a case away, or the first of its values.
func (l *lister) clause(n *ast.CaseClause) {
	g := l.clauses[n]
	if g == nil || len(n.Body) == 0 && n.List == nil {
		return // a default that does nothing
	}
	whole := l.add("case", n.Pos(), n.End(), "")
	first := -1
	if len(n.List) > 1 {
		first = l.add("case", n.List[0].Pos(), n.List[1].Pos(), "")
	}
	if g.clear {
		l.own(whole, n.Pos())
		if first >= 0 {
			l.own(first, n.List[0].Pos())
		}
		return
	}
	if !g.plain {
		return
	}
	from := len(l.edits)
	for i, e := range n.List {
		l.wrap(whole, e, "(!mutant(#) && ", ")")
		if i == 0 && first >= 0 {
			l.wrap(first, e, "(!mutant(#) && ", ")")
		}
		if g.tag {
			l.wrap(-1, e, fmt.Sprintf("mutantTag%d == (", g.id), ")")
		} else {
			l.wrap(-1, e, "(", ")")
		}
	}
	if g.tag {
		for i := range l.edits[from:] {
			l.edits[from+i].group = g.id
		}
	}
}

func (l *lister) own(id int, at token.Pos) {
	for i := range l.edits {
		if l.edits[i].owner == -2-l.offset(at) {
			l.edits[i].owner = id
		}
	}
}

// encode returns the file's text with the changes that numbers has, each under its number,
// and the lines on which something was put in. gone are groups that are left as they are.
func (l *lister) encode(numbers map[int]int, gone map[int]bool, literal map[int]string) string {
	var list []edit
	for i, e := range l.edits {
		if e.group != 0 && gone[e.group] {
			continue
		}
		if e.owner != -1 {
			n, ok := numbers[e.owner]
			if !ok {
				continue
			}
			e.text = strings.ReplaceAll(e.text, "#", fmt.Sprint(n))
			e.text = strings.ReplaceAll(e.text, "@", literal[l.out[e.owner].from])
		}
		e.owner = i // from here on the order of the visit
		list = append(list, e)
	}
	sort.SliceStable(list, func(i, j int) bool {
		a, b := list[i], list[j]
		switch {
		case a.at != b.at:
			return a.at < b.at
		case a.end != b.end:
			return a.end
		case a.end:
			return a.owner > b.owner
		default:
			return a.owner < b.owner
		}
	})
	var out strings.Builder
	at := 0
	for _, e := range list {
		out.WriteString(l.text[at:e.at])
		out.WriteString(e.text)
		at = e.at + e.drop
	}
	out.WriteString(l.text[at:])
	return out.String()
}

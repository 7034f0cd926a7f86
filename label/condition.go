package label

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cantina/fault"
)

// ErrInvalid: a text is no condition, or names no label.
var ErrInvalid = fault.New(fault.ErrInvalid, "invalid condition on labels")

// Zone is the name under which the zone of a cell is one of its labels; Cell is each single cell. No cell has a
// label of these names of its own.
const (
	Zone = "zone"
	Cell = "cell"
)

// Op is the comparison of a condition.
type Op int

// The comparisons. Equal and In hold only on cells with the label; their opposites hold also without it.
const (
	Equal Op = iota
	NotEqual
	In
	NotIn
	Exists
	NotExists
	Version
)

// Condition is one condition on one label of a cell.
type Condition struct {
	Name   string
	Op     Op
	Values []string // of Equal and NotEqual one, of Exists and NotExists none
	Bounds []Bound  // of Version: all must hold
}

// Bound compares a version: the numbers at the beginning of a value, separated by dots. The text after them is
// ignored, and a missing number is 0.
type Bound struct {
	Op      string // <, <=, =, >= or >
	Version string
}

// Examples of all comparisons, for error messages and documents.
const Examples = "disk = ssd, disk != hdd, rack in (a, b), rack not in (a, b), gpu exists, gpu not exists, " +
	"kernel version >= 5.10, < 7"

// Parse reads one condition on the labels of cells.
func Parse(text string) (Condition, error) {
	c, err := parse(text)
	if err == nil && c.Name == Cell {
		return Condition{}, fmt.Errorf("%w: %q: cell is no label; conditions on labels select groups of cells",
			ErrInvalid, text)
	}
	return c, err
}

func parse(text string) (Condition, error) {
	rest := strings.TrimSpace(text)
	n := 0
	for n < len(rest) && nameByte(rest[n]) {
		n++
	}
	c := Condition{Name: rest[:n]}
	bad := func(problem string) (Condition, error) {
		return Condition{}, fmt.Errorf("%w: %q: %s", ErrInvalid, text, problem)
	}
	if err := CheckName(c.Name); err != nil {
		return bad("begins with no name of a label; conditions look like " + Examples)
	}
	op, value := operator(strings.TrimSpace(rest[n:]))
	switch c.Op = op; op {
	case Equal, NotEqual:
		if value == "" {
			return bad("no value after the comparison")
		}
		c.Values = []string{value}
	case In, NotIn:
		if c.Values = list(value); c.Values == nil {
			return bad("needs values in parentheses, like (a, b)")
		}
	case Exists, NotExists:
	case Version:
		if c.Bounds = bounds(value); c.Bounds == nil {
			return bad("needs bounds with <, <=, =, >= or > and a version, like >= 5.10, < 7")
		}
	default:
		return bad("no comparison after the name; conditions look like " + Examples)
	}
	return c, nil
}

// operator splits the comparison off; -1 if there is none.
func operator(s string) (Op, string) {
	if v, ok := strings.CutPrefix(s, "!="); ok {
		return NotEqual, strings.TrimSpace(v)
	}
	if v, ok := strings.CutPrefix(s, "="); ok {
		return Equal, strings.TrimSpace(strings.TrimPrefix(v, "="))
	}
	word, rest, _ := strings.Cut(s, " ")
	if i := strings.IndexAny(word, "(<=>"); i > 0 {
		word, rest = word[:i], s[i:]
	}
	rest = strings.TrimSpace(rest)
	switch {
	case word == "in":
		return In, rest
	case word == "exists" && rest == "":
		return Exists, ""
	case word == "version":
		return Version, rest
	case word == "not":
		if op, rest := operator(rest); op == In || op == Exists {
			return op + 1, rest
		}
	}
	return -1, ""
}

// list reads (a, b); nil if it is none.
func list(s string) []string {
	s, open := strings.CutPrefix(s, "(")
	s, closed := strings.CutSuffix(s, ")")
	if !open || !closed {
		return nil
	}
	out := strings.Split(s, ",")
	for i := range out {
		if out[i] = strings.TrimSpace(out[i]); out[i] == "" || strings.ContainsAny(out[i], "()") {
			return nil
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func bounds(s string) []Bound {
	var out []Bound
	for part := range strings.SplitSeq(s, ",") {
		part = strings.TrimSpace(part)
		op := part[:len(part)-len(strings.TrimLeft(part, "<=>"))]
		b := Bound{Op: op, Version: strings.TrimSpace(part[len(op):])}
		if !slices.Contains([]string{"<", "<=", "=", ">=", ">"}, op) || !versionOnly(b.Version) {
			return nil
		}
		out = append(out, b)
	}
	return out
}

func versionOnly(s string) bool {
	_, rest, ok := numbers(s)
	return ok && rest == ""
}

// String is the canonical text: Parse of it returns the same condition.
func (c Condition) String() string {
	switch c.Op {
	case Equal:
		return c.Name + " = " + c.Values[0]
	case NotEqual:
		return c.Name + " != " + c.Values[0]
	case In:
		return c.Name + " in (" + strings.Join(c.Values, ", ") + ")"
	case NotIn:
		return c.Name + " not in (" + strings.Join(c.Values, ", ") + ")"
	case Exists:
		return c.Name + " exists"
	case NotExists:
		return c.Name + " not exists"
	case Version:
		parts := make([]string, len(c.Bounds))
		for i, b := range c.Bounds {
			parts[i] = b.Op + " " + b.Version
		}
		return c.Name + " version " + strings.Join(parts, ", ")
	}
	return "unknown condition"
}

// Holds reports whether the condition holds on a cell whose label has this value; has is false if it has no such label.
func (c Condition) Holds(value string, has bool) bool {
	switch c.Op {
	case Equal, In:
		return has && slices.Contains(c.Values, value)
	case NotEqual, NotIn:
		return !has || !slices.Contains(c.Values, value)
	case Exists:
		return has
	case NotExists:
		return !has
	case Version:
		return has && !slices.ContainsFunc(c.Bounds, func(b Bound) bool { return !b.holds(value) })
	}
	return false
}

func (b Bound) holds(value string) bool {
	x, _, ok := numbers(value)
	y, _, _ := numbers(b.Version)
	if !ok {
		return false
	}
	for len(x) < len(y) {
		x = append(x, 0)
	}
	for len(y) < len(x) {
		y = append(y, 0)
	}
	sign := slices.Compare(x, y)
	switch b.Op {
	case "<":
		return sign < 0
	case "<=":
		return sign <= 0
	case "=":
		return sign == 0
	case ">=":
		return sign >= 0
	case ">":
		return sign > 0
	}
	return false
}

// numbers reads the numbers at the beginning of a version, after one optional v.
func numbers(s string) (out []int, rest string, ok bool) {
	rest = strings.TrimPrefix(s, "v")
	for {
		n := 0
		for n < len(rest) && rest[n] >= '0' && rest[n] <= '9' {
			n++
		}
		x, err := strconv.Atoi(rest[:n])
		if err != nil {
			return out, rest, false
		}
		out, rest = append(out, x), rest[n:]
		if len(rest) < 2 || rest[0] != '.' || rest[1] < '0' || rest[1] > '9' {
			return out, rest, true
		}
		rest = rest[1:]
	}
}

// CheckName returns ErrInvalid for a text that cannot be the name of a label.
func CheckName(name string) error {
	if name == "" || len(name) > 128 {
		return fmt.Errorf("%w: a label has a name of 1 to 128 letters, digits, '-', '_', '.' and '/'", ErrInvalid)
	}
	for i := range len(name) {
		if !nameByte(name[i]) {
			return fmt.Errorf("%w: %q: the name of a label has letters, digits, '-', '_', '.' and '/'", ErrInvalid, name)
		}
	}
	return nil
}

func nameByte(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || strings.IndexByte("-_./", b) >= 0
}

// ParseAll reads conditions; it returns those that are right, and the first error.
func ParseAll(texts []string) (out []Condition, err error) {
	for _, t := range texts {
		c, bad := Parse(t)
		if bad == nil {
			out = append(out, c)
		} else if err == nil {
			err = bad
		}
	}
	return out, err
}

package spec

import (
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"cantina/internal/text"
)

// decoder fills the field structs from a tree of nodes and collects every
// problem. The same structs make the JSON Schema and the tables of docs/spec.md.
//
// A field is described by its tags: spec:"name" or spec:"name,required"; doc and
// default for the documentation; min and max for integers, minlen for texts and
// lists.
type decoder struct {
	file     string
	problems Problems
	types    map[reflect.Type]*fields
}

// path is the place of a value, from the inside out; printed only for a problem.
type path struct {
	outer *path
	name  string
	index int // used when name is empty
}

func (p *path) String() string {
	if p == nil {
		return ""
	}
	outer := p.outer.String()
	switch {
	case p.name == "":
		return fmt.Sprintf("%s[%d]", outer, p.index)
	case outer == "":
		return p.name
	}
	return outer + "." + p.name
}

// place is embedded in the field structs: it remembers the positions of their values, for problems
// that are found later.
type place struct {
	at   *path
	node *yaml.Node
	keys map[string]*yaml.Node // field name → its value
}

func (p *place) setPlace(q place) { *p = q }

// has reports whether the field was written.
func (p *place) has(field string) bool { return p.keys[field] != nil }

// scalar is a type with its own syntax for a text.
type scalar interface {
	// read returns a description of the error, or "".
	read(n *yaml.Node) (problem, hint string)
	// form is its JSON Schema.
	form() schema
}

// custom is a type that decodes itself.
type custom interface {
	decode(d *decoder, at *path, n *yaml.Node)
	form() schema
}

func (d *decoder) problem(at *path, n *yaml.Node, text, hint string) { d.add(at, n, text, hint, false) }

// meaning reports a problem that only the meaning has.
func (d *decoder) meaning(at *path, n *yaml.Node, text, hint string) { d.add(at, n, text, hint, true) }

func (d *decoder) add(at *path, n *yaml.Node, text, hint string, semantic bool) {
	p := Problem{File: d.file, Path: at.String(), Text: text, Hint: hint, Semantic: semantic}
	if n != nil {
		p.Line, p.Column = n.Line, n.Column
	}
	d.problems.add(p)
}

// field reports a problem of a field of a decoded struct.
func (d *decoder) field(p *place, name, text, hint string) {
	n := p.keys[name]
	if n == nil {
		n = p.node
	}
	d.meaning(&path{outer: p.at, name: name}, n, text, hint)
}

var (
	customType = reflect.TypeFor[custom]()
	scalarType = reflect.TypeFor[scalar]()
)

// value decodes n into v, which is addressable.
func (d *decoder) value(at *path, n *yaml.Node, v reflect.Value, tag reflect.StructTag) {
	t := v.Type()
	switch {
	case reflect.PointerTo(t).Implements(customType):
		v.Addr().Interface().(custom).decode(d, at, n)
	case reflect.PointerTo(t).Implements(scalarType):
		d.scalar(at, n, v.Addr().Interface().(scalar))
	case t.Kind() == reflect.Pointer:
		v.Set(reflect.New(t.Elem()))
		d.value(at, n, v.Elem(), tag)
	case t.Kind() == reflect.Struct:
		d.object(at, n, v)
	case t.Kind() == reflect.Slice:
		d.list(at, n, v, tag)
	default:
		d.plain(at, n, v, tag)
	}
}

func (d *decoder) scalar(at *path, n *yaml.Node, s scalar) {
	if n.Kind != yaml.ScalarNode {
		d.problem(at, n, fmt.Sprintf("must be %s, not %s", s.form().words, kindOf(n)), "")
		return
	}
	if problem, hint := s.read(n); problem != "" {
		d.problem(at, n, problem, hint)
	}
}

func (d *decoder) plain(at *path, n *yaml.Node, v reflect.Value, tag reflect.StructTag) {
	switch v.Kind() {
	case reflect.String:
		if !isText(n) {
			d.problem(at, n, "must be a string, not "+kindOf(n), quoteHint(n))
			return
		}
		if min, _ := strconv.Atoi(tag.Get("minlen")); len(n.Value) < min {
			d.problem(at, n, "must not be empty", "")
			return
		}
		if !noNUL(n.Value) {
			d.meaning(at, n, "must not contain a NUL byte", "")
			return
		}
		v.SetString(n.Value)
	case reflect.Bool:
		if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!bool" {
			d.problem(at, n, "must be true or false, not "+kindOf(n), "")
			return
		}
		v.SetBool(strings.EqualFold(n.Value, "true"))
	case reflect.Int:
		d.integer(at, n, v, tag)
	case reflect.Float64:
		x, err := strconv.ParseFloat(n.Value, 64)
		if tag := n.ShortTag(); n.Kind != yaml.ScalarNode || tag != "!!int" && tag != "!!float" || err != nil || x != x ||
			x-x != 0 {
			d.problem(at, n, "must be a number, not "+kindOf(n), "")
			return
		}
		v.SetFloat(x)
	default:
		panic("spec: no rule for fields of type " + v.Type().String())
	}
}

var decimal = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)

func (d *decoder) integer(at *path, n *yaml.Node, v reflect.Value, tag reflect.StructTag) {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" || !decimal.MatchString(n.Value) {
		d.problem(at, n, "must be a whole number, not "+kindOf(n), "")
		return
	}
	low, high := bounds(tag)
	x, err := strconv.ParseInt(n.Value, 10, 64)
	if err != nil || x < low || x > high {
		d.problem(at, n, fmt.Sprintf("must be from %d to %d", low, high), "")
		return
	}
	v.SetInt(x)
}

func bounds(tag reflect.StructTag) (low, high int64) {
	high = 1 << 31
	if s := tag.Get("min"); s != "" {
		low, _ = strconv.ParseInt(s, 10, 64)
	}
	if s := tag.Get("max"); s != "" {
		high, _ = strconv.ParseInt(s, 10, 64)
	}
	return low, high
}

func (d *decoder) list(at *path, n *yaml.Node, v reflect.Value, tag reflect.StructTag) {
	if n.Kind != yaml.SequenceNode {
		d.problem(at, n, "must be a list, not "+kindOf(n), "")
		return
	}
	if min, _ := strconv.Atoi(tag.Get("minlen")); len(n.Content) < min {
		d.problem(at, n, "must not be empty", "")
		return
	}
	out := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, item := range n.Content {
		d.value(&path{outer: at, index: i}, item, out.Index(i), "")
	}
	v.Set(out)
}

// object decodes a mapping with known fields into a struct.
func (d *decoder) object(at *path, n *yaml.Node, v reflect.Value) {
	if n.Kind != yaml.MappingNode {
		d.problem(at, n, "must be a mapping, not "+kindOf(n), longForm(v.Type(), n))
		return
	}
	fields := d.fields(v.Type())
	keys := make(map[string]*yaml.Node, len(n.Content)/2)
	d.pairs(at, n, func(key, val *yaml.Node) {
		f, ok := fields.byName[key.Value]
		if !ok {
			d.problem(at, key, fmt.Sprintf("unknown field %q", text.Shorten(key.Value, 60)), fields.like(key.Value))
			return
		}
		keys[key.Value] = val
		d.value(&path{outer: at, name: key.Value}, val, v.FieldByIndex(f.index), f.tag)
	})
	for _, name := range fields.required {
		if keys[name] == nil {
			d.problem(at, n, "field "+name+" is missing", "")
		}
	}
	if p, ok := v.Addr().Interface().(interface{ setPlace(place) }); ok {
		p.setPlace(place{at: at, node: n, keys: keys})
	}
}

// pairs walks a mapping and refuses keys that are not plain texts or that occur twice.
func (d *decoder) pairs(at *path, n *yaml.Node, each func(key, val *yaml.Node)) {
	seen := make(map[string]int, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, val := n.Content[i], n.Content[i+1]
		switch first, twice := seen[key.Value]; {
		case key.Kind != yaml.ScalarNode:
			d.problem(at, key, "a key must be a string, not "+kindOf(key), "")
		case key.ShortTag() == "!!merge":
			d.problem(at, key, "merge keys are not supported", "write out the fields, or use an alias for a whole value")
		case twice:
			d.problem(at, key, fmt.Sprintf("duplicate key %q", text.Shorten(key.Value, 60)),
				fmt.Sprintf("first used in line %d", first))
		default:
			seen[key.Value] = key.Line
			each(key, val)
		}
	}
}

// kindOf describes the kind of a node.
func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.ScalarNode:
		switch n.ShortTag() {
		case "!!null":
			return "nothing"
		case "!!bool", "!!int", "!!float":
			return n.Value
		}
		return strconv.Quote(text.Shorten(n.Value, 60))
	}
	return "this"
}

// isText reports whether the node is a text and would be one for other readers of
// YAML too.
func isText(n *yaml.Node) bool {
	if n.Kind != yaml.ScalarNode {
		return false
	}
	tag := n.ShortTag()
	return tag == "!!str" || tag == "!!timestamp"
}

func quoteHint(n *yaml.Node) string {
	if n.Kind == yaml.ScalarNode && n.ShortTag() != "!!null" {
		return fmt.Sprintf("use %q", text.Shorten(n.Value, 60))
	}
	return ""
}

func noNUL(s string) bool { return strings.IndexByte(s, 0) < 0 }

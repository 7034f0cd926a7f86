package spec

import (
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"

	"cantina/internal/text"
	"cantina/lrp"
)

// fields describes a field struct; those of embedded structs count as its own.
type fields struct {
	byName   map[string]fieldInfo
	names    []string // in order of declaration
	required []string
}

type fieldInfo struct {
	index []int
	typ   reflect.Type
	tag   reflect.StructTag
}

func (d *decoder) fields(t reflect.Type) *fields {
	if f := d.types[t]; f != nil {
		return f
	}
	f := fieldsOf(t)
	d.types[t] = f
	return f
}

func fieldsOf(t reflect.Type) *fields {
	out := &fields{byName: map[string]fieldInfo{}}
	for _, f := range reflect.VisibleFields(t) {
		tag := f.Tag.Get("spec")
		if tag == "" || f.Anonymous {
			continue
		}
		name, required, _ := strings.Cut(tag, ",")
		out.byName[name] = fieldInfo{index: f.Index, typ: f.Type, tag: f.Tag}
		out.names = append(out.names, name)
		if required != "" {
			out.required = append(out.required, name)
		}
	}
	return out
}

// entry is one pair of a map whose keys the user chooses.
type entry[T any] struct {
	key   string
	node  *yaml.Node // of the key
	at    *path
	value T
}

// named is a map whose keys are names (lrp.NameRule). It keeps the file's order.
type named[T any] []entry[T]

// namePattern is lrp.ValidName as a regular expression.
const namePattern = `^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`

func (m *named[T]) decode(d *decoder, at *path, n *yaml.Node) {
	*m = entries[T](d, at, n, func(key string) string {
		if !lrp.ValidName(key) {
			return lrp.NameRule
		}
		return ""
	})
}

func (m *named[T]) form() schema { return mapOf(reflect.TypeFor[T](), namePattern) }

// free is a map whose keys may be any text except the empty one. It keeps the file's order.
type free[T any] []entry[T]

func (m *free[T]) decode(d *decoder, at *path, n *yaml.Node) {
	*m = entries[T](d, at, n, func(key string) string {
		if key == "" {
			return "a key must not be empty"
		}
		return ""
	})
}

func (m *free[T]) form() schema { return mapOf(reflect.TypeFor[T](), `.`) }

// variables is the environment: keys are names of variables.
type variables []entry[literal]

const variablePattern = `^[^=]+$`

func (m *variables) decode(d *decoder, at *path, n *yaml.Node) {
	*m = entries[literal](d, at, n, func(key string) string {
		if key == "" || strings.Contains(key, "=") {
			return "a variable name must not be empty or contain '='"
		}
		return ""
	})
}

func (m *variables) form() schema { return mapOf(reflect.TypeFor[literal](), variablePattern) }

func entries[T any](d *decoder, at *path, n *yaml.Node, wrong func(key string) string) []entry[T] {
	if n.Kind != yaml.MappingNode {
		d.problem(at, n, "must be a mapping, not "+kindOf(n), "")
		return nil
	}
	out := make([]entry[T], 0, len(n.Content)/2)
	d.pairs(at, n, func(key, val *yaml.Node) {
		if w := wrong(key.Value); w != "" {
			d.problem(at, key, w, "")
			return
		}
		if !noNUL(key.Value) {
			d.meaning(at, key, "must not contain a NUL byte", "")
			return
		}
		e := entry[T]{key: key.Value, node: key, at: &path{outer: at, name: text.Shorten(key.Value, 60)}}
		d.value(e.at, val, reflect.ValueOf(&e.value).Elem(), "")
		out = append(out, e)
	})
	return out
}

func mapOf(t reflect.Type, keys string) schema {
	return schema{words: "a mapping", json: map[string]any{
		"type": "object", "propertyNames": map[string]any{"pattern": keys}, "additionalProperties": refTo(t),
	}}
}

package spec

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
)

// schema is the JSON Schema of a type, and its name in an error.
type schema struct {
	words string
	json  map[string]any
}

// Schema returns the JSON Schema (draft 2020-12) of a spec file, for editors. It is made from the
// parser's types; it does not include semantic checks (that a port exists, that an amount fits).
func Schema() []byte {
	s := &schemas{defs: map[string]any{}, done: map[string]bool{}}
	root := s.object(reflect.TypeFor[file]())
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "cantina.yaml"
	root["description"] = "What an owner wants of one domain of cantina."
	s.collect(root)
	root["$defs"] = s.defs
	out, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		panic("spec: the schema is not JSON: " + err.Error())
	}
	return append(out, '\n')
}

// ref marks a type whose schema is under $defs; collect replaces it.
type ref struct{ typ reflect.Type }

// refTo refers to the schema of a type.
func refTo(t reflect.Type) any { return ref{t} }

type schemas struct {
	defs map[string]any
	done map[string]bool
}

// collect replaces the refs in v by JSON references and makes their targets.
func (s *schemas) collect(v any) {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			if r, ok := x.(ref); ok {
				v[k] = s.resolve(r.typ)
			} else {
				s.collect(x)
			}
		}
	case []any:
		for i, x := range v {
			if r, ok := x.(ref); ok {
				v[i] = s.resolve(r.typ)
			} else {
				s.collect(x)
			}
		}
	}
}

func (s *schemas) resolve(t reflect.Type) map[string]any {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	name := defName(t)
	if name == "" {
		out := s.of(t, "")
		s.collect(out)
		return out
	}
	if !s.done[name] {
		s.done[name] = true
		out := s.of(t, "")
		s.defs[name] = out
		s.collect(out)
	}
	return map[string]any{"$ref": "#/$defs/" + name}
}

// defName is the name under $defs; unnamed and generic types are included in place.
func defName(t reflect.Type) string {
	if t.PkgPath() == "" || strings.Contains(t.Name(), "[") {
		return ""
	}
	return t.Name()
}

func (s *schemas) of(t reflect.Type, tag reflect.StructTag) map[string]any {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	zero := reflect.New(t).Interface()
	switch z := zero.(type) {
	case custom:
		return z.form().json
	case scalar:
		return z.form().json
	}
	switch t.Kind() {
	case reflect.Struct:
		return s.object(t)
	case reflect.Slice:
		out := map[string]any{"type": "array", "items": refTo(t.Elem())}
		if min := tag.Get("minlen"); min != "" {
			out["minItems"], _ = strconv.Atoi(min)
		}
		return out
	case reflect.String:
		out := map[string]any{"type": "string"}
		if min := tag.Get("minlen"); min != "" {
			out["minLength"], _ = strconv.Atoi(min)
		}
		return out
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int:
		low, high := bounds(tag)
		return map[string]any{"type": "integer", "minimum": low, "maximum": high}
	case reflect.Float64:
		return map[string]any{"type": "number"}
	}
	panic("spec: no schema for fields of type " + t.String())
}

func (s *schemas) object(t reflect.Type) map[string]any {
	f := fieldsOf(t)
	props := make(map[string]any, len(f.names))
	for _, name := range f.names {
		props[name] = fieldSchema(f.byName[name])
	}
	out := map[string]any{"type": "object", "properties": props, "additionalProperties": false}
	if len(f.required) > 0 {
		out["required"] = anys(f.required)
	}
	return out
}

// fieldSchema is the schema of a field with its documentation.
func fieldSchema(f fieldInfo) map[string]any {
	t := f.typ
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	out := map[string]any{}
	if defName(t) != "" {
		out["allOf"] = []any{refTo(t)}
	} else {
		out = (&schemas{}).of(t, f.tag)
	}
	if doc := f.tag.Get("doc"); doc != "" {
		out["description"] = doc
	}
	return out
}

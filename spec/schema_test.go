package spec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"
)

// The documentation that is made from the field structs. CANTINA_UPDATE=1 writes
// it; otherwise the test compares.
func TestSchemaAndTablesAreUpToDate(t *testing.T) {
	page := "../docs/spec.md"
	old, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- tables: begin -->\n", "<!-- tables: end -->"
	before, rest, ok1 := strings.Cut(string(old), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatal("docs/spec.md has lost its marks")
	}
	for path, want := range map[string][]byte{
		page:                          []byte(before + begin + tables() + end + after),
		"../docs/cantina.schema.json": Schema(),
	} {
		got, _ := os.ReadFile(path)
		if bytes.Equal(got, want) {
			continue
		}
		if os.Getenv("CANTINA_UPDATE") == "" {
			t.Errorf("%s is old: run CANTINA_UPDATE=1 go test ./spec", path)
			continue
		}
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// tables prints a table for each field struct, in the order in which they are met.
func tables() string {
	var b strings.Builder
	common := fieldsOf(reflect.TypeFor[workload]())
	queue := []reflect.Type{reflect.TypeFor[file](), reflect.TypeFor[workload]()}
	seen := map[reflect.Type]bool{}
	title := map[string]string{"file": "The file", "oneTask": "tasks.NAME", "service": "services.NAME", "job": "jobs.NAME",
		"scheduled": "schedules.NAME", "workload": "Common to services, tasks and jobs",
		"step": "A step of action, setup, monitor and sidecars (exactly one)"}
	for len(queue) > 0 {
		t := queue[0]
		queue = queue[1:]
		if seen[t] {
			continue
		}
		seen[t] = true
		name := title[t.Name()]
		if name == "" {
			name = "`" + t.Name() + "`"
		}
		fmt.Fprintf(&b, "\n### %s\n\n", name)
		if _, ok := t.FieldByName("workload"); ok {
			b.WriteString("In addition to the common fields:\n\n")
		}
		fmt.Fprintf(&b, "| field | value | default | meaning |\n|---|---|---|---|\n")
		f := fieldsOf(t)
		for _, field := range f.names {
			info := f.byName[field]
			if _, shared := common.byName[field]; shared && len(info.index) > 1 {
				continue
			}
			words, next := wordsFor(info.typ)
			queue = append(queue, next...)
			def := info.tag.Get("default")
			for _, r := range f.required {
				if r == field {
					def = "required"
				}
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", field, words, def, info.tag.Get("doc"))
		}
	}
	return b.String()
}

// wordsFor returns the content of a field and the structs that it leads to.
func wordsFor(t reflect.Type) (string, []reflect.Type) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t {
	case reflect.TypeFor[tree]():
		return "a step", []reflect.Type{reflect.TypeFor[step]()}
	case reflect.TypeFor[trees]():
		return "list of steps", []reflect.Type{reflect.TypeFor[step]()}
	case reflect.TypeFor[manual]():
		return "list of names or `node`, or mapping of names to lists of children", []reflect.Type{reflect.TypeFor[node]()}
	case reflect.TypeFor[variables]():
		return "mapping of names to strings", nil
	}
	if t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct {
		if value, ok := t.Elem().FieldByName("value"); ok { // named, free
			w, next := wordsFor(value.Type)
			return "mapping of names to: " + w, next
		}
	}
	switch z := reflect.New(t).Interface().(type) {
	case custom:
		return z.form().words, nil
	case scalar:
		return z.form().words, nil
	}
	switch t.Kind() {
	case reflect.Struct:
		return "`" + t.Name() + "`", []reflect.Type{t}
	case reflect.Slice:
		w, next := wordsFor(t.Elem())
		return "list: " + w, next
	case reflect.Bool:
		return "true or false", nil
	case reflect.Int:
		return "whole number", nil
	case reflect.Float64:
		return "number", nil
	}
	return "string", nil
}

// TestSchemaAgreesWithParser makes files that are nearly right and demands that
// the schema accepts exactly those in which the parser finds nothing wrong with the
// form.
func TestSchemaAgreesWithParser(t *testing.T) {
	var schema map[string]any
	if err := json.Unmarshal(Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	v := &validator{root: schema}
	text, err := os.ReadFile("testdata/demo.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var demo any
	if err := yaml.Unmarshal(text, &demo); err != nil {
		t.Fatal(err)
	}
	if err := v.check(schema, demo); err != nil {
		t.Fatalf("the demo file: %v", err)
	}
	accepted, refused := 0, 0
	property := func(rt *rapid.T) {
		var doc any = object(rt, reflect.TypeFor[file](), 0)
		for range rapid.IntRange(0, 2).Draw(rt, "damages") {
			doc = damage(rt, doc, 0)
		}
		j, err := json.Marshal(doc)
		if err != nil {
			rt.Fatal(err)
		}
		form := formProblems(j)
		var plain any
		dec := json.NewDecoder(bytes.NewReader(j))
		dec.UseNumber()
		if err := dec.Decode(&plain); err != nil {
			rt.Fatal(err)
		}
		said := v.check(schema, plain)
		if (said == nil) != (len(form) == 0) {
			rt.Fatalf("%s\nparser: %v\nschema: %v", j, form, said)
		}
		if said == nil {
			accepted++
		} else {
			refused++
		}
	}
	// The short form draws a few files at a time: on until some were of either kind.
	for round := 0; round == 0 || round < 20 && (accepted == 0 || refused == 0); round++ {
		rapid.Check(t, property)
	}
	if accepted == 0 || refused == 0 {
		t.Fatalf("%d accepted and %d refused: the test does not test", accepted, refused)
	}
}

// formProblems are the problems that a schema could see.
func formProblems(text []byte) (out []Problem) {
	_, err := Parse("f", "/base", text, testTimes())
	if p, ok := err.(*Problems); ok {
		for _, one := range p.List {
			if !one.Semantic {
				out = append(out, one)
			}
		}
	}
	return out
}

// object draws a value for a field struct, most of the time a right one.
func object(rt *rapid.T, t reflect.Type, depth int) map[string]any {
	f := fieldsOf(t)
	out := map[string]any{}
	for _, name := range f.names {
		must := false
		for _, r := range f.required {
			must = must || r == name
		}
		if must || depth < 4 && rapid.IntRange(0, 5).Draw(rt, name) == 0 {
			out[name] = value(rt, f.byName[name].typ, depth+1)
		}
	}
	return out
}

func value(rt *rapid.T, t reflect.Type, depth int) any {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	one := func(vs ...any) any { return rapid.SampledFrom(vs).Draw(rt, t.String()) }
	if t.Kind() == reflect.Struct && strings.HasPrefix(t.Name(), "enum[") {
		e := reflect.New(t).Interface().(scalar).form().json["enum"].([]any)
		return one(append(e, "nonsense")...)
	}
	switch t {
	case reflect.TypeFor[command]():
		return one("echo", "", []any{"a", "b"}, []any{}, []any{""}, []any{"sleep", 10}, []any{"x", true}, []any{nil})
	case reflect.TypeFor[argv]():
		return one([]any{"a"}, []any{}, "a", []any{1.5})
	case reflect.TypeFor[tree]():
		return step1(rt, depth)
	case reflect.TypeFor[trees]():
		return []any{step1(rt, depth)}
	case reflect.TypeFor[size]():
		return one("64Mi", "1.5G", "64", 64, "1KB", "99999999999Mi", "")
	case reflect.TypeFor[duration]():
		return one("10s", "1h30m", "10", 10, "1y", "2w", "", "-1s")
	case reflect.TypeFor[processors]():
		return one(1, 0.5, "500m", "0.5", -1, 20000, "m", 0)
	case reflect.TypeFor[signal](), reflect.TypeFor[parentDeath]():
		return one("TERM", "none", "SIGTERM", 15)
	case reflect.TypeFor[literal]():
		return one("a", "", 1, 1.5, true, nil, []any{})
	case reflect.TypeFor[amount]():
		return one(0, 1, -1, 1.5, "1")
	case reflect.TypeFor[backoff]():
		return one([]any{"1s", "repeat"}, []any{}, []any{"fail"}, []any{1}, "1s", []any{"1s", "again"})
	case reflect.TypeFor[manual]():
		return one([]any{"a", map[string]any{"name": "b", "tags": []any{"t"}}}, map[string]any{"a": []any{"b"}},
			map[string]any{"a": nil}, []any{""}, []any{1}, "a", map[string]any{"": []any{}}, []any{})
	case reflect.TypeFor[variables]():
		return one(map[string]any{"A": "b", "C": 1}, map[string]any{"A=": "b"}, map[string]any{"": "b"},
			map[string]any{"A": nil}, []any{})
	case reflect.TypeFor[calendar]():
		return one("@every 90s", "0 2 * * *", "61 * * * *", "", map[string]any{"epoch": map[string]any{"period": 60}},
			map[string]any{"x": 1.5}, 1, nil, []any{})
	}
	if t.Kind() == reflect.Slice {
		if t.Elem().Kind() == reflect.Struct {
			if v, ok := t.Elem().FieldByName("value"); ok {
				key := one("a", "b-1", "host", "c/d", "").(string)
				return map[string]any{key: value(rt, v.Type, depth)}
			}
		}
		return []any{value(rt, t.Elem(), depth)}
	}
	switch t.Kind() {
	case reflect.Struct:
		return object(rt, t, depth)
	case reflect.String:
		return one("text", "/x", "", 1, true, nil)
	case reflect.Bool:
		return one(true, false, "true", 1)
	case reflect.Int:
		return one(1, 2, 0, -1, -2, 70000, 3_000_000_000, 1.5, "1")
	case reflect.Float64:
		return one(0.5, 1, -1, "1", nil)
	}
	rt.Fatalf("no value for %v", t)
	return nil
}

func step1(rt *rapid.T, depth int) any {
	if depth > 5 {
		return map[string]any{"run": map[string]any{"command": "x"}}
	}
	f := fieldsOf(reflect.TypeFor[step]())
	name := rapid.SampledFrom(f.names).Draw(rt, "kind")
	out := map[string]any{name: value(rt, f.byName[name].typ, depth+1)}
	if rapid.IntRange(0, 9).Draw(rt, "second kind") == 0 {
		out["upload"] = map[string]any{"from": "a", "to": "b"}
	}
	return out
}

// damage changes one place of a document.
func damage(rt *rapid.T, doc any, depth int) any {
	if depth > 12 || rapid.IntRange(0, 4).Draw(rt, "here") == 0 && depth > 0 {
		return rapid.SampledFrom([]any{nil, 1, -1.5, "text", "", true, []any{}, []any{"a"}, map[string]any{},
			map[string]any{"x": 1}}).Draw(rt, "damage")
	}
	switch doc := doc.(type) {
	case map[string]any:
		if len(doc) == 0 || rapid.IntRange(0, 5).Draw(rt, "add") == 0 {
			doc[rapid.SampledFrom([]string{"comand", "name", "", "instances"}).Draw(rt, "key")] = 1
			return doc
		}
		keys := make([]string, 0, len(doc))
		for k := range doc {
			keys = append(keys, k)
		}
		k := rapid.SampledFrom(slices.Sorted(slices.Values(keys))).Draw(rt, "into")
		doc[k] = damage(rt, doc[k], depth+1)
		return doc
	case []any:
		if len(doc) == 0 {
			return []any{1}
		}
		i := rapid.IntRange(0, len(doc)-1).Draw(rt, "item")
		doc[i] = damage(rt, doc[i], depth+1)
		return doc
	}
	return rapid.SampledFrom([]any{nil, 0, "x", false}).Draw(rt, "leaf")
}

// validator checks a document against the keywords that Schema uses.
type validator struct{ root map[string]any }

func (v *validator) check(s map[string]any, doc any) error {
	for keyword, arg := range s {
		if err := v.keyword(keyword, arg, s, doc); err != nil {
			return err
		}
	}
	return nil
}

func (v *validator) keyword(keyword string, arg any, s map[string]any, doc any) error {
	no := func(why string) error { return fmt.Errorf("%s: %v against %v", why, doc, arg) }
	switch keyword {
	case "$schema", "title", "description", "$defs":
	case "$ref":
		name := strings.TrimPrefix(arg.(string), "#/$defs/")
		return v.check(v.root["$defs"].(map[string]any)[name].(map[string]any), doc)
	case "allOf":
		for _, x := range arg.([]any) {
			if err := v.check(x.(map[string]any), doc); err != nil {
				return err
			}
		}
	case "anyOf":
		for _, x := range arg.([]any) {
			if v.check(x.(map[string]any), doc) == nil {
				return nil
			}
		}
		return no("none of")
	case "not":
		if v.check(arg.(map[string]any), doc) == nil {
			return no("not")
		}
	case "type":
		types, ok := arg.([]any)
		if !ok {
			types = []any{arg}
		}
		for _, t := range types {
			if hasType(t.(string), doc) {
				return nil
			}
		}
		return no("type")
	case "enum":
		for _, x := range arg.([]any) {
			if x == doc {
				return nil
			}
		}
		return no("enum")
	case "properties", "additionalProperties":
		return v.members(keyword, arg, s, doc)
	case "propertyNames":
		m, _ := doc.(map[string]any)
		for k := range m {
			if err := v.check(arg.(map[string]any), k); err != nil {
				return err
			}
		}
	case "required":
		m, ok := doc.(map[string]any)
		for _, k := range arg.([]any) {
			if _, has := m[k.(string)]; ok && !has {
				return no("required")
			}
		}
	case "items":
		list, _ := doc.([]any)
		for _, x := range list {
			if err := v.check(arg.(map[string]any), x); err != nil {
				return err
			}
		}
	case "minItems":
		if list, ok := doc.([]any); ok && len(list) < int(arg.(float64)) {
			return no("minItems")
		}
	case "minLength", "maxLength":
		if str, ok := doc.(string); ok && (keyword == "minLength" && len(str) < int(arg.(float64)) ||
			keyword == "maxLength" && len(str) > int(arg.(float64))) {
			return no(keyword)
		}
	case "pattern":
		if str, ok := doc.(string); ok && !regexp.MustCompile(arg.(string)).MatchString(str) {
			return no("pattern")
		}
	case "minimum", "maximum":
		if n, ok := number(doc); ok && (keyword == "minimum" && n < arg.(float64) || keyword == "maximum" &&
			n > arg.(float64)) {
			return no(keyword)
		}
	default:
		return fmt.Errorf("the schema uses a keyword that is not checked: %s", keyword)
	}
	return nil
}

func (v *validator) members(keyword string, arg any, s map[string]any, doc any) error {
	m, _ := doc.(map[string]any)
	props, _ := s["properties"].(map[string]any)
	for k, x := range m {
		p, known := props[k].(map[string]any)
		switch {
		case keyword == "properties" && known:
			if err := v.check(p, x); err != nil {
				return fmt.Errorf("%s: %w", k, err)
			}
		case keyword == "additionalProperties" && !known:
			if arg == false {
				return fmt.Errorf("unknown %s", k)
			}
			if err := v.check(arg.(map[string]any), x); err != nil {
				return fmt.Errorf("%s: %w", k, err)
			}
		}
	}
	return nil
}

func number(doc any) (float64, bool) {
	switch n := doc.(type) {
	case json.Number:
		f, err := n.Float64()
		return f, err == nil
	case int:
		return float64(n), true
	case float64:
		return n, true
	}
	return 0, false
}

func hasType(t string, doc any) bool {
	n, isNumber := number(doc)
	switch t {
	case "object":
		_, ok := doc.(map[string]any)
		return ok
	case "array":
		_, ok := doc.([]any)
		return ok
	case "string":
		_, ok := doc.(string)
		return ok
	case "boolean":
		_, ok := doc.(bool)
		return ok
	case "number":
		return isNumber
	case "integer":
		return isNumber && n == float64(int64(n))
	}
	return false
}

func FuzzParse(f *testing.F) {
	demo, _ := os.ReadFile("testdata/demo.yaml")
	f.Add(demo)
	for _, c := range wrong {
		f.Add([]byte(c.text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := Parse("f", "/base", text, testTimes())
		if (file == nil) == (err == nil) {
			t.Fatalf("%v and %v", file, err)
		}
		if p, ok := err.(*Problems); ok {
			for _, one := range p.List {
				if one.Line < 0 || one.Text == "" {
					t.Fatalf("%+v", one)
				}
			}
		}
	})
}

// Package differ lists the fields in which two definitions differ, for people: plan and apply of
// every kind of work use it. It never shows values that may be secret: values of variables, and
// credentials and queries of URLs (action.Shown). (Decision 0805.)
package differ

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"cantina/action"
	"cantina/internal/text"
)

// Field is one field that differs; Old or New is empty when it was not set.
type Field struct{ Path, Old, New string }

// maxFields limits the listed fields; the last one then counts the rest.
const maxFields = 200

// Fields lists the fields in which two values of one type differ, by their paths in small
// letters, below path, in order.
func Fields(path string, was, is any) []Field {
	var out []Field
	compare(path, reflect.ValueOf(was), reflect.ValueOf(is), &out)
	if more := len(out) - maxFields; more > 0 {
		out = append(out[:maxFields:maxFields], Field{Path: "…", New: fmt.Sprintf("%d more", more)})
	}
	return out
}

func compare(path string, a, b reflect.Value, out *[]Field) {
	switch {
	case !a.IsValid() || !b.IsValid():
		if a.IsValid() || b.IsValid() {
			*out = append(*out, differing(path, a, b))
		}
	case isNone(a) && isNone(b):
	case a.Kind() == reflect.Pointer:
		compare(path, a.Elem(), b.Elem(), out)
	case a.Kind() == reflect.Struct && a.NumField() > 0 && a.Type().Field(0).IsExported() &&
		a.Type() != reflect.TypeFor[action.Variable]():
		for i := range a.NumField() {
			field := a.Type().Field(i).Name
			from := len(*out)
			compare(join(path, snake(field)), a.Field(i), b.Field(i), out)
			if was, is := word(a, field), word(b, field); len(*out) == from+1 && was+is != "" {
				f := &(*out)[from]
				f.Old, f.New = cmp.Or(was, f.Old), cmp.Or(is, f.New)
			}
		}
	case a.Kind() == reflect.Map:
		compareMaps(path, a, b, out)
	case bearNames(a, b):
		compareNamed(path, a, b, out)
	case a.Kind() == reflect.Slice && a.Type().Elem().Kind() == reflect.Struct:
		for i := range max(a.Len(), b.Len()) {
			compare(fmt.Sprintf("%s[%d]", path, i), at(a, i), at(b, i), out)
		}
	case !reflect.DeepEqual(a.Interface(), b.Interface()):
		*out = append(*out, differing(path, a, b))
	}
}

// Worded is a struct with fields whose numbers have a special meaning, such as -1 for "never".
// FieldWord is the readable value of a field, by its Go name; empty = the plain value.
type Worded interface{ FieldWord(field string) string }

func word(v reflect.Value, field string) string {
	if w, ok := v.Interface().(Worded); ok {
		return w.FieldWord(field)
	}
	return ""
}

// differing is a field with two values. If they differ only in hidden parts, only that is
// reported.
func differing(path string, a, b reflect.Value) Field {
	f := Field{path, printed(a), printed(b)}
	if f.Old == f.New && strings.Contains(f.New, action.Secret) {
		f.New = strings.ReplaceAll(f.New, action.Secret, "[another secret]")
	}
	return f
}

// isNone reports an empty list or map: no list and an empty one are equal.
func isNone(v reflect.Value) bool {
	return (v.Kind() == reflect.Slice || v.Kind() == reflect.Map) && v.Len() == 0
}

func compareMaps(path string, a, b reflect.Value, out *[]Field) {
	keys := map[string]reflect.Value{}
	for _, m := range []reflect.Value{a, b} {
		for _, k := range m.MapKeys() {
			keys[fmt.Sprint(k.Interface())] = k
		}
	}
	names := make([]string, 0, len(keys))
	for n := range keys {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		compare(join(path, n), a.MapIndex(keys[n]), b.MapIndex(keys[n]), out)
	}
}

// nameField is the field by which people know an element of a list.
const nameField = "Name"

// bearNames reports whether two lists identify their elements by name, and common elements are in
// the same order: then a change is reported by the name instead of the position.
func bearNames(a, b reflect.Value) bool {
	if a.Kind() != reflect.Slice || a.Type().Elem().Kind() != reflect.Struct {
		return false
	}
	if f, ok := a.Type().Elem().FieldByName(nameField); !ok || f.Type.Kind() != reflect.String {
		return false
	}
	was, is := names(a), names(b)
	for _, list := range [][]string{was, is} {
		if sorted := slices.Sorted(slices.Values(list)); len(slices.Compact(sorted)) < len(list) ||
			slices.Contains(list, "") {
			return false
		}
	}
	only := func(list, other []string) []string {
		return slices.DeleteFunc(slices.Clone(list), func(n string) bool { return !slices.Contains(other, n) })
	}
	return slices.Equal(only(was, is), only(is, was))
}

func names(v reflect.Value) []string {
	out := make([]string, v.Len())
	for i := range out {
		out[i] = v.Index(i).FieldByName(nameField).String()
	}
	return out
}

func compareNamed(path string, a, b reflect.Value, out *[]Field) {
	was, is := names(a), names(b)
	for i, n := range was {
		compare(fmt.Sprintf("%s[%s]", path, n), a.Index(i), at(b, slices.Index(is, n)), out)
	}
	for i, n := range is {
		if !slices.Contains(was, n) {
			compare(fmt.Sprintf("%s[%s]", path, n), reflect.Value{}, b.Index(i), out)
		}
	}
}

func at(v reflect.Value, i int) reflect.Value {
	if i >= 0 && i < v.Len() {
		return v.Index(i)
	}
	return reflect.Value{}
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// maxText bounds a value in bytes.
const maxText = 200

// printed is a value as people read it; an absent one is empty.
func printed(v reflect.Value) string {
	if !v.IsValid() || v.IsZero() && v.Kind() != reflect.Bool && v.Kind() != reflect.Int {
		return ""
	}
	s := show(v)
	if v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.String {
		s = s[1 : len(s)-1]
	}
	return text.Shorten(s, maxText)
}

// show is the readable form of a value: of a struct the fields that are set, by name.
func show(v reflect.Value) string {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return ""
		}
		return show(v.Elem())
	}
	if v.CanInterface() {
		switch x := v.Interface().(type) {
		case action.Variable:
			return fmt.Sprint(x)
		case fmt.Stringer:
			return action.Shown(x.String())
		}
	}
	var parts []string
	switch v.Kind() {
	case reflect.String:
		return action.Shown(v.String())
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			parts = append(parts, show(v.Index(i)))
		}
		return "[" + strings.Join(parts, " ") + "]"
	case reflect.Map:
		for _, k := range v.MapKeys() {
			parts = append(parts, show(k)+": "+show(v.MapIndex(k)))
		}
		slices.Sort(parts)
		return "{" + strings.Join(parts, ", ") + "}"
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && !v.Field(i).IsZero() {
				parts = append(parts, snake(f.Name)+": "+show(v.Field(i)))
			}
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return fmt.Sprint(v)
}

// snake converts a Go name to the words of a spec file: StartTimeout, start_timeout.
func snake(name string) string {
	var b strings.Builder
	for i, c := range name {
		prevLower := i > 0 && unicode.IsLower(rune(name[i-1]))
		if unicode.IsUpper(c) && prevLower {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(c))
	}
	return b.String()
}

package bbs

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"cantina/action"
)

// differ lists the fields in which two values of one type differ, by their paths
// in small letters, in order.
func differ(path string, was, is any) []FieldChange {
	var out []FieldChange
	compare(path, reflect.ValueOf(was), reflect.ValueOf(is), &out)
	return out
}

func compare(path string, a, b reflect.Value, out *[]FieldChange) {
	switch {
	case !a.IsValid() || !b.IsValid():
		if a.IsValid() || b.IsValid() {
			*out = append(*out, FieldChange{path, text(a), text(b)})
		}
	case isNone(a) && isNone(b):
	case a.Type() == reflect.TypeFor[action.Variable]():
		compareVariables(path, a.Interface().(action.Variable), b.Interface().(action.Variable), out)
	case a.Kind() == reflect.Pointer:
		compare(path, a.Elem(), b.Elem(), out)
	case a.Kind() == reflect.Struct && a.NumField() > 0 && a.Type().Field(0).IsExported():
		for i := range a.NumField() {
			compare(join(path, snake(a.Type().Field(i).Name)), a.Field(i), b.Field(i), out)
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
		*out = append(*out, FieldChange{path, text(a), text(b)})
	}
}

// compareVariables tells that a value changed, but not from what to what: what a plan
// says is kept in logs.
func compareVariables(path string, a, b action.Variable, out *[]FieldChange) {
	switch {
	case a.Name != b.Name:
		*out = append(*out, FieldChange{path, fmt.Sprint(a), fmt.Sprint(b)})
	case a.Value != b.Value:
		*out = append(*out, FieldChange{path, fmt.Sprint(a), a.Name + "=[another secret]"})
	}
}

// isNone reports an empty list or map: no list and an empty one say the same.
func isNone(v reflect.Value) bool {
	return (v.Kind() == reflect.Slice || v.Kind() == reflect.Map) && v.Len() == 0
}

func compareMaps(path string, a, b reflect.Value, out *[]FieldChange) {
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

// bearNames reports whether two lists tell their elements apart by name, and those in
// both stand in the same order: then a change is told by the name instead of the place.
func bearNames(a, b reflect.Value) bool {
	if a.Kind() != reflect.Slice || a.Type().Elem().Kind() != reflect.Struct {
		return false
	}
	if f, ok := a.Type().Elem().FieldByName(nameField); !ok || f.Type.Kind() != reflect.String {
		return false
	}
	was, is := names(a), names(b)
	for _, list := range [][]string{was, is} {
		if sorted := slices.Sorted(slices.Values(list)); len(slices.Compact(sorted)) < len(list) || slices.Contains(list, "") {
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

func compareNamed(path string, a, b reflect.Value, out *[]FieldChange) {
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

// text prints a value for people; an absent one is empty.
func text(v reflect.Value) string {
	if !v.IsValid() || v.IsZero() && v.Kind() != reflect.Bool && v.Kind() != reflect.Int {
		return ""
	}
	if v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.String {
		parts := make([]string, v.Len())
		for i := range parts {
			parts[i] = v.Index(i).String()
		}
		return strings.Join(parts, " ")
	}
	s := fmt.Sprintf("%v", v.Interface())
	if len(s) > 200 {
		s = s[:200] + "…"
	}
	return s
}

// snake turns a Go name into the words of a spec file: StartTimeout, start_timeout.
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

package scheduler

import (
	"fmt"
	"reflect"
	"strings"
	"unicode"
)

// differences lists the fields of two values of one type that differ.
func differences(path string, old, now reflect.Value) []FieldChange {
	if reflect.DeepEqual(old.Interface(), now.Interface()) {
		return nil
	}
	if old.Kind() == reflect.Pointer && !old.IsNil() && !now.IsNil() {
		return differences(path, old.Elem(), now.Elem())
	}
	if old.Kind() == reflect.Slice && old.Type().Elem().Kind() == reflect.Struct && old.Len() == now.Len() {
		var out []FieldChange
		for i := range old.Len() {
			out = append(out, differences(fmt.Sprintf("%s[%d]", path, i), old.Index(i), now.Index(i))...)
		}
		return out
	}
	if old.Kind() != reflect.Struct {
		return []FieldChange{{path, show(old), show(now)}}
	}
	var out []FieldChange
	for i := range old.NumField() {
		f := old.Type().Field(i)
		if !f.IsExported() {
			continue
		}
		out = append(out, differences(strings.TrimPrefix(path+"."+snake(f.Name), "."), old.Field(i), now.Field(i))...)
	}
	return out
}

// show is a value in words: of a struct the fields that are set, by name.
func show(v reflect.Value) string {
	if v.IsZero() {
		return ""
	}
	if s, ok := v.Interface().(fmt.Stringer); ok {
		return s.String()
	}
	var parts []string
	switch v.Kind() {
	case reflect.Pointer:
		return show(v.Elem())
	case reflect.Slice:
		for i := range v.Len() {
			parts = append(parts, show(v.Index(i)))
		}
		return "[" + strings.Join(parts, " ") + "]"
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && !v.Field(i).IsZero() {
				parts = append(parts, snake(f.Name)+": "+show(v.Field(i)))
			}
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return fmt.Sprintf("%v", v.Interface())
}

func snake(name string) string {
	var b strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 && (i+1 < len(name) && unicode.IsLower(rune(name[i+1])) || unicode.IsLower(rune(name[i-1]))) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

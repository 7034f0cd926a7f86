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

func show(v reflect.Value) string {
	if v.IsZero() {
		return ""
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

package worker

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unsafe"
)

// clone copies a value with all it points to, unexported fields too. Interfaces
// are shared; the caller replaces those that must not be.
func clone[T any](v *T) *T {
	seen := map[unsafe.Pointer]reflect.Value{}
	return copyValue(reflect.ValueOf(v), seen).Interface().(*T)
}

func copyValue(v reflect.Value, seen map[unsafe.Pointer]reflect.Value) reflect.Value {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return v
		}
		if c, ok := seen[v.UnsafePointer()]; ok {
			return c
		}
		c := reflect.New(v.Type().Elem())
		seen[v.UnsafePointer()] = c
		fill(c.Elem(), v.Elem(), seen)
		return c
	case reflect.Slice:
		if v.IsNil() {
			return v
		}
		c := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		for i := range v.Len() {
			fill(c.Index(i), v.Index(i), seen)
		}
		return c
	case reflect.Map:
		if v.IsNil() {
			return v
		}
		c := reflect.MakeMapWithSize(v.Type(), v.Len())
		for it := v.MapRange(); it.Next(); {
			c.SetMapIndex(it.Key(), copyValue(it.Value(), seen))
		}
		return c
	case reflect.Struct:
		c := reflect.New(v.Type()).Elem()
		fill(c, v, seen)
		return c
	}
	return v
}

// fill sets dst to a copy of src. Both are addressable, or src is read-only.
func fill(dst, src reflect.Value, seen map[unsafe.Pointer]reflect.Value) {
	if src.Kind() != reflect.Struct {
		dst.Set(copyValue(src, seen))
		return
	}
	dst.Set(src)
	for i := range src.NumField() {
		switch src.Field(i).Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Struct:
			d := dst.Field(i)
			d = reflect.NewAt(d.Type(), unsafe.Pointer(d.UnsafeAddr())).Elem()
			s := d // dst holds a shallow copy of src already
			fill(d, copyShallow(s), seen)
		}
	}
}

func copyShallow(v reflect.Value) reflect.Value {
	c := reflect.New(v.Type()).Elem()
	c.Set(v)
	return c
}

// dumper writes a value in a canonical form: maps sorted, pointers followed once,
// numbers of heartbeats relative to the newest, and nothing that only counts.
type dumper struct {
	b    strings.Builder
	seen map[unsafe.Pointer]int
	base int64 // the newest heartbeat's number
}

// uncounted are fields whose value makes no difference to what can happen.
var uncounted = map[string]bool{"cfg": true, "t": true, "m": true, "seq#Leader": true, "committed": true, "lastTick": true,
	"nextBeat": true, "hurry": true, "beats": true, "beat": true, "probing": true, "probeBeat": true, "probe": true,
	"order": true, "goneList": true, "sent": true, "Timeouts": true, "killAt": true, "Reason": true}

func (d *dumper) dump(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			d.b.WriteString("-")
			return
		}
		if n, ok := d.seen[v.UnsafePointer()]; ok {
			fmt.Fprintf(&d.b, "@%d", n)
			return
		}
		d.seen[v.UnsafePointer()] = len(d.seen)
		d.dump(v.Elem())
	case reflect.Slice:
		d.b.WriteByte('[')
		for i := range v.Len() {
			d.dump(v.Index(i))
			d.b.WriteByte(' ')
		}
		d.b.WriteByte(']')
	case reflect.Map:
		d.dumpMap(v)
	case reflect.Struct:
		d.b.WriteByte('(')
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			switch {
			case uncounted[name] || uncounted[name+"#"+v.Type().Name()]:
			case name == "Beat" || name == "answered" || name == "number":
				if v.Field(i).Kind() == reflect.Int64 && v.Field(i).Int() > 0 {
					fmt.Fprint(&d.b, d.base-v.Field(i).Int(), ",")
				} else {
					d.dump(v.Field(i))
				}
			default:
				d.dump(v.Field(i))
				d.b.WriteByte(',')
			}
		}
		d.b.WriteByte(')')
	case reflect.Interface:
		if v.IsNil() || v.Elem().Kind() == reflect.Pointer {
			d.b.WriteString("i")
			return
		}
		d.b.WriteString(v.Elem().Type().Name())
		d.dump(v.Elem())
	case reflect.String:
		d.b.WriteString(v.String())
	case reflect.Bool:
		if v.Bool() {
			d.b.WriteByte('t')
		} else {
			d.b.WriteByte('f')
		}
	case reflect.Int, reflect.Int64, reflect.Int32:
		d.b.WriteString(strconv.FormatInt(v.Int(), 36))
	case reflect.Uint64, reflect.Uint:
		d.b.WriteString(strconv.FormatUint(v.Uint(), 36))
	}
}

func (d *dumper) dumpMap(v reflect.Value) {
	type pair struct {
		text string
		key  reflect.Value
	}
	pairs := make([]pair, 0, v.Len())
	for _, k := range v.MapKeys() {
		kd := dumper{seen: d.seen}
		kd.dump(k)
		pairs = append(pairs, pair{kd.b.String(), k})
	}
	slices.SortFunc(pairs, func(a, b pair) int { return strings.Compare(a.text, b.text) })
	d.b.WriteByte('{')
	for _, p := range pairs {
		d.b.WriteString(p.text)
		d.b.WriteByte(':')
		d.dump(v.MapIndex(p.key))
		d.b.WriteByte(' ')
	}
	d.b.WriteByte('}')
}

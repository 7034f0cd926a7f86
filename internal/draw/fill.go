package draw

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Fill sets every exported field that a pointer reaches to a value other than zero, most of them different, so that a
// test notices a field that a conversion forgets. Fields of the types in leave stay as they are. It returns an error
// for a kind of field that it does not know.
func Fill(to any, leave ...reflect.Type) error {
	n := 0
	return fill(reflect.ValueOf(to).Elem(), leave, &n)
}

func fill(v reflect.Value, leave []reflect.Type, n *int) error {
	*n++
	switch {
	case slices.Contains(leave, v.Type()):
	case v.Type() == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Unix(int64(1000+*n), 5).UTC()))
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if err := fill(v.Field(i), leave, n); err != nil {
				return fmt.Errorf("%s: %w", v.Type().Field(i).Name, err)
			}
		}
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			if err := fill(v.Index(i), leave, n); err != nil {
				return err
			}
		}
	case v.Kind() == reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		for _, x := range []reflect.Value{key, value} {
			if err := fill(x, leave, n); err != nil {
				return err
			}
		}
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case v.Kind() == reflect.String:
		v.SetString(fmt.Sprintf("text %d é", *n))
	case v.Kind() == reflect.Bool:
		v.SetBool(true)
	case v.Kind() == reflect.Uint8:
		v.SetUint(uint64(*n) % 250)
	case v.CanInt():
		v.SetInt(int64(*n))
		if strings.HasPrefix(v.Type().PkgPath(), "cantina/") {
			v.SetInt(1) // a state
		}
	case v.CanUint():
		v.SetUint(uint64(*n) << 50)
	default:
		return fmt.Errorf("no value for a %s", v.Type())
	}
	return nil
}

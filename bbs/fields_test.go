package bbs

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"cantina/action"
	"cantina/bbs/bbspb"
	"cantina/lrp"
	"cantina/task"
)

// TestEveryFieldIsStored: a definition with a value in each field, also in a new one, is the same after
// its row was written and read. Workloads have a test of their own (package wire).
func TestEveryFieldIsStored(t *testing.T) {
	var d lrp.Desired
	fill(t, reflect.ValueOf(&d).Elem())
	d.Conditions = []string{"disk = ssd"}
	var m bbspb.Desired
	if err := proto.Unmarshal(marshal(desiredRecord(&d)), &m); err != nil {
		t.Fatal(err)
	}
	got, err := desiredOf(&m)
	if diff := cmp.Diff(d, got); diff != "" || err != nil {
		t.Errorf("service: %v\n%s", err, diff)
	}
	var x task.Definition
	fill(t, reflect.ValueOf(&x).Elem())
	x.Conditions = []string{"disk = ssd"}
	var y bbspb.Definition
	if err := proto.Unmarshal(marshal(definitionRecord(&x)), &y); err != nil {
		t.Fatal(err)
	}
	back, err := definitionOf(&y)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(x, back); diff != "" {
		t.Errorf("task:\n%s", diff)
	}
}

// fill gives every field a value that is not its zero.
func fill(t *testing.T, v reflect.Value) {
	t.Helper()
	switch x := v.Addr().Interface().(type) {
	case *action.Workload:
		*x = action.Workload{Action: action.Action{Run: &action.Run{Path: "/bin/true"}}}
		return
	case *time.Duration:
		*x = time.Second
		return
	case *time.Time:
		*x = time.Unix(1, 0).UTC()
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(t, v.Field(i))
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(t, v.Index(0))
	case reflect.Map:
		key, val := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(t, key)
		fill(t, val)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, val)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem())
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		v.SetUint(1)
	case reflect.Float64:
		v.SetFloat(1)
	default:
		t.Fatalf("a field of kind %v: give it a value here", v.Kind())
	}
}

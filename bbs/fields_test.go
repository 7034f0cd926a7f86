package bbs

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"cantina/action"
	"cantina/bbs/bbspb"
	"cantina/internal/draw"
	"cantina/lrp"
	"cantina/task"
)

// TestEveryFieldIsStored: a definition with a value in each field, also in a new one, is the same after
// its row was written and read. Workloads have a test of their own (package wire).
func TestEveryFieldIsStored(t *testing.T) {
	var d lrp.Desired
	if err := draw.Fill(&d, reflect.TypeFor[action.Workload]()); err != nil {
		t.Fatal(err)
	}
	d.Workload.Action.Run, d.Conditions = &action.Run{Path: "/bin/true"}, []string{"disk = ssd"}
	var m bbspb.Desired
	if err := proto.Unmarshal(marshal(desiredRecord(&d)), &m); err != nil {
		t.Fatal(err)
	}
	got, err := desiredOf(&m)
	if diff := cmp.Diff(d, got); diff != "" || err != nil {
		t.Errorf("service: %v\n%s", err, diff)
	}
	var x task.Definition
	if err := draw.Fill(&x, reflect.TypeFor[action.Workload]()); err != nil {
		t.Fatal(err)
	}
	x.Workload.Action.Run, x.Conditions = &action.Run{Path: "/bin/true"}, []string{"disk = ssd"}
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

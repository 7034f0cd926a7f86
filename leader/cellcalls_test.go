package leader

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cantina/cell"
	"cantina/lrp"
	"cantina/task"
)

// TestStopsOfACellGoTogether: all stops of a cell during a call to it, or before one begins, go in
// one call, in order; each process has calls of its own; a call has a limit.
func TestStopsOfACellGoTogether(t *testing.T) {
	const many = stopBatch + 2
	var begin []func(context.Context)
	var calls []string
	c := newCellCalls(func(f func(context.Context)) { begin = append(begin, f) },
		func(_ context.Context, key stopKey, w cell.Stops) {
			calls = append(calls, fmt.Sprintf("%v: %d instances, %v", key, len(w.Instances), w.Tasks))
		})
	for i := range many {
		c.StopInstance(lrp.Key{Process: "web", Index: i}, lrp.Identity{Instance: fmt.Sprint("i", i), Cell: "c1", Proc: "p1"})
	}
	c.StopInstance(lrp.Key{Process: "web"}, lrp.Identity{Instance: "i", Cell: "c1", Proc: "p2"})
	c.CancelTask(task.Holder{Cell: "c1", Proc: "p1"}, "t", "u1")
	c.CancelTask(task.Holder{Cell: "c1", Proc: "p1"}, "t", "u2")
	for _, f := range begin {
		f(t.Context())
	}
	want := []string{fmt.Sprintf("{c1 p1}: %d instances, []", stopBatch), "{c1 p1}: 2 instances, [u1 u2]",
		"{c1 p2}: 1 instances, []"}
	if diff := cmp.Diff(want, calls); diff != "" {
		t.Error(diff)
	}
}

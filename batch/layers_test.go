package batch

import (
	"fmt"
	"testing"
)

// TestLayersOfJobs: in layers of jobs, each job depends on all jobs of the layer before. The time of a visit does
// not multiply from layer to layer.
func TestLayersOfJobs(t *testing.T) {
	const wide = 10
	layers := 30
	if testing.Short() {
		layers = 12
	}
	b := twoHosts(t)
	name := func(layer, i int) string { return fmt.Sprintf("l%02d-%d", layer, i) }
	var before []string
	for layer := range layers {
		var these []string
		for i := range wide {
			put(t, b, Job{Name: name(layer, i), DependsOn: before, Retries: -1, Backoff: Backoff{Fail: true}})
			these = append(these, name(layer, i))
		}
		before = these
	}
	top := name(layers-1, 0)
	is := func(when string, blocked, stranded int) {
		t.Helper()
		if p, _ := b.Progress(top); p.Blocked != blocked || p.Stranded != stranded {
			t.Fatalf("%s: %+v", when, p)
		}
		checkBoard(t, b)
	}
	is("none has run", 4, 0)
	n := int64(0)
	start(t, b, b.Pick(4), &n)
	failed := b.runs.runKeys("")[0]
	finish(t, b, failed, errorBackoff)
	is("one below has failed", 3, 1)
	why, err := b.Explain(Key{top, failed.Node}, "", 0)
	if err != nil || len(why) != wide {
		t.Fatalf("%d reasons, %v", len(why), err)
	}
	if err := b.SetNodes(b.f.nodes); err != nil {
		t.Fatal(err)
	}
	is("the nodes are read again", 3, 1)
	us, err := b.Retry(failed.Job, failed.Node)
	if err != nil {
		t.Fatal(err)
	}
	apply(b, us)
	is("it may run again", 4, 0)
	b.Delete(name(0, 3))
	is("one below is gone", 0, 4)
}

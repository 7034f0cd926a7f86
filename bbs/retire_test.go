package bbs

import (
	"fmt"
	"testing"

	"cantina/lrp"
	"cantina/plan"
	"cantina/store"
	"cantina/store/mem"
)

// instances returns the instances of a service by index.
func (r *rig) instances(t *testing.T) map[int]string {
	t.Helper()
	page, err := r.b.ListInstances(plan.InstanceFilter{}, plan.Range{Limit: 10_000})
	if err != nil {
		t.Fatal(err)
	}
	out := map[int]string{}
	for _, x := range page.Items {
		out[x.Key.Index] = x.Instance
	}
	return out
}

// replaced counts the indices that have another instance than before.
func replaced(before, after map[int]string) (n int) {
	for i, id := range before {
		if after[i] != "" && after[i] != id {
			n++
		}
	}
	return n
}

// TestAllOfALargeServiceRestartAtOnce: more instances than a transaction has rows, once for a key; a repeated call
// stops none that has started since.
func TestAllOfALargeServiceRestartAtOnce(t *testing.T) {
	const n = 500
	inBubbleOn(t, mem.Config{Limits: small}, func(t *testing.T, r *rig) {
		r.apply([]lrp.Desired{web(n, "1")}, nil)
		r.serve()
		before := r.instances(t)
		revision, _ := r.b.Plan(plan.Application{Domain: "d"})
		if got, err := r.b.RetireInstances(t.Context(), webKey, nil, plan.Write{Key: "k"}); err != nil || got != n {
			t.Fatalf("%d %v", got, err)
		}
		r.serve()
		after := r.instances(t)
		if got := replaced(before, after); got != n {
			t.Fatalf("%d of %d have another instance", got, n)
		}
		for range 2 {
			if got, err := r.b.RetireInstances(t.Context(), webKey, nil, plan.Write{Key: "k"}); err != nil || got != n {
				t.Fatalf("again: %d %v", got, err)
			}
			r.serve()
			if got := replaced(after, r.instances(t)); got != 0 {
				t.Fatalf("a repeated call stopped %d", got)
			}
			r.reelect()
		}
		if p, _ := r.b.Plan(plan.Application{Domain: "d"}); p.Revision != revision.Revision {
			t.Errorf("a restart changed the revision of the domain from %d to %d", revision.Revision, p.Revision)
		}
		if rows := r.rowsLeft(store.ManifestPrefix); len(rows) != 0 {
			t.Fatalf("left: %v", rows)
		}
	})
}

// TestALargeRestartIsWholeOrNothing: for each moment of the leader's death.
func TestALargeRestartIsWholeOrNothing(t *testing.T) {
	const n = 150
	var d dying
	for _, after := range []int{1, 2, 3, 4, 6, 9} {
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			d.at(0)
			inBubbleOn(t, mem.Config{Fault: d.fault, Limits: small}, func(t *testing.T, r *rig) {
				r.apply([]lrp.Desired{web(n, "1")}, nil)
				r.serve()
				before := r.instances(t)
				d.at(after)
				_, err := r.b.RetireInstances(t.Context(), webKey, nil, plan.Write{Key: "k"})
				d.at(0)
				r.reelect()
				r.serve()
				if got := replaced(before, r.instances(t)); got != n && (got != 0 || err == nil) {
					t.Errorf("%d of %d are replaced: %v", got, n, err)
				}
				if rows := r.rowsLeft(store.ManifestPrefix); len(rows) != 0 {
					t.Fatalf("left: %v", rows)
				}
			})
		})
	}
}

package bbs

import (
	"fmt"
	"math/rand"
	"slices"
	"testing"

	"cantina/lrp"
	"cantina/plan"
	"cantina/task"
)

// readOnly is a board that only answers readers.
func readOnly() (*BBS, *view) {
	v := newView(0, 0)
	return &BBS{rows: &rows{view: v}, queries: &queries{view: v}, loader: &loader{}}, v
}

// TestTheViewCountsItsRows: after any change of rows, its figures, lists and pages equal those of a scan of all
// rows.
func TestTheViewCountsItsRows(t *testing.T) {
	for seed := range 100 {
		r := rand.New(rand.NewSource(int64(seed)))
		b, v := readOnly()
		for n := range 200 {
			k := lrp.ServiceKey{Domain: fmt.Sprint("d", r.Intn(2)), Name: fmt.Sprint("s", r.Intn(3))}
			process := fmt.Sprint(k.Domain, k.Name, "p", r.Intn(2))
			key := lrp.Key{Process: process, Index: r.Intn(4)}
			switch r.Intn(8) {
			case 0:
				v.putService(k, nil, int64(n))
			case 1:
				s := &lrp.Service{Key: k, Instances: r.Intn(5)}
				for i := range 1 + r.Intn(2) {
					s.Versions = append(s.Versions, lrp.Version{Desired: lrp.Desired{Service: k,
						Process: fmt.Sprint(k.Domain, k.Name, "p", i)}, Number: i, High: 3})
				}
				v.putService(k, s, int64(n))
			case 2:
				v.putIndex(lrp.Index{Key: key}, int64(n))
			case 3:
				guid := fmt.Sprint("t", r.Intn(5))
				if r.Intn(3) == 0 {
					v.putTask(guid, nil, int64(n))
				} else {
					v.putTask(guid, &task.Task{GUID: guid, UID: guid,
						State: []task.State{task.Pending, task.Running, task.Completed}[r.Intn(3)]}, int64(n))
				}
			default:
				row := func() *lrp.Actual {
					a := &lrp.Actual{Key: key, Service: k, State: []lrp.State{lrp.Unclaimed, lrp.Running, lrp.Crashed}[r.Intn(3)],
						Retiring: r.Intn(5) == 0}
					if a.State == lrp.Running {
						cell := fmt.Sprint("c", r.Intn(2))
						a.Net, a.Identity = lrp.Net{Routable: r.Intn(2) == 0},
							lrp.Identity{Instance: fmt.Sprint("i", r.Int()), Cell: cell, Proc: cell + "p"}
					}
					return a
				}
				x := lrp.Index{Key: key, Ordinary: row()}
				if r.Intn(4) == 0 {
					x.Suspect = row()
					x.Suspect.Presence, x.Suspect.State = lrp.Suspect, lrp.Running
				}
				v.putIndex(x, int64(n))
			}
		}
		sameCounts(t, seed, b, v)
		samePages(t, seed, b, v)
	}
}

func sameCounts(t *testing.T, seed int, b *BBS, v *view) {
	t.Helper()
	var want Counts
	want.Services = len(v.services)
	services := map[lrp.ServiceKey]tally{}
	for _, s := range v.services {
		want.Desired += s.row.Instances
	}
	for _, x := range v.indices {
		want.addIndex(x.row, 1)
		if v.orphan(x.row) {
			want.Orphans++
		}
		c := services[serviceOf(x.row)]
		if c.on == nil {
			c.on = map[string]int{}
		}
		c.count(x.row, 1)
		services[serviceOf(x.row)] = c
	}
	for _, x := range v.tasks {
		want.addTask(x.row, 1)
	}
	if got := b.Count(); got != want {
		t.Fatalf("seed %d:\n got %+v\nwant %+v", seed, got, want)
	}
	for k, c := range services {
		if got := v.byService[k]; got == nil || fmt.Sprint(*got) != fmt.Sprint(c) {
			t.Fatalf("seed %d: %v: got %+v, want %+v", seed, k, got, c)
		}
	}
	if len(services) != len(v.byService) {
		t.Fatalf("seed %d: %d services are counted, %d have rows", seed, len(v.byService), len(services))
	}
}

// samePages reads each list in pages of every small size.
func samePages(t *testing.T, seed int, b *BBS, v *view) {
	t.Helper()
	for _, f := range []plan.InstanceFilter{{}, {Domain: "d1"}, {Domain: "d0", Service: "s1"}, {Service: "s2"},
		{Cell: "c1"}, {Orphans: true}} {
		var want []instanceKey
		for k, x := range v.indices {
			i := instanceKey{serviceOf(x.row), k}
			if _, ok := v.instance(i, f); ok {
				want = append(want, i)
			}
		}
		slices.SortFunc(want, instanceKey.compare)
		for _, limit := range []int{1, 2, 100} {
			var got []instanceKey
			for after, pages := "", 0; ; pages++ {
				p, err := b.ListInstances(f, plan.Range{After: after, Limit: limit})
				if err != nil || pages > 100 {
					t.Fatal(pages, err)
				}
				for _, i := range p.Items {
					got = append(got, instanceKey{serviceOf(i.Rows), i.Rows.Key})
				}
				if after = p.Next; after == "" {
					break
				}
			}
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d: %+v in pages of %d:\n got %v\nwant %v", seed, f, limit, got, want)
			}
		}
	}
	for _, domain := range []string{"", "d0", "d1"} {
		seen := 0
		for after := ""; ; {
			p, err := b.ListServices(plan.NameFilter{Domain: domain}, plan.Range{After: after, Limit: 1})
			if err != nil {
				t.Fatal(err)
			}
			seen += len(p.Items)
			if after = p.Next; after == "" {
				break
			}
		}
		want := 0
		for k := range v.services {
			if domain == "" || k.Domain == domain {
				want++
			}
		}
		if seen != want {
			t.Fatalf("seed %d: domain %q: %d services in pages of one, %d are there", seed, domain, seen, want)
		}
	}
}

// TestAPageOfManyLooksAtFew: the cost of a page depends on its rows, not on the total.
func TestAPageOfManyLooksAtFew(t *testing.T) {
	b, v := readOnly()
	k := lrp.ServiceKey{Domain: "d", Name: "s"}
	for i := range 20_000 {
		key := lrp.Key{Process: "p", Index: i}
		v.putIndex(lrp.Index{Key: key, Ordinary: &lrp.Actual{Key: key, Service: k}}, 1)
	}
	one := testing.AllocsPerRun(5, func() {
		if p, err := b.ListInstances(plan.InstanceFilter{Domain: "d", Service: "s"}, plan.Range{Limit: 10}); err != nil ||
			len(p.Items) != 10 {
			t.Fatal(len(p.Items), err)
		}
	})
	if one > 200 {
		t.Fatalf("a page of ten of 20,000 instances makes %v allocations", one)
	}
}

package bbs

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"cantina/fault"
	"cantina/lrp"
	"cantina/plan"
	"cantina/store"
	"cantina/store/mem"
	"cantina/task"
)

// large is an application with many services and rows of another owner.
func large() (plan.Application, Others) {
	a := plan.Application{Domain: "d"}
	for i := range 40 {
		d := web(1, "1")
		d.Service.Name = fmt.Sprintf("s%03d", i)
		a.Services = append(a.Services, d)
	}
	others := func() (store.Part, error) {
		ops := []store.Op{{Key: "job/old"}}
		for i := range 30 {
			ops = append(ops, store.Op{Key: fmt.Sprintf("job/x%02d", i), Value: bytes.Repeat([]byte{'x'}, 5000)})
		}
		return store.Part{Ops: ops}, nil
	}
	return a, others
}

// small are limits that a change of the board which may be cut up still fits.
var small = store.Limits{Ops: chunkOps + 2, Bytes: 64 << 10}

// TestALargeApplyKeepsItsKey: it happens once for its key, as a small one does, and
// minds the revision that it was made for.
func TestALargeApplyKeepsItsKey(t *testing.T) {
	inBubbleOn(t, mem.Config{Limits: small}, func(t *testing.T, r *rig) {
		reported := 0
		a, others := large()
		rows := others
		others = func() (store.Part, error) {
			e, err := rows()
			e.Done = func(int64, error) { reported++ }
			return e, err
		}
		first, err := r.b.Apply(t.Context(), a, plan.Write{Key: "k"}, others)
		if err != nil || len(first.Changes) != 40 || reported != 1 {
			t.Fatalf("%v, %d changes, reported %d", err, len(first.Changes), reported)
		}
		if p, err := r.b.Plan(plan.Application{Domain: "d"}); err != nil || p.Revision != first.Revision {
			t.Fatalf("a plan then: revision %d, applied at %d: %v", p.Revision, first.Revision, err)
		}
		for range 2 {
			again, err := r.b.Apply(t.Context(), a, plan.Write{Key: "k"}, others)
			if err != nil || fmt.Sprint(again.Changes) != fmt.Sprint(first.Changes) || again.Revision != first.Revision ||
				reported != 1 {
				t.Fatalf("%v, revision %d and %d, reported %d", err, again.Revision, first.Revision, reported)
			}
			r.reelect()
		}
		if _, err := r.b.Apply(t.Context(), plan.Application{Domain: "d"}, plan.Write{Key: "k"}, nil); !errors.Is(err,
			fault.ErrKeyReused) {
			t.Fatalf("another request: %v", err)
		}
		for i := range a.Services {
			a.Services[i].Workload.Action.Run.Args = []string{"changed"}
		}
		if _, err := r.b.Apply(t.Context(), a, plan.Write{Expect: 1}, others); !errors.Is(err, fault.ErrRevision) {
			t.Fatalf("for another revision: %v", err)
		}
		if rows := r.rowsLeft(store.ManifestPrefix); len(rows) != 0 {
			t.Fatalf("left: %v", rows)
		}
	})
}

// TestALargeApplyIsWholeOrNothing: for each moment of the leader's death, the next one has all of a promised
// application, with its key. It also has the rows of the other owner, whose readers see them as they will be.
func TestALargeApplyIsWholeOrNothing(t *testing.T) {
	var d dying
	whole := 0
	for after := 1; after <= 16; after++ {
		d.at(0)
		inBubbleOn(t, mem.Config{Fault: d.fault, Limits: small}, func(t *testing.T, r *rig) {
			old := r.b.newTicket()
			r.leadership.Submit(store.Transition{Ops: []store.Op{{Key: "job/old", Value: []byte("x")}}}, old.done)
			if _, err := old.wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			d.at(after)
			a, others := large()
			_, err := r.b.Apply(t.Context(), a, plan.Write{Key: "k"}, others)
			d.at(0)
			r.reelect()
			seen := 0
			for _, row := range r.rows {
				if strings.HasPrefix(row.Key, "job/x") {
					seen++
				}
			}
			r.serve()
			page, _ := r.b.ListServices(plan.NameFilter{Domain: "d"}, plan.Range{Limit: 1000})
			jobs := r.rowsLeft("job/")
			switch {
			case len(page.Items) == 40 && len(jobs) == 30 && jobs[0] == "job/x00" && seen == 30:
				whole++
				if _, err := r.b.Apply(t.Context(), plan.Application{Domain: "d"}, plan.Write{Key: "k"}, nil); !errors.Is(err,
					fault.ErrKeyReused) {
					t.Fatalf("after %d transactions the key is not known: %v", after, err)
				}
			case len(page.Items) == 0 && len(jobs) == 1 && jobs[0] == "job/old" && seen == 0 && err != nil:
			default:
				t.Fatalf("after %d transactions: %d services, jobs %v, seen %d; apply returned %v", after, len(page.Items), jobs,
					seen, err)
			}
			if rows := r.rowsLeft(store.ManifestPrefix); len(rows) != 0 {
				t.Fatalf("left: %v", rows)
			}
		})
	}
	if whole < 3 || whole == 16 {
		t.Fatalf("%d of 16 were promised: the test does not cut on both sides of the promise", whole)
	}
}

// TestOneThingLargerThanATransaction is refused, and nothing is written.
func TestOneThingLargerThanATransaction(t *testing.T) {
	inBubbleOn(t, mem.Config{Limits: small}, func(t *testing.T, r *rig) {
		a, _ := large()
		others := func() (store.Part, error) {
			return store.Part{Ops: []store.Op{{Key: "job/x", Value: bytes.Repeat([]byte{'x'}, 70<<10)}}}, nil
		}
		if _, err := r.b.Apply(t.Context(), a, plan.Write{}, others); !errors.Is(err, store.ErrTooLarge) {
			t.Fatal(err)
		}
		if rows := r.rowsLeft(""); strings.Contains(fmt.Sprint(rows), "job/") || strings.Contains(fmt.Sprint(rows), "/s000") {
			t.Fatalf("written: %v", rows)
		}
	})
}

// TestAPromisedApplyMeetsARowThatCannotBeRead: a leader died in the middle of a large application, and a row of the
// rest has become unreadable. That part is left out, the rest goes on, and the term lasts.
func TestAPromisedApplyMeetsARowThatCannotBeRead(t *testing.T) {
	for _, key := range []string{domainRow("d"), ServiceRow(webNamed("s030")), appliedRow("d", "once"), idemRow("k")} {
		t.Run(key, func(t *testing.T) {
			var d dying
			cut := 0
			for after := 2; after <= 12; after++ {
				d.at(0)
				inBubbleOn(t, mem.Config{Fault: d.fault, Limits: small}, func(t *testing.T, r *rig) {
					r.apply(nil, nil) // makes the row of the domain
					a, others := large()
					a.Tasks = []plan.NamedTask{{Name: "once", Definition: task.Definition{Workload: runs("/bin/true")}}}
					d.at(after)
					_, err := r.b.Apply(t.Context(), a, plan.Write{Key: "k"}, others)
					d.at(0)
					r.depose()
					if err != nil && len(r.keysLeft("row/"+store.ManifestPrefix)) > 0 {
						cut++
					}
					if _,
						err := r.backend.Txn(t.Context(),
						store.Txn{Then: []store.Write{{Key: "cantina/row/" + key, Value: []byte("garbage")}}}); err != nil {
						t.Fatal(err)
					}
					r.elect(nil)
					r.serve()
					if _, err := r.b.DesireTask(t.Context(),
						plan.NewTask{GUID: "later", Domain: "e", Definition: task.Definition{Workload: runs("/bin/true")}},
						plan.Write{}); err != nil {
						t.Fatalf("after %d transactions: %v", after, err)
					}
				})
			}
			if cut == 0 {
				t.Fatal("no leader died in the middle")
			}
		})
	}
}

func webNamed(name string) lrp.ServiceKey { return lrp.ServiceKey{Domain: "d", Name: name} }

// keysLeft are the keys of the backend with a prefix below its root.
func (r *rig) keysLeft(prefix string) []string {
	r.t.Helper()
	got, err := r.backend.Range(r.t.Context(), store.Query{From: "cantina/" + prefix, To: "cantina/" + prefix + "\xff"})
	if err != nil {
		r.t.Fatal(err)
	}
	var out []string
	for _, e := range got.Entries {
		out = append(out, e.Key)
	}
	return out
}

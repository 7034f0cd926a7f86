package scheduler

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"cantina/batch"
	"cantina/fence"
	"cantina/store"
)

// TestAStartThatCrossesARenewal: a start was requested before its job is removed or born again, and its hand-out
// would come later. It is dropped, because its cell would take it for one of the next life. The same holds when the
// change is durable by then.
func TestAStartThatCrossesARenewal(t *testing.T) {
	for name, decide := range map[string]func(r *rig) (*Change, error){
		"renew":  func(r *rig) (*Change, error) { return r.Renew("dom", jobWith(7, "a")) },
		"remove": func(r *rig) (*Change, error) { return r.Remove("j") },
	} {
		for _, durable := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, durable %t", name, durable), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					st := newFakeStore()
					r := begin(t, st, 1)
					r.apply(jobWith(2, "a"))
					r.reg.mu.Lock()
					r.reg.crossing = func() {
						st.setManual(true)
						c, err := decide(r)
						if err != nil {
							t.Error(err)
							return
						}
						st.Submit(store.Transition{Ops: c.Ops}, c.Done)
						if durable {
							st.commit(1)
						}
					}
					r.reg.mu.Unlock()
					r.cell("c", 1)
					synctest.Wait()
					r.reg.mu.Lock()
					crossed, started := r.reg.crossing == nil, len(r.reg.started)
					r.reg.mu.Unlock()
					if !crossed || !durable && started != 0 {
						t.Errorf("crossed %t, %d starts of the earlier life", crossed, started)
					}
					st.setManual(false)
					synctest.Wait()
					if name == "remove" {
						r.wantStarted("")
						r.stop()
						return
					}
					r.wantStarted("j/a")
					model := r.reg.Model()
					r.stop()
					next := begin(t, st, 2, model...)
					synctest.Wait()
					if born := next.jobs["j"].row.born; len(model) != 1 || model[0].Run.Invocation.Compare(born) <= 0 ||
						next.KillStored(model[0].Run) {
						t.Errorf("%v runs of the life born at %v", model, born)
					}
					next.end("j", "a", 0, "")
					if p := next.progressOf("j"); p.Done != 1 {
						t.Errorf("its end counts for nothing: %+v", p)
					}
					next.stop()
				})
			})
		}
	}
}

// TestLeftoversOfAnEarlierProcessAreRemoved: statuses and kill rows, by the leader that saw the
// name born again and by the next one.
func TestLeftoversOfAnEarlierProcessAreRemoved(t *testing.T) {
	for _, succeeded := range []bool{false, true} {
		t.Run(fmt.Sprint("another leader ", succeeded), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := newFakeStore()
				r := begin(t, st, 1)
				r.cell("c", 3)
				r.apply(jobWith(2, "a", "b", "c"))
				r.end("j", "c", 0, "")
				r.do(r.Kill("j", batch.NodeFilter{}))
				if got := st.keys(killPrefix); len(got) != 2 {
					t.Fatalf("kill rows %v", got)
				}
				var old string
				r.locked(func() { old = r.jobs["j"].row.uid })
				r.do(r.Renew("dom", jobWith(2, "a", "b", "c")))
				if succeeded {
					model := r.reg.Model()
					r.stop()
					r = begin(t, st, 2, model...)
				}
				pass(2 * tidyEvery)
				left := append(append(st.keys(killPrefix), st.keys(statusPrefix)...), st.keys(dataPrefix)...)
				if i := slices.IndexFunc(left, func(k string) bool { return uidOf(k) == old }); i >= 0 {
					t.Errorf("left of the earlier life: %v", left)
				}
				r.stop()
			})
		})
	}
}

// uidOf returns the uid in the key of a job's row.
func uidOf(key string) string {
	for _, p := range []string{killPrefix, statusPrefix, dataPrefix} {
		if len(key) > len(p) && key[:len(p)] == p {
			key = key[len(p):]
			for i := range key {
				if key[i] == '/' {
					return key[:i]
				}
			}
		}
	}
	return ""
}

// TestAJobThatCannotBeReadLosesNothing: it keeps its forest, when the last other job there is removed, and its
// statuses and kill rows. Restored, it goes on; dropped, its leftovers are removed.
func TestAJobThatCannotBeReadLosesNothing(t *testing.T) {
	for _, then := range []string{"restored", "dropped"} {
		t.Run(then, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := newFakeStore()
				r := begin(t, st, 1)
				r.cell("c", 2)
				shared := testJob("k", nil)
				shared.Job.Forest, shared.Forest = "j", batch.ForestSpec{}
				r.apply(jobWith(2, "a", "b"))
				r.end("j", "a", 0, "")
				r.do(r.Kill("j", batch.NodeFilter{}))
				r.apply(shared)
				model := r.reg.Model()
				r.stop()

				good := st.rows[jobPrefix+"j"]
				st.rows[jobPrefix+"j"] = []byte("garbage")
				r = begin(t, st, 2, model...)
				r.cell("c", 2)
				r.do(r.Remove("k"))
				pass(3 * tidyEvery)
				for prefix, n := range map[string]int{forestPrefix: 1, statusPrefix: 1, killPrefix: 1} {
					if got := st.keys(prefix); len(got) != n {
						t.Errorf("%s: %v, want %d", prefix, got, n)
					}
				}
				model = r.reg.Model()
				r.stop()

				if then == "dropped" {
					delete(st.rows, jobPrefix+"j")
				} else {
					st.rows[jobPrefix+"j"] = good
				}
				r = begin(t, st, 3, model...)
				pass(3 * tidyEvery)
				if then == "restored" {
					if p := r.progressOf("j"); p.Done != 1 || p.Total != 2 {
						t.Errorf("%+v", p)
					}
				}
				for _, prefix := range []string{forestPrefix, statusPrefix, killPrefix} {
					if got := st.keys(prefix); (len(got) == 0) != (then == "dropped") {
						t.Errorf("%s: %v", prefix, got)
					}
				}
				r.stop()
			})
		})
	}
}

// TestAMergeThatCrossesARebirth: small rows of statuses are merged while the job is born again.
// The nodes of the next life are not in the merged row: else its own row of that number would
// be deleted, with an end that was acknowledged.
func TestAMergeThatCrossesARebirth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newFakeStore()
		r := begin(t, st, 1)
		mergeAt := func(n int) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.cfg.MergeAt = n
			r.tend(r.jobs["j"])
		}
		r.cell("c", 5)
		nodes := jobWith(2, "a", "b", "c", "d", "e")
		r.apply(nodes)
		r.end("j", "a", 0, "")
		r.end("j", "b", 0, "")

		st.setManual(true)
		c, err := r.Renew("dom", nodes)
		if err != nil {
			t.Fatal(err)
		}
		st.Submit(store.Transition{Ops: c.Ops}, c.Done)
		mergeAt(2)
		ring(r.wake)
		synctest.Wait() // rows 1 and 2 of the first life become its row 3, behind the birth
		if landed := st.commit(-1); landed < 2 {
			t.Fatalf("%d transitions: nothing was merged beside the birth", landed)
		}
		st.setManual(false)
		synctest.Wait()
		if got := r.Scheduler.Stats().Merged; got != 2 {
			t.Fatalf("%d rows merged", got)
		}
		mergeAt(64)
		var born fence.Invocation
		r.locked(func() { born = r.jobs["j"].row.born })
		for _, v := range r.reg.Model() { // the run of the first life ends
			if v.Run.Invocation.Compare(born) <= 0 {
				r.end("j", v.Run.Work.Node, 0, "")
			}
		}
		synctest.Wait()
		for _, node := range []string{"c", "d", "a", "b"} { // a is in row 3
			r.end("j", node, 0, "")
		}
		model := r.reg.Model()
		r.stop()
		next := begin(t, st, 2, model...)
		synctest.Wait()
		if p := next.progressOf("j"); p.Done != 4 {
			t.Errorf("the next leader knows of %d ends of 4", p.Done)
		}
		next.stop()
	})
}

package bbs

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"cantina/lrp"
	"cantina/plan"
)

// relocate begins the move of all that may be moved, and returns the keys.
func (r *rig) relocate() []string {
	r.t.Helper()
	all, _, _ := r.b.Movables()
	begun, err := r.b.Relocate(r.t.Context(), all, nil, plan.Write{})
	if err != nil {
		r.t.Fatal(err)
	}
	return slices.Sorted(maps.Keys(begun))
}

// TestALeaderChangeInAMove: whenever the leader changes in the course of a move, the instance serves all the time, and
// in the end one runs, on the other cell.
func TestALeaderChangeInAMove(t *testing.T) {
	net := lrp.Net{Address: "127.0.0.1", Routable: true}
	for at := range 6 {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				r.apply([]lrp.Desired{web(1, "1")}, nil)
				r.serve()
				if got := where(t, r, webKey); got != "a a1" {
					t.Fatal(got)
				}
				r.advance(lrp.MoveAfter)
				b1 := lrp.Identity{Instance: r.newID(), Cell: "b", Proc: "b1"}
				all, _, _ := r.b.Movables()
				k, a1 := all[0].Key, lrp.Identity{Instance: all[0].Instance, Cell: "a", Proc: "a1"}
				var stops []lrp.StopInstance
				for i, step := range []func() error{
					func() error { r.relocate(); return nil },
					func() error { return r.event(k, lrp.Claim{By: b1}) },
					func() error {
						return r.event(k, lrp.Start{By: b1, Net: lrp.Net{Address: "127.0.0.1"}, Service: webKey})
					},
					func() error { return r.event(k, lrp.Evacuate{By: a1, Net: net}) },
					func() error { return r.event(k, lrp.Start{By: b1, Net: net, Service: webKey}) },
				} {
					if i == at {
						r.reelect()
					}
					if err := step(); err != nil {
						t.Fatalf("step %d: %v", i, err)
					}
					synctest.Wait()
					_, _, more := r.take()
					if stops = append(stops, more...); len(stops) > 0 && i < 4 {
						t.Fatalf("step %d: the old instance is stopped before the new one serves: %v", i, stops)
					}
					if got := where(t, r, webKey); got != "a a1" && i < 4 {
						t.Fatalf("step %d: %s", i, got)
					}
				}
				if at == 5 {
					r.reelect()
				}
				if got := where(t, r, webKey); got != "b b1" || len(stops) != 1 || stops[0].Who != a1 {
					t.Errorf("runs on %s, stopped: %v", got, stops)
				}
				if _, _, n := r.b.Movables(); n != 0 || r.b.Count().Moving != 0 {
					t.Errorf("%d are being moved", n)
				}
			})
		})
	}
}

// TestAMoveThatNoCellBegins: after its time, also under another leader, the instance is the ordinary one again.
func TestAMoveThatNoCellBegins(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.apply([]lrp.Desired{web(2, "1")}, nil)
		r.serve()
		r.advance(lrp.MoveAfter)
		if got := r.relocate(); len(got) != 2 {
			t.Fatal(got)
		}
		if _, left, n := r.b.Movables(); n != 2 || r.b.Count().Moving != 2 || left[webKey] != "instance 1 is being moved" {
			t.Errorf("%d are being moved, %v", n, left)
		}
		e, err := r.b.ExplainInstance(webKey, 0)
		if err != nil || !slices.ContainsFunc(e.Reasons, func(x plan.Reason) bool {
			return x.Code == "moving" && x.Text == "being moved from cell a by a rebalance; the instance stays in use "+
				"until a replacement runs" && x.Longest > 0
		}) {
			t.Errorf("%+v, %v", e, err)
		}
		r.reelect()
		r.advance(relocateTime + time.Minute)
		if n := r.b.Count(); n.Moving != 0 || n.Running != 2 || n.Unclaimed != 0 {
			t.Errorf("%+v", n)
		}
		if got := r.running(webKey); fmt.Sprint(got) != "[a/0 a/1]" {
			t.Error(got)
		}
	})
}

// TestMovables: for each reason, the instances that may not be moved.
func TestMovables(t *testing.T) {
	for want, c := range map[string]struct {
		change func(*lrp.Desired)
		then   func(r *rig, k lrp.Key)
	}{
		"exclusive: it is never moved":             {change: func(d *lrp.Desired) { d.Exclusive = true }},
		"strategy stop_first: it is never moved":   {change: func(d *lrp.Desired) { d.Strategy = lrp.StopFirst }},
		"its instances have run for less than 30s": {},
		"instance 1 does not serve": {then: func(r *rig, k lrp.Key) {
			r.advance(lrp.MoveAfter)
			page, _ := r.b.ListInstances(plan.InstanceFilter{}, plan.Range{Limit: 10})
			_ = r.event(page.Items[1].Key, lrp.Crash{By: page.Items[1].Actual.Identity, Reason: "r"})
		}},
		"a rollout is in progress": {then: func(r *rig, k lrp.Key) {
			r.advance(lrp.MoveAfter)
			r.apply([]lrp.Desired{web(2, "2")}, nil)
		}},
	} {
		inBubble(t, func(t *testing.T, r *rig) {
			d := web(2, "1")
			if c.change != nil {
				c.change(&d)
			}
			r.apply([]lrp.Desired{d}, nil)
			r.serve()
			if c.then != nil {
				c.then(r, lrp.Key{})
			}
			synctest.Wait()
			if all, left, n := r.b.Movables(); len(all) != 0 || n != 0 || left[webKey] != want {
				t.Errorf("%d may be moved, %d are, %v; want %s", len(all), n, left, want)
			}
		})
	}
}

// TestRelocateLeavesOutWhatHasChanged: between the plan and the commit, the instance was replaced.
func TestRelocateLeavesOutWhatHasChanged(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.apply([]lrp.Desired{web(2, "1")}, nil)
		r.serve()
		r.advance(lrp.MoveAfter)
		all, _, _ := r.b.Movables()
		if len(all) != 2 {
			t.Fatal(all)
		}
		_ = r.event(all[0].Key, lrp.Crash{By: lrp.Identity{Instance: all[0].Instance, Cell: "a", Proc: "a1"}, Reason: "r"})
		begun, err := r.b.Relocate(t.Context(), all, nil, plan.Write{})
		if err != nil || len(begun) != 1 || !begun[all[1].Key.String()] {
			t.Errorf("%v, %v", begun, err)
		}
		if _, err := r.b.Relocate(t.Context(), make([]Movable, MaxRelocations+1), nil, plan.Write{}); err == nil {
			t.Error("more than one commit can hold")
		}
	})
}

// advance lets time pass.
func (r *rig) advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

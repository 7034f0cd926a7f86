package leader

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cantina/api"
	"cantina/cell"
	"cantina/event"
	"cantina/fence"
	"cantina/internal/link"
	"cantina/lrp"
	"cantina/plan"
	"cantina/resource"
	"cantina/task"
	"cantina/wire"
	"cantina/worker"
)

// docile is a cell process that accepts all work, starts nothing, and ends when ordered.
type docile struct{ obedient }

// Perform implements link.Cell.
func (docile) Perform(context.Context, cell.Work) ([]cell.Refusal, error) { return nil, nil }

// StopWork implements link.Cell.
func (docile) StopWork(context.Context, fence.Term, worker.Proc, cell.Stops) error { return nil }

// stateOf is a cell's report in each heartbeat, including its deregistration.
func stateOf(name string) cell.State {
	var st cell.State
	st.Zone, st.Cell, st.Capacity = "z1", name, resource.Amounts{resource.MemoryMB: 1000, resource.Containers: 9}
	return st
}

// joins makes a cell process send one heartbeat; its state has a zone.
func (t *Term) joins(test *testing.T, name, proc string) {
	test.Helper()
	t.joinsAs(test, name, proc, docile{obedient{reporter{term: t.Term()}, &sync.Mutex{}, &[]worker.RunTask{}}})
}

func (t *Term) joinsAs(test *testing.T, name, proc string, as link.Cell) {
	test.Helper()
	t.cells.SetLocal(worker.CellName(name), as)
	h := worker.Heartbeat{Protocol: worker.Protocol, Cell: worker.CellName(name), Proc: worker.Proc(proc), DirID: "f-" +
		proc, Started: 1, Boot: "b", Beat: 1,
		Promise: worker.DefaultTimeouts().MaxDiesWithin, PredecessorsGone: true}
	if _, err := t.Heartbeat(test.Context(), h, stateOf(name)); err != nil {
		test.Fatal(err)
	}
	pass(time.Second)
}

// answerProbes makes a cell process answer its probes, and become HEALTHY.
func (t *Term) answerProbes(test *testing.T, o obedient, name, proc string) {
	test.Helper()
	o.mu.Lock()
	probes := slices.Clone(*o.probes)
	o.mu.Unlock()
	for _, p := range probes {
		item := worker.StatusItem{Kind: worker.StatusProbe, Probe: p.Probe, OK: true}
		if _, err := t.UpdateStatus(test.Context(),
			worker.UpdateStatus{Cluster: t.lease.Cluster(), Term: t.Term(), Cell: worker.CellName(name), Proc: worker.Proc(proc),
				Items: []worker.StatusItem{item}}); err != nil {
			test.Fatal(err)
		}
	}
	pass(2 * time.Second)
}

// goneCell returns the result of GetCell for a cell that is gone.
func goneCell(t *testing.T, v view, name string) api.Cell {
	t.Helper()
	c, err := v.GetCell(worker.CellName(name))
	if err != nil || c.Gone == nil {
		t.Fatalf("cell %s: %+v, %v", name, c, err)
	}
	return c
}

// TestTheEndOfACellIsReported: each kind of end of a cell leaves its name, its time, the reason, and the handling
// of its work. They are in the list, in explain and in the events; status names lost cells. A process that takes
// the name removes it.
func TestTheEndOfACellIsReported(t *testing.T) {
	ways := map[string]struct {
		word, why string
		leave     func(tm *Term, v view) error
		wait      time.Duration
	}{
		"deregister": {"LEFT", "deregistered", func(tm *Term, _ view) error {
			_, err := tm.Heartbeat(context.Background(),
				worker.Heartbeat{Protocol: worker.Protocol, Cell: "c3", Proc: "p", DirID: "f-p", Started: 1, Boot: "b", Beat: 2,
					Deregister: true, PredecessorsGone: true}, stateOf("c3"))
			return err
		}, time.Second},
		"silence": {"LOST", "silent for longer than its work may live", func(*Term, view) error { return nil },
			time.Hour},
		"operator's word": {"LOST", "declared dead by ann",
			func(_ *Term, v view) error { return v.ForgetCell(context.Background(), "p", plan.Write{By: "ann"}) }, time.Second},
	}
	for name, w := range ways {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tm, end := begin(t)
				defer end()
				v := viewOf(tm)
				tm.joins(t, "c3", "p")
				if err := w.leave(tm, v); err != nil {
					t.Fatal(err)
				}
				pass(w.wait)
				c := goneCell(t, v, "c3")
				if c.Gone.Word() != w.word || !strings.Contains(c.Gone.Why, w.why) || c.Gone.Work != "nothing was left on it" ||
					c.Gone.At.IsZero() || c.Zone != "z1" {
					t.Errorf("%+v %+v", c, c.Gone)
				}
				e, err := v.Explain(t.Context(), plan.Subject{Kind: plan.SubjectCell, Name: "c3"})
				coherent(t, "c3", e)
				if err != nil || e.State != w.word || e.Fine != c.Gone.Left || !strings.Contains(e.Reasons[0].Text, w.why) {
					t.Errorf("%+v, %v", e, err)
				}
				s, _ := v.Status()
				if got := strings.Contains(strings.Join(s.Warnings, "\n"), "lost cells: c3"); got == c.Gone.Left ||
					s.Counts["cells_lost"] > 0 == c.Gone.Left {
					t.Errorf("status: %v %v", s.Counts, s.Warnings)
				}
				reported := ""
				for _, e := range tm.hub.Recent(9, func(e *event.Event) bool { return e.Cell != nil }) {
					if e.Cell.Gone {
						reported = e.Text
					}
				}
				if !strings.HasPrefix(reported, w.word+": ") {
					t.Errorf("its event has %q", reported)
				}
				if _, err := v.DrainCell(t.Context(), "c3", api.NewDrain{Reason: "x"}, plan.Write{}); !errors.Is(err,
					worker.ErrUnknownProcess) {
					t.Errorf("drain: %v", err)
				}
				tm.joins(t, "c3", "q")
				if c, err := v.GetCell("c3"); err != nil || c.Gone != nil || c.Proc != "q" {
					t.Errorf("taken: %+v, %v", c, err)
				}
				if l := tm.Lost(); len(l) > 0 {
					t.Errorf("taken: %+v", l)
				}
			})
		})
	}
}

// TestLostWorkIsCountedByKind: the work of a lost cell is counted by kind. An operator
// removes it from the list.
func TestLostWorkIsCountedByKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tm, end := begin(t)
		defer end()
		v, ctx := viewOf(tm), t.Context()
		web := sleeping(t, v)
		if _, err := v.DesireTask(ctx, plan.NewTask{GUID: "t", Domain: "d", Definition: large()}, plan.Write{}); err != nil {
			t.Fatal(err)
		}
		o := obedient{reporter{term: tm.Term()}, &sync.Mutex{}, &[]worker.RunTask{}}
		tm.joinsAs(t, "c3", "p", docile{o})
		tm.answerProbes(t, o, "c3", "p")
		l, err := v.ListInstances(plan.InstanceFilter{Domain: "d"}, plan.Range{Limit: 9})
		if err != nil || len(l.Items) != 1 {
			t.Fatalf("%+v, %v", l, err)
		}
		start := wire.LRPCall{Key: l.Items[0].Key, Service: web,
			Event: lrp.Start{By: lrp.Identity{Instance: "i", Cell: "c3", Proc: "p"}, Net: lrp.Net{Routable: true}, Service: web}}
		row, err := v.GetTask("t")
		if err != nil {
			t.Fatal(err)
		}
		got, err1 := tm.Board.LRPEvents(ctx, []wire.LRPCall{start})
		got2,
			err2 := tm.Board.TaskEvents(ctx, []wire.TaskCall{{GUID: "t",
			Event: task.Start{UID: row.UID, By: task.Holder{Cell: "c3", Proc: "p"}}}})
		if err := errors.Join(err1, err2, got[0], got2[0]); err != nil {
			t.Fatal(err)
		}
		if err := v.ForgetCell(ctx, "p", plan.Write{By: "ann"}); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		want := "1 instance placed on other cells, as these have room; 1 task lost and not started again: " +
			"record the outcome with cantina task resolve"
		if c := goneCell(t, v, "c3"); c.Gone.Work != want {
			t.Errorf("%q", c.Gone.Work)
		}
		if err := v.ForgetCell(ctx, "p", plan.Write{By: "ann"}); err != nil {
			t.Fatal(err)
		}
		if _, err := v.GetCell("c3"); !errors.Is(err, worker.ErrUnknownProcess) {
			t.Errorf("taken off the list: %v", err)
		}
		if err := v.ForgetCell(ctx, "p", plan.Write{By: "ann"}); !errors.Is(err, worker.ErrUnknownProcess) {
			t.Errorf("twice: %v", err)
		}
	})
}

// TestInstancesOfASilentCellAreCounted: they are placed again before the cell is lost, and none of
// them is on it when it is.
func TestInstancesOfASilentCellAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tm, end := begin(t)
		defer end()
		v, ctx := viewOf(tm), t.Context()
		web := sleeping(t, v)
		o := obedient{reporter{term: tm.Term()}, &sync.Mutex{}, &[]worker.RunTask{}}
		tm.joinsAs(t, "c3", "p", docile{o})
		tm.answerProbes(t, o, "c3", "p")
		starts := func(by lrp.Identity) {
			t.Helper()
			l, err := v.ListInstances(plan.InstanceFilter{Domain: "d"}, plan.Range{Limit: 9})
			if err != nil {
				t.Fatal(err)
			}
			got,
				err := tm.Board.LRPEvents(ctx, []wire.LRPCall{{Key: l.Items[0].Key, Service: web,
				Event: lrp.Start{By: by, Net: lrp.Net{Routable: true}, Service: web}}})
			if err != nil || got[0] != nil {
				t.Fatal(got, err)
			}
		}
		starts(lrp.Identity{Instance: "i", Cell: "c3", Proc: "p"})
		pass(30 * time.Second)
		if s, ok := tm.Registry.Session("c3"); !ok || s.State != worker.Unhealthy {
			t.Fatalf("%+v", s)
		}
		tm.joins(t, "c1", "q")
		starts(lrp.Identity{Instance: "j", Cell: "c1", Proc: "q"})
		pass(time.Second)
		if n := tm.Board.InstancesOn("p"); n != 0 {
			t.Fatalf("%d are still on it", n)
		}
		pass(time.Hour)
		if c := goneCell(t, v, "c3"); c.Gone.Work != "1 instance placed on other cells, as these have room" {
			t.Errorf("%q", c.Gone.Work)
		}
	})
}

// TestALongListOfLostCellsIsBounded: the newest are kept, and are listed page after page behind
// the living.
func TestALongListOfLostCellsIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tm, end := begin(t)
		defer end()
		v := viewOf(tm)
		for i := range 53 {
			name := fmt.Sprintf("c%02d", i)
			tm.joins(t, name, "p-"+name)
			if err := v.ForgetCell(t.Context(), worker.Proc("p-"+name), plan.Write{By: "ann"}); err != nil {
				t.Fatal(err)
			}
			pass(time.Second)
		}
		tm.joins(t, "zz", "living")
		var names []string
		for r := (plan.Range{Limit: 7}); ; {
			l, err := v.ListCells(r, nil, true)
			if err != nil {
				t.Fatal(err)
			}
			for i := range l.Items {
				names = append(names, string(l.Items[i].Name))
			}
			if r.After = l.Next; r.After == "" {
				break
			}
		}
		if len(names) != 51 || names[0] != "zz" || names[1] != "c03" || names[50] != "c52" {
			t.Errorf("%d: %v", len(names), names)
		}
		if l, err := v.ListCells(plan.Range{Limit: 9}, nil, false); err != nil || len(l.Items) != 1 || l.Next != "" {
			t.Errorf("the living: %+v, %v", l, err)
		}
		s, _ := v.Status()
		if text := strings.Join(s.Warnings, "\n"); s.Counts["cells_lost"] != 50 || !strings.Contains(text, "and 40 more") {
			t.Errorf("%v %s", s.Counts, text)
		}
	})
}

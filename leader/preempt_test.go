package leader

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cantina/action"
	"cantina/cell"
	"cantina/fence"
	"cantina/internal/link"
	"cantina/lrp"
	"cantina/placement"
	"cantina/plan"
	"cantina/resource"
	"cantina/store/mem"
	"cantina/wire"
	"cantina/worker"
)

// willing is a cell that takes everything.
type willing struct {
	link.Cell
	mu   *sync.Mutex
	took *[]cell.LRPWork
}

// Perform implements link.Cell.
func (w willing) Perform(_ context.Context, work cell.Work) ([]cell.Refusal, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	*w.took = append(*w.took, work.LRPs...)
	return nil, nil
}

// StopWork implements link.Cell.
func (willing) StopWork(context.Context, fence.Term, worker.Proc, cell.Stops) error { return nil }

// next returns the next instance that the cell got, and whether there is one.
func (w willing) next() (k lrp.Key, by lrp.Identity, ok bool) {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(*w.took) == 0 {
		return k, by, false
	}
	x := (*w.took)[0]
	*w.took = (*w.took)[1:]
	return x.Key, lrp.Identity{Instance: x.Instance, Cell: "c", Proc: "p-c"}, true
}

func sized(name string, memory, priority int) lrp.Desired {
	return lrp.Desired{Service: lrp.ServiceKey{Domain: "d", Name: name}, Instances: 1, PreemptPriority: priority,
		Workload: action.Workload{Action: action.Action{Run: &action.Run{Path: "/bin/true"}},
			Resources: resource.Amounts{resource.MemoryMB: memory}}}
}

// TestPreemption: with the setting, an instance that has waited for 5 s has one of lower priority stopped, and gets its
// room, and both are explained. Without it, it waits.
func TestPreemption(t *testing.T) {
	for name, on := range map[string]bool{"on": true, "off": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tm, end := beginSet(t, mem.Config{}, Settings{NewCluster: true, Preempt: on}, nil)
				defer end()
				w := willing{mu: &sync.Mutex{}, took: &[]cell.LRPWork{}}
				tm.cells.SetLocal("c", w)
				tm.Auctioneer.Push(placement.State{Cell: "c", Process: "p-c", Version: 1,
					Capacity: resource.Amounts{resource.MemoryMB: 1000, resource.Containers: 9}})
				tm.Auctioneer.Admit("c", "p-c", "")
				v := viewOf(tm)
				apply := func(all ...lrp.Desired) {
					t.Helper()
					a := plan.Application{Domain: "d", Services: all}
					if _, err := tm.Board.Apply(t.Context(), a, plan.Write{}, nil); err != nil {
						t.Fatal(err)
					}
				}
				event := func(k lrp.Key, e lrp.Event) {
					t.Helper()
					answers, err := tm.Board.LRPEvents(t.Context(), []wire.LRPCall{{Key: k, Event: e}})
					if err != nil || answers[0] != nil {
						t.Fatal(answers, err)
					}
					synctest.Wait()
				}
				explains := func(service, code, want string) bool {
					t.Helper()
					e, err := v.Explain(t.Context(), plan.Subject{Kind: plan.SubjectInstance, Domain: "d", Name: service})
					if err != nil {
						t.Fatal(err)
					}
					return slices.ContainsFunc(e.Reasons, func(r plan.Reason) bool {
						return r.Code == code && strings.Contains(r.Text, want)
					})
				}
				apply(sized("low", 800, 10))
				k, by, ok := w.next()
				if !ok {
					t.Fatal("low is not placed")
				}
				event(k, lrp.Start{By: by, Net: lrp.Net{Address: "127.0.0.1", Routable: true}})
				pass(time.Minute)
				apply(sized("high", 800, 80), sized("same", 800, 10))
				pass(placementWait - time.Second)
				if explains("low", "preempted", "") || explains("high", "preempting", "") {
					t.Error("stopped too early")
				}
				pass(2 * time.Second)
				const waits = "waits for 1 instance on cell c to end, of lower preempt_priority; the room is reserved"
				if explains("low", "preempted", "its room is given to d/high/0") != on ||
					explains("high", "preempting", waits) != on || tm.Gauges().Auction.Preempted == 1 != on {
					t.Errorf("stopped: %d", tm.Gauges().Auction.Preempted)
				}
				if !on {
					return
				}
				pass(time.Minute) // it is not stopped once more
				event(k, lrp.Remove{By: by})
				k, by, ok = w.next()
				if row, _ := tm.Board.GetService(lrp.ServiceKey{Domain: "d", Name: "high"}); !ok ||
					row.Target().Process != k.Process {
					t.Fatalf("%v is placed: %v", k, ok)
				}
				event(k, lrp.Start{By: by, Net: lrp.Net{Address: "127.0.0.1", Routable: true}})
				if !explains("low", "preempted", "its room was given to d/high/0") || explains("high", "preempting", "") {
					t.Error("it is not explained afterwards")
				}
				pass(time.Minute)
				if _, _, ok := w.next(); ok || tm.Gauges().Auction.Preempted != 1 {
					t.Error("work of lower priority has its room")
				}
			})
		})
	}
}

// placementWait is how long work waits before other work is stopped for it.
const placementWait = 5 * time.Second

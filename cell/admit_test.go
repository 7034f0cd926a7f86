package cell

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cantina/executor"
	"cantina/lrp"
	"cantina/task"
	"cantina/worker"
)

// hooked is an executor that runs a hook at one of its calls, once.
type hooked struct {
	Executor

	mu             sync.Mutex
	before, listed func() // a reservation is made; the list has been taken

	unstartable, unreadable error // every start, every result file
	starting                func()
}

// Start implements Executor.
func (h *hooked) Start(id string, s executor.Spec) error {
	h.mu.Lock()
	err := h.unstartable
	h.mu.Unlock()
	h.take(&h.starting)()
	if err != nil {
		return err
	}
	return h.Executor.Start(id, s)
}

// ResultFile implements Executor.
func (h *hooked) ResultFile(id string) ([]byte, error) {
	h.mu.Lock()
	err := h.unreadable
	h.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return h.Executor.ResultFile(id)
}

func (h *hooked) fail(start, result error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.unstartable, h.unreadable = start, result
}

func (h *hooked) take(f *func()) func() {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := *f
	*f = nil
	if out == nil {
		return func() {}
	}
	return out
}

// Reserve implements Executor.
func (h *hooked) Reserve(r executor.Reservation) error {
	h.take(&h.before)()
	return h.Executor.Reserve(r)
}

// List implements Executor.
func (h *hooked) List() []executor.Container {
	all := h.Executor.List()
	h.take(&h.listed)()
	return all
}

// TestNothingIsReservedBehindTheEnd: a reservation is refused when the cell begins to leave or its session ends
// meanwhile: the leader's list did not contain it.
func TestNothingIsReservedBehindTheEnd(t *testing.T) {
	for name, end := range map[string]func(*world){
		"the cell leaves": func(w *world) { w.cell.Leave() },
		"the session ends": func(w *world) {
			w.cell.session.step(worker.SuicideAsked{Call: worker.Suicide{Term: w.leader.term, Proc: w.proc()}})
		},
	} {
		for _, bound := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				inBubble(t, func(t *testing.T, w *world) {
					key := w.desire()
					w.leader.mu.Lock()
					w.leader.task = &task.Task{GUID: "t", UID: "u", State: task.Pending}
					w.leader.mu.Unlock()
					w.hooks.before = func() {
						end(w)
						time.Sleep(time.Second) // it has deregistered
						synctest.Wait()
					}
					call := Work{Term: w.leader.term, Proc: w.proc(),
						LRPs: []LRPWork{{Key: key, Service: w.leader.desired.Service, Instance: "i1", Workload: sleeper("forever"),
							DeadlineBound: bound}},
						Tasks: []TaskWork{{GUID: "t", UID: "u", Domain: "d", Workload: sleeper("forever"), DeadlineBound: bound}}}
					refused, err := w.cell.Perform(context.Background(), call)
					synctest.Wait()
					if err == nil && len(refused) != 2 {
						t.Errorf("refused: %+v", refused)
					}
					if row, u := w.leader.rowOf(), w.leader.taskRow(); row.State != lrp.Unclaimed || u.State != task.Pending ||
						len(w.exec.List()) != 0 {
						t.Errorf("the instance is %v, the task %v, containers %+v", row.State, u.State, w.exec.List())
					}
				})
			})
		}
	}
}

package cell

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"cantina/action"
	"cantina/batch"
	"cantina/executor"
	"cantina/executor/simulate"
	"cantina/fence"
	"cantina/internal/run"
	"cantina/lrp"
	"cantina/resource"
	"cantina/task"
	"cantina/wire"
	pb "cantina/wire/cantinav1"
	"cantina/worker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// leader is a leader with real rows: it answers heartbeats as if the session were
// in order and applies events by lrp.Step and task.Step.
type leader struct {
	clock run.Clock
	term  fence.Term

	mu       sync.Mutex
	silent   bool // answers nothing
	promise  time.Duration
	uncredit bool // gives no credit: it has not recorded the cell's work
	proc     worker.Proc
	index    lrp.Index
	desired  *lrp.Desired
	task     *task.Task
	statuses []worker.StatusItem
	probe    int64
	probes   sync.WaitGroup
	cell     *Cell
}

var errSilent = errors.New("no answer")

// rowOf returns the ordinary row, taskRow the task, as of now.
func (l *leader) rowOf() *lrp.Actual {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.index.Ordinary
}

func (l *leader) taskRow() *task.Task {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.task
}

func (l *leader) Heartbeat(_ context.Context, b worker.Heartbeat, _ State) (worker.HeartbeatAnswer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.silent {
		return worker.HeartbeatAnswer{}, errSilent
	}
	l.proc = b.Proc
	if l.uncredit { // a probe that ends hurries the next beat
		return worker.HeartbeatAnswer{Protocol: worker.Protocol, Term: l.term, Proc: b.Proc, Beat: b.Beat,
			State: worker.Unhealthy, Reported: true,
			Timeouts: worker.DefaultTimeouts()}, nil
	}
	l.probe++
	number := l.probe
	l.probes.Go(func() { // the leader's healthcheck
		call := worker.RunTask{Term: l.term, Proc: b.Proc, Probe: number, Beat: b.Beat}
		if _, err := l.cell.RunTasks(context.Background(), []RunItem{{Call: call}}); err != nil {
			panic(err)
		}
	})
	t := worker.DefaultTimeouts()
	state := worker.Healthy
	if b.Deregister {
		state = worker.MustDie
	}
	return worker.HeartbeatAnswer{Protocol: worker.Protocol, Term: l.term, Proc: b.Proc, Beat: b.Beat, State: state,
		Reported: true,
		Eligible: true, Credit: true, Promise: l.promise, Timeouts: t}, nil
}

func (l *leader) UpdateStatus(_ context.Context, u worker.UpdateStatus) ([]worker.StatusAnswer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.silent {
		return nil, errSilent
	}
	out := make([]worker.StatusAnswer, len(u.Items))
	for i, it := range u.Items {
		l.statuses = append(l.statuses, it)
		out[i] = worker.StatusAnswer{Term: l.term, Proc: u.Proc, Kind: it.Kind, Run: it.Run, Probe: it.Probe, OK: true}
	}
	return out, nil
}

func (l *leader) Rows(_ context.Context, _ Caller, _ RowsQuery) (Rows, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.silent {
		return Rows{}, errSilent
	}
	var rows Rows
	if !l.index.Empty() {
		rows.LRPs = []lrp.Index{l.index}
	}
	if l.task != nil {
		rows.Tasks = []*task.Task{l.task}
	}
	return rows, nil
}

func (l *leader) LRPEvents(_ context.Context, _ Caller, es []LRPEvent) ([]error, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.silent {
		return nil, errSilent
	}
	out := make([]error, len(es))
	for i, e := range es {
		next, _, err := lrp.Step(l.index, e.Event, lrp.Env{Now: l.clock.Wall(), Desired: l.desired, Wanted: l.desired != nil,
			Fresh: true, Eligible: true})
		if out[i] = err; err == nil {
			l.index = next
		}
	}
	return out, nil
}

func (l *leader) TaskEvents(_ context.Context, _ Caller, es []TaskEvent) ([]error, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.silent {
		return nil, errSilent
	}
	out := make([]error, len(es))
	for i, e := range es {
		next, _, err := task.Step(l.task, e.Event, task.Env{Now: l.clock.Wall(), Eligible: true})
		if out[i] = err; err == nil {
			l.task = next
		}
	}
	return out, nil
}

// world is one cell in a bubble.
type world struct {
	t      *testing.T
	cell   *Cell
	exec   *simulate.Executor
	hooks  *hooked // around exec
	leader *leader
	clock  run.Clock
}

// inBubble runs f with a cell whose session is HEALTHY.
func inBubble(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	inBubbleOf(t, func(*leader) {}, f)
}

// inBubbleOf is inBubble with a leader that is changed first.
func inBubbleOf(t *testing.T, change func(*leader), f func(t *testing.T, w *world)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		clock := run.Bubble()
		w := &world{t: t, clock: clock, exec: simulate.New(resource.Amounts{resource.MemoryMB: 100, resource.Containers: 10},
			clock.Wall),
			leader: &leader{clock: clock, promise: worker.DefaultTimeouts().DiesWithin(),
				term: fence.Term{Epoch: 1, Revision: 7}}}
		w.hooks = &hooked{Executor: Simulated{w.exec}}
		healthy := make(chan struct{}, 10)
		cfg := Config{Name: "c1", Dir: dir, Clock: clock, Log: slog.New(slog.DiscardHandler), Leave: 5 * time.Second,
			OnSession: func(s worker.State) {
				if s == worker.Healthy {
					healthy <- struct{}{}
				}
			}}
		c, err := New(cfg, w.hooks, w.leader)
		if err != nil {
			t.Fatal(err)
		}
		w.cell, w.leader.cell = c, c
		change(w.leader)
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- c.Run(ctx) }()
		t.Cleanup(func() {
			stop()
			if err := <-done; err != nil {
				t.Errorf("Run: %v", err)
			}
			w.exec.Close()
			w.leader.probes.Wait()
		})
		if !w.leader.uncredit {
			<-healthy
		}
		time.Sleep(time.Second) // the first probe
		synctest.Wait()
		f(t, w)
	})
}

func (w *world) proc() worker.Proc {
	_, p, _ := w.cell.session.view()
	return p
}

func sleeper(text string) *action.Workload {
	return &action.Workload{Action: action.Action{Run: &action.Run{Path: "/bin/sleep", Args: []string{text}}},
		Resources: resource.Amounts{resource.MemoryMB: 10}}
}

// desire puts an UNCLAIMED row of a service into the leader.
func (w *world) desire() lrp.Key {
	key := lrp.Key{Process: "p1", Index: 0}
	service := lrp.ServiceKey{Domain: "d", Name: "web"}
	w.leader.mu.Lock()
	defer w.leader.mu.Unlock()
	w.leader.desired = &lrp.Desired{Process: "p1", Service: service, Instances: 1}
	x, _, err := lrp.Step(lrp.Index{Key: key}, lrp.Create{},
		lrp.Env{Now: w.clock.Wall(), Desired: w.leader.desired, Wanted: true, Fresh: true})
	if err != nil {
		w.t.Fatal(err)
	}
	w.leader.index = x
	return key
}

func (w *world) perform(work Work) []Refusal {
	w.t.Helper()
	work.Term, work.Proc = w.leader.term, w.proc()
	refused, err := w.cell.Perform(context.Background(), work)
	if err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
	return refused
}

func TestAnInstanceIsClaimedThenRunsAndIsReported(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		key := w.desire()
		w.perform(Work{LRPs: []LRPWork{{Key: key, Service: w.leader.desired.Service, Instance: "i1",
			Workload: sleeper("forever")}}})
		row := w.leader.rowOf()
		if row == nil || row.State != lrp.Running || row.Instance != "i1" || row.Cell != "c1" ||
			row.Proc != string(w.proc()) {
			t.Fatalf("row %+v", row)
		}
		w.exec.Exit("i1", 3)
		synctest.Wait()
		if row = w.leader.rowOf(); row.CrashCount != 1 || row.State != lrp.Unclaimed {
			t.Fatalf("after a crash: %+v", row)
		}
		if n := len(w.exec.List()); n != 0 {
			t.Fatalf("%d containers left", n)
		}
	})
}

// TestStopsDoNotPreventOneAnother: one that cannot be done, and work that is not here, leave the rest.
func TestStopsDoNotPreventOneAnother(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		key := w.desire()
		w.perform(Work{LRPs: []LRPWork{{Key: key, Service: w.leader.desired.Service, Instance: "i1",
			Workload: sleeper("forever")}}})
		w.desireTask("t")
		w.performTask("t")
		if n := len(w.exec.List()); n != 2 {
			t.Fatalf("%d containers", n)
		}
		err := w.cell.StopWork(t.Context(), w.leader.term, w.proc(), Stops{
			Instances: []StopInstance{{Key: lrp.Key{Process: "other"}, Instance: "i1"}, {Key: key, Instance: "gone"}},
			Tasks:     []string{"gone", "u-t"}})
		if !errors.Is(err, ErrUnknownContainer) || strings.Count(err.Error(), "instance") != 1 {
			t.Errorf("%v: only the instance of another row is an error", err)
		}
		synctest.Wait()
		if left := w.exec.List(); len(left) != 1 || left[0].ID != "i1" {
			t.Fatalf("%+v", left)
		}
		err = w.cell.StopWork(t.Context(), w.leader.term, w.proc(),
			Stops{Instances: []StopInstance{{Key: key, Instance: "i1"}}})
		if synctest.Wait(); err != nil || len(w.exec.List()) != 0 {
			t.Fatalf("%v, %+v", err, w.exec.List())
		}
		if err := w.cell.StopWork(t.Context(), w.leader.term, "another", Stops{}); !errors.Is(err, ErrProc) {
			t.Errorf("%v", err)
		}
	})
}

func TestAReservationLosesAgainstAnotherCell(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		key := w.desire()
		w.leader.mu.Lock()
		w.leader.index.Ordinary = &lrp.Actual{Key: key, Service: w.leader.desired.Service, State: lrp.Running,
			Since:    w.clock.Wall(),
			Identity: lrp.Identity{Instance: "other", Cell: "c2", Proc: "p2"}}
		w.leader.mu.Unlock()
		w.perform(Work{LRPs: []LRPWork{{Key: key, Instance: "i1", Workload: sleeper("forever")}}})
		if n := len(w.exec.List()); n != 0 {
			t.Fatalf("%d containers left, want the reservation deleted", n)
		}
		if row := w.leader.rowOf(); row.Instance != "other" {
			t.Fatalf("row %+v", row)
		}
	})
}

func TestARowWithoutContainerIsRemovedAtTheNextPoll(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		key := w.desire()
		w.leader.mu.Lock()
		w.leader.index.Ordinary = &lrp.Actual{Key: key, Service: w.leader.desired.Service, State: lrp.Running,
			Since:    w.clock.Wall(),
			Identity: lrp.Identity{Instance: "ghost", Cell: "c1", Proc: string(w.proc())}}
		w.leader.mu.Unlock()
		time.Sleep(31 * time.Second)
		synctest.Wait()
		w.leader.mu.Lock()
		defer w.leader.mu.Unlock()
		if row := w.leader.index.Ordinary; row != nil && row.Cell == "c1" {
			t.Fatalf("row %+v", row)
		}
	})
}

// TestARowOfAnotherProcessIsLeftAlone: an exclusive instance may run on another machine under this cell's name.
// Only the leader can determine when it is dead.
func TestARowOfAnotherProcessIsLeftAlone(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		key := w.desire()
		row := &lrp.Actual{Key: key, Service: w.leader.desired.Service, State: lrp.Running, Since: w.clock.Wall(),
			Identity: lrp.Identity{Instance: "theirs", Cell: "c1", Proc: "another"}}
		w.leader.mu.Lock()
		w.leader.desired.Exclusive, row.Exclusive = true, true
		w.leader.index.Ordinary = row
		w.leader.mu.Unlock()
		time.Sleep(31 * time.Second)
		synctest.Wait()
		if got := w.leader.rowOf(); got != row {
			t.Fatalf("row %+v", got)
		}
	})
}

func TestATaskRunsOnceAndItsEndIsReported(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		row, _, err := task.Desire(task.Task{GUID: "t1", UID: "u1", Domain: "d",
			Definition: &task.Definition{Workload: *sleeper("5")}}, w.clock.Wall())
		if err != nil {
			t.Fatal(err)
		}
		w.leader.mu.Lock()
		w.leader.task = row
		w.leader.mu.Unlock()
		w.perform(Work{Tasks: []TaskWork{{GUID: "t1", UID: "u1", Domain: "d", Workload: sleeper("5")}}})
		if got := w.leader.taskRow(); got.State != task.Running || got.Holder.Cell != "c1" {
			t.Fatalf("row %+v", got)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if got := w.leader.taskRow(); got.State != task.Completed || got.Outcome != task.Succeeded {
			t.Fatalf("row %+v", got)
		}
		w.perform(Work{Tasks: []TaskWork{{GUID: "t1", UID: "u1", Domain: "d", Workload: sleeper("5")}}})
		if n := len(w.exec.List()); n != 0 {
			t.Fatal("a completed task has a container again")
		}
	})
}

func TestARefusalNamesTheShortage(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		key := w.desire()
		big := sleeper("forever")
		big.Resources = resource.Amounts{resource.MemoryMB: 1000}
		refused := w.perform(Work{LRPs: []LRPWork{{Key: key, Instance: "i1", Workload: big}}})
		if len(refused) != 1 || refused[0].ID != "i1" ||
			refused[0].Reason != "insufficient resources: memory 1000Mi needed, 100Mi free" {
			t.Fatalf("got %+v", refused)
		}
	})
}

func (w *world) runBatch(counter int64, load *action.Workload) []worker.RunAnswer {
	w.t.Helper()
	call := worker.RunTask{Term: w.leader.term, Proc: w.proc(),
		Run: worker.Run{Work: worker.Work{Job: "j", Node: "n"},
			Invocation: fence.Invocation{Term: w.leader.term, Counter: counter}}}
	got, err := w.cell.RunTasks(context.Background(),
		[]RunItem{{Call: call, Work: &BatchWork{Domain: "d", Workload: load}}})
	if err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
	return got
}

func ended(t *testing.T, l *leader) []*pb.BatchEnd {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []*pb.BatchEnd
	for _, it := range l.statuses {
		if it.Kind != worker.StatusEnded {
			continue
		}
		m := &pb.BatchEnd{}
		if err := proto.Unmarshal([]byte(it.Status), m); err != nil {
			t.Fatal(err)
		}
		out = append(out, m)
	}
	return out
}

func TestABatchTaskRunsAndItsStatusIsSentUntilAcknowledged(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		if got := w.runBatch(1, sleeper("2")); len(got) != 1 || got[0].Result != worker.RunOK {
			t.Fatalf("got %+v", got)
		}
		if got := w.runBatch(1, sleeper("2")); got[0].Result != worker.RunOK {
			t.Fatalf("a repeat of a held invocation: %+v", got)
		}
		w.leader.mu.Lock()
		w.leader.silent = true
		w.leader.mu.Unlock()
		time.Sleep(4 * time.Second)
		if n := len(ended(t, w.leader)); n != 0 {
			t.Fatalf("%d statuses heard by a silent leader", n)
		}
		w.leader.mu.Lock()
		w.leader.silent = false
		w.leader.mu.Unlock()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		all := ended(t, w.leader)
		if len(all) != 1 || all[0].GetExitCode() != 0 || all[0].GetKilled() {
			t.Fatalf("got %v", all)
		}
		if got := w.runBatch(1, sleeper("2")); got[0].Result != worker.RunStale {
			t.Fatalf("an invocation that was seen: %+v", got)
		}
	})
}

func TestABatchTaskWithoutRoomRunsAgainWithoutPenalty(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		big := sleeper("1")
		call := worker.RunTask{Term: w.leader.term, Proc: w.proc(),
			Run: worker.Run{Work: worker.Work{Job: "j", Node: "n"},
				Invocation: fence.Invocation{Term: w.leader.term, Counter: 1}}}
		item := RunItem{Call: call, Work: &BatchWork{Workload: big, Resources: resource.Amounts{resource.MemoryMB: 1000}}}
		if _, err := w.cell.RunTasks(context.Background(), []RunItem{item}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		all := ended(t, w.leader)
		if len(all) != 1 || all[0].GetAgain() != pb.BatchAgain_BATCH_AGAIN_NOW {
			t.Fatalf("got %v", all)
		}
		if end, _ := wire.ToBatchEnd(all[0]); end.Reason != "insufficient resources: memory 1000Mi needed, 100Mi free" {
			t.Fatalf("reason %q", end.Reason)
		}
	})
}

func TestWithoutALeaderBoundWorkEndsAndFreeWorkStays(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		key := w.desire()
		w.perform(Work{LRPs: []LRPWork{{Key: key, Instance: "free", Workload: sleeper("forever")}}})
		w.runBatch(1, sleeper("1h"))
		first := w.proc()
		w.leader.mu.Lock()
		w.leader.silent = true
		w.leader.mu.Unlock()
		if w.exec.Deadline() == 0 {
			t.Fatal("the reaper has no deadline although there is credit")
		}
		time.Sleep(100 * time.Second)
		synctest.Wait()
		if _, ok := w.exec.Get("b-1.7.1"); ok {
			t.Fatal("batch work outlives the leader")
		}
		if c, ok := w.exec.Get("free"); !ok || c.State != executor.Running {
			t.Fatal("a service ended with the control plane")
		}
		if w.proc() == first {
			t.Fatal("no new session after MUST_DIE")
		}
		w.leader.mu.Lock()
		w.leader.silent = false
		w.leader.mu.Unlock()
		time.Sleep(35 * time.Second)
		synctest.Wait()
		w.leader.mu.Lock()
		defer w.leader.mu.Unlock()
		if row := w.leader.index.Ordinary; row == nil || row.State != lrp.Running || row.Proc != string(w.proc()) {
			t.Fatalf("the service was not harmonised: %+v", row)
		}
	})
}

// TestAdoptedWorkLivesByTheCreditOfALeaderThatRecordedIt: not before, also when the
// leader's promise has no end.
func TestAdoptedWorkLivesByTheCreditOfALeaderThatRecordedIt(t *testing.T) {
	for _, promise := range []time.Duration{worker.DefaultTimeouts().DiesWithin(), 0} {
		t.Run(promise.String(), func(t *testing.T) {
			inBubbleOf(t, func(l *leader) { l.uncredit, l.promise = true, promise }, func(t *testing.T, w *world) {
				if w.exec.Recorded() || w.exec.Deadline() != 0 {
					t.Fatal("adopted work got a new deadline without credit")
				}
				w.leader.mu.Lock()
				w.leader.uncredit = false
				w.leader.mu.Unlock()
				time.Sleep(worker.DefaultTimeouts().Heartbeat)
				synctest.Wait()
				if !w.exec.Recorded() {
					t.Fatal("adopted work keeps its predecessor's deadline although the leader gives credit")
				}
				if has := w.exec.Deadline() != 0; has != (promise != 0) {
					t.Fatalf("deadline %v by a promise of %v", w.exec.Deadline(), promise)
				}
			})
		})
	}
}

func TestACallOfAnOlderTermOrForAnotherProcessIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		_, err := w.cell.Perform(context.Background(), Work{Term: fence.Term{Epoch: 1, Revision: 6}, Proc: w.proc()})
		if !errors.Is(err, ErrTerm) {
			t.Fatalf("older term: %v", err)
		}
		newer := fence.Term{Epoch: w.leader.term.Epoch, Revision: w.leader.term.Revision + 17}
		want := fmt.Sprintf("call of a newer term than this cell has accepted: %v, the newest accepted is %v", newer,
			w.leader.term)
		if err := w.cell.Meant(newer, w.proc()); !errors.Is(err, ErrNewer) || errors.Is(err, ErrTerm) || err.Error() != want {
			t.Fatalf("newer term: %v, want %s", err, want)
		}
		_, err = w.cell.Perform(context.Background(), Work{Term: fence.Term{Epoch: 9e17}, Proc: w.proc()})
		if !errors.Is(err, ErrNewer) {
			t.Fatalf("a term that is not believed: %v", err)
		}
		_, err = w.cell.Perform(context.Background(), Work{Term: w.leader.term, Proc: "someone else"})
		if !errors.Is(err, ErrProc) {
			t.Fatalf("other process: %v", err)
		}
	})
}

// TestACellWithoutAClusterIsNotForeign: it joins the cluster of a leader that knows its process. To another leader
// it reports a different process. Only a cell that belongs to a cluster is foreign to another.
func TestACellWithoutAClusterIsNotForeign(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		if err := w.cell.Addressed("x", "someone else"); !errors.Is(err, ErrProc) || errors.Is(err, ErrForeign) {
			t.Fatalf("another process, no cluster: %v", err)
		}
		if err := w.cell.Addressed("x", w.proc()); err != nil {
			t.Fatalf("the first leader: %v", err)
		}
		if err := w.cell.Addressed("y", w.proc()); !errors.Is(err, ErrForeign) || errors.Is(err, ErrProc) {
			t.Fatalf("another cluster: %v", err)
		}
	})
}

// TestUnmadeContainersAreNotCounted: without control groups a cell makes no container. That is no crash of a
// service and no retry of a batch task. Later work is refused as by a full cell, and the probe reports the fault.
func TestUnmadeContainersAreNotCounted(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.exec.FailGroups()
		key := w.desire()
		w.perform(Work{LRPs: []LRPWork{{Key: key, Service: w.leader.desired.Service, Instance: "i1",
			Workload: sleeper("forever")}}})
		if row := w.leader.rowOf(); row != nil && (row.CrashCount != 0 || row.State != lrp.Unclaimed) {
			t.Errorf("an instance that was not made: %+v", row)
		}
		for counter := range int64(2) { // the second one is not even reserved
			w.runBatch(counter+1, sleeper("1"))
		}
		time.Sleep(time.Second)
		synctest.Wait()
		all := ended(t, w.leader)
		if len(all) != 2 {
			t.Fatalf("%v", all)
		}
		for _, m := range all {
			end, status := wire.ToBatchEnd(m)
			if r := batch.Judge(end, status, false); r.Bits != batch.Incomplete|batch.UsesBackoff|batch.KeepBackoff {
				t.Errorf("a batch task that was not made: %+v", r)
			}
		}
		got := w.perform(Work{LRPs: []LRPWork{{Key: key, Instance: "i2", Workload: sleeper("forever")}},
			Tasks: []TaskWork{{GUID: "t", UID: "u", Workload: sleeper("1")}}})
		if len(got) != 2 || !got[0].Cell || !got[1].Cell || !strings.Contains(got[0].Reason, executor.ErrNoGroup.Error()) {
			t.Errorf("refused: %+v", got)
		}
		if err := w.exec.Probe(t.Context()); err == nil {
			t.Error("the probe does not notice")
		}
		if n := len(w.exec.List()); n != 0 {
			t.Errorf("%d containers left", n)
		}
	})
}

package leader

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cantina/action"
	"cantina/cell"
	"cantina/internal/link"
	"cantina/internal/run"
	"cantina/placement"
	"cantina/plan"
	"cantina/resource"
	"cantina/store"
	"cantina/store/mem"
	"cantina/task"
	"cantina/worker"
)

// begin runs a term on a fresh memory store, inside a bubble. It returns a function that ends it.
func begin(t *testing.T) (*Term, func()) {
	t.Helper()
	return beginOver(t, mem.Config{})
}

// beginStale begins a term over a new store that was not declared a new cluster.
func beginStale(t *testing.T) (*Term, func()) {
	t.Helper()
	return beginWith(t, mem.Config{}, false, nil)
}

// beginOver begins a term over a store that may hold its answers back.
func beginOver(t *testing.T, backend mem.Config) (*Term, func()) {
	t.Helper()
	return beginWith(t, backend, true, nil)
}

// beginWith begins a term over a store that has ops; the load shows bad instead of the rows of the
// same keys, as if they were repaired at that time.
func beginWith(t *testing.T, backend mem.Config, newCluster bool, ops []store.Op, bad ...store.Row) (*Term, func()) {
	t.Helper()
	return beginSet(t, backend, Settings{NewCluster: newCluster}, ops, bad...)
}

// beginSet is beginWith with some settings.
func beginSet(t *testing.T, backend mem.Config, set Settings, ops []store.Op, bad ...store.Row) (*Term, func()) {
	t.Helper()
	clock := run.Bubble()
	s, err := store.New(mem.New(backend), store.Config{Clock: clock, NewCluster: set.NewCluster})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	leadership, err := s.Campaign(ctx, store.Candidate{ID: "s"})
	if err != nil {
		t.Fatal(err)
	}
	for _, op := range ops {
		done := make(chan error, 1)
		leadership.Submit(store.Transition{Ops: []store.Op{op}}, func(_ int64, err error) { done <- err })
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	rows := slices.DeleteFunc(slices.Clone(leadership.Rows()), func(r store.Row) bool {
		return slices.ContainsFunc(bad, func(b store.Row) bool { return b.Key == r.Key })
	})
	set.Name, set.Timeouts, set.Clock, set.Log = "s", worker.DefaultTimeouts(), clock, slog.New(slog.DiscardHandler)
	tm, err := Begin(set, leadership, append(rows, bad...), link.NewDirectory(link.Security{}))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- tm.Run(ctx) }()
	synctest.Wait()
	return tm, func() {
		cancel()
		<-ended
		_ = leadership.Resign(context.Background())
	}
}

// silent is a cell that never answers.
type silent struct{ link.Cell }

// Perform implements link.Cell.
func (silent) Perform(context.Context, cell.Work) ([]cell.Refusal, error) {
	return nil, errors.New("no answer")
}

func (t *Term) join(name string, memory int) {
	t.cells.SetLocal(worker.CellName(name), silent{})
	t.Auctioneer.Push(placement.State{Cell: name, Process: "p-" + name, Version: 1,
		Capacity: resource.Amounts{resource.MemoryMB: memory, resource.Containers: 9}})
	t.Auctioneer.Admit(name, "p-"+name, "")
}

func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func large() task.Definition {
	return task.Definition{Workload: action.Workload{Action: action.Action{Run: &action.Run{Path: "/bin/true"}},
		Resources: resource.Amounts{resource.MemoryMB: 1000}}}
}

func TestTooLargeFailsOnceTheCellsHadTheirTimeToJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tm, end := begin(t)
		defer end()
		tm.join("small", 100)
		for _, guid := range []string{"helped", "never"} {
			n := plan.NewTask{GUID: guid, Domain: "d", Definition: large()}
			if guid == "never" {
				n.Definition.Workload.Resources[resource.MemoryMB] = 5000
			}
			if _, err := tm.Board.DesireTask(t.Context(), n, plan.Write{}); err != nil {
				t.Fatal(err)
			}
		}
		pass(JoinGrace / 2)
		tm.Placement.Recheck()
		synctest.Wait()
		for _, guid := range []string{"helped", "never"} {
			if x, err := tm.Board.GetTask(guid); err != nil || x.State != task.Pending ||
				!strings.Contains(x.Rejection, "largest cell 100") {
				t.Fatalf("cells are still joining: %+v, %v", x.Task, err)
			}
		}
		tm.join("large", 2000)
		pass(JoinGrace)
		tm.Placement.Recheck()
		synctest.Wait()
		if x, _ := tm.Board.GetTask("helped"); x.Ended() {
			t.Errorf("a cell that helps has joined: %+v", x.Task)
		}
		if x, _ := tm.Board.GetTask("never"); x.Outcome != task.Failed ||
			!strings.Contains(x.Result.Reason, "it did not answer the last placement") {
			t.Errorf("no cell could ever hold it: %+v", x.Task)
		}
	})
}

// TestOneCellsRefusalIsNoFullness: a task that should fail without room continues if the one
// chosen cell refused it.
func TestOneCellsRefusalIsNoFullness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tm, end := begin(t)
		defer end()
		tm.join("c", 5000)
		n := plan.NewTask{GUID: "t", Domain: "d", Definition: large()}
		n.Definition.WhenFull = task.WhenFullFail
		if _, err := tm.Board.DesireTask(t.Context(), n, plan.Write{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		wanted, err := tm.Board.GetTask("t")
		if err != nil {
			t.Fatal(err)
		}
		item := placement.Item{ID: TaskItem("t"), Hold: wanted.UID}
		tm.Placement.Waiting([]placement.Refused{{Item: item,
			Refusal: placement.RefusedByCell("c", "insufficient resources: memory_mb")}})
		synctest.Wait()
		if x, err := tm.Board.GetTask("t"); err != nil || x.State != task.Pending ||
			!strings.Contains(x.Rejection, "c refused: insufficient resources") {
			t.Fatalf("one cell refused: %+v, %v", x.Task, err)
		}
		full := []placement.Refused{{Item: item, Refusal: &placement.Refusal{Code: placement.InsufficientResources}}}
		tm.Placement.Waiting(full)
		synctest.Wait()
		if x, err := tm.Board.GetTask("t"); err != nil || x.State != task.Pending {
			t.Fatalf("cells are still joining: %+v, %v", x.Task, err)
		}
		pass(JoinGrace)
		tm.Placement.Waiting(full)
		synctest.Wait()
		if x, err := tm.Board.GetTask("t"); err != nil || x.Outcome != task.Failed {
			t.Fatalf("no cell has room: %+v, %v", x.Task, err)
		}
	})
}

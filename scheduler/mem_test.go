package scheduler

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"cantina/auctioneer"
	"cantina/batch"
	"cantina/event"
	"cantina/fence"
	"cantina/internal/run"
	"cantina/placement"
	"cantina/plan"
	"cantina/resource"
	"cantina/store"
	"cantina/store/mem"
	"cantina/worker"
)

// Leadership must satisfy the interface of the scheduler.
var _ Store = (*store.Leadership)(nil)

// term is a scheduler over a real term, whose work ends the moment it starts.
type term struct {
	*Scheduler
	leadership *store.Leadership
	reg        *fakeRegistry
	hub        *doneHub
	stop       func()
}

// doneHub signals when a job is done.
type doneHub struct {
	once sync.Once
	done chan struct{}
}

func (h *doneHub) Publish(_ int64, events ...event.Event) {
	for _, e := range events {
		if e.Job != nil && e.Job.State == batch.JobDone {
			h.once.Do(func() { close(h.done) })
		}
	}
}

func beginLeadership(t testing.TB, ctx context.Context, b store.Backend, clock run.Clock, containers int) *term {
	t.Helper()
	s, err := store.New(b, store.Config{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	leadership, err := s.Campaign(ctx, store.Candidate{ID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	x := &term{leadership: leadership, hub: &doneHub{done: make(chan struct{})}}
	x.reg = &fakeRegistry{term: leadership.Term(), model: make(map[worker.Work]worker.RunView),
		payload: make(map[worker.Work]batch.Payload)}
	x.reg.instant = func(r worker.Run) *worker.Ended {
		e := endOf(r, "c", 0,
			`{"result":"done","data":{"sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","lines":123}}`)
		return &e
	}
	auction := auctioneer.New(auctioneer.Config{Clock: clock}, noCells{}, noBoard{})
	n := 0
	x.Scheduler = New(Config{
		Term: leadership.Term(), Store: leadership, Registry: x.reg, Auctioneer: auction, Hub: x.hub, Scripts: &fakeScripts{},
		Clock: clock,
		NewID: func() string { n++; return fmt.Sprint("uid", leadership.Term().Revision, "-", n) },
	}, leadership.Rows())
	x.reg.s = x.Scheduler
	running, cancel := context.WithCancel(ctx)
	var working sync.WaitGroup
	working.Go(func() { _ = auction.Run(running) })
	working.Go(func() { _ = x.Run(running) })
	auction.Admit("c", "p-c", "")
	auction.Push(placement.State{Cell: "c", Process: "p-c", Version: 1,
		Capacity: resource.Amounts{resource.Containers: containers}})
	x.stop = func() {
		cancel()
		working.Wait()
		if err := leadership.Resign(ctx); err != nil {
			t.Error(err)
		}
	}
	return x
}

func wide(n int) plan.NamedJob {
	dbs := make([]string, n)
	for i := range dbs {
		dbs[i] = fmt.Sprintf("src/net/http/file%06d.go", i)
	}
	return testJob("j", map[string][]string{"h": dbs})
}

func (x *term) start(t testing.TB, ctx context.Context, w plan.NamedJob) {
	c, err := x.Apply("dom", []plan.NamedJob{w}, plan.Prune{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x.Commit(ctx, c); err != nil {
		t.Fatal(err)
	}
}

func TestOverTheMemoryStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mem.New(mem.Config{})
		x := beginLeadership(t, t.Context(), b, run.Bubble(), 64)
		x.start(t, t.Context(), wide(1000))
		<-x.hub.done
		v, err := x.Job("j")
		if err != nil || v.Progress.State != batch.JobDone || v.Progress.Done != 1000 {
			t.Fatalf("%+v, %v", v.Progress, err)
		}
		x.stop()
		y := beginLeadership(t, t.Context(), b, run.Bubble(), 64)
		synctest.Wait()
		if v, err := y.Job("j"); err != nil || v.Progress.Done != 1000 || v.Progress.State != batch.JobDone {
			t.Errorf("%+v, %v", v.Progress, err)
		}
		results, err := y.Results(t.Context(), "j", batch.NodeFilter{After: "src/net/http/file000500.go", Limit: 3})
		if err != nil || len(results) != 3 || len(results[0].Data) == 0 || results[0].Node != "src/net/http/file000501.go" {
			t.Errorf("%+v, %v", results, err)
		}
		if inv, real := y.LastApplied(worker.Work{Job: "j", Node: results[0].Node}); !real || inv == (fence.Invocation{}) {
			t.Error("no last invocation")
		}
		y.stop()
	})
}

// BenchmarkBatchTasks is the leader's whole share of 20,000 batch tasks with data:
// decision, grant, start, status, commit in the memory store, acknowledgement.
func BenchmarkBatchTasks(b *testing.B) {
	const tasks = 20_000
	ctx := context.Background()
	segments := 0
	for b.Loop() {
		x := beginLeadership(b, ctx, mem.New(mem.Config{}), run.Kernel(), 64)
		x.start(b, ctx, wide(tasks))
		<-x.hub.done
		segments = x.Stats().Segments
		x.stop()
	}
	b.ReportMetric(float64(tasks*b.N)/b.Elapsed().Seconds(), "tasks/s")
	b.ReportMetric(float64(segments), "rows")
}

package auctioneer

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

	"cantina/internal/run"
	"cantina/placement"
	"cantina/resource"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeCells answers by script and records the calls.
type fakeCells struct {
	mu     sync.Mutex
	calls  []string
	answer func(cell string, work []placement.Item) ([]Refusal, error)
	block  chan struct{}
}

func (f *fakeCells) Perform(ctx context.Context, cell, process string, work []placement.Item) ([]Refusal, error) {
	ids := make([]string, len(work))
	for i := range work {
		ids[i] = work[i].ID
	}
	f.mu.Lock()
	f.calls = append(f.calls, fmt.Sprint(cell, "/", process, " ", ids))
	answer, block := f.answer, f.block
	f.mu.Unlock()
	if block != nil {
		select {
		case <-block:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if answer == nil {
		return nil, nil
	}
	return answer(cell, work)
}

func (f *fakeCells) set(answer func(string, []placement.Item) ([]Refusal, error)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answer = answer
}

func (f *fakeCells) take() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.calls
	f.calls = nil
	slices.Sort(c)
	return c
}

// fakeBoard records all calls.
type fakeBoard struct {
	mu         sync.Mutex
	waiting    []string
	unanswered []string
}

func (b *fakeBoard) Waiting(r []placement.Refused) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, x := range r {
		b.waiting = append(b.waiting, x.Item.ID+": "+x.Refusal.String())
	}
}

func (b *fakeBoard) Unanswered(items []placement.Item) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, it := range items {
		b.unanswered = append(b.unanswered, it.ID)
	}
}

type rig struct {
	*Auctioneer
	cells *fakeCells
	board *fakeBoard
}

// within runs an auctioneer in a bubble and joins it.
func within(t *testing.T, f func(t *testing.T, r rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := rig{cells: &fakeCells{}, board: &fakeBoard{}}
		r.Auctioneer = New(Config{Clock: run.Bubble()}, r.cells, r.board)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		f(t, r)
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

func (r rig) join(name string, memory int) {
	r.Admit(name, "p-"+name, "")
	r.Push(placement.State{Cell: name, Process: "p-" + name, Version: 1, Zone: "z",
		Capacity: resource.Amounts{resource.MemoryMB: memory, resource.Containers: 100}})
}

func work(id string, memory int) placement.Item {
	return placement.Item{ID: id, Hold: "h-" + id, Kind: placement.KindLRP, Group: id,
		Need: resource.Amounts{resource.MemoryMB: memory}}
}

func (r rig) request(t *testing.T, items ...placement.Item) {
	t.Helper()
	if err := r.Request(items...); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}

// pass lets time of the bubble go by.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func want(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

func TestWorkIsSentInBatches(t *testing.T) {
	within(t, func(t *testing.T, r rig) {
		r.join("a", 100)
		r.join("b", 100)
		r.request(t, work("w", 1), work("x", 2), work("y", 3), work("z", 4))
		want(t, "calls", r.cells.take(), "a/p-a [z w]", "b/p-b [y x]")
		if s := r.Stats(); s.Placed != 4 || s.Waiting != 0 {
			t.Errorf("%+v", s)
		}
	})
}

func TestOneCallPerCellAtATime(t *testing.T) {
	within(t, func(t *testing.T, r rig) {
		r.join("a", 100)
		synctest.Wait()
		r.cells.block = make(chan struct{})
		r.request(t, work("first", 1))
		r.request(t, work("second", 1))
		r.request(t, work("third", 1))
		want(t, "calls", r.cells.take(), "a/p-a [first]")
		close(r.cells.block)
		synctest.Wait()
		want(t, "calls", r.cells.take(), "a/p-a [second third]")
	})
}

func TestRefusalByACellIsReportedAndCarriedOver(t *testing.T) {
	within(t, func(t *testing.T, r rig) {
		r.join("a", 100)
		r.join("b", 50)
		r.cells.set(func(cell string, work []placement.Item) ([]Refusal, error) {
			if cell == "a" {
				return []Refusal{{Hold: work[0].Hold, Reason: "memory_mb 10 needed, 5 free", Full: true}, {Hold: "nonsense"}}, nil
			}
			return nil, nil
		})
		r.request(t, work("x", 10))
		want(t, "calls", r.cells.take(), "a/p-a [x]", "b/p-b [x]")
		want(t, "waiting", r.board.waiting, "x: insufficient resources: 1 cell: a refused: memory_mb 10 needed, 5 free")
		if at, ok := r.Cells()[1], true; !ok || at.InFlight != 1 {
			t.Errorf("%+v", at)
		}
	})
}

// TestACallWithoutAnswerIsMadeAgain: the cell may have the work, so the call is repeated at growing intervals under
// the same ids. Meanwhile the cell gets no other call. Work that is not claimed in time is left to convergence.
func TestACallWithoutAnswerIsMadeAgain(t *testing.T) {
	within(t, func(t *testing.T, r rig) {
		r.join("a", 100)
		r.cells.set(func(string, []placement.Item) ([]Refusal, error) { return nil, errors.New("cut") })
		r.request(t, work("x", 10))
		r.request(t, work("y", 10))
		want(t, "calls", r.cells.take(), "a/p-a [x]")
		pass(999 * time.Millisecond)
		want(t, "before its time", r.cells.take())
		pass(time.Millisecond)
		want(t, "asked again", r.cells.take(), "a/p-a [x]")
		pass(1999 * time.Millisecond)
		want(t, "before its time", r.cells.take())
		r.cells.set(nil)
		pass(time.Millisecond)
		want(t, "asked again", r.cells.take(), "a/p-a [x]")
		pass(5 * time.Second)
		want(t, "after the answer and the rest of the cell", r.cells.take(), "a/p-a [y]")
		pass(31 * time.Second)
		want(t, "not claimed", r.board.unanswered, "x", "y")
	})
}

// TestDeliveredWorkIsNotSentAgain: a claim that comes without the answer ends the asking.
func TestDeliveredWorkIsNotSentAgain(t *testing.T) {
	within(t, func(t *testing.T, r rig) {
		r.join("a", 100)
		r.cells.set(func(string, []placement.Item) ([]Refusal, error) { return nil, errors.New("cut") })
		r.request(t, work("x", 10), work("y", 10))
		r.cells.take()
		r.Confirm("h-x")
		pass(time.Second)
		want(t, "asked again", r.cells.take(), "a/p-a [y]")
		r.Withdraw("y") // it is in flight: the cell may have it all the same
		r.Release("h-y")
		pass(10 * time.Second)
		want(t, "nothing is left to ask for", r.cells.take())
	})
}

// TestASuccessorGetsItsOwnCalls: a call to an ended process is not sent to the next process of its cell.
func TestASuccessorGetsItsOwnCalls(t *testing.T) {
	within(t, func(t *testing.T, r rig) {
		r.join("a", 100)
		r.cells.set(func(string, []placement.Item) ([]Refusal, error) { return nil, errors.New("cut") })
		r.request(t, work("x", 10))
		r.cells.take()
		r.cells.set(nil)
		r.Admit("a", "p-b", "")
		capacity := resource.Amounts{resource.MemoryMB: 100, resource.Containers: 100}
		r.Push(placement.State{Cell: "a", Process: "p-b", Version: 1, Capacity: capacity})
		pass(10 * time.Second)
		want(t, "calls", r.cells.take())
		r.request(t, work("y", 10))
		want(t, "calls", r.cells.take(), "a/p-b [y]")
	})
}

// TestCallsAreBounded: the number of concurrent calls and the items of each call are limited, for any number of
// requests.
func TestCallsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig{cells: &fakeCells{block: make(chan struct{})}, board: &fakeBoard{}}
		r.Auctioneer = New(Config{Clock: run.Bubble(), Calls: 2, CallItems: 3}, r.cells, r.board)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		for _, c := range []string{"a", "b", "c", "d"} {
			r.join(c, 1000)
		}
		var items []placement.Item
		for i := range 20 {
			items = append(items, work(fmt.Sprint("w", i), 1))
		}
		r.request(t, items...)
		if n := len(r.cells.take()); n != 2 {
			t.Errorf("%d calls at once", n)
		}
		close(r.cells.block)
		synctest.Wait()
		sent := 0
		for _, c := range r.cells.take() {
			n := len(strings.Fields(c)) - 1
			if sent += n; n > 3 {
				t.Errorf("a call of %d items: %s", n, c)
			}
		}
		if sent < 14 || sent > 18 {
			t.Errorf("%d items in the later calls", sent)
		}
		cancel()
		<-ended
	})
}

func TestClaimConfirms(t *testing.T) {
	within(t, func(t *testing.T, r rig) {
		r.join("a", 100)
		r.request(t, work("x", 60))
		if err := r.Hold(placement.Holding{Hold: "h-x", Cell: "a", Kind: placement.KindLRP, Group: "x",
			Need: resource.Amounts{resource.MemoryMB: 60}}); err != nil {
			t.Fatal(err)
		}
		if err := r.Hold(placement.Holding{Hold: "h-x", Cell: "b"}); !errors.Is(err, placement.ErrHeld) {
			t.Errorf("on another cell: %v", err)
		}
		pass(time.Minute)
		want(t, "unanswered", r.board.unanswered)
		r.request(t, work("y", 60))
		since, why, ok := r.Explain("y")
		if !ok || why == nil || since == 0 {
			t.Fatalf("y waits: %v %v", why, ok)
		}
		want(t, "waiting", r.board.waiting, "y: insufficient resources: 1 cell: memory 60Mi needed, largest free 40Mi")
		r.cells.take()
		r.Release("h-x")
		synctest.Wait()
		want(t, "calls", r.cells.take(), "a/p-a [y]")
	})
}

// TestOnlyChangesOfRoomAreReported: a heartbeat without a change wakes no waiter. A session that begins, ends or
// has a new process does.
func TestOnlyChangesOfRoomAreReported(t *testing.T) {
	within(t, func(t *testing.T, r rig) {
		r.join("a", 100)
		for _, x := range []struct {
			process, reason string
			want            int
		}{{"p-a", "", 0}, {"p-a", "unhealthy", 1}, {"p-a", "unhealthy", 0}, {"p-a", "", 1}, {"p-a", "", 0}, {"p-b", "", 1},
			{"p-b", "", 0}} {
			synctest.Wait() // a change that comes during a round is made after it
			for len(r.Room()) > 0 {
				<-r.Room()
			}
			r.Admit("a", x.process, x.reason)
			synctest.Wait()
			if got := len(r.Room()); got != x.want {
				t.Errorf("admit %s %q: %d tokens, want %d", x.process, x.reason, got, x.want)
			}
		}
	})
}

func TestWaitingWorkComesBeforeBatch(t *testing.T) {
	within(t, func(t *testing.T, r rig) {
		r.join("a", 100)
		r.request(t, work("x", 100))
		r.request(t, work("y", 70))
		r.cells.take()
		wants := []placement.Want{{Hold: "b1", Need: resource.Amounts{resource.MemoryMB: 30}},
			{Hold: "b2", Need: resource.Amounts{resource.MemoryMB: 30}}}
		if g := r.Reserve(wants); g[0].Refusal == nil {
			t.Fatalf("grants %+v", g)
		}
		for len(r.Room()) > 0 {
			<-r.Room()
		}
		r.Release("h-x")
		if len(r.Room()) != 1 {
			t.Error("the scheduler gets no report of room")
		}
		g := r.Reserve(wants)
		if g[0].Cell != "a" || g[0].Process != "p-a" || g[1].Refusal == nil {
			t.Errorf("grants %+v", g)
		}
		synctest.Wait()
		want(t, "calls", r.cells.take(), "a/p-a [y]")
		r.Confirm("b1", "unknown")
		pass(time.Minute)
		if c := r.Cells()[0]; c.Used[resource.MemoryMB] != 30 {
			t.Errorf("the confirmed grant stays, the unclaimed placement does not: %+v", c)
		}
	})
}

func TestWorkInFlightToALostCell(t *testing.T) {
	within(t, func(t *testing.T, r rig) {
		r.join("a", 100)
		r.request(t, work("x", 10))
		r.Remove("a")
		synctest.Wait()
		want(t, "unanswered", r.board.unanswered, "x")
		r.request(t, work("x", 10))
		if n, why := r.Fit(work("x", 10), 1); len(n) != 0 || why == nil {
			t.Error("there is no cell")
		}
		r.join("b", 100)
		synctest.Wait()
		want(t, "calls", r.cells.take(), "a/p-a [x]", "b/p-b [x]")
	})
}

func TestEndsWhileACellDoesNotAnswer(t *testing.T) {
	within(t, func(t *testing.T, r rig) {
		r.join("a", 100)
		synctest.Wait()
		r.cells.block = make(chan struct{})
		r.request(t, work("x", 10))
		want(t, "calls", r.cells.take(), "a/p-a [x]")
	})
}

// BenchmarkRequestToPerform is one instance at a time through the loop, with 1,000
// cells.
func BenchmarkRequestToPerform(b *testing.B) {
	done := make(chan struct{}, 1)
	cells := &fakeCells{answer: func(string, []placement.Item) ([]Refusal, error) { done <- struct{}{}; return nil, nil }}
	a := New(Config{Clock: run.Kernel()}, cells, &fakeBoard{})
	r := rig{Auctioneer: a, cells: cells}
	for i := range 1000 {
		r.join(fmt.Sprint("c", i), 1<<20)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- a.Run(ctx) }()
	n := 0
	for b.Loop() {
		n++
		it := work(fmt.Sprint("w", n), 1)
		if err := a.Request(it); err != nil {
			b.Fatal(err)
		}
		<-done
		a.Release(it.Hold)
	}
	cancel()
	<-ended
}

// TestTheLoopWithoutGoroutines: a process gets one call at a time. Later items go with the next call, and an event
// without a change wakes no call.
func TestTheLoopWithoutGoroutines(t *testing.T) {
	var begun []func()
	var watched int
	cells := &fakeCells{}
	a := New(Config{Clock: run.Kernel(), Runtime: Runtime{Go: func(f func()) { begun = append(begun, f) },
		Watch: func(c []string) { watched += len(c) }}}, cells, &fakeBoard{})
	woken := 0
	a.Loop().OnWake(func() { woken++ })
	turn := func() {
		t.Helper()
		do, _ := a.Loop().Next()
		if do == nil {
			t.Fatal("nothing to do")
		}
		do(t.Context())
		if do, pause := a.Loop().Next(); do != nil || pause <= 0 {
			t.Fatal("a pass is to be made again")
		}
	}
	a.Admit("c", "p", "")
	a.Push(placement.State{Cell: "c", Process: "p", Version: 1, Capacity: resource.Amounts{resource.Containers: 9}})
	request := func(id string) {
		t.Helper()
		if err := a.Request(placement.Item{ID: id, Hold: "hold-" + id, Kind: placement.KindTask}); err != nil {
			t.Fatal(err)
		}
	}
	request("one")
	if turn(); len(begun) != 1 || watched != 1 || woken == 0 {
		t.Fatalf("%d calls, %d watched, woken %d", len(begun), watched, woken)
	}
	request("two")
	request("three")
	if turn(); len(begun) != 1 {
		t.Errorf("a second call beside the first")
	}
	cells.set(func(_ string, work []placement.Item) ([]Refusal, error) {
		if len(work) == 2 {
			return []Refusal{{Hold: "hold-two", Reason: "no", Full: true}}, nil
		}
		return nil, nil
	})
	woken = 0
	begun[0]()
	want(t, "calls", cells.take(), "c/p [one]", "c/p [two three]")
	if s := a.Stats(); s.RefusedByCell != 1 || s.Waiting != 1 || woken != 1 || watched != 3 {
		t.Errorf("%+v, woken %d, watched %d", s, woken, watched)
	}
}

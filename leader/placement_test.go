package leader

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"cantina/auctioneer"
	"cantina/bbs"
	"cantina/cell"
	"cantina/fence"
	"cantina/internal/run"
	"cantina/lrp"
	"cantina/placement"
	"cantina/resource"
	"cantina/task"
	"cantina/worker"
)

var errUnsent = errors.New("no connection")

// performer records its work.
type performer struct {
	got    []cell.Work
	refuse []cell.Refusal
	err    error
}

// Perform implements Cells.
func (c *performer) Perform(_ context.Context, _ worker.CellName, w cell.Work) ([]cell.Refusal, error) {
	c.got = append(c.got, w)
	return c.refuse, c.err
}

// NeverSent implements Cells.
func (c *performer) NeverSent(err error) bool { return errors.Is(err, errUnsent) }

// refusals records its calls.
type refusals struct{ reported []string }

// PlacementFailed implements Board.
func (b *refusals) PlacementFailed(all ...bbs.Unplaced) {
	for _, x := range all {
		b.reported = append(b.reported, "failed "+x.Key.Process)
	}
}

// TaskRefused implements Board.
func (b *refusals) TaskRefused(guid, uid, _ string) {
	b.reported = append(b.reported, "refused "+guid+"/"+uid)
}

// TaskRejected implements Board.
func (b *refusals) TaskRejected(guid, uid, _ string, never bool) {
	b.reported = append(b.reported, fmt.Sprintf("rejected %s/%s never %t", guid, uid, never))
}

func (b *refusals) take() []string {
	t := b.reported
	b.reported = nil
	return t
}

type placementRig struct {
	*PlacementAdapter
	cells  *performer
	board  *refusals
	joined bool
}

// drain has the auction pass until nothing is to be done.
func (r *placementRig) drain(t *testing.T) {
	t.Helper()
	for {
		do, _ := r.auctioneer.Loop().Next()
		if do == nil {
			return
		}
		do(t.Context())
	}
}

// beginPlacement makes an adapter with one cell of 100 MB.
func beginPlacement() *placementRig {
	r := &placementRig{cells: &performer{}, board: &refusals{}}
	ids := 0
	r.PlacementAdapter = newPlacementAdapter(placementConfig{Term: fence.Term{Epoch: 1, Revision: 2}, Cells: r.cells,
		Board:      func() PlacementBoard { return r.board },
		Auctioneer: auctioneer.Config{Clock: run.Kernel(), Runtime: auctioneer.Runtime{Go: func(f func()) { f() }}},
		NewID:      func() string { ids++; return fmt.Sprint("i", ids) }, Joined: func() bool { return r.joined }})
	r.offer(100, 1)
	return r
}

func (r *placementRig) offer(memory int, version int64) {
	r.auctioneer.Push(placement.State{Cell: "c", Process: "p", Version: version, Labels: map[string]string{"disk": "fast"},
		Capacity: resource.Amounts{resource.MemoryMB: memory, resource.Containers: 9}})
	r.auctioneer.Admit("c", "p", "")
}

func service(memory int, labels map[string]string) bbs.LRPWant {
	d := &lrp.Desired{Service: lrp.ServiceKey{Domain: "d", Name: "web"}, Exclusive: true, Labels: labels}
	d.Workload.Resources = resource.Amounts{resource.MemoryMB: memory}
	return bbs.LRPWant{Key: lrp.Key{Process: "web", Index: 3}, Desired: d}
}

func oneOff(guid, uid string, memory int) bbs.TaskWant {
	d := &task.Definition{}
	d.Workload.Resources = resource.Amounts{resource.MemoryMB: memory}
	return bbs.TaskWant{GUID: guid, UID: uid, Domain: "d", Definition: d}
}

// TestADroppedAttemptIsPlacedAgainAtOnce: a reservation that a cell gave up is no longer in
// flight.
func TestADroppedAttemptIsPlacedAgainAtOnce(t *testing.T) {
	r := beginPlacement()
	want, once := service(60, nil), oneOff("t", "u", 40)
	r.Request([]bbs.LRPWant{want}, []bbs.TaskWant{once})
	r.drain(t)
	want.Dropped, once.Dropped = []string{"i1"}, true
	r.Request([]bbs.LRPWant{want}, []bbs.TaskWant{once})
	r.drain(t)
	if n := len(r.cells.got); n != 2 || len(r.cells.got[1].LRPs) != 1 || r.cells.got[1].LRPs[0].Instance != "i2" ||
		len(r.cells.got[1].Tasks) != 1 {
		t.Fatalf("%d calls: %+v, reported %v", n, r.cells.got, r.board.reported)
	}
}

// TestWantsBecomeWork: placed work reaches its process with all data that the cell needs, and only
// matching cells.
func TestWantsBecomeWork(t *testing.T) {
	r := beginPlacement()
	r.Request([]bbs.LRPWant{service(10, map[string]string{"disk": "fast"})}, []bbs.TaskWant{oneOff("t", "u", 20)})
	r.drain(t)
	if len(r.cells.got) != 1 {
		t.Fatalf("%d calls: %v", len(r.cells.got), r.board.reported)
	}
	w := r.cells.got[0]
	if w.Term != (fence.Term{Epoch: 1, Revision: 2}) || w.Proc != "p" || len(w.LRPs) != 1 || len(w.Tasks) != 1 {
		t.Fatalf("%+v", w)
	}
	if l := w.LRPs[0]; l.Key != (lrp.Key{Process: "web", Index: 3}) || l.Service.Name != "web" || l.Instance != "i1" ||
		!l.Exclusive || l.Workload.Resources[resource.MemoryMB] != 10 {
		t.Errorf("%+v", l)
	}
	if x := w.Tasks[0]; x.GUID != "t" || x.UID != "u" || x.Domain != "d" || x.Workload.Resources[resource.MemoryMB] != 20 {
		t.Errorf("%+v", x)
	}
	slow := service(10, map[string]string{"disk": "slow"})
	slow.Key.Index = 4
	r.Request([]bbs.LRPWant{slow}, nil)
	r.drain(t)
	if got := r.board.take(); len(r.cells.got) != 1 || !slices.Equal(got, []string{"failed web"}) {
		t.Errorf("no cell has the label: %d calls, %v", len(r.cells.got), got)
	}
}

// TestOnlyWantedWorkIsSent: between placement and call a want may be withdrawn, and a
// task may be another one under its guid.
func TestOnlyWantedWorkIsSent(t *testing.T) {
	items := []placement.Item{{ID: LRPItem(lrp.Key{Process: "web", Index: 3}), Hold: "i1"}, {ID: TaskItem("t"), Hold: "u"}}
	for name, c := range map[string]struct {
		change      func(*placementRig)
		lrps, tasks int
	}{
		"nothing": {func(*placementRig) {}, 1, 1},
		"withdrawn": {func(r *placementRig) {
			r.Withdraw([]lrp.Key{{Process: "web", Index: 3}}, []bbs.TaskID{{GUID: "t", UID: "u"}})
		}, 0, 0},
		"another life withdrawn": {func(r *placementRig) { r.Withdraw(nil, []bbs.TaskID{{GUID: "t", UID: "earlier"}}) }, 1,
			1},
		"born again": {func(r *placementRig) { r.Request(nil, []bbs.TaskWant{oneOff("t", "later", 1)}) }, 1, 0},
	} {
		r := beginPlacement()
		r.Request([]bbs.LRPWant{service(1, nil)}, []bbs.TaskWant{oneOff("t", "u", 1)})
		c.change(r)
		if w := r.work("p", items); len(w.LRPs) != c.lrps || len(w.Tasks) != c.tasks {
			t.Errorf("%s: %+v", name, w)
		}
	}
}

// TestOutcomesOfACall: refusals are returned by their hold; a call that was certainly never
// sent is refused as a whole, and the cell is full; any other error is no response.
func TestOutcomesOfACall(t *testing.T) {
	items := []placement.Item{{ID: "lrp/a", Hold: "h1"}, {ID: "lrp/b", Hold: "h2"}}
	lost := errors.New("connection lost")
	for name, c := range map[string]struct {
		refuse []cell.Refusal
		err    error
		want   []auctioneer.Refusal
		fails  error
	}{
		"taken": {nil, nil, []auctioneer.Refusal{}, nil},
		"refused": {[]cell.Refusal{{ID: "h2", Reason: "full", Cell: true}}, nil,
			[]auctioneer.Refusal{{Hold: "h2", Reason: "full", Full: true}}, nil},
		"never sent": {nil, errUnsent, []auctioneer.Refusal{{Hold: "h1", Reason: "the cell cannot be reached: no connection",
			Full: true}, {Hold: "h2", Reason: "the cell cannot be reached: no connection", Full: true}}, nil},
		"no answer": {nil, lost, nil, lost},
	} {
		r := beginPlacement()
		r.cells.refuse, r.cells.err = c.refuse, c.err
		got, err := r.Perform(t.Context(), "c", "p", items)
		if !slices.Equal(got, c.want) || !errors.Is(err, c.fails) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// TestReasonsOfWaitingWork: the refusal of one cell fails no work; work that no cell could hold fails once
// the cells had their time to join, if no new one could.
func TestReasonsOfWaitingWork(t *testing.T) {
	r := beginPlacement()
	r.Request(nil, []bbs.TaskWant{oneOff("large", "u", 1000), oneOff("largest", "v", 5000)})
	r.drain(t)
	early := []string{"rejected large/u never false", "rejected largest/v never false"}
	if got := r.board.take(); !slices.Equal(slices.Sorted(slices.Values(got)), early) {
		t.Fatalf("cells are still joining: %v", got)
	}
	r.Recheck()
	if got := r.board.take(); len(got) > 0 {
		t.Fatalf("cells are still joining: %v", got)
	}
	r.offer(2000, 2)
	r.joined = true
	r.Recheck()
	if got := r.board.take(); !slices.Equal(got, []string{"rejected largest/v never true"}) {
		t.Fatalf("one is still too large: %v", got)
	}
	r.Recheck()
	if got := r.board.take(); len(got) > 0 {
		t.Fatalf("reported twice: %v", got)
	}
	r.Waiting([]placement.Refused{{Item: placement.Item{ID: TaskItem("large"), Hold: "u"},
		Refusal: placement.RefusedByCell("c", "no")},
		{Item: placement.Item{ID: TaskItem("large"), Hold: "an earlier life"}, Refusal: &placement.Refusal{Never: true}},
		{Item: placement.Item{ID: TaskItem("nobody's"), Hold: "x"}, Refusal: &placement.Refusal{Never: true}}})
	if got := r.board.take(); !slices.Equal(got, []string{"refused large/u"}) {
		t.Errorf("%v", got)
	}
	r.Request(nil, []bbs.TaskWant{oneOff("more", "w", 9000)})
	r.drain(t)
	if got := r.board.take(); !slices.Contains(got, "rejected more/w never true") {
		t.Errorf("the cells have joined: %v", got)
	}
}

// TestPlacedWorkIsForgotten: no data about placed work is kept; work that was refused, or
// requested again meanwhile, is still wanted.
func TestPlacedWorkIsForgotten(t *testing.T) {
	r := beginPlacement()
	r.offer(1000, 1)
	for i := range 100 {
		r.Request(nil, []bbs.TaskWant{oneOff(fmt.Sprint("t", i), fmt.Sprint("u", i), 1)})
		r.drain(t)
		r.auctioneer.Release(fmt.Sprint("u", i))
	}
	r.Request([]bbs.LRPWant{service(1, nil)}, nil)
	r.drain(t)
	if n := len(r.tasks) + len(r.lrps) + len(r.asked); n != 0 {
		t.Fatalf("%d wants of placed work are left", n)
	}
	r.Request(nil, []bbs.TaskWant{oneOff("big", "ub", 100_000)})
	r.drain(t)
	if len(r.tasks) != 1 {
		t.Fatalf("%v", r.tasks)
	}
	it := placement.Item{ID: TaskItem("again"), Hold: "ua"}
	r.Request(nil, []bbs.TaskWant{oneOff("again", "ua", 100_000)})
	r.taken([]placement.Item{it}, nil, 0)
	if r.taken([]placement.Item{it}, nil, 1<<30); len(r.tasks) != 2 { // it waits once more
		t.Fatalf("%v", r.tasks)
	}
}

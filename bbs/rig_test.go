package bbs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"cantina/action"
	"cantina/event"
	"cantina/fault"
	"cantina/internal/run"
	"cantina/lrp"
	"cantina/plan"
	"cantina/store"
	"cantina/store/mem"
	"cantina/task"
	"cantina/wire"
	"cantina/worker"
)

// rig is a board on a memory store with a fake auctioneer and fake cells, inside a synctest bubble. It collects the
// requests of the board; serve fulfils them.
type rig struct {
	t       *testing.T
	backend *mem.Backend
	clock   run.Clock
	cells   []worker.CellName

	leadership *store.Leadership
	b          *BBS
	hub        *event.Hub
	stop       func()
	rows       []store.Row // the rows at the start of the term

	mu        sync.Mutex
	ids       int
	lrps      []LRPWant
	tasks     []TaskWant
	stops     []lrp.StopInstance
	cancels   []string
	callbacks []*task.Task
	withdrawn int
	dead      map[string]bool
	later     map[string]bool // further processes of the cells
	joining   string          // a process that has not registered yet
	alive     map[string][]worker.Alive
	stale     bool
	full      bool // no callback is taken
	slow      bool // a start is ready a call later
	mute      bool // cells do not reach the next leader
	machines  int  // 0 = not known
}

// dying makes a store that loses every request from one transaction on, so that a
// leader ends there.
type dying struct {
	mu   sync.Mutex
	left int
	dead bool
}

// at is the number of the first transaction that is lost, counted from now on; 0 = none.
func (d *dying) at(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.left, d.dead = n, false
}

// fault is mem.Config.Fault.
func (d *dying) fault(c mem.Call, _ store.Txn) mem.Fault {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c == mem.CallTxn && d.left > 0 {
		d.left--
		d.dead = d.dead || d.left == 0
	}
	if d.dead && (c == mem.CallTxn || c == mem.CallKeepAlive) {
		return mem.LoseRequest
	}
	return mem.None
}

// inBubble runs a test on a fresh store.
func inBubble(t *testing.T, fn func(t *testing.T, r *rig)) {
	inBubbleOn(t, mem.Config{}, fn)
}

func inBubbleOn(t *testing.T, cfg mem.Config, fn func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, backend: mem.New(cfg), clock: run.Bubble(), cells: []worker.CellName{"a", "b"},
			dead: map[string]bool{}}
		r.elect(nil)
		defer r.depose()
		fn(t, r)
	})
}

// elect begins a term: the rows are loaded and the board runs.
func (r *rig) elect(change func(*Config)) {
	r.t.Helper()
	s, err := store.New(r.backend, store.Config{Clock: r.clock, NewCluster: true})
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	leadership, err := s.Campaign(ctx, store.Candidate{ID: "s"})
	if err != nil {
		r.t.Fatal(err)
	}
	r.leadership = leadership
	r.hub = event.New(0, leadership.Revision(), r.clock.Wall)
	cfg := Config{
		Store: leadership, Auctioneer: r, Cells: r,
		Machines: func([]*lrp.Desired) (int, bool) { return r.machines, r.machines > 0 }, Sessions: r, Hub: r.hub,
		Callbacks: r, Clock: r.clock, Log: slog.New(slog.DiscardHandler), NewID: r.newID, Began: leadership.Began(),
	}
	if change != nil {
		change(&cfg)
	}
	r.rows = RollForwardOthers(leadership, leadership.Rows())
	r.b = New(cfg, r.rows, leadership.Revision(), slices.Concat([]string{"a1", "b1"}, slices.Sorted(maps.Keys(r.later))))
	ended := make(chan error, 1)
	go func() { ended <- r.b.Run(ctx) }()
	r.stop = func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, fault.ErrTermOver) {
			r.t.Errorf("run: %v", err)
		}
		_ = leadership.Resign(context.Background())
	}
	synctest.Wait()
	for _, c := range r.cells {
		if r.MayStart("", string(c)+"1") && !r.mute {
			r.b.CellHealthy(string(c), string(c)+"1")
		}
	}
	synctest.Wait()
}

// depose ends the term.
func (r *rig) depose() {
	synctest.Wait()
	r.stop()
}

// reelect ends the term and begins the next one on the same store.
func (r *rig) reelect() {
	r.depose()
	r.elect(nil)
}

// markRestored ends the term, marks the store as one that went back, and begins the next term.
func (r *rig) markRestored() {
	r.t.Helper()
	r.depose()
	s, err := store.New(r.backend, store.Config{Clock: r.clock})
	if err == nil {
		_, err = s.MarkRestored(context.Background())
	}
	if err != nil {
		r.t.Fatal(err)
	}
	r.elect(nil)
}

func (r *rig) newID() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ids++
	return fmt.Sprintf("%032x", r.ids)
}

// Request collects the work that needs placement.
func (r *rig) Request(lrps []LRPWant, tasks []TaskWant) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lrps, r.tasks = append(r.lrps, lrps...), append(r.tasks, tasks...)
}

// Withdraw counts.
func (r *rig) Withdraw(lrps []lrp.Key, tasks []TaskID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.withdrawn += len(lrps) + len(tasks)
}

// StopInstance collects the instances to stop.
func (r *rig) StopInstance(key lrp.Key, who lrp.Identity) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stops = append(r.stops, lrp.StopInstance{Key: key, Who: who})
}

// CancelTask collects.
func (r *rig) CancelTask(_ task.Holder, guid, _ string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cancels = append(r.cancels, guid)
}

// Send collects callbacks.
func (r *rig) Send(t *task.Task) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.callbacks = append(r.callbacks, t)
	return !r.full
}

// sent returns the callbacks that were sent so far.
func (r *rig) sent() []*task.Task {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.callbacks)
}

// MayStart is true for processes that are not dead.
func (r *rig) MayStart(_, proc string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.dead[proc]
}

// MayLive implements Sessions.
func (r *rig) MayLive(cell string) ([]string, string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, p := range []string{cell + "1", cell + "2", cell + "3"} {
		if !r.dead[p] && (p == cell+"1" || r.later[p]) {
			out = append(out, p)
		}
	}
	return out, r.joining
}

// Alive implements Sessions.
func (r *rig) Alive(proc string) []worker.Alive {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.alive[proc]
}

// Stale returns the value that the test has set.
func (r *rig) Stale() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stale
}

func (r *rig) setStale(stale bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stale = stale
}

func (r *rig) take() (lrps []LRPWant, tasks []TaskWant, stops []lrp.StopInstance) {
	r.mu.Lock()
	defer r.mu.Unlock()
	lrps, tasks, stops = r.lrps, r.tasks, r.stops
	r.lrps, r.tasks, r.stops = nil, nil, nil
	return lrps, tasks, stops
}

// serve fulfils the requests until none is left: instances run, stopped ones are removed, tasks start (and end when
// they are named so).
func (r *rig) serve() {
	r.t.Helper()
	for range 100 {
		synctest.Wait()
		lrps, tasks, stops := r.take()
		if len(lrps)+len(tasks)+len(stops) == 0 {
			return
		}
		for _, w := range lrps {
			r.run(w)
		}
		for _, w := range tasks {
			by := task.Holder{Cell: "a", Proc: "a1"}
			if r.taskEvent(w.GUID, task.Start{UID: w.UID, By: by, Reservation: w.UID}) == nil {
				_ = r.taskEvent(w.GUID, task.Complete{UID: w.UID, By: by, Result: task.Result{Output: []byte("done")}})
			}
		}
		for _, s := range stops {
			_ = r.event(s.Key, lrp.Remove{By: s.Who})
		}
	}
	r.t.Fatal("does not come to rest")
}

// run claims and starts an instance on the first cell that is alive and not avoided.
func (r *rig) run(w LRPWant) {
	for _, c := range r.cells {
		if slices.Contains(w.Avoid, string(c)) || !r.MayStart("", string(c)+"1") {
			continue
		}
		by := lrp.Identity{Instance: r.newID(), Cell: string(c), Proc: string(c) + "1"}
		if r.event(w.Key, lrp.Claim{By: by}) == nil {
			if r.slow {
				_ = r.event(w.Key, lrp.Start{By: by, Net: lrp.Net{Address: "127.0.0.1"}, Service: w.Desired.Service})
			}
			_ = r.event(w.Key, lrp.Start{By: by, Net: lrp.Net{Address: "127.0.0.1", Routable: true}, Service: w.Desired.Service})
		}
		return
	}
}

func (r *rig) event(k lrp.Key, e lrp.Event) error {
	answers, err := r.b.LRPEvents(r.t.Context(), []wire.LRPCall{{Key: k, Event: e}})
	if err != nil {
		return err
	}
	return answers[0]
}

func (r *rig) taskEvent(guid string, e task.Event) error {
	answers, err := r.b.TaskEvents(r.t.Context(), []wire.TaskCall{{GUID: guid, Event: e}})
	if err != nil {
		return err
	}
	return answers[0]
}

func runs(path string, args ...string) action.Workload {
	return action.Workload{Action: action.Action{Run: &action.Run{Path: path, Args: args}}}
}

// web is a service of n instances whose definition differs by version.
func web(n int, version string) lrp.Desired {
	w := runs("/bin/web", version)
	w.Monitor = &action.Action{Run: &action.Run{Path: "/bin/check"}} // healthy as soon as it is RUNNING
	return lrp.Desired{Service: lrp.ServiceKey{Domain: "d", Name: "web"}, Instances: n, Workload: w,
		Rollout: lrp.RolloutPolicy{Batch: 1}}
}

var webKey = lrp.ServiceKey{Domain: "d", Name: "web"}

func (r *rig) apply(services []lrp.Desired, tasks []plan.NamedTask) plan.Applied {
	r.t.Helper()
	out, err := r.b.Apply(r.t.Context(), plan.Application{Domain: "d", Services: services, Tasks: tasks,
		Prune: plan.Prune{On: true}}, plan.Write{}, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

// running returns "cell/index" of each running instance of a service, by the resolved view.
func (r *rig) running(k lrp.ServiceKey) []string {
	r.t.Helper()
	page, err := r.b.ListInstances(plan.InstanceFilter{Domain: k.Domain, Service: k.Name,
		States: []lrp.State{lrp.Running}}, plan.Range{Limit: 1000})
	if err != nil {
		r.t.Fatal(err)
	}
	var out []string
	for _, i := range page.Items {
		out = append(out, fmt.Sprintf("%s/%d", i.Cell, i.Key.Index))
	}
	slices.Sort(out)
	return out
}

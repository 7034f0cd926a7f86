package scheduler

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"cantina/action"
	"cantina/auctioneer"
	"cantina/batch"
	"cantina/event"
	"cantina/fence"
	"cantina/internal/run"
	"cantina/placement"
	"cantina/plan"
	"cantina/resource"
	"cantina/store"
	"cantina/wire"
	"cantina/worker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeStore commits in order, on request or at once.
type fakeStore struct {
	mu       sync.Mutex
	rows     map[string][]byte
	revision int64
	queue    []queued
	manual   bool
	wake     chan struct{}
	bad      []string
	gone     error
	silent   atomic.Bool // reads are not answered
}

type queued struct {
	ops  []store.Op
	done func(int64, error)
}

func newFakeStore() *fakeStore {
	return &fakeStore{rows: make(map[string][]byte), revision: 1, wake: make(chan struct{}, 1)}
}

func (f *fakeStore) Submit(t store.Transition, done func(int64, error)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queue = append(f.queue, queued{t.Ops, done})
	ring(f.wake)
}

func (f *fakeStore) Wait(context.Context) error { return nil }

func (f *fakeStore) Get(ctx context.Context, key string) (store.Row, bool, error) {
	if f.silent.Load() {
		<-ctx.Done()
		return store.Row{}, false, ctx.Err()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	v, ok := f.rows[key]
	return store.Row{Key: key, Value: v}, ok, nil
}

func (f *fakeStore) Quarantine(q store.Quarantine) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.bad = append(f.bad, q.Key)
}

// commit lands the oldest n transitions (all when n < 0) and calls their dones.
func (f *fakeStore) commit(n int) (landed int) {
	for ; n != 0; n-- {
		f.mu.Lock()
		if len(f.queue) == 0 || f.gone != nil {
			f.mu.Unlock()
			return landed
		}
		q := f.queue[0]
		f.queue = f.queue[1:]
		f.revision++
		revision := f.revision
		for _, op := range q.ops {
			if op.Value == nil {
				delete(f.rows, op.Key)
			} else {
				f.rows[op.Key] = op.Value
			}
		}
		f.mu.Unlock()
		landed++
		q.done(revision, nil)
	}
	return landed
}

// run commits pending changes until ctx is done.
func (f *fakeStore) run(ctx context.Context) {
	for {
		select {
		case <-f.wake:
			f.mu.Lock()
			manual := f.manual
			f.mu.Unlock()
			if !manual {
				f.commit(-1)
			}
		case <-ctx.Done():
			return
		}
	}
}

func (f *fakeStore) setManual(on bool) {
	f.mu.Lock()
	f.manual = on
	f.mu.Unlock()
	ring(f.wake)
}

// load returns the rows as a new term gets them.
func (f *fakeStore) load() []store.Row {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []store.Row
	for _, k := range slices.Sorted(maps.Keys(f.rows)) {
		if !strings.HasPrefix(k, store.DataPrefix) {
			out = append(out, store.Row{Key: k, Value: bytes.Clone(f.rows[k]), Revision: f.revision})
		}
	}
	return out
}

func (f *fakeStore) keys(prefix string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []string
	for _, k := range slices.Sorted(maps.Keys(f.rows)) {
		if strings.HasPrefix(k, prefix) {
			out = append(out, k)
		}
	}
	return out
}

// fakeRegistry is a model of the runs, and starts each at once.
type fakeRegistry struct {
	mu      sync.Mutex
	s       *Scheduler
	term    fence.Term
	counter int64
	model   map[worker.Work]worker.RunView
	hold    worker.Hold // while its reason is not HoldNone
	// heldNodes are held with HoldNode, as in an initial wait.
	heldNodes []string
	// cellHold is the answer of StartBatch alone.
	cellHold worker.Hold
	payload  map[worker.Work]batch.Payload
	started  []worker.Work
	kills    []worker.Run
	acks     []string
	double   []worker.Work // started though in the model
	notIdle  bool          // see mayRun; from the first in every term but the first, which begins with a wait
	adopted  int           // runs that tests put into the model
	late     func()        // happens once between the reading of the model and its use
	crossing func()        // happens once between the asking for a start and the start
	// instant, when set, ends each run before Run returns.
	instant func(worker.Run) *worker.Ended
}

func (r *fakeRegistry) MayRun(q worker.Request) (worker.Hold, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.model[q.Work]; ok {
		return worker.Hold{Reason: worker.HoldRunning}, false
	}
	if slices.ContainsFunc(q.Nodes, func(n string) bool { return slices.Contains(r.heldNodes, n) }) {
		return worker.Hold{Reason: worker.HoldNode}, false
	}
	return r.hold, r.hold.Reason == worker.HoldNone
}

func (r *fakeRegistry) StartBatch(q worker.Request,
	payload func(fence.Invocation) (batch.Payload, bool)) (fence.Invocation, worker.Hold, bool) {
	if h, ok := r.MayRun(q); !ok {
		return fence.Invocation{}, h, false
	}
	r.mu.Lock()
	if cross := r.crossing; cross != nil {
		r.crossing = nil
		r.mu.Unlock()
		cross()
		r.mu.Lock()
	}
	if r.cellHold.Reason != worker.HoldNone {
		defer r.mu.Unlock()
		return fence.Invocation{}, r.cellHold, false
	}
	run := worker.Run{Work: q.Work, Invocation: fence.Invocation{Term: r.term, Counter: r.counter + 1}}
	p, ok := payload(run.Invocation)
	if !ok {
		defer r.mu.Unlock()
		return fence.Invocation{}, worker.Hold{Reason: worker.HoldVetoed}, false
	}
	r.counter++
	if _, ok := r.model[q.Work]; ok {
		r.double = append(r.double, q.Work)
	}
	r.model[q.Work] = worker.RunView{Run: run, Cell: q.Cell, Proc: "p-" + worker.Proc(q.Cell), Sure: true}
	r.payload[q.Work] = p
	r.started = append(r.started, q.Work)
	instant := r.instant
	r.mu.Unlock()
	if instant != nil {
		if e := instant(run); e != nil {
			r.s.Ended(*e)
		}
	}
	return run.Invocation, worker.Hold{}, true
}

func (r *fakeRegistry) Kill(x worker.Run) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kills = append(r.kills, x)
	if v, ok := r.model[x.Work]; ok && v.Run == x {
		v.Kill = true
		r.model[x.Work] = v
	}
}

func (r *fakeRegistry) StatusCommitted(x worker.Run, kind worker.Synthetic) {
	r.mu.Lock()
	r.acks = append(r.acks, fmt.Sprint(x.Work, " ", x.Invocation.Counter, " ", kind))
	if v, ok := r.model[x.Work]; ok && v.Run == x {
		delete(r.model, x.Work)
	}
	s := r.s
	r.mu.Unlock()
	s.StartsChanged()
}

func (r *fakeRegistry) Running(w worker.Work) []worker.RunView {
	r.mu.Lock()
	defer r.mu.Unlock()
	if v, ok := r.model[w]; ok {
		return []worker.RunView{v}
	}
	return nil
}

func (r *fakeRegistry) Model() []worker.RunView {
	r.mu.Lock()
	var out []worker.RunView
	for _, w := range slices.SortedFunc(maps.Keys(r.model), worker.Work.Compare) {
		out = append(out, r.model[w])
	}
	late := r.late
	r.late = nil
	r.mu.Unlock()
	if late != nil {
		late()
	}
	return out
}

func (r *fakeRegistry) Live() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.model)
}

func (r *fakeRegistry) Adopted() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.adopted
}

func (r *fakeRegistry) Idle(job string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for w := range r.model {
		if w.Job == job {
			return false
		}
	}
	return !r.notIdle && r.hold.Reason == worker.HoldNone
}

// mayRun sets whether there may be runs without a report.
func (r *fakeRegistry) mayRun(may bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notIdle = may
}

func (r *fakeRegistry) takeStarted() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, w := range r.started {
		out = append(out, w.String())
	}
	r.started = nil
	slices.Sort(out)
	return strings.Join(out, " ")
}

func (r *fakeRegistry) takeAcks() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := strings.Join(r.acks, ", ")
	r.acks = nil
	return out
}

// fakeScripts answers by program and parent.
type fakeScripts struct {
	mu   sync.Mutex
	out  map[string]string
	err  error
	runs int
}

func (f *fakeScripts) Output(_ context.Context, argv []string, _ time.Duration) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.runs++
	if f.err != nil {
		return nil, f.err
	}
	return []byte(f.out[strings.Join(argv, " ")]), nil
}

func (f *fakeScripts) set(err error, out map[string]string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err, f.out = err, out
}

type fakeHub struct {
	mu   sync.Mutex
	last int64
	n    int
	back bool // revisions went back
}

func (h *fakeHub) Publish(revision int64, events ...event.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.back = h.back || revision < h.last
	h.last = revision
	h.n += len(events)
}

type noCells struct{}

func (noCells) Perform(context.Context, string, string, []placement.Item) ([]auctioneer.Refusal, error) {
	return nil, nil
}

type noBoard struct{}

func (noBoard) Waiting([]placement.Refused) {}
func (noBoard) Unanswered([]placement.Item) {}

// rig is one term of a scheduler with a real auctioneer.
type rig struct {
	zoneless atomic.Bool // no time zone is found
	*Scheduler
	t       *testing.T
	store   *fakeStore
	reg     *fakeRegistry
	auction *auctioneer.Auctioneer
	scripts *fakeScripts
	hub     *fakeHub
	stop    func()
	off     atomic.Int64 // how far the wall clock of the server is off, in nanoseconds
}

// begin starts a term on a store; model has the runs of the cells.
func begin(t *testing.T, st *fakeStore, revision int64, model ...worker.RunView) *rig {
	t.Helper()
	return beginOff(t, st, revision, 0, model...)
}

// beginOff starts a term of a server whose wall clock is off.
func beginOff(t *testing.T, st *fakeStore, revision int64, off time.Duration, model ...worker.RunView) *rig {
	t.Helper()
	r := &rig{t: t, store: st, scripts: &fakeScripts{}, hub: &fakeHub{}}
	r.off.Store(int64(off))
	clock := run.Bubble()
	right := clock.Wall
	clock.Wall = func() time.Time { return right().Add(time.Duration(r.off.Load())) }
	r.reg = &fakeRegistry{term: fence.Term{Epoch: 1, Revision: revision}, model: make(map[worker.Work]worker.RunView),
		payload: make(map[worker.Work]batch.Payload), notIdle: revision > 1}
	for _, v := range model {
		v.Ending, v.Kill = false, false // orders of an earlier leader are sent again
		r.reg.model[v.Run.Work] = v
	}
	r.auction = auctioneer.New(auctioneer.Config{Clock: clock}, noCells{}, noBoard{})
	n := 0
	r.Scheduler = New(Config{
		Term: r.reg.term, Store: st, Registry: r.reg, Auctioneer: r.auction, Hub: r.hub, Scripts: r.scripts, Clock: clock,
		Zone: func(name string) (*time.Location, error) {
			if r.zoneless.Load() {
				return nil, errors.New("gone")
			}
			return time.LoadLocation(name)
		},
		NewID: func() string { n++; return fmt.Sprintf("uid%d-%d", revision, n) },
	}, st.load())
	r.reg.s = r.Scheduler
	ctx, cancel := context.WithCancel(t.Context())
	var working sync.WaitGroup
	working.Go(func() { st.run(ctx) })
	working.Go(func() { _ = r.auction.Run(ctx) })
	working.Go(func() { _ = r.Run(ctx) })
	r.stop = func() {
		cancel()
		working.Wait()
		if r.hub.back {
			t.Error("events went back in time")
		}
		if len(r.reg.double) > 0 {
			t.Errorf("started twice: %v", r.reg.double)
		}
	}
	return r
}

// locked calls f while the scheduler changes nothing. A bubble that waits does not order a test's reads before the
// writes of a later step, so a test reads the scheduler's own fields only here.
func (r *rig) locked(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

// cell adds a cell with room for so many containers.
func (r *rig) cell(name string, containers int) {
	r.auction.Admit(name, "p-"+name, "")
	r.auction.Push(placement.State{Cell: name, Process: "p-" + name, Version: 1, Zone: "z", Host: "host-" + name,
		Capacity: resource.Amounts{resource.Containers: containers, resource.MemoryMB: 1000}})
	synctest.Wait()
}

// job is one job over levels host and db, with its own manual nodes.
func testJob(name string, hosts map[string][]string) plan.NamedJob {
	w := plan.NamedJob{Job: batch.Job{
		Name: name, Forest: name, Retries: 2, Backoff: batch.Backoff{Seconds: []int{10}, Repeat: true},
		Workload: action.Workload{Action: action.Action{Run: &action.Run{Path: "/bin/do", Args: []string{"{}"}}}},
	}}
	w.Forest = batch.ForestSpec{Name: name, Levels: []string{"host", "db"}, Instance: name,
		Order: batch.OrderLexicographic}
	src := batch.Source{Kind: batch.SourceManual}
	for _, h := range slices.Sorted(maps.Keys(hosts)) {
		src.Manual = append(src.Manual, batch.ManualNode{Name: h, Children: hosts[h]})
	}
	w.Forest.Sources = []batch.Source{src}
	return w
}

func (r *rig) apply(wanted ...plan.NamedJob) *Change {
	r.t.Helper()
	c, err := r.Apply("dom", wanted, plan.Prune{})
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := r.Commit(r.t.Context(), c); err != nil {
		r.t.Fatal(err)
	}
	synctest.Wait()
	return c
}

func (r *rig) do(c *Change, err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := r.Commit(r.t.Context(), c); err != nil {
		r.t.Fatal(err)
	}
	synctest.Wait()
}

// endOf makes the real end of a run.
func endOf(x worker.Run, cell string, code int, status string) worker.Ended {
	var text []byte
	if status != "" {
		text = []byte(status)
	}
	b, err := proto.Marshal(wire.FromBatchEnd(batch.Ended{ExitCode: code}, text))
	if err != nil {
		panic(err)
	}
	return worker.Ended{Run: x, Cell: worker.CellName(cell), Proc: worker.Proc("p-" + cell), Kind: worker.Real,
		Status: string(b)}
}

// end ends the run of a job on a node.
func (r *rig) end(job, node string, code int, status string) {
	r.t.Helper()
	r.Ended(r.ended(job, node, code, status))
	synctest.Wait()
}

// Ended reports an end as the registry does: it marks the invocation as ending.
func (r *rig) Ended(e worker.Ended) {
	r.reg.mu.Lock()
	if v, ok := r.reg.model[e.Run.Work]; ok && v.Run == e.Run && e.Kind == worker.Real {
		v.Ending = true
		r.reg.model[e.Run.Work] = v
	}
	r.reg.mu.Unlock()
	r.Scheduler.Ended(e)
}

func (r *rig) ended(job, node string, code int, status string) worker.Ended {
	r.t.Helper()
	r.reg.mu.Lock()
	v, ok := r.reg.model[worker.Work{Job: job, Node: node}]
	r.reg.mu.Unlock()
	if !ok {
		r.t.Fatalf("%s/%s does not run", job, node)
	}
	return endOf(v.Run, string(v.Cell), code, status)
}

func (r *rig) wantStarted(want string) {
	r.t.Helper()
	synctest.Wait()
	if got := r.reg.takeStarted(); got != want {
		r.t.Errorf("started %q, want %q", got, want)
	}
}

func (r *rig) progressOf(job string) batch.Progress {
	r.t.Helper()
	v, err := r.Job(job)
	if err != nil {
		r.t.Fatal(err)
	}
	return v.Progress
}

func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

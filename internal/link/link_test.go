package link

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"cantina/action"
	"cantina/cell"
	"cantina/fence"
	"cantina/lrp"
	"cantina/placement"
	"cantina/resource"
	"cantina/task"
	"cantina/wire"
	pb "cantina/wire/cantinav1"
	"cantina/worker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var term = fence.Term{Epoch: 1, Revision: 7}

// leader gives the set answers and records its calls.
type leader struct {
	beat   worker.Heartbeat
	state  cell.State
	from   cell.Caller
	query  cell.RowsQuery
	lrps   []cell.LRPEvent
	tasks  []cell.TaskEvent
	update worker.UpdateStatus
	rows   cell.Rows
	errs   []error
}

func (l *leader) Term() fence.Term { return term }

func (l *leader) Heartbeat(_ context.Context, b worker.Heartbeat, s cell.State) (worker.HeartbeatAnswer, error) {
	l.beat, l.state = b, s
	return worker.HeartbeatAnswer{Protocol: worker.Protocol, Term: term, Proc: b.Proc, Beat: b.Beat, State: worker.Healthy,
		Credit:  true,
		Promise: 86 * time.Second, Timeouts: worker.DefaultTimeouts()}, nil
}

func (l *leader) UpdateStatus(_ context.Context, u worker.UpdateStatus) ([]worker.StatusAnswer, error) {
	l.update = u
	out := make([]worker.StatusAnswer, len(u.Items))
	for i, it := range u.Items {
		out[i] = worker.StatusAnswer{Term: term, Proc: u.Proc, Kind: it.Kind, Run: it.Run, Probe: it.Probe, OK: i == 0}
	}
	return out, nil
}

func (l *leader) Rows(_ context.Context, from cell.Caller, q cell.RowsQuery) (cell.Rows, error) {
	l.from, l.query = from, q
	return l.rows, nil
}

func (l *leader) LRPEvents(_ context.Context, from cell.Caller, es []cell.LRPEvent) ([]error, error) {
	l.from, l.lrps = from, es
	return l.errs, nil
}

func (l *leader) TaskEvents(_ context.Context, from cell.Caller, es []cell.TaskEvent) ([]error, error) {
	l.from, l.tasks = from, es
	return l.errs, nil
}

// serve answers calls of cells with the present value of now, and returns the address.
func serve(t *testing.T, now func() (cell.Leader, error)) string {
	t.Helper()
	cells := NewDirectory(Security{})
	mux := http.NewServeMux()
	for path, h := range Handlers(now, cells) {
		mux.Handle(path, h)
	}
	s := httptest.NewServer(mux)
	t.Cleanup(func() {
		cells.Close()
		s.Close()
	})
	return strings.TrimPrefix(s.URL, "http://")
}

func client(t *testing.T, servers ...string) *LeaderClient {
	t.Helper()
	c := NewLeaderClient(servers, Security{}, func() {})
	t.Cleanup(c.Close)
	return c
}

func TestEveryReportOfACellArrives(t *testing.T) {
	l := &leader{}
	c := client(t, serve(t, func() (cell.Leader, error) { return l, nil }))
	ctx := context.Background()
	from := cell.Caller{Cell: "c1", Proc: "p1", Term: term}

	beat := worker.Heartbeat{Protocol: worker.Protocol, Term: term, Cell: "c1", Proc: "p1", DirID: "f", Started: 3,
		Boot: "b", Beat: 9, Epoch: 1, HasWork: true, Promise: time.Minute, Period: 5 * time.Second}
	state := cell.State{State: placement.State{Cell: "c1", Process: "p1", Version: 4, Zone: "z",
		Capacity: resource.Amounts{"gpu": 2}, Draining: true}, Address: "a:1", Build: "v",
		Drain: cell.DrainState{ID: "d1", Over: true, Waits: []string{"task t"}, Timeout: time.Minute}}
	a, err := c.Heartbeat(ctx, beat, state)
	if err != nil || a.State != worker.Healthy || !a.Credit || a.Promise != 86*time.Second || a.Term != term {
		t.Fatalf("%+v, %v", a, err)
	}
	if diff := cmp.Diff(beat, l.beat); diff != "" {
		t.Errorf("heartbeat changed:\n%s", diff)
	}
	if diff := cmp.Diff(state, l.state, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("state changed:\n%s", diff)
	}

	run := worker.Run{Work: worker.Work{Job: "j", Node: "n"}, Invocation: fence.Invocation{Term: term, Counter: 5}}
	got, err := c.UpdateStatus(ctx, worker.UpdateStatus{Term: term, Cell: "c1", Proc: "p1",
		Items: []worker.StatusItem{{Kind: worker.StatusEnded, Run: run, Status: "s"},
			{Kind: worker.StatusProbe, Probe: 2, OK: true}}})
	if err != nil || len(got) != 2 || !got[0].OK || got[1].OK || got[0].Run != run || got[1].Probe != 2 {
		t.Fatalf("%+v, %v", got, err)
	}

	key := lrp.Key{Process: "x", Index: 1}
	l.rows = cell.Rows{LRPs: []lrp.Index{{Key: key}}, QuarantinedLRPs: []lrp.Key{{Process: "y"}},
		QuarantinedTasks: []string{"q"}}
	rows, err := c.Rows(ctx, from, cell.RowsQuery{Only: true, LRPs: []lrp.Key{key}, Tasks: []string{"t"}})
	if err != nil || len(rows.LRPs) != 1 || len(rows.QuarantinedLRPs) != 1 || rows.QuarantinedTasks[0] != "q" ||
		l.from != from || !l.query.Only || l.query.Tasks[0] != "t" {
		t.Fatalf("%+v, %+v, %v", rows, l.query, err)
	}

	l.errs = []error{nil, lrp.ErrCannotBeClaimed}
	by := lrp.Identity{Instance: "i", Cell: "c1", Proc: "p1"}
	errs, err := c.LRPEvents(ctx, from, []cell.LRPEvent{{Key: key, Event: lrp.Claim{By: by}},
		{Key: key, Event: lrp.Remove{By: by}}})
	if err != nil || errs[0] != nil || !errors.Is(errs[1], wire.ErrRefused) {
		t.Fatalf("%v, %v", errs, err)
	}
	l.errs = []error{task.ErrOtherUID}
	errs,
		err = c.TaskEvents(ctx, from, []cell.TaskEvent{{GUID: "g",
		Event: task.Start{UID: "u", By: task.Holder{Cell: "c1", Proc: "p1"}, Reservation: "r"}}})
	if err != nil || !errors.Is(errs[0], task.ErrOtherUID) {
		t.Fatalf("%v, %v", errs, err)
	}
	if diff := cmp.Diff(task.Start{UID: "u", By: task.Holder{Cell: "c1", Proc: "p1"}, Reservation: "r"},
		l.tasks[0].Event); diff != "" {
		t.Errorf("event changed:\n%s", diff)
	}
}

func TestAnUnknownOutcomeFailsTheWholeCall(t *testing.T) {
	l := &leader{errs: []error{nil, errors.New("the store is gone")}}
	c := client(t, serve(t, func() (cell.Leader, error) { return l, nil }))
	by := lrp.Identity{Instance: "i", Cell: "c1", Proc: "p1"}
	ev := cell.LRPEvent{Key: lrp.Key{Process: "x"}, Event: lrp.Claim{By: by}}
	if errs, err := c.LRPEvents(context.Background(), cell.Caller{Cell: "c1", Proc: "p1"},
		[]cell.LRPEvent{ev, ev}); err == nil {
		t.Fatalf("got answers %v for an event of which nothing is known", errs)
	}
}

func TestACellFollowsTheLeaderThatAStandbyNames(t *testing.T) {
	l := &leader{}
	leads := serve(t, func() (cell.Leader, error) { return l, nil })
	standby := serve(t, func() (cell.Leader, error) { return nil, &NotLeader{Addresses: []string{leads}, Term: term} })
	c := client(t, standby)
	ctx := context.Background()
	_, err := c.Heartbeat(ctx, worker.Heartbeat{Cell: "c1", Proc: "p1", DirID: "f", Beat: 1}, cell.State{})
	var not *NotLeader
	if !errors.As(err, &not) || not.Term != term || !errors.Is(err, cell.ErrNotLeader) {
		t.Fatalf("a standby answered %v", err)
	}
	if _, err := c.Heartbeat(ctx, worker.Heartbeat{Cell: "c1", Proc: "p1", DirID: "f", Beat: 2},
		cell.State{}); err != nil {
		t.Fatalf("after the hint: %v", err)
	}
}

func TestAnAnswerOfALowerTermIsDropped(t *testing.T) {
	c := client(t, serve(t, func() (cell.Leader, error) { return &leader{}, nil }))
	newer := cell.Caller{Cell: "c1", Proc: "p1", Term: fence.Term{Epoch: 1, Revision: 8}}
	if _, err := c.Rows(context.Background(), newer, cell.RowsQuery{}); !errors.Is(err, cell.ErrTerm) {
		t.Fatalf("got %v", err)
	}
}

// agent records the calls of a leader.
type agent struct {
	Cell
	items []cell.RunItem
	work  cell.Work
	stop  cell.Stops
	calls int // that named the cluster of the leader
}

func (a *agent) Addressed(cluster fence.Cluster, proc worker.Proc) error {
	if cluster != "mine" {
		return &cell.Foreign{Cell: "c1", Address: "10.0.0.7:7481", Cluster: "mine", Other: cluster}
	}
	a.calls++
	return nil
}

func (a *agent) Named(name worker.CellName) error {
	if name != "c1" {
		return cell.ErrCell
	}
	return nil
}

func (a *agent) Meant(t fence.Term, proc worker.Proc) error {
	switch {
	case proc != "p1":
		return cell.ErrProc
	case t.Less(term):
		return cell.ErrTerm
	}
	return nil
}

func (a *agent) RunTasks(_ context.Context, items []cell.RunItem) ([]worker.RunAnswer, error) {
	a.items = items
	var out []worker.RunAnswer
	for _, it := range items {
		if it.Call.Probe == 0 {
			out = append(out, worker.RunAnswer{Term: term, Proc: it.Call.Proc, Run: it.Call.Run, Result: worker.RunRefused,
				Reason: "no"})
		}
	}
	return out, nil
}

func (a *agent) Perform(_ context.Context, w cell.Work) ([]cell.Refusal, error) {
	a.work = w
	return []cell.Refusal{{ID: "i2", Reason: "full", Cell: true}, {ID: "u1", Reason: "also full"}}, nil
}

func (a *agent) StopWork(_ context.Context, t fence.Term, proc worker.Proc, w cell.Stops) error {
	a.stop = w
	if t != term || proc != "p1" {
		return cell.ErrProc
	}
	return nil
}

func (a *agent) FollowLogs(_ context.Context, m *pb.FollowLogsRequest, each func(*pb.FollowLogsResponse) error) error {
	for _, text := range []string{"one", "two"} {
		if err := each(&pb.FollowLogsResponse{Lines: &pb.LogLines{Text: []byte(text + m.GetCursor())}}); err != nil {
			return err
		}
	}
	return nil
}

func TestEverythingALeaderCallsArrives(t *testing.T) {
	a := &agent{}
	s := httptest.NewServer(NewCellHandler(a))
	defer s.Close()
	d := NewDirectory(Security{})
	defer d.Close()
	if d.Cell("c1") != nil {
		t.Fatal("a cell that nothing is known of")
	}
	d.SetAddress("c1", strings.TrimPrefix(s.URL, "http://"))
	c := d.Cell("c1")
	ctx := context.Background()
	for _, other := range []fence.Cluster{"", "other"} {
		d.Begin(other)
		for name, call := range map[string]func() error{
			"unary": func() error { _, err := c.KillTask(ctx, []worker.KillTask{{Term: term, Proc: "p1"}}); return err },
			"stream": func() error {
				return c.FollowLogs(ctx, &pb.FollowLogsRequest{To: wire.FromCallee(term, "p1")},
					func(*pb.FollowLogsResponse) error { return nil })
			},
			"unaddressed": func() error { _, err := c.ReadLogs(ctx, &pb.ReadLogsRequest{Limit: 5}); return err },
		} {
			if err := call(); err == nil || !strings.Contains(err.Error(), "cell c1 (10.0.0.7:7481) belongs to cluster mine") {
				t.Errorf("%s of cluster %q: %v", name, other, err)
			}
		}
	}
	d.Begin("mine")

	load := &action.Workload{Action: action.Action{Run: &action.Run{Path: "/bin/x", Args: []string{"{}"}}},
		Resources: resource.Amounts{"cpu_milli": 1}}
	call := worker.RunTask{Term: term, Proc: "p1",
		Run: worker.Run{Work: worker.Work{Job: "j", Node: "n"}, Invocation: fence.Invocation{Term: term, Counter: 1}}, Seq: 4}
	items := []cell.RunItem{
		{Call: worker.RunTask{Term: term, Proc: "p1", Seq: 4, Probe: 7, Beat: 3}},
		{Call: call, Work: &cell.BatchWork{Domain: "d", Workload: load,
			Program: &action.Run{Path: "/bin/x", Args: []string{"n"}}, Env: []action.Variable{{Name: "A", Value: "$'\n"}},
			Resources: resource.Amounts{"cpu_milli": 9}, JobUID: "u", Attempt: "3"}},
	}
	answers, err := c.RunTasks(ctx, items)
	if err != nil || len(answers) != 1 || answers[0].Result != worker.RunRefused || answers[0].Run != call.Run {
		t.Fatalf("%+v, %v", answers, err)
	}
	if diff := cmp.Diff(items, a.items, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("runTask changed:\n%s", diff)
	}

	work := cell.Work{Term: term, Proc: "p1",
		LRPs: []cell.LRPWork{{Key: lrp.Key{Process: "x"}, Instance: "i1", Workload: load},
			{Key: lrp.Key{Process: "x", Index: 1}, Instance: "i2", Workload: load, DeadlineBound: true, Exclusive: true}},
		Tasks: []cell.TaskWork{{GUID: "g", UID: "u1", Domain: "d", Workload: load}}}
	refused, err := c.Perform(ctx, work)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]cell.Refusal{{ID: "i2", Reason: "full", Cell: true}, {ID: "u1", Reason: "also full"}},
		refused); diff != "" {
		t.Errorf("refusals changed:\n%s", diff)
	}
	if len(a.work.LRPs) != 2 || !a.work.LRPs[1].Exclusive || !a.work.LRPs[1].DeadlineBound || a.work.LRPs[0].Exclusive ||
		a.work.Tasks[0].UID != "u1" {
		t.Errorf("work changed: %+v", a.work)
	}

	stops := cell.Stops{Instances: []cell.StopInstance{{Key: lrp.Key{Process: "x"}, Instance: "i1"},
		{Key: lrp.Key{Process: "y", Index: 7}, Instance: "i2"}}, Tasks: []string{"u1", "u2"}}
	if err := c.StopWork(ctx, term, "p1", stops); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(stops, a.stop); diff != "" {
		t.Errorf("stops changed:\n%s", diff)
	}
	var conns []string
	err = c.FollowLogs(ctx, &pb.FollowLogsRequest{To: wire.FromCallee(term, "p1"), Cursor: "!"},
		func(m *pb.FollowLogsResponse) error {
			conns = append(conns, string(m.GetLines().GetText()))
			return nil
		})
	if err != nil || strings.Join(conns, " ") != "one! two!" {
		t.Fatalf("%v, %v", conns, err)
	}
}

func TestOnlyAFailedDialCountsAsNeverSent(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) }))
	address := strings.TrimPrefix(s.URL, "http://")
	d := NewDirectory(Security{})
	defer d.Close()
	d.SetAddress("c1", address)
	call := []cell.RunItem{{Call: worker.RunTask{Term: term, Proc: "p1", Probe: 1}}}
	if _, err := d.Cell("c1").RunTasks(context.Background(), call); err == nil || NeverSent(err) {
		t.Fatalf("a request that was received and not answered: %v", err)
	}
	s.Close()
	if _, err := d.Cell("c1").RunTasks(context.Background(), call); err == nil || !NeverSent(err) {
		t.Fatalf("no listener: %v", err)
	}
}

// TestAnErrorKeepsItsCode: a query that a cell refuses is the caller's mistake, over the
// network too.
func TestAnErrorKeepsItsCode(t *testing.T) {
	_, bad := queryOf(&pb.LogQuery{Grep: "("})
	_, noWork := newCellServer().workOf(&pb.PerformRequest{To: &pb.Callee{Proc: "p"}, Tasks: []*pb.TaskWork{{Guid: "g"}}})
	for _, err := range []error{bad, noWork, fmt.Errorf("read: %w", bad)} {
		if code := connect.CodeOf(toConnect(err)); code != connect.CodeInvalidArgument {
			t.Errorf("%v: %v", err, code)
		}
	}
}

// TestWorkOfAServiceSharesItsWorkload: the same workload of several calls is read once, in bounded memory.
func TestWorkOfAServiceSharesItsWorkload(t *testing.T) {
	h := newCellServer()
	read := func(arg string) *action.Workload {
		t.Helper()
		got, err := h.loads.read([]*pb.Workload{wire.FromWorkload(action.Workload{Action: action.Action{
			Run: &action.Run{Path: "/bin/x", Args: []string{arg}}}})})
		if err != nil {
			t.Fatal(err)
		}
		return got[0]
	}
	if a, b := read("a"), read("b"); read("a") != a || read("b") != b || a == b {
		t.Error("the workload of a service is not shared, or two share one")
	}
	long := strings.Repeat("x", keptLoads/4)
	for i := range 10 {
		read(long + strconv.Itoa(i))
	}
	if n := len(h.loads.known); n > 4 {
		t.Errorf("%d large workloads are kept", n)
	}
}

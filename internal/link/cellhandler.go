package link

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"cantina/action"
	"cantina/cell"
	"cantina/internal/guard"
	"cantina/wire"
	pb "cantina/wire/cantinav1"
	"cantina/wire/cantinav1/cantinav1connect"
)

// CellHandlers serves CellService for the cells of one process, which share one handler.
type CellHandlers struct{ http.Handler }

// NewCellHandlers returns the handlers of a process; each cell has its own by For.
func NewCellHandlers() CellHandlers {
	_, h := cantinav1connect.NewCellServiceHandler(newCellServer(),
		append(options(), connect.WithInterceptors(inspect{}))...)
	bounded := guard.Body(maxMessage, h)
	return CellHandlers{http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == cantinav1connect.CellServiceExecProcedure {
			guard.Endless(w)
			h.ServeHTTP(w, r)
			return
		}
		bounded.ServeHTTP(w, r)
	})}
}

// For returns the handler of the leader's calls at a cell.
func (hs CellHandlers) For(c Receiver) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hs.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), calledKey{}, c)))
	})
}

// NewCellHandler returns the handler of the leader's calls at the only cell of a process.
func NewCellHandler(c Receiver) http.Handler { return NewCellHandlers().For(c) }

// calledKey is the key of the called cell in a context.
type calledKey struct{}

// called is the cell that a call is for.
func called(ctx context.Context) Receiver {
	c, _ := ctx.Value(calledKey{}).(Receiver) // For has set it
	return c
}

// cellHandler serves CellService for the cell of its context.
type cellHandler struct{ loads *loads }

func newCellServer() *cellHandler {
	return &cellHandler{loads: &loads{known: map[string]*action.Workload{}}}
}

func (h *cellHandler) GetRunningTasks(ctx context.Context,
	req *connect.Request[pb.GetRunningTasksRequest]) (*connect.Response[pb.GetRunningTasksResponse], error) {
	q, err := wire.ToReportRequest(req.Msg)
	if err != nil {
		return nil, toConnect(err)
	}
	r, err := called(ctx).GetRunningTasks(ctx, q)
	if err != nil {
		return nil, toConnect(err)
	}
	return connect.NewResponse(wire.FromReport(r)), nil
}

// loads are recently read workloads, by their bytes: the instances of a service come in many calls, and have the
// same workload.
type loads struct {
	mu    sync.Mutex
	known map[string]*action.Workload
	bytes int // of the keys
}

// keptLoads bounds the bytes that are kept.
const keptLoads = 1 << 20

// read reads the workloads of one request.
func (l *loads) read(ms []*pb.Workload) ([]*action.Workload, error) {
	out := make([]*action.Workload, len(ms))
	for i, m := range ms {
		b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
		if err != nil {
			return nil, err
		}
		if out[i], err = l.one(string(b), m); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (l *loads) one(key string, m *pb.Workload) (*action.Workload, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w := l.known[key]; w != nil {
		return w, nil
	}
	w, err := wire.ToWorkload(m)
	if err != nil {
		return nil, err
	}
	if l.bytes += len(key); l.bytes > keptLoads {
		clear(l.known)
		l.bytes = len(key)
	}
	l.known[key] = &w
	return &w, nil
}

func (h *cellHandler) RunTasks(ctx context.Context,
	req *connect.Request[pb.RunTasksRequest]) (*connect.Response[pb.RunTasksResponse], error) {
	calls, err := wire.ToRunTasks(req.Msg)
	if err != nil {
		return nil, toConnect(err)
	}
	loads, err := h.loads.read(req.Msg.GetWorkloads())
	if err != nil {
		return nil, toConnect(err)
	}
	items := make([]cell.RunItem, len(calls))
	for i, c := range calls {
		items[i].Call = c
		if c.Probe > 0 {
			continue
		}
		if items[i].Work, err = batchWork(req.Msg.GetTasks()[i], loads); err != nil {
			return nil, toConnect(err)
		}
	}
	answers, err := called(ctx).RunTasks(ctx, items)
	if err != nil {
		return nil, toConnect(err)
	}
	m := &pb.RunTasksResponse{Proc: req.Msg.GetTo().GetProc()}
	next := 0
	for _, c := range calls {
		if c.Probe > 0 {
			m.Answers = append(m.Answers, &pb.RunAnswer{Probe: c.Probe, Verdict: pb.RunVerdict_RUN_VERDICT_OK})
			continue
		}
		if next >= len(answers) {
			return nil, connect.NewError(connect.CodeInternal, errors.New("the cell did not answer every task"))
		}
		m.Answers = append(m.Answers, wire.FromRunAnswer(answers[next], 0))
		m.Term = wire.FromTerm(answers[next].Term)
		next++
	}
	return connect.NewResponse(m), nil
}

// batchWork makes the workload of one batch task concrete.
func batchWork(m *pb.RunTask, loads []*action.Workload) (*cell.BatchWork, error) {
	load, err := pick(loads, m.GetWorkload())
	if err != nil {
		return nil, err
	}
	w := &cell.BatchWork{Domain: m.GetDomain(), JobUID: m.GetLabels()["job_uid"], Attempt: m.GetLabels()["attempt"],
		Resources: wire.ToAmounts(m.GetResources()), Workload: load}
	if w.Env, err = wire.ToEnv(m.GetEnv()); err != nil {
		return nil, err
	}
	if m.GetProgram() != nil {
		program, err := wire.ToAction(&pb.Action{Kind: &pb.Action_Run{Run: m.GetProgram()}})
		if err != nil {
			return nil, err
		}
		w.Program = program.Run
	}
	return w, nil
}

func (h *cellHandler) NotifyIfTasksNotRunning(ctx context.Context,
	req *connect.Request[pb.NotifyIfTasksNotRunningRequest]) (*connect.Response[pb.NotifyIfTasksNotRunningResponse],
	error) {
	q, err := wire.ToNotify(req.Msg)
	if err != nil {
		return nil, toConnect(err)
	}
	a, err := called(ctx).NotifyIfTasksNotRunning(ctx, q)
	if err != nil {
		return nil, toConnect(err)
	}
	return connect.NewResponse(wire.FromNotifyAnswer(a)), nil
}

func (h *cellHandler) KillTask(ctx context.Context,
	req *connect.Request[pb.KillTaskRequest]) (*connect.Response[pb.KillTaskResponse], error) {
	calls, err := wire.ToKills(req.Msg)
	if err != nil {
		return nil, toConnect(err)
	}
	held, err := called(ctx).KillTask(ctx, calls)
	if err != nil {
		return nil, toConnect(err)
	}
	return connect.NewResponse(&pb.KillTaskResponse{Proc: req.Msg.GetTo().GetProc(), Held: held}), nil
}

func (h *cellHandler) RequestSuicide(ctx context.Context,
	req *connect.Request[pb.RequestSuicideRequest]) (*connect.Response[pb.RequestSuicideResponse], error) {
	s, err := wire.ToSuicide(req.Msg)
	if err != nil {
		return nil, toConnect(err)
	}
	if err := called(ctx).RequestSuicide(ctx, s); err != nil {
		return nil, toConnect(err)
	}
	return connect.NewResponse(&pb.RequestSuicideResponse{Proc: string(s.Proc)}), nil
}

func (h *cellHandler) Perform(ctx context.Context,
	req *connect.Request[pb.PerformRequest]) (*connect.Response[pb.PerformResponse], error) {
	w, err := h.workOf(req.Msg)
	if err != nil {
		return nil, toConnect(err)
	}
	refused, err := called(ctx).Perform(ctx, w)
	if err != nil {
		return nil, toConnect(err)
	}
	m := &pb.PerformResponse{Term: wire.FromTerm(w.Term), Proc: string(w.Proc)}
	reasons := map[string]*pb.Refusal{}
	for _, r := range refused {
		reasons[r.ID] = &pb.Refusal{Reason: r.Reason, Cell: r.Cell}
	}
	for i, l := range w.LRPs {
		if r := reasons[l.Instance]; r != nil {
			r.Index = int32(i)
			m.RefusedLrps = append(m.RefusedLrps, r)
		}
	}
	for i, t := range w.Tasks {
		if r := reasons[t.UID]; r != nil {
			r.Index = int32(i)
			m.RefusedTasks = append(m.RefusedTasks, r)
		}
	}
	return connect.NewResponse(m), nil
}

// errWorkload reports work without a workload.
var errWorkload = errors.New("workload index out of range")

// pick returns a workload of a request by its number, which begins with 1.
func pick(loads []*action.Workload, number int32) (*action.Workload, error) {
	if number < 1 || int(number) > len(loads) {
		return nil, connect.NewError(connect.CodeInvalidArgument,
			fmt.Errorf("%w: number %d of %d", errWorkload, number, len(loads)))
	}
	return loads[number-1], nil
}

func (h *cellHandler) workOf(m *pb.PerformRequest) (cell.Work, error) {
	t, proc, err := wire.ToCallee(m.GetTo())
	if err != nil {
		return cell.Work{}, err
	}
	w := cell.Work{Term: t, Proc: proc}
	loads, err := h.loads.read(m.GetWorkloads())
	if err != nil {
		return w, err
	}
	for _, l := range m.GetLrps() {
		key, err := wire.ToLRPKey(l.GetKey())
		if err != nil {
			return w, err
		}
		load, err := pick(loads, l.GetWorkload())
		if err != nil {
			return w, err
		}
		w.LRPs = append(w.LRPs, cell.LRPWork{Key: key, Service: wire.ToServiceKey(l.GetService()), Instance: l.GetInstance(),
			Workload: load, DeadlineBound: l.GetDeadlineBound(), Exclusive: l.GetExclusive()})
	}
	for _, x := range m.GetTasks() {
		load, err := pick(loads, x.GetWorkload())
		if err != nil {
			return w, err
		}
		w.Tasks = append(w.Tasks, cell.TaskWork{GUID: x.GetGuid(), UID: x.GetUid(), Domain: x.GetDomain(), Workload: load,
			DeadlineBound: x.GetDeadlineBound()})
	}
	return w, nil
}

func (h *cellHandler) StopWork(ctx context.Context,
	req *connect.Request[pb.StopWorkRequest]) (*connect.Response[pb.StopWorkResponse], error) {
	t, proc, err := wire.ToCallee(req.Msg.GetTo())
	if err != nil {
		return nil, toConnect(err)
	}
	w := cell.Stops{Tasks: req.Msg.GetTasks()}
	for _, x := range req.Msg.GetInstances() {
		key, err := wire.ToLRPKey(x.GetKey())
		if err != nil {
			return nil, toConnect(err)
		}
		w.Instances = append(w.Instances, cell.StopInstance{Key: key, Instance: x.GetInstance()})
	}
	if err := called(ctx).StopWork(ctx, t, proc, w); err != nil {
		return nil, toConnect(err)
	}
	return connect.NewResponse(&pb.StopWorkResponse{Term: wire.FromTerm(t), Proc: string(proc)}), nil
}

func (h *cellHandler) SignalInstance(ctx context.Context,
	req *connect.Request[pb.SignalInstanceRequest]) (*connect.Response[pb.SignalInstanceResponse], error) {
	t, proc, err := wire.ToCallee(req.Msg.GetTo())
	if err != nil {
		return nil, toConnect(err)
	}
	key, err := wire.ToLRPKey(req.Msg.GetKey())
	if err != nil {
		return nil, toConnect(err)
	}
	if err := called(ctx).SignalInstance(ctx, t, proc, key, req.Msg.GetInstance(), int(req.Msg.GetSignal())); err != nil {
		return nil, toConnect(err)
	}
	return connect.NewResponse(&pb.SignalInstanceResponse{Term: wire.FromTerm(t), Proc: string(proc)}), nil
}

func (h *cellHandler) ShortenGrace(
	ctx context.Context, req *connect.Request[pb.ShortenGraceRequest],
) (*connect.Response[pb.ShortenGraceResponse], error) {
	t, proc, err := wire.ToCallee(req.Msg.GetTo())
	if err != nil {
		return nil, toConnect(err)
	}
	grace, err := wire.ToDuration(req.Msg.GetGrace())
	if err != nil {
		return nil, toConnect(err)
	}
	n, err := called(ctx).ShortenGrace(ctx, t, proc, cell.Shorten{Instances: req.Msg.GetInstances(),
		Tasks: req.Msg.GetTasks(), Job: req.Msg.GetJob(), Node: req.Msg.GetNode(), Grace: grace})
	if err != nil {
		return nil, toConnect(err)
	}
	return connect.NewResponse(&pb.ShortenGraceResponse{Term: wire.FromTerm(t), Proc: string(proc),
		Shortened: int32(n)}), nil
}

func (h *cellHandler) Drain(ctx context.Context,
	req *connect.Request[pb.DrainRequest]) (*connect.Response[pb.DrainResponse], error) {
	t, proc, err := wire.ToCallee(req.Msg.GetTo())
	if err != nil {
		return nil, toConnect(err)
	}
	deadline, err := wire.ToDuration(req.Msg.GetDeadline())
	if err != nil {
		return nil, toConnect(err)
	}
	if err := called(ctx).Drain(ctx, t, proc, cell.Drain{ID: req.Msg.GetId(), Reason: req.Msg.GetReason(),
		Deadline: deadline, StopBatch: req.Msg.GetStopBatch(), Undo: req.Msg.GetUndo()}); err != nil {
		return nil, toConnect(err)
	}
	return connect.NewResponse(&pb.DrainResponse{Term: wire.FromTerm(t), Proc: string(proc)}), nil
}

func (h *cellHandler) ReadLogs(ctx context.Context,
	req *connect.Request[pb.ReadLogsRequest]) (*connect.Response[pb.ReadLogsResponse], error) {
	m, err := called(ctx).ReadLogs(ctx, req.Msg)
	if err != nil {
		return nil, toConnect(err)
	}
	return connect.NewResponse(m), nil
}

func (h *cellHandler) ReadUsage(ctx context.Context,
	req *connect.Request[pb.ReadUsageRequest]) (*connect.Response[pb.ReadUsageResponse], error) {
	m, err := called(ctx).ReadUsage(ctx, req.Msg)
	if err != nil {
		return nil, toConnect(err)
	}
	return connect.NewResponse(m), nil
}

func (h *cellHandler) FollowLogs(ctx context.Context, req *connect.Request[pb.FollowLogsRequest],
	stream *connect.ServerStream[pb.FollowLogsResponse]) error {
	return toConnect(called(ctx).FollowLogs(ctx, req.Msg, stream.Send))
}

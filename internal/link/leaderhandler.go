package link

import (
	"context"
	"net/http"

	"connectrpc.com/connect"

	"cantina/cell"
	"cantina/fence"
	"cantina/wire"
	pb "cantina/wire/cantinav1"
	"cantina/wire/cantinav1/cantinav1connect"
)

// leaderHandler serves LeaderService.
type leaderHandler struct {
	now func() (cell.Leader, error)
}

// Termed is a cell.Leader that knows its term; its answers carry it.
type Termed interface {
	cell.Leader
	Term() fence.Term
}

func newLeaderHandler(now func() (cell.Leader, error)) (string, http.Handler) {
	return cantinav1connect.NewLeaderServiceHandler(&leaderHandler{now}, options()...)
}

func termOf(l cell.Leader) *pb.Term {
	if t, ok := l.(Termed); ok {
		return wire.FromTerm(t.Term())
	}
	return nil
}

func (h *leaderHandler) Heartbeat(ctx context.Context,
	req *connect.Request[pb.HeartbeatRequest]) (*connect.Response[pb.HeartbeatResponse], error) {
	l, err := h.now()
	if err != nil {
		return nil, toConnect(err)
	}
	beat, err := wire.ToHeartbeat(req.Msg)
	if err != nil {
		return nil, toConnect(err)
	}
	answer, err := l.Heartbeat(ctx, beat, toState(req.Msg.GetState(), beat.Cell, beat.Proc))
	if err != nil {
		return nil, toConnect(err)
	}
	m := wire.FromHeartbeatAnswer(answer)
	m.StateVersion = req.Msg.GetState().GetVersion()
	return connect.NewResponse(m), nil
}

func (h *leaderHandler) UpdateStatus(ctx context.Context,
	req *connect.Request[pb.UpdateStatusRequest]) (*connect.Response[pb.UpdateStatusResponse], error) {
	l, err := h.now()
	if err != nil {
		return nil, toConnect(err)
	}
	u, err := wire.ToUpdateStatus(req.Msg)
	if err != nil {
		return nil, toConnect(err)
	}
	answers, err := l.UpdateStatus(ctx, u)
	if err != nil {
		return nil, toConnect(err)
	}
	m := &pb.UpdateStatusResponse{Term: termOf(l), Proc: string(u.Proc), Ok: make([]bool, len(u.Items))}
	for i := range m.Ok {
		m.Ok[i] = i < len(answers) && answers[i].OK
	}
	if len(answers) > 0 {
		m.Term = wire.FromTerm(answers[0].Term)
	}
	return connect.NewResponse(m), nil
}

func callerOf(m *pb.Caller) (cell.Caller, error) {
	t, name, proc, err := wire.ToCaller(m)
	return cell.Caller{Cluster: fence.Cluster(m.GetCluster()), Cell: name, Proc: proc, Term: t}, err
}

func (h *leaderHandler) Rows(ctx context.Context,
	req *connect.Request[pb.RowsRequest]) (*connect.Response[pb.RowsResponse], error) {
	l, err := h.now()
	if err != nil {
		return nil, toConnect(err)
	}
	from, err := callerOf(req.Msg.GetFrom())
	if err != nil {
		return nil, toConnect(err)
	}
	q := cell.RowsQuery{Only: req.Msg.GetOnly(), Tasks: req.Msg.GetTasks()}
	for _, k := range req.Msg.GetLrps() {
		key, err := wire.ToLRPKey(k)
		if err != nil {
			return nil, toConnect(err)
		}
		q.LRPs = append(q.LRPs, key)
	}
	rows, err := l.Rows(ctx, from, q)
	if err != nil {
		return nil, toConnect(err)
	}
	m := &pb.RowsResponse{Term: termOf(l), QuarantinedTasks: rows.QuarantinedTasks}
	for _, x := range rows.LRPs {
		m.Lrps = append(m.Lrps, wire.FromIndex(x))
	}
	for _, k := range rows.QuarantinedLRPs {
		m.Lrps = append(m.Lrps, &pb.LRPIndex{Key: wire.FromLRPKey(k), Quarantined: true})
	}
	for _, t := range rows.Tasks {
		m.Tasks = append(m.Tasks, wire.FromTaskRow(t))
	}
	return connect.NewResponse(m), nil
}

// answersOf turns answers of events into messages; an error that is not a refusal
// fails the whole call, since nothing is known about the event then.
func answersOf(errs []error) ([]*pb.EventAnswer, error) {
	out := make([]*pb.EventAnswer, len(errs))
	for i, err := range errs {
		a, ok := wire.FromEventError(err)
		if !ok {
			return nil, err
		}
		out[i] = a
	}
	return out, nil
}

func (h *leaderHandler) LRPEvents(ctx context.Context,
	req *connect.Request[pb.LRPEventsRequest]) (*connect.Response[pb.LRPEventsResponse], error) {
	l, from, err := h.caller(req.Msg.GetFrom())
	if err != nil {
		return nil, toConnect(err)
	}
	events := make([]cell.LRPEvent, len(req.Msg.GetEvents()))
	for i, m := range req.Msg.GetEvents() {
		if events[i], err = wire.ToLRPCall(m, from.Cell, from.Proc); err != nil {
			return nil, toConnect(err)
		}
	}
	errs, err := l.LRPEvents(ctx, from, events)
	if err != nil {
		return nil, toConnect(err)
	}
	answers, err := answersOf(errs)
	if err != nil {
		return nil, toConnect(err)
	}
	return connect.NewResponse(&pb.LRPEventsResponse{Term: termOf(l), Answers: answers}), nil
}

func (h *leaderHandler) TaskEvents(ctx context.Context,
	req *connect.Request[pb.TaskEventsRequest]) (*connect.Response[pb.TaskEventsResponse], error) {
	l, from, err := h.caller(req.Msg.GetFrom())
	if err != nil {
		return nil, toConnect(err)
	}
	events := make([]cell.TaskEvent, len(req.Msg.GetEvents()))
	for i, m := range req.Msg.GetEvents() {
		if events[i], err = wire.ToTaskCall(m, from.Cell, from.Proc); err != nil {
			return nil, toConnect(err)
		}
	}
	errs, err := l.TaskEvents(ctx, from, events)
	if err != nil {
		return nil, toConnect(err)
	}
	answers, err := answersOf(errs)
	if err != nil {
		return nil, toConnect(err)
	}
	return connect.NewResponse(&pb.TaskEventsResponse{Term: termOf(l), Answers: answers}), nil
}

func (h *leaderHandler) caller(m *pb.Caller) (cell.Leader, cell.Caller, error) {
	l, err := h.now()
	if err != nil {
		return nil, cell.Caller{}, err
	}
	from, err := callerOf(m)
	return l, from, err
}

// rowsOf reads an answer of Rows.
func rowsOf(m *pb.RowsResponse) (cell.Rows, error) {
	rows := cell.Rows{QuarantinedTasks: m.GetQuarantinedTasks()}
	for _, x := range m.GetLrps() {
		if x.GetQuarantined() {
			key, err := wire.ToLRPKey(x.GetKey())
			if err != nil {
				return rows, err
			}
			rows.QuarantinedLRPs = append(rows.QuarantinedLRPs, key)
			continue
		}
		index, err := wire.ToIndex(x)
		if err != nil {
			return rows, err
		}
		rows.LRPs = append(rows.LRPs, index)
	}
	for _, t := range m.GetTasks() {
		row, err := wire.ToTaskRow(t)
		if err != nil {
			return rows, err
		}
		rows.Tasks = append(rows.Tasks, row)
	}
	return rows, nil
}

package link

import (
	"context"

	"connectrpc.com/connect"

	"cantina/fence"
	"cantina/wire"
	pb "cantina/wire/cantinav1"
	"cantina/wire/cantinav1/cantinav1connect"
	"cantina/worker"
)

// Every call of a leader names the identity of its cluster, and the cell, process and term; a
// cell looks at nothing of a call that names others. Both is done in one place for all calls.

// calleeOf returns the callee of a request; false for the later messages of a stream, which name
// none.
func calleeOf(m any) (*pb.Callee, bool) {
	switch m := m.(type) {
	case interface{ GetTo() *pb.Callee }:
		return m.GetTo(), true
	case *pb.CellExecRequest:
		return m.GetStart().GetTo(), m.GetStart() != nil
	}
	return nil, false
}

// stamp is the interceptor of a leader's client.
type stamp struct {
	cells *Directory
	name  worker.CellName // of the cell that is called
}

func (s stamp) mark(m any) {
	if to, _ := calleeOf(m); to != nil {
		to.Cluster, to.Cell = string(s.cells.Cluster()), string(s.name)
	}
}

// WrapUnary implements connect.Interceptor.
func (s stamp) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, q connect.AnyRequest) (connect.AnyResponse, error) {
		s.mark(q.Any())
		return next(ctx, q)
	}
}

// WrapStreamingClient implements connect.Interceptor.
func (s stamp) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return func(ctx context.Context, spec connect.Spec) connect.StreamingClientConn {
		return stampConn{next(ctx, spec), s}
	}
}

// WrapStreamingHandler implements connect.Interceptor.
func (s stamp) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}

type stampConn struct {
	connect.StreamingClientConn
	stamp stamp
}

// Send marks outgoing requests.
func (c stampConn) Send(m any) error {
	c.stamp.mark(m)
	return c.StreamingClientConn.Send(m)
}

// inspect is the interceptor of a cell's handler.
type inspect struct{}

// ofMachine are the calls whose process and term the session checks itself, in one step with their
// effect: it has specific responses to an older leader and to another process. A new call is
// checked here.
var ofMachine = map[string]bool{
	cantinav1connect.CellServiceGetRunningTasksProcedure:         true,
	cantinav1connect.CellServiceRunTasksProcedure:                true,
	cantinav1connect.CellServiceNotifyIfTasksNotRunningProcedure: true,
	cantinav1connect.CellServiceKillTaskProcedure:                true,
	cantinav1connect.CellServiceRequestSuicideProcedure:          true,
	cantinav1connect.CellServicePerformProcedure:                 true,
	cantinav1connect.CellServiceStopWorkProcedure:                true,
	cantinav1connect.CellServiceSignalInstanceProcedure:          true,
	cantinav1connect.CellServiceDrainProcedure:                   true,
	cantinav1connect.CellServiceShortenGraceProcedure:            true,
}

func (inspect) check(c Receiver, procedure string, m any) error {
	to, first := calleeOf(m)
	if !first {
		return nil
	}
	if err := c.Addressed(fence.Cluster(to.GetCluster()), worker.Proc(to.GetProc())); err != nil {
		return toConnect(err)
	}
	t, proc, err := wire.ToCallee(to)
	if err == nil {
		err = c.Named(worker.CellName(to.GetCell()))
	}
	if err == nil && !ofMachine[procedure] {
		err = c.Meant(t, proc)
	}
	return toConnect(err)
}

// WrapUnary implements connect.Interceptor.
func (i inspect) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, q connect.AnyRequest) (connect.AnyResponse, error) {
		if err := i.check(called(ctx), q.Spec().Procedure, q.Any()); err != nil {
			return nil, err
		}
		return next(ctx, q)
	}
}

// WrapStreamingClient implements connect.Interceptor.
func (i inspect) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler implements connect.Interceptor.
func (i inspect) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		return next(ctx, inspectConn{conn, i, called(ctx)})
	}
}

type inspectConn struct {
	connect.StreamingHandlerConn
	inspect inspect
	cell    Receiver
}

// Receive checks incoming requests.
func (c inspectConn) Receive(m any) error {
	if err := c.StreamingHandlerConn.Receive(m); err != nil {
		return err
	}
	return c.inspect.check(c.cell, c.Spec().Procedure, m)
}

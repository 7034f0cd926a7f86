package link

import (
	"context"
	"errors"

	"connectrpc.com/connect"

	"cantina/cell"
	"cantina/executor"
	"cantina/fence"
	"cantina/logstore"
	"cantina/lrp"
	pb "cantina/wire/cantinav1"
	"cantina/worker"
)

// Cell is a cell as its leader calls it: the methods of cell.Cell, and its output. An error is an
// unknown outcome unless NeverSent reports that nothing was sent.
type Cell interface {
	GetRunningTasks(ctx context.Context, q worker.ReportRequest) (worker.Report, error)
	RunTasks(ctx context.Context, items []cell.RunItem) ([]worker.RunAnswer, error)
	NotifyIfTasksNotRunning(ctx context.Context, q worker.Notify) (worker.NotifyAnswer, error)
	KillTask(ctx context.Context, calls []worker.KillTask) ([]bool, error)
	RequestSuicide(ctx context.Context, s worker.Suicide) error
	Perform(ctx context.Context, w cell.Work) ([]cell.Refusal, error)
	StopWork(ctx context.Context, t fence.Term, proc worker.Proc, w cell.Stops) error
	// SignalInstance sends a signal to the main process of an instance, at most once.
	SignalInstance(ctx context.Context, t fence.Term, proc worker.Proc, key lrp.Key, instance string, signal int) error
	ShortenGrace(ctx context.Context, t fence.Term, proc worker.Proc, s cell.Shorten) (int, error)
	Drain(ctx context.Context, t fence.Term, proc worker.Proc, e cell.Drain) error
	ReadLogs(ctx context.Context, m *pb.ReadLogsRequest) (*pb.ReadLogsResponse, error)
	ReadUsage(ctx context.Context, m *pb.ReadUsageRequest) (*pb.ReadUsageResponse, error)
	// Exec runs a program in a running container, or copies files from or to it, until that has
	// ended. in returns the caller's next message, out sends one. It ends with ctx. The last message
	// reports how it ended; work that could not be done is no error.
	Exec(ctx context.Context, m *pb.CellExecStart, in func() (*pb.ExecInput, error),
		out func(*pb.ExecResponse) error) error
	FollowLogs(ctx context.Context, m *pb.FollowLogsRequest, each func(*pb.FollowLogsResponse) error) error
}

// Receiver is a cell at its own end of the network.
type Receiver interface {
	Cell
	// Addressed checks the cluster of a call before the rest of it is read.
	Addressed(cluster fence.Cluster, proc worker.Proc) error
	// Named and Meant check the callee: the cell, its process, the leader's term.
	Named(name worker.CellName) error
	Meant(t fence.Term, proc worker.Proc) error
}

// NeverSent reports whether a call that failed with err certainly never reached
// its cell: no connection could be made.
func NeverSent(err error) bool { return neverSent(err) }

// Refused returns the text of a cell that answered a call with an error; false if err is another
// error: no connection, or no response.
func Refused(err error) (string, bool) {
	var c *connect.Error
	switch {
	case !errors.As(err, &c):
		// a cell in this process
		return err.Error(), !neverSent(err) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
	case connect.IsWireError(c):
		return c.Message(), true
	}
	return "", false
}

// Local is a cell in the same process: its calls, and its output.
type Local struct {
	*cell.Cell
	Name   worker.CellName
	Output *logstore.Store
	// Executor runs programs in containers.
	Executor *executor.Executor
}

var _ Receiver = (*Local)(nil)

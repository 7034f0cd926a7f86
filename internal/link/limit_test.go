package link

import (
	"context"
	"errors"
	"math"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	"cantina/action"
	"cantina/cell"
	"cantina/fence"
	"cantina/lrp"
	"cantina/wire"
	pb "cantina/wire/cantinav1"
	"cantina/wire/cantinav1/cantinav1connect"
	"cantina/worker"
)

// silent is a connection to a cell that answers nothing until a call is given up.
type silent struct{}

func (silent) Do(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// TestCallsToCellsAreBounded: the caller sets no limit of its own, and a silent cell holds no call
// for longer than this one.
func TestCallsToCellsAreBounded(t *testing.T) {
	r := &remote{rpc: cantinav1connect.NewCellServiceClient(silent{}, "http://cell")}
	for name, call := range map[string]struct {
		limit time.Duration
		do    func(context.Context) error
	}{
		"GetRunningTasks": {longTimeout, func(ctx context.Context) error {
			_, err := r.GetRunningTasks(ctx, worker.ReportRequest{})
			return err
		}},
		"RunTasks": {callTimeout, func(ctx context.Context) error {
			_, err := r.RunTasks(ctx, []cell.RunItem{{}})
			return err
		}},
		"NotifyIfTasksNotRunning": {callTimeout, func(ctx context.Context) error {
			_, err := r.NotifyIfTasksNotRunning(ctx, worker.Notify{})
			return err
		}},
		"KillTask": {callTimeout, func(ctx context.Context) error {
			_, err := r.KillTask(ctx, []worker.KillTask{{}})
			return err
		}},
		"RequestSuicide": {callTimeout, func(ctx context.Context) error { return r.RequestSuicide(ctx, worker.Suicide{}) }},
		"Perform": {longTimeout, func(ctx context.Context) error {
			_, err := r.Perform(ctx, cell.Work{})
			return err
		}},
		"StopWork": {callTimeout, func(ctx context.Context) error { return r.StopWork(ctx, term, "p", cell.Stops{}) }},
		"SignalInstance": {callTimeout, func(ctx context.Context) error {
			return r.SignalInstance(ctx, term, "p", lrp.Key{},
				"i", 1)
		}},
		"Drain": {callTimeout, func(ctx context.Context) error { return r.Drain(ctx, term, "p", cell.Drain{}) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				if err := call.do(t.Context()); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != call.limit {
					t.Errorf("%v after %v, want it given up after %v", err, time.Since(begin), call.limit)
				}
			})
		})
	}
}

// TestNumbersOfWorkloadsAreChecked: a request may name any, and probes may have any number.
func TestNumbersOfWorkloadsAreChecked(t *testing.T) {
	c := newCellServer()
	to, loads := wire.FromCallee(term, "p1"),
		[]*pb.Workload{wire.FromWorkload(action.Workload{Action: action.Action{Run: &action.Run{Path: "/bin/x"}}})}
	run := wire.FromRun(worker.Run{Work: worker.Work{Job: "j", Node: "n"},
		Invocation: fence.Invocation{Term: term, Counter: 1}})
	for _, number := range []int32{math.MinInt32, -1, 0, 2, math.MaxInt32} {
		for _, probe := range []int64{0, -1} {
			req := connect.NewRequest(&pb.RunTasksRequest{To: to, Workloads: loads,
				Tasks: []*pb.RunTask{{Run: run, Probe: probe, Workload: number}}})
			if _, err := c.RunTasks(t.Context(), req); connect.CodeOf(err) != connect.CodeInvalidArgument {
				t.Errorf("runTask with workload %d, probe %d: %v", number, probe, err)
			}
		}
		for name, m := range map[string]*pb.PerformRequest{
			"service": {To: to, Workloads: loads, Lrps: []*pb.LRPWork{{Key: wire.FromLRPKey(lrp.Key{Process: "x"}),
				Instance: "i", Workload: number}}},
			"task": {To: to, Workloads: loads, Tasks: []*pb.TaskWork{{Guid: "g", Uid: "u", Workload: number}}},
		} {
			if _, err := c.Perform(t.Context(), connect.NewRequest(m)); connect.CodeOf(err) != connect.CodeInvalidArgument {
				t.Errorf("%s with workload %d: %v", name, number, err)
			}
		}
	}
}

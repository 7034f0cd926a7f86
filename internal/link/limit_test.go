package link

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"cantina/cell"
	"cantina/lrp"
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
		"StopInstance":   {callTimeout, func(ctx context.Context) error { return r.StopInstance(ctx, term, "p", lrp.Key{}, "i") }},
		"SignalInstance": {callTimeout, func(ctx context.Context) error { return r.SignalInstance(ctx, term, "p", lrp.Key{}, "i", 1) }},
		"CancelTask":     {callTimeout, func(ctx context.Context) error { return r.CancelTask(ctx, term, "p", "uid") }},
		"Drain":          {callTimeout, func(ctx context.Context) error { return r.Drain(ctx, term, "p", cell.Drain{}) }},
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

package node

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"cantina/action"
	"cantina/api"
	"cantina/internal/guard"
	"cantina/internal/heaptest"
	"cantina/internal/run"
	"cantina/leader"
	"cantina/wire"
	pb "cantina/wire/cantinav1"
	"cantina/wire/cantinav1/cantinav1connect"
	"cantina/worker"
)

// real is a server with a store on disk and a cell with real containers, in this process, as two
// processes would be: they call each other over loopback.
type real struct {
	t     *testing.T
	token guard.Token
	s     *Server
}

func newReal(t *testing.T) *real { return newRealWith(t, func(*ServerConfig) {}) }

func newRealWith(t *testing.T, change func(*ServerConfig)) *real {
	dir, log := t.TempDir(), slog.New(slog.DiscardHandler)
	token, err := guard.OpenToken(filepath.Join(dir, "token"))
	if err != nil {
		t.Fatal(err)
	}
	r := &real{t: t, token: token}
	timeouts := worker.DefaultTimeouts()
	settings := leader.Settings{Name: "s", NewCluster: true, Timeouts: timeouts, Clock: run.Kernel(), Log: log}
	cfg := ServerConfig{Settings: settings, Dir: filepath.Join(dir, "s"), Listen: []string{"127.0.0.1:0"}, Token: token}
	change(&cfg)
	r.s, err = OpenServer(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	r.runs(r.s.Run)
	c, err := OpenCell(t.Context(), CellConfig{Name: "c", Dir: filepath.Join(dir, "c"), Servers: r.s.Addresses(),
		Listen: "127.0.0.1:0", Token: token, Timeouts: timeouts, Clock: run.Kernel(), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	r.runs(c.Run)
	return r
}

// runs runs a process until the test has ended.
func (r *real) runs(process func(context.Context) error) {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = process(ctx) }()
	r.t.Cleanup(func() { stop(); <-ended })
}

func (r *real) client() *api.Client {
	return api.NewClient(api.ClientConfig{Addresses: r.s.Addresses(), Token: r.token, Patience: 30 * time.Second,
		NewKey: leader.NewID})
}

// start submits a task, and returns when its first line can be read.
func (r *real) start(c *api.Client, guid, script string) {
	w := action.Workload{Action: action.Action{Run: &action.Run{Path: "/bin/sh", Args: []string{"-c", script}}}}
	q := &pb.RunTaskRequest{Id: guid, Domain: "d", Definition: &pb.TaskDefinition{Workload: wire.FromWorkload(w)}}
	_, err := api.Call(r.t.Context(), c, cantinav1connect.CantinaServiceClient.RunTask, q)
	if err != nil {
		r.t.Fatal(err)
	}
	r.follow(r.t.Context(), c, &pb.OutputQuery{Task: guid}, true)
}

// follow follows an output: until its first line, or else until it ends.
func (r *real) follow(ctx context.Context, c *api.Client, q *pb.OutputQuery, first bool) {
	lines := 0
	err := c.FollowOutput(ctx, &pb.FollowOutputRequest{Query: q}, func(m *pb.FollowOutputResponse) error {
		if lines += len(m.Lines); lines > 0 && first {
			return api.Stop()
		}
		return nil
	})
	if err != nil && ctx.Err() == nil || lines == 0 {
		r.t.Errorf("%d lines of %v: %v", lines, q, err)
	}
}

// TestMemoryIsFreedOfLogFollowers: followers of an output through a server and a cell leave nothing in memory. It
// covers each kind of end: by the reader, by its context, by the end of its connection or of the output.
func TestMemoryIsFreedOfLogFollowers(t *testing.T) {
	if testing.Short() {
		t.Skip("make test runs it, without the race detector")
	}
	if !heaptest.Child(t) {
		return
	}
	r := newReal(t)
	c := r.client()
	t.Cleanup(c.Close)
	r.start(c, "long", "echo one; echo two; exec sleep 1000")
	r.start(c, "short", "echo one; echo two")
	followers := []func(){
		func() { r.follow(t.Context(), c, &pb.OutputQuery{Task: "long"}, true) },
		func() { r.follow(t.Context(), c, &pb.OutputQuery{Task: "short"}, false) },
		func() { r.follow(t.Context(), c, &pb.OutputQuery{Task: "long", Tail: 1}, true) },
		func() {
			own := r.client()
			defer own.Close()
			r.follow(t.Context(), own, &pb.OutputQuery{Task: "long", Stream: []string{"stdout"}}, true)
		},
		func() {
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() {
				q := &pb.FollowOutputRequest{Query: &pb.OutputQuery{Task: "long", Grep: "none"}}
				ended <- c.FollowOutput(ctx, q, func(*pb.FollowOutputResponse) error { return nil })
			}()
			r.follow(t.Context(), c, &pb.OutputQuery{Task: "long"}, true) // as long as one takes to have lines
			stop()
			<-ended
		},
	}
	heaptest.Levels(t, heaptest.Config{Things: 4 * len(followers), Rounds: 2, Warm: 3, Round: func(int) {
		var wg sync.WaitGroup
		for range 4 {
			for _, f := range followers {
				wg.Go(f)
			}
		}
		wg.Wait()
	}})
}

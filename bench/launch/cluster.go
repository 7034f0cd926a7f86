package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"cantina/action"
	"cantina/api"
	"cantina/bench/dev"
	"cantina/resource"
	"cantina/task"
	pb "cantina/wire/cantinav1"
	"cantina/wire/cantinav1/cantinav1connect"
)

// calls are the calls of the API.
type calls = cantinav1connect.CantinaServiceClient

// jobFile is a job with n nodes from a script.
const jobFile = `domain: bench
jobs:
  launch:
    levels: [host, item]
    nodes:
      - manual: [localhost]
      - script: [sh, -c, seq %d]
        parent_level: host
    command: [/bin/true]
    cpu: %dm
`

// cluster measures its own `cantina dev`, fresh for each measurement.
type cluster struct {
	program string
	callers int
	// cpuMilli is the request of each launch: at 100 ten fit on each processor.
	cpuMilli int
}

// batch applies a job with n nodes and waits until all are done. It returns launches per second
// from apply to the end, and the cost of the whole cluster.
func (c *cluster) batch(ctx context.Context, n int) (out outcome, err error) {
	d, err := dev.Start(ctx, c.program)
	if err != nil {
		return out, err
	}
	defer func() {
		err = errors.Join(err, d.Stop())
		out.cpu = d.CPU() / time.Duration(n)
	}()
	file := filepath.Join(d.Dir, "cantina.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, jobFile, n, c.cpuMilli), 0o600); err != nil {
		return out, err
	}
	begin := time.Now()
	if text, err := exec.CommandContext(ctx, c.program, append(d.Flags(), "apply", file)...).CombinedOutput(); err != nil {
		return out, fmt.Errorf("apply: %w: %s", err, text)
	}
	if err := untilDone(ctx, d, n); err != nil {
		return out, err
	}
	out.rate = float64(n) / time.Since(begin).Seconds()
	return out, nil
}

// untilDone waits for the job's end, looking at it ten times a second.
func untilDone(ctx context.Context, d *dev.Dev, n int) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		got, err := api.Call(ctx, d.Client, calls.GetJob, &pb.GetJobRequest{Domain: "bench", Name: "launch"})
		if err != nil {
			return err
		}
		switch counts := got.Job.Counts; {
		case counts.GetFailed() > 0:
			return fmt.Errorf("%d of %d failed", counts.GetFailed(), n)
		case int(counts.GetDone()) == n:
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// tasks submits n tasks with concurrent calls and waits until the event stream has the end of
// each. It returns launches per second from the first call to the last end, and the cost of the
// whole cluster.
func (c *cluster) tasks(ctx context.Context, n int) (out outcome, err error) {
	d, err := dev.Start(ctx, c.program)
	if err != nil {
		return out, err
	}
	defer func() {
		err = errors.Join(err, d.Stop())
		out.cpu = d.CPU() / time.Duration(n)
	}()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	defer wg.Wait()
	var begin time.Time
	err = untilCompleted(ctx, d, n, func() {
		begin = time.Now()
		wg.Go(func() {
			if err := c.submit(ctx, d, n); err != nil {
				cancel(err)
			}
		})
	})
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if err != nil {
		return out, err
	}
	out.rate = float64(n) / time.Since(begin).Seconds()
	return out, nil
}

// submit makes n RunTask calls, c.callers of them at a time.
func (c *cluster) submit(ctx context.Context, d *dev.Dev, n int) error {
	def := api.FromDefinition(task.Definition{Workload: action.Workload{
		Action:    action.Action{Run: &action.Run{Path: "/bin/true"}},
		Resources: resource.Amounts{resource.CPUMilli: c.cpuMilli},
	}})
	ids := make(chan int)
	errs := make(chan error, c.callers)
	var wg sync.WaitGroup
	for range c.callers {
		wg.Go(func() {
			for i := range ids {
				if _, err := api.Call(ctx, d.Client, calls.RunTask,
					&pb.RunTaskRequest{Id: "t" + strconv.Itoa(i), Domain: "bench", Definition: def}); err != nil {
					errs <- fmt.Errorf("run task %d: %w", i, err)
					return
				}
			}
			errs <- nil
		})
	}
	var failed error
	for i := 0; i < n && failed == nil; {
		select {
		case ids <- i:
			i++
		case failed = <-errs:
		}
	}
	close(ids)
	wg.Wait()
	close(errs)
	for err := range errs {
		failed = errors.Join(failed, err)
	}
	return failed
}

// untilCompleted follows the event stream until n tasks are COMPLETED; it calls
// begin once the stream is open.
func untilCompleted(ctx context.Context, d *dev.Dev, n int, begin func()) error {
	ended := map[string]bool{}
	var once sync.Once
	return d.Client.Events(ctx, &pb.StreamEventsRequest{Kind: []string{"task"}}, func(m *pb.StreamEventsResponse) error {
		once.Do(begin)
		if m.Gap != nil {
			return fmt.Errorf("the event stream has a gap from %s to %s", m.Gap.After, m.Gap.Before)
		}
		t := m.GetEvent().GetTask()
		if t == nil || t.State != task.Completed.String() {
			return nil
		}
		if t.Outcome != task.Succeeded.String() {
			return fmt.Errorf("task %s %s: %s", t.Id, t.Outcome, t.Reason)
		}
		if ended[t.Id] = true; len(ended) == n {
			return api.Stop()
		}
		return nil
	})
}

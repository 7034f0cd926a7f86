package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"cantina/action"
	"cantina/api"
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

// cluster measures a `cantina dev` of its own, fresh for each measurement.
type cluster struct {
	program string
	callers int
	// cpuMilli is what each launch asks for: at 100 ten have room on each processor.
	cpuMilli int
}

// batch applies a job with n nodes and waits until all are done. It returns
// launches per second from apply to the end, and what the whole cluster cost.
func (c *cluster) batch(ctx context.Context, n int) (out outcome, err error) {
	d, err := c.start(ctx)
	if err != nil {
		return out, err
	}
	defer func() {
		err = errors.Join(err, d.stop())
		out.cpu = d.cpu() / time.Duration(n)
	}()
	file := filepath.Join(d.folder, "cantina.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, jobFile, n, c.cpuMilli), 0o600); err != nil {
		return out, err
	}
	begin := time.Now()
	if text, err := exec.CommandContext(ctx, c.program, "apply", file, "--addr", d.address).CombinedOutput(); err != nil {
		return out, fmt.Errorf("apply: %w: %s", err, text)
	}
	if err := d.untilDone(ctx, n); err != nil {
		return out, err
	}
	out.rate = float64(n) / time.Since(begin).Seconds()
	return out, nil
}

// untilDone waits for the job's end, looking at it ten times a second.
func (d *dev) untilDone(ctx context.Context, n int) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		got, err := api.Call(ctx, d.client, calls.GetJob, &pb.GetJobRequest{Name: "launch"})
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

// tasks submits n tasks with concurrent calls and waits until the event stream has
// told the end of each. It returns launches per second from the first call to the
// last end, and what the whole cluster cost.
func (c *cluster) tasks(ctx context.Context, n int) (out outcome, err error) {
	d, err := c.start(ctx)
	if err != nil {
		return out, err
	}
	defer func() {
		err = errors.Join(err, d.stop())
		out.cpu = d.cpu() / time.Duration(n)
	}()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	defer wg.Wait()
	var begin time.Time
	err = d.untilCompleted(ctx, n, func() {
		begin = time.Now()
		wg.Go(func() {
			if err := d.submit(ctx, n, c); err != nil {
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
func (d *dev) submit(ctx context.Context, n int, c *cluster) error {
	def := api.FromDefinition(task.Definition{Workload: action.Workload{
		Action: action.Action{Run: &action.Run{Path: "/bin/true"}}, Resources: resource.Amounts{resource.CPUMilli: c.cpuMilli},
	}})
	ids := make(chan int)
	errs := make(chan error, c.callers)
	var wg sync.WaitGroup
	for range c.callers {
		wg.Go(func() {
			for i := range ids {
				if _, err := api.Call(ctx, d.client, calls.RunTask, &pb.RunTaskRequest{Id: "t" + strconv.Itoa(i), Domain: "bench", Definition: def}); err != nil {
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
func (d *dev) untilCompleted(ctx context.Context, n int, begin func()) error {
	ended := map[string]bool{}
	var once sync.Once
	return d.client.Events(ctx, &pb.StreamEventsRequest{Kind: []string{"task"}}, func(m *pb.StreamEventsResponse) error {
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

// dev is one running `cantina dev`.
type dev struct {
	cmd     *exec.Cmd
	folder  string
	address string
	client  *api.Client
}

// start starts cantina dev in a folder of its own and waits for its address.
func (c *cluster) start(ctx context.Context) (*dev, error) {
	folder, err := os.MkdirTemp("", "cantina-bench-")
	if err != nil {
		return nil, err
	}
	d := &dev{folder: folder}
	if err := d.launch(ctx, c.program); err != nil {
		return nil, errors.Join(err, d.stop())
	}
	d.client = api.NewClient(api.ClientConfig{Addresses: []string{d.address}, NewKey: rand.Text, Patience: 10 * time.Second})
	return d, d.untilReady(ctx)
}

func (d *dev) launch(ctx context.Context, program string) error {
	log, err := os.Create(filepath.Join(d.folder, "dev.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer read.Close()
	cmd := exec.Command(program, "dev", "--data", filepath.Join(d.folder, "data"), "--listen", "127.0.0.1:0", "--socket", "none", "--ready-fd", "3")
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = log, log, []*os.File{write}
	err = cmd.Start()
	write.Close()
	if err != nil {
		return fmt.Errorf("start %s: %w", program, err)
	}
	d.cmd = cmd
	text, err := bufio.NewReader(read).ReadString('\n')
	if err != nil {
		problem, _ := os.ReadFile(log.Name()) // the error above matters more
		return fmt.Errorf("cantina dev did not start: %w: %s", err, problem)
	}
	d.address = strings.TrimSpace(text)
	return ctx.Err()
}

// untilReady waits until the cell is HEALTHY.
func (d *dev) untilReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		got, err := api.Call(ctx, d.client, calls.ListCells, &pb.ListCellsRequest{})
		if err == nil && len(got.Cells) == 1 && got.Cells[0].Session == "HEALTHY" {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("the cell did not become HEALTHY: %w", ctx.Err()), err)
		case <-tick.C:
		}
	}
}

// stop ends cantina dev and removes its folder.
func (d *dev) stop() error {
	var err error
	if d.client != nil {
		d.client.Close()
	}
	if d.cmd != nil {
		err = errors.Join(d.cmd.Process.Signal(syscall.SIGTERM), d.cmd.Wait())
	}
	return errors.Join(err, os.RemoveAll(d.folder))
}

// cpu is the processor time of cantina dev and of all that it ran, once it ended.
func (d *dev) cpu() time.Duration {
	if d.cmd == nil || d.cmd.ProcessState == nil {
		return 0
	}
	return d.cmd.ProcessState.UserTime() + d.cmd.ProcessState.SystemTime()
}

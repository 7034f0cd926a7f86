package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"cantina/action"
	"cantina/executor"
	"cantina/resource"
)

// workers is how many launches are in flight, in the bare loop as here.
const workers = 2

// cell is an executor in its own directory.
type cell struct {
	*executor.Executor
	sub *executor.Subscription

	mu   sync.Mutex
	want map[string]chan executor.Container // by id: the event that is waited for
	kind executor.EventKind
}

// withCell runs f with a fresh executor and ends it.
func withCell(ctx context.Context, f func(*cell) error) error {
	dir, err := os.MkdirTemp("", "cantina-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	e, err := executor.Open(executor.Config{Dir: dir, Capacity: resource.Amounts{
		resource.Containers: 1 << 20, resource.MemoryMB: 1 << 20, resource.CPUMilli: 1 << 20}})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	c := &cell{Executor: e, want: map[string]chan executor.Container{}}
	if c.sub, err = e.Subscribe(); err == nil {
		heard := make(chan struct{})
		go func() {
			defer close(heard)
			c.listen()
		}()
		err = f(c)
		c.sub.Close()
		<-heard
	}
	stop()
	return errors.Join(err, <-ended)
}

// listen wakes the waiters for an event of a container.
func (c *cell) listen() {
	for ev := range c.sub.C {
		c.wake(ev.Container, ev.Kind)
		if c.sub.Lost() == 0 {
			continue
		}
		for _, ct := range c.List() {
			switch ct.State {
			case executor.Running:
				c.wake(ct, executor.EventRunning)
			case executor.Completed:
				c.wake(ct, executor.EventCompleted)
			}
		}
	}
}

func (c *cell) wake(ct executor.Container, kind executor.EventKind) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ch := c.want[ct.ID]; ch != nil && (kind == c.kind || kind == executor.EventCompleted) {
		delete(c.want, ct.ID)
		ch <- ct
	}
}

func (c *cell) expect(id string) <-chan executor.Container {
	ch := make(chan executor.Container, 1)
	c.mu.Lock()
	c.want[id] = ch
	c.mu.Unlock()
	return ch
}

func (c *cell) until(kind executor.EventKind) {
	c.mu.Lock()
	c.kind = kind
	c.mu.Unlock()
}

// each runs f with 0 to n-1 from all workers.
func each(n int, f func(i int) error) error {
	var next atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, workers)
	for w := range workers {
		wg.Go(func() {
			for errs[w] == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				errs[w] = f(i)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// bare is the floor.
func bare(n int) error {
	return each(n, func(int) error { return exec.Command("/bin/true").Run() })
}

// launch runs n containers to their ends and deletes them; they are deadline-bound,
// as tasks and batch tasks are.
func (c *cell) launch(n int, w *action.Workload) error {
	c.until(executor.EventCompleted)
	return each(n, func(i int) error {
		id := "c" + strconv.Itoa(i)
		done := c.expect(id)
		if err := c.Launch(executor.Reservation{ID: id, DeadlineBound: true}, executor.Spec{Workload: *w}); err != nil {
			return err
		}
		if r := (<-done).Result; r.Failed {
			return fmt.Errorf("container %s: %s", id, r.Reason)
		}
		return c.Delete(id)
	})
}

// fill starts n containers and waits until they run.
func (c *cell) fill(prefix string, n int, w *action.Workload) error {
	c.until(executor.EventRunning)
	return each(n, func(i int) error {
		id := prefix + strconv.Itoa(i)
		up := c.expect(id)
		if err := c.Launch(executor.Reservation{ID: id}, executor.Spec{Workload: *w}); err != nil {
			return err
		}
		if ct := <-up; ct.State != executor.Running {
			return fmt.Errorf("container %s is %v: %s", id, ct.State, ct.Result.Reason)
		}
		return nil
	})
}

// end stops containers that would outlive the cell.
func (c *cell) end(prefix string, n int) error {
	c.until(executor.EventCompleted)
	return each(n, func(i int) error {
		id := prefix + strconv.Itoa(i)
		done := c.expect(id)
		if err := c.Stop(id); err != nil {
			return err
		}
		<-done
		return c.Delete(id)
	})
}

// holds counts the cell's descriptors, and the kilobytes it has in memory.
func (c *cell) holds() (descriptors, kb int, err error) {
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0, 0, err
	}
	kb, err = memory(os.Getpid(), "Rss")
	return len(fds), kb, err
}

// shims adds up the memory (kB, Pss) of the shims of the containers that are kept.
func (c *cell) shims() (int, error) {
	sum := 0
	for _, ct := range c.List() {
		if !ct.Kept {
			continue
		}
		parent, err := parentOf(ct.Pid)
		if err != nil {
			return 0, err
		}
		kb, err := memory(parent, "Pss")
		if err != nil {
			return 0, err
		}
		sum += kb
	}
	return sum, nil
}

func parentOf(pid int) (int, error) {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, err
	}
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	return strconv.Atoi(f[1])
}

// memory reads a line of smaps_rollup in kB.
func memory(pid int, name string) (int, error) {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "smaps_rollup"))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == name+":" {
			return strconv.Atoi(f[1])
		}
	}
	return 0, fmt.Errorf("no %s of process %d", name, pid)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"cantina/api"
	"cantina/bench/gauge"
	"cantina/internal/run"
	pb "cantina/wire/cantinav1"
)

// flood measures one cluster under its full load: all instances applied at once, then each thing
// that happens to a cluster, one after the other. Cells have the default settings. Status is polled,
// because an event stream of so many instances would be a load of its own.

// aFlood is the amount of it.
type aFlood struct {
	cells, services, each int
	busy                  int           // loops that compete for the processors while all is applied
	stay                  time.Duration // how long all must stay RUNNING before the rest is measured
}

func (f *aFlood) instances() int { return f.services * f.each }

// file is the spec file of a version.
func (f *aFlood) file(version string) string {
	var b strings.Builder
	b.WriteString("domain: d\nservices:\n")
	for i := range f.services {
		fmt.Fprintf(&b, "  s%d: {command: [serve, %s], instances: %d, memory: 1Mi, cpu: 1m}\n", i, version, f.each)
	}
	return b.String()
}

// flood makes the measurements on a fresh server.
func flood(ctx context.Context, program string, f aFlood) (err error) {
	r, err := newRig(ctx, program, nil, f.cells-f.cells/10, f.cells/10)
	defer func() { err = r.close(err) }()
	if err != nil {
		return err
	}
	r.unfollow()
	fmt.Printf("%d cells, %d services of %d, load %s:\n", f.cells, f.services, f.each, gauge.Load())
	end, err := busy(f.busy)
	if err != nil {
		return err
	}
	begin := time.Now()
	var running time.Duration
	err = f.measure(ctx, r, fmt.Sprintf("apply, beside %d busy loops", f.busy), r.applies(f.file("v1")),
		func(ctx context.Context, r *rig) (bool, error) {
			a, err := api.Call(ctx, r.client, calls.GetStatus, &pb.GetStatusRequest{})
			if err != nil {
				return false, err
			}
			if running == 0 && int(a.Status.Counts["running"]) == f.instances() {
				running = time.Since(begin)
			}
			return settledBy(a.Status, f.instances())
		})
	fmt.Printf("    all RUNNING %29.1f s\n", running.Seconds())
	end()
	if err != nil {
		return err
	}
	for _, m := range []func(context.Context, *rig) error{f.stays, f.killLeader, f.update, f.loseCells, f.remove} {
		if err := m(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

func (r *rig) applies(text string) func(context.Context) error {
	return func(ctx context.Context) error { return r.apply(ctx, text) }
}

// measure prints the time from the call to the state, and the processor time of the server.
func (f *aFlood) measure(ctx context.Context, r *rig, name string, do func(context.Context) error,
	over func(context.Context, *rig) (bool, error)) error {
	begin := time.Now()
	before, cellsBefore, err := r.spent()
	if err != nil {
		return err
	}
	s := step{name: name, do: func(ctx context.Context, _ *rig) error { return do(ctx) }, over: over}
	if err := s.make(ctx, r); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	took := time.Since(begin)
	after, cellsAfter, err := r.spent()
	if err != nil {
		return err
	}
	fmt.Printf("  %-34s %6.1f s, server %5.1f s of processor time (%.2f of a core), cells %.1f s, %s\n", name,
		took.Seconds(), (after - before).Seconds(), (after-before).Seconds()/took.Seconds(),
		(cellsAfter - cellsBefore).Seconds(), r.memory())
	return nil
}

// spent returns the processor time that the server and the cells have spent.
func (r *rig) spent() (server, cells time.Duration, err error) {
	if server, err = gauge.SpentBy(r.server.cmd.Process.Pid); err != nil {
		return 0, 0, err
	}
	for _, c := range r.cells {
		if c.cmd.ProcessState != nil {
			continue // it was killed
		}
		spent, err := gauge.SpentBy(c.cmd.Process.Pid)
		if err != nil {
			return 0, 0, err
		}
		cells += spent
	}
	return server, cells, nil
}

// memory describes the resident memory of the server and of the cells.
func (r *rig) memory() string {
	cells := 0
	for _, c := range r.cells {
		cells += gauge.Resident(c.cmd.Process.Pid)
	}
	return fmt.Sprintf("server %d MB, cells %d MB", gauge.Resident(r.server.cmd.Process.Pid)>>20, cells>>20)
}

// stays measures the server while nothing changes, and that nothing did.
func (f *aFlood) stays(ctx context.Context, r *rig) error {
	const look = 5 * time.Second
	begin := time.Now()
	before, err := gauge.SpentBy(r.server.cmd.Process.Pid)
	if err != nil {
		return err
	}
	for time.Since(begin) < f.stay {
		if err := run.Pause(ctx, min(look, f.stay)); err != nil {
			return err
		}
		a, err := api.Call(ctx, r.client, calls.GetStatus, &pb.GetStatusRequest{})
		if err != nil {
			return err
		}
		if c := a.Status.Counts; int(c["running"]) != f.instances() || int(c["cells_healthy"]) != f.cells {
			return fmt.Errorf("after %v, %d instances are RUNNING and %d cells HEALTHY", time.Since(begin), c["running"],
				c["cells_healthy"])
		}
	}
	after, err := gauge.SpentBy(r.server.cmd.Process.Pid)
	if err != nil {
		return err
	}
	fmt.Printf("  %-34s %6.1f s, server %.1f %% of a core, %s\n", "all stay RUNNING, no session lost", f.stay.Seconds(),
		100*float64(after-before)/float64(max(time.Since(begin), 1)), r.memory())
	return nil
}

// loseCells kills a tenth of the cells.
func (f *aFlood) loseCells(ctx context.Context, r *rig) error {
	var last time.Time
	err := f.measure(ctx, r, "a tenth of the cells killed", func(context.Context) error { return r.cells[1].kill() },
		func(ctx context.Context, r *rig) (bool, error) {
			a, err := api.Call(ctx, r.client, calls.GetStatus, &pb.GetStatusRequest{})
			if err != nil || int(a.Status.Counts["cells_healthy"]) > f.cells-f.cells/10 {
				return false, err
			}
			if last.IsZero() {
				last = time.Now()
			}
			return settledBy(a.Status, f.instances())
		})
	r.cells = r.cells[:1]
	if err == nil {
		fmt.Printf("  %-34s %6.1f s\n", "  after the last was found silent", time.Since(last).Seconds())
	}
	return err
}

// killLeader kills the server and starts it on the same store.
func (f *aFlood) killLeader(ctx context.Context, r *rig) error {
	before, err := r.identities(ctx)
	if err != nil {
		return err
	}
	begin := time.Now()
	if err := r.restart(); err != nil {
		return err
	}
	s := step{do: func(context.Context, *rig) error { return nil }, over: func(ctx context.Context, r *rig) (bool, error) {
		a, err := api.Call(ctx, r.client, calls.GetStatus, &pb.GetStatusRequest{})
		if err != nil {
			return false, nil // there is no leader yet
		}
		c := a.Status.Counts
		return int(c["cells_healthy"]) == f.cells && int(c["running"]) == f.instances() && !a.Status.Waiting, nil
	}}
	if err := s.make(ctx, r); err != nil {
		return fmt.Errorf("leader killed: %w", err)
	}
	took := time.Since(begin)
	after, err := r.identities(ctx)
	if err != nil {
		return err
	}
	if !slices.Equal(before, after) {
		return errors.New("leader killed: instances were restarted")
	}
	fmt.Printf("  %-34s %6.1f s, nothing restarted, %s\n", "leader killed, all sessions back", took.Seconds(), r.memory())
	return nil
}

// identities lists the instances that serve, sorted.
func (r *rig) identities(ctx context.Context) ([]string, error) {
	var all []string
	for q := (&pb.ListInstancesRequest{Page: &pb.Page{Limit: 1000}}); ; {
		a, err := api.Call(ctx, r.client, calls.ListInstances, q)
		if err != nil {
			return nil, err
		}
		for _, x := range a.Instances {
			all = append(all, fmt.Sprint(x.Service, "/", x.Index, " ", x.Instance, " ", x.Cell))
		}
		if q.Page.Cursor = a.Listing.GetNext(); q.Page.Cursor == "" {
			slices.Sort(all)
			return all, nil
		}
	}
}

// update rolls all services to a new version, a quarter of each at a time.
func (f *aFlood) update(ctx context.Context, r *rig) error {
	return f.measure(ctx, r, "update, a quarter at a time", r.applies(f.file("v2")), settled(f.instances()))
}

func (f *aFlood) remove(ctx context.Context, r *rig) error {
	return f.measure(ctx, r, "remove", func(ctx context.Context) error { return r.empty(ctx, "d") }, settled(0))
}

// busy starts processes that need a processor each; end stops them.
func busy(n int) (end func(), err error) {
	var all []*process
	end = func() {
		for _, p := range all {
			_ = p.kill() // it has no work to lose
		}
	}
	for range n {
		p := &process{cmd: exec.Command("sh", "-c", "while :; do :; done")}
		if err := p.cmd.Start(); err != nil {
			end()
			return nil, fmt.Errorf("busy loop: %w", err)
		}
		all = append(all, p)
	}
	return end, nil
}

// restart kills the server and starts it again on its store and its address.
func (r *rig) restart() error {
	if err := r.server.kill(); err != nil {
		return err
	}
	args := slices.Clone(r.args)
	args[slices.Index(args, "127.0.0.1:0")] = r.server.address
	args = slices.DeleteFunc(args, func(a string) bool { return a == "--new-cluster" })
	p, err := start(r.program, r.dir+"/server2.log", args...)
	if err != nil {
		return err
	}
	r.server = p
	_ = os.Rename(r.dir+"/server2.log", r.dir+"/server.log") // for the text of an error only
	return nil
}

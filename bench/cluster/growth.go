package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"cantina/api"
	"cantina/bench/gauge"
	"cantina/internal/run"
	pb "cantina/wire/cantinav1"
)

// growth measures the server's processor time for n and for 4n of each kind of work, and prints the
// ratio: what costs in proportion to the change has 4. Beside other work processor time is distorted
// less than time is, so that the ratio can be read there too.

// most is the ratio that no kind of work should exceed.
const most = 4.5

// A step is one kind of work; do begins it, over reports whether it has ended.
type step struct {
	name string
	do   func(ctx context.Context, r *rig) error
	over func(ctx context.Context, r *rig) (bool, error)
}

// growthSets are the cells: those that stay, those that are drained, those that are killed.
var growthSets = []int{32, 4, 4}

// growth compares n with 4n.
func growth(ctx context.Context, program string, n int) error {
	fmt.Printf("server's processor time for %d and %d, %d cells (ratio; at most %.1f is in proportion):\n", n, 4*n, 40,
		most)
	for _, kind := range []struct {
		name  string
		steps func(n int) []step
	}{
		{"one service", func(n int) []step { return services(1, n) }},
		{"services of 10", func(n int) []step { return services(n/10, 10) }},
		{"other work", others},
	} {
		small, err := spentOn(ctx, program, kind.steps(n))
		if err != nil {
			return fmt.Errorf("%s, %d: %w", kind.name, n, err)
		}
		large, err := spentOn(ctx, program, kind.steps(4*n))
		if err != nil {
			return fmt.Errorf("%s, %d: %w", kind.name, 4*n, err)
		}
		for i, s := range kind.steps(n) {
			ratio := float64(large[i]) / float64(max(small[i], 10*time.Millisecond))
			mark := ""
			if ratio > most {
				mark = "  more than in proportion"
			}
			fmt.Printf("  %-16s %-10s %8v %8v  %4.1f%s\n", kind.name, s.name, small[i], large[i], ratio, mark)
		}
	}
	fmt.Printf("  load %s\n", gauge.Load())
	return nil
}

// spentOn returns the server's processor time for each step, one after the other on one rig.
func spentOn(ctx context.Context, program string, steps []step) (spent []time.Duration, err error) {
	r, err := newRig(ctx, program, nil, growthSets...)
	defer func() { err = r.close(err) }()
	if err != nil {
		return nil, err
	}
	for _, s := range steps {
		before, err := gauge.SpentBy(r.server.cmd.Process.Pid)
		if err != nil {
			return nil, err
		}
		if err := s.make(ctx, r); err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		after, err := gauge.SpentBy(r.server.cmd.Process.Pid)
		if err != nil {
			return nil, err
		}
		spent = append(spent, after-before)
	}
	return spent, nil
}

// make does a step and waits until it is over.
func (s *step) make(ctx context.Context, r *rig) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := s.do(ctx, r)
	for over := false; err == nil && !over; {
		if over, err = s.over(ctx, r); err == nil && !over {
			err = run.Pause(ctx, 200*time.Millisecond)
		}
	}
	return err
}

// services are the steps of count services with so many instances each.
func services(count, each int) []step {
	file := func(instances int, version string) string {
		var b strings.Builder
		b.WriteString("domain: d\nservices:\n")
		for i := range count {
			fmt.Fprintf(&b, "  s%d: {command: [serve, %s], instances: %d, memory: 32Mi, cpu: 5m}\n", i, version, instances)
		}
		return b.String()
	}
	apply := func(text string) func(context.Context, *rig) error {
		return func(ctx context.Context, r *rig) error { return r.apply(ctx, text) }
	}
	all, whole := count*each, settled
	return []step{
		{"apply", apply(file(each, "v1")), whole(all)},
		{"update", apply(file(each, "v2")), whole(all)},
		{"restart", func(ctx context.Context, r *rig) error {
			for i := range count {
				q := &pb.RestartServiceRequest{Domain: "d", Name: fmt.Sprint("s", i)}
				if _, err := api.Call(ctx, r.client, calls.RestartService, q); err != nil {
					return err
				}
			}
			return nil
		}, whole(all)},
		{"scale down", apply(file(each/2, "v2")), whole(count * (each / 2))},
		{"scale up", apply(file(each, "v2")), whole(all)},
		{"drain", func(ctx context.Context, r *rig) error {
			for i := range growthSets[1] {
				q := &pb.DrainCellRequest{Name: fmt.Sprint("b-", i), Reason: "measured"}
				if _, err := api.Call(ctx, r.client, calls.DrainCell, q); err != nil {
					return err
				}
			}
			return nil
		}, func(ctx context.Context, r *rig) (bool, error) {
			is, err := whole(all)(ctx, r)
			for i := 0; i < growthSets[1] && is && err == nil; i++ {
				is, err = r.vacant(ctx, fmt.Sprint("b-", i))
			}
			return is, err
		}},
		{"loss", func(ctx context.Context, r *rig) error {
			if err := r.cells[2].kill(); err != nil {
				return err
			}
			return r.news.until(ctx, func(s *seen) bool { return len(s.silent) >= growthSets[2] })
		}, func(ctx context.Context, r *rig) (bool, error) {
			is, err := whole(all)(ctx, r)
			for i := 0; i < growthSets[2] && is && err == nil; i++ {
				is, err = r.vacant(ctx, fmt.Sprint("c-", i))
			}
			return is, err
		}},
		{"remove", func(ctx context.Context, r *rig) error { return r.empty(ctx, "d") }, whole(0)},
	}
}

// vacant reports whether no instance is on a cell.
func (r *rig) vacant(ctx context.Context, cell string) (bool, error) {
	a, err := api.Call(ctx, r.client, calls.ListInstances, &pb.ListInstancesRequest{Cell: cell, All: true})
	return err == nil && len(a.Instances) == 0, err
}

// settled reports whether so many instances are wanted, all of them run, and nothing else does.
func settled(instances int) func(context.Context, *rig) (bool, error) {
	return func(ctx context.Context, r *rig) (bool, error) {
		a, err := api.Call(ctx, r.client, calls.GetStatus, &pb.GetStatusRequest{})
		if err != nil {
			return false, err
		}
		return settledBy(a.Status, instances)
	}
}

// settledBy is settled for a status.
func settledBy(s *pb.Status, instances int) (bool, error) {
	c := s.Counts
	for _, x := range s.Rollouts {
		if x.Failure != "" {
			return false, errors.New("a rollout failed: " + x.Failure)
		}
	}
	return c["instances"] == int32(instances) && c["running"] == int32(instances) &&
		c["unclaimed"]+c["suspect"]+c["evacuating"]+c["orphans"] == 0 &&
		len(s.Rollouts) == 0, nil
}

// others are the steps of tasks, of a job's nodes, and of schedules.
func others(n int) []step {
	var tasks, nodes, schedules strings.Builder
	for i := range n {
		fmt.Fprintf(&tasks, "  t%d: {command: [sleep, 50ms], memory: 32Mi, cpu: 10m}\n", i)
		fmt.Fprintf(&nodes, "%sn%d", strings.Repeat(", ", min(i, 1)), i)
		fmt.Fprintf(&schedules, "  c%d: {cron: '%d %d %d %d *', timezone: UTC, task: {command: [/bin/true]}}\n", i, i%60,
			i/60%24, i/1440%28+1, i/40320%12+1)
	}
	apply := func(domain, text string) func(context.Context, *rig) error {
		return func(ctx context.Context, r *rig) error { return r.apply(ctx, "domain: "+domain+"\n"+text) }
	}
	have := func(want int) func(context.Context, *rig) (bool, error) {
		return func(ctx context.Context, r *rig) (bool, error) {
			a, err := api.Call(ctx, r.client, calls.GetStatus, &pb.GetStatusRequest{})
			return err == nil && a.Status.Counts["schedules"] == int32(want), err
		}
	}
	return []step{
		{"tasks", apply("t", "tasks:\n"+tasks.String()), func(_ context.Context, r *rig) (bool, error) {
			r.news.mu.Lock()
			defer r.news.mu.Unlock()
			return r.news.seen.done == n, nil
		}},
		{"job", apply("j", "jobs:\n  j: {levels: [node], nodes: [{manual: ["+nodes.String()+
			"]}], command: ['true'], memory: 32Mi, cpu: 10m}\n"),
			func(ctx context.Context, r *rig) (bool, error) {
				a, err := api.Call(ctx, r.client, calls.GetJob, &pb.GetJobRequest{Domain: "j", Name: "j"})
				return err == nil && a.Job.State == "done", err
			}},
		{"schedules", apply("c", "schedules:\n"+schedules.String()), have(n)},
		{"remove", func(ctx context.Context, r *rig) error { return r.empty(ctx, "c") }, have(0)},
	}
}

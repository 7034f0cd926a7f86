package node

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"cantina/action"
	"cantina/api"
	"cantina/batch"
	"cantina/cell"
	"cantina/event"
	"cantina/executor/simulate"
	"cantina/fence"
	"cantina/internal/heaptest"
	"cantina/internal/link"
	"cantina/internal/run"
	"cantina/leader"
	"cantina/lrp"
	"cantina/plan"
	"cantina/resource"
	"cantina/schedule"
	"cantina/store"
	"cantina/store/mem"
	"cantina/task"
	"cantina/worker"
)

// small is a whole cluster in a bubble: a leader over a store in memory, and cells whose containers exist in memory
// alone. It keeps little history.
type small struct {
	*leader.Term
	everything
	t       *testing.T
	clock   run.Clock
	cluster fence.Cluster
	cells   *link.Directory
	events  *event.Hub
	stop    func()
}

// everything has all calls of a client.
type everything struct {
	api.Applications
	api.Services
	api.Tasks
	api.Jobs
	api.Schedules
	api.Cells
}

// kept is how many events and ended tasks a small cluster keeps.
const kept = 16

func newSmall(t *testing.T) *small {
	clock := run.Bubble()
	log := slog.New(slog.DiscardHandler)
	s, err := store.New(mem.New(mem.Config{Deleted: kept}), store.Config{Clock: clock, NewCluster: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	leadership, err := s.Campaign(ctx, store.Candidate{ID: "s"})
	if err != nil {
		t.Fatal(err)
	}
	cells := link.NewDirectory(link.Security{})
	c := leader.Settings{Name: "s", NewCluster: true, Timeouts: worker.DefaultTimeouts(), Clock: clock, Log: log,
		Tasks: task.Policy{KeepPerDomain: kept, Retention: time.Minute},
		Past:  leader.Past{Events: kept, KeyLife: time.Minute, Collected: kept}}
	term, err := leader.Begin(c, leadership, leadership.Rows(), cells)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = term.Run(ctx) }()
	pass(time.Second)
	b := term.Backend()
	return &small{Term: term, everything: everything{b.Applications, b.Services, b.Tasks, b.Jobs, b.Schedules, b.Cells},
		t: t, clock: clock, cluster: leadership.Cluster(),
		cells: cells, events: b.Events, stop: func() {
			cancel()
			<-ended
			_ = leadership.Resign(context.Background())
		}}
}

// pass lets time go by, until everything waits again.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// join adds a cell and returns functions: one makes it leave in good order, one makes it silent from then on.
func (s *small) join(name string) (exec *simulate.Executor, leave, silence func()) {
	exec = simulate.New(resource.Amounts{resource.MemoryMB: 10_000, resource.CPUMilli: 64_000, resource.DiskMB: 10_000,
		resource.Containers: 1000}, s.clock.Wall)
	var cut atomic.Bool
	near := nearLeader{func() (cell.Leader, error) {
		if cut.Load() {
			return nil, context.DeadlineExceeded
		}
		return s.Term, nil
	}}
	c, err := cell.New(cell.Config{Name: worker.CellName(name), Dir: s.t.TempDir(), Clock: s.clock,
		Log: slog.New(slog.DiscardHandler), Timeouts: worker.DefaultTimeouts()},
		cell.Simulated{Executor: exec}, near)
	if err != nil {
		s.t.Fatal(err)
	}
	s.cells.SetLocal(worker.CellName(name), simulatedCell{c})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = c.Run(ctx) }()
	end := func() {
		cancel()
		<-ended
		exec.Close()
		s.cells.SetLocal(worker.CellName(name), nil)
	}
	return exec, end, func() { cut.Store(true); end() }
}

// apply changes the domain d.
func (s *small) apply(a plan.Application) {
	a.Domain = "d"
	if _, err := s.everything.Apply(context.Background(), a, plan.Write{}); err != nil {
		s.t.Fatal(err)
	}
}

// jobOver is a job on nodes that are yet to be named.
func jobOver(name string) plan.NamedJob {
	return plan.NamedJob{Job: batch.Job{Name: name, Forest: name, Backoff: batch.Backoff{Seconds: []int{10}, Repeat: true},
		Workload: program("/bin/true")},
		Forest: batch.ForestSpec{Name: name, Levels: []string{"host"}, Instance: name,
			Sources: []batch.Source{{Kind: batch.SourceManual}}}}
}

func program(path string, args ...string) action.Workload {
	return action.Workload{Action: action.Action{Run: &action.Run{Path: path, Args: args}},
		Resources: resource.Amounts{resource.MemoryMB: 1}}
}

// bounded are places that may grow, and their bounds.
var bounded = map[string]string{
	"worker.(*Leader).forget": "16,384 ids of dead processes, so that a late beat gets the right answer",
}

// TestMemoryIsFreed: removed objects leave nothing in the memory of the leader or of the cells. Each kind of work
// is made and removed in numbers, and ten times as often.
func TestMemoryIsFreed(t *testing.T) {
	if testing.Short() {
		t.Skip("make test runs it, without the race detector")
	}
	for name, c := range churns() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !heaptest.Child(t) {
				return
			}
			synctest.Test(t, func(t *testing.T) {
				s := newSmall(t)
				defer s.stop()
				exec, leave, _ := s.join("own")
				defer leave()
				pass(5 * time.Second)
				c := c(s, exec)
				if c.Quiesce == nil {
					c.Quiesce = func() { pass(3 * time.Minute) }
				}
				c.Bounded = bounded
				heaptest.Levels(t, c)
			})
		})
	}
}

func churns() map[string]func(s *small, exec *simulate.Executor) heaptest.Config {
	ctx := context.Background()
	must := func(s *small, err error) {
		if err != nil {
			s.t.Fatal(err)
		}
	}
	return map[string]func(s *small, exec *simulate.Executor) heaptest.Config{
		"tasks": func(s *small, _ *simulate.Executor) heaptest.Config {
			return heaptest.Config{Things: 100, Rounds: 3, Warm: 4, Round: func(i int) {
				for j := range 100 {
					_, err := s.everything.DesireTask(ctx, plan.NewTask{GUID: fmt.Sprintf("t%d-%d", i, j), Domain: "d",
						Definition: task.Definition{Workload: program("/bin/true")}}, plan.Write{Key: fmt.Sprintf("k%d-%d", i, j)})
					must(s, err)
				}
				pass(15 * time.Second)
			}}
		},
		"cancelled": func(s *small, _ *simulate.Executor) heaptest.Config {
			return heaptest.Config{Things: 50, Rounds: 2, Round: func(i int) {
				for j := range 50 {
					guid := fmt.Sprintf("t%d-%d", i, j)
					load := program("/bin/long")
					if j%2 == 0 {
						load.Resources[resource.MemoryMB] = 9_000 // waits
					}
					_, err := s.everything.DesireTask(ctx, plan.NewTask{GUID: guid, Domain: fmt.Sprintf("d%d", i),
						Definition: task.Definition{Workload: load, PendingTimeout: time.Hour}}, plan.Write{})
					must(s, err)
				}
				pass(5 * time.Second)
				for j := range 50 {
					guid := fmt.Sprintf("t%d-%d", i, j)
					_, err := s.everything.CancelTask(ctx, guid, plan.Write{})
					must(s, err)
				}
				pass(5 * time.Second)
				for j := range 50 { // those that have not gone by themselves
					_ = s.everything.DeleteTask(ctx, fmt.Sprintf("t%d-%d", i, j), plan.Write{})
				}
			}}
		},
		"schedules": func(s *small, _ *simulate.Executor) heaptest.Config {
			var a plan.Application
			for j := range 20 {
				a.Schedules = append(a.Schedules, plan.NamedSchedule{Name: fmt.Sprint("s", j), Definition: schedule.Definition{
					Calendar: schedule.Calendar{Line: "@every 1s"}, Task: &task.Definition{Workload: program("/bin/true")}}})
			}
			s.apply(a)
			return heaptest.Config{Things: 100, Rounds: 2, Warm: 8, Round: func(int) { pass(5 * time.Second) },
				Quiesce: func() { pass(5 * time.Second) }}
		},
		"schedules that are removed": func(s *small, _ *simulate.Executor) heaptest.Config {
			return heaptest.Config{Things: 20, Rounds: 3, Round: func(i int) {
				var a plan.Application
				for j := range 20 {
					n := plan.NamedSchedule{Name: fmt.Sprintf("s%d-%d", i, j), Definition: schedule.Definition{
						Calendar: schedule.Calendar{Line: fmt.Sprintf("@every %ds", 2+(20*i+j)%1000)},
						Task:     &task.Definition{Workload: program("/bin/true")}}}
					if j%4 == 0 {
						n.Definition.Task = nil
						x := jobOver(n.Name)
						x.Forest.Sources[0].Manual = []batch.ManualNode{{Name: "a"}}
						n.Definition.Job = &schedule.Job{Job: x.Job, Forest: x.Forest}
					}
					a.Schedules = append(a.Schedules, n)
				}
				s.apply(a)
				pass(25 * time.Second)
				s.apply(plan.Application{Prune: plan.Prune{On: true}})
				pass(25 * time.Second)
			}}
		},
		"jobs": func(s *small, _ *simulate.Executor) heaptest.Config {
			return heaptest.Config{Things: 100, Rounds: 3, Round: func(i int) {
				var a plan.Application
				for j := range 10 {
					x := jobOver(fmt.Sprintf("j%d-%d", i, j))
					for k := range 10 {
						x.Forest.Sources[0].Manual = append(x.Forest.Sources[0].Manual,
							batch.ManualNode{Name: fmt.Sprintf("n%d-%d-%d", i, j, k)})
					}
					x.Job.Workload = program([]string{"/bin/true", "/bin/false", "/bin/long"}[j%3])
					a.Jobs = append(a.Jobs, x)
				}
				s.apply(a)
				pass(15 * time.Second)
				s.apply(plan.Application{Prune: plan.Prune{On: true}})
				pass(time.Minute)
			}}
		},
		"crash loops": func(s *small, _ *simulate.Executor) heaptest.Config {
			var a plan.Application
			for j := range 10 {
				a.Services = append(a.Services, lrp.Desired{Service: lrp.ServiceKey{Domain: "d", Name: fmt.Sprint("s", j)},
					Instances: 1, Workload: program("/bin/false")})
			}
			s.apply(a)
			return heaptest.Config{Things: 50, Rounds: 3, Round: func(int) {
				for j := range 10 {
					_, err := s.everything.RestartService(ctx, lrp.ServiceKey{Domain: "d", Name: fmt.Sprint("s", j)}, plan.Write{})
					must(s, err)
				}
				pass(2 * time.Minute)
			}}
		},
		"services": func(s *small, exec *simulate.Executor) heaptest.Config {
			return heaptest.Config{Things: 40, Rounds: 3, Round: func(i int) {
				for n := range 2 { // a second definition
					var a plan.Application
					for j := range 10 {
						a.Services = append(a.Services, lrp.Desired{Service: lrp.ServiceKey{Domain: "d",
							Name: fmt.Sprintf("s%d-%d", i, j)}, Instances: 2, Workload: program("/bin/long", fmt.Sprint(n))})
					}
					s.apply(a)
					pass(time.Minute)
				}
				for _, c := range exec.List() {
					exec.Exit(c.ID, 1)
				}
				pass(10 * time.Second)
				s.apply(plan.Application{Prune: plan.Prune{On: true}})
				pass(time.Minute)
			}}
		},
		"cells": func(s *small, _ *simulate.Executor) heaptest.Config {
			s.apply(plan.Application{Services: []lrp.Desired{{Service: lrp.ServiceKey{Domain: "d", Name: "s"}, Instances: 4,
				Workload: program("/bin/long")}}})
			return heaptest.Config{Things: 8, Rounds: 2, Warm: 7, // as many as the leader remembers of those that are gone
				Round: func(i int) {
					var ends []func()
					for j := range 8 {
						_, leave, silence := s.join(fmt.Sprintf("c%d-%d", i, j))
						if j%2 == 0 {
							ends = append(ends, leave)
						} else {
							ends = append(ends, silence)
						}
					}
					pass(15 * time.Second)
					must(s, drained(s, fmt.Sprintf("c%d-0", i)))
					pass(5 * time.Second)
					for _, end := range ends {
						end()
					}
					pass(2 * time.Minute)
				}}
		},
		"processes of a cell": func(s *small, _ *simulate.Executor) heaptest.Config {
			return heaptest.Config{Things: 4, Rounds: 3, Round: func(i int) {
				for j := range 4 {
					_, leave, silence := s.join("c")
					pass(15 * time.Second)
					if j%2 == 0 {
						leave()
					} else {
						silence()
						pass(2 * time.Minute)
					}
				}
			}}
		},
		"event streams": func(s *small, _ *simulate.Executor) heaptest.Config {
			return heaptest.Config{Things: 100, Rounds: 6, Round: func(i int) {
				for range 100 {
					sub := s.events.Tail()
					if _, err := sub.Next(ctx, time.Millisecond); err != nil {
						s.t.Fatal(err)
					}
				}
				s.events.Publish(0, event.Event{Kind: event.Note, Subject: fmt.Sprint(i)})
			}}
		},
		"writes that are refused": func(s *small, _ *simulate.Executor) heaptest.Config {
			return heaptest.Config{Things: 100, Rounds: 6, Round: func(i int) {
				for j := range 50 {
					key := fmt.Sprintf("%d-%d", i, j)
					if err := s.everything.RemoveJob(ctx, "j"+key, plan.Write{Key: key}); err == nil {
						s.t.Fatal("removed a missing object")
					}
					_, _ = s.everything.RemoveService(ctx, lrp.ServiceKey{Domain: "d", Name: key}, plan.Write{Key: key, Expect: 9})
					_, _ = s.Rows(ctx, cell.Caller{Cluster: s.cluster, Cell: worker.CellName("x" + key), Proc: worker.Proc(key),
						Term: s.Leader.Term()}, cell.RowsQuery{})
				}
				pass(time.Second)
			}}
		},
		"unknown processes": func(s *small, _ *simulate.Executor) heaptest.Config {
			return heaptest.Config{Things: 50, Rounds: 3, Round: func(i int) {
				for j := range 50 {
					name := fmt.Sprintf("c%d-%d", i, j)
					_, err := s.Heartbeat(ctx, worker.Heartbeat{Protocol: worker.Protocol, Cluster: "other",
						Cell: worker.CellName(name), Proc: worker.Proc("p" + name), DirID: "f" + name, Started: 1, Boot: "b", Beat: 1},
						cell.State{Address: "10.0.0.7:1"})
					must(s, err)
				}
				pass(2 * time.Minute)
				_ = s.ForeignCells()
			}}
		},
	}
}

// drained empties a cell, and takes that back.
func drained(s *small, name string) error {
	_, err := s.everything.DrainCell(context.Background(), worker.CellName(name), api.NewDrain{Reason: "x"}, plan.Write{})
	return err
}

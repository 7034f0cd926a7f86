package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"cantina/action"
	"cantina/auctioneer"
	"cantina/batch"
	"cantina/event"
	"cantina/internal/run"
	"cantina/placement"
	"cantina/plan"
	"cantina/resource"
	"cantina/scheduler"
	"cantina/store"
	"cantina/store/datadir"
	"cantina/store/etcd"
	"cantina/store/mem"
	"cantina/wire"
)

// leader is one term. Store, auctioneer, scheduler and event hub are those of a server; the registry is simulated.
type leader struct {
	term    *store.Leadership
	sched   *scheduler.Scheduler
	workers *workers
	ended   chan error
	cancel  context.CancelFunc
}

// cells is the number of simulated cells.
const cells = 1000

// lead begins a term whose cells have room for so many tasks.
func lead(ctx context.Context, b store.Backend, slots int, task time.Duration) (*leader, error) {
	clock := run.Kernel()
	st, err := store.New(b, store.Config{Clock: clock, NewCluster: true,
		LeaseTTL: time.Minute}) // other work may stop the process for seconds
	if err != nil {
		return nil, err
	}
	term, err := st.Campaign(ctx, store.Candidate{ID: "bench"})
	if err != nil {
		return nil, err
	}
	status, err := wire.EncodeBatchEnd(batch.Ended{}, nil)
	if err != nil {
		return nil, err
	}
	w := &workers{term: term.Term(), task: task, status: status, wake: make(chan struct{}, 1)}
	auction := auctioneer.New(auctioneer.Config{Clock: clock}, noWork{}, noWork{})
	n := 0
	sched := scheduler.New(scheduler.Config{
		Term: term.Term(), Store: term, Registry: w, Auctioneer: auction, Scripts: scheduler.Programs{}, Clock: clock,
		Hub:   event.New(0, term.Revision(), clock.Wall),
		NewID: func() string { n++; return fmt.Sprintf("%032x", n) },
	}, term.Rows())
	w.sched = sched
	for i := range cells {
		name := "cell" + strconv.Itoa(i)
		auction.Admit(name, "p", "")
		auction.Push(placement.State{Cell: name, Process: "p", Version: 1,
			Capacity: resource.Amounts{resource.Containers: slots/cells + 1}})
	}
	l := &leader{term: term, sched: sched, workers: w, ended: make(chan error, 1)}
	var parts run.Group
	parts.Add("auctioneer", auction.Run)
	parts.Add("scheduler", sched.Run)
	parts.Add("workers", w.Run)
	ctx, l.cancel = context.WithCancel(ctx)
	go func() { l.ended <- parts.Run(ctx) }()
	return l, nil
}

// stop ends the term.
func (l *leader) stop(ctx context.Context) error {
	l.cancel()
	err := <-l.ended
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	return errors.Join(err, l.term.Resign(ctx))
}

// noWork is the cells and the board of an auction without services and tasks.
type noWork struct{}

func (noWork) Perform(context.Context, string, string, []placement.Item) ([]auctioneer.Refusal, error) {
	return nil, nil
}
func (noWork) Waiting([]placement.Refused) {}
func (noWork) Unanswered([]placement.Item) {}

// storage is a new store: in memory, or an embedded etcd on a directory of its own.
type storage struct {
	store.Backend
	member *etcd.Member
	close  func() error
}

// open opens a store of a kind: mem or etcd.
func open(ctx context.Context, kind string) (*storage, error) {
	if kind == "mem" {
		return &storage{Backend: mem.New(mem.Config{}), close: func() error { return nil }}, nil
	}
	dir, err := os.MkdirTemp("", "cantina-bench-")
	if err != nil {
		return nil, err
	}
	data, err := datadir.Open(dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	m, err := etcd.Start(ctx, data, etcd.MemberConfig{})
	if err != nil {
		return nil, errors.Join(err, data.Close(), os.RemoveAll(dir))
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	return &storage{Backend: m.Backend(), member: m, close: func() error {
		cancel()
		<-ended
		return errors.Join(m.Close(), data.Close(), os.RemoveAll(dir))
	}}, nil
}

// report compacts the store and prints its size.
func (s *storage) report(ctx context.Context, when string) error {
	if err := s.member.Maintain(ctx); err != nil {
		return err
	}
	file, used, err := s.member.Size(ctx)
	fmt.Printf("growth: %s: %.1f MB in use, file of %.1f MB\n", when, float64(used)/(1<<20), float64(file)/(1<<20))
	return err
}

// grove is hosts with databases, two tasks at a time on each host and one on each database. A limit of the root,
// if it is above 0, bounds all tasks.
type grove struct{ hosts, databases, jobs, root int }

// slots is how many tasks run at once at best.
func (g grove) slots() int {
	if all := 2 * g.hosts; g.root == 0 || all < g.root {
		return all
	}
	return g.root
}

func (g grove) spec() batch.ForestSpec {
	f := batch.ForestSpec{Name: "bench/f", Levels: []string{"host", "db"},
		Limits: map[string]map[string]batch.Limit{
			"host": {"slots": {Default: 1, Limit: 2}}, "db": {"slots": {Default: 1, Limit: 1}},
		},
		Sources: []batch.Source{
			{Kind: batch.SourceRange, ParentLevel: batch.LevelInstance, First: 1, Last: g.hosts, Format: "host{i}"},
			{Kind: batch.SourceRange, ParentLevel: "host", First: 1, Last: g.databases, Format: "{parent}.db{i}"},
		}}
	if g.root > 0 {
		f.Limits[batch.LevelInstance] = map[string]batch.Limit{"all": {Default: 1, Limit: g.root}}
	}
	return f
}

func jobName(i int) string { return "bench/job" + strconv.Itoa(i) }

// named returns the jobs.
func (g grove) named() (out []plan.NamedJob) {
	for i := range g.jobs {
		out = append(out, plan.NamedJob{Forest: g.spec(), Job: batch.Job{
			Name: jobName(i), Domain: "bench", Forest: "bench/f", Retries: -1,
			Workload: action.Workload{Action: action.Action{Run: &action.Run{Path: "/bin/true", Args: []string{"{}"}}}},
		}})
	}
	return out
}

// apply stores the jobs; the scheduler then reads the nodes and starts the tasks.
func (l *leader) apply(ctx context.Context, g grove) error {
	c, err := l.sched.Apply("bench", g.named(), plan.Prune{})
	if err != nil {
		return err
	}
	_, err = l.sched.Commit(ctx, c)
	return err
}

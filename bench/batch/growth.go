package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cantina/batch"
	"cantina/bench/gauge"
)

// growth runs a job over an embedded etcd, and all its tasks again, and prints the size of the store as it grows; then
// a new term begins with it.
func growth(ctx context.Context, g grove) (err error) {
	s, err := open(ctx, "etcd")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	l, err := lead(ctx, s, g.slots(), 0)
	if err != nil {
		return err
	}
	if err := l.apply(ctx, g); err != nil {
		return errors.Join(err, l.stop(ctx))
	}
	all := g.hosts * g.databases
	for round := range 2 {
		begin, spent := time.Now(), gauge.Spent()
		for tenth := 2; tenth <= 10; tenth += 2 {
			if err := l.until(ctx, func() bool { return l.done() >= all*tenth/10 }); err != nil {
				return errors.Join(err, l.stop(ctx))
			}
			if err := s.report(ctx, fmt.Sprintf("run %d, %d of %d done", round+1, l.done(), all)); err != nil {
				return errors.Join(err, l.stop(ctx))
			}
		}
		fmt.Printf("growth: run %d of %d tasks: %v, %v of processor time, load %s\n", round+1, all,
			time.Since(begin).Round(time.Millisecond), (gauge.Spent() - spent).Round(time.Millisecond), gauge.Load())
		if round == 0 {
			if _, err := l.sched.Rerun(ctx, jobName(0), batch.NodeFilter{}); err != nil {
				return errors.Join(err, l.stop(ctx))
			}
		}
	}
	if err := l.stop(ctx); err != nil {
		return err
	}
	begin := time.Now()
	if l, err = lead(ctx, s, g.slots(), 0); err != nil {
		return err
	}
	loaded := time.Since(begin)
	err = l.until(ctx, func() bool { return l.done() >= all && l.known() })
	fmt.Printf("growth: a new term has its rows after %v and its nodes after %v, load %s\n",
		loaded.Round(time.Millisecond), time.Since(begin).Round(time.Millisecond), gauge.Load())
	return errors.Join(err, l.stop(ctx))
}

// done returns how many tasks of the first job are done.
func (l *leader) done() int {
	v, err := l.sched.Job(jobName(0))
	if err != nil {
		return 0
	}
	return v.Progress.Done
}

// known reports whether the nodes of the first job have been read.
func (l *leader) known() bool {
	v, err := l.sched.Job(jobName(0))
	return err == nil && v.NodesKnown
}

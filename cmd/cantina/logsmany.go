package main

import (
	"context"
	"errors"
	"sync"

	"cantina/api"
	"cantina/logstore"
	pb "cantina/wire/cantinav1"
)

// maxSelected is how many subjects -l of logs may select: each is one stream.
const maxSelected = 32

// printSelected prints the output of services, jobs and tasks that -l selects.
func printSelected(c *cli, f *outputFlags, sel *selector) error {
	all, err := subjects(c, nil, f.domain, sel, true, "service", "job", "task")
	if err != nil {
		return err
	}
	if len(all) > maxSelected {
		return failf(api.ExitUsage, "--selector selects %d services, jobs and tasks, at most %d are allowed; add a "+
			"condition or --domain", len(all), maxSelected)
	}
	var queries []*pb.OutputQuery
	for _, s := range all {
		q, err := logQuery(c, f, s)
		if err != nil {
			return err
		}
		queries = append(queries, q)
	}
	client, err := c.client()
	if err != nil {
		return err
	}
	p := &linePrinter{c: c, raw: f.raw, timestamps: f.timestamps, form: c.output, prefix: f.prefixed(true),
		joined: true, limit: f.limit}
	m := &manyLogs{c: c, client: client, p: p, missing: map[string]bool{}}
	if f.follow {
		return c.detachable("cantina logs -f -l '"+sel.text+"'", nil, func(ctx context.Context) error {
			return m.follow(ctx, queries)
		})
	}
	ctx, cancel := c.limited()
	defer cancel()
	if err := m.read(ctx, queries); err != nil {
		return err
	}
	if len(m.missing) > 0 {
		return code(api.ExitConnection)
	}
	return nil
}

// manyLogs prints several logs as one.
type manyLogs struct {
	c       *cli
	client  *api.Client
	p       *linePrinter
	missing map[string]bool
}

// follow prints lines as they come, until all logs have ended or one fails.
func (m *manyLogs) follow(ctx context.Context, queries []*pb.OutputQuery) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex
	var all sync.WaitGroup
	errs := make([]error, len(queries))
	for i, q := range queries {
		all.Go(func() {
			errs[i] = m.client.FollowOutput(ctx, &pb.FollowOutputRequest{Query: q, Packed: true},
				func(r *pb.FollowOutputResponse) error {
					mu.Lock()
					defer mu.Unlock()
					noteIncomplete(m.c, r.Missing, m.missing)
					return m.p.print(r.Packed)
				})
			mu.Lock()
			defer mu.Unlock()
			if errs[i] != nil || m.p.full {
				cancel()
			}
		})
	}
	all.Wait()
	if m.p.full {
		return nil
	}
	return firstOf(errs)
}

// firstOf is the first error that did not follow from another one.
func firstOf(errs []error) error {
	var first error
	for _, err := range errs {
		if err != nil && (first == nil || errors.Is(first, context.Canceled)) {
			first = err
		}
	}
	return first
}

// feed is one of several logs, in the order of time.
type feed struct {
	parts chan *pb.ReadOutputResponse
	lines []feedLine
	err   error // valid when parts is closed
}

type feedLine struct {
	logstore.Line
	cell string
}

// read merges the kept output by time.
func (m *manyLogs) read(ctx context.Context, queries []*pb.OutputQuery) error {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	var feeds []*feed
	for _, q := range queries {
		f := &feed{parts: make(chan *pb.ReadOutputResponse)}
		feeds = append(feeds, f)
		all.Go(func() {
			defer close(f.parts)
			f.err = m.client.ReadOutput(ctx, patience, q, func(r *pb.ReadOutputResponse) error {
				select {
				case f.parts <- r:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			})
		})
	}
	for {
		var next *feed
		for _, f := range feeds {
			if err := m.fill(f); err != nil {
				return err
			}
			if len(f.lines) > 0 && (next == nil || f.lines[0].Time.Before(next.lines[0].Time)) {
				next = f
			}
		}
		if next == nil {
			return m.p.flush()
		}
		if err := m.p.line(&next.lines[0].Line, next.lines[0].cell); err != nil {
			return err
		}
		next.lines = next.lines[1:]
		if m.p.full {
			return nil
		}
	}
}

// fill waits for lines of a log, unless it has ended.
func (m *manyLogs) fill(f *feed) error {
	for len(f.lines) == 0 {
		r, more := <-f.parts
		if !more {
			return f.err
		}
		noteIncomplete(m.c, r.Missing, m.missing)
		if err := logstore.EachPacked(r.Packed, func(l *logstore.Line, cell string) error {
			f.lines = append(f.lines, feedLine{*l, cell})
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

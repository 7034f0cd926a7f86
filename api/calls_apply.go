package api

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"cantina/fault"
	"cantina/plan"
	"cantina/spec"
	pb "cantina/wire/cantinav1"
)

// Plan returns the changes that Apply would make.
func (c applyCalls) Plan(ctx context.Context, q *request[pb.PlanRequest]) (*response[pb.PlanResponse], error) {
	b, err := c.now()
	if err != nil {
		return nil, err
	}
	done, err := c.oneLarge(ctx, q.Msg.Files)
	if err != nil {
		return nil, err
	}
	defer done()
	apps, err := c.applications(q.Msg.Files, q.Msg.Prune, q.Msg.Selector)
	if err != nil {
		return nil, err
	}
	m := &pb.PlanResponse{}
	for _, a := range apps {
		got, err := b.Applications.Plan(ctx, a)
		if err != nil {
			return nil, fmt.Errorf("plan domain %s: %w", a.Domain, err)
		}
		m.Domains = append(m.Domains, changes(a.Domain, got))
	}
	return answer(m, nil)
}

// Apply changes domains to the state in the files. Each domain is one commit. All are planned
// before the first is changed, so that an error in one refuses all.
func (c applyCalls) Apply(ctx context.Context, q *request[pb.ApplyRequest]) (*response[pb.ApplyResponse], error) {
	done, err := c.oneLarge(ctx, q.Msg.Files)
	if err != nil {
		return nil, err
	}
	defer done()
	apps, err := c.applications(q.Msg.Files, q.Msg.Prune, q.Msg.Selector)
	if err != nil {
		return nil, err
	}
	m := &pb.ApplyResponse{}
	err = write(ctx, c.Server, q.Msg.Write, func(b *Backend, w plan.Write) error {
		if len(apps) > 1 {
			if w.Expect != 0 {
				return invalid("if_match", "If-Match needs files of one domain, not of %d", len(apps))
			}
			for _, a := range apps {
				if _, err := b.Applications.Plan(ctx, a); err != nil {
					return fmt.Errorf("plan domain %s: %w", a.Domain, err)
				}
			}
		}
		for _, a := range apps {
			each := w
			if w.Key != "" && len(apps) > 1 {
				each.Key = w.Key + "/" + a.Domain
			}
			got, err := b.Applications.Apply(ctx, a, each)
			if err != nil {
				return fmt.Errorf("apply domain %s: %w", a.Domain, err)
			}
			m.Domains = append(m.Domains, changes(a.Domain, got))
		}
		return nil
	})
	return answer(m, err)
}

const (
	// largeSpec is the size in bytes from which the spec files of a request are read alone, because
	// each temporarily needs much memory.
	largeSpec = 1 << 20
	// largeWait is how long a request waits for another one's.
	largeWait = 10 * time.Second
)

// oneLarge waits until no other large request is in progress; done ends this one. Its memory is
// then returned to the machine at once.
func (s *Server) oneLarge(ctx context.Context, files []*pb.SpecFile) (done func(), err error) {
	size, values := 0, 0
	for _, f := range files {
		size += len(f.GetContent())
		for _, e := range f.GetEnvFiles() {
			size += len(e.GetContent())
		}
		if values += spec.CountValues(f.GetContent()); values > spec.MaxValues {
			return nil, &FieldError{Err: fmt.Errorf("more than %d keys, strings, lists and mappings in one request: %w",
				spec.MaxValues, fault.ErrTooLarge), Field: "files"}
		}
	}
	if size < largeSpec {
		return func() {}, nil
	}
	wait := time.NewTimer(largeWait)
	defer wait.Stop()
	select {
	case s.large <- struct{}{}:
		return func() { debug.FreeOSMemory(); <-s.large }, nil
	case <-wait.C:
		return nil, fmt.Errorf("another large spec file is being read: %w", fault.ErrBusy)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// applications reads the spec files of a request.
func (c applyCalls) applications(files []*pb.SpecFile, prune bool, only string) ([]plan.Application, error) {
	if len(files) == 0 {
		return nil, invalid("files", "must not be empty")
	}
	labels, err := selector(only)
	switch {
	case err != nil:
		return nil, err
	case len(labels) > 0 && !prune:
		return nil, invalid("selector", "needs prune")
	}
	var parsed []*spec.File
	all := &spec.Problems{}
	variables := 0
	for _, f := range files {
		name := f.GetName()
		if name == "" {
			name = "spec"
		}
		sent := map[string][]byte{}
		for _, e := range f.GetEnvFiles() {
			sent[e.GetPath()] = e.GetContent()
		}
		source := spec.Input{Name: name, Dir: f.GetDir(), Content: f.GetContent(), EnvFile: spec.Sent(sent)}
		got, err := source.Parse(c.cfg.times(f.GetBistroDomain()))
		var p *spec.Problems
		switch {
		case errors.As(err, &p):
			all.List, all.More = append(all.List, p.List...), all.More+p.More
		case err != nil:
			return nil, err
		default:
			parsed = append(parsed, got)
			if variables += got.FromFiles; variables > spec.MaxEnvTotal {
				return nil, &FieldError{Err: fmt.Errorf("env_file fields add more than %d bytes of variables in one request: %w",
					spec.MaxEnvTotal, fault.ErrTooLarge), Field: "files"}
			}
		}
	}
	if len(all.List) > 0 {
		return nil, all
	}
	merged, err := spec.Merge(parsed)
	if err != nil {
		return nil, err
	}
	var out []plan.Application
	for _, f := range merged {
		a := plan.Application{Domain: f.Domain, TTL: f.TTL, Services: f.Services,
			Prune: plan.Prune{On: prune, Labels: labels}, Warnings: f.Warnings}
		for _, t := range f.Tasks {
			a.Tasks = append(a.Tasks, plan.NamedTask{Name: t.Name, Definition: t.Definition})
		}
		for _, j := range f.Jobs {
			a.Jobs = append(a.Jobs, plan.NamedJob{Job: j.Job, Forest: j.Forest})
		}
		for _, s := range f.Schedules {
			a.Schedules = append(a.Schedules, plan.NamedSchedule(s))
		}
		out = append(out, a)
	}
	return out, nil
}

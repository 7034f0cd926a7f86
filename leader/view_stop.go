package leader

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"cantina/api"
	"cantina/cell"
	"cantina/fault"
	"cantina/lrp"
	"cantina/plan"
	"cantina/worker"
)

// shortenWait is how long ShortenStop waits for the cells.
const shortenWait = 5 * time.Second

// target is a cell process with work that is to end.
type target struct {
	cell worker.CellName
	proc worker.Proc
}

// ShortenStop implements api.Stops.
func (v stopView) ShortenStop(ctx context.Context, s plan.Subject, grace time.Duration) (api.Stopping, error) {
	if err := v.fresh(); err != nil {
		return api.Stopping{}, err
	}
	var all map[target]*cell.Shorten
	var err error
	switch s.Kind {
	case plan.SubjectService, plan.SubjectInstance:
		all, err = v.endingInstances(s)
	case plan.SubjectTask:
		all, err = v.endingTask(s.Name)
	case plan.SubjectJob, plan.SubjectNode:
		all = v.everyCell(s)
	default:
		err = fmt.Errorf("a %s is not stopped: %w", s.Kind, fault.ErrInvalid)
	}
	if err != nil {
		return api.Stopping{}, err
	}
	var out api.Stopping
	for _, x := range all {
		x.Grace = grace
		out.Ending += len(x.Instances) + len(x.Tasks)
	}
	v.shorten(ctx, all, &out)
	out.Ending = max(out.Ending, out.Shortened)
	return out, nil
}

// endingInstances are the instances on cells that are not wanted there any more.
func (v stopView) endingInstances(s plan.Subject) (map[target]*cell.Shorten, error) {
	wanted := 0
	k := lrp.ServiceKey{Domain: s.Domain, Name: s.Name}
	service, gone := v.Board.GetService(k)
	if gone == nil && !service.Removed {
		wanted = service.Instances
	}
	all, rows := map[target]*cell.Shorten{}, 0
	for r := (plan.Range{Limit: 1000}); ; {
		p, err := v.Board.ListInstances(plan.InstanceFilter{Domain: s.Domain, Service: s.Name}, r)
		if err != nil {
			return nil, err
		}
		for _, i := range p.Items {
			for _, a := range i.Rows.Rows() {
				rows++
				if a.Cell == "" || s.Kind == plan.SubjectInstance && a.Key.Index != s.Index ||
					!a.Retiring && !a.Net.Stopping && a.Key.Index < wanted {
					continue
				}
				t := target{worker.CellName(a.Cell), worker.Proc(a.Proc)}
				if all[t] == nil {
					all[t] = &cell.Shorten{}
				}
				all[t].Instances = append(all[t].Instances, a.Instance)
			}
		}
		if r.After = p.Next; r.After == "" {
			break
		}
	}
	if gone != nil && rows == 0 {
		return nil, gone
	}
	return all, nil
}

// endingTask is a task that was cancelled, or has ended, and whose container may still exist.
func (v stopView) endingTask(guid string) (map[target]*cell.Shorten, error) {
	t, err := v.Board.GetTask(guid)
	if err != nil {
		return nil, err
	}
	if !t.Ended() {
		return nil, fmt.Errorf("task %s is not being ended: %w", guid, fault.ErrConflict)
	}
	if t.Holder.Cell == "" {
		return nil, nil
	}
	to := target{worker.CellName(t.Holder.Cell), worker.Proc(t.Holder.Proc)}
	return map[target]*cell.Shorten{to: {Tasks: []string{t.UID}}}, nil
}

// everyCell are all cells: any may end batch tasks of the job, also of a removed one.
func (v stopView) everyCell(s plan.Subject) map[target]*cell.Shorten {
	all := map[target]*cell.Shorten{}
	for _, x := range v.Registry.Sessions() {
		if x.Holder {
			all[target{x.Cell, x.Proc}] = &cell.Shorten{Job: s.Job(), Node: s.Node}
		}
	}
	return all
}

// shorten calls the cells, at the same time.
func (v stopView) shorten(ctx context.Context, all map[target]*cell.Shorten, out *api.Stopping) {
	ctx, cancel := context.WithTimeout(ctx, shortenWait)
	defer cancel()
	var mu sync.Mutex
	var group sync.WaitGroup
	unreached := map[string]bool{}
	for to, x := range all {
		group.Go(func() {
			n, err := 0, error(fault.ErrUnreachable)
			if c := v.cells.Cell(to.cell); c != nil {
				n, err = c.ShortenGrace(ctx, v.Term.Term(), to.proc, *x)
			}
			mu.Lock()
			defer mu.Unlock()
			if out.Shortened += n; err != nil {
				unreached[string(to.cell)] = true
			}
		})
	}
	group.Wait()
	out.Unreached = slices.Sorted(maps.Keys(unreached))
}

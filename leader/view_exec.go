package leader

import (
	"context"
	"fmt"

	"cantina/batch"
	"cantina/cell"
	"cantina/fault"
	"cantina/lrp"
	"cantina/plan"
	"cantina/task"
	pb "cantina/wire/cantinav1"
)

// running is a container that runs, and how many of the requested service or job run.
type running struct {
	cell, container, name string
	count                 int
}

// Exec implements api.Containers.
func (v execView) Exec(ctx context.Context, s plan.Subject, w *pb.ExecWork, in func() (*pb.ExecInput, error),
	out func(*pb.ExecResponse) error) error {
	if err := v.fresh(); err != nil {
		return err
	}
	at, err := v.find(s)
	if err != nil {
		return err
	}
	c, to, err := logView(v).reach(at.cell)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(v.Term.ctx, cancel)()
	err = c.Exec(ctx, &pb.CellExecStart{To: to, Container: at.container, Work: w}, in, func(m *pb.ExecResponse) error {
		if x := m.GetStarted(); x != nil {
			x.Subject, x.Cell, x.Running = at.name, at.cell, int32(at.count)
		}
		return out(m)
	})
	if v.Term.ctx.Err() != nil {
		return fmt.Errorf("%w, and the program or copy with it", fault.ErrTermOver)
	}
	return unreachable(at.cell, err)
}

// find returns the container of a subject; of a service or job, the first that runs.
func (v execView) find(s plan.Subject) (running, error) {
	switch s.Kind {
	case plan.SubjectService, plan.SubjectInstance:
		return v.findInstance(s)
	case plan.SubjectTask:
		return v.findTask(s.Name)
	case plan.SubjectJob, plan.SubjectNode:
		return v.findNode(s)
	}
	return running{}, fmt.Errorf("a %s has no container: %w", s.Kind, fault.ErrInvalid)
}

func notRunning(format string, args ...any) error {
	return fault.As(fmt.Errorf(format, args...), fault.ErrConflict)
}

func (v execView) findInstance(s plan.Subject) (out running, err error) {
	_, gone := v.Board.GetService(lrp.ServiceKey{Domain: s.Domain, Name: s.Name})
	for r := (plan.Range{Limit: 1000}); ; {
		p, err := v.Board.ListInstances(plan.InstanceFilter{Domain: s.Domain, Service: s.Name}, r)
		if err != nil {
			return out, err
		}
		for _, i := range p.Items {
			if i.State != lrp.Running || s.Kind == plan.SubjectInstance && i.Key.Index != s.Index {
				continue
			}
			if out.count++; out.count == 1 {
				out.cell, out.container, out.name = i.Cell, i.Instance, fmt.Sprintf("%s/%d", s.Name, i.Key.Index)
			}
		}
		if r.After = p.Next; r.After == "" {
			break
		}
	}
	switch {
	case out.count > 0:
		return out, nil
	case gone != nil:
		return out, gone
	case s.Kind == plan.SubjectInstance:
		return out, notRunning("instance %s/%d is not running", s.Name, s.Index)
	}
	return out, notRunning("no instance of %s is running", s.Name)
}

func (v execView) findTask(guid string) (running, error) {
	t, err := v.Board.GetTask(guid)
	if err != nil {
		return running{}, err
	}
	if t.State != task.Running {
		return running{}, notRunning("task %s is %s, not RUNNING", guid, t.State)
	}
	return running{cell: t.Holder.Cell, container: cell.TaskContainer(t.UID), name: guid, count: 1}, nil
}

func (v execView) findNode(s plan.Subject) (running, error) {
	j, err := v.Scheduler.Job(s.Job())
	if err != nil {
		return running{}, err
	}
	all, err := v.Scheduler.JobNodes(s.Job(), batch.NodeFilter{Classes: []batch.Class{batch.ClassRunning}, Node: s.Node,
		Limit: 1})
	switch {
	case err != nil:
		return running{}, err
	case len(all) == 0 && s.Node != "":
		return running{}, notRunning("batch task %s[%s] is not running", s.Name, s.Node)
	case len(all) == 0:
		return running{}, notRunning("no batch task of %s is running", s.Name)
	}
	n := all[0]
	out := running{cell: n.Cell, container: cell.BatchContainer(n.Invocation), count: 1,
		name: fmt.Sprintf("%s[%s]", s.Name, n.Node)}
	if s.Kind == plan.SubjectJob {
		out.count = max(1, j.Progress.Running)
	}
	return out, nil
}

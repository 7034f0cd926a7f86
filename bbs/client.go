package bbs

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"time"

	"cantina/fault"
	"cantina/lrp"
	"cantina/plan"
	"cantina/task"
)

// service returns the newest row of a service that may be changed.
func (wr *writes) service(k lrp.ServiceKey, w plan.Write) (*lrp.Service, error) {
	if wr.bad[ServiceRow(k)] {
		return nil, fmt.Errorf("service %v: %w", k, fault.ErrQuarantined)
	}
	s := wr.services.Service(k)
	if s == nil {
		return nil, fmt.Errorf("service %v: %w", k, ErrServiceNotFound)
	}
	return s, wr.expect(ServiceRow(k), wr.view.serviceRevision(k), w.Expect)
}

// ScaleService sets the number of instances. It acts at once, also if the domain is not fresh.
func (wr *writes) ScaleService(ctx context.Context, k lrp.ServiceKey, instances int, w plan.Write) (plan.Service,
	error) {
	if instances < 0 || instances > lrp.MaxInstances {
		return plan.Service{}, fmt.Errorf("instances %d: not from 0 to %d: %w", instances, lrp.MaxInstances, fault.ErrInvalid)
	}
	request := binary.AppendVarint([]byte(k.String()+"\x00"), int64(instances))
	_, _, err := wr.write(ctx, w, "scale", request, func(t *tx) (reply, error) {
		s, err := wr.service(k, w)
		switch {
		case err != nil:
			return reply{}, err
		case s.Removed:
			return reply{}, fmt.Errorf("service %v: being removed: %w", k, ErrServiceNotFound)
		}
		if n := s.Scale(instances); n != s {
			if err := wr.scaleFits(n, s); err != nil {
				return reply{}, err
			}
			t.putService(n)
			t.redefine(k.Domain)
		}
		return reply{subject: k.String()}, nil
	})
	if err != nil {
		return plan.Service{}, err
	}
	return wr.queries.GetService(k)
}

// scaleFits returns why a service that grows from s to n could never have all of its instances.
func (wr *writes) scaleFits(n, s *lrp.Service) error {
	if n.Instances <= s.Instances || n.Target() == nil {
		return nil
	}
	d := *n.Wanted()
	return wr.portsFit(d, wr.wantedWith(plan.Application{Domain: n.Key.Domain, Services: []lrp.Desired{d}}))
}

// RemoveService undesires a service. Its row goes once no instance is left.
func (wr *writes) RemoveService(ctx context.Context, k lrp.ServiceKey, w plan.Write) (plan.Service, error) {
	var was *lrp.Service
	_, _, err := wr.write(ctx, w, "remove", []byte(k.String()), func(t *tx) (reply, error) {
		s, err := wr.service(k, w)
		if err != nil {
			return reply{}, err
		}
		was = s
		if !s.Removed {
			was = s.Remove()
			t.putService(was)
			t.redefine(k.Domain)
		}
		return reply{subject: k.String()}, nil
	})
	if err != nil {
		return plan.Service{}, err
	}
	if s, err := wr.queries.GetService(k); err == nil {
		return s, nil
	}
	if was == nil { // a repeated key, and the service is gone by now
		was = &lrp.Service{Key: k, Removed: true}
	}
	return plan.Service{Service: *was}, nil
}

// RestartService has every instance of a service started afresh, by the rules of an update. It
// returns how many are wanted. A later plan of the same file finds nothing to do.
func (wr *writes) RestartService(ctx context.Context, k lrp.ServiceKey, w plan.Write) (int, error) {
	out, _, err := wr.write(ctx, w, "restart", []byte(k.String()), func(t *tx) (reply, error) {
		s, err := wr.service(k, w)
		switch {
		case err != nil:
			return reply{}, err
		case s.Removed:
			return reply{}, fmt.Errorf("service %v: being removed: %w", k, ErrServiceNotFound)
		}
		if n := s.Restart(wr.cfg.NewID(), t.now); n != s {
			t.putService(n)
		}
		return reply{k.String(), binary.AppendVarint(nil, int64(s.Instances))}, nil
	})
	if err != nil {
		return 0, err
	}
	n, _ := binary.Varint(out.answer)
	return int(n), nil
}

// SetDomain makes a domain fresh for ttl (0 = forever) and returns the revision.
func (wr *writes) SetDomain(ctx context.Context, name string, ttl time.Duration, w plan.Write) (int64, error) {
	if !lrp.ValidName(name) || ttl < 0 {
		return 0, fmt.Errorf("domain %q for %v: %w", name, ttl, fault.ErrInvalid)
	}
	_, revision, err := wr.write(ctx, w, "domain", binary.AppendVarint([]byte(name+"\x00"), int64(ttl)),
		func(t *tx) (reply, error) {
			if wr.bad[domainRow(name)] {
				return reply{}, fmt.Errorf("domain %s: %w", name, fault.ErrQuarantined)
			}
			var until time.Time
			if ttl > 0 {
				until = t.now.Add(ttl)
			}
			t.setDomain(name, until)
			return reply{subject: name}, nil
		})
	return revision, err
}

// DesireTask stores a new task and requests a placement.
func (wr *writes) DesireTask(ctx context.Context, n plan.NewTask, w plan.Write) (plan.Task, error) {
	def, err := definitionOf(definitionRecord(&n.Definition))
	if err != nil {
		return plan.Task{}, err
	}
	if !lrp.ValidName(n.Domain) || n.GUID != "" && !lrp.ValidName(n.GUID) {
		return plan.Task{}, fmt.Errorf("task %q of domain %q: %w", n.GUID, n.Domain, fault.ErrInvalid)
	}
	request := append([]byte(n.GUID+"\x00"+n.Domain+"\x00"+n.Name+"\x00"), digest(&def)...)
	out, revision, err := wr.write(ctx, w, "task", request, func(t *tx) (reply, error) {
		guid := n.GUID
		if guid == "" {
			guid = taskID(wr.cfg.Clock.Wall(), wr.cfg.NewID())
		}
		row := task.Task{GUID: guid, UID: wr.cfg.NewID(), Domain: n.Domain, Name: n.Name, Definition: &def}
		return reply{subject: guid}, t.desire(row)
	})
	if err != nil {
		return plan.Task{}, err
	}
	return wr.answerTask(out.subject, n.Domain, revision)
}

// taskID makes an id that sorts by time: milliseconds, then a part of a random id.
func taskID(now time.Time, id string) string {
	return "t-" + strconv.FormatInt(now.UnixMilli(), 32) + id[max(0, len(id)-8):]
}

// answerTask returns the committed row of a guid, or its record if the row is already gone.
func (wr *writes) answerTask(guid, domain string, revision int64) (plan.Task, error) {
	if t, err := wr.queries.GetTask(guid); err == nil {
		return t, nil
	}
	return plan.Task{Task: &task.Task{GUID: guid, Domain: domain, State: task.Completed, Definition: &task.Definition{}},
		Revision: revision}, nil
}

// taskToChange returns the row of a task as a write expects it.
func (wr *writes) taskToChange(guid string, w plan.Write) (*task.Task, error) {
	row := wr.tasks.Get(guid)
	switch {
	case wr.tasks.Quarantined(guid):
		return nil, fmt.Errorf("task %s: %w", guid, fault.ErrQuarantined)
	case row == nil:
		return nil, wr.queries.gone(guid)
	}
	return row, wr.expect(TaskRow(guid), wr.view.taskRevision(guid), w.Expect)
}

// onTask writes one change of one task.
func (wr *writes) onTask(ctx context.Context, guid, operation string, request []byte, w plan.Write,
	fn func(t *tx, row *task.Task) error) (plan.Task, error) {
	_, revision, err := wr.write(ctx, w, operation, append([]byte(guid+"\x00"), request...), func(t *tx) (reply, error) {
		row, err := wr.taskToChange(guid, w)
		if err != nil {
			return reply{}, err
		}
		return reply{subject: guid}, fn(t, row)
	})
	if err != nil {
		return plan.Task{}, err
	}
	return wr.answerTask(guid, "", revision)
}

// gone is the error for a guid that has no row.
func (q *queries) gone(guid string) error {
	q.view.mu.RLock()
	defer q.view.mu.RUnlock()
	if ended, known := q.view.collected[guid]; known {
		return fmt.Errorf("task %s, ended %s: %w", guid, ended.Format(time.RFC3339), q.kept())
	}
	return fmt.Errorf("task %s: %w", guid, task.ErrNotFound)
}

// kept is the error for a task that is gone: it was deleted, or not kept any longer.
func (q *queries) kept() error {
	p := q.policy
	age := p.KeptFor().String()
	for _, end := range []string{"m0s", "h0m"} { // 24h0m0s is 24h
		if strings.HasSuffix(age, end) {
			age = age[:len(age)-2]
		}
	}
	return fmt.Errorf("%w: finished tasks are kept for %s, %d per domain, or until removed", fault.ErrCollected, age,
		p.KeepPerDomain)
}

// CancelTask ends a PENDING or RUNNING task.
func (wr *writes) CancelTask(ctx context.Context, guid string, w plan.Write) (plan.Task, error) {
	return wr.onTask(ctx, guid, "cancel", nil, w,
		func(t *tx, _ *task.Task) error { return t.stepTask(guid, task.Cancel{}) })
}

// DeleteTask resolves and deletes a COMPLETED task.
func (wr *writes) DeleteTask(ctx context.Context, guid string, w plan.Write) error {
	_, err := wr.onTask(ctx, guid, "delete", nil, w, func(t *tx, row *task.Task) error {
		if row.State != task.Resolving {
			if err := t.stepTask(guid, task.Resolve{}); err != nil {
				return err
			}
		}
		return t.stepTask(guid, task.Delete{})
	})
	return err
}

// ResolveTask records a person's decision about a lost task. A rerun makes a new task, whose guid
// is in Successor. One that may still run is resolved with accept only.
func (wr *writes) ResolveTask(ctx context.Context, guid string, as task.Resolution, accept bool,
	w plan.Write) (plan.Task, error) {
	return wr.onTask(ctx, guid, "resolve", []byte{byte(as)}, w, func(t *tx, row *task.Task) error {
		resolve := task.ResolveLost{As: as, Accept: accept}
		if as == task.ResolvedRerun {
			if err := wr.tasks.RunsAlone(row, t.now); err != nil && !accept {
				return fmt.Errorf("task %s: %w", guid, err)
			}
			resolve.Successor = t.successorOf(row)
		}
		if err := t.stepTask(guid, resolve); err != nil || as != task.ResolvedRerun {
			return err
		}
		return t.desire(task.Task{GUID: resolve.Successor, UID: wr.cfg.NewID(), Domain: row.Domain, Name: row.Name,
			Definition: row.Definition})
	})
}

// RerunTask starts an ended task once more, as a new task with the same definition, and returns that. Of
// the tasks of one name only one runs at a time.
func (wr *writes) RerunTask(ctx context.Context, guid string, w plan.Write) (plan.Task, error) {
	domain := ""
	out, revision, err := wr.write(ctx, w, "rerun", []byte(guid), func(t *tx) (reply, error) {
		row, err := wr.taskToChange(guid, w)
		if err != nil {
			return reply{}, err
		}
		if err := wr.tasks.MayRerun(row, t.now); err != nil {
			return reply{}, fmt.Errorf("task %s: %w", guid, err)
		}
		domain = row.Domain
		return t.rerun(row)
	})
	if err != nil {
		return plan.Task{}, err
	}
	return wr.answerTask(out.subject, domain, revision)
}

// rerun desires a new task like an ended one. The newest run of a task of a spec file is followed by the next.
func (t *tx) rerun(row *task.Task) (reply, error) {
	if last := t.b.applied[appliedRow(row.Domain, row.Name)]; row.Name != "" && last.guid == row.GUID {
		guid, err := t.runApplied(row.Domain, plan.NamedTask{Name: row.Name, Definition: *row.Definition})
		return reply{subject: guid}, err
	}
	guid := taskID(t.b.cfg.Clock.Wall(), t.b.cfg.NewID())
	return reply{subject: guid}, t.desire(task.Task{GUID: guid, UID: t.b.cfg.NewID(), Domain: row.Domain, Name: row.Name,
		Definition: row.Definition})
}

// successorOf returns the first free guid for a rerun.
func (t *tx) successorOf(row *task.Task) string {
	for i := 2; ; i++ {
		if guid := fmt.Sprintf("%s.rerun%d", row.GUID, i-1); t.b.free(guid) {
			return guid
		}
	}
}

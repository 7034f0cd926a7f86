package bbs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"cantina/bbs/bbspb"
	"cantina/fault"
	"cantina/internal/text"
	"cantina/lrp"
	"cantina/plan"
	"cantina/store"
	"cantina/task"
	"cantina/wire"
)

// checked returns the application with every definition as it will come back from
// the store, or all that is wrong with it.
func checked(a plan.Application) (plan.Application, error) {
	var errs []error
	if !lrp.ValidName(a.Domain) {
		errs = append(errs, fmt.Errorf("domain %q: %w", a.Domain, fault.ErrInvalid))
	}
	if a.TTL < 0 {
		errs = append(errs, fmt.Errorf("domain_ttl: must not be negative: %w", fault.ErrInvalid))
	}
	seen := map[string]bool{}
	services := make([]lrp.Desired, len(a.Services))
	for i, d := range a.Services {
		d.Service.Domain = a.Domain
		n, err := normalised(d)
		if err == nil {
			err = n.Validate()
		}
		if err == nil && seen["s/"+n.Service.Name] {
			err = fmt.Errorf("duplicate: %w", fault.ErrInvalid)
		}
		seen["s/"+n.Service.Name] = true
		if err != nil {
			errs = append(errs, fmt.Errorf("service %s: %w", d.Service.Name, err))
		}
		services[i] = n
	}
	tasks := make([]plan.NamedTask, len(a.Tasks))
	for i, t := range a.Tasks {
		def, err := normalisedTask(&t.Definition)
		if err == nil {
			err = def.Validate()
		}
		if err == nil && (!lrp.ValidName(t.Name) || seen["t/"+t.Name]) {
			err = fmt.Errorf("invalid or duplicate name: %w", fault.ErrInvalid)
		}
		seen["t/"+t.Name] = true
		if err != nil {
			errs = append(errs, fmt.Errorf("task %s: %w", t.Name, err))
		}
		tasks[i] = plan.NamedTask{Name: t.Name, Definition: def}
	}
	a.Services, a.Tasks = services, tasks
	return a, errors.Join(errs...)
}

// applies compares spec files with the rows, and makes the changes: in one transaction, or by a
// promise in steps.
type applies struct {
	*rows
	writes  *writes
	highest int64 // number that was given to a manifest
}

// Plan returns the changes that Apply would make, without writing.
func (ap *applies) Plan(a plan.Application) (plan.Applied, error) {
	a, err := checked(a)
	if err != nil {
		return plan.Applied{}, err
	}
	revision := ap.view.domain(a.Domain).revision
	ap.mu.Lock()
	defer ap.mu.Unlock()
	if err := ap.isOver(); err != nil {
		return plan.Applied{}, err
	}
	changes, _, err := ap.diff(a)
	return plan.Applied{Revision: revision, Changes: changes}, err
}

// Others returns the rows of other owners in an application. It is called under the board's lock:
// the rows become durable in the same commit.
type Others func() (store.Part, error)

// Apply changes the services and tasks of the domain to those in a, together with the rows of
// others (nil = none): in one commit, or, if that is too large, by a manifest that a new leader
// rolls forward. It makes the domain fresh.
func (ap *applies) Apply(ctx context.Context, a plan.Application, w plan.Write, others Others) (plan.Applied, error) {
	a, err := checked(a)
	if err != nil {
		return plan.Applied{}, err
	}
	request := marshal(applicationRecord(a))
	out, revision, err := ap.writes.write(ctx, w, "apply", request, func(t *tx) (reply, error) {
		if err := ap.expect(domainRow(a.Domain), ap.view.domain(a.Domain).revision, w.Expect); err != nil {
			return reply{}, err
		}
		changes, step, err := ap.diff(a)
		if err != nil {
			return reply{}, err
		}
		if err := t.applyStep(step); err != nil {
			return reply{}, err
		}
		if err := t.addOthers(a.Domain, others); err != nil {
			return reply{}, err
		}
		return reply{a.Domain, marshal(t.applied(a.Domain, changes))}, nil
	})
	if tooLarge(err) {
		return ap.applyLarge(ctx, a, w, others, request)
	}
	if err != nil {
		return plan.Applied{}, err
	}
	applied, err := appliedOf(out.answer, revision)
	ap.cfg.Log.Info("applied", "domain", a.Domain, "by", w.By, "revision", applied.Revision)
	return applied, err
}

// applied is the answer to an application. One that changes nothing has the revision that the domain has already:
// it is part of the answer, so that a repetition of the call gets the same one. If that revision is not known yet,
// because a write of the domain is in flight, the domain is written once more.
func (t *tx) applied(domain string, changes []plan.Change) *bbspb.Changes {
	m := changesRecord(changes)
	switch {
	case len(t.others) > 0:
	case t.b.inFlight.has(domainRow(domain)):
		t.redefine(domain)
	default:
		m.Revision = t.b.view.domain(domain).revision
	}
	return m
}

// addOthers adds the rows of other owners.
func (t *tx) addOthers(domain string, others Others) error {
	if others == nil {
		return nil
	}
	part, err := others()
	if err != nil {
		return err
	}
	t.addPart(part)
	if len(part.Ops) > 0 {
		t.redefine(domain)
	}
	return nil
}

// addRows adds rows that the view does not show.
func (t *tx) addRows(ops []store.Op) {
	for _, op := range ops {
		t.others = append(t.others, rowChange{op: op, show: func(*view, int64) {}})
	}
}

// applicationRecord is the application as bytes, to recognise a repeated request.
func applicationRecord(a plan.Application) *bbspb.ApplyStep {
	s := &bbspb.ApplyStep{Domain: a.Domain, SetFresh: a.Prune.On}
	s.FreshUntil = wire.FromTime(time.Unix(0, int64(a.TTL)))
	for _, c := range a.Prune.Labels {
		s.RemoveServices = append(s.RemoveServices, c.String()) // in place of names
	}
	for i := range a.Services {
		s.Services = append(s.Services, desiredRecord(&a.Services[i]))
	}
	for i := range a.Tasks {
		s.Tasks = append(s.Tasks,
			&bbspb.NamedTask{Name: a.Tasks[i].Name, Definition: definitionRecord(&a.Tasks[i].Definition)})
	}
	return s
}

// step has the changes of an application, without unchanged rows.
type step struct {
	domain         string
	setFresh       bool
	until          time.Time
	services       []lrp.Desired
	tasks          []plan.NamedTask
	removeServices []string
	removeTasks    []string
	rows           []store.Op // of another owner
	retire         []retired
	keyRow         string // of the idempotency key; empty = none
	key            *bbspb.Idem
}

// diff compares the application with the newest rows.
func (ap *applies) diff(a plan.Application) ([]plan.Change, step, error) {
	s := step{domain: a.Domain, setFresh: true}
	if a.TTL > 0 {
		s.until = ap.now().Add(a.TTL)
	}
	var changes []plan.Change
	var errs []error
	if ap.bad[domainRow(a.Domain)] {
		errs = append(errs, fmt.Errorf("domain %s: %w", a.Domain, fault.ErrQuarantined))
	}
	wanted := ap.wantedWith(a)
	for _, d := range a.Services {
		c, err := ap.diffService(d)
		if err == nil && c.Verb != plan.VerbKeep && morePorts(ap.services.Service(d.Service), &d) {
			err = ap.portsFit(d, wanted)
		}
		errs = append(errs, err)
		if c.Verb != plan.VerbKeep {
			s.services = append(s.services, d)
		}
		changes = append(changes, c)
	}
	for _, t := range a.Tasks {
		c, err := ap.diffTask(a.Domain, t)
		errs = append(errs, err)
		if c.Verb != plan.VerbKeep {
			s.tasks = append(s.tasks, t)
		}
		changes = append(changes, c)
	}
	if a.Prune.On {
		s.removeServices, s.removeTasks = ap.surplusOf(a)
		for _, n := range s.removeServices {
			changes = append(changes, plan.Change{Kind: "service", Name: n, Verb: plan.VerbRemove})
		}
		for _, n := range s.removeTasks {
			changes = append(changes, plan.Change{Kind: "task", Name: n, Verb: plan.VerbRemove})
		}
	}
	return changes, s, errors.Join(errs...)
}

// morePorts reports whether a definition takes more of any port than the service does now.
func morePorts(s *lrp.Service, d *lrp.Desired) bool {
	if s == nil || s.Removed || s.Target() == nil || s.Instances < d.Instances {
		return true
	}
	had := s.Target().Workload.FixedPorts()
	return slices.ContainsFunc(d.Workload.FixedPorts(), func(p int) bool { return !slices.Contains(had, p) })
}

func (ap *applies) diffService(d lrp.Desired) (plan.Change, error) {
	c := plan.Change{Kind: "service", Name: d.Service.Name, Verb: plan.VerbKeep}
	if ap.bad[ServiceRow(d.Service)] {
		return c, fmt.Errorf("service %v: %w", d.Service, fault.ErrQuarantined)
	}
	old := ap.services.Service(d.Service)
	d = d.Decided()
	next, err := lrp.Apply(old, d, "new", ap.now())
	switch {
	case err != nil || next == old:
	case old == nil || old.Removed:
		c.Verb = plan.VerbCreate
	default:
		c.Verb = plan.VerbUpdate
		if next.Numbers != old.Numbers {
			c.Verb = plan.VerbReplace
			if old.Phase == lrp.RollingOut {
				c.AddNote("replaces a running rollout")
			}
		}
		was := old.Target().Desired
		was.Process, was.Instances = "", old.Instances
		c.Fields = changed(was, d)
		if old.Instances == 0 && d.Instances > 0 {
			c.AddNote("it is stopped (scaled to 0); apply starts it again")
		}
	}
	if d.Exclusive && old != nil && (c.Verb == plan.VerbReplace || c.Verb == plan.VerbCreate) && !exclusiveAll(old) {
		c.AddNote("becomes exclusive: its earlier instances are stopped first, but the end of one on a cut-off cell is not " +
			"proven; if a second copy does harm, remove the service and wait for that cell before you apply it")
	}
	if p := d.FixedPort(); p != "" && c.Verb != plan.VerbKeep && c.Verb != plan.VerbUpdate {
		c.AddNote("port " + p + " is fixed, so instances are replaced stop-first")
	}
	return c, err
}

// exclusiveAll reports whether all versions of a service are exclusive.
func exclusiveAll(s *lrp.Service) bool {
	return !slices.ContainsFunc(s.Versions, func(v lrp.Version) bool { return !v.Exclusive })
}

func (ap *applies) diffTask(domain string, t plan.NamedTask) (plan.Change, error) {
	c := plan.Change{Kind: "task", Name: t.Name, Verb: plan.VerbKeep}
	row := appliedRow(domain, t.Name)
	if ap.bad[row] {
		return c, fmt.Errorf("task %s/%s: %w", domain, t.Name, fault.ErrQuarantined)
	}
	last, known := ap.applied[row]
	switch {
	case !known:
		c.Verb = plan.VerbCreate
	case last.digest != string(digest(&t.Definition)):
		c.Verb = plan.VerbReplace
		if old := ap.tasks.Get(last.guid); old != nil {
			c.Fields = changed(*old.Definition, t.Definition)
			switch {
			case !old.Ended():
				c.Note = "the run of the earlier definition, " + last.guid + ", continues"
			case old.MayRun():
				c.Note = "the run of the earlier definition, " + last.guid + ", may still run on cell " + old.Holder.Cell
			}
		}
	default:
		c.Note = keptRun(last.guid, ap.tasks.Get(last.guid))
	}
	return c, nil
}

// keptRun is why a task of a spec file is not run again: what has become of its run.
func keptRun(guid string, t *task.Task) string {
	switch {
	case t == nil:
		return "its run " + guid + " has ended and is no longer listed"
	case t.Unresolved():
		return "its run " + guid + " is lost; to decide: cantina task resolve " + guid + " --as done, failed or rerun"
	case t.Ended():
		return fmt.Sprintf("its run %s has ended: %v; to run it again: cantina task rerun %s", guid, t.Outcome, guid)
	}
	return fmt.Sprintf("its run %s is %v", guid, t.State)
}

// surplusOf lists resources of the domain that are not in the application.
func (ap *applies) surplusOf(a plan.Application) (services, tasks []string) {
	for _, k := range ap.services.Services() {
		named := slices.ContainsFunc(a.Services, func(d lrp.Desired) bool { return d.Service == k })
		s := ap.services.Service(k)
		if k.Domain == a.Domain && !named && !s.Removed && a.Prune.Takes(s.Labels()) {
			services = append(services, k.Name)
		}
	}
	for row, last := range ap.applied {
		name, ok := strings.CutPrefix(row, appliedRow(a.Domain, ""))
		var labels map[string]string
		if t := ap.tasks.Get(last.guid); t != nil && t.Definition != nil {
			labels = t.Definition.Workload.Labels
		}
		named := slices.ContainsFunc(a.Tasks, func(t plan.NamedTask) bool { return t.Name == name })
		if ok && !named && a.Prune.Takes(labels) {
			tasks = append(tasks, name)
		}
	}
	slices.Sort(tasks)
	return services, tasks
}

// leftOut reports that a step of an application does nothing for a row, because it was set
// aside since the step was promised.
func (b *rows) leftOut(row string) bool {
	if b.bad[row] {
		b.cfg.Log.Error("step of an apply skipped", "key", row, "error", fault.ErrQuarantined)
	}
	return b.bad[row]
}

// applyStep does one step of an application.
func (t *tx) applyStep(s step) error {
	b := t.b
	if b.leftOut(domainRow(s.domain)) {
		// its freshness stays unknown
	} else if old, known := b.domains[s.domain]; s.setFresh && (!known || !old.Equal(s.until) || !s.empty()) {
		t.setDomain(s.domain, s.until)
	} else if !s.setFresh && len(s.retire) == 0 { // a later step of a manifest
		t.redefine(s.domain)
	}
	for _, d := range s.services {
		if b.leftOut(ServiceRow(d.Service)) {
			continue
		}
		old := b.services.Service(d.Service)
		next, err := lrp.Apply(old, d, b.cfg.NewID(), t.now)
		if err != nil {
			return err
		}
		if next != old {
			t.putService(next)
		}
	}
	for _, n := range s.removeServices {
		if old := b.services.Service(lrp.ServiceKey{Domain: s.domain, Name: n}); old != nil && !old.Removed {
			t.putService(old.Remove())
		}
	}
	for _, n := range s.tasks {
		if b.leftOut(appliedRow(s.domain, n.Name)) {
			continue
		}
		if _, err := t.runApplied(s.domain, n); err != nil {
			return err
		}
	}
	for _, n := range s.removeTasks {
		if b.leftOut(appliedRow(s.domain, n)) {
			continue
		}
		last := b.applied[appliedRow(s.domain, n)]
		t.setApplied(s.domain, n, "", nil)
		if old := b.tasks.Get(last.guid); old != nil && !old.Ended() && !b.leftOut(TaskRow(last.guid)) {
			if err := t.stepTask(last.guid, task.Cancel{}); err != nil {
				return err
			}
		}
	}
	t.retire(s.retire)
	t.addRows(s.rows)
	if s.key != nil && !b.leftOut(s.keyRow) {
		return t.recall(s.keyRow, s.key)
	}
	return nil
}

func (s step) empty() bool {
	return len(s.services)+len(s.tasks)+len(s.removeServices)+len(s.removeTasks) == 0
}

// runApplied desires a new run of a task of a spec file, under the guid of the container that a cell
// has reported of it without a row, or else under the first free one
// of DOMAIN.NAME, DOMAIN.NAME.2, …, and returns that.
func (t *tx) runApplied(domain string, n plan.NamedTask) (string, error) {
	b := t.b
	base := domain + "." + n.Name
	guid := b.tasks.Reported.Applied(base)
	if guid == "" {
		guid = base
	}
	for i := 2; !b.free(guid); i++ {
		guid = fmt.Sprintf("%s.%d", base, i)
	}
	if err := t.desire(task.Task{GUID: guid, UID: b.cfg.NewID(), Domain: domain, Name: n.Name,
		Definition: &n.Definition}); err != nil {
		return guid, err
	}
	t.setApplied(domain, n.Name, guid, digest(&n.Definition))
	return guid, nil
}

// desire stores a new task, RUNNING if a cell has reported its container: the store went back.
func (t *tx) desire(n task.Task) error {
	if !t.b.free(n.GUID) {
		return fmt.Errorf("task %s: %w", n.GUID, task.ErrExists)
	}
	row, effects, err := task.Desire(n, t.now)
	if err != nil {
		return err
	}
	t.taskEffects = append(t.taskEffects, effects...)
	t.recordTask(n.GUID, nil, row)
	if f, ok := t.forgetReported(n.GUID); ok {
		return t.stepTask(n.GUID, f)
	}
	return nil
}

func changesRecord(changes []plan.Change) *bbspb.Changes {
	m := &bbspb.Changes{}
	for _, c := range changes {
		r := &bbspb.Change{Kind: c.Kind, Name: text.Clean(c.Name), Verb: string(c.Verb), Note: text.Clean(c.Note)}
		for _, f := range c.Fields {
			r.Fields = append(r.Fields, &bbspb.Field{Path: text.Clean(f.Path), Old: []byte(f.Old), New: []byte(f.New)})
		}
		m.Changes = append(m.Changes, r)
	}
	return m
}

// appliedOf reads an answer to an application that was committed at revision.
func appliedOf(answer []byte, revision int64) (plan.Applied, error) {
	var m bbspb.Changes
	if err := proto.Unmarshal(answer, &m); err != nil {
		return plan.Applied{}, fmt.Errorf("stored answer: %w", err)
	}
	out := plan.Applied{Revision: cmp.Or(m.Revision, revision)}
	for _, r := range m.Changes {
		c := plan.Change{Kind: r.Kind, Name: r.Name, Verb: plan.Verb(r.Verb), Note: r.Note}
		for _, f := range r.Fields {
			c.Fields = append(c.Fields, plan.FieldChange{Path: f.Path, Old: string(f.Old), New: string(f.New)})
		}
		out.Changes = append(out.Changes, c)
	}
	return out, nil
}

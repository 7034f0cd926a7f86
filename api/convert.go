package api

import (
	"encoding/json"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cantina/action"
	"cantina/batch"
	"cantina/internal/text"
	"cantina/lrp"
	"cantina/placement"
	"cantina/plan"
	"cantina/resource"
	"cantina/task"
	"cantina/wire"
	pb "cantina/wire/cantinav1"
)

func amounts(a resource.Amounts) map[string]int32 {
	if len(a) == 0 {
		return nil
	}
	out := make(map[string]int32, len(a))
	for n, v := range a {
		out[n] = int32(min(v, 1<<31-1))
	}
	return out
}

// service puts a service on the wire; whole adds the workloads of its versions.
func service(s *plan.Service, whole bool) *pb.Service {
	m := &pb.Service{
		Domain: s.Key.Domain, Name: s.Key.Name, Instances: int32(s.Instances), Running: int32(s.Running),
		Routable: int32(s.Routable),
		Crashed:  int32(s.Crashed), Phase: s.Phase.String(), Failure: text.Clean(s.Failure), Healthy: int32(s.Healthy),
		Removed: s.Removed, Applied: wire.FromTime(s.Applied), Revision: s.Revision,
		Stopping: int32(s.Stopping), Unconfirmed: int32(s.Unconfirmed), Labels: text.CleanMap(s.Labels()),
	}
	for i := range s.Versions {
		v := &s.Versions[i]
		m.Version, m.Exclusive = int32(v.Number), v.Exclusive
		if !whole {
			continue
		}
		m.Versions = append(m.Versions, &pb.ServiceVersion{
			Number: int32(v.Number), Process: v.Process, Good: v.Good,
			Workload: hidden(wire.FromWorkload(v.Workload)), Routes: text.CleanMap(v.Routes),
			Annotation: text.Clean(v.Annotation), Low: int32(v.Low), High: int32(v.High),
		})
	}
	return m
}

// instance puts one row on the wire.
func instance(a *lrp.Actual) *pb.Instance {
	return &pb.Instance{
		Domain: a.Service.Domain, Service: a.Service.Name, Index: int32(a.Key.Index), State: a.State.String(),
		Presence: a.Presence.String(),
		Instance: a.Identity.Instance, Cell: a.Cell, Process: a.Key.Process, Address: a.Net.Address,
		Ports:    wire.FromMappings(a.Net.Ports),
		Routable: a.Serves(), Zone: a.Net.Zone, CrashCount: int32(a.CrashCount), CrashReason: text.Clean(a.CrashReason),
		PlacementError: text.Clean(a.PlacementError), PlacementCode: placement.CodeOf(a.PlacementError),
		Since: wire.FromTime(a.Since), Retiring: a.Retiring, Finished: a.Finished,
		Stopping: a.Stopping(), StopBy: wire.FromTime(a.Net.StopBy), LastCrash: text.Clean(a.LastCrash.Reason),
		LastCrashCell: a.LastCrash.Cell, LastCrashTime: wire.FromTime(a.LastCrash.At),
	}
}

// instances puts an index on the wire: its resolved row, and the hidden ones too
// when all is set.
func instances(x *plan.Instance, all bool) []*pb.Instance {
	shown := instance(&x.Actual)
	shown.Version, shown.Quarantined, shown.Revision, shown.Orphan = int32(x.Version), x.Quarantined, x.Revision, x.Orphan
	shown.UnconfirmedReason, shown.Condition = text.Clean(x.UnconfirmedReason), text.Clean(x.Condition)
	out := []*pb.Instance{shown}
	if !all {
		return out
	}
	for _, row := range x.Rows.Rows() {
		if row.Presence == x.Presence {
			continue
		}
		m := instance(row)
		m.Version, m.Hidden, m.Revision, m.Orphan = int32(x.Version), true, x.Revision, x.Orphan
		out = append(out, m)
	}
	return out
}

// callbackState is how far the callback of a task that has ended has come; empty = it has none.
func callbackState(t *task.Task) string {
	switch {
	case t.Definition.CallbackURL == "" || !t.Ended():
		return ""
	case t.Callback.Dead:
		return "dead_letter"
	case t.Callback.Delivered:
		return "delivered"
	}
	return "due"
}

// taskMessage puts a task on the wire; whole adds result and definition.
func taskMessage(t *task.Task, revision int64, whole bool) *pb.Task {
	r := &t.Result
	m := &pb.Task{
		Id: t.GUID, Uid: t.UID, Domain: t.Domain, Name: t.Name, State: t.State.String(), Outcome: t.Outcome.String(),
		Cell:   t.Holder.Cell,
		Reason: text.Clean(r.Reason), ExitCode: int32(t.ExitCode()), Signal: int32(r.Signal), Oom: r.OOM,
		OutputLost: r.OutputLost, MayStillRun: t.MayStillRun,
		Rejections: int32(t.Rejections), Rejection: text.Clean(t.Rejection), RejectionCode: placement.CodeOf(t.Rejection),
		Created: wire.FromTime(t.Created), Started: wire.FromTime(r.Started),
		Ended: wire.FromTime(t.FirstCompleted), Resolution: t.Resolution.String(), Successor: t.Successor, Revision: revision,
		Container: t.Reservation,
	}
	if t.Definition != nil {
		m.Labels = text.CleanMap(t.Definition.Workload.Labels)
		m.CallbackState, m.CallbackError = callbackState(t), text.Clean(t.Callback.Error)
	}
	if !whole {
		return m
	}
	m.Result = r.Output
	var v any
	if len(r.Output) > 0 && utf8.Valid(r.Output) && json.Unmarshal(r.Output, &v) == nil {
		m.ResultJson, _ = structpb.NewValue(v)
	}
	if t.Definition != nil {
		m.Definition = hidden(FromDefinition(*t.Definition))
	}
	return m
}

// FromDefinition is the wire form of a task's definition.
func FromDefinition(d task.Definition) *pb.TaskDefinition {
	m := &pb.TaskDefinition{
		Workload: wire.FromWorkload(d.Workload), Stack: d.Stack, PlacementTags: d.PlacementTags, Labels: d.Labels,
		Tolerates: d.Tolerations, Conditions: d.Conditions,
		Annotation: text.Clean(d.Annotation), Callback: d.CallbackURL, WhenFull: "wait", OnLost: "end",
		PendingTimeout: wire.FromDuration(d.PendingTimeout),
	}
	if d.WhenFull == task.WhenFullFail {
		m.WhenFull = "fail"
	}
	if d.OnLost == task.LostKeep {
		m.OnLost = "keep"
	}
	return m
}

// toDefinition is the inverse of FromDefinition.
func toDefinition(m *pb.TaskDefinition) (task.Definition, error) {
	w, err := wire.ToWorkload(m.GetWorkload())
	if err != nil {
		return task.Definition{}, &FieldError{Err: err, Field: "definition"}
	}
	d := task.Definition{
		Workload: w, Stack: m.GetStack(), PlacementTags: m.GetPlacementTags(), Labels: m.GetLabels(),
		Tolerations: m.GetTolerates(), Conditions: m.GetConditions(),
		Annotation: m.GetAnnotation(), CallbackURL: m.GetCallback(),
	}
	if d.PendingTimeout, err = wire.ToDuration(m.GetPendingTimeout()); err != nil {
		return d, &FieldError{Err: err, Field: "definition.pending_timeout"}
	}
	switch m.GetWhenFull() {
	case "", "wait":
	case "fail":
		d.WhenFull = task.WhenFullFail
	default:
		return d, invalid("definition.when_full", "must be wait or fail")
	}
	switch m.GetOnLost() {
	case "", "end":
	case "keep":
		d.OnLost = task.LostKeep
	default:
		return d, invalid("definition.on_lost", "must be end or keep")
	}
	return d, checkAction(d.Workload.Action)
}

// checkAction refuses a workload that could not run anywhere.
func checkAction(a action.Action) error {
	if a.Run != nil && a.Run.Path == "" {
		return invalid("definition.workload.action.run.path", "must not be empty")
	}
	return nil
}

// job puts a job on the wire; whole adds its definition.
func job(j *plan.Job, whole bool) *pb.Job {
	m := &pb.Job{
		Uid: j.UID, Owner: text.Clean(j.Owner), State: jobState(j),
		Counts: counts(&j.Progress), Enabled: !j.Disabled, Paused: j.Paused,
		Priority: j.Priority, Reason: text.Clean(j.Progress.Reason), NodesError: text.Clean(j.NodesError),
		Errors:  text.CleanAll(j.Errors),
		Created: wire.FromTime(j.Created), Ended: wire.FromTime(j.Ended), Revision: j.Revision,
		Labels: text.CleanMap(j.Workload.Labels),
	}
	m.Domain, m.Name = batch.SplitName(j.Name)
	if whole {
		m.Definition = jobDefinition(j)
	}
	return m
}

func jobState(j *plan.Job) string {
	return stateWord(j.Progress.State, j.Removed, j.NodesKnown)
}

func stateWord(s batch.State, removed, known bool) string {
	switch {
	case removed:
		return "removed"
	case !known && s == batch.JobEmpty:
		return batch.JobWaiting.String()
	}
	return s.String()
}

func counts(p *batch.Progress) *pb.Counts {
	return &pb.Counts{
		Total: int32(p.Total), Done: int32(p.Done), Failed: int32(p.Failed), Running: int32(p.Running), Ready: int32(p.Ready),
		Backoff: int32(p.Backoff), Blocked: int32(p.Blocked), Stranded: int32(p.Stranded), Avoided: int32(p.Avoided),
		Disabled: int32(p.Disabled),
	}
}

// shortNames are the names of jobs in their domain, from their keys.
func shortNames(keys []string) (out []string) {
	for _, key := range keys {
		_, name := batch.SplitName(key)
		out = append(out, name)
	}
	return out
}

func jobDefinition(j *plan.Job) *pb.JobDefinition {
	d := &pb.JobDefinition{
		Workload: hidden(wire.FromWorkload(j.Workload)), Levels: j.Forest.Levels, Level: j.Level,
		DependsOn: shortNames(j.DependsOn), After: shortNames(j.After),
		Retries: int32(j.Retries), BackoffRepeats: j.Backoff.Repeat, Resources: map[string]*pb.LevelResources{},
		Policy: j.Forest.Policy.String(), CellOrder: j.Forest.Cells.String(),
	}
	if j.Job.Forest != j.Name {
		_, d.NodesOf = batch.SplitName(j.Job.Forest)
	}
	for _, s := range j.Backoff.Seconds {
		d.BackoffSeconds = append(d.BackoffSeconds, int32(s))
	}
	at := func(level string) *pb.LevelResources {
		if d.Resources[level] == nil {
			d.Resources[level] = &pb.LevelResources{Take: map[string]int32{}, Limit: map[string]int32{},
				Weight: map[string]int32{}}
		}
		return d.Resources[level]
	}
	for level, takes := range j.Resources {
		at(level).Take = amounts(takes)
	}
	for level, limits := range j.Forest.Limits {
		for name, l := range limits {
			if level == batch.LevelWorker {
				at(level).Weight[name] = int32(l.Weight)
			} else {
				at(level).Limit[name] = int32(l.Limit)
			}
		}
	}
	return d
}

// node puts a batch task on the wire.
func node(job string, v *batch.NodeView) *pb.JobNode {
	s := &v.Status
	m := &pb.JobNode{
		Node: text.Clean(v.Node), State: v.Class.String(), Cell: v.Cell, Errors: int32(s.Attempts),
		Losses:   int32(s.Losses),
		ExitCode: int32(s.ExitCode), Signal: int32(s.Signal), Reason: text.Clean(s.Reason), Time: millis(s.Time),
		Since: millis(v.Since),
	}
	m.Domain, m.Job = batch.SplitName(job)
	if v.Class == batch.ClassBackoff {
		m.Next = millis(s.Time + int64(s.Backoff)*1000)
	}
	if i := v.Invocation; !i.IsZero() {
		m.Invocation = i.String()
	} else if !s.Invocation.IsZero() {
		m.Invocation = s.Invocation.String()
	}
	return m
}

// listedNode is node with the fields that only a list of one job has.
func listedNode(p *plan.JobNode) *pb.JobNode {
	m := node(p.Job, &p.NodeView)
	m.Path, m.Data, m.UnconfirmedReason, m.Condition = text.CleanAll(p.Path), toStruct(p.Data),
		text.Clean(p.UnconfirmedReason), text.Clean(p.Condition)
	return m
}

func millis(t int64) *timestamppb.Timestamp {
	if t == 0 {
		return nil
	}
	return timestamppb.New(time.UnixMilli(t))
}

// toStruct reads the data of a batch task; nil when it is no JSON object.
func toStruct(data []byte) *structpb.Struct {
	var v map[string]any
	if len(data) == 0 || !utf8.Valid(data) || json.Unmarshal(data, &v) != nil {
		return nil
	}
	s, err := structpb.NewStruct(v)
	if err != nil {
		return nil
	}
	return s
}

// wordForeign is the session of a cell of another cluster, as lists have it.
const wordForeign = "FOREIGN"

func cellMessage(c *Cell) *pb.Cell {
	m := &pb.Cell{
		Name: string(c.Name), Proc: string(c.Proc), Address: c.Address, Zone: c.Zone, Host: c.Host,
		Session: c.Session.String(),
		Since:   wire.FromTime(c.Since), Reason: text.Clean(c.Reason), Reported: c.Reported, Eligible: c.Eligible,
		DeadIn:      wire.FromDuration(c.DeadIn),
		Unavailable: text.Clean(c.Unavailable), Draining: c.Draining, Capacity: amounts(c.Capacity), Free: amounts(c.Free),
		Instances: int32(c.LRPs), Tasks: int32(c.Tasks), Batch: int32(c.Batch), Labels: text.CleanMap(c.Labels),
		Taints: c.Taints, Tags: c.Tags,
		Isolation: text.CleanAll(c.Isolation), Volumes: text.CleanAll(c.Volumes), Build: c.Build,
		Drain: drainMessage(c.Drain),
	}
	m.Cluster, m.Unknown = string(c.Cluster), text.CleanAll(c.Unknown)
	if c.Cluster != "" {
		m.Session = wordForeign
	}
	if g := c.Gone; g != nil {
		m.Session, m.Since, m.Reason, m.Aftermath = g.Word(), wire.FromTime(g.At), text.Clean(g.Why), text.Clean(g.Work)
	}
	return m
}

func drainMessage(d *Drain) *pb.Drain {
	if d == nil {
		return nil
	}
	return &pb.Drain{Reason: text.Clean(d.Reason), By: text.Clean(d.By), Since: wire.FromTime(d.Since),
		Until:     wire.FromTime(d.Until),
		StopBatch: d.StopBatch, Ended: wire.FromTime(d.Ended), Waits: text.CleanAll(d.Waits), Unknown: text.Clean(d.Unknown)}
}

func status(s *Status) *pb.Status {
	m := &pb.Status{
		Cluster: s.Cluster, ClusterId: string(s.ClusterID), Leader: s.Leader, Term: s.Term.String(), Build: s.Build,
		Since: wire.FromTime(s.Since), Revision: s.Revision,
		Waiting: s.Waiting, WaitingFor: s.For, Longest: wire.FromDuration(s.Longest), HeldMore: int32(s.HeldMore),
		Counts: map[string]int32{}, Warnings: text.CleanAll(s.Warnings), Quarantined: int32(s.Quarantined),
	}
	for _, h := range s.Held {
		m.Held = append(m.Held, &pb.Held{What: text.Clean(h.What), Reason: text.Clean(h.Reason), Cell: h.Cell, Proc: h.Proc,
			Longest: wire.FromDuration(h.Longest)})
	}
	for k, v := range s.Counts {
		m.Counts[k] = int32(v)
	}
	for _, r := range s.Rollouts {
		m.Rollouts = append(m.Rollouts, &pb.Rollout{Domain: r.Key.Domain, Service: r.Key.Name, Phase: r.Phase.String(),
			Version: int32(r.Version),
			Healthy: int32(r.Healthy), Instances: int32(r.Instances), Failure: text.Clean(r.Failure),
			Progress: wire.FromTime(r.Progress)})
	}
	m.RolloutsMore, m.Behind = int32(s.RolloutsMore), s.Behind
	for _, d := range s.Domains {
		m.Domains = append(m.Domains, &pb.Domain{Name: d.Name, Fresh: d.Fresh, Expires: wire.FromTime(d.Expires)})
	}
	return m
}

func changes(domain string, a plan.Applied) *pb.DomainChange {
	m := &pb.DomainChange{Domain: domain, Revision: a.Revision, Warnings: text.CleanAll(a.Warnings)}
	for _, c := range a.Changes {
		x := &pb.Change{Kind: c.Kind, Name: c.Name, Verb: string(c.Verb), Nodes: int32(c.Nodes), Note: text.Clean(c.Note)}
		for _, f := range c.Fields {
			x.Fields = append(x.Fields, &pb.FieldChange{Path: text.Clean(f.Path), Old: text.Clean(f.Old),
				New: text.Clean(f.New)})
		}
		m.Changes = append(m.Changes, x)
	}
	return m
}

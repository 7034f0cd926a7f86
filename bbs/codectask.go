package bbs

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"cantina/bbs/bbspb"
	"cantina/internal/text"
	"cantina/lrp"
	"cantina/task"
	"cantina/wire"
)

func taskRecord(t *task.Task) *bbspb.Task {
	return &bbspb.Task{
		Guid: text.Clean(t.GUID), Uid: text.Clean(t.UID), Domain: text.Clean(t.Domain), Name: text.Clean(t.Name),
		Definition: definitionRecord(t.Definition),
		State:      int32(t.State), Outcome: int32(t.Outcome), Cell: text.Clean(t.Holder.Cell),
		Proc: text.Clean(t.Holder.Proc), Reservation: text.Clean(t.Reservation),
		Result: wire.FromTaskResult(t.Result), MayStillRun: t.MayStillRun, Rejections: int64(t.Rejections),
		Rejection: []byte(t.Rejection),
		Created:   wire.FromTime(t.Created), Updated: wire.FromTime(t.Updated),
		FirstCompleted: wire.FromTime(t.FirstCompleted),
		Callback: &bbspb.Callback{
			Runs: int64(t.Callback.Runs), Next: wire.FromTime(t.Callback.Next), Error: []byte(t.Callback.Error),
			Delivered: t.Callback.Delivered, Dead: t.Callback.Dead,
		},
		Verdict: int64(t.Verdict), Resolution: int32(t.Resolution), Successor: text.Clean(t.Successor),
	}
}

func taskOf(m *bbspb.Task) (*task.Task, error) {
	r := &reader{}
	def, err := definitionOf(m.Definition)
	r.keep(err)
	result, err := wire.ToTaskResult(m.Result)
	r.keep(err)
	c := m.GetCallback()
	return &task.Task{
		GUID: m.Guid, UID: m.Uid, Domain: m.Domain, Name: m.Name, Definition: &def,
		State: task.State(r.enum(m.State, int(task.Resolving))), Outcome: task.Outcome(r.enum(m.Outcome, int(task.Lost))),
		Holder: task.Holder{Cell: m.Cell, Proc: m.Proc}, Reservation: m.Reservation, Result: result,
		MayStillRun: m.MayStillRun,
		Rejections:  r.count(m.Rejections), Rejection: string(m.Rejection), Created: r.time(m.Created),
		Updated: r.time(m.Updated), FirstCompleted: r.time(m.FirstCompleted),
		Callback: task.Callback{Runs: r.count(c.GetRuns()), Next: r.time(c.GetNext()), Error: string(c.GetError()),
			Delivered: c.GetDelivered(), Dead: c.GetDead()},
		Verdict:    r.count(m.Verdict),
		Resolution: task.Resolution(r.enum(m.Resolution, int(task.ResolvedRerun))), Successor: m.Successor,
	}, r.err
}

func definitionRecord(d *task.Definition) *bbspb.Definition {
	return &bbspb.Definition{
		Workload: wire.FromWorkload(d.Workload), Stack: text.Clean(d.Stack), PlacementTags: text.CleanAll(d.PlacementTags),
		Labels:      text.CleanMap(d.Labels),
		Tolerations: text.CleanAll(d.Tolerations), Annotation: []byte(d.Annotation), CallbackUrl: text.Clean(d.CallbackURL),
		WhenFull:   int32(d.WhenFull),
		Conditions: text.CleanAll(d.Conditions),
		OnLost:     int32(d.OnLost), PendingTimeout: wire.FromDuration(d.PendingTimeout),
		PreemptPriority: int64(d.PreemptPriority),
	}
}

func definitionOf(m *bbspb.Definition) (task.Definition, error) {
	r := &reader{}
	w, err := wire.ToWorkload(m.GetWorkload())
	r.keep(err)
	return task.Definition{
		Workload: w, Stack: m.GetStack(), PlacementTags: text.CleanAll(m.GetPlacementTags()),
		Labels: text.CleanMap(m.GetLabels()), Tolerations: text.CleanAll(m.GetTolerations()),
		Conditions: text.CleanAll(m.GetConditions()),
		Annotation: string(m.GetAnnotation()), CallbackURL: m.GetCallbackUrl(),
		WhenFull: task.WhenFull(r.enum(m.GetWhenFull(), int(task.WhenFullFail))),
		OnLost:   task.OnLost(r.enum(m.GetOnLost(), int(task.LostKeep))), PendingTimeout: r.duration(m.GetPendingTimeout()),
		PreemptPriority: r.count(m.GetPreemptPriority()),
	}, r.err
}

// digest names a definition by its content.
func digest(d *task.Definition) []byte {
	sum := sha256.Sum256(marshal(definitionRecord(d)))
	return sum[:]
}

// Keys of the rows.
const (
	prefixService = "lrp/service/"
	prefixIndex   = "lrp/actual/"
	prefixTask    = "task/"
	prefixDomain  = "domain/"
	prefixApplied = "applied/"
	prefixIdem    = "idem/"

	prefixReported      = "reported/"
	prefixReportedTask  = prefixReported + "task/"
	prefixReportedIndex = prefixReported + "index/"
)

// ServiceRow is the key of the row of a service.
func ServiceRow(k lrp.ServiceKey) string { return prefixService + k.Domain + "/" + k.Name }

// IndexRow is the key of the row of an index.
func IndexRow(k lrp.Key) string { return prefixIndex + k.Process + "/" + strconv.Itoa(k.Index) }

// TaskRow is the key of the row of a task.
func TaskRow(guid string) string { return prefixTask + guid }

func domainRow(name string) string { return prefixDomain + name }

func appliedRow(domain, name string) string { return prefixApplied + domain + "/" + name }

func idemRow(key string) string {
	sum := sha256.Sum256([]byte(key))
	return prefixIdem + hex.EncodeToString(sum[:16])
}

// serviceOfRow and indexOfRow read a key back; ok is false when it is malformed.
func serviceOfRow(key string) (lrp.ServiceKey, bool) {
	domain, name, ok := strings.Cut(strings.TrimPrefix(key, prefixService), "/")
	return lrp.ServiceKey{Domain: domain, Name: name}, ok
}

func indexOfRow(key string) (lrp.Key, bool) {
	process, number, ok := strings.Cut(strings.TrimPrefix(key, prefixIndex), "/")
	i, err := strconv.Atoi(number)
	return lrp.Key{Process: process, Index: i}, ok && err == nil && i >= 0
}

package bbs

import (
	"errors"
	"fmt"
	"math"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cantina/bbs/bbspb"
	"cantina/internal/text"
	"cantina/lrp"
	"cantina/store"
	"cantina/task"
	"cantina/wire"
)

// schema is the version of all records of this package.
const schema = 1

// Kinds of records.
const (
	kindService = "service"
	kindIndex   = "index"
	kindTask    = "task"
	kindDomain  = "domain"
	kindApplied = "applied"
	kindIdem    = "idem"

	kindReported = "reported"
)

// errRecord reports a payload that does not match its key.
var errRecord = errors.New("record does not match its key")

func marshal(m proto.Message) []byte {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		// All text went through valid: only a mistake in this file gets here.
		panic("bbs: marshal: " + err.Error())
	}
	return b
}

func encode(kind string, m proto.Message) []byte { return store.Encode(schema, kind, marshal(m)) }

// decodeRecord opens a row's value and fills m.
func decodeRecord(value []byte, kind string, m proto.Message) error {
	version, got, payload, err := store.Decode(value)
	switch {
	case err != nil:
		return err
	case got != kind:
		return fmt.Errorf("a %s, not a %s: %w", got, kind, errRecord)
	case version > schema:
		return fmt.Errorf("schema %d is newer than this program's %d: %w", version, schema, errRecord)
	}
	if err := proto.Unmarshal(payload, m); err != nil {
		return fmt.Errorf("%v: %w", err, store.ErrCorrupt)
	}
	return nil
}

// reader collects the first error of a conversion.
type reader struct{ err error }

func (r *reader) time(t *timestamppb.Timestamp) time.Time {
	out, err := wire.ToTime(t)
	r.keep(err)
	return out
}

func (r *reader) duration(d *durationpb.Duration) time.Duration {
	out, err := wire.ToDuration(d)
	r.keep(err)
	return out
}

// enum returns v, or an error when it is above max.
func (r *reader) enum(v int32, maximum int) int {
	if v < 0 || int(v) > maximum {
		r.keep(fmt.Errorf("unknown value %d: %w", v, errRecord))
	}
	return int(v)
}

// count returns v, or an error when it does not fit a count of anything.
func (r *reader) count(v int64) int {
	if v < -1 || v > math.MaxInt32 {
		r.keep(fmt.Errorf("count %d: %w", v, errRecord))
		return 0
	}
	return int(v)
}

func (r *reader) keep(err error) {
	if r.err == nil {
		r.err = err
	}
}

func serviceRecord(s *lrp.Service) *bbspb.Service {
	m := &bbspb.Service{
		Key: wire.FromServiceKey(s.Key), Instances: int64(s.Instances), Numbers: int64(s.Numbers), Removed: s.Removed,
		Phase:    int32(s.Phase),
		Progress: wire.FromTime(s.Progress), Healthy: int64(s.Healthy), Failure: text.Clean(s.Failure),
		FailedVersion: int64(s.FailedVersion),
		Applied:       wire.FromTime(s.Applied),
	}
	for i := range s.Versions {
		v := &s.Versions[i]
		m.Versions = append(m.Versions, &bbspb.Version{Desired: desiredRecord(&v.Desired), Number: int64(v.Number),
			Low: int64(v.Low), High: int64(v.High), Good: v.Good})
	}
	return m
}

func serviceFrom(m *bbspb.Service) (*lrp.Service, error) {
	r := &reader{}
	s := &lrp.Service{
		Key: wire.ToServiceKey(m.Key), Instances: r.count(m.Instances), Numbers: r.count(m.Numbers), Removed: m.Removed,
		Phase: lrp.Phase(r.enum(m.Phase, int(lrp.RollFailed))), Progress: r.time(m.Progress), Healthy: r.count(m.Healthy),
		Failure: m.Failure, FailedVersion: r.count(m.FailedVersion), Applied: r.time(m.Applied),
	}
	for _, v := range m.Versions {
		d, err := desiredOf(v.Desired)
		r.keep(err)
		s.Versions = append(s.Versions, lrp.Version{Desired: d, Number: r.count(v.Number), Low: r.count(v.Low),
			High: r.count(v.High), Good: v.Good})
	}
	return s, r.err
}

func desiredRecord(d *lrp.Desired) *bbspb.Desired {
	m := &bbspb.Desired{
		Process: text.Clean(d.Process), Service: wire.FromServiceKey(d.Service), Instances: int64(d.Instances),
		Annotation: []byte(d.Annotation),
		Workload:   wire.FromWorkload(d.Workload), Stack: text.Clean(d.Stack), PlacementTags: text.CleanAll(d.PlacementTags),
		Labels:      text.CleanMap(d.Labels),
		Tolerations: text.CleanAll(d.Tolerations), Strategy: int32(d.Strategy), Exclusive: d.Exclusive,
		OnPartition:  int32(d.OnPartition),
		ReplaceAfter: wire.FromDuration(d.ReplaceAfter), OnReturn: int32(d.OnReturn),
		Restart: &bbspb.Restart{
			Mode: int32(d.Restart.Mode), Immediate: int64(d.Restart.Immediate), Base: wire.FromDuration(d.Restart.Base),
			Max:    wire.FromDuration(d.Restart.Max),
			GiveUp: int64(d.Restart.GiveUp), ResetAfter: wire.FromDuration(d.Restart.ResetAfter),
		},
		Rollout: &bbspb.Rollout{
			Batch: int64(d.Rollout.Batch), Settle: wire.FromDuration(d.Rollout.Settle),
			ProgressDeadline: wire.FromDuration(d.Rollout.ProgressDeadline),
			KeepFailed:       d.Rollout.KeepFailed,
		},
	}
	m.Conditions, m.Spread = text.CleanAll(d.Conditions), text.CleanAll(d.Spread)
	m.ApartFrom, m.PreemptPriority = text.CleanAll(d.ApartFrom), int64(d.PreemptPriority)
	for k, n := range d.MaxPer {
		if m.MaxPer == nil {
			m.MaxPer = make(map[string]int64, len(d.MaxPer))
		}
		m.MaxPer[text.Clean(k)] = int64(n)
	}
	for k, v := range d.Routes {
		if m.Routes == nil {
			m.Routes = make(map[string][]byte, len(d.Routes))
		}
		m.Routes[text.Clean(k)] = []byte(v)
	}
	return m
}

func desiredOf(m *bbspb.Desired) (lrp.Desired, error) {
	r := &reader{}
	w, err := wire.ToWorkload(m.GetWorkload())
	r.keep(err)
	restart, rollout := m.GetRestart(), m.GetRollout()
	d := lrp.Desired{
		Process: m.GetProcess(), Service: wire.ToServiceKey(m.GetService()), Instances: r.count(m.GetInstances()),
		Annotation: string(m.GetAnnotation()),
		Workload:   w, Stack: m.GetStack(), PlacementTags: text.CleanAll(m.GetPlacementTags()),
		Labels: text.CleanMap(m.GetLabels()), Tolerations: text.CleanAll(m.GetTolerations()),
		Strategy: lrp.Strategy(r.enum(m.GetStrategy(), int(lrp.StopFirst))), Exclusive: m.GetExclusive(),
		OnPartition:  lrp.OnPartition(r.enum(m.GetOnPartition(), int(lrp.PartitionStop))),
		ReplaceAfter: r.duration(m.GetReplaceAfter()), OnReturn: lrp.OnReturn(r.enum(m.GetOnReturn(), int(lrp.ReturnNew))),
		Restart: lrp.RestartPolicy{
			Mode: lrp.RestartMode(r.enum(restart.GetMode(), int(lrp.RestartNever))), Immediate: r.count(restart.GetImmediate()),
			Base: r.duration(restart.GetBase()),
			Max:  r.duration(restart.GetMax()), GiveUp: r.count(restart.GetGiveUp()),
			ResetAfter: r.duration(restart.GetResetAfter()),
		},
		Rollout: lrp.RolloutPolicy{
			Batch: r.count(rollout.GetBatch()), Settle: r.duration(rollout.GetSettle()),
			ProgressDeadline: r.duration(rollout.GetProgressDeadline()),
			KeepFailed:       rollout.GetKeepFailed(),
		},
	}
	d.Conditions, d.Spread = text.CleanAll(m.GetConditions()), text.CleanAll(m.GetSpread())
	d.ApartFrom, d.PreemptPriority = text.CleanAll(m.GetApartFrom()), r.count(m.GetPreemptPriority())
	for k, n := range m.GetMaxPer() {
		if d.MaxPer == nil {
			d.MaxPer = make(map[string]int, len(m.GetMaxPer()))
		}
		d.MaxPer[k] = r.count(n)
	}
	for k, v := range m.GetRoutes() {
		if d.Routes == nil {
			d.Routes = make(map[string]string, len(m.GetRoutes()))
		}
		d.Routes[k] = string(v)
	}
	return d, r.err
}

// normalised returns d as it will be read from the store, so that a definition that is applied
// again equals the stored one. It goes through the bytes, because a record in memory still
// distinguishes an empty list from none.
func normalised(d lrp.Desired) (lrp.Desired, error) {
	var m bbspb.Desired
	if err := proto.Unmarshal(marshal(desiredRecord(&d)), &m); err != nil {
		return lrp.Desired{}, fmt.Errorf("definition: %w: %w", errRecord, err)
	}
	return desiredOf(&m)
}

// normalisedTask is normalised for the definition of a task.
func normalisedTask(d *task.Definition) (task.Definition, error) {
	var m bbspb.Definition
	if err := proto.Unmarshal(marshal(definitionRecord(d)), &m); err != nil {
		return task.Definition{}, fmt.Errorf("definition: %w: %w", errRecord, err)
	}
	return definitionOf(&m)
}

func indexRecord(x lrp.Index) *bbspb.Index {
	m := &bbspb.Index{Key: wire.FromLRPKey(x.Key)}
	for _, a := range x.Rows() {
		m.Rows = append(m.Rows, &bbspb.Row{Actual: wire.FromActual(a), Finished: a.Finished})
	}
	return m
}

func indexOf(m *bbspb.Index) (lrp.Index, error) {
	key, err := wire.ToLRPKey(m.Key)
	if err != nil {
		return lrp.Index{}, err
	}
	x := lrp.Index{Key: key}
	for _, row := range m.Rows {
		a, err := wire.ToActual(row.Actual)
		if err != nil {
			return lrp.Index{}, err
		}
		a.Finished = row.Finished
		switch {
		case a.Presence == lrp.Evacuating && x.Evacuating == nil:
			x.Evacuating = a
		case a.Presence == lrp.Suspect && x.Suspect == nil:
			x.Suspect = a
		case a.Presence == lrp.Ordinary && x.Ordinary == nil:
			x.Ordinary = a
		default:
			return lrp.Index{}, fmt.Errorf("two %v rows: %w", a.Presence, errRecord)
		}
	}
	return x, lrp.Check(x)
}

package scheduler

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"cantina/batch"
	"cantina/cron"
	"cantina/fence"
	"cantina/internal/text"
	"cantina/placement"
	"cantina/scheduler/schedulerpb"
	"cantina/store"
	"cantina/wire"
)

// Kinds of the scheduler's records; all have schema 1.
const (
	kindJob     = "job"
	kindForest  = "forest"
	kindSegment = "batch_status"
	kindData    = "batch_data"
	kindKill    = "batch_kill"
)

// Keys of the scheduler's rows. The key of a job or a forest ends with domain/name.
const (
	jobPrefix    = "job/"
	forestPrefix = "batch/forest/"
	statusPrefix = "batch/status/"
	killPrefix   = "batch/kill/"
	dataPrefix   = store.DataPrefix + "batch/"
)

// JobRow is the key of a job's row: the row whose revision its view has.
func JobRow(name string) string { return jobPrefix + name }

func segmentKey(uid string, n uint32) string { return fmt.Sprintf("%s%s/%010d", statusPrefix, uid, n) }
func dataKey(uid string, n uint32) string    { return fmt.Sprintf("%s%s/%010d", dataPrefix, uid, n) }
func killKey(uid, node string) string        { return killPrefix + uid + "/" + node }

// errRecord reports a record that is intact and makes no sense.
var errRecord = errors.New("invalid record")

func encode(kind string, m proto.Message) ([]byte, error) {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", kind, err)
	}
	return store.Encode(1, kind, b), nil
}

func fromInvocation(i fence.Invocation) *schedulerpb.Invocation {
	if i.IsZero() {
		return nil
	}
	return &schedulerpb.Invocation{Epoch: i.Term.Epoch, Revision: i.Term.Revision, Counter: i.Counter}
}

func toInvocation(m *schedulerpb.Invocation) fence.Invocation {
	return fence.Invocation{Term: fence.Term{Epoch: m.GetEpoch(), Revision: m.GetRevision()}, Counter: m.GetCounter()}
}

func validAll(list []string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = text.Clean(s)
	}
	return out
}

// jobRow is the content of job/<domain>/<name>.
type jobRow struct {
	name, uid string // the name is the key, domain/name
	born      fence.Invocation
	deleted   bool
	created   time.Time
	paused    bool
	spec      batch.Job // of a tombstone nothing but Forest
	// former are other forests over which earlier lives of the name ran, since its row was last
	// absent: running work may draw on their nodes.
	former []string
	// orphans, of a tombstone, is the fate of running work from its removal; nil = it is ended at once.
	orphans *batch.Orphans
	removed time.Time
}

// ends reports whether the tombstone ends the running work of its job at a time.
func (r *jobRow) ends(now time.Time) bool {
	return r.deleted && (r.orphans == nil || r.orphans.Kill && !now.Before(r.removed.Add(r.orphans.After)))
}

func fromOrphans(o *batch.Orphans) *schedulerpb.Orphans {
	if o == nil {
		return nil
	}
	return &schedulerpb.Orphans{Kill: o.Kill, After: wire.FromDuration(o.After)}
}

func toOrphans(m *schedulerpb.Orphans) (*batch.Orphans, error) {
	if m == nil {
		return nil, nil
	}
	after, err := wire.ToDuration(m.After)
	if err == nil && after < 0 {
		err = fmt.Errorf("orphans after %v: %w", after, errRecord)
	}
	return &batch.Orphans{Kill: m.Kill, After: after}, err
}

// quarantined reports that the row cannot be read: nothing but its name is known.
func (r *jobRow) quarantined() bool { return r.uid == "" && !r.deleted }

func (r *jobRow) encode() ([]byte, error) {
	m := &schedulerpb.Job{Name: text.Clean(r.name), Uid: r.uid, Born: fromInvocation(r.born), Deleted: r.deleted,
		Created: wire.FromTime(r.created), Paused: r.paused, Former: validAll(r.former)}
	if r.deleted {
		m.Forest, m.Orphans = text.Clean(r.spec.Forest), fromOrphans(r.orphans)
		if r.orphans != nil {
			m.Removed = wire.FromTime(r.removed)
		}
	} else {
		m.Spec = fromJob(&r.spec)
	}
	return encode(kindJob, m)
}

func decodeJob(value []byte) (*jobRow, error) {
	var m schedulerpb.Job
	if err := store.Open(value, kindJob, &m); err != nil {
		return nil, err
	}
	r := &jobRow{name: m.Name, uid: m.Uid, born: toInvocation(m.Born), deleted: m.Deleted, paused: m.Paused,
		former: m.Former}
	var err error
	if r.created, err = wire.ToTime(m.Created); err != nil {
		return nil, err
	}
	if m.Name == "" || m.Uid == "" || m.Deleted != (m.Spec == nil) {
		return nil, fmt.Errorf("job %q without name, uid or spec: %w", m.Name, errRecord)
	}
	if r.deleted {
		r.spec.Forest = m.Forest
		if r.orphans, err = toOrphans(m.Orphans); err == nil && r.orphans != nil {
			r.removed, err = wire.ToTime(m.Removed)
		}
		return r, err
	}
	if r.spec, err = toJob(m.Spec); err != nil {
		return nil, err
	}
	r.spec.Name, r.spec.UID, r.spec.Born, r.spec.Paused = r.name, r.uid, r.born, r.paused
	return r, nil
}

func fromJob(j *batch.Job) *schedulerpb.JobSpec {
	m := &schedulerpb.JobSpec{
		Domain: text.Clean(j.Domain), Owner: text.Clean(j.Owner), Forest: text.Clean(j.Forest), Disabled: j.Disabled,
		Level: text.Clean(j.Level), Priority: j.Priority,
		DependsOn: validAll(j.DependsOn), After: validAll(j.After), Export: text.Clean(j.Export), Retries: int64(j.Retries),
		Workload: wire.FromWorkload(j.Workload),
		Call:     int32(j.Call),
		Config:   text.Clean(j.Config), IgnoreExitCode: j.IgnoreExitCode, HostLevel: text.Clean(j.HostLevel),
		Host: text.Clean(j.Host), Stack: text.Clean(j.Stack),
		Tags: validAll(j.Tags), Tolerates: validAll(j.Tolerates), Errors: validAll(j.Errors),
		Conditions: validAll(j.Conditions),
		Backoff:    &schedulerpb.Backoff{Repeat: j.Backoff.Repeat, Fail: j.Backoff.Fail},
	}
	for _, s := range j.Backoff.Seconds {
		m.Backoff.Seconds = append(m.Backoff.Seconds, int64(s))
	}
	if j.Orphans != (batch.Orphans{}) {
		m.Orphans = fromOrphans(&j.Orphans)
	}
	m.Labels = make(map[string]string)
	for k, v := range j.Labels {
		m.Labels[text.Clean(k)] = text.Clean(v)
	}
	m.Resources = make(map[string]*schedulerpb.Amounts)
	for level, a := range j.Resources {
		m.Resources[text.Clean(level)] = &schedulerpb.Amounts{Of: wire.FromAmounts(a)}
	}
	m.Filters = make(map[string]*schedulerpb.Filter)
	for level, f := range j.Filters {
		m.Filters[text.Clean(level)] = &schedulerpb.Filter{
			Whitelist: validAll(f.Whitelist), WhitelistRegex: text.Clean(f.WhitelistRegex), Blacklist: validAll(f.Blacklist),
			BlacklistRegex: text.Clean(f.BlacklistRegex), TagWhitelist: validAll(f.TagWhitelist), Fraction: f.Fraction,
		}
	}
	return m
}

// normalised returns a job as it will be read from the store, so that one that is applied again
// equals the stored one. It goes through the bytes, because a record in memory still distinguishes
// an empty list from none.
func normalised(j *batch.Job) (batch.Job, error) {
	b, err := proto.Marshal(fromJob(j))
	if err != nil {
		return batch.Job{}, fmt.Errorf("encode %s: %w", kindJob, err)
	}
	var m schedulerpb.JobSpec
	if err := proto.Unmarshal(b, &m); err != nil {
		return batch.Job{}, fmt.Errorf("decode %s: %w: %w", kindJob, errRecord, err)
	}
	return toJob(&m)
}

func toJob(m *schedulerpb.JobSpec) (batch.Job, error) {
	w, err := wire.ToWorkload(m.Workload)
	if err != nil {
		return batch.Job{}, err
	}
	if m.Call < 0 || m.Call > int32(batch.CallBistro) {
		return batch.Job{}, fmt.Errorf("call %d: %w", m.Call, errRecord)
	}
	j := batch.Job{
		Domain: m.Domain, Owner: m.Owner, Forest: m.Forest, Disabled: m.Disabled, Level: m.Level, Priority: m.Priority,
		DependsOn: m.DependsOn, After: m.After, Export: m.Export, Retries: int(m.Retries), Workload: w,
		Call:   batch.Call(m.Call),
		Config: m.Config, IgnoreExitCode: m.IgnoreExitCode, HostLevel: m.HostLevel, Host: m.Host, Stack: m.Stack,
		Tags: m.Tags, Tolerates: m.Tolerates, Conditions: m.Conditions, Errors: m.Errors, Labels: m.Labels,
		Backoff: batch.Backoff{Repeat: m.GetBackoff().GetRepeat(), Fail: m.GetBackoff().GetFail()},
	}
	for _, s := range m.GetBackoff().GetSeconds() {
		j.Backoff.Seconds = append(j.Backoff.Seconds, int(s))
	}
	switch o, err := toOrphans(m.Orphans); {
	case err != nil:
		return batch.Job{}, err
	case o != nil:
		j.Orphans = *o
	}
	for level, a := range m.Resources {
		if j.Resources == nil {
			j.Resources = make(map[string]amounts)
		}
		j.Resources[level] = wire.ToAmounts(a.GetOf())
	}
	for level, f := range m.Filters {
		if j.Filters == nil {
			j.Filters = make(map[string]batch.Filter)
		}
		j.Filters[level] = batch.Filter{
			Whitelist: f.Whitelist, WhitelistRegex: f.WhitelistRegex, Blacklist: f.Blacklist,
			BlacklistRegex: f.BlacklistRegex, TagWhitelist: f.TagWhitelist, Fraction: f.Fraction,
		}
	}
	return j, nil
}

func decodeTimes(times []*schedulerpb.Times) (out []batch.Times, err error) {
	for _, m := range times {
		t := batch.Times{Line: m.Line, JSON: m.Json, Gap: cron.Gap(m.Gap), Fold: cron.Fold(m.Fold), Tags: m.Tags}
		if t.Lifetime, err = wire.ToDuration(m.Lifetime); err != nil {
			return nil, err
		}
		if t.Enabled, err = wire.ToDuration(m.Enabled); err != nil {
			return nil, err
		}
		if m.Gap < 0 || t.Gap > cron.GapRun || m.Fold < 0 || t.Fold > cron.FoldLast {
			return nil, fmt.Errorf("gap %d, fold %d: %w", m.Gap, m.Fold, errRecord)
		}
		out = append(out, t)
	}
	return out, nil
}

func encodeForest(f *batch.ForestSpec) ([]byte, error) {
	m := &schedulerpb.Forest{
		Name: text.Clean(f.Name), Levels: validAll(f.Levels), Instance: text.Clean(f.Instance), Order: int32(f.Order),
		Policy: int32(f.Policy), Cells: int32(f.Cells),
		Disabled: f.Disabled, Backwards: f.Backwards, Limits: make(map[string]*schedulerpb.Limits),
		Removed: fromOrphans(f.Removed),
	}
	for level, byName := range f.Limits {
		l := &schedulerpb.Limits{Of: make(map[string]*schedulerpb.Limit)}
		for name, x := range byName {
			l.Of[text.Clean(name)] = &schedulerpb.Limit{Default: int64(x.Default), Limit: int64(x.Limit),
				Weight: int64(x.Weight)}
		}
		m.Limits[text.Clean(level)] = l
	}
	for _, s := range f.Sources {
		x := &schedulerpb.Source{Kind: int32(s.Kind), ParentLevel: text.Clean(s.ParentLevel),
			Script: validAll(s.Script), Timeout: wire.FromDuration(s.Timeout),
			First: int64(s.First), Last: int64(s.Last), Step: int64(s.Step), Format: text.Clean(s.Format),
			Disabled: s.Disabled, File: text.Clean(s.File), Zone: text.Clean(s.Zone)}
		for _, t := range s.Times {
			x.Times = append(x.Times, &schedulerpb.Times{Line: text.Clean(t.Line), Json: text.Clean(t.JSON), Gap: int32(t.Gap),
				Fold: int32(t.Fold), Lifetime: wire.FromDuration(t.Lifetime), Enabled: wire.FromDuration(t.Enabled),
				Tags: validAll(t.Tags)})
		}
		for _, n := range s.Manual {
			x.Manual = append(x.Manual, &schedulerpb.ManualNode{Name: text.Clean(n.Name), Children: validAll(n.Children),
				Disabled: n.Disabled, Tags: validAll(n.Tags)})
		}
		m.Sources = append(m.Sources, x)
	}
	return encode(kindForest, m)
}

func decodeForest(value []byte) (*batch.ForestSpec, error) {
	var m schedulerpb.Forest
	if err := store.Open(value, kindForest, &m); err != nil {
		return nil, err
	}
	f := &batch.ForestSpec{
		Name: m.Name, Levels: m.Levels, Instance: m.Instance, Order: batch.Order(m.Order), Policy: batch.Policy(m.Policy),
		Cells:    placement.Order(m.Cells),
		Disabled: m.Disabled, Backwards: m.Backwards,
	}
	if m.Order < 0 || m.Order > int32(batch.OrderLexicographic) || m.Policy < 0 || m.Policy > int32(batch.LongTail) ||
		m.Cells < 0 || m.Cells > int32(placement.OrderBusiest) {
		return nil, fmt.Errorf("forest %q: order %d, policy %d, cells %d: %w", m.Name, m.Order, m.Policy, m.Cells, errRecord)
	}
	var err error
	if f.Removed, err = toOrphans(m.Removed); err != nil {
		return nil, err
	}
	for _, level := range slices.Sorted(maps.Keys(m.Limits)) {
		byName := make(map[string]batch.Limit)
		for name, x := range m.Limits[level].GetOf() {
			byName[name] = batch.Limit{Default: int(x.Default), Limit: int(x.Limit), Weight: int(x.Weight)}
		}
		if f.Limits == nil {
			f.Limits = make(map[string]map[string]batch.Limit)
		}
		f.Limits[level] = byName
	}
	for _, s := range m.Sources {
		timeout, err := wire.ToDuration(s.Timeout)
		if err != nil {
			return nil, err
		}
		if s.Kind < 0 || s.Kind > int32(batch.SourceTime) {
			return nil, fmt.Errorf("source kind %d: %w", s.Kind, errRecord)
		}
		x := batch.Source{Kind: batch.SourceKind(s.Kind), ParentLevel: s.ParentLevel, Script: s.Script,
			Timeout: timeout,
			First:   int(s.First), Last: int(s.Last), Step: int(s.Step), Format: s.Format, Disabled: s.Disabled,
			File: s.File, Zone: s.Zone}
		if x.Times, err = decodeTimes(s.Times); err != nil {
			return nil, err
		}
		for _, n := range s.Manual {
			x.Manual = append(x.Manual, batch.ManualNode{Name: n.Name, Children: n.Children, Disabled: n.Disabled, Tags: n.Tags})
		}
		f.Sources = append(f.Sources, x)
	}
	return f, batch.CheckForest(f)
}

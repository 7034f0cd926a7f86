package timetable

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"cantina/cron"
	"cantina/internal/text"
	"cantina/schedule"
	"cantina/store"
	"cantina/timetable/timetablepb"
)

// Kinds and keys of the records.
const (
	kindSchedule = "schedule"
	kindState    = "schedule-state"

	schedulePrefix = "schedule/"
	statePrefix    = "schedule-state/"
)

// errRecord reports a record that is intact and makes no sense.
var errRecord = errors.New("invalid record")

// Owns reports whether the row of a key is the timetable's.
func Owns(key string) bool {
	return strings.HasPrefix(key, schedulePrefix) || strings.HasPrefix(key, statePrefix)
}

// RowOf is the key of a schedule's definition.
func RowOf(k schedule.Key) string { return schedulePrefix + k.String() }

// StateOf is the key of its state.
func StateOf(k schedule.Key) string { return statePrefix + k.String() }

// keyOf finds the schedule that a row key names.
func keyOf(key string) (schedule.Key, bool) {
	rest, ok := strings.CutPrefix(key, statePrefix)
	if !ok {
		rest, ok = strings.CutPrefix(key, schedulePrefix)
	}
	k := ParseKey(rest)
	return k, ok && k.Name != ""
}

// Stored is the content of one row of a schedule: its definition, without a state, or its state.
type Stored struct {
	Definition *schedule.Row
	Key        schedule.Key // of the state
	UID        string       // of the schedule
	State      *schedule.State
}

// ReadRow reads a row of a schedule; ok is false for rows of others.
func ReadRow(c Contents, key string, value []byte) (r Stored, ok bool, err error) {
	if !Owns(key) {
		return r, false, nil
	}
	k, good := keyOf(key)
	if !good {
		return r, true, fmt.Errorf("key %s: %w", key, errRecord)
	}
	if strings.HasPrefix(key, statePrefix) {
		uid, s, err := decodeState(value)
		return Stored{Key: k, UID: uid, State: &s}, true, err
	}
	row, err := decodeRow(c, value, k)
	return Stored{Definition: &row, Key: k, UID: row.UID}, true, err
}

// ParseKey is the inverse of Key.String.
func ParseKey(s string) schedule.Key {
	domain, name, _ := strings.Cut(s, "/")
	return schedule.Key{Domain: domain, Name: name}
}

func encode(kind string, m proto.Message) []byte {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		// All text went through valid: only a mistake in this file gets here.
		panic("timetable: marshal: " + err.Error())
	}
	return store.Encode(1, kind, b)
}

func decode(value []byte, want string, m proto.Message) error {
	version, kind, payload, err := store.Decode(value)
	if err != nil {
		return err
	}
	if kind != want || version != 1 {
		return fmt.Errorf("record is %s version %d, want %s version 1: %w", kind, version, want, errRecord)
	}
	if err := proto.Unmarshal(payload, m); err != nil {
		return fmt.Errorf("decode %s: %w: %w", want, errRecord, err)
	}
	return nil
}

func millis(t time.Time) int64 { return t.UnixMilli() }

func fromMillis(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

func encodeRow(c Contents, r *schedule.Row) ([]byte, error) {
	d, err := fromDefinition(c, r.Definition)
	if err != nil {
		return nil, err
	}
	return encode(kindSchedule, &timetablepb.Schedule{
		Domain: text.Clean(r.Domain), Name: text.Clean(r.Name), Uid: r.UID, Created: millis(r.Created),
		Edited: millis(r.Edited), Definition: d,
	}), nil
}

func fromDefinition(c Contents, d *schedule.Definition) (*timetablepb.Definition, error) {
	m := &timetablepb.Definition{
		Line: text.Clean(d.Line), Json: text.Clean(d.JSON), Zone: text.Clean(d.Zone), Gap: int32(d.Gap), Fold: int32(d.Fold),
		Overlap: int32(d.Overlap), Max: int64(d.Max),
		Misfire: int32(d.Misfire), MisfireMax: int64(d.MisfireMax), Deadline: int64(d.Deadline), Jitter: int64(d.Jitter),
	}
	var err error
	if d.Task != nil {
		m.Task = c.TaskBytes(d.Task)
	}
	if d.Job != nil {
		m.Job, err = c.JobBytes(d.Job)
	}
	if s := d.Signal; s != nil {
		m.Signal = &timetablepb.Signal{Service: text.Clean(s.Service), Number: int32(s.Number)}
	}
	return m, err
}

func toDefinition(c Contents, m *timetablepb.Definition) (*schedule.Definition, error) {
	d := &schedule.Definition{
		Calendar: schedule.Calendar{Line: m.GetLine(), JSON: m.GetJson(), Zone: m.GetZone(), Gap: cron.Gap(m.GetGap()),
			Fold: cron.Fold(m.GetFold())},
		Policy: schedule.Policy{
			Overlap: schedule.Overlap(m.GetOverlap()), Max: int(m.GetMax()), Misfire: schedule.Misfire(m.GetMisfire()),
			MisfireMax: int(m.GetMisfireMax()),
			Deadline:   time.Duration(m.GetDeadline()), Jitter: time.Duration(m.GetJitter()),
		},
	}
	if d.Gap > cron.GapRun || d.Fold > cron.FoldLast || uint(d.Overlap) > uint(schedule.OverlapReplace) ||
		uint(d.Misfire) > uint(schedule.MisfireAll) {
		return nil, fmt.Errorf("unknown choice: %w", errRecord)
	}
	var err error
	if m.GetTask() != nil {
		d.Task, err = c.Task(m.Task)
	}
	if err == nil && m.GetJob() != nil {
		d.Job, err = c.Job(m.Job)
	}
	if err != nil {
		return nil, err
	}
	if s := m.GetSignal(); s != nil {
		d.Signal = &schedule.Signal{Service: s.Service, Number: int(s.Number)}
	}
	return d, d.Validate()
}

// normalised returns a definition as it will come back from the store, and its bytes.
func normalised(c Contents, d *schedule.Definition) (*schedule.Definition, error) {
	m, err := fromDefinition(c, d)
	if err != nil {
		return nil, err
	}
	b, err := proto.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode definition: %w", err)
	}
	var back timetablepb.Definition
	if err := proto.Unmarshal(b, &back); err != nil {
		return nil, fmt.Errorf("decode definition: %w", err)
	}
	return toDefinition(c, &back)
}

// same reports whether two definitions are equal.
func same(c Contents, a, b *schedule.Definition) bool {
	x, err := fromDefinition(c, a)
	y, err2 := fromDefinition(c, b)
	return err == nil && err2 == nil && proto.Equal(x, y)
}

func encodeState(uid string, s *schedule.State) []byte {
	m := &timetablepb.State{Uid: uid, Cursor: millis(s.Cursor), Paused: s.Paused, Fired: int64(s.Fired),
		Skipped: int64(s.Skipped), Backlog: int64(s.Backlog), Skew: int64(s.Skew)}
	for _, f := range s.Pending {
		m.Pending = append(m.Pending, &timetablepb.Firing{At: millis(f.At), By: int32(f.By), Late: f.Late})
	}
	for _, at := range s.Ahead {
		m.Ahead = append(m.Ahead, millis(at))
	}
	for _, r := range s.Live {
		m.Live = append(m.Live, &timetablepb.Run{At: millis(r.At), Id: text.Clean(r.ID), Ending: r.Ending, Late: r.Late})
	}
	m.Open, m.Done = fromSpans(s.Open), fromSpans(s.Done)
	for _, e := range s.History[max(0, len(s.History)-schedule.MaxHistory):] {
		p := &timetablepb.Entry{
			What: int32(e.Decision), Why: int32(e.Why), By: int32(e.By), At: millis(e.At), Count: int64(e.Count),
			When: millis(e.When), Id: text.Clean(e.ID), Text: text.Clean(e.Text),
		}
		if !e.Until.Equal(e.At) {
			p.Until = proto.Int64(millis(e.Until))
		}
		m.History = append(m.History, p)
	}
	return encode(kindState, m)
}

func fromSpans(list []schedule.Span) (out []*timetablepb.Span) {
	for _, x := range list {
		p := &timetablepb.Span{Until: millis(x.Until), Count: int64(x.Count), Why: int32(x.Why)}
		if !x.After.IsZero() {
			p.After = proto.Int64(millis(x.After))
		}
		out = append(out, p)
	}
	return out
}

func toSpans(list []*timetablepb.Span) (out []schedule.Span) {
	for _, x := range list {
		p := schedule.Span{Until: fromMillis(x.Until), Count: int(x.Count), Why: schedule.Why(x.Why)}
		if x.After != nil {
			p.After = fromMillis(*x.After)
		}
		out = append(out, p)
	}
	return out
}

func decodeState(value []byte) (uid string, s schedule.State, err error) {
	var m timetablepb.State
	if err := decode(value, kindState, &m); err != nil {
		return "", s, err
	}
	s = schedule.State{Cursor: fromMillis(m.Cursor), Paused: m.Paused, Fired: int(m.Fired), Skipped: int(m.Skipped),
		Backlog: int(m.Backlog), Skew: time.Duration(m.Skew)}
	for _, f := range m.Pending {
		s.Pending = append(s.Pending, schedule.Firing{At: fromMillis(f.At), By: schedule.Cause(f.By), Late: f.Late})
	}
	for _, at := range m.Ahead {
		s.Ahead = append(s.Ahead, fromMillis(at))
	}
	for _, r := range m.Live {
		s.Live = append(s.Live, schedule.Run{At: fromMillis(r.At), ID: r.Id, Ending: r.Ending, Late: r.Late})
	}
	bad := m.Uid == ""
	for _, x := range slices.Concat(m.Open, m.Done) {
		bad = bad || x.Why < 0 || x.Why > int32(schedule.WhyFailed)
	}
	s.Open, s.Done = toSpans(m.Open), toSpans(m.Done)
	for _, e := range m.History {
		p := schedule.Entry{
			Decision: schedule.Decision(e.What), Why: schedule.Why(e.Why), By: schedule.Cause(e.By), At: fromMillis(e.At),
			Until: fromMillis(e.At), Count: int(e.Count),
			When: fromMillis(e.When), ID: e.Id, Text: e.Text,
		}
		if e.Until != nil {
			p.Until = fromMillis(*e.Until)
		}
		bad = bad || e.What < 0 || e.What > int32(schedule.Reset) || e.Why < 0 || e.Why > int32(schedule.WhyFailed) ||
			e.By < 0 || e.By > int32(schedule.ByBackfill)
		s.History = append(s.History, p)
	}
	if bad {
		return "", s, fmt.Errorf("state: %w", errRecord)
	}
	return m.Uid, s, nil
}

package wire

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/durationpb"

	"cantina/action"
	pb "cantina/wire/cantinav1"
)

// FromAction is the wire form of a tree of steps.
func FromAction(a action.Action) *pb.Action {
	switch {
	case a.Run != nil:
		return &pb.Action{Kind: &pb.Action_Run{Run: fromRun(*a.Run)}}
	case a.Download != nil:
		d := a.Download
		return &pb.Action{Kind: &pb.Action_Download{Download: &pb.Download{
			From: d.From, To: d.To, Unpack: d.Unpack, CacheKey: d.CacheKey,
			ChecksumAlgorithm: d.ChecksumAlgorithm, ChecksumValue: d.ChecksumValue, AllowUnpinned: d.AllowUnpinned,
		}}}
	case a.Upload != nil:
		return &pb.Action{Kind: &pb.Action_Upload{Upload: &pb.Upload{From: a.Upload.From, To: a.Upload.To}}}
	case a.Serial != nil:
		return &pb.Action{Kind: &pb.Action_Serial{Serial: fromList(a.Serial)}}
	case a.Parallel != nil:
		return &pb.Action{Kind: &pb.Action_Parallel{Parallel: fromList(a.Parallel)}}
	case a.Codependent != nil:
		return &pb.Action{Kind: &pb.Action_Codependent{Codependent: fromList(a.Codependent)}}
	case a.Try != nil:
		return &pb.Action{Kind: &pb.Action_Try{Try: FromAction(*a.Try)}}
	case a.Timeout != nil:
		return &pb.Action{Kind: &pb.Action_Timeout{Timeout: &pb.Timeout{Action: FromAction(a.Timeout.Action),
			After: FromDuration(a.Timeout.After)}}}
	case a.EmitProgress != nil:
		e := a.EmitProgress
		return &pb.Action{Kind: &pb.Action_EmitProgress{EmitProgress: &pb.EmitProgress{
			Action: FromAction(e.Action), Start: e.Start, Success: e.Success, FailureMessagePrefix: e.FailureMessagePrefix,
		}}}
	}
	return &pb.Action{}
}

// ToAction is the inverse of FromAction. It returns ErrMalformed with the place.
func ToAction(m *pb.Action) (action.Action, error) {
	r := &reader{}
	a := r.action("action", m, 0)
	return a, r.err
}

func fromActionPointer(a *action.Action) *pb.Action {
	if a == nil {
		return nil
	}
	return FromAction(*a)
}

func fromActions(as []action.Action) []*pb.Action { return each(as, FromAction) }

func fromList(as []action.Action) *pb.ActionList { return &pb.ActionList{Actions: fromActions(as)} }

func fromRun(x action.Run) *pb.Run {
	m := &pb.Run{
		Path: x.Path, Args: x.Args, Dir: x.Dir, Env: FromEnv(x.Env), User: x.User,
		OpenFiles: int64(x.OpenFiles), SuppressOutput: x.SuppressOutput,
	}
	valid := utf8.ValidString(x.Path) && utf8.ValidString(x.Dir)
	for _, a := range x.Args {
		valid = valid && utf8.ValidString(a)
	}
	if !valid {
		raw := &pb.RawRun{Path: []byte(x.Path), Dir: []byte(x.Dir)}
		for _, a := range x.Args {
			raw.Args = append(raw.Args, []byte(a))
		}
		m.Path, m.Args, m.Dir, m.Raw = "", nil, "", raw
	}
	return m
}

func textOrRaw(s string) (string, []byte) {
	if utf8.ValidString(s) {
		return s, nil
	}
	return "", []byte(s)
}

// reader converts from the wire and keeps the first error.
type reader struct{ err error }

func (r *reader) fail(place, problem string) {
	if r.err == nil {
		r.err = fmt.Errorf("%s: %s: %w", place, problem, ErrMalformed)
	}
}

func (r *reader) duration(place string, d *durationpb.Duration) time.Duration {
	out, err := ToDuration(d)
	if err != nil || out < 0 {
		r.fail(place, "impossible duration")
	}
	return out
}

func (r *reader) enum(place string, names map[int32]string, v int32) int32 {
	if _, ok := names[v]; !ok {
		r.fail(place, fmt.Sprintf("unknown value %d", v))
	}
	return v
}

func (r *reader) actionPointer(place string, m *pb.Action) *action.Action {
	if m == nil {
		return nil
	}
	a := r.action(place, m, 0)
	return &a
}

func (r *reader) actions(place string, ms []*pb.Action, depth int) []action.Action {
	return eachAt(ms, func(i int, m *pb.Action) action.Action {
		return r.action(fmt.Sprintf("%s[%d]", place, i), m, depth)
	})
}

// list is never nil: an empty list of a known kind stays of its kind.
func (r *reader) list(place string, l *pb.ActionList, depth int) []action.Action {
	if len(l.GetActions()) == 0 {
		return []action.Action{}
	}
	return r.actions(place, l.Actions, depth)
}

func (r *reader) action(place string, m *pb.Action, depth int) action.Action {
	if depth >= maxDepth {
		r.fail(place, "nested too deeply")
		return action.Action{}
	}
	depth++
	switch k := m.GetKind().(type) {
	case *pb.Action_Run:
		run := r.run(place+".run", k.Run)
		return action.Action{Run: &run}
	case *pb.Action_Download:
		return action.Action{Download: r.download(place+".download", k.Download)}
	case *pb.Action_Upload:
		return action.Action{Upload: &action.Upload{From: r.text(place+".upload.from", k.Upload.GetFrom()),
			To: r.text(place+".upload.to", k.Upload.GetTo())}}
	case *pb.Action_Serial:
		return action.Action{Serial: r.list(place+".serial", k.Serial, depth)}
	case *pb.Action_Parallel:
		return action.Action{Parallel: r.list(place+".parallel", k.Parallel, depth)}
	case *pb.Action_Codependent:
		return action.Action{Codependent: r.list(place+".codependent", k.Codependent, depth)}
	case *pb.Action_Try:
		inner := r.action(place+".try", k.Try, depth)
		return action.Action{Try: &inner}
	case *pb.Action_Timeout:
		return action.Action{Timeout: &action.Timeout{
			Action: r.action(place+".timeout.action", k.Timeout.GetAction(), depth),
			After:  r.duration(place+".timeout.after", k.Timeout.GetAfter()),
		}}
	case *pb.Action_EmitProgress:
		e := k.EmitProgress
		return action.Action{EmitProgress: &action.EmitProgress{
			Action: r.action(place+".emit_progress.action", e.GetAction(), depth),
			Start:  e.GetStart(), Success: e.GetSuccess(), FailureMessagePrefix: e.GetFailureMessagePrefix(),
		}}
	}
	r.fail(place, "no kind of step")
	return action.Action{}
}

func (r *reader) run(place string, m *pb.Run) action.Run {
	x := action.Run{
		Path: r.text(place+".path", m.GetPath()), Dir: r.text(place+".dir", m.GetDir()),
		Env: r.env(place+".env", m.GetEnv()), User: r.text(place+".user", m.GetUser()),
		OpenFiles: int(m.GetOpenFiles()), SuppressOutput: m.GetSuppressOutput(),
	}
	for _, a := range m.GetArgs() {
		x.Args = append(x.Args, r.text(place+".args", a))
	}
	if raw := m.GetRaw(); raw != nil {
		x.Path, x.Dir, x.Args = r.text(place+".raw.path", string(raw.Path)), r.text(place+".raw.dir", string(raw.Dir)), nil
		for _, a := range raw.Args {
			x.Args = append(x.Args, r.text(place+".raw.args", string(a)))
		}
	}
	return x
}

func (r *reader) download(place string, d *pb.Download) *action.Download {
	return &action.Download{
		From: r.text(place+".from", d.GetFrom()), To: r.text(place+".to", d.GetTo()), Unpack: d.GetUnpack(),
		CacheKey:          d.GetCacheKey(),
		ChecksumAlgorithm: d.GetChecksumAlgorithm(), ChecksumValue: d.GetChecksumValue(), AllowUnpinned: d.GetAllowUnpinned(),
	}
}

func (r *reader) env(place string, ms []*pb.Variable) []action.Variable {
	return eachAt(ms, func(i int, m *pb.Variable) action.Variable {
		v := action.Variable{Name: m.GetName(), Value: m.GetValue()}
		if raw := m.GetRawName(); raw != nil {
			v.Name = string(raw)
		}
		if raw := m.GetRawValue(); raw != nil {
			v.Value = string(raw)
		}
		if strings.IndexByte(v.Name, 0) >= 0 || strings.IndexByte(v.Value, 0) >= 0 {
			r.fail(fmt.Sprintf("%s[%d]", place, i), "NUL")
		}
		return v
	})
}

// each maps a slice; nil and empty stay nil.
func each[A, B any](in []A, f func(A) B) []B {
	return eachAt(in, func(_ int, a A) B { return f(a) })
}

func eachAt[A, B any](in []A, f func(int, A) B) []B {
	if len(in) == 0 {
		return nil
	}
	out := make([]B, len(in))
	for i, a := range in {
		out[i] = f(i, a)
	}
	return out
}

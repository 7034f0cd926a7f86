package wire

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	"cantina/action"
	"cantina/fence"
	"cantina/resource"
	pb "cantina/wire/cantinav1"
)

// texts draws any bytes but NUL, UTF-8 or not.
func texts() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.StringMatching(`[a-z$"'\\ {}/\n]{0,12}`),
		rapid.Map(rapid.SliceOfN(rapid.ByteRange(1, 255), 0, 8), func(b []byte) string { return string(b) }),
	)
}

func plain() *rapid.Generator[string] { return rapid.StringMatching(`[a-zé0-9/:.-]{0,12}`) }

func span() *rapid.Generator[time.Duration] {
	return rapid.Map(rapid.Int64Range(0, math.MaxInt64), func(n int64) time.Duration { return time.Duration(n) })
}

func some[T any](g *rapid.Generator[T]) *rapid.Generator[[]T] {
	return rapid.Map(rapid.SliceOfN(g, 0, 3), func(s []T) []T {
		if len(s) == 0 {
			return nil
		}
		return s
	})
}

func variable() *rapid.Generator[action.Variable] {
	return rapid.Custom(func(t *rapid.T) action.Variable {
		return action.Variable{Name: texts().Draw(t, "name"), Value: texts().Draw(t, "value")}
	})
}

func run() *rapid.Generator[action.Run] {
	return rapid.Custom(func(t *rapid.T) action.Run {
		return action.Run{
			Path: texts().Draw(t, "path"), Args: some(texts()).Draw(t, "args"), Dir: texts().Draw(t, "dir"),
			Env: some(variable()).Draw(t, "env"), User: plain().Draw(t, "user"),
			OpenFiles: rapid.IntRange(0, 1<<20).Draw(t, "files"), SuppressOutput: rapid.Bool().Draw(t, "suppress"),
		}
	})
}

func tree(depth int) *rapid.Generator[action.Action] {
	return rapid.Custom(func(t *rapid.T) action.Action {
		kinds := 9
		if depth == 0 {
			kinds = 3
		}
		switch rapid.IntRange(1, kinds).Draw(t, "kind") {
		case 2:
			return action.Action{Download: &action.Download{From: plain().Draw(t, "from"), To: "x", Unpack: true, CacheKey: "k",
				ChecksumAlgorithm: "sha256", ChecksumValue: "00", AllowUnpinned: true}}
		case 3:
			return action.Action{Upload: &action.Upload{From: "a", To: plain().Draw(t, "to")}}
		case 4:
			return action.Action{Serial: list(t, depth)}
		case 5:
			return action.Action{Parallel: list(t, depth)}
		case 6:
			return action.Action{Codependent: list(t, depth)}
		case 7:
			inner := tree(depth-1).Draw(t, "try")
			return action.Action{Try: &inner}
		case 8:
			return action.Action{Timeout: &action.Timeout{Action: tree(depth-1).Draw(t, "in"), After: span().Draw(t, "after")}}
		case 9:
			return action.Action{EmitProgress: &action.EmitProgress{Action: tree(depth-1).Draw(t, "in"), Start: "s",
				Success: "ok", FailureMessagePrefix: "bad"}}
		}
		r := run().Draw(t, "run")
		return action.Action{Run: &r}
	})
}

func list(t *rapid.T, depth int) []action.Action {
	return rapid.SliceOfN(tree(depth-1), 0, 3).Draw(t, "list")
}

func check() *rapid.Generator[action.Check] {
	return rapid.Custom(func(t *rapid.T) action.Check {
		c := action.Check{Timeout: span().Draw(t, "timeout"), StartupInterval: span().Draw(t, "startup"),
			Interval: span().Draw(t, "interval")}
		switch rapid.IntRange(0, 2).Draw(t, "kind") {
		case 0:
			c.HTTP = &action.HTTPCheck{Port: "web", Path: "/" + plain().Draw(t, "path")}
		case 1:
			c.TCP = &action.TCPCheck{Port: plain().Draw(t, "port")}
		default:
			r := run().Draw(t, "exec")
			c.Exec = &r
		}
		return c
	})
}

// Workloads draws any workload; spec and api tests use their own narrower ones.
func workload() *rapid.Generator[action.Workload] {
	return rapid.Custom(func(t *rapid.T) action.Workload {
		w := action.Workload{
			Action: tree(3).Draw(t, "action"), Sidecars: some(tree(1)).Draw(t, "sidecars"),
			Checks: some(check()).Draw(t, "checks"), ReadinessChecks: some(check()).Draw(t, "ready"),
			StartTimeout: span().Draw(t, "start"), TimeLimit: span().Draw(t, "limit"), Env: some(variable()).Draw(t, "env"),
			User: plain().Draw(t, "user"), MaxPids: rapid.IntRange(0, 1000).Draw(t, "pids"),
			Volumes: some(rapid.Custom(func(t *rapid.T) action.Volume {
				return action.Volume{Host: plain().Draw(t, "host"), Container: plain().Draw(t, "in"),
					ReadOnly: rapid.Bool().Draw(t, "ro")}
			})).Draw(t, "volumes"),
			Ports:     some(rapid.Just(action.Port{Name: "web", Fixed: 80})).Draw(t, "ports"),
			Isolation: action.Isolation(rapid.IntRange(0, 3).Draw(t, "isolation")), OwnNet: rapid.Bool().Draw(t, "net"),
			Rootfs: plain().Draw(t, "rootfs"), ResultFile: plain().Draw(t, "result"),
			Termination: action.Termination{
				Signal: rapid.IntRange(0, 64).Draw(t, "signal"), Grace: span().Draw(t, "grace"),
				LeftoverGrace: span().Draw(t, "leftover"),
				Mode:          action.KillMode(rapid.IntRange(0, 2).Draw(t, "mode")),
				Target:        action.KillTarget(rapid.IntRange(0, 2).Draw(t, "target")),
				ParentDeath:   rapid.IntRange(-1, 64).Draw(t, "death"), NoSession: rapid.Bool().Draw(t, "session"),
			},
			OnCellRestart: action.OnCellRestart(rapid.IntRange(0, 1).Draw(t, "restart")),
			LogRate:       rapid.IntRange(0, 1<<30).Draw(t, "rate"),
		}
		if rapid.Bool().Draw(t, "has resources") {
			w.Resources = resource.Amounts{resource.MemoryMB: rapid.IntRange(0, 1<<30).Draw(t, "mb")}
		}
		if rapid.Bool().Draw(t, "has setup") {
			a, b := tree(1).Draw(t, "setup"), tree(1).Draw(t, "monitor")
			w.Setup, w.Monitor = &a, &b
		}
		return w
	})
}

func TestWorkloadSurvivesBothEncodings(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := workload().Draw(rt, "workload")
		b, err := proto.Marshal(FromWorkload(w))
		if err != nil {
			rt.Fatal(err)
		}
		j, err := protojson.Marshal(FromWorkload(w))
		if err != nil {
			rt.Fatal(err)
		}
		for name, decode := range map[string]func(*pb.Workload) error{
			"binary": func(m *pb.Workload) error { return proto.Unmarshal(b, m) },
			"json":   func(m *pb.Workload) error { return protojson.Unmarshal(j, m) },
		} {
			m := &pb.Workload{}
			if err := decode(m); err != nil {
				rt.Fatalf("%s: %v", name, err)
			}
			got, err := ToWorkload(m)
			if err != nil {
				rt.Fatalf("%s: %v", name, err)
			}
			if d := cmp.Diff(w, got); d != "" {
				rt.Fatalf("%s changed it:\n%s", name, d)
			}
		}
	})
}

func TestMalformedWorkloads(t *testing.T) {
	ok := func() *pb.Workload {
		return &pb.Workload{Action: &pb.Action{Kind: &pb.Action_Run{Run: &pb.Run{Path: "/bin/true"}}}}
	}
	deep := ok().Action
	for range maxDepth {
		deep = &pb.Action{Kind: &pb.Action_Try{Try: deep}}
	}
	for name, c := range map[string]struct {
		change func(*pb.Workload)
		says   string
	}{
		"no action":     {func(w *pb.Workload) { w.Action = nil }, "action: no kind of step"},
		"too deep":      {func(w *pb.Workload) { w.Action = deep }, "nested too deeply"},
		"nil in a list": {func(w *pb.Workload) { w.Sidecars = []*pb.Action{nil} }, "sidecars[0]: no kind"},
		"NUL in env": {func(w *pb.Workload) {
			w.Env = []*pb.Variable{{Name: "A", Value: "b"},
				{Name: "B", Value: "x\x00y"}}
		}, "env[1]: NUL"},
		"NUL in raw env": {func(w *pb.Workload) { w.Env = []*pb.Variable{{Name: "A", RawValue: []byte{255, 0}}} },
			"env[0]: NUL"},
		"NUL in args": {func(w *pb.Workload) { w.Action.GetRun().Args = []string{"\x00"} }, "action.run.args: NUL"},
		"huge duration": {func(w *pb.Workload) { w.TimeLimit = &durationpb.Duration{Seconds: 300_000_000_000} },
			"time_limit"},
		"negative duration": {func(w *pb.Workload) { w.StartTimeout = durationpb.New(-1) }, "start_timeout"},
		"broken duration": {func(w *pb.Workload) { w.StartTimeout = &durationpb.Duration{Seconds: 1, Nanos: -1} },
			"start_timeout"},
		"isolation": {func(w *pb.Workload) { w.Isolation = 9 }, "isolation: unknown value 9"},
		"kill mode": {func(w *pb.Workload) { w.Termination = &pb.Termination{Mode: 7} }, "termination.mode"},
		"signal":    {func(w *pb.Workload) { w.Termination = &pb.Termination{Signal: 65} }, "no such signal"},
		"port":      {func(w *pb.Workload) { w.Ports = []*pb.Port{{Fixed: 70000}} }, "ports[0]: no such port"},
		"check":     {func(w *pb.Workload) { w.Checks = []*pb.Check{{}} }, "checks[0]: no kind of check"},
	} {
		t.Run(name, func(t *testing.T) {
			w := ok()
			c.change(w)
			_, err := ToWorkload(w)
			if !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("want ErrMalformed with %q, got %v", c.says, err)
			}
		})
	}
	if _, err := ToWorkload(nil); !errors.Is(err, ErrMalformed) {
		t.Fatal(err)
	}
}

func TestFence(t *testing.T) {
	i := fence.Invocation{Term: fence.Term{Epoch: 1 << 40, Revision: 7}, Counter: 3}
	if got := ToInvocation(FromInvocation(i)); got != i {
		t.Fatalf("got %v", got)
	}
	if FromInvocation(fence.Invocation{}) != nil || !ToInvocation(nil).IsZero() {
		t.Fatal("none stays none")
	}
}

func FuzzToWorkload(f *testing.F) {
	f.Add([]byte{})
	b, _ := proto.Marshal(FromWorkload(action.Workload{Action: action.Action{Run: &action.Run{Path: "/bin/true"}}}))
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		m := &pb.Workload{}
		if proto.Unmarshal(b, m) != nil {
			return
		}
		w, err := ToWorkload(m)
		if err != nil {
			return
		}
		back, err := ToWorkload(FromWorkload(w))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(w, back); d != "" {
			t.Fatal(d)
		}
	})
}

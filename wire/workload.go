package wire

import (
	"fmt"
	"strings"

	"cantina/action"
	"cantina/internal/text"
	pb "cantina/wire/cantinav1"
)

// maxDepth bounds the tree of steps: deeper ones are refused, so that no
// message can exhaust a reader's stack.
const maxDepth = 64

// FromWorkload is the wire form of w.
func FromWorkload(w action.Workload) *pb.Workload {
	return &pb.Workload{
		Setup:           fromActionPointer(w.Setup),
		Action:          FromAction(w.Action),
		Monitor:         fromActionPointer(w.Monitor),
		Sidecars:        fromActions(w.Sidecars),
		Checks:          each(w.Checks, fromCheck),
		ReadinessChecks: each(w.ReadinessChecks, fromCheck),
		StartTimeout:    FromDuration(w.StartTimeout),
		TimeLimit:       FromDuration(w.TimeLimit),
		Env:             FromEnv(w.Env),
		Secrets: each(w.Secrets, func(s action.SecretFile) *pb.SecretFile {
			return &pb.SecretFile{Name: text.Clean(s.Name), File: text.Clean(s.File)}
		}),
		Volumes: each(w.Volumes, func(v action.Volume) *pb.Volume {
			return &pb.Volume{Host: text.Clean(v.Host), Container: text.Clean(v.Container), ReadOnly: v.ReadOnly}
		}),
		User:          w.User,
		Resources:     FromAmounts(w.Resources),
		MaxPids:       int64(w.MaxPids),
		Ports:         each(w.Ports, func(p action.Port) *pb.Port { return &pb.Port{Name: p.Name, Fixed: int32(p.Fixed)} }),
		Isolation:     pb.Isolation(w.Isolation),
		OwnNet:        w.OwnNet,
		Rootfs:        w.Rootfs,
		ResultFile:    w.ResultFile,
		Termination:   fromTermination(w.Termination),
		OnCellRestart: pb.OnCellRestart(w.OnCellRestart),
		LogRate:       int64(w.LogRate),
		Api:           w.API,
		Labels:        text.CleanMap(w.Labels),
	}
}

// ToWorkload is the inverse of FromWorkload. It returns ErrMalformed with the
// place.
func ToWorkload(m *pb.Workload) (action.Workload, error) {
	if m == nil {
		return action.Workload{}, fmt.Errorf("workload missing: %w", ErrMalformed)
	}
	r := &reader{}
	w := action.Workload{
		Setup:           r.actionPointer("setup", m.Setup),
		Action:          r.action("action", m.Action, 0),
		Monitor:         r.actionPointer("monitor", m.Monitor),
		Sidecars:        r.actions("sidecars", m.Sidecars, 0),
		Checks:          r.checks("checks", m.Checks),
		ReadinessChecks: r.checks("readiness_checks", m.ReadinessChecks),
		StartTimeout:    r.duration("start_timeout", m.StartTimeout),
		TimeLimit:       r.duration("time_limit", m.TimeLimit),
		Env:             r.env("env", m.Env),
		Secrets: each(m.Secrets, func(s *pb.SecretFile) action.SecretFile {
			return action.SecretFile{Name: s.GetName(), File: s.GetFile()}
		}),
		Volumes: each(m.Volumes, func(v *pb.Volume) action.Volume {
			return action.Volume{Host: v.GetHost(), Container: v.GetContainer(), ReadOnly: v.GetReadOnly()}
		}),
		User:          r.text("user", m.User),
		Resources:     ToAmounts(m.Resources),
		MaxPids:       int(m.MaxPids),
		Ports:         r.ports(m.Ports),
		Isolation:     action.Isolation(r.enum("isolation", pb.Isolation_name, int32(m.Isolation))),
		OwnNet:        m.OwnNet,
		Rootfs:        r.text("rootfs", m.Rootfs),
		ResultFile:    r.text("result_file", m.ResultFile),
		Termination:   r.termination(m.Termination),
		OnCellRestart: action.OnCellRestart(r.enum("on_cell_restart", pb.OnCellRestart_name, int32(m.OnCellRestart))),
		LogRate:       int(m.LogRate),
		API:           m.Api,
		Labels:        m.Labels,
	}
	if r.err != nil {
		return action.Workload{}, fmt.Errorf("workload: %w", r.err)
	}
	return w, nil
}

// FromEnv is the wire form of an environment.
func FromEnv(env []action.Variable) []*pb.Variable {
	return each(env, func(v action.Variable) *pb.Variable {
		m := &pb.Variable{}
		m.Name, m.RawName = textOrRaw(v.Name)
		m.Value, m.RawValue = textOrRaw(v.Value)
		return m
	})
}

// ToEnv is the inverse of FromEnv. It returns ErrMalformed for NUL.
func ToEnv(env []*pb.Variable) ([]action.Variable, error) {
	r := &reader{}
	out := r.env("env", env)
	return out, r.err
}

func fromCheck(c action.Check) *pb.Check {
	m := &pb.Check{
		Timeout: FromDuration(c.Timeout), StartupInterval: FromDuration(c.StartupInterval),
		Interval: FromDuration(c.Interval),
	}
	switch {
	case c.HTTP != nil:
		m.Kind = &pb.Check_Http{Http: &pb.HTTPCheck{Port: c.HTTP.Port, Path: c.HTTP.Path}}
	case c.TCP != nil:
		m.Kind = &pb.Check_Tcp{Tcp: &pb.TCPCheck{Port: c.TCP.Port}}
	case c.Exec != nil:
		m.Kind = &pb.Check_Exec{Exec: fromRun(*c.Exec)}
	}
	return m
}

func (r *reader) checks(place string, ms []*pb.Check) []action.Check {
	return eachAt(ms, func(i int, m *pb.Check) action.Check {
		at := fmt.Sprintf("%s[%d]", place, i)
		c := action.Check{
			Timeout:         r.duration(at+".timeout", m.GetTimeout()),
			StartupInterval: r.duration(at+".startup_interval", m.GetStartupInterval()),
			Interval:        r.duration(at+".interval", m.GetInterval()),
		}
		switch k := m.GetKind().(type) {
		case *pb.Check_Http:
			c.HTTP = &action.HTTPCheck{Port: r.text(at+".http.port", k.Http.GetPort()),
				Path: r.text(at+".http.path", k.Http.GetPath())}
		case *pb.Check_Tcp:
			c.TCP = &action.TCPCheck{Port: r.text(at+".tcp.port", k.Tcp.GetPort())}
		case *pb.Check_Exec:
			run := r.run(at+".exec", k.Exec)
			c.Exec = &run
		default:
			r.fail(at, "no kind of check")
		}
		return c
	})
}

func (r *reader) ports(ms []*pb.Port) []action.Port {
	return eachAt(ms, func(i int, m *pb.Port) action.Port {
		at := fmt.Sprintf("ports[%d]", i)
		if m.GetFixed() < 0 || m.GetFixed() > 65535 {
			r.fail(at, "no such port")
		}
		return action.Port{Name: r.text(at+".name", m.GetName()), Fixed: int(m.GetFixed())}
	})
}

// FromMappings is the wire form of ports as they were given out.
func FromMappings(ms []action.Mapping) []*pb.Mapping {
	return each(ms, func(m action.Mapping) *pb.Mapping { return &pb.Mapping{Name: m.Name, Port: int32(m.Port)} })
}

// ToMappings is the inverse of FromMappings.
func ToMappings(ms []*pb.Mapping) []action.Mapping {
	return each(ms, func(m *pb.Mapping) action.Mapping {
		return action.Mapping{Name: m.GetName(),
			Port: int(m.GetPort())}
	})
}

func fromTermination(t action.Termination) *pb.Termination {
	if t == (action.Termination{}) {
		return nil
	}
	return &pb.Termination{
		Signal: int32(t.Signal), Grace: FromDuration(t.Grace), LeftoverGrace: FromDuration(t.LeftoverGrace),
		Mode: pb.KillMode(t.Mode), Target: pb.KillTarget(t.Target), ParentDeath: int32(t.ParentDeath), NoSession: t.NoSession,
	}
}

func (r *reader) termination(m *pb.Termination) action.Termination {
	if m == nil {
		return action.Termination{}
	}
	if m.Signal < 0 || m.Signal > 64 || m.ParentDeath < -1 || m.ParentDeath > 64 {
		r.fail("termination", "no such signal")
	}
	return action.Termination{
		Signal:        int(m.Signal),
		Grace:         r.duration("termination.grace", m.Grace),
		LeftoverGrace: r.duration("termination.leftover_grace", m.LeftoverGrace),
		Mode:          action.KillMode(r.enum("termination.mode", pb.KillMode_name, int32(m.Mode))),
		Target:        action.KillTarget(r.enum("termination.target", pb.KillTarget_name, int32(m.Target))),
		ParentDeath:   int(m.ParentDeath),
		NoSession:     m.NoSession,
	}
}

// text refuses NUL: no process can be given it.
func (r *reader) text(place, s string) string {
	if strings.IndexByte(s, 0) >= 0 {
		r.fail(place, "NUL")
	}
	return s
}

package action

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"cantina/label"
)

// Errors of a workload's fields.
var (
	// ErrRootfs reports a text that names no root file system.
	ErrRootfs = errors.New("bad rootfs")
	// ErrKeep reports work that cannot outlive its cell's process.
	ErrKeep = errors.New("keep needs an action that is one program, no sidecars, and a session of its own")
	// ErrNoWayIn reports ports of a container with a private network.
	ErrNoWayIn = errors.New("own_net has only a loopback interface: no other process could reach the ports")
)

var (
	pinned = regexp.MustCompile(`^(.+)@sha256:[0-9a-f]{64}$`)
	// host and port, path, tag
	reference = regexp.MustCompile(`^([A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]{1,5})?/)?` +
		`[a-z0-9]+([._/-]+[a-z0-9]+)*` + `(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?$`)
)

// CheckRootfs refuses a text that can name no root file system on any cell. Valid are: an absolute
// path of a directory or of an image's tarball, with an optional suffix @sha256:DIGEST, or a
// registry reference with that suffix. The error wraps ErrRootfs.
func CheckRootfs(text string) error {
	m := pinned.FindStringSubmatch(text)
	switch {
	case strings.HasPrefix(text, "/"):
		if m == nil && strings.Contains(text, "@sha256:") {
			return fmt.Errorf("%w %q: the digest behind @sha256: must have 64 hexadecimal digits", ErrRootfs, text)
		}
	case m != nil && reference.MatchString(m[1]):
	case m == nil && reference.MatchString(text):
		return fmt.Errorf("%w %q: an image of a registry is pinned by its digest, like %s@sha256:DIGEST "+
			"(a directory or a tarball needs its absolute path)", ErrRootfs, text, text)
	default:
		return fmt.Errorf("%w %q: neither the absolute path of a directory or a tarball nor an image of a registry "+
			"like NAME@sha256:DIGEST", ErrRootfs, text)
	}
	return nil
}

// Validate reports all errors of the workload that do not depend on a cell, each with the name of
// the field.
func (w *Workload) Validate() error {
	var errs []error
	bad := func(field string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", field, err))
		}
	}
	if w.User != "" {
		_, err := ParseUser(w.User)
		bad("user", err)
	}
	bad("env", CheckEnv(w.Env))
	bad("secrets", CheckSecrets(w.Secrets, w.Env))
	bad("volumes", w.CheckVolumes())
	for _, name := range slices.Sorted(maps.Keys(w.Labels)) {
		bad("labels", label.Check(name, w.Labels[name]))
	}
	w.EachRun(func(place string, r *Run) {
		if r.User != "" {
			_, err := ParseUser(r.User)
			bad(place+".user", err)
		}
		bad(place+".env", CheckEnv(r.Env))
		bad(place, r.CheckArguments(w.Env))
	})
	if w.Isolation == IsolationRootfs {
		bad("rootfs", CheckRootfs(w.Rootfs))
	}
	if w.OwnNet && len(w.Ports) > 0 {
		bad("ports", ErrNoWayIn)
	}
	bad("on_cell_restart", w.CheckKeep())
	return errors.Join(errs...)
}

// CheckKeep returns ErrKeep for work that is to outlive its cell's process and cannot: one
// shim holds one program.
func (w *Workload) CheckKeep() error {
	if w.OnCellRestart.Survives() && (w.Action.Run == nil || len(w.Sidecars) > 0 || w.Termination.NoSession) {
		return ErrKeep
	}
	return nil
}

// EachRun calls f with each program of the workload, also of its checks, and its place.
func (w *Workload) EachRun(f func(place string, r *Run)) {
	w.Setup.eachRun("setup", f)
	w.Action.eachRun("action", f)
	w.Monitor.eachRun("monitor", f)
	for i := range w.Sidecars {
		w.Sidecars[i].eachRun(fmt.Sprintf("sidecars[%d]", i), f)
	}
	for _, list := range [...]struct {
		name   string
		checks []Check
	}{{"checks", w.Checks}, {"readiness_checks", w.ReadinessChecks}} {
		for i := range list.checks {
			if r := list.checks[i].Exec; r != nil {
				f(fmt.Sprintf("%s[%d].exec", list.name, i), r)
			}
		}
	}
}

// The kinds of isolation that a machine may not be able to give.
const (
	KindNamespaces = "namespaces"
	KindRootfs     = "rootfs"
	KindOwnNet     = "own_net"
)

// Kinds are those that the workload needs, in order.
func (w *Workload) Kinds() []string {
	var out []string
	switch w.Isolation {
	case IsolationNamespaces:
		out = append(out, KindNamespaces)
	case IsolationRootfs:
		out = append(out, KindRootfs)
	case IsolationProcess, IsolationNone:
	}
	if w.OwnNet {
		out = append(out, KindOwnNet)
	}
	return out
}

// MostOpenFiles is the highest limit of open files among the programs of the workload; 0 = none.
func (w *Workload) MostOpenFiles() int {
	most := 0
	w.EachRun(func(_ string, r *Run) { most = max(most, r.OpenFiles) })
	return most
}

func (a *Action) eachRun(place string, f func(string, *Run)) {
	if a == nil {
		return
	}
	if a.Run != nil {
		f(place+".run", a.Run)
	}
	for _, list := range [...]struct {
		name  string
		steps []Action
	}{{"serial", a.Serial}, {"parallel", a.Parallel}, {"codependent", a.Codependent}} {
		for i := range list.steps {
			list.steps[i].eachRun(fmt.Sprintf("%s.%s[%d]", place, list.name, i), f)
		}
	}
	a.Try.eachRun(place+".try", f)
	if a.Timeout != nil {
		a.Timeout.Action.eachRun(place+".timeout.action", f)
	}
	if a.EmitProgress != nil {
		a.EmitProgress.Action.eachRun(place+".emit_progress.action", f)
	}
}

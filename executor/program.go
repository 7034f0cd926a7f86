package executor

import (
	"cmp"
	"errors"
	"fmt"
	"syscall"
	"time"

	"cantina/action"
	"cantina/cgroup"
	"cantina/executor/isolate"
	"cantina/logstore"
	"cantina/resource"
	"cantina/spawn"
)

func (c *container) processSpec(r *action.Run) (*spawn.Spec, error) {
	w := &c.spec.Workload
	if c.files.view == nil && (w.Isolation == action.IsolationNamespaces || w.Isolation == action.IsolationRootfs) {
		return nil, errNoView
	}
	who, err := c.files.identify(r)
	if err != nil {
		return nil, err
	}
	if who.cred != nil && w.Isolation != action.IsolationRootfs && c.e.spaces == nil {
		return nil, fmt.Errorf("user %q: this machine has no namespaces, which it needs to reach its directory",
			c.files.user(r))
	}
	if err := c.files.giveDir(who.cred, r.User == "" || r.User == w.User); err != nil {
		return nil, err
	}
	env, err := c.environment(r, &who)
	if err != nil {
		return nil, err
	}
	s := &spawn.Spec{Path: r.Path, Args: r.Args, Dir: r.Dir, Env: env, Credential: who.cred,
		Session: !w.Termination.NoSession, ParentDeath: c.programs.parentDeath(), Gain: w.Isolation == action.IsolationNone,
		OpenFiles: uint64(max(r.OpenFiles, 0))}
	if s.Dir == "" {
		s.Dir = cmp.Or(c.files.image.WorkingDir, c.files.insideDir())
	}
	if c.spec.StatusPipe {
		s.Status = &programStatus{statusSink: &c.status, c: c}
	}
	h := isolate.Hooks{}
	if c.files.view != nil {
		h = c.files.view.Hooks()
	}
	c.files.see(s, h)
	return s, nil
}

// errNoView reports an adopted container whose view cannot be made again, for lack of its image or its volumes: no
// program starts without its isolation.
var errNoView = errors.New("the isolation of the adopted container cannot be made again")

// see gives a process its view, from which its user gets to the container's directory.
func (fl *files) see(s *spawn.Spec, h isolate.Hooks) {
	if s.Credential != nil && fl.spec.Workload.Isolation != action.IsolationRootfs {
		h = isolate.Reach(fl.e.spaces, h, fl.dir, s.Credential)
	}
	s.CloneFlags, s.Enter, s.Mounts = h.CloneFlags, h.Enter, h.Mounts
}

// parentDeath is choice a of "Bistro task termination".
func (ps *programs) parentDeath() (sig syscall.Signal) {
	t := &ps.spec.Workload.Termination
	switch {
	case ps.keep() || t.ParentDeath < 0:
		return 0
	case t.ParentDeath > 0:
		return syscall.Signal(t.ParentDeath)
	}
	ps.with(func(now tracker) { sig = now.parentDeath() })
	return sig
}

// source is the source of the container's output in the log store.
func (o *order) source() logstore.Source {
	return logstore.Source{ID: o.id, Labels: o.labels, Attempt: o.labels[LabelAttempt]}
}

func (o *order) limits() cgroup.Limits {
	w := &o.spec.Workload
	l := cgroup.Limits{
		MemoryBytes: int64(w.Resources[resource.MemoryMB]) << 20,
		CPUMilli:    w.Resources[resource.CPUMilli],
		Pids:        w.MaxPids,
	}
	if o.keep() && l.Pids > 0 {
		l.Pids += shimThreads
	}
	return l
}

// start starts one program of the container.
func (c *container) start(r *action.Run, out, errs sink, pa patience) (*spawn.Process, error) {
	if err := c.e.keeper.wait(c.bound); err != nil {
		return nil, err
	}
	s, err := c.processSpec(r)
	if err != nil {
		return nil, err
	}
	return c.launch(s, r, out, errs, pa)
}

func (c *container) launch(s *spawn.Spec, r *action.Run, out, errs sink, pa patience) (*spawn.Process, error) {
	if !r.SuppressOutput && !c.hidden {
		s.Stdout, s.Stderr = out, errs
	}
	p, err := c.programs.startProcess(s)
	if err == nil && p.Hangs() {
		err = c.starting.awaitLaunch(p, r.Path, pa)
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

// patience is how long a start that hangs is waited for.
type patience struct {
	over  <-chan struct{} // it is no longer wanted
	limit time.Duration   // its remaining process; 0 = none
	said  time.Duration   // its full description
}

func (s *starting) setPid(pid int) {
	s.c.e.mu.Lock()
	s.c.begin(pid, s.c.e.clock.Wall())
	s.c.e.mu.Unlock()
}

// remaining is the rest of a limit, at least a little; 0 stays no limit.
func (c *container) remaining(limit time.Duration) time.Duration {
	if limit <= 0 {
		return 0
	}
	return max(limit-c.spent, 1)
}

// shimThreads is how many threads a shim may have; they count as pids.
const shimThreads = 8

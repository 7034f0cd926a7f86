package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"cantina/spawn"
)

// ErrHangs reports a program that the kernel does not come back from looking for: it,
// or its directory, is on a file system that does not answer.
var ErrHangs = errors.New("the start hangs in the kernel")

// patienceOf is that of the container's own programs.
func (s *starting) patienceOf(ctx context.Context) patience {
	limit := s.c.spec.Workload.StartTimeout
	s.c.e.mu.Lock()
	early := s.c.state < Running
	s.c.e.mu.Unlock()
	left := limit
	if early && limit > 0 && s.c.begun > 0 {
		left = max(limit-(s.c.e.clock.Boot()-s.c.begun), 1)
	}
	return patience{ctx.Done(), left, limit}
}

// awaitLaunch waits for the outcome of a hanging start. It blocks only this container.
func (s *starting) awaitLaunch(p *spawn.Process, program string, pa patience) error {
	if err := s.await(p.Launched(), p, program, func() []int { return []int{p.Pid} }, pa); err != nil {
		return err
	}
	return p.LaunchError()
}

// await waits until a start is done, and meanwhile reports the processes in which it hangs. If it
// is no longer waited for, it kills p.
func (s *starting) await(done <-chan struct{}, p *spawn.Process, program string, hanging func() []int,
	pa patience) error {
	limit := timer(pa.limit)
	look := time.NewTicker(hangsAfter)
	defer look.Stop()
	reported := false
	defer func() { s.endHang(reported) }()
	for {
		select {
		case <-done:
			return nil
		case <-look.C:
			reported = s.setHang(reported, program, hanging())
			continue
		case <-pa.over:
		case <-limit:
		}
		if (p.Look() || !s.inKernel(hanging())) && comes(done) { // it has run meanwhile: its maker was slow, or stopped
			return nil
		}
		err := pa.gaveUp(program, hanging())
		p.Signal(syscall.SIGKILL)
		return err
	}
}

// inKernel reports whether one of the processes waits in the kernel, and cannot be interrupted.
func (s *starting) inKernel(pids []int) bool {
	return slices.ContainsFunc(describeAll(pids), func(p StuckProcess) bool { return p.State == "D" })
}

// gaveUp is the error of a start that is no longer waited for.
func (pa patience) gaveUp(program string, pids []int) error {
	where := whereTexts(describeAll(pids))
	select {
	case <-pa.over:
		return fmt.Errorf("start %s: %w: %s", program, ErrHangs, where)
	default:
	}
	return fmt.Errorf("start %s: not started within %v: %w: %s", program, pa.said, ErrHangs, where)
}

// setHang records that a start hangs and where, once; it returns whether to report that.
func (s *starting) setHang(reported bool, program string, pids []int) bool {
	h := &Hang{Since: s.c.e.clock.Wall(), Program: program, Processes: describeAll(pids)}
	runs := func(p StuckProcess) bool { return p.State == "R" || p.State == "?" }
	if reported || !slices.ContainsFunc(h.Processes, func(p StuckProcess) bool { return !runs(p) }) {
		return reported
	}
	s.c.e.mu.Lock()
	first := s.c.startHangs(h)
	s.c.e.mu.Unlock()
	if first {
		s.c.e.log.Warn("start hangs", "container", s.c.id, "where", h.String())
		if !s.c.hidden {
			s.c.note("%s", h)
		}
		s.c.e.emit(EventStuck, s.c)
	}
	return true
}

// endHang records that one start less hangs, if that was reported.
func (s *starting) endHang(reported bool) {
	if !reported {
		return
	}
	s.c.e.mu.Lock()
	last := s.c.startGoesOn()
	s.c.e.mu.Unlock()
	if last {
		s.c.e.emit(EventStuck, s.c)
	}
}

// hangingStart reports whether a start that was given up still hangs; one that was only
// slow hangs no more.
func (ps *programs) hangingStart() bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return slices.ContainsFunc(ps.processes, (*spawn.Process).Hanging)
}

package executor

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"cantina/action"
	"cantina/cgroup"
	"cantina/executor/isolate"
	"cantina/executor/step"
)

// checkProcess is a program of a check. It is over when none of the processes that it started is
// left.
type checkProcess struct {
	stepProcess
	part part
	over chan struct{} // closed when nothing is left, or does not die
}

// errCheckLeft reports that a check has left processes that survive KILL: then no further check is
// started.
var errCheckLeft = errors.New("what an earlier check started does not die")

// startCheck starts a program that looks at the container from inside.
func (h *stepHost) startCheck(ctx context.Context, r *action.Run, out, errs sink) (step.Process, error) {
	c := h.c
	if c.programs.hangingStart() {
		return nil, fmt.Errorf("an earlier check: %w", ErrHangs) // one is enough
	}
	if err := c.programs.checksLeft(); err != nil {
		return nil, err
	}
	s, err := c.processSpec(r)
	if err != nil {
		return nil, err
	}
	s.Status = nil
	c.e.mu.Lock()
	number, pid := c.check()
	c.e.mu.Unlock()
	k := &checkProcess{stepProcess: stepProcess{h: h}, over: make(chan struct{})}
	if c.files.view != nil && pid != 0 {
		c.files.see(s, isolate.Join(c.e.spaces, pid))
		s.ParentDeath = 0
	}
	if k.part, err = c.programs.tracker.part(strconv.Itoa(number), s); err != nil {
		return nil, err
	}
	if k.p, err = c.launch(s, r, out, errs, patience{over: ctx.Done()}); err != nil {
		c.programs.endPart(k.part, 0)
		return nil, err
	}
	go k.end() // it ends with the program; one that does not die holds nothing up
	return k, nil
}

// end waits for the program and ends its remaining processes.
func (k *checkProcess) end() {
	defer close(k.over)
	<-k.p.Done()
	k.h.c.programs.endPart(k.part, k.p.Pid)
	k.p.CloseOutput()
	k.h.c.e.keeper.gone(k.p)
}

// endPart ends the processes of a check. Those that survive stay in the container.
func (ps *programs) endPart(p part, main int) {
	if err := p.end(main, ps.e.cfg.StuckAfter); err != nil {
		ps.mu.Lock()
		ps.unkilled = append(ps.unkilled, p)
		ps.mu.Unlock()
		ps.note("check: %v", err)
	}
}

// checksLeft returns why no check may be started beside the remaining processes of earlier ones.
func (ps *programs) checksLeft() error {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for len(ps.unkilled) > 0 {
		if ps.unkilled[0].Remove() != nil {
			return errCheckLeft
		}
		ps.unkilled = ps.unkilled[1:]
	}
	return nil
}

// Done is closed when the program has ended, and its processes.
func (k *checkProcess) Done() <-chan struct{} { return k.over }

// Ended collects the end of the program; its processes are being ended then.
func (k *checkProcess) Ended() bool {
	k.p.Look()
	return isClosed(k.over)
}

// Kill kills the program and all that it started.
func (k *checkProcess) Kill() {
	k.stepProcess.Kill()
	k.part.Kill()
}

// Stop kills it: its further output is not needed.
func (k *checkProcess) Stop() { k.Kill() }

// endOfPredecessor ends the remaining processes of an adopted container's checks after the end of
// its cell.
func (ps *programs) endOfPredecessor() {
	for _, g := range cgroup.At(ps.adoptedFrom.Group).Parts() {
		ps.endPart(groupPart{g}, 0)
	}
}

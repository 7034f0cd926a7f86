package executor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	"cantina/action"
	"cantina/cgroup"
	"cantina/executor/isolate"
	"cantina/executor/step"
	"cantina/internal/proctree"
)

// checkProcess is a program of a check. It is over when none of the processes that it started is
// left: it has its own group within the container's, and counts for the container's limits;
// without groups, its processes are identified by a mark.
type checkProcess struct {
	stepProcess
	part *cgroup.Group // nil where there are no groups
	mark string        // in the environment then
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
	n := strconv.Itoa(number)
	k := &checkProcess{stepProcess: stepProcess{h: h}, over: make(chan struct{})}
	if c.files.view != nil && pid != 0 {
		c.files.see(s, isolate.Join(c.e.spaces, pid))
		s.ParentDeath = 0
	}
	if c.programs.group != nil {
		if k.part, err = c.programs.group.Part(n); err != nil {
			return nil, err
		}
		s.Group = k.part
	} else {
		k.mark = fmt.Sprintf("%s=%d-%s-%s", proctree.MarkName, os.Getpid(), c.id, n)
		s.Env = append(s.Env, k.mark)
	}
	if k.p, err = c.launch(s, r, out, errs, patience{over: ctx.Done()}); err != nil {
		c.programs.endPart(k.part)
		return nil, err
	}
	go k.end() // it ends with the program; one that does not die holds nothing up
	return k, nil
}

// end waits for the program and ends its remaining processes.
func (k *checkProcess) end() {
	defer close(k.over)
	c := k.h.c
	<-k.p.Done()
	switch {
	case k.part != nil:
		c.programs.endPart(k.part)
	case k.mark != "":
		if err := proctree.EndMarked(k.mark, k.p.Pid, c.e.cfg.StuckAfter); err != nil {
			c.note("check: pid %d: %v", k.p.Pid, err)
		}
	}
	k.p.CloseOutput()
	c.e.keeper.gone(k.p)
}

// endPart ends the processes in a group of a check. Those that survive stay in the container.
func (ps *programs) endPart(g *cgroup.Group) {
	if g == nil {
		return
	}
	if err := proctree.EndGroup(g, ps.e.cfg.StuckAfter); err != nil {
		ps.mu.Lock()
		ps.unkilled = append(ps.unkilled, g)
		ps.mu.Unlock()
		ps.note("check: %v", err)
	}
}

// checksLeft returns why no check may be started beside the remaining processes of earlier ones.
func (ps *programs) checksLeft() error {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for len(ps.unkilled) > 0 {
		if g := ps.unkilled[0]; g.Remove() != nil {
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
	k.p.Look()
	k.told.isNow()
	if k.part == nil || k.part.Kill() != nil {
		k.stepProcess.Kill()
	}
}

// Stop kills it: its further output is not needed.
func (k *checkProcess) Stop() { k.Kill() }

// endOfPredecessor ends the remaining processes of an adopted container's checks after the end of
// its cell.
func (ps *programs) endOfPredecessor() {
	if ps.group == nil {
		return
	}
	for _, g := range ps.group.Parts() {
		ps.endPart(g)
	}
}

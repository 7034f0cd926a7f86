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

// checkProcess is a program of a check. It is over when nothing of what it started is left:
// it has a group of its own within the container's, and counts for the container's limits;
// where there are no groups, what it started is known by a mark.
type checkProcess struct {
	stepProcess
	part *cgroup.Group // nil where there are no groups
	mark string        // in the environment then
	over chan struct{} // closed when nothing is left, or does not die
}

// errCheckLeft reports that a check has left what does not die: then no more of them is started.
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

// end waits for the program and ends what it has left.
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

// endPart ends what is in a group of a check. What does not die stays the container's.
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

// checksLeft returns why no check may be started beside what earlier ones have left.
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

// Done is closed when the program has ended, and what it started.
func (k *checkProcess) Done() <-chan struct{} { return k.over }

// Ended takes the end of the program; what it started is being ended then.
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

// Stop kills it: nobody waits for what it would still say.
func (k *checkProcess) Stop() { k.Kill() }

// endOfPredecessor ends what the checks of an adopted container left when its cell ended.
func (ps *programs) endOfPredecessor() {
	if ps.group == nil {
		return
	}
	for _, g := range ps.group.Parts() {
		ps.endPart(g)
	}
}

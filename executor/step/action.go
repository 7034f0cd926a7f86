package step

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"cantina/action"
)

// giveUp is how long after KILL a program is waited for. (Diego executor, Run step.)
const giveUp = time.Second

// scope is where in the workload an action stands.
type scope struct {
	main    bool           // part of the action proper
	check   bool           // part of the monitor
	out     io.WriteCloser // of check programs
	started func()         // called when a program has started; may be nil
}

// do runs one action of the tree to its end.
func (p *program) do(ctx context.Context, a *action.Action, s scope) error {
	if ctx.Err() != nil {
		return canceled(ctx)
	}
	switch {
	case a.Run != nil:
		return p.andNotFull(p.run(ctx, a.Run, s), s)
	case a.Download != nil:
		return p.andNotFull(p.download(ctx, a.Download), s)
	case a.Upload != nil:
		return p.upload(ctx, a.Upload)
	case a.Serial != nil:
		return p.serial(ctx, a.Serial, s)
	case a.Parallel != nil:
		return p.parallel(ctx, a.Parallel, s)
	case a.Codependent != nil:
		return p.codependent(ctx, a.Codependent, s)
	case a.Try != nil:
		return p.try(ctx, a.Try, s)
	case a.Timeout != nil:
		return p.timeout(ctx, a.Timeout, s)
	case a.EmitProgress != nil:
		return p.emitProgress(ctx, a.EmitProgress, s)
	}
	return ErrEmpty
}

// andNotFull is err, or why nothing may come after a step that has gone well.
func (p *program) andNotFull(err error, s scope) error {
	if err != nil || s.check {
		return err
	}
	return p.h.Full()
}

func (p *program) serial(ctx context.Context, actions []action.Action, s scope) error {
	for i := range actions {
		if err := p.do(ctx, &actions[i], s); err != nil {
			return err
		}
	}
	return nil
}

// parallel waits for all and joins what they say.
func (p *program) parallel(ctx context.Context, actions []action.Action, s scope) error {
	errs := make([]error, len(actions))
	var group sync.WaitGroup
	for i := range actions {
		group.Go(func() { errs[i] = p.do(ctx, &actions[i], s) })
	}
	group.Wait()
	return p.gather(ctx, errs)
}

// gather joins errors; when ctx has ended the cancellations say nothing of their own. What
// had ended before is not canceled.
func (p *program) gather(ctx context.Context, errs []error) error {
	kept := make([]error, 0, len(errs))
	ended := true
	for _, err := range errs {
		ended = ended && !errors.Is(err, ErrCanceled)
		if err != nil && (!errors.Is(err, ErrCanceled) || errors.Is(err, ErrStuck)) {
			kept = append(kept, err)
		}
	}
	if ctx.Err() != nil && !ended {
		return join(append([]error{canceled(ctx)}, kept...)...)
	}
	return join(kept...)
}

// codependent ends all when one ends; success counts as an error, because the
// others were needed too.
func (p *program) codependent(ctx context.Context, actions []action.Action, s scope) error {
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, len(actions))
	var group sync.WaitGroup
	for i := range actions {
		group.Go(func() {
			err := p.do(inner, &actions[i], s)
			if err == nil && inner.Err() == nil {
				err = ErrEnded
			}
			errs[i] = err
			cancel()
		})
	}
	group.Wait()
	return p.gather(ctx, errs)
}

// try swallows errors, but neither cancellation nor a program that does not end. What had
// ended by itself before it could be canceled was not.
func (p *program) try(ctx context.Context, a *action.Action, s scope) error {
	err := p.do(ctx, a, s)
	if errors.Is(err, ErrCanceled) || errors.Is(err, ErrStuck) {
		return err
	}
	return nil
}

// timeout cancels its action when the time is over.
func (p *program) timeout(ctx context.Context, t *action.Timeout, s scope) error {
	over := &TimeoutError{After: t.After}
	inner, cancel := p.e.clock.Until(ctx, p.e.clock.Boot()+t.After, over)
	defer cancel()
	err := p.do(inner, &t.Action, s)
	if err == nil || ctx.Err() != nil || !errors.Is(context.Cause(inner), error(over)) || !errors.Is(err, ErrCanceled) {
		return err
	}
	var j joined
	if errors.As(err, &j) {
		over.Err = join(j[1:]...)
	} else if errors.Is(err, ErrStuck) {
		over.Err = ErrStuck
	}
	return over
}

func (p *program) emitProgress(ctx context.Context, e *action.EmitProgress, s scope) error {
	note := func(line string) {
		if line != "" {
			p.o.Note(line)
		}
	}
	note(e.Start)
	err := p.do(ctx, &e.Action, s)
	switch {
	case err == nil:
		note(e.Success)
	case e.FailureMessagePrefix != "":
		note(e.FailureMessagePrefix + ": " + Reason(err))
	}
	return err
}

// run runs a program. When ctx ends it is stopped.
func (p *program) run(ctx context.Context, r *action.Run, s scope) error {
	p.starts.Add(1)
	proc, err := p.h.Start(ctx, Launch{Run: r, Out: s.out, Check: s.check})
	p.starts.Add(-1)
	if err != nil {
		if ctx.Err() != nil {
			return canceled(ctx)
		}
		return &StartError{r.Path, err}
	}
	if s.main {
		p.mu.Lock()
		p.last = proc
		p.mu.Unlock()
	}
	if s.started != nil {
		s.started()
	}
	select {
	case <-proc.Done():
	case <-ctx.Done():
	}
	if !proc.Ended() && !p.end(proc, s.check) {
		return join(canceled(ctx), prefixStuck(r.Path))
	}
	if ctx.Err() != nil && proc.Exit().Stopped {
		return canceled(ctx)
	}
	return exitError(r, proc) // by itself, perhaps just before it was told to stop
}

func prefixStuck(path string) error { return prefix(path, ErrStuck) }

func exitError(r *action.Run, proc Process) error {
	if e := proc.Exit(); e.Code != 0 || e.Signal != 0 {
		return &ExitError{Path: r.Path, Exit: e, Process: proc}
	}
	return nil
}

// end stops a program as the workload's termination says; false when it does not
// end. A check's program is killed at once: nobody waits for what it would say.
func (p *program) end(proc Process, check bool) bool {
	t := &p.w.Termination
	mode, grace := t.Mode, t.Grace
	if grace <= 0 {
		grace = action.DefaultGrace
	}
	if check {
		mode = action.KillNow
	}
	if mode != action.KillNow {
		proc.Stop()
	}
	if mode == action.KillTerm {
		<-proc.Done() // KILL is left to the reaper
		return true
	}
	if mode == action.KillTermWaitKill && within(proc, grace) {
		return true
	}
	proc.Kill()
	return within(proc, giveUp)
}

func within(proc Process, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-proc.Done():
		return true
	case <-t.C:
		return proc.Ended()
	}
}

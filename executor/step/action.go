package step

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"cantina/action"
)

// giveUp is how long after KILL a program is waited for. (Diego executor, Run step.)
const giveUp = time.Second

// scope is the place of an action in the workload.
type scope struct {
	main    bool           // part of the action proper
	check   bool           // part of the monitor
	out     io.WriteCloser // of check programs
	started func()         // called when a program has started; may be nil
	// decided is called, before the first signal, if programs of the action are yet to be ended but
	// its result is known; it may be called again. nil = not needed
	decided func(error)
}

// deciding is s for a part of an action: the outcome of the part is handed to f.
func (s scope) deciding(f func(error)) scope {
	if s.decided != nil {
		s.decided = f
	}
	return s
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
		part := s.deciding(func(err error) {
			if err != nil || i == len(actions)-1 {
				s.decided(err)
			}
		})
		if err := p.do(ctx, &actions[i], part); err != nil {
			return err
		}
	}
	return nil
}

// parallel waits for all and joins their errors.
func (p *program) parallel(ctx context.Context, actions []action.Action, s scope) error {
	f := newFan(len(actions))
	decide := func(i int, err error, ended bool) {
		// Those that run are canceled too, if this one was.
		if errs, ok := f.note(i, err, ended, !ended && ctx.Err() != nil); ok && s.decided != nil {
			s.decided(p.gather(ctx, errs))
		}
	}
	var group sync.WaitGroup
	for i := range actions {
		group.Go(func() {
			decide(i, p.do(ctx, &actions[i], s.deciding(func(err error) { decide(i, err, false) })), true)
		})
	}
	group.Wait()
	return p.gather(ctx, f.errs)
}

// fan is how the parts of an action end that run side by side.
type fan struct {
	mu    sync.Mutex
	errs  []error
	known []bool // it has ended, or it is known how it will
	open  int    // how many have not ended
}

func newFan(n int) *fan { return &fan{errs: make([]error, n), known: make([]bool, n), open: n} }

// note records how a part ends, or has ended, and returns the result of all if some have yet to
// end and it is known; with rest, those without a known end are canceled.
func (f *fan) note(i int, err error, ended, rest bool) ([]error, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.errs[i], f.known[i] = err, true
	if ended {
		f.open--
	}
	errs := slices.Clone(f.errs)
	for j, known := range f.known {
		if !known && !rest {
			return nil, false
		}
		if !known {
			errs[j] = ErrCanceled
		}
	}
	return errs, f.open > 0
}

// gather joins errors; when ctx has ended, cancellations add no information. A part that had ended
// before is not canceled.
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
	f := newFan(len(actions))
	note := func(i int, err error, ended bool) []error {
		if err == nil && inner.Err() == nil {
			err = ErrEnded
		}
		errs, _ := f.note(i, err, ended, true)
		return errs
	}
	var group sync.WaitGroup
	for i := range actions {
		group.Go(func() {
			part := s.deciding(func(err error) { s.decided(p.gather(ctx, note(i, err, false))) })
			note(i, p.do(inner, &actions[i], part), true)
			cancel()
		})
	}
	group.Wait()
	return p.gather(ctx, f.errs)
}

// try ignores errors, except cancellation and a program that does not end. A part that had ended
// on its own before the cancellation was not canceled.
func (p *program) try(ctx context.Context, a *action.Action, s scope) error {
	retry := func(err error) error {
		if errors.Is(err, ErrCanceled) || errors.Is(err, ErrStuck) {
			return err
		}
		return nil
	}
	return retry(p.do(ctx, a, s.deciding(func(err error) { s.decided(retry(err)) })))
}

// timeout cancels its action when the time is over.
func (p *program) timeout(ctx context.Context, t *action.Timeout, s scope) error {
	over := &TimeoutError{After: t.After}
	inner, cancel := p.e.clock.Until(ctx, p.e.clock.Boot()+t.After, over)
	defer cancel()
	end := func(err error) error {
		if err == nil || ctx.Err() != nil || !errors.Is(context.Cause(inner), error(over)) || !errors.Is(err, ErrCanceled) {
			return err
		}
		exceeded := &TimeoutError{After: t.After}
		var j joined
		if errors.As(err, &j) {
			exceeded.Err = join(j[1:]...)
		} else if errors.Is(err, ErrStuck) {
			exceeded.Err = ErrStuck
		}
		return exceeded
	}
	return end(p.do(inner, &t.Action, s.deciding(func(err error) { s.decided(end(err)) })))
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
	if !proc.Ended() {
		if s.decided != nil {
			s.decided(canceled(ctx))
		}
		if !p.end(proc, s.check) {
			return join(canceled(ctx), prefixStuck(r.Path))
		}
	}
	switch exit := proc.Exit(); {
	case exit.TimeLimit:
		return &limitError{p.w.TimeLimit}
	case exit.Killed || ctx.Err() != nil && exit.Stopped:
		return canceled(ctx)
	}
	return exitError(r, proc) // on its own, perhaps just before it was stopped
}

func prefixStuck(path string) error { return prefix(path, ErrStuck) }

func exitError(r *action.Run, proc Process) error {
	if e := proc.Exit(); e.Code != 0 || e.Signal != 0 {
		return &ExitError{Path: r.Path, Exit: e, Process: proc}
	}
	return nil
}

// end stops a program according to the workload's termination; false if it does not end. A check's
// program is killed at once: its further output is not needed.
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
	select {
	case <-proc.Done():
		return true
	case <-time.After(d):
		return proc.Ended()
	}
}

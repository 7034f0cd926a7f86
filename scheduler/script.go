package scheduler

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// ErrScript reports a script of a node source that did not do its work.
var ErrScript = errors.New("script failed")

// maxOutput bounds what one run of a script may print, in bytes.
const maxOutput = 64 << 20

// Programs runs the scripts of node sources as processes of this machine, each in
// a session of its own that ends with it.
type Programs struct {
	// Env is the environment of scripts ("NAME=value").
	Env []string
	// Dir is their working folder; empty = this process's.
	Dir string
}

// Output runs a program to its end. It returns ErrScript for an exit status other
// than 0, a time-out (0 = 30 s), or more output than is taken.
func (p Programs) Output(ctx context.Context, argv []string, timeout time.Duration) ([]byte, error) {
	if timeout <= 0 {
		timeout = 30 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.Env, c.Dir = p.Env, p.Dir
	// The signal at the parent's death goes by the thread that started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = time.Second
	out, words := &limited{most: maxOutput}, &limited{most: 4096}
	c.Stdout, c.Stderr = out, words
	err := c.Run()
	if c.Process != nil {
		// Whatever it left behind in its group.
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
	}
	switch {
	case ctx.Err() == context.DeadlineExceeded:
		return nil, fmt.Errorf("%w: time-out after %v", ErrScript, timeout)
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case out.over:
		return nil, fmt.Errorf("%w: printed more than %d bytes", ErrScript, maxOutput)
	case err != nil:
		return nil, fmt.Errorf("%w: %w: %s", ErrScript, err, bytes.TrimSpace(words.Bytes()))
	}
	return out.Bytes(), nil
}

// limited keeps the first bytes; the rest is dropped, and noted.
type limited struct {
	bytes.Buffer
	most int
	over bool
}

func (l *limited) Write(p []byte) (int, error) {
	if room := l.most - l.Len(); len(p) > room {
		l.over = true
		l.Buffer.Write(p[:max(room, 0)])
		return len(p), nil
	}
	return l.Buffer.Write(p)
}

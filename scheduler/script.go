package scheduler

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"cantina/internal/proctree"
)

// ErrScript reports a script of a node source that did not do its work.
var ErrScript = errors.New("script failed")

// maxOutput limits the output of one run of a script, in bytes.
const maxOutput = 64 << 20

// Programs runs the scripts of node sources as processes of this machine. Processes that a script
// has started end with it.
type Programs struct {
	// ByMark makes no control groups: processes of a script are found without.
	ByMark bool
	// Env is the environment of scripts ("NAME=value").
	Env []string
	// Dir is their working directory; empty = this process's.
	Dir string
}

// Output runs a program to its end. It returns ErrScript for an exit status other than 0, a
// timeout (0 = 30 s), or too much output.
func (p Programs) Output(ctx context.Context, argv []string, timeout time.Duration) ([]byte, error) {
	if timeout <= 0 {
		timeout = 30 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	out, words, err := p.run(ctx, argv)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return nil, fmt.Errorf("%w: timeout after %v", ErrScript, timeout)
	case errors.Is(err, context.Canceled):
		return nil, context.Canceled
	case out.over:
		return nil, fmt.Errorf("%w: printed more than %d bytes", ErrScript, maxOutput)
	case err != nil:
		return nil, fmt.Errorf("%w: %w: %s", ErrScript, err, bytes.TrimSpace(words.Bytes()))
	}
	return out.Bytes(), nil
}

// left is how long after the end of a script its processes are waited for.
const left = 2 * time.Second

// run runs a program, and ends its processes when it has ended, or ctx is done.
func (p Programs) run(ctx context.Context, argv []string) (out, words *limited, err error) {
	out, words = &limited{most: maxOutput}, &limited{most: 4096}
	kin := proctree.New(p.ByMark)
	c := exec.Command(argv[0], argv[1:]...)
	c.Env, c.Dir = p.Env, p.Dir
	// The signal at the parent's death goes by the thread that started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	kin.Prepare(c)
	read, err := collect(c, out, words)
	if err != nil {
		return out, words, errors.Join(err, kin.End(0, left))
	}
	ended := make(chan error, 1)
	err = c.Start()
	pid := 0
	if err == nil {
		pid = c.Process.Pid
		go func() { ended <- c.Wait() }()
		select {
		case err = <-ended:
		case <-ctx.Done():
			if hasEnded(pid) { // while this server was stopped
				err = <-ended
				break
			}
			_ = c.Process.Kill()
			err = errors.Join(ctx.Err(), <-ended)
		}
	}
	lerr := kin.End(pid, left)
	read()
	if err == nil {
		err = lerr
	}
	return out, words, err
}

// hasEnded reports whether a child has ended, even if other code waits for it.
func hasEnded(pid int) bool {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return err != nil || info.Signo != 0
		}
	}
}

// collect gives a command pipes for its output, and returns a function to call when it has ended.
// That function waits until all has been read and the pipes are closed, at most for a second.
func collect(c *exec.Cmd, out, words io.Writer) (finish func(), err error) {
	var ends []*os.File
	var group sync.WaitGroup
	for _, w := range []io.Writer{out, words} {
		r, child, err := os.Pipe()
		if err != nil {
			for _, f := range ends {
				f.Close()
			}
			group.Wait()
			return nil, err
		}
		if c.Stdout == nil {
			c.Stdout = child
		} else {
			c.Stderr = child
		}
		ends = append(ends, child, r)
		group.Go(func() { _, _ = io.Copy(w, r) }) // the output read so far is the result
	}
	return func() {
		for i, f := range ends {
			if i%2 == 0 {
				f.Close()
			} else {
				_ = f.SetReadDeadline(time.Now().Add(time.Second)) // a pipe takes one
			}
		}
		group.Wait()
		for i, f := range ends {
			if i%2 == 1 {
				f.Close()
			}
		}
	}, nil
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

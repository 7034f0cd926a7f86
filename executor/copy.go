package executor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"cantina/executor/place"
	"cantina/executor/reaper"
	"cantina/spawn"
)

// ErrOutside reports a path that leads out of the container.
var ErrOutside = errors.New("path leads out of the container")

// CopyOut writes a file or a directory of a running container as a tar stream; the names begin
// with the base name of path. No link leads out of the container: its directory, or its whole root
// if it has one. Only the copy hangs on a file system that does not respond: when ctx ends, the
// error is ErrHangs.
func (e *Executor) CopyOut(ctx context.Context, id, name string, w io.Writer) error {
	c, p, err := e.copyPlace(id, name)
	if err == nil {
		err = c.runCopy(ctx, "pack", p, nil, w)
	}
	if err != nil {
		return fmt.Errorf("copy %s from %s: %w", name, id, err)
	}
	return nil
}

// CopyIn unpacks a tar stream into a directory of a running container, which it creates if it is
// missing. The files belong to the container's user. Hangs are handled as in CopyOut.
func (e *Executor) CopyIn(ctx context.Context, id, name string, r io.Reader) error {
	c, p, err := e.copyPlace(id, name)
	if err == nil {
		err = c.runCopy(ctx, "unpack", p, r, nil)
	}
	if err != nil {
		return fmt.Errorf("copy %s to %s: %w", name, id, err)
	}
	return nil
}

// copyPlace is the part of a container that may be copied from and to.
func (e *Executor) copyPlace(id, name string) (*container, place.Place, error) {
	var p place.Place
	c, pid, err := e.target(id)
	if err != nil {
		return nil, p, err
	}
	inside := c.files.dir
	if p.Root = c.files.dir; c.files.view != nil {
		p.Root, inside = "/proc/"+strconv.Itoa(pid)+"/root", "/"
	}
	if !path.IsAbs(name) {
		name = path.Join(c.files.insideDir(), name)
	}
	p.Path, err = filepath.Rel(inside, path.Clean(name))
	if err != nil || !filepath.IsLocal(p.Path) {
		return nil, p, fmt.Errorf("%s: %w", name, ErrOutside)
	}
	if err := c.files.own(&p); err != nil {
		return nil, p, err
	}
	return c, p, nil
}

// runCopy has a process of the container pack or unpack: the cell itself looks up no
// path that may be on a file system that does not answer.
func (c *container) runCopy(ctx context.Context, verb string, at place.Place, in io.Reader, out io.Writer) error {
	text, err := json.Marshal(at)
	if err != nil {
		return err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("open stream: %w", err)
	}
	er, ew, err := os.Pipe()
	if err != nil {
		return errors.Join(fmt.Errorf("open stream: %w", err), r.Close(), w.Close())
	}
	null := c.e.null.Fd()
	s := &spawn.Spec{Path: c.e.keeper.path, Name: reaper.Name, Args: []string{verb, string(text)}, Session: true,
		Gain: true, Env: []string{"GOMAXPROCS=1"},
		Files: []uintptr{null, w.Fd(), ew.Fd()}}
	near, far := r, w
	if in != nil {
		near, far, s.Files = w, r, []uintptr{r.Fd(), null, ew.Fd()}
	}
	p, err := c.startBeside(s)
	far.Close()
	ew.Close()
	if err != nil {
		return errors.Join(err, near.Close(), er.Close())
	}
	var streams sync.WaitGroup
	var said note
	var serr error
	streams.Go(func() { _, _ = io.Copy(&said, er) }) // its output is only an explanation
	streams.Go(func() {
		if in == nil {
			_, serr = io.Copy(out, near)
			return
		}
		_, serr = io.Copy(near, in)
		if errors.Is(serr, syscall.EPIPE) {
			serr = nil // it had enough, or reports why not
		}
		near.Close()
	})
	err = awaitCopy(ctx, p, at, &streams, near, er)
	if text := strings.TrimPrefix(strings.TrimSpace(said.String()), reaper.Name+": "); err == nil && text != "" {
		err = errors.New(text)
	}
	if err == nil {
		if r := p.Result(); r.ExitCode != 0 || r.Signal != 0 {
			err = fmt.Errorf("ended with status %d, signal %d", r.ExitCode, r.Signal)
		}
	}
	return errors.Join(err, serr)
}

// awaitCopy waits for a copy and its streams. A copy that is no longer waited for is killed, and
// if it survives it stays with the container.
func awaitCopy(ctx context.Context, p *spawn.Process, at place.Place,
	streams *sync.WaitGroup, near, er *os.File) error {
	defer func() {
		streams.Wait()
		near.Close()
		er.Close()
	}()
	select {
	case <-p.Done():
		return nil
	case <-ctx.Done():
	}
	p.Signal(syscall.SIGKILL)
	var err error
	select {
	case <-p.Done():
		err = ctx.Err()
	case <-time.After(killedAfter):
		err = fmt.Errorf("/%s: %w: %s", at.Path, ErrHangs, whereTexts(describeAll([]int{p.Pid})))
	}
	now := time.Now() // ends hanging reads and writes
	return errors.Join(err, near.SetDeadline(now), er.SetDeadline(now))
}

// killedAfter is how soon a process that was killed is gone, unless it hangs.
const killedAfter = 500 * time.Millisecond

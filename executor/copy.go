package executor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"sync"
	"syscall"
	"time"

	"cantina/executor/place"
	"cantina/executor/reaper"
	"cantina/resource"
	"cantina/spawn"
)

// CopySpec is one copy of a file or a directory.
type CopySpec struct {
	Path string // in the container; relative to its directory
	Name string // of the file or directory in the stream: see place.Unpack
	User string // whose rights are used; empty = the workload's
}

// CopyOut writes a file or a directory of a running container as a tar stream (place.Pack), as its
// processes see it and with the rights of its user. Only the copy hangs on a file system that does
// not respond: when ctx ends, the error is ErrHangs.
func (e *Executor) CopyOut(ctx context.Context, id string, s CopySpec, w io.Writer) error {
	c, t, err := e.copyTree(id, s)
	if err == nil {
		err = c.runCopy(ctx, "pack", t, nil, w)
	}
	return err
}

// CopyIn unpacks a tar stream in a running container (place.Unpack), as its processes see it and
// with the rights of its user, to whom the files belong. Hangs are handled as in CopyOut.
func (e *Executor) CopyIn(ctx context.Context, id string, s CopySpec, r io.Reader) error {
	c, t, err := e.copyTree(id, s)
	if err == nil {
		err = c.runCopy(ctx, "unpack", t, r, nil)
	}
	return err
}

// copyTree finds a container, and the way to a path of it.
func (e *Executor) copyTree(id string, s CopySpec) (*container, place.Tree, error) {
	t := place.Tree{Name: s.Name}
	c, pid, err := e.target(id)
	if err != nil {
		return nil, t, err
	}
	if os.Geteuid() == 0 { // others have one root for all
		t.Root = fmt.Sprintf("/proc/%d/root", pid)
	}
	if t.Path = s.Path; !path.IsAbs(t.Path) {
		t.Path = cmp.Or(c.files.image.WorkingDir, c.files.insideDir()) + "/" + t.Path
	}
	if mb := c.spec.Workload.Resources[resource.DiskMB]; mb > 0 {
		t.Most = int64(mb) << 20
	}
	return c, t, c.files.own(&t.Place, s.User)
}

// runCopy has a process of the container pack or unpack: the cell itself looks up no
// path that may be on a file system that does not answer.
func (c *container) runCopy(ctx context.Context, verb string, at place.Tree, in io.Reader, out io.Writer) error {
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
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
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
		if serr != nil {
			cancel() // a part is not taken for the whole
			return
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
func awaitCopy(ctx context.Context, p *spawn.Process, at place.Tree,
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
		err = fmt.Errorf("%s: %w: %s", at.Path, ErrHangs, whereTexts(describeAll([]int{p.Pid})))
	}
	now := time.Now() // ends hanging reads and writes
	return errors.Join(err, near.SetDeadline(now), er.SetDeadline(now))
}

// killedAfter is how soon a process that was killed is gone, unless it hangs.
const killedAfter = 500 * time.Millisecond

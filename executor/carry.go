package executor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"cantina/action"
	"cantina/executor/place"
	"cantina/executor/reaper"
	"cantina/spawn"
)

// carry has a process of the container put or take a file that is outside its directory: the
// cell itself touches no path that may be on a file system that does not answer.
func (h *stepHost) carry(ctx context.Context, verb string, f place.File) (err error) {
	c := h.c
	if verb == "take" {
		defer func() {
			if err != nil { // the copy is of no use
				err = errors.Join(err, removeIfThere(f.Path))
			}
		}()
	}
	f.Become = f.At.Owned
	text, err := json.Marshal(f)
	if err != nil {
		return err
	}
	if err := c.e.keeper.wait(c.bound); err != nil {
		return err
	}
	var said note
	p, err := c.programs.startProcess(&spawn.Spec{Path: c.e.keeper.path, Name: reaper.Name,
		Args: []string{verb, string(text)}, Session: true, ParentDeath: c.programs.parentDeath(),
		Gain: c.spec.Workload.Isolation == action.IsolationNone,
		Env:  []string{"GOMAXPROCS=1"}, Stdout: &said, Stderr: &said})
	if err != nil {
		return err
	}
	if err := c.starting.awaitCarrier(ctx, p, "/"+strings.TrimPrefix(f.At.Path, "/")); err != nil {
		return err
	}
	p.CloseOutput()
	if r := p.Result(); r.ExitCode != 0 || r.Signal != 0 {
		text := strings.TrimPrefix(strings.TrimSpace(said.String()), reaper.Name+": ")
		if text == "" {
			text = fmt.Sprintf("ended with status %d, signal %d", r.ExitCode, r.Signal)
		}
		return errors.New(text)
	}
	return nil
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// awaitCarrier waits for the end of a carrier. One without progress hangs; one that is no longer
// waited for is killed, and if it survives it stays with the container.
func (s *starting) awaitCarrier(ctx context.Context, p *spawn.Process, what string) error {
	look := time.NewTicker(hangsAfter)
	defer look.Stop()
	reported, before := false, ""
	defer func() { s.endHang(reported) }()
	for {
		select {
		case <-p.Done():
			return nil
		case <-look.C:
			now := progress(p.Pid)
			if now == before {
				reported = s.setHang(reported, what, []int{p.Pid})
			}
			before = now
			continue
		case <-ctx.Done():
		}
		if p.Look() {
			return nil
		}
		err := fmt.Errorf("%s: %w: %s", what, ErrHangs, whereTexts(describeAll([]int{p.Pid})))
		p.Signal(syscall.SIGKILL)
		return err
	}
}

// progress is a text that stays the same while a process does nothing.
func progress(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	if err != nil {
		return ""
	}
	return string(b)
}

// note keeps the first 4 KiB of a helper's messages.
type note struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write stores the message.
func (n *note) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.b.Write(p[:min(len(p), max(0, 4096-n.b.Len()))])
	return len(p), nil
}

// Close does nothing: both streams share the note.
func (n *note) Close() error { return nil }

func (n *note) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.b.String()
}

// Package proctree ends all processes that a program has started, directly or not, once the
// program itself has ended or must end: also processes that ignore TERM, have their own session or
// have lost their parent. So a health check, or the script of a node source, leaves no process
// behind.
//
// With a unified control group (v2) the program gets its own below that of this process, and no
// process escapes. Elsewhere its processes are identified by a mark in their environment, by their
// session and by their parents: a process that has dropped all three is not found.
//
// The scheduler uses a Tree for its scripts. The executor has its own groups for its checks, and
// uses EndMarked without groups. Others do not use it.
package proctree

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"cantina/cgroup"
	"cantina/spawn/procid"
)

// MarkName is the variable whose value identifies a process tree.
const MarkName = "CANTINA_BROOD"

// ErrLeft reports that something does not die although it was killed.
var ErrLeft = errors.New("something does not die although it was killed")

// Tree is one program and all that it starts. Its methods are for one goroutine.
type Tree struct {
	mark  string
	group *cgroup.Group // nil: marked alone
	fd    int
}

const groupPrefix = "cantina-process tree-"

// New prepares a process tree; the caller calls End. It never fails: without a group, or with
// byMark, there is the mark.
func New(byMark bool) *Tree {
	raw := make([]byte, 8)
	_, _ = rand.Read(raw) // it never fails
	self, err := procid.Of(os.Getpid())
	name := fmt.Sprintf("%d-%d-%x", os.Getpid(), self.Start, raw)
	b := &Tree{mark: MarkName + "=" + name, fd: -1}
	if byMark || err != nil {
		return b
	}
	host, err := cgroup.Detect()
	if err != nil || host.Unified == nil || host.Unified.SelfDir() == "" {
		return b
	}
	sweep(host.Unified.SelfDir())
	dir := filepath.Join(host.Unified.SelfDir(), groupPrefix+name)
	if os.Mkdir(dir, 0o755) != nil {
		return b
	}
	g := cgroup.At(dir)
	if fd, err := g.OpenDir(); err == nil && fd >= 0 {
		b.group, b.fd = g, fd
		return b
	}
	_ = g.Remove() // it is empty
	return b
}

// sweep ends the remaining processes of a process that is gone.
func sweep(self string) {
	found, err := filepath.Glob(filepath.Join(self, groupPrefix+"*"))
	if err != nil {
		return
	}
	for _, dir := range found {
		f := strings.Split(strings.TrimPrefix(filepath.Base(dir), groupPrefix), "-")
		if len(f) != 3 {
			continue
		}
		pid, err1 := strconv.Atoi(f[0])
		start, err2 := strconv.ParseUint(f[1], 10, 64)
		id := procid.Identity{Pid: pid, Start: start}
		if err1 == nil && err2 == nil && errors.Is(id.Look(), procid.ErrGone) {
			g := cgroup.At(dir)
			_, _ = g.Kill(), g.Remove() // the next sweep continues
		}
	}
}

// Prepare makes a command start in the process tree, in its own session.
func (b *Tree) Prepare(c *exec.Cmd) {
	if c.SysProcAttr == nil {
		c.SysProcAttr = &syscall.SysProcAttr{}
	}
	c.SysProcAttr.Setsid = true
	c.Env = append(c.Environ(), b.mark)
	if b.group != nil {
		c.SysProcAttr.UseCgroupFD, c.SysProcAttr.CgroupFD = true, b.fd
	}
}

// End kills the remaining processes and waits until they are gone, at most for limit; session is
// the pid of the program, which was waited for. ErrLeft.
func (b *Tree) End(session int, limit time.Duration) error {
	if b.group == nil {
		return EndMarked(b.mark, session, limit)
	}
	if b.fd >= 0 {
		syscall.Close(b.fd)
		b.fd = -1
	}
	return EndGroup(b.group, limit)
}

// EndGroup kills all in a group until it can be removed, at most for limit. ErrLeft.
func EndGroup(g *cgroup.Group, limit time.Duration) error {
	return repeat(limit, func() (bool, error) {
		if g.Remove() == nil {
			return true, nil
		}
		return false, g.Kill()
	})
}

// repeat calls try until it is done, with growing pauses.
func repeat(limit time.Duration, try func() (done bool, err error)) error {
	end := time.Now().Add(limit)
	for pause := 500 * time.Microsecond; ; pause = min(2*pause, 50*time.Millisecond) {
		done, err := try()
		if done {
			return nil
		}
		if time.Now().After(end) {
			return errors.Join(ErrLeft, err)
		}
		time.Sleep(pause)
	}
}

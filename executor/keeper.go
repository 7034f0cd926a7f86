package executor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"cantina/cgroup"
	"cantina/executor/reaper"
	"cantina/executor/reaperbin"
	"cantina/internal/run"
	"cantina/spawn"
	"cantina/spawn/procid"
)

// restartReaper is how long a new reaper is delayed if the last one died at once.
const restartReaper = 200 * time.Millisecond

func newKeeper(e *Executor) (*keeper, error) {
	k := &keeper{e: e, path: e.cfg.Reaper, adopted: e.recovery.adopted, ready: make(chan struct{}), drained: true,
		kills: map[string]int64{}, records: map[int]record{}}
	if k.path != "" {
		return k, nil
	}
	f, err := reaperbin.Open()
	if err != nil {
		return nil, err
	}
	k.program, k.path = f, fmt.Sprintf("/proc/self/fd/%d", f.Fd())
	return k, nil
}

// wait returns when something may be started: the reaper is there and the
// deadline has not passed.
func (k *keeper) wait(bound bool) error {
	for !k.up.Load() {
		k.mu.Lock()
		ready, ended := k.ready, k.ended
		k.mu.Unlock()
		if ended {
			return ErrClosed
		}
		<-ready
	}
	if bound && k.e.deadlines.pastDeadline() {
		return ErrDeadline
	}
	return nil
}

// run keeps a reaper running until ctx is done.
func (k *keeper) run(ctx context.Context) error {
	defer k.close()
	for {
		began := time.Now()
		err := k.serve(ctx)
		if ctx.Err() != nil {
			return nil
		}
		k.e.log.Warn("reaper ended", "error", err)
		if time.Since(began) > time.Second {
			continue
		}
		if run.Pause(ctx, restartReaper) != nil {
			return nil
		}
	}
}

func (k *keeper) close() {
	k.mu.Lock()
	k.ended = true
	if !k.up.Load() {
		close(k.ready)
	}
	k.mu.Unlock()
	if k.program != nil {
		k.program.Close()
	}
}

// serve runs one reaper until it ends.
func (k *keeper) serve(ctx context.Context) error {
	p, sock, err := k.start()
	if err != nil {
		return err
	}
	defer sock.Close()
	read, goesOn := make(chan struct{}), make(chan bool, 1)
	go func() {
		defer close(read)
		k.read(sock, p)
	}()
	stop := context.AfterFunc(ctx, func() {
		bye := k.e.emptyNow() && !k.e.keepsBound()
		if bye {
			k.send("bye")
		}
		sock.Close()
		goesOn <- !bye
	})
	defer stop()
	select {
	case <-p.Done():
		err = fmt.Errorf("reaper %d: %+v", p.Pid, p.Result())
	case without := <-goesOn:
		if err = ctx.Err(); !without {
			k.dismiss(p)
		}
	}
	sock.Close()
	<-read
	k.down()
	return err
}

// dismiss waits for the end of a reaper that has no work left. One that does not end, because it
// is stopped, is killed; the cell does not wait for one that survives.
func (k *keeper) dismiss(p *spawn.Process) {
	for _, wait := range []time.Duration{k.e.cfg.KillWait, k.e.cfg.StuckAfter} {
		select {
		case <-p.Done():
			return
		case <-time.After(wait):
		}
		k.e.log.Warn("reaper does not end", "pid", p.Pid, "waited", wait)
		p.Signal(unix.SIGKILL)
	}
}

func (k *keeper) start() (*spawn.Process, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("start reaper: %w", err)
	}
	sock := os.NewFile(uintptr(fds[0]), "reaper")
	args := []string{"watch", strconv.FormatInt(k.e.cfg.KillWait.Milliseconds(), 10)}
	for _, dir := range k.e.backend.classDirs(classStopBound, classStopFree) {
		args = append(args, "stop="+dir)
	}
	for _, dir := range k.e.backend.classDirs(classKeepBound) {
		args = append(args, "keep="+dir)
	}
	for _, pattern := range k.e.backend.Patterns() {
		args = append(args, "clean="+pattern)
	}
	p, err := k.e.launcher.Start(&spawn.Spec{Path: k.path, Name: reaper.Name, Args: args, Session: true, Gain: true,
		Env:   []string{"GOMAXPROCS=2"},
		Files: []uintptr{uintptr(fds[1]), k.e.null.Fd(), os.Stderr.Fd()}})
	unix.Close(fds[1])
	if err != nil {
		sock.Close()
		return nil, nil, err
	}
	// Other processes may be killed for lack of memory, not this one.
	os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", p.Pid), []byte("-900"), 0)
	if err := k.e.recovery.remember(p.Pid); err != nil {
		k.e.log.Warn("a successor will not know the reaper", "error", err)
	}
	k.mu.Lock()
	k.sock, k.reaper = sock, p
	k.mu.Unlock()
	return p, sock, nil
}

// read takes the reaper's messages until it is gone.
func (k *keeper) read(sock *os.File, p *spawn.Process) {
	buf := make([]byte, 8192)
	for {
		n, err := sock.Read(buf)
		if err != nil || n == 0 {
			return
		}
		word, rest, _ := strings.Cut(string(buf[:n]), " ")
		switch word {
		case "ready":
			if !k.sendAll() {
				continue // it is ended
			}
			k.mu.Lock()
			k.up.Store(true)
			close(k.ready)
			k.mu.Unlock()
			k.releaseOldReapers(p.Pid)
		case "expired":
			k.onExpired(rest)
		case "drained":
			k.onDrained(rest)
		}
	}
}

// releaseOldReapers releases the reapers of predecessors: the present one holds their deadlines.
func (k *keeper) releaseOldReapers(pid int) {
	k.e.mu.Lock()
	none := len(k.e.recovery.oldReapers) == 0
	k.e.mu.Unlock()
	if none {
		return
	}
	k.e.recovery.stopOldReapers()
	if err := k.e.recovery.remember(pid); err != nil {
		k.e.log.Warn("a successor will look for reapers that are gone", "error", err)
	}
}

func (k *keeper) down() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.up.Swap(false) {
		k.ready = make(chan struct{})
	}
	k.sock, k.reaper = nil, nil
}

// sendAll sends a new reaper the present state. It reports whether that has received all of it.
func (k *keeper) sendAll() bool {
	k.mu.Lock()
	var records []string
	for _, r := range k.records {
		records = append(records, r.message)
	}
	kills := maps.Clone(k.kills)
	k.drained = true
	k.mu.Unlock()
	ok := true
	for _, r := range records {
		ok = ok && k.send(r)
	}
	now := int64(k.e.clock.Boot())
	for dir, at := range kills {
		ok = ok && k.sendKill(dir, time.Duration(at-now))
	}
	k.e.deadlines.expired.Store(false)
	k.thawClosed()
	return k.sendDeadlines() && ok
}

// thawClosed thaws processes in the classes that a reaper closed before it ended: that froze them,
// and the new one has no record of it. It closes classes itself whose processes may not run now.
func (k *keeper) thawClosed() {
	k.e.mu.Lock()
	frozen := k.e.freezer.frozen // by Ctrl-Z: all is thawed with it
	k.e.mu.Unlock()
	if frozen {
		return
	}
	kinds := []string{classStopFree}
	if !k.e.deadlines.pastDeadline() {
		kinds = append(kinds, classStopBound, classKeepBound)
	}
	for _, dir := range k.e.backend.classDirs(kinds...) {
		if err := cgroup.At(dir).Thaw(); err != nil {
			k.e.log.Warn("class is not thawed", "class", dir, "error", err)
		}
	}
}

// send sends the reaper a message, and reports whether that has been put on its way. A reaper that
// accepts nothing for a second is replaced: the next one gets all messages.
func (k *keeper) send(m string) bool {
	k.mu.Lock()
	sock, reaper := k.sock, k.reaper
	k.mu.Unlock()
	if sock == nil {
		return false
	}
	sock.SetWriteDeadline(time.Now().Add(time.Second))
	_, err := sock.Write([]byte(m))
	if err == nil {
		return true
	}
	k.e.log.Warn("reaper does not listen", "error", err)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		reaper.Signal(unix.SIGKILL)
	}
	return false
}

// kill has the reaper kill a group in a while.
func (k *keeper) kill(dir string, in time.Duration) {
	in = max(in, 0)
	k.mu.Lock()
	k.kills[dir] = int64(k.e.clock.Boot() + in)
	k.mu.Unlock()
	k.sendKill(dir, in)
}

func (k *keeper) sendKill(dir string, in time.Duration) bool {
	return k.send("kill " + dir + " " + strconv.FormatInt(max(in, 0).Milliseconds(), 10))
}

// spare takes a kill back: the group is gone, and the next one of its name is
// another's.
func (k *keeper) spare(dir string) {
	k.mu.Lock()
	_, there := k.kills[dir]
	delete(k.kills, dir)
	k.mu.Unlock()
	if there {
		k.send("spare " + dir)
	}
}

// record reports a process to the reaper that no group has, and records it for a successor.
func (k *keeper) record(c *container, p *spawn.Process) error {
	id, err := procid.Of(p.Pid)
	if errors.Is(err, procid.ErrGone) {
		return nil
	}
	if err != nil {
		return err
	}
	t := &c.spec.Workload.Termination
	bound, stop := "free", "stop"
	if c.bound {
		bound = "bound"
	}
	if c.keep() {
		stop = "keep"
	}
	m := fmt.Sprintf("proc %d %d %s %s %d %d", p.Pid, id.Start, bound, stop, stopSignal(t), grace(t).Milliseconds())
	k.mu.Lock()
	k.records[p.Pid] = record{p, m}
	k.mu.Unlock()
	k.send(m)
	if p.Closed() { // before it was in the records, so that it was not removed
		k.gone(p)
	}
	k.sendDeadlines()
	return c.programs.notes.add(c.files.dir, id)
}

// gone reports to the reaper that a process has been waited for, unless a later one has its
// number.
func (k *keeper) gone(p *spawn.Process) {
	k.mu.Lock()
	own := k.records[p.Pid].process == p
	if own {
		delete(k.records, p.Pid)
	}
	k.mu.Unlock()
	if own {
		k.send("gone " + strconv.Itoa(p.Pid))
	}
}

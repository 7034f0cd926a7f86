package executor

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cantina/action"
)

// Numbers of the FUSE protocol (Linux, include/uapi/linux/fuse.h).
const (
	fuseLookup  = 1
	fuseGetattr = 3
	fuseInit    = 26
	fuseInHead  = 40 // bytes of a request before its own part
	fuseOutHead = 16
)

// hungMount mounts a file system whose server takes the look-up of a name and never
// answers it: whoever looked hangs in the kernel and heeds not even KILL. It
// returns the folder, and what lets all go.
func hungMount(t *testing.T) (string, func()) {
	t.Helper()
	needRoot(t)
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skip("skipped: no FUSE here: ", err)
	}
	dir := t.TempDir()
	if err := unix.Mount("cantina-test", dir, "fuse", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fd)); err != nil {
		unix.Close(fd)
		t.Skip("skipped: cannot mount FUSE here: ", err)
	}
	conn := os.NewFile(uintptr(fd), "/dev/fuse")
	served := make(chan struct{})
	go func() {
		defer close(served)
		buf := make([]byte, 1<<17)
		for {
			n, err := unix.Read(fd, buf)
			if err == unix.EINTR {
				continue
			}
			if err != nil || n < fuseInHead || !answer(fd, buf) {
				return
			}
		}
	}()
	released := false
	release := func() {
		if released {
			return
		}
		released = true
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
		<-served // by a look-up; without one the unmount ended it
		conn.Close()
	}
	t.Cleanup(release)
	return dir, release
}

// answer answers a request to begin or about the top folder. It returns false for
// a look-up, which nobody will answer.
func answer(fd int, request []byte) bool {
	var body []byte
	switch binary.NativeEndian.Uint32(request[4:]) {
	case fuseInit:
		body = make([]byte, 64)
		binary.NativeEndian.PutUint32(body[0:], 7)
		binary.NativeEndian.PutUint32(body[4:], 31)
		binary.NativeEndian.PutUint32(body[20:], 4096) // the largest write
	case fuseGetattr:
		body = make([]byte, 16+88)
		binary.NativeEndian.PutUint64(body[16:], 1)              // the number of the top folder
		binary.NativeEndian.PutUint32(body[16+60:], 0o40755)     // its mode
		binary.NativeEndian.PutUint32(body[16+64:], 2)           // links
		binary.NativeEndian.PutUint64(body[0:], uint64(1<<32-1)) // seconds that this holds
	case fuseLookup:
		return false
	}
	head := make([]byte, fuseOutHead, fuseOutHead+len(body))
	binary.NativeEndian.PutUint32(head[0:], uint32(fuseOutHead+len(body)))
	if body == nil { // not known to this server
		unknown := -int32(unix.ENOSYS)
		binary.NativeEndian.PutUint32(head[4:], uint32(unknown))
	}
	copy(head[8:], request[8:16]) // the request's number
	_, err := unix.Write(fd, append(head, body...))
	return err == nil
}

func TestStuckInAHungMount(t *testing.T) {
	dir, release := hungMount(t)
	e := testExecutor(t, func(c *Config) { c.StuckAfter = 200 * time.Millisecond })
	needGroups(t, e)
	flag := filepath.Join(t.TempDir(), "up")
	s := sh(fmt.Sprintf("echo > %s; exec cat %s/name", flag, dir))
	s.Workload.Termination.Mode = action.KillNow
	if err := e.Launch(Reservation{ID: "x"}, s); err != nil {
		t.Fatal(err)
	}
	awaitFile(t, flag)
	c := await(t, e, "x", runningState)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !strings.Contains(describe(c.Pid).Where, "fuse") && !strings.Contains(describe(c.Pid).Where, "request_wait") {
		<-tick.C
	}
	if err := e.Delete("x"); err != nil {
		t.Fatal(err)
	}
	c = await(t, e, "x", func(c Container, there bool) bool { return !there || c.Stuck != nil })
	if c.Stuck == nil || len(c.Stuck.Processes) != 1 || c.Stuck.Processes[0].Command != "cat" || !strings.Contains(c.Stuck.String(), "request_wait_answer") {
		t.Errorf("%v %+v", c.State, c.Stuck)
	}
	t.Log(c.Stuck)
	if d := launch(t, e, "other", sh("true")); d.Result.Failed {
		t.Errorf("beside it: %+v", d.Result)
	}
	release()
	await(t, e, "x", gone)
}
